"""What must hold for every index and every question."""

import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from keeps.core import ranking, words
from keeps.core.sessions import Past
from keeps.finder.base import Entry, Found, Name, Only
from keeps.finder.columns import tie_of
from keeps.finder.indexfile import IndexFile
from keeps.finder.local import stemmer

WORDS = ["apple", "pear", "plum", "fig", "the", "userName", "東京", "Mara", "painting", "café"]
speakers = st.sampled_from(["", "", "Mara: ", "Mara Plum: ", "Note: "])
texts = st.builds(str.__add__, speakers, st.lists(st.sampled_from(WORDS), max_size=6).map(" ".join))
sets = st.sampled_from(["s1", "s2", "s3"])
sessions = st.sampled_from(["morning", "evening"])
STEM = stemmer()


@st.composite
def entries(draw: st.DrawFn) -> Entry:
    number = draw(st.integers(0, 12))
    scope_set = draw(sets)
    ref = f"turn:{scope_set}-{number // 2}"
    kind = draw(st.sampled_from(["passage", "fact"]))
    return Entry(
        ref=ref,
        unit=f"memory_chunk:{scope_set}-{number}",
        kind=kind,
        session=draw(sessions) if kind == "passage" else "",
        scope_set=scope_set,
        text=draw(texts),
        before=draw(texts),
        labels=draw(st.sampled_from([frozenset[str](), frozenset({"x"}), frozenset({"x", "y"})])),
        live=draw(st.booleans()),
    )


steps = st.lists(
    st.tuples(
        st.lists(entries(), max_size=4), st.lists(st.builds("turn:{}-{}".format, sets, st.integers(0, 6)), max_size=2)
    ),
    max_size=6,
)
questions = st.lists(st.sampled_from([*WORDS, "absent", "applied"]), min_size=1, max_size=4).map(" ".join)
filters = st.fixed_dictionaries(
    {
        "kinds": st.sampled_from([("passage",), ("fact",), ("passage", "fact")]),
        "only": st.builds(
            Only,
            labels=st.sampled_from([frozenset[str](), frozenset({"x"}), frozenset({"y"})]),
            live=st.booleans(),
            past=st.none() | st.builds(Past, sessions=st.frozensets(sessions), everywhere=st.frozensets(sets)),
        ),
        "limit": st.sampled_from([1, 2, 256]),
    }
)


@contextmanager
def index() -> Iterator[IndexFile]:
    with tempfile.TemporaryDirectory() as folder:
        file = IndexFile.create(Path(folder) / "text", "c", STEM)
        try:
            yield file
        finally:
            file.abandon()


Step = tuple[Sequence[Entry], Sequence[str]]


def play(file: IndexFile, changes: Sequence[Step], *, warm: str = "") -> dict[str, Entry]:
    """Apply `changes`; the entries that must be there afterwards, by unit, oldest first."""
    kept: dict[str, Entry] = {}
    for number, (put, drop) in enumerate(changes):
        file.apply(number, put, drop)
        if warm:
            file.find(warm, ["s1", "s2", "s3"], ("passage", "fact"), Only(live=False), 10)
        kept = {unit: entry for unit, entry in kept.items() if entry.ref not in drop}
        for entry in {entry.unit: entry for entry in put}.values():
            kept.pop(entry.unit, None)
        for entry in {entry.unit: entry for entry in put}.values():
            kept[entry.unit] = entry
    return kept


def only(changes: Sequence[Step], readable: set[str]) -> list[Step]:
    return [
        (
            [entry for entry in put if entry.scope_set in readable],
            [ref for ref in drop if ref.removeprefix("turn:")[:2] in readable],
        )
        for put, drop in changes
    ]


@settings(max_examples=150, deadline=None)
@given(steps, questions, st.sets(sets, min_size=1), filters)
def test_other_scope_sets_change_nothing(changes: list[Step], question: str, readable: set[str], how: dict) -> None:
    with index() as whole, index() as part:
        play(whole, changes)
        play(part, only(changes, readable))
        found = whole.find(question, readable, **how)
        assert found == part.find(question, readable, **how)
        assert {hit.ref.removeprefix("turn:")[:2] for hit in found} <= readable


def may_be_found(entry: Entry, only: Only) -> bool:
    heard = only.past is None or not entry.session or only.past.shows(entry.session, entry.scope_set)
    return heard and (entry.live or not only.live)


def expected(kept: Sequence[Entry], question: str, readable: set[str], how: dict) -> list[Found]:
    """The same answer by plain arithmetic over every entry."""
    terms = words.question(question, STEM)
    texts = [e for e in kept if e.scope_set in readable and may_be_found(e, how["only"])]
    bags = [(e, words.bag(e.text, STEM), words.bag(e.before, STEM)) for e in texts]
    if not bags:
        return []
    lengths = [ranking.occurrences(own.length, before.length) for _, own, before in bags]
    weights = {t: ranking.rarity(sum(t in own.counts for _, own, _ in bags), len(bags)) for t in terms}
    named = {t: words.SAID + t for t in terms}
    said = {e.unit: frozenset(words.speaker_terms(e.text, STEM)) for e in texts}
    by = {t: {e.unit for e in texts if named[t] in said[e.unit]} for t in terms}
    told = {
        t: {e.unit for e, own, _ in bags if t in own.counts and not said[e.unit]} if by[t] else set() for t in terms
    }
    speak = {t: ranking.spoken(len(by[t] | told[t]), len(bags)) for t in terms}
    best: dict[str, tuple[float, float, int, int, Found]] = {}
    for (entry, own, before), length in zip(bags, lengths, strict=True):
        if entry.kind not in how["kinds"] or not how["only"].labels <= entry.labels:
            continue
        rank = 0.0
        presence: list[tuple[float, float]] = []
        for term in terms:
            count = ranking.occurrences(own.counts.get(term, 0), before.counts.get(term, 0))
            rank += weights[term] * ranking.worth(count, length)
            if entry.unit in by[term] | told[term]:
                rank += speak[term]
            here = 1.0 if term in own.counts else ranking.BEFORE_WEIGHT if term in before.counts else 0.0
            presence.append((weights[term], here))
        if rank == 0.0:
            continue
        found = Found(entry.ref, entry.unit, round(rank, 9), round(ranking.share(presence), 9))
        key = (found.rank, found.share, entry.at, -tie_of(entry.unit), found)
        best[entry.ref] = max(best.get(entry.ref, key), key, key=lambda item: item[:4])
    ordered = sorted(best.values(), key=lambda item: item[:4], reverse=True)
    return [found for *_, found in ordered[: how["limit"]]]


@settings(max_examples=150, deadline=None)
@given(steps, questions, st.sets(sets, min_size=1), filters, st.booleans())
def test_answers_are_what_plain_arithmetic_gives(
    changes: list[Step], question: str, readable: set[str], how: dict, warm: bool
) -> None:
    with index() as file:
        kept = play(file, changes, warm=question if warm else "")
        found = file.find(question, readable, **how)
    rounded = [Found(hit.ref, hit.unit, round(hit.rank, 9), round(hit.share, 9)) for hit in found]
    wanted = expected(list(kept.values()), question, readable, how)
    assert [hit.rank for hit in rounded] == [hit.rank for hit in wanted]
    assert sorted(rounded, key=repr) == sorted(wanted, key=repr) or how["limit"] < 256


@settings(max_examples=60, deadline=None)
@given(steps, questions, filters)
def test_a_file_opened_again_answers_the_same(changes: list[Step], question: str, how: dict) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "text"
        file = IndexFile.create(path, "c", STEM)
        play(file, changes, warm=question)
        before = file.find(question, ["s1", "s2"], **how)
        file.scrub()
        assert file.find(question, ["s1", "s2"], **how) == before
        file.close()
        again = IndexFile.open(path, "c", "boot", STEM)
        assert again is not None
        assert again.find(question, ["s1", "s2"], **how) == before
        again.abandon()


@settings(max_examples=80, deadline=None)
@given(
    st.lists(st.tuples(sets, st.sampled_from(["mara", "new york", "york", "田中", "c++"])), max_size=8),
    st.sampled_from(["Is Mara in New York?", "田中さん and C++", "york, york", "nobody"]),
    st.sets(sets, min_size=1),
)
def test_names_of_other_scope_sets_change_nothing(
    given_names: list[tuple[str, str]], question: str, readable: set[str]
) -> None:
    names = [Name(entity=f"person/{name}", scope_set=scope_set, name=name) for scope_set, name in given_names]
    with index() as whole, index() as part:
        whole.apply(1, put_names=names)
        part.apply(1, put_names=[name for name in names if name.scope_set in readable])
        found = whole.names_in(question, readable)
        assert found == part.names_in(question, readable)
        assert {name.scope_set for name in found} <= readable
