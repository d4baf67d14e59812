"""Citations are verified letter by letter against what a run was given."""

from __future__ import annotations

import re

from hypothesis import given
from hypothesis import strategies as st

from keeps.core.citations import MOST_BAD_CHARS, MOST_CITES, SHOWN_AS, refreshed, safe_part, verify_cites
from keeps.core.facts import Origin

OFFERED = ("attribute:aaa", "attribute:bbb", "memory_chunk:c_0")
NAMES = st.sampled_from([*OFFERED, "attribute:zzz", " attribute:aaa", "attribute:AAA", "attribute:aaa ", "", "aaa"])


def test_e2_only_real_cites_are_kept_once_and_in_their_order() -> None:
    cites = ["attribute:bbb", "fake", "attribute:aaa", "attribute:bbb", " attribute:aaa", "ATTRIBUTE:AAA", "aaa"]
    found = verify_cites(cites, OFFERED, {"attribute:aaa", "attribute:bbb"})
    assert found.kept == ("attribute:bbb", "attribute:aaa")
    assert found.dropped == ("fake", " attribute:aaa", "ATTRIBUTE:AAA", "aaa")
    assert not found.uncited


def test_e2_what_was_forgotten_since_is_dropped_like_what_never_was() -> None:
    found = verify_cites(["attribute:aaa"], OFFERED, set())
    assert (found.kept, found.dropped, found.uncited) == ((), ("attribute:aaa",), True)
    assert verify_cites(["attribute:aaa"], OFFERED).kept == ("attribute:aaa",)


def test_an_answer_that_cites_nothing_is_not_called_uncited() -> None:
    assert verify_cites([], OFFERED) == verify_cites((), ())
    assert not verify_cites([], OFFERED).uncited


def test_at_most_twenty_cites_are_kept() -> None:
    offered = [f"attribute:m{number:02}" for number in range(30)]
    found = verify_cites(offered, offered)
    assert found.kept == tuple(offered[:MOST_CITES])
    assert len(found.dropped) == 10


def test_what_is_no_string_is_dropped() -> None:
    class Sly(str):
        def __hash__(self) -> int:
            return hash("attribute:aaa")

        def __eq__(self, other: object) -> bool:
            return True

    found = verify_cites([7, None, Sly("zzz")], OFFERED)  # type: ignore[list-item]
    assert found.kept == ()
    assert len(found.dropped) == 3


@given(st.lists(NAMES, max_size=60), st.sets(NAMES), st.sets(NAMES))
def test_every_cite_is_kept_or_dropped_and_what_is_kept_was_offered_and_is_there(
    cites: list[str], offered: set[str], live: set[str]
) -> None:
    found = verify_cites(cites, offered, live)
    again = sum(cites.count(cite) - 1 for cite in found.kept)
    assert len(found.kept) + again + len(found.dropped) == len(cites)
    assert len(set(found.kept)) == len(found.kept)
    assert set(found.kept) <= offered & live & set(cites)
    assert set(found.kept) == offered & live & set(cites)  # there are fewer than twenty names
    assert [cites.index(each) for each in found.kept] == sorted(cites.index(each) for each in found.kept)
    assert verify_cites(found.kept, offered, live).kept == found.kept
    assert found.uncited == (bool(cites) and not found.kept)


@given(st.text(max_size=200))
def test_what_is_noted_of_a_bad_cite_is_short_and_plain(cite: str) -> None:
    part = safe_part(cite)
    assert part in cite
    assert re.fullmatch(rf"[A-Za-z0-9_:/-]{{0,{MOST_BAD_CHARS}}}", part)


def test_of_a_sentence_where_an_id_should_stand_one_word_is_noted() -> None:
    assert safe_part("Mara lives at Elm Street 4") == "Mara"
    assert safe_part(" attribute:aaa<script>") == "attribute:aaa"
    assert safe_part("x" * 100) == "x" * MOST_BAD_CHARS


@given(st.floats(0, 1), st.floats(0, 1))
def test_importance_is_set_back_and_never_raised_above_its_first_value(importance: float, first: float) -> None:
    again = refreshed(importance, first=first)
    assert again == max(importance, first)
    assert refreshed(again, first=first) == again


def test_every_origin_has_words_for_a_person() -> None:
    assert set(SHOWN_AS) == set(Origin)
