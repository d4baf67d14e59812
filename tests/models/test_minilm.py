"""The default embedder: its two files, what it knows, who goes first in its thread, and how much one run takes."""

from __future__ import annotations

import asyncio
import gc
import shutil
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from keeps.core.spaces import Space
from keeps.models import minilm as module
from keeps.models.base import EmbedderLost
from keeps.models.minilm import TOKENIZER, WEIGHTS, MiniLM, installed, runs

# --- what it knows ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("question", "near", "far"),
    [
        ("Where does she live?", "Her home is in Porto.", "She likes green tea."),
        ("How do I get my money back?", "Refunds are paid within a week.", "The cat sleeps on the sofa."),
        ("A kitten rested on the rug.", "The cat sat on the mat.", "Interest rates rose in March."),
        ("My car broke down.", "The vehicle stopped working.", "Dinner is at eight."),
        ("What is he allergic to?", "Peanuts make him ill.", "He works at a bank."),
    ],
)
async def test_what_means_the_same_is_nearer(minilm: MiniLM, question: str, near: str, far: str) -> None:
    asked = (await minilm.embed([question], asking=True))[0]
    rows = await minilm.embed([near, far])
    assert rows[0] @ asked > rows[1] @ asked + 0.1


async def test_vectors_are_those_of_the_weights(minilm: MiniLM) -> None:
    # Measured once. Another file, another way to pool or another cut into tokens would give other numbers. Sums of
    # products of bytes are rounded otherwise by other processors, hence the room.
    rows = await minilm.embed(["The cat sat on the mat", "A kitten rested on the rug", "Interest rates rose in March"])
    assert rows[0] @ rows[1] == pytest.approx(0.611, abs=0.02)
    assert rows[0] @ rows[2] == pytest.approx(0.038, abs=0.02)


@pytest.mark.parametrize(("asking", "counted"), [(False, 256), (True, 64)])
async def test_only_so_many_tokens_count(minilm: MiniLM, asking: bool, counted: int) -> None:
    # Two of them are the marks of beginning and end.
    inside = "tea " * (counted - 2)
    rows = await minilm.embed([inside, inside + "boat", inside[4:] + "boat"], asking=asking)
    assert np.abs(rows[0] - rows[1]).max() < 1e-5
    assert np.abs(rows[0] - rows[2]).max() > 1e-3


async def test_the_space_is_named_by_the_weights(minilm: MiniLM) -> None:
    assert await minilm.space() == Space(f"all-MiniLM-L6-v2-int8/{WEIGHTS.sha256[:8]}", 384)


# --- the files -------------------------------------------------------------------------------------------


@pytest.fixture
def files(tmp_path: Path) -> Path:
    """A folder with a copy of both files."""
    for file in (WEIGHTS, TOKENIZER):
        shutil.copyfile(installed(file), tmp_path / file.name)
    return tmp_path


async def lost(embedder: MiniLM) -> str:
    """What a call that fails says; the thread is ended."""
    with pytest.raises(EmbedderLost) as error:
        await embedder.embed(["tea"])
    await embedder.close()
    return str(error.value)


async def test_a_folder_with_the_same_files_will_do(files: Path, minilm: MiniLM) -> None:
    other = MiniLM(files)
    assert (await other.embed(["tea"])).tobytes() == (await minilm.embed(["tea"])).tobytes()
    await other.close()


@pytest.mark.parametrize("name", ["model.onnx", "tokenizer.json"])
async def test_one_changed_byte_is_noticed(files: Path, name: str) -> None:
    content = bytearray((files / name).read_bytes())
    content[len(content) // 2] ^= 1
    (files / name).write_bytes(content)
    said = await lost(MiniLM(files))
    assert name in said
    assert "KEEPS_EMBEDDER_FILES" in said


@pytest.mark.parametrize("name", ["model.onnx", "tokenizer.json"])
@pytest.mark.parametrize("how", ["missing", "folder", "empty"])
async def test_a_file_that_is_not_there_is_said(files: Path, name: str, how: str) -> None:
    (files / name).unlink()
    if how == "folder":
        (files / name).mkdir()
    elif how == "empty":
        (files / name).touch()
    said = await lost(MiniLM(files))
    assert name in said
    assert str(files) not in said


@pytest.mark.parametrize("file", [WEIGHTS, TOKENIZER])
async def test_a_missing_package_is_named(file: module.ModelFile, monkeypatch: pytest.MonkeyPatch) -> None:
    real = module.importlib.metadata.distribution

    def without(name: str) -> Any:
        if name == file.package:
            raise module.importlib.metadata.PackageNotFoundError(name)
        return real(name)

    monkeypatch.setattr(module.importlib.metadata, "distribution", without)
    said = await lost(MiniLM())
    assert f"install {file.package} again" in said
    assert "KEEPS_EMBEDDER=none" in said


async def test_a_library_that_does_not_import_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    def without(name: str) -> Any:
        raise ImportError(name)

    monkeypatch.setattr(module.importlib, "import_module", without)
    assert "install onnxruntime and tokenizers again" in await lost(MiniLM())


async def test_a_failed_load_can_be_tried_again(files: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    aside = tmp_path_factory.mktemp("aside") / "model.onnx"
    shutil.move(files / "model.onnx", aside)
    embedder = MiniLM(files)
    for _ in range(2):
        with pytest.raises(EmbedderLost):
            await embedder.space()
    shutil.move(aside, files / "model.onnx")
    assert (await embedder.embed(["tea"])).shape == (1, 384)
    await embedder.close()


@pytest.mark.parametrize("works", [True, False])
async def test_calls_that_come_together_share_one_load(works: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    loads: list[Any] = []
    together = threading.Event()
    real = module._load

    def load(folder: Path | None) -> Any:
        assert together.wait(30)
        loads.append(folder)
        if not works:
            raise EmbedderLost("broken")
        return real(folder)

    monkeypatch.setattr(module, "_load", load)
    embedder = MiniLM()
    tasks = [asyncio.create_task(embedder.embed([f"tea {n}"])) for n in range(8)]
    for _ in range(3):
        await asyncio.sleep(0)
    tasks[0].cancel()  # one that gives up takes the load from nobody
    together.set()
    results = await asyncio.gather(*tasks, return_exceptions=True)
    assert isinstance(results[0], asyncio.CancelledError)
    assert all(isinstance(result, np.ndarray if works else EmbedderLost) for result in results[1:])
    assert len(loads) == 1
    await embedder.close()
    del tasks, results
    gc.collect()  # an error nobody looked at would be complained about now


# --- who goes first --------------------------------------------------------------------------------------


@dataclass
class Watch:
    """The runs of a model, in order, as the number of texts and of tokens to a text; the first waits for `go`.
    `cut`: the texts that were cut into tokens."""

    done: list[tuple[int, int]] = field(default_factory=list[tuple[int, int]])
    cut: list[str] = field(default_factory=list[str])
    began: threading.Event = field(default_factory=threading.Event)
    go: threading.Event = field(default_factory=threading.Event)


@contextmanager
def watched(embedder: MiniLM) -> Iterator[Watch]:
    """Watch the runs of a loaded model."""
    assert embedder._loading is not None
    encoder = embedder._loading.result()
    watch, real, cut = Watch(), encoder.run, encoder.tokens

    def tokens(text: str, limit: int) -> list[int]:
        watch.cut.append(text)
        return cut(text, limit)

    def run(batch: Sequence[Sequence[int]]) -> Any:
        watch.began.set()
        assert watch.go.wait(30)
        watch.done.append((len(batch), max(map(len, batch))))
        return real(batch)

    encoder.run, encoder.tokens = run, tokens
    try:
        yield watch
    finally:
        watch.go.set()
        encoder.run, encoder.tokens = real, cut


async def waiting(embedder: MiniLM, count: int) -> None:
    """Return once so many turns are waited for."""
    while len(embedder._turns._waiting) < count:
        await asyncio.sleep(0)


LONG = ["Mara keeps her sailing boat in the old harbour near the fish market of Horta."] * 100


async def test_a_question_overtakes_long_batches(minilm: MiniLM) -> None:
    await minilm.space()
    with watched(minilm) as watch:
        batches = [asyncio.create_task(minilm.embed(LONG))]
        assert await asyncio.to_thread(watch.began.wait, 30)
        batches += [asyncio.create_task(minilm.embed([f"boat {number}"] * 90)) for number in range(4)]
        await waiting(minilm, 4)
        question = asyncio.create_task(minilm.embed(["tea"], asking=True))
        await waiting(minilm, 5)
        watch.go.set()
        await question
        assert not any(batch.done() for batch in batches)
        # What had begun ends; then the question is next, before anything of the batches that came before it.
        assert watch.cut[len(LONG)] == "tea"
        assert watch.done[1] == (1, 3)
        await asyncio.gather(*batches)
    assert len(watch.done) > 10


@pytest.mark.slow
async def test_no_run_takes_more_than_it_may(minilm: MiniLM) -> None:
    await minilm.space()
    with watched(minilm) as watch:
        watch.go.set()
        await minilm.embed([*LONG, "tea", "long " * 400, "x " * 90])
        await minilm.embed([f"question {n} " * 90 for n in range(9)], asking=True)
    assert sum(count for count, _ in watch.done) == len(LONG) + 3 + 9
    assert all(count * width <= 256 for count, width in watch.done)


async def test_what_is_cancelled_is_not_run(minilm: MiniLM) -> None:
    await minilm.space()
    with watched(minilm) as watch:
        batches = [asyncio.create_task(minilm.embed(LONG))]
        assert await asyncio.to_thread(watch.began.wait, 30)
        batches.append(asyncio.create_task(minilm.embed(["boat"])))
        await waiting(minilm, 1)
        for batch in batches:
            batch.cancel()
        results = await asyncio.gather(*batches, return_exceptions=True)
        assert [type(result) for result in results] == [asyncio.CancelledError] * 2
        watch.go.set()
        await minilm.embed(["tea"])
    assert watch.done[1:] == [(1, 3)]
    assert watch.cut == [*LONG, "tea"]


async def test_closing_ends_what_waits() -> None:
    embedder = MiniLM()
    await embedder.space()
    with watched(embedder) as watch:
        first = asyncio.create_task(embedder.embed(LONG))
        assert await asyncio.to_thread(watch.began.wait, 30)
        second = asyncio.create_task(embedder.embed(["tea"]))
        await waiting(embedder, 1)
        closing = asyncio.create_task(embedder.close())
        await asyncio.sleep(0)
        watch.go.set()
        await closing
        results = await asyncio.gather(first, second, return_exceptions=True)
    assert [type(result) for result in results] == [EmbedderLost, EmbedderLost]
    assert len(watch.done) == 1
    with pytest.raises(EmbedderLost, match="closed"):
        await embedder.embed(["tea"])


@given(st.lists(st.integers(1, 256), max_size=200), st.integers(1, 600))
def test_runs_hold_every_place_once_and_are_bounded(lengths: list[int], most: int) -> None:
    found = list(runs(lengths, most))
    assert sorted(place for run in found for place in run) == list(range(len(lengths)))
    assert all(len(run) == 1 or len(run) * max(lengths[place] for place in run) <= most for run in found)


async def test_the_loop_is_never_blocked(minilm: MiniLM) -> None:
    await minilm.space()
    with watched(minilm) as watch:
        batch = asyncio.create_task(minilm.embed(["tea"]))
        assert await asyncio.to_thread(watch.began.wait, 30)
        # The model waits for this very loop: had its work been done here, nothing would go on.
        watch.go.set()
        assert (await batch).shape == (1, 384)
