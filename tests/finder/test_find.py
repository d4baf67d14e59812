from dataclasses import replace
from pathlib import Path

import pytest

from keeps.core import ranking
from keeps.core.spaces import Point
from keeps.finder.base import ANY, Entry, Only
from keeps.finder.columns import Row, Wanted
from keeps.finder.indexfile import IndexFile
from keeps.finder.local import LocalFinder, stemmer
from keeps.finder.text import MOST_TERMS, GivenUp, Postings, TextIndex
from tests.finder.making import SMALL, asked, drawn, stored, stream, turn


async def refs(finder: LocalFinder, query: str, *scope_sets: str, **how: object) -> list[str]:
    found = await finder.find(query, scope_sets or ["s1"], **how)  # type: ignore[arg-type]
    return [hit.ref for hit in found]


async def test_the_text_that_holds_more_of_the_question_comes_first(finder: LocalFinder) -> None:
    await finder.apply(
        1,
        put=[
            turn(1, "Mara: I bought a red canoe in June"),
            turn(2, "Ben: the canoe is green"),
            turn(3, "Ben: nothing to see here"),
        ],
    )
    assert await refs(finder, "which red canoe did Mara buy?") == ["turn:1", "turn:2"]


async def test_stems_compounds_accents_and_unspaced_scripts_are_found(finder: LocalFinder) -> None:
    await finder.apply(
        1,
        put=[
            turn(1, "she was painting the fences"),
            turn(2, "call getUserName first"),
            turn(3, "we met at the Café Zoë"),
            turn(4, "昨日は東京タワーに行きました"),
            turn(5, "ฉันชอบดื่มชาเขียว"),
        ],
    )
    for query, expected in [
        ("paint a fence", "turn:1"),
        ("user name", "turn:2"),
        ("getusername", "turn:2"),
        ("get_user_name", "turn:2"),
        ("cafe zoe", "turn:3"),
        ("東京タワー", "turn:4"),
        ("昨", "turn:4"),
        ("た", "turn:4"),
        ("ชาเขียว", "turn:5"),
    ]:
        assert await refs(finder, query) == [expected], query


async def test_share_is_the_rarity_weighted_part_of_the_question(finder: LocalFinder) -> None:
    await finder.apply(1, put=[turn(1, "apple pear"), turn(2, "apple"), turn(3, "quince")])
    apple, pear, absent = (ranking.rarity(n, 3) for n in (2, 1, 0))
    hits = {hit.ref: hit.share for hit in await finder.find("apple pear xylophone", ["s1"])}
    assert hits["turn:1"] == pytest.approx((apple + pear) / (apple + pear + absent))
    assert hits["turn:2"] == pytest.approx(apple / (apple + pear + absent))
    assert [hit.share for hit in await finder.find("is there a quince", ["s1"])] == [1.0]


async def test_rank_is_bm25(finder: LocalFinder) -> None:
    await finder.apply(1, put=[turn(1, "apple apple pear"), turn(2, "apple"), turn(3, "plum fig", before="apple")])
    lengths = [3.0, 1.0, 2 + ranking.BEFORE_WEIGHT]
    hits = {hit.ref: hit.rank for hit in await finder.find("apple", ["s1"])}
    rarity = ranking.rarity(2, 3)
    assert hits["turn:1"] == pytest.approx(rarity * ranking.worth(2, lengths[0]))
    assert hits["turn:2"] == pytest.approx(rarity * ranking.worth(1, lengths[1]))
    assert hits["turn:3"] == pytest.approx(rarity * ranking.worth(ranking.BEFORE_WEIGHT, lengths[2]))


async def test_a_window_helps_its_turn_to_be_found_but_less_than_own_words(finder: LocalFinder) -> None:
    await finder.apply(
        1,
        put=[
            turn(1, "Ana: where did you hike?"),
            turn(2, "Ben: around the lake", before="Ana: where did you hike?", window_of="turn:1"),
        ],
    )
    assert await refs(finder, "hike") == ["turn:1", "turn:2"]
    assert await finder.neighbours(["turn:1", "turn:9"]) == ["turn:2"]
    assert await finder.neighbours(["turn:2"]) == []
    assert await finder.neighbours([]) == []


async def test_filters_apply_before_the_best_are_taken(finder: LocalFinder) -> None:
    strong = [turn(n, "apple apple apple", labels=frozenset({"a"})) for n in range(50)]
    await finder.apply(
        1,
        put=[
            *strong,
            turn("weak", "one apple and then a good many other words", labels=frozenset({"a", "b"})),
            turn("fact", "an apple among lots of further different words", kind="fact"),
            turn("old", "apple was the earlier value of this", live=False),
        ],
    )
    assert await refs(finder, "apple", only=Only(labels=frozenset({"a", "b"})), limit=3) == ["turn:weak"]
    assert await refs(finder, "apple", kinds={"fact"}, limit=3) == ["turn:fact"]
    assert await refs(finder, "apple", kinds=(), limit=3) == []
    assert await refs(finder, "earlier") == []
    assert await refs(finder, "earlier", only=Only(live=False)) == ["turn:old"]
    assert len(await refs(finder, "apple", limit=3)) == 3
    assert await refs(finder, "apple", limit=0) == []


async def test_one_row_a_ref_by_its_best_unit(finder: LocalFinder) -> None:
    def chunk(unit: str, text: str) -> Entry:
        return Entry(ref="turn:long", unit=f"memory_chunk:{unit}", kind="passage", scope_set="s1", text=text)

    await finder.apply(
        1,
        put=[
            chunk("a", "some words about boats and sails"),
            chunk("b", "a harbour with boats, boats, boats"),
            *[chunk(f"c{n}", "boats again with padding words of no interest whatsoever") for n in range(30)],
            turn(2, "boats with a good deal of further text that makes this one quite long indeed"),
        ],
    )
    found = await finder.find("boats", ["s1"], limit=2)
    assert [hit.ref for hit in found] == ["turn:long", "turn:2"]
    assert found[0].unit == "memory_chunk:b"
    await finder.apply(2, put=[chunk("a", "boats boats boats boats")])  # a later put joins the same ref
    found = await finder.find("boats", ["s1"], limit=10)
    assert [hit.unit for hit in found] == ["memory_chunk:a", "turn:2"]
    await finder.apply(3, drop=["turn:long"])
    assert await refs(finder, "boats") == ["turn:2"]


async def test_equal_ranks_give_the_newest_first(finder: LocalFinder) -> None:
    await finder.apply(1, put=[turn(n, "apple", at=n * 7 % 10) for n in range(10)])
    assert await refs(finder, "apple", limit=3) == ["turn:7", "turn:4", "turn:1"]


async def test_an_index_built_in_another_order_answers_in_the_same_order(finder: LocalFinder) -> None:
    entries = [turn(n, "apple", at=n // 5) for n in range(20)]
    await finder.apply(1, put=entries)
    before = await refs(finder, "apple")
    await finder.rebuild("context-1", stream(*entries[::-1]), 1)
    assert await refs(finder, "apple") == before


async def test_put_replaces_and_drop_comes_before_put(finder: LocalFinder) -> None:
    await finder.apply(1, put=[turn(1, "apple"), turn(2, "pear")])
    assert await refs(finder, "apple") == ["turn:1"]
    await finder.apply(2, put=[turn(1, "quince")])
    assert await refs(finder, "apple") == []
    assert await refs(finder, "quince") == ["turn:1"]
    await finder.apply(3, drop=["turn:1", "turn:2", "turn:unknown"], put=[turn(1, "plum"), turn(1, "fig")])
    assert await refs(finder, "quince plum pear") == []
    assert await refs(finder, "fig") == ["turn:1"]
    assert await finder.applied() == 3


async def test_terms_in_memory_follow_every_change(finder: LocalFinder) -> None:
    for step in range(1, 30):
        await finder.apply(
            step,
            put=[turn(step, "apple pie", scope_set=f"s{step % 3}")],
            drop=[f"turn:{step - 5}"] if step % 2 else [],
        )
        mirror = [n for n in range(1, step + 1) if not (n % 2 == 0 and n + 5 <= step)]
        found = await refs(finder, "apple", "s0", "s1", "s2")
        assert sorted(found) == sorted(f"turn:{n}" for n in mirror)
        assert sorted(await refs(finder, "apple", "s1")) == sorted(f"turn:{n}" for n in mirror if n % 3 == 1)


async def test_many_scope_sets_are_read_as_few_are(finder: LocalFinder) -> None:
    await finder.apply(1, put=[turn(n, f"apple number{n % 7}", scope_set=f"set{n}") for n in range(300)])
    everything = [f"set{n}" for n in range(300)]
    for some in (everything, everything[:200], everything[:70], everything[:10], everything[:3]):
        found = await finder.find("apple", some, limit=1000)
        assert {hit.ref for hit in found} == {f"turn:{name.removeprefix('set')}" for name in some}
        assert {hit.share for hit in found} == {1.0}
    await finder.apply(2, put=[turn("new", "apple", scope_set="set5"), turn("other", "apple", scope_set="set999")])
    assert "turn:new" in await refs(finder, "apple", *everything)
    assert "turn:other" not in await refs(finder, "apple", *everything)
    assert await refs(finder, "apple", "set999") == ["turn:other"]


async def test_a_term_in_very_many_rows_keeps_its_counts(finder: LocalFinder) -> None:
    await finder.apply(1, put=[turn(n, "apple " * (n % 40 + 1), before="apple " * (n % 3)) for n in range(200)])
    first = await finder.find("apple", ["s1"], limit=200)
    await finder.scrub()  # what was in memory is read from the file again
    assert await finder.find("apple", ["s1"], limit=200) == first
    assert len(first) == 200


ODD = [
    "",
    " ",
    '"',
    '"apple',
    "apple*",
    "NEAR(",
    "NEAR(apple pear, 2)",
    "apple AND",
    "NOT apple",
    "-apple",
    "terms:apple",
    "apple OR pear)",
    "{terms} : apple",
    "^apple",
    "apple\x00pear",
    "\x00",
    "🙂🎉👩‍👩‍👧",
    "\ud800",
    "apple\ud800",
    "'; DROP TABLE entry; --",
    "%_%",
    "\ue000\ue001",
    "apple\ue0001\ue00110",
    "!?.,;:…",
    "a" * 10_000,
    "word " * 2_000,
    "東" * 10_000,
    " ".join(f"w{n}" for n in range(3_000)),
    "\u200b\u200d\ufeff",
    "a\u0301" * 5_000,
]


@pytest.mark.parametrize("query", ODD, ids=range(len(ODD)))
async def test_odd_questions_never_fail(finder: LocalFinder, query: str) -> None:
    await finder.apply(1, put=[turn(1, "apple pear"), turn(2, query)])
    found = await finder.find(query, ["s1", "no such set", "\ud800"])
    assert {hit.ref for hit in found} <= {"turn:1", "turn:2"}
    assert await finder.names_in(query, ["s1"]) == []
    if "apple" in query and "*" not in query:
        assert found


async def test_a_long_question_is_searched_by_its_rarest_terms(finder: LocalFinder) -> None:
    common = [f"common{chr(97 + n // 26)}{chr(97 + n % 26)}" for n in range(200)]
    await finder.apply(1, put=[*[turn(n, " ".join(common)) for n in range(3)], turn("rare", "needle")])
    query = " ".join([*common, "needle"])
    assert "turn:rare" in await refs(finder, query)


async def test_forged_marks_in_text_do_not_reach_other_scope_sets(finder: LocalFinder) -> None:
    await finder.apply(1, put=[turn(1, "pear", scope_set="a"), turn(2, "apple\ue0001\ue00110", scope_set="b")])
    assert await refs(finder, "apple", "a") == []
    assert await refs(finder, "apple", "b") == ["turn:2"]


async def test_a_change_that_does_not_follow_the_last_one_is_not_applied(finder: LocalFinder) -> None:
    assert not await finder.apply(2, put=[turn(1, "apple")], after=1)
    assert await finder.apply(1, put=[turn(1, "apple")])
    assert not await finder.apply(3, put=[turn(2, "pear")], drop=["turn:1"], after=2)
    assert await refs(finder, "apple pear") == ["turn:1"]
    assert await finder.applied() == 1
    assert await finder.apply(2, put=[turn(2, "pear")], after=1)
    assert sorted(await refs(finder, "apple pear")) == ["turn:1", "turn:2"]
    assert await finder.applied() == 2


async def test_who_is_named_and_said_it_comes_before_who_was_spoken_to(finder: LocalFinder) -> None:
    said = [turn(1, "Oren: Mara, did you paint the boat?"), turn(2, "Mara: did you paint the boat, Oren?")]
    await finder.rebuild("c", stream(*said, *(turn(n, f"Oren: nothing {n}") for n in range(3, 9))), 1)
    found = await finder.find("What did Mara paint?", ["s1"])
    assert [hit.ref for hit in found][:2] == ["turn:2", "turn:1"]
    assert found[0].share == found[1].share


async def test_what_nobody_is_named_to_have_said_stands_beside_what_somebody_said(finder: LocalFinder) -> None:
    said = [
        turn(1, "Mara moved to the island"),
        turn(2, "Mara: sit down, I am moving house"),
        turn(3, "Oren: Mara moves"),
    ]
    await finder.rebuild("c", stream(*said, *(turn(n, f"Oren: nothing {n}") for n in range(4, 9))), 1)
    assert [hit.ref for hit in await finder.find("Where did Mara move?", ["s1"])] == ["turn:1", "turn:2", "turn:3"]


def one_of_many(number: int, text: str, **more: object) -> Entry:
    return replace(turn(number, text, at=number), voice="mara", **more)  # type: ignore[arg-type]


async def test_what_says_the_same_leaves_room_for_others(finder: LocalFinder) -> None:
    copies = [
        one_of_many(number, "A heron on the quay." if number % 2 else "a heron, on the quay") for number in range(600)
    ]
    others = [one_of_many(1000 + number, f"heron {number} seen far from here") for number in range(20)]
    await finder.apply(1, put=[*copies, *others])
    found = await finder.find("heron on the quay", {"s1"}, limit=23, copies=3)
    assert [one.ref for one in found[:3]] == ["turn:599", "turn:598", "turn:597"]
    assert {one.ref for one in found[3:]} == {entry.ref for entry in others}
    assert len(await finder.find("heron on the quay", {"s1"}, limit=50)) == 50


@pytest.mark.parametrize("newer", [{"scope_set": "s2"}, {"live": False}, {"labels": frozenset()}, {"voice": "tove"}])
async def test_a_copy_that_may_not_be_found_hides_none(finder: LocalFinder, newer: dict[str, object]) -> None:
    mine = one_of_many(1, "a heron on the quay", labels=frozenset({"bird"}))
    await finder.apply(
        1, put=[mine, *(replace(mine, ref=f"turn:{n}", unit=f"turn:{n}", at=n, **newer) for n in range(2, 9))]
    )
    found = await finder.find("heron", {"s1"}, only=Only(labels=frozenset({"bird"})), copies=1)
    assert "turn:1" in [one.ref for one in found]


async def test_copies_leave_room_in_meaning_too(finder: LocalFinder) -> None:
    entries = [one_of_many(number, "same", meaning="same") for number in range(300)]
    entries += [one_of_many(1000 + number, f"other {number}", meaning=f"other {number}") for number in range(5)]
    await finder.apply(1, put=entries)
    await finder.begin_space(SMALL)
    await finder.put_vectors(SMALL, {e.unit: stored(drawn(1 if e.text == "same" else e.at)) for e in entries})
    found = await finder.near(Point(SMALL, asked(drawn(1))), {"s1"}, limit=8, copies=3)
    assert [one.ref for one in found[:3]] == ["turn:299", "turn:298", "turn:297"]
    assert {one.ref for one in found[3:]} == {f"turn:{1000 + number}" for number in range(5)}


def test_terms_that_stand_nowhere_cost_one_look_up_each(tmp_path: Path) -> None:
    file = IndexFile.create(tmp_path / "file", "c", stemmer())
    file.apply(1, [replace(turn(n, f"place {n} in town"), scope_set=f"s{n}") for n in range(60)])
    statements: list[str] = []
    file._db.set_trace_callback(statements.append)  # pyright: ignore[reportPrivateUsage]
    question = " ".join(f"rare{chr(97 + n // 26 % 26)}{chr(97 + n % 26)}{'x' * (n // 676)}" for n in range(1024))
    assert file.find(question, [f"s{n}" for n in range(60)], ("passage",), ANY, 10) == []
    looked_up = [one for one in statements if one.startswith("SELECT")]
    file.close()
    assert len(looked_up) == MOST_TERMS


def test_a_search_that_nobody_waits_for_ends(tmp_path: Path) -> None:
    looked: list[str] = []

    def read(word: str, _: object) -> dict[int, Postings]:
        looked.append(word)
        return {}

    index = TextIndex(read)
    index.columns.add(Row(0, 1, 0, 0, True, 1, 0, frozenset(), 0, 0))
    wanted = Wanted(
        scope_sets={1},
        kinds=frozenset({0}),
        labels=frozenset(),
        live_only=True,
        limit=9,
        given_up=lambda: len(looked) > 2,
    )
    with pytest.raises(GivenUp):
        index.search([f"word{n}" for n in range(100)], wanted)
    assert len(looked) == 3
