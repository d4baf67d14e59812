"""A loaded model of the MiniLM family: token ids in, vectors out. Importing it costs what its libraries cost."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, cast

import numpy as np
import onnxruntime as ort  # pyright: ignore[reportMissingTypeStubs]
import tokenizers

from keeps.models.base import Vectors

_LONGEST_CHARS: Final = 4096
"""What comes later in a text lies far behind the last token that counts; splitting it would be work for nothing."""


class Encoder:
    """Not for two threads at once."""

    def __init__(self, tokenizer: bytes, model: bytes) -> None:
        """`tokenizer`, `model`: the two files, already checked. Raises what the libraries raise."""
        self._tokenizer = tokenizers.Tokenizer.from_str(tokenizer.decode())
        self._tokenizer.no_padding()
        self._tokenizer.no_truncation()
        self._session = cast(Any, ort).InferenceSession(model, _options(), providers=["CPUExecutionProvider"])

    def tokens(self, text: str, limit: int) -> list[int]:
        """The ids of a text, at most `limit` of them, the marks of beginning and end among them."""
        # Half of a pair cannot be written as UTF-8, and the tokenizer would refuse the whole text for it.
        clean = text[:_LONGEST_CHARS].encode("utf-8", "replace").decode()
        ids = self._tokenizer.encode(clean).ids
        return ids if len(ids) <= limit else [*ids[: limit - 1], ids[-1]]

    def run(self, batch: Sequence[Sequence[int]]) -> Vectors:
        """One vector of length 1 for each list of ids: the mean over its tokens."""
        width = max(map(len, batch))
        ids = np.zeros((len(batch), width), np.int64)
        mask = np.zeros((len(batch), width), np.int64)
        for row, given in enumerate(batch):
            ids[row, : len(given)] = given
            mask[row, : len(given)] = 1
        feed = {"input_ids": ids, "attention_mask": mask, "token_type_ids": np.zeros_like(ids)}
        hidden = cast(Vectors, self._session.run(["last_hidden_state"], feed)[0])
        means = np.einsum("bth,bt->bh", hidden, mask.astype(np.float32)) / mask.sum(axis=1, keepdims=True)
        return (means / np.linalg.norm(means, axis=1, keepdims=True)).astype(np.float32)


def _options() -> Any:
    options = cast(Any, ort).SessionOptions()
    options.intra_op_num_threads = 1
    options.inter_op_num_threads = 1
    # A thread that waits by spinning takes the core that a request needs.
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    # More than this is fusing for this very processor: no faster here, and vectors should not depend on the machine.
    options.graph_optimization_level = cast(Any, ort).GraphOptimizationLevel.ORT_ENABLE_BASIC
    # Runs are short: an arena would keep the most that one ever took, and saves no time.
    options.enable_cpu_mem_arena = False
    options.enable_mem_pattern = False
    options.log_severity_level = 3
    return options
