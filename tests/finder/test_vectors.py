"""Vectors in the index: kept beside the words, found by nearness, gone with their entries."""

import sqlite3
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from keeps.core.spaces import Coverage, Point
from keeps.finder.base import FinderLost, Near, Only, Stored
from keeps.finder.columns import Columns, Row, tie_of
from keeps.finder.local import LocalFinder
from keeps.finder.vectors import MEAN_ROWS, Matrix, Neighbour
from tests.finder.making import SMALL, WIDE, asked, drawn, stored, stream, turn

ALL = ["s1", "s2"]


def meant(number: int, **how: object):
    return turn(number, f"apple {number}", meaning=f"apple {number}", at=number, **how)  # type: ignore[arg-type]


def vectors(numbers: Iterable[int], space=SMALL) -> dict[str, bytes]:
    return {f"turn:{n}": stored(drawn(n, space)) for n in numbers}


def refs(found: list[Near]) -> list[str]:
    return [hit.ref for hit in found]


async def filled(finder: LocalFinder, count: int, space=SMALL) -> None:
    await finder.apply(1, put=[meant(n) for n in range(count)])
    await finder.begin_space(space)
    assert await finder.put_vectors(space, vectors(range(count), space)) == count


async def test_the_nearest_come_first_with_their_cosine(finder: LocalFinder) -> None:
    await filled(finder, 20)
    question = drawn(7)
    found = await finder.near(Point(SMALL, asked(question)), ALL)
    expected = sorted(range(20), key=lambda n: -float(drawn(n) @ question))
    assert refs(found) == [f"turn:{n}" for n in expected]
    assert found[0].cosine == pytest.approx(1.0, abs=1e-3)
    assert [hit.cosine for hit in found] == sorted((hit.cosine for hit in found), reverse=True)


async def test_only_rows_that_fit_are_counted_for_the_limit(finder: LocalFinder) -> None:
    await finder.begin_space(SMALL)
    rows = [
        meant(1, scope_set="s2"),
        meant(2, kind="fact"),
        meant(3, labels=frozenset({"x"})),
        meant(4, live=False),
        meant(5),
    ]
    await finder.apply(1, put=rows)
    await finder.put_vectors(SMALL, dict.fromkeys((row.unit for row in rows), stored(drawn(1))))
    question = asked(drawn(1))
    assert refs(await finder.near(Point(SMALL, question), ["s2"], limit=1)) == ["turn:1"]
    assert refs(await finder.near(Point(SMALL, question), ["s1"], kinds=("fact",), limit=1)) == ["turn:2"]
    assert refs(await finder.near(Point(SMALL, question), ["s1"], only=Only(labels=frozenset({"x"})), limit=1)) == [
        "turn:3"
    ]
    assert refs(await finder.near(Point(SMALL, question), ["s1"])) == ["turn:5", "turn:3", "turn:2"]
    assert refs(await finder.near(Point(SMALL, question), ["s1"], only=Only(live=False))) == [
        "turn:5",
        "turn:4",
        "turn:3",
        "turn:2",
    ]
    assert await finder.near(Point(SMALL, question), ["elsewhere"]) == []
    assert await finder.near(Point(SMALL, question), []) == []
    assert await finder.near(Point(SMALL, question), ["s1"], kinds=()) == []
    assert await finder.near(Point(SMALL, question), ["s1"], limit=0) == []


async def test_named_rows_get_their_cosine_too_when_they_may_be_found(finder: LocalFinder) -> None:
    await filled(finder, 10)
    await finder.apply(2, put=[meant(50, scope_set="s2"), meant(51)])
    await finder.put_vectors(SMALL, vectors([50]))
    question = drawn(3)
    order = [f"turn:{n}" for n in sorted(range(10), key=lambda n: -float(drawn(n) @ question))]
    also = [order[0], order[9], order[8], "turn:50", "turn:51", "turn:absent"]
    found = await finder.near(Point(SMALL, asked(question)), ["s1"], limit=2, also=also)
    assert refs(found) == [*order[:2], order[8], order[9]]


async def test_how_near_a_row_is_to_all_that_may_be_found(finder: LocalFinder) -> None:
    await filled(finder, 40)
    await finder.apply(9, put=[meant(n, scope_set="s2") for n in range(40, 60)])
    await finder.put_vectors(SMALL, vectors(range(40, 60)))
    found = await finder.near(Point(SMALL, asked(drawn(1))), ["s1"], limit=5, also=["turn:7"])
    stored_as = {f"turn:{n}": np.frombuffer(stored(drawn(n)), "<f2").astype(float) for n in range(40)}
    mean = np.mean(list(stored_as.values()), axis=0)
    assert len(found) >= 5
    for hit in found:
        assert hit.usual == pytest.approx(float(mean @ stored_as[hit.ref]), abs=1e-6)


def test_the_mean_of_very_many_rows_is_that_of_some_chosen_by_their_keys() -> None:
    def usual(order: Sequence[int]) -> dict[int, float]:
        held, columns = Matrix(8), Columns()
        for row, number in enumerate(order):
            columns.add(Row(row, 1, row, 0, True, 1, 0, frozenset(), 0, tie_of(f"u{number}"), meant=True))
            held.put([row], drawn(number).astype(np.float16)[np.newaxis])
        rows = np.arange(len(order), dtype=np.int32)
        found = held.with_usual([Neighbour(row, 0.0) for row in range(len(order))], rows, columns)
        return {order[hit.row]: hit.usual for hit in found}

    numbers = range(MEAN_ROWS + 200)
    assert usual(numbers) == usual(numbers[::-1])


async def test_a_row_answers_once_by_its_nearest_unit(finder: LocalFinder) -> None:
    units = [replace(meant(1), unit=f"memory_chunk:{n}") for n in range(4)]
    await finder.apply(1, put=units)
    await finder.begin_space(SMALL)
    await finder.put_vectors(SMALL, {entry.unit: stored(drawn(n)) for n, entry in enumerate(units)})
    (hit,) = await finder.near(Point(SMALL, asked(drawn(2))), ["s1"])
    assert (hit.ref, hit.unit) == ("turn:1", "memory_chunk:2")


async def test_both_legs_say_who_spoke(finder: LocalFinder) -> None:
    await finder.apply(1, put=[meant(1, assistant=True), meant(2)])
    await finder.begin_space(SMALL)
    await finder.put_vectors(SMALL, vectors([1, 2]))
    near = await finder.near(Point(SMALL, asked(drawn(1))), ["s1"])
    assert {hit.ref: hit.assistant for hit in near} == {"turn:1": True, "turn:2": False}
    assert {hit.ref: hit.assistant for hit in await finder.find("apple", ["s1"])} == {"turn:1": True, "turn:2": False}


async def test_both_legs_say_in_which_passages_something_is_asked(finder: LocalFinder) -> None:
    await filled(finder, 0)
    rows = [
        turn(1, "apple?", meaning="apple?"),
        turn(2, "apple.", meaning="apple."),
        turn(3, "apple?", kind="fact", meaning="apple"),
    ]
    await finder.apply(1, put=rows)
    await finder.put_vectors(SMALL, vectors([1, 2, 3]))
    for found in (await finder.find("apple", ALL), await finder.near(Point(SMALL, asked(drawn(1))), ALL)):
        assert {hit.ref: hit.asks for hit in found} == {"turn:1": True, "turn:2": False, "turn:3": False}


async def test_what_is_missing_is_told_oldest_first(finder: LocalFinder) -> None:
    rows = [meant(3), meant(1), meant(2, scope_set="s2"), turn(9, "apple without a meaning"), meant(4, live=False)]
    await finder.apply(1, put=rows)
    assert len(await finder.lacking(SMALL)) == 4, "of a space that is not there everything is missing"
    assert await finder.spaces() == []
    await finder.begin_space(SMALL)
    await finder.begin_space(SMALL)
    assert await finder.spaces() == [Coverage(SMALL, 4, 0)]
    assert await finder.lacking(SMALL) == [(f"turn:{n}", f"turn:{n}") for n in (1, 2, 3, 4)]
    assert await finder.lacking(SMALL, limit=2) == [("turn:1", "turn:1"), ("turn:2", "turn:2")]
    assert await finder.lacking(SMALL, ["s2"]) == [("turn:2", "turn:2")]
    assert await finder.lacking(SMALL, []) == []
    assert await finder.put_vectors(SMALL, vectors([1, 9, 77])) == 1
    assert await finder.spaces() == [Coverage(SMALL, 4, 1)]
    assert await finder.put_vectors(SMALL, vectors([1, 2, 3, 4])) == 4
    assert await finder.lacking(SMALL) == []
    (coverage,) = await finder.spaces()
    assert coverage.whole
    await finder.apply(2, drop=["turn:1"], put=[meant(5)])
    assert await finder.spaces() == [Coverage(SMALL, 4, 3)]
    assert await finder.lacking(SMALL) == [("turn:5", "turn:5")]


async def test_a_space_that_is_not_there_takes_and_finds_nothing(finder: LocalFinder) -> None:
    await finder.apply(1, put=[meant(1)])
    assert await finder.put_vectors(SMALL, vectors([1])) == 0
    assert await finder.near(Point(SMALL, asked(drawn(1))), ALL) == []
    await finder.drop_space(SMALL)


async def test_an_entry_put_again_keeps_its_vector_while_it_means_the_same(finder: LocalFinder) -> None:
    await filled(finder, 3)
    before = await finder.near(Point(SMALL, asked(drawn(0))), ALL)
    await finder.apply(2, put=[meant(0, window_of="turn:9", before="plum")])
    await finder.apply(3, drop=["turn:1"], put=[meant(1)])
    again = await finder.near(Point(SMALL, asked(drawn(0))), ALL)
    assert [hit.before for hit in again if hit.ref == "turn:0"] == ["turn:9"]
    assert [replace(hit, before=None) for hit in again] == before
    assert await finder.lacking(SMALL) == []
    await finder.apply(4, put=[turn(0, "apple 0", meaning="another", at=0)])
    await finder.apply(5, put=[turn(1, "apple 1", at=1)])
    assert refs(await finder.near(Point(SMALL, asked(drawn(0))), ALL)) == ["turn:2"]
    assert await finder.lacking(SMALL) == [("turn:0", "turn:0")]
    assert await finder.spaces() == [Coverage(SMALL, 2, 1)]


async def test_a_vector_of_what_was_meant_before_is_passed_over(finder: LocalFinder) -> None:
    await filled(finder, 0)
    await finder.apply(1, put=[meant(1), meant(2)])
    meanings = {"turn:1": "something older", "turn:2": "apple 2"}
    assert await finder.put_vectors(SMALL, vectors([1, 2]), meanings=meanings) == 1
    assert await finder.lacking(SMALL) == [("turn:1", "turn:1")]


async def test_what_is_no_vector_is_refused(finder: LocalFinder) -> None:
    await filled(finder, 2)
    for content in (b"", stored(drawn(1, WIDE)), np.full(8, np.nan, "<f2").tobytes()):
        with pytest.raises(ValueError, match="turn:1"):
            await finder.put_vectors(SMALL, {"turn:1": content})
    with pytest.raises(ValueError, match="8 numbers"):
        await finder.near(Point(SMALL, asked(drawn(1, WIDE))), ALL)
    assert len(await finder.near(Point(SMALL, asked(drawn(1))), ALL)) == 2


async def test_two_spaces_stand_side_by_side_until_one_is_dropped(tmp_path: Path) -> None:
    finder = await LocalFinder.open(tmp_path, "c")
    await finder.rebuild("c", stream(), 0)
    await filled(finder, 30)
    await finder.begin_space(WIDE)
    await finder.put_vectors(WIDE, vectors(range(10), WIDE))
    assert await finder.spaces() == [Coverage(SMALL, 30, 30), Coverage(WIDE, 30, 10)]
    assert len(await finder.near(Point(WIDE, asked(drawn(1, WIDE))), ALL)) == 10
    small = await finder.near(Point(SMALL, asked(drawn(1))), ALL)
    await finder.apply(2, drop=["turn:3"])
    assert await finder.spaces() == [Coverage(SMALL, 29, 29), Coverage(WIDE, 29, 9)]
    left = await finder.near(Point(SMALL, asked(drawn(1))), ALL)
    assert [(hit.ref, hit.cosine) for hit in left] == [(hit.ref, hit.cosine) for hit in small if hit.ref != "turn:3"]
    await finder.drop_space(SMALL)
    assert await finder.spaces() == [Coverage(WIDE, 29, 9)]
    assert held(tmp_path, vectors(range(30))) == []
    assert await finder.near(Point(SMALL, asked(drawn(1))), ALL) == []
    await finder.begin_space(SMALL)
    assert await finder.spaces() == [Coverage(WIDE, 29, 9), Coverage(SMALL, 29, 0)]
    assert await finder.near(Point(SMALL, asked(drawn(1))), ALL) == []
    await finder.close()


async def test_vectors_are_there_after_closing(tmp_path: Path) -> None:
    finder = await LocalFinder.open(tmp_path, "c")
    await finder.rebuild("c", stream(), 0)
    await filled(finder, 30)
    before = await finder.near(Point(SMALL, asked(drawn(1))), ALL, limit=5)
    await finder.close()
    finder = await LocalFinder.open(tmp_path, "c")
    assert await finder.near(Point(SMALL, asked(drawn(1))), ALL, limit=5) == before
    assert await finder.spaces() == [Coverage(SMALL, 30, 30)]
    await finder.close()


async def test_a_new_index_takes_the_vectors_of_the_record(tmp_path: Path) -> None:
    finder = await LocalFinder.open(tmp_path, "c")
    await finder.rebuild("c", stream(), 0)
    await filled(finder, 30)
    before = await finder.near(Point(SMALL, asked(drawn(1))), ALL)
    rows = [meant(n) for n in reversed(range(30))]
    half = Stored(space=SMALL, vectors=vectors(range(15)))
    rest = Stored(space=SMALL, vectors=vectors(range(15, 40)) | {"turn:1": b"damaged"})
    await finder.rebuild("c", stream(*rows, half, rest, Stored(space=WIDE, vectors={})), 2)
    assert await finder.near(Point(SMALL, asked(drawn(1))), ALL) == before
    assert await finder.spaces() == [Coverage(SMALL, 30, 30), Coverage(WIDE, 30, 0)]
    await finder.close()


async def test_vectors_that_come_while_a_new_index_is_built_are_in_it(tmp_path: Path) -> None:
    finder = await LocalFinder.open(tmp_path, "c")
    await finder.rebuild("c", stream(), 0)
    await filled(finder, 3)

    async def slowly():
        yield meant(0)
        await finder.begin_space(WIDE)
        await finder.put_vectors(WIDE, vectors([0], WIDE))
        await finder.drop_space(SMALL)
        yield meant(1)

    await finder.rebuild("c", slowly(), 1)
    assert await finder.spaces() == [Coverage(WIDE, 2, 1)]
    assert refs(await finder.near(Point(WIDE, asked(drawn(0, WIDE))), ALL)) == ["turn:0"]
    await finder.close()


def held(folder: Path, traces: dict[str, bytes]) -> list[str]:
    """Units of whose vectors some part stands in a file of the folder."""
    contents = [path.read_bytes() for path in folder.rglob("*") if path.is_file()]
    assert contents
    return [unit for unit, trace in traces.items() if any(trace[:10] in content for content in contents)]


async def test_no_byte_of_a_dropped_vector_is_left(tmp_path: Path) -> None:
    finder = await LocalFinder.open(tmp_path, "c")
    await finder.rebuild("c", stream(), 0)
    gone: set[int] = set()
    count = 0
    random = np.random.default_rng(5)
    for space in (SMALL, WIDE):
        await finder.begin_space(space)
    for change in range(1, 40):
        new = range(count, count + int(random.integers(1, 40)))
        count = new.stop
        left = sorted(set(range(count)) - gone)
        drop = set(random.choice(left, min(len(left), 12), replace=False).tolist())
        again = [meant(n) for n in random.choice(left, 5).tolist() if n not in drop]
        await finder.apply(
            change, put=[*(meant(n) for n in new if n not in drop), *again], drop=[f"turn:{n}" for n in drop]
        )
        gone |= drop
        for space in (SMALL, WIDE):
            await finder.put_vectors(space, vectors(new, space))
    await finder.scrub()
    everywhere = vectors(range(count), WIDE)
    assert held(tmp_path, {unit: everywhere[unit] for unit in everywhere if int(unit[5:]) in gone}) == []
    assert len(held(tmp_path, everywhere)) == count - len(gone)
    assert held(tmp_path, vectors(gone)) == []
    await finder.close()
    assert held(tmp_path, vectors(gone, WIDE)) == []


async def test_a_damaged_vector_costs_the_index(tmp_path: Path) -> None:
    finder = await LocalFinder.open(tmp_path, "c")
    await finder.rebuild("c", stream(), 0)
    await filled(finder, 3)
    await finder.close()
    (file,) = tmp_path.iterdir()
    connection = sqlite3.connect(file)
    connection.execute("UPDATE vector SET bytes = x'0102' WHERE key = (SELECT MAX(key) FROM vector)")
    connection.commit()
    connection.close()
    finder = await LocalFinder.open(tmp_path, "c")
    with pytest.raises(FinderLost):
        await finder.near(Point(SMALL, asked(drawn(1))), ALL)
    assert await finder.applied() is None
    await finder.close()


async def test_without_an_index_every_call_about_vectors_says_so(tmp_path: Path) -> None:
    finder = await LocalFinder.open(tmp_path, "c")
    for call in (
        finder.spaces(),
        finder.begin_space(SMALL),
        finder.drop_space(SMALL),
        finder.put_vectors(SMALL, {}),
        finder.lacking(SMALL),
        finder.near(Point(SMALL, asked(drawn(1))), ALL),
    ):
        with pytest.raises(FinderLost):
            await call
    await finder.close()
