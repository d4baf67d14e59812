"""Laws of the order and of the score."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from keeps.core import fusion
from keeps.core.fusion import MIN_SCORE, SMALL_POOL, Signals, fuse

parts = st.floats(0.0, 1.0, allow_nan=False)


@st.composite
def signals(draw: st.DrawFn) -> Signals:
    """What legs may say of one candidate."""
    found = draw(st.booleans())
    share = draw(parts) if found else 0.0
    return Signals(
        text=draw(st.floats(0.01, 40.0)) if found else 0.0,
        share=share,
        named=share * draw(st.sampled_from([0.0, 0.5, 1.0])),
        fact=draw(st.booleans()),
        cosine=draw(st.none() | st.floats(-1.0, 1.0)),
        graph=draw(st.just(0.0) | parts),
        direct=draw(st.integers(0, 9)) == 0,
        assistant=draw(st.booleans()),
        asks=draw(st.booleans()),
        usual=draw(parts),
        before=draw(st.none() | st.integers(0, 60).map("r{:03}".format)),
    )


def pools(least: int = 0, most: int = 60) -> st.SearchStrategy[dict[str, Signals]]:
    """Candidates by their keys."""
    return st.lists(signals(), min_size=least, max_size=most).map(
        lambda found: {f"r{n:03}": s for n, s in enumerate(found)}
    )


def usual(size: int = 64) -> dict[str, Signals]:
    """An unremarkable pool: every second candidate holds a word or two of the question."""
    return {
        f"u{n:03}": Signals(
            text=1.0 + n % 5 * 0.4 if n % 2 else 0.0,
            share=0.1 + n % 5 * 0.08 if n % 2 else 0.0,
            cosine=0.05 + n % 11 * 0.03,
        )
        for n in range(size)
    }


def order(candidates: dict[str, Signals]) -> list[str]:
    return [fused.ref for fused in fuse(candidates)]


def test_nothing_gives_nothing() -> None:
    assert list(fuse({})) == []


@given(pools(), st.randoms(use_true_random=False))
def test_the_order_in_which_candidates_come_in_changes_nothing(pool: dict[str, Signals], random) -> None:  # pyright: ignore
    mixed = list(pool.items())
    random.shuffle(mixed)
    one, other = fuse(pool), fuse(dict(mixed))
    assert [f.ref for f in one] == [f.ref for f in other]
    assert [f.score for f in one] == [f.score for f in other]


@given(pools())
def test_everyone_is_there_once_and_scores_are_parts_of_one(pool: dict[str, Signals]) -> None:
    fused = fuse(pool)
    assert sorted(f.ref for f in fused) == sorted(pool)
    assert all(0.0 <= f.score <= 1.0 for f in fused)


@given(pools(1))
def test_direct_ones_come_first_with_a_high_score(pool: dict[str, Signals]) -> None:
    fused = fuse(pool)
    direct = [pool[f.ref].direct for f in fused]
    assert direct == sorted(direct, reverse=True)
    assert all(f.score >= fusion.DIRECT_SCORE for f in fused if pool[f.ref].direct)


@given(pools(1, SMALL_POOL - 1))
def test_a_small_pool_is_in_the_order_of_the_score(pool: dict[str, Signals]) -> None:
    scores = [f.score for f in fuse(pool)]
    assert scores == sorted(scores, reverse=True)


@given(signals(), st.integers(1, 600), parts, st.floats(0.0, 20.0), parts)
def test_more_of_a_signal_never_lowers_a_score(
    at: Signals, crowd: int, nearer: float, more: float, graph: float
) -> None:
    before = fusion.score(at, crowd)
    if at.cosine is not None:
        assert fusion.score(replace(at, cosine=at.cosine + nearer), crowd) >= before
    assert fusion.score(replace(at, text=at.text + more), crowd) >= before or at.text == 0.0
    assert fusion.score(replace(at, share=min(1.0, at.share + nearer)), crowd) >= before
    assert fusion.score(replace(at, graph=max(at.graph, graph)), crowd) >= before
    assert fusion.score(replace(at, direct=True), crowd) >= before


@pytest.mark.parametrize("number", range(0, 64, 7))
@pytest.mark.parametrize(
    "more",
    [{"text": 2.0, "share": 0.2}, {"cosine": 0.15}, {"graph": 0.6}, {"direct": True}],
    ids=lambda more: "+".join(more),
)
def test_more_of_a_signal_never_lowers_a_place(number: int, more: dict[str, float]) -> None:
    pool = usual()
    ref = f"u{number:03}"
    at = pool[ref]
    raised = replace(
        at, **{name: value if name == "direct" else (getattr(at, name) or 0.0) + value for name, value in more.items()}
    )
    assert order(pool | {ref: raised}).index(ref) <= order(pool).index(ref)


def test_what_a_person_said_stands_above_what_an_assistant_said_alike() -> None:
    pool = usual() | {
        "a": Signals(text=5.0, share=0.7, cosine=0.5, assistant=True),
        "b": Signals(text=5.0, share=0.7, cosine=0.5),
    }
    fused = {f.ref: f for f in fuse(pool)}
    assert fused["b"].order > fused["a"].order
    assert fused["b"].score > fused["a"].score
    small = {f.ref: f for f in fuse({ref: pool[ref] for ref in ("a", "b")})}
    assert small["b"].order > small["a"].order


def test_what_tells_stands_above_what_asks_alike() -> None:
    alike = Signals(text=5.0, share=0.7, cosine=0.5)
    pool = usual() | {"a": replace(alike, asks=True), "b": alike, "c": replace(alike, asks=True, cosine=0.7)}
    assert order(pool)[:3] == ["c", "b", "a"]


def test_what_is_near_to_everything_stands_below_what_is_near_to_the_question() -> None:
    pool = usual() | {"small talk": Signals(cosine=0.55, usual=0.5), "answer": Signals(cosine=0.5, usual=0.1)}
    places = order(pool)
    assert places.index("answer") < places.index("small talk")


def test_what_stands_beside_a_strong_answer_gains_by_it() -> None:
    alike = Signals(text=1.0, share=0.2, cosine=0.3)
    strong = Signals(text=9.0, share=1.0, cosine=0.7, before="c")
    pool = usual() | {"a": alike, "b": replace(alike, before="strong"), "c": alike, "strong": strong}
    places = order(pool)
    assert places.index("b") < places.index("a")
    assert places.index("c") < places.index("a")
    assert {f.ref: f.score for f in fuse(pool)}["b"] == {f.ref: f.score for f in fuse(pool)}["a"]


def test_a_far_better_answer_of_an_assistant_stands_in_front() -> None:
    pool = usual() | {"a": Signals(text=9.0, share=1.0, cosine=0.7, assistant=True)}
    assert order(pool)[0] == "a"


def test_words_weigh_nothing_when_even_the_best_holds_little_of_the_question() -> None:
    pool = {ref: replace(s, share=s.share / 10) for ref, s in usual().items()}
    fused = fuse(pool)
    assert fused[0].weights["text"] == 0.0
    nearest = max(pool, key=lambda ref: pool[ref].cosine or 0.0)
    assert pool[fused[0].ref].cosine == pool[nearest].cosine


def test_meaning_weighs_nothing_when_nothing_is_near() -> None:
    pool = {ref: replace(s, cosine=(s.cosine or 0.0) / 10) for ref, s in usual().items()}
    fused = fuse(pool)
    assert fused[0].weights["vector"] == 0.0
    assert fused[0].weights["text"] > 0.0


def test_a_row_without_a_vector_does_not_stand_behind_for_want_of_it() -> None:
    pool = usual() | {"new": Signals(text=6.0, share=0.9)}
    assert order(pool)[0] == "new"


def test_without_vectors_words_alone_make_order_and_score() -> None:
    pool = {ref: replace(s, cosine=None) for ref, s in usual().items() if s.text}
    pool |= {"all": Signals(text=6.0, share=1.0), "half": Signals(text=3.5, share=0.5)}
    fused = fuse(pool)
    assert [f.ref for f in fused][:2] == ["all", "half"]
    assert fused[0].score > 0.5


def test_a_strong_answer_is_above_the_floor_and_a_weak_one_below() -> None:
    assert fusion.score(Signals(text=5.0, share=0.6, cosine=0.55), 300) > 0.6
    assert fusion.score(Signals(cosine=0.25), 300) < MIN_SCORE
    assert fusion.score(Signals(cosine=0.5), 30) > MIN_SCORE


def test_further_candidates_that_are_not_more_do_not_move_a_score() -> None:
    mine = {"mine": Signals(text=4.0, share=0.5, cosine=0.4)}
    near = {f.ref: f.score for f in fuse(usual() | mine)}
    far = {f.ref: f.score for f in fuse({ref: replace(s, cosine=0.9) for ref, s in usual().items()} | mine)}
    assert near["mine"] == far["mine"]


@given(pools())
def test_of_the_others_only_their_number_and_how_strange_the_question_is_to_them_all_count(
    pool: dict[str, Signals],
) -> None:
    pool = {ref: replace(s, named=0.0) for ref, s in pool.items()}
    strange = fusion.strangeness(list(pool.values()))
    crowd = {fact: sum(s.fact is fact for s in pool.values()) for fact in (False, True)}
    assert 0.0 <= strange <= fusion.MOST_STRANGE
    assert _scores(fuse(pool)) == {ref: fusion.score(s, crowd[s.fact], strange) for ref, s in pool.items()}


@given(pools(1), st.data(), parts, st.floats(0.0, 20.0))
def test_what_speaks_for_a_candidate_never_makes_the_question_stranger(
    pool: dict[str, Signals], data: st.DataObject, nearer: float, more: float
) -> None:
    ref = data.draw(st.sampled_from(sorted(pool)))
    at = pool[ref]
    raised = replace(at, text=at.text + more, share=min(1.0, at.share + nearer), graph=max(at.graph, nearer))
    if at.cosine is not None:
        raised = replace(raised, cosine=at.cosine + nearer)
    before, after = fuse(pool), fuse(pool | {ref: raised})
    assert fusion.strangeness(list((pool | {ref: raised}).values())) <= fusion.strangeness(list(pool.values())) + 1e-12
    assert _scores(after)[ref] >= _scores(before)[ref] - 1e-12


@given(pools(1, 59), st.data(), st.floats(-1.0, 1.0))
def test_nearness_of_another_moves_a_score_by_so_much_at_most(
    pool: dict[str, Signals], data: st.DataObject, cosine: float
) -> None:
    other = data.draw(st.sampled_from(sorted(pool)))
    if pool[other].cosine is None:
        return
    pool = {ref: replace(s, named=0.0) for ref, s in pool.items()}
    moved = pool | {other: replace(pool[other], cosine=cosine)}
    for ref in pool.keys() - {other}:
        least = fusion.score(pool[ref], len(pool), fusion.MOST_STRANGE)
        most = fusion.score(pool[ref], len(pool))
        assert least <= _scores(fuse(moved))[ref] <= most


@given(signals(), st.lists(signals().map(lambda s: replace(s, cosine=None)), max_size=40))
def test_one_or_two_rows_with_a_vector_have_no_company_to_lack(one: Signals, wordy: list[Signals]) -> None:
    assert fusion.strangeness([one, one, *wordy]) == 0.0


def _scores(fused: Sequence[fusion.Fused]) -> dict[str, float]:
    return {f.ref: f.score for f in fused}


def around(best: float, *company: float, size: int = 30, rest: float = 0.02, alike: float = 0.095) -> list[Signals]:
    """A memory of `size` rows, as near to each other as `alike`: the nearest to a question, what comes after it, and
    the rest."""
    near = [best, *company, *[rest] * size][:size]
    usual = alike + (1.0 - alike) / size
    return [Signals(cosine=cosine, usual=usual) for cosine in near]


def passing(rows: list[Signals]) -> int:
    return sum(f.score >= MIN_SCORE for f in fuse({f"r{n:03}": s for n, s in enumerate(rows)}))


# Cosines that MiniLM gives to thirty rows about software and a novel.
PIANIST = around(0.29, 0.16, 0.15, 0.12, 0.11, 0.10, 0.09, 0.08, 0.08, 0.07)  # Who wrote the Brandenburg Concertos?
MIXER = around(0.28, 0.17, 0.17, 0.16, 0.12, 0.11, 0.11, 0.10, 0.10, 0.09)  # What does a carburettor mix?
SETUP = around(0.26, 0.21, 0.20, 0.17, 0.17, 0.15, 0.15, 0.14, 0.14, 0.13)  # how's our SQLAlchemy setup these days?


def test_a_row_that_is_near_alone_is_no_answer_where_the_question_is_not_at_home() -> None:
    assert passing(PIANIST) == 0
    assert passing(MIXER) == 0
    assert passing(SETUP) == 1


def test_a_question_whose_words_are_known_is_less_of_a_stranger() -> None:
    wordy = [*PIANIST[:-1], replace(PIANIST[-1], text=1.9, share=0.2)]
    assert fusion.strangeness(wordy) < fusion.strangeness(PIANIST)
    named = [*PIANIST[:-1], replace(PIANIST[-1], graph=0.7)]
    assert fusion.strangeness(named) < fusion.strangeness(PIANIST)


def test_where_rows_are_like_each_other_company_must_be_nearer() -> None:
    company = [0.25] * 9
    assert fusion.strangeness(around(0.42, *company, size=300, alike=0.1)) == 0.0
    assert fusion.strangeness(around(0.42, *company, size=300, alike=0.4)) == fusion.MOST_STRANGE


@pytest.mark.parametrize("size", [1, 2, 3, 6, 12, 30])
def test_a_row_that_is_near_enough_needs_no_company(size: int) -> None:
    assert passing(around(0.386, size=size)) == 1
    words = [replace(s, text=1.0, share=1.0) if n == 0 else s for n, s in enumerate(around(0.3, size=size))]
    assert passing(words) == 1


@pytest.mark.parametrize("size", [1, 2, 3])
def test_the_few_rows_of_a_new_memory_are_well_above_the_floor(size: int) -> None:
    rows = {f"r{n}": s for n, s in enumerate(around(0.386, 0.1, size=size))}
    assert fuse(rows)[0].score > 0.5


def test_a_further_leg_is_one_more_entry() -> None:
    pool = usual() | {"meant": Signals(cosine=0.1, sparse=0.9)}
    assert order(pool)[0] == "meant"


class Counted(float):
    """A number that counts how often it is taken into account."""

    used = 0

    def __sub__(self, other: float) -> float:
        Counted.used += 1
        return float(self) - other


def test_the_work_grows_with_the_number_of_candidates_only() -> None:
    def work(size: int) -> int:
        Counted.used = 0
        fuse({f"r{n}": Signals(text=1.0, share=0.5, cosine=Counted(n % 97 / 97)) for n in range(size)})
        return Counted.used

    assert 0 < work(512) <= 8 * work(64) + 8


def talk(size: int = 64, **spoken: float) -> dict[str, Signals]:
    """Talk of two people, all of it as near as small talk is; every second turn is said by the one who is named."""
    named = {"text": 2.0, "share": 0.12, "named": 0.12} | spoken
    return {
        f"u{n:03}": Signals(cosine=0.1 + n % 9 * 0.03, **(named if n % 2 else {}))  # pyright: ignore[reportArgumentType]
        for n in range(size)
    }


@pytest.mark.parametrize("cosine", [0.48, 0.6, 0.65])
def test_the_name_of_who_speaks_alone_lifts_nothing_over_the_floor(cosine: float) -> None:
    alone = Signals(text=2.0, share=0.12, named=0.12, cosine=cosine, usual=0.2)
    scores = _scores(fuse(talk() | {"alone": alone, "more": replace(alone, share=0.3, text=2.6)}))
    assert scores["alone"] < MIN_SCORE < scores["more"]


def test_nearness_that_no_name_brought_is_left_alone() -> None:
    pool = talk() | {"near": Signals(cosine=0.55)}
    unnamed = {ref: replace(s, named=0.0) for ref, s in pool.items()}
    assert _scores(fuse(pool))["near"] == _scores(fuse(unnamed))["near"] > MIN_SCORE


def test_where_more_hold_a_name_than_the_text_leg_may_say_the_silent_ones_may_hold_it_too() -> None:
    near = {"near": Signals(cosine=0.55)}
    few, many = talk(2 * fusion.FULL_LEG - 2) | near, talk(2 * fusion.FULL_LEG) | near
    assert _scores(fuse(few))["near"] > MIN_SCORE > _scores(fuse(many))["near"]


def test_a_fact_about_who_is_named_stands_before_what_they_said() -> None:
    alike = Signals(text=2.0, share=0.12, named=0.12, cosine=0.5, usual=0.2)
    pool = talk() | {"said": alike, "fact": replace(alike, fact=True)}
    assert order(pool)[0] == "fact"
    assert _scores(fuse(pool))["said"] < MIN_SCORE < _scores(fuse(pool))["fact"]


def test_few_facts_are_no_crowd_because_much_was_said_beside_them() -> None:
    near = Signals(cosine=0.36, usual=0.04)
    pool = usual(240) | {"said": near, "fact": replace(near, fact=True)}
    assert _scores(fuse(pool))["said"] < MIN_SCORE < _scores(fuse(pool))["fact"]
    many = pool | {f"f{n:03}": Signals(cosine=0.05, fact=True) for n in range(240)}
    assert _scores(fuse(many))["fact"] < MIN_SCORE


def test_the_only_clear_answer_is_not_buried_under_chance_words() -> None:
    pool = {f"u{n:03}": Signals(cosine=n % 11 * 0.02, usual=0.2) for n in range(220)}
    pool |= {f"w{n}": Signals(text=2.4, share=0.42, cosine=0.2 + n * 0.02, usual=0.27) for n in range(3)}
    pool["fact"] = Signals(cosine=0.36, usual=0.04, fact=True)
    assert order(pool)[0] == "fact"


@pytest.mark.parametrize("more", [{"text": 0.3}, {"cosine": 0.03}, {"text": 0.3, "cosine": 0.03}], ids=str)
def test_of_two_good_answers_the_one_with_more_to_say_for_it_comes_first(more: dict[str, float]) -> None:
    less = Signals(text=5.0, share=1.0, cosine=0.7, usual=0.16, fact=True)
    full = replace(less, **{name: getattr(less, name) + by for name, by in more.items()})
    assert order(usual() | {"a": less, "b": full})[:2] == ["b", "a"]


def test_how_far_scores_are_apart_is_told_from_what_speaks_for_them() -> None:
    low, high = Signals(cosine=0.9, text=5.0, share=1.0), Signals(cosine=0.95, text=5.0, share=1.0)
    for s, by in ((low, 0.05), (Signals(cosine=0.25), 0.05), (Signals(cosine=0.5), 0.0)):
        nearer = replace(s, cosine=(s.cosine or 0.0) + by)
        assert fusion.apart(fusion.score(s, 30), fusion.score(nearer, 30)) == pytest.approx(by, abs=1e-4)
    assert fusion.apart(fusion.score(low, 30), fusion.score(high, 30)) > 0.04
    assert fusion.apart(1.0, 1.0) == 0.0
