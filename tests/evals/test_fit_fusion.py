"""What fits the fusion and shows its legs: on a few made-up turns, without the kit and without a model."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from evals.vector_leg import Asked, Vectors

from evals import fit_fusion, vector_leg
from keeps.core import fusion
from keeps.core.fusion import Signals
from keeps.models.fake import FakeEmbedder


@dataclass(frozen=True)
class Item:
    id: str
    user: str
    session: str
    speaker: str
    text: str


@dataclass(frozen=True)
class Probe:
    user: str
    q: str
    kind: str
    gold: tuple[str, ...]


@dataclass(frozen=True)
class Data:
    items: list[Item]
    probes: list[Probe]


ITEMS = [
    Item("a1", "ana", "s1", "Mara", "Mara: the boat is painted red"),
    Item("a2", "ana", "s1", "Oren", "Oren: is it dry?"),
    Item("a3", "ana", "s2", "Mara", "Mara: the harbour was closed"),
    Item("b1", "ben", "s1", "assistant", "assistant: " + "bread needs time. " * 200),
]


def test_windows_stay_within_a_session_and_meaning_is_the_first_passage() -> None:
    rows = vector_leg.entries(ITEMS)
    assert [row.window_of for row in rows if row.unit.endswith("_0")] == [None, "turn:a1", None, None]
    long = [row for row in rows if row.ref == "turn:b1"]
    assert len(long) > 1
    assert [row.meaning is not None for row in long] == [True] + [False] * (len(long) - 1)
    assert all(row.assistant for row in long)


async def test_questions_get_what_both_legs_say_within_their_own_conversation(tmp_path: Path) -> None:
    embedder = FakeEmbedder()
    vectors = Vectors(tmp_path / "vectors.npz", embedder)
    data = Data(ITEMS, [Probe("ana", "what did Mara paint red?", "one", ("a1",))])
    own, foreign = await vector_leg.asked("made", data, tmp_path, vectors, await embedder.space(), ["bread?"])
    (one,) = own
    assert one.gold == ("turn:a1",)
    assert set(one.signals) == {"turn:a1", "turn:a2", "turn:a3"}
    assert one.signals["turn:a1"].text > 0
    assert one.signals["turn:a1"].cosine is not None
    assert one.signals["turn:a2"].before == "turn:a1"
    assert one.signals["turn:a2"].asks
    assert vector_leg.by_words(one.signals)[0] == "turn:a1"
    assert set(vector_leg.by_meaning(one.signals)) == set(vector_leg.by_both(one.signals)) == set(one.signals)
    assert [(stranger.user, set(stranger.signals)) for stranger in foreign] == [
        ("ana", {"turn:a1", "turn:a2", "turn:a3"}),
        ("ben", {"turn:b1"}),
    ]


async def test_vectors_are_made_once(tmp_path: Path) -> None:
    class Counting(FakeEmbedder):
        texts = 0

        async def embed(self, texts: Any, *, asking: bool = False) -> Any:
            Counting.texts += len(texts)
            return await super().embed(texts, asking=asking)

    first = await Vectors(tmp_path / "v.npz", Counting()).of(["one", "two"])
    again = await Vectors(tmp_path / "v.npz", Counting()).of(["two", "one"])
    assert Counting.texts == 2
    assert (first == again[::-1]).all()


@pytest.mark.parametrize("name", fit_fusion.KNOBS)
def test_a_constant_is_moved_for_a_while_only(name: str) -> None:
    def state() -> tuple[object, ...]:
        parts = (fusion.USUAL_PART, fusion.BESIDE_PART, fusion.ASKS_DEVIATIONS, fusion.ASSISTANT_DEVIATIONS)
        return (*parts, *(leg for leg in fusion.LEGS))

    before = state()
    with fit_fusion.KNOBS[name].turn(0.123):
        assert state() != before
    assert state() == before


def made(user: str, gold: str, **said: Signals) -> Asked:
    return Asked(user=user, text="", kind="one", gold=(gold,), signals=said)


def test_conversations_are_halved_not_questions() -> None:
    some = [made(user, "x") for user in ("ana", "ana", "ben", "cleo", "ben")]
    one, other = fit_fusion.halves({"set": some, "alone": some[:2]})
    assert {asked.user for asked in one["set"]} == {"ana", "cleo"}
    assert {asked.user for asked in other["set"]} == {"ben"}
    assert "alone" not in one | other


def test_the_floor_counts_what_is_above_it() -> None:
    strong, weak = Signals(text=6.0, share=0.9, cosine=0.7), Signals(cosine=0.05)
    kept = fit_fusion.kept([made("ana", "x", x=strong, y=weak), made("ana", "y", x=strong, y=weak)])
    assert kept == {"precision": 0.5, "recall": 0.5, "recall@10": 1.0, "recall@10 above": 0.5, "above each": 1.0}
    assert fit_fusion.kept_out([made("ana", "", y=weak), made("ana", "", x=strong)]) == {
        "questions": 2,
        "find something": 1,
    }


def test_constants_of_the_score_are_moved_for_a_while_only() -> None:
    before = [getattr(fusion, name) for name in fit_fusion.FLOOR_KNOBS]
    between = made("ana", "x", x=Signals(cosine=0.24))
    moved = fit_fusion.floors({"set": [between]}, {"set": [between]})
    assert moved.keys() == fit_fusion.FLOOR_KNOBS.keys()
    low, high = moved["ENOUGH_EVIDENCE"]["0.23"]["set"], moved["ENOUGH_EVIDENCE"]["0.26"]["set"]
    assert (low["recall"], low["find something"]) == (1.0, 1)
    assert (high["recall"], high["find something"]) == (0.0, 0)
    assert [getattr(fusion, name) for name in fit_fusion.FLOOR_KNOBS] == before
