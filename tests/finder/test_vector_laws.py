"""What must hold for nearness of meaning, whatever lies in the index and in whatever order it came."""

import sqlite3
import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from keeps.core.sessions import Past
from keeps.core.spaces import Coverage, Point, Space
from keeps.finder import vectors
from keeps.finder.base import ANY, Entry, Near, Only, Stored
from keeps.finder.columns import tie_of
from keeps.finder.indexfile import IndexFile
from keeps.finder.local import stemmer
from tests.finder.making import SMALL, WIDE, asked, drawn, stored, unit
from tests.finder.test_laws import may_be_found

SPACES = (SMALL, WIDE)
STEM = stemmer()
KINDS = ("passage", "fact")
sets = st.sampled_from(["s1", "s2", "s3"])
sessions = st.sampled_from(["morning", "evening"])


@st.composite
def entries(draw: st.DrawFn) -> Entry:
    number = draw(st.integers(0, 14))
    scope_set = draw(sets)
    kind = draw(st.sampled_from(KINDS))
    return Entry(
        ref=f"turn:{scope_set}-{number // 2}",
        unit=f"memory_chunk:{scope_set}-{number}",
        kind=kind,
        session=draw(sessions) if kind == "passage" else "",
        scope_set=scope_set,
        text="apple",
        labels=draw(st.sampled_from([frozenset[str](), frozenset({"x"}), frozenset({"x", "y"})])),
        live=draw(st.booleans()),
        at=draw(st.integers(0, 3)),
        meaning=draw(st.sampled_from(["fig", "pear", "plum", "apple", None])),
        assistant=draw(st.booleans()),
    )


@st.composite
def steps(draw: st.DrawFn) -> list[tuple[list[Entry], list[str], bool]]:
    """Changes: what is put, what is dropped, and whether vectors are made afterwards."""
    drops = st.lists(st.builds("turn:{}-{}".format, sets, st.integers(0, 7)), max_size=2)
    return draw(st.lists(st.tuples(st.lists(entries(), max_size=5), drops, st.booleans()), max_size=6))


filters = st.fixed_dictionaries(
    {
        "kinds": st.sampled_from([("passage",), ("fact",), KINDS]),
        "only": st.builds(
            Only,
            labels=st.sampled_from([frozenset[str](), frozenset({"x"}), frozenset({"y"})]),
            live=st.booleans(),
            past=st.none() | st.builds(Past, sessions=st.frozensets(sessions), everywhere=st.frozensets(sets)),
        ),
        "limit": st.sampled_from([1, 2, 256]),
        "also": st.lists(st.builds("turn:{}-{}".format, sets, st.integers(0, 7)), max_size=3),
    }
)
questions = st.integers(0, 5).map(drawn)
Steps = Sequence[tuple[Sequence[Entry], Sequence[str], bool]]


def vector(entry: Entry, space: Space = SMALL) -> np.ndarray:
    """Few meanings, so that many entries are equally near."""
    assert entry.meaning is not None
    return drawn(len(entry.meaning) + ord(entry.meaning[0]), space)


@contextmanager
def index() -> Iterator[IndexFile]:
    with tempfile.TemporaryDirectory() as folder:
        file = IndexFile.create(Path(folder) / "index", "c", STEM)
        try:
            for space in SPACES:
                file.begin_space(space)
            yield file
        finally:
            file.abandon()


def play(file: IndexFile, changes: Steps, *, asks: bool = False) -> dict[str, tuple[Entry, bool]]:
    """Apply `changes`; by unit what must be there afterwards, and whether it has a vector."""
    kept: dict[str, tuple[Entry, bool]] = {}
    for number, (put, drop, fills) in enumerate(changes):
        before = dict(kept)
        file.apply(number, put, drop)
        kept = {unit: held for unit, held in kept.items() if held[0].ref not in drop}
        for entry in put:
            old, has = before.get(entry.unit, (entry, False))
            kept[entry.unit] = (entry, has and entry.meaning is not None and old.meaning == entry.meaning)
        if fills:
            meant = {unit: entry for unit, (entry, _) in kept.items() if entry.meaning is not None}
            for space in SPACES:
                made = {unit: stored(vector(entry, space)) for unit, entry in meant.items()}
                assert file.put_vectors(space, made) == len(meant)
            kept = {unit: (entry, unit in meant) for unit, (entry, _) in kept.items()}
        if asks:
            file.near(Point(SMALL, asked(drawn(1))), ["s1"], KINDS, Only(live=False), 3, ())
    return kept


def near(file: IndexFile, question: np.ndarray, readable: Sequence[str] | set[str], how: dict) -> list[Near]:
    return file.near(Point(SMALL, asked(question)), readable, **how)


def expected(kept: dict[str, tuple[Entry, bool]], question: np.ndarray, readable: set[str], how: dict) -> list[tuple]:
    """(ref, unit, cosine, assistant) by plain arithmetic over every entry."""
    rounded = np.rint(question.astype("<f4").astype(float) * 2.0**26) / 2.0**26
    best: dict[str, tuple] = {}
    for entry, has in kept.values():
        fits = entry.scope_set in readable and entry.kind in how["kinds"] and how["only"].labels <= entry.labels
        if not has or not fits or not may_be_found(entry, how["only"]):
            continue
        halves = vector(entry).astype("<f2").astype(float)
        cosine = min(1.0, max(-1.0, float(sum(a * b for a, b in zip(halves, rounded, strict=True)))))
        key = (-cosine, -entry.at, tie_of(entry.unit))
        best[entry.ref] = min(best.get(entry.ref, (key, entry)), (key, entry), key=lambda item: item[0])
    ordered = sorted(best.values(), key=lambda item: item[0])
    also = [item for item in ordered[how["limit"] :] if item[1].ref in how["also"]]
    return [(entry.ref, entry.unit, -key[0], entry.assistant) for key, entry in [*ordered[: how["limit"]], *also]]


@settings(max_examples=150, deadline=None)
@given(steps(), questions, st.sets(sets, min_size=1), filters, st.booleans())
def test_answers_are_what_plain_arithmetic_gives(
    changes: Steps, question: np.ndarray, readable: set[str], how: dict, asks: bool
) -> None:
    with index() as file:
        kept = play(file, changes, asks=asks)
        found = near(file, question, readable, how)
        lacking = file.lacking(SMALL, readable, 256)
        few = file.lacking(SMALL, readable, 3)
        coverage = file.spaces()
    assert [(hit.ref, hit.unit, hit.cosine, hit.assistant) for hit in found] == expected(kept, question, readable, how)
    missing = [e for e, has in kept.values() if e.meaning is not None and not has and e.scope_set in readable]
    missing.sort(key=lambda entry: (entry.at, tie_of(entry.unit)))
    before: Counter[str] = Counter()
    turns: list[tuple[int, Entry]] = []
    for entry in missing:
        turns.append((before[entry.scope_set], entry))
        before[entry.scope_set] += 1
    missing = [entry for _, entry in sorted(turns, key=lambda turn: turn[0])]
    assert few == lacking[:3]
    assert lacking == [(entry.ref, entry.unit) for entry in missing]
    wanted = sum(entry.meaning is not None for entry, _ in kept.values())
    assert coverage == [Coverage(space, wanted, sum(has for _, has in kept.values())) for space in SPACES]


@settings(max_examples=100, deadline=None)
@given(steps(), questions, st.sets(sets, min_size=1), filters)
def test_other_scope_sets_change_nothing(changes: Steps, question: np.ndarray, readable: set[str], how: dict) -> None:
    only = [
        (
            [entry for entry in put if entry.scope_set in readable],
            [ref for ref in drop if ref.removeprefix("turn:")[:2] in readable],
            fills,
        )
        for put, drop, fills in changes
    ]
    with index() as whole, index() as part:
        play(whole, changes)
        play(part, only)
        found = near(whole, question, readable, how)
        assert found == near(part, question, readable, how)
        assert {hit.ref.removeprefix("turn:")[:2] for hit in found} <= readable


@settings(max_examples=60, deadline=None)
@given(steps(), questions, filters, st.randoms(use_true_random=False))
def test_an_index_built_anew_in_another_order_answers_the_same(changes: Steps, question, how: dict, random) -> None:
    readable = ["s1", "s2", "s3"]
    with index() as first, index() as second:
        kept = play(first, changes, asks=True)
        held = list(kept.values())
        random.shuffle(held)
        second.apply(9, [entry for entry, _ in held])
        for space in SPACES:
            made = {entry.unit: stored(vector(entry, space)) for entry, has in held if has}
            second.put_stored(Stored(space=space, vectors=made))
        assert near(second, question, readable, how) == near(first, question, readable, how)


@settings(max_examples=40, deadline=None)
@given(steps(), questions, filters)
def test_a_file_opened_again_answers_the_same(changes: Steps, question: np.ndarray, how: dict) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "index"
        file = IndexFile.create(path, "c", STEM)
        for space in SPACES:
            file.begin_space(space)
        play(file, changes, asks=True)
        before = near(file, question, ["s1", "s2"], how), file.spaces(), file.lacking(WIDE, None, 9)
        file.scrub()
        file.close()
        again = IndexFile.open(path, "c", "boot", STEM)
        assert again is not None
        assert (near(again, question, ["s1", "s2"], how), again.spaces(), again.lacking(WIDE, None, 9)) == before
        again.abandon()


# ---------------------------------------------------------------------- many rows
def vector_of(file: IndexFile, key: str) -> np.ndarray:
    """The vector of a unit, as the file holds it."""
    connection = sqlite3.connect(file.path)
    query = "SELECT bytes FROM vector, entry WHERE unit = ? AND (key & 0xFFFFFFFFFF) = row"
    (content,) = connection.execute(query, (key,)).fetchone()
    connection.close()
    return np.frombuffer(content, "<f2").astype(float)


def many(path: Path, count: int, *, seed: int, order: Sequence[int] | None = None) -> IndexFile:
    """An index of clustered vectors in two scope sets."""
    file = IndexFile.create(path, "c", STEM)
    file.begin_space(WIDE)
    random = np.random.default_rng(seed)
    centres = random.standard_normal((20, WIDE.dims))
    values = centres[random.integers(0, 20, count)] + 0.7 * random.standard_normal((count, WIDE.dims))
    values /= np.linalg.norm(values, axis=1, keepdims=True)
    base = Entry(ref="", unit="", kind="passage", scope_set="s1", text="", meaning="m")
    rows = [
        replace(base, ref=f"turn:{n}", unit=f"turn:{n}", scope_set="s1" if n % 3 else "s2", at=n // 7)
        for n in (order if order is not None else range(count))
    ]
    file.apply(1, rows)
    file.put_vectors(WIDE, {row.unit: stored(values[int(row.ref[5:])]) for row in rows})
    return file


@pytest.mark.parametrize("exact_rows", [20_000, 300])
def test_many_rows_answer_the_same_in_any_order(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, exact_rows: int
) -> None:
    monkeypatch.setattr(vectors, "EXACT_ROWS", exact_rows)
    monkeypatch.setattr(vectors, "CANDIDATES", 200)
    order = np.random.default_rng(3).permutation(1_500).tolist()
    one, other = many(tmp_path / "one", 1_500, seed=1), many(tmp_path / "other", 1_500, seed=1, order=order)
    for seed in range(20):
        for readable in (["s1", "s2"], ["s2"]):
            question = asked(drawn(seed, WIDE))
            how = (readable, KINDS, ANY, 40, [f"turn:{seed}"])
            assert one.near(Point(WIDE, question), *how) == other.near(Point(WIDE, question), *how)
    one.abandon()
    other.abandon()


def test_signs_find_nearly_all_that_is_near(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = many(tmp_path / "index", 3_000, seed=2)
    how = (["s1", "s2"], KINDS, ANY, 20, ())
    shares: list[float] = []
    for seed in range(20):
        (known,) = file.near(Point(WIDE, asked(drawn(seed, WIDE))), *how[:3], 1, ())
        question = asked(unit(vector_of(file, known.unit) + 0.05 * drawn(seed + 100, WIDE)))
        exact = file.near(Point(WIDE, question), *how)
        with monkeypatch.context() as patched:
            patched.setattr(vectors, "EXACT_ROWS", 100)
            patched.setattr(vectors, "CANDIDATES", 600)
            signs = file.near(Point(WIDE, question), *how)
            patched.setattr(vectors, "CANDIDATES", 3_000)
            assert file.near(Point(WIDE, question), *how) == exact
        cosines = {hit.ref: hit.cosine for hit in exact}
        assert all(cosines.get(hit.ref, hit.cosine) == hit.cosine for hit in signs)
        shares.append(len({hit.ref for hit in signs} & cosines.keys()) / len(exact))
    assert np.mean(shares) > 0.9
    file.abandon()
