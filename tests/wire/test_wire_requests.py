"""Every request reads every spelling, and turns into the value the service takes."""

from __future__ import annotations

import importlib
import pkgutil
from datetime import UTC, datetime
from typing import Any

import pytest
from pydantic.alias_generators import to_camel

import keeps.wire
from keeps.core.errors import Conflict, Invalid, KeepsError, Unprocessable
from keeps.core.facts import Category
from keeps.core.replies import ReplyKey
from keeps.core.scopes import parse_scopes
from keeps.services.remember import Infer
from keeps.wire.base import WireIn, validated
from keeps.wire.facts import BatchIn, FactsIn, check_addressees
from keeps.wire.forget import ForgetIn
from keeps.wire.query import QueryIn

NOW = datetime(2026, 11, 30, 10, tzinfo=UTC)
TRIPLE = {"entity": {"type": "person", "name": "Mara"}, "key": "role", "value": "pilot"}


def models(base: type[Any]) -> list[type[Any]]:
    found: set[type[Any]] = set()
    for module in pkgutil.iter_modules(keeps.wire.__path__):
        for member in vars(importlib.import_module(f"keeps.wire.{module.name}")).values():
            if isinstance(member, type) and issubclass(member, base) and member is not base:
                found.add(member)
    return sorted(found, key=lambda model: f"{model.__module__}.{model.__name__}")


SAMPLES: dict[str, Any] = {
    "limit": 7,
    "k": 7,
    "offset": 7,
    "ttl_seconds": 7,
    "min_facts": 7,
    "count": True,
    "purge": True,
    "dry_run": True,
    "strict": True,
    "resolved": True,
    "force": True,
    "trusted_writer": True,
    "include_duplicates": True,
    "enforcement_blocked": True,
    "mode": "bm25",
    "IndexIn.mode": "durable",
    "min_score": 0.5,
    "window_hours": 3,
    "infer": "none",
    "role": "tool",
    "extract": "per_message",
    "scope_view": "merged",
    "by": "recency",
    "triples": [TRIPLE],
    "messages": [{"role": "user", "content": "x"}],
    "metadata": {"a": 1},
    "user_asked": True,
    "location": {"a": 1},
    "config": {"a": 1},
}
MOMENTS = {"ts", "as_of", "at_instant", "valid_from", "valid_until", "since", "until"}
MANY = ("labels", "ids", "include", "addressees", "verbs")


def sample(name: str, model: type[WireIn] | None = None) -> Any:
    if model is not None and f"{model.__name__}.{name}" in SAMPLES:
        return SAMPLES[f"{model.__name__}.{name}"]
    if name in SAMPLES:
        return SAMPLES[name]
    if name.endswith("_at") or name in MOMENTS:
        return "2026-01-01T00:00:00Z"
    return ["a=b"] if name in MANY else "abc"


def spellings() -> list[Any]:
    rows: list[Any] = []
    for model in models(WireIn):
        for name in model.model_fields:
            for spelling in {name, to_camel(name), *model.also.get(name, ())}:
                rows.append(pytest.param(model, name, spelling, id=f"{model.__name__}-{spelling}"))
    return rows


@pytest.mark.parametrize(("model", "name", "spelling"), spellings())
def test_every_spelling_of_every_field_is_read(model: type[WireIn], name: str, spelling: str) -> None:
    needed = {key: sample(key) for key, field in model.model_fields.items() if field.is_required()}
    if model is ForgetIn and name != "query":
        needed["query"] = "abc"
    canonical = validated(model, {**needed, name: sample(name, model)})
    assert getattr(canonical, name) is not None
    needed.pop(name, None)
    spelled = validated(model, {**needed, spelling: sample(name, model), "unknown_member": 1})
    assert spelled == canonical
    assert getattr(canonical, name) != model.model_fields[name].get_default() or name in SAMPLES


@pytest.mark.parametrize(
    "scopes", ["org/a", ["org/a"], [["org/a"]], ["/org/a/"]], ids=["path", "flat", "nested", "slashes"]
)
def test_scopes_in_every_form_are_one_scope(scopes: object) -> None:
    wanted = parse_scopes([["org/a"]])
    for name in ("scopes", "scope"):
        facts = validated(FactsIn, {"text": "x", "infer": "none", name: scopes})
        assert facts.to_core(now=NOW, lenient=True).scope == wanted


@pytest.mark.parametrize("scopes", [None, [], ""])
def test_scopes_that_are_unset(scopes: object) -> None:
    facts = validated(FactsIn, {"text": "x", "scopes": scopes})
    if scopes == "":
        with pytest.raises(Invalid):
            facts.to_core(now=NOW, lenient=True)
    else:
        assert facts.to_core(now=NOW, lenient=True).scope is None


@pytest.mark.parametrize(
    ("body", "error"),
    [
        ({}, Invalid),
        ({"text": "x", "triples": [TRIPLE]}, Invalid),
        ({"infer": "triples"}, Unprocessable),
        ({"infer": "triples", "triples": [{"entity": {"type": "person", "name": " "}}]}, Unprocessable),
        ({"infer": "triples", "triples": [{**TRIPLE, "confidence": 2}]}, Unprocessable),
        ({"infer": "triples", "triples": [{**TRIPLE, "verb": "docked"}]}, Unprocessable),
        ({"infer": "triples", "triples": ["x"]}, Unprocessable),
        ({"text": "x", "labels": ["_x=1"]}, Invalid),
        ({"text": "x", "labels": [f"k{n}=1" for n in range(33)]}, Conflict),
        ({"text": "x", "kind": "instruction"}, Unprocessable),
        ({"text": "x", "scopes": [[]]}, Invalid),
        ({"text": "x", "addressees": ["self"]}, Unprocessable),
        ({"text": "x", "addressees": ["a"] * 9}, Unprocessable),
    ],
)
def test_what_a_write_may_not_say(body: dict[str, Any], error: type[KeepsError]) -> None:
    with pytest.raises(error):
        validated(FactsIn, body).to_core(now=NOW, lenient=True)


@pytest.mark.parametrize("body", [{"infer": "all"}, {"role": "boss"}, {"text": 5}, {"labels": "a=b"}])
def test_what_has_the_wrong_form(body: dict[str, Any]) -> None:
    with pytest.raises(Invalid):
        validated(FactsIn, {"text": "x", **body})


def test_addressees_are_looked_at_only_when_a_model_would_read_them() -> None:
    facts = validated(FactsIn, {"text": "x", "infer": "none", "addressees": ["self"]})
    assert facts.to_core(now=NOW, lenient=True).messages[0].addressees == ()
    assert check_addressees(["Zoe\u0308 O'Neil-2"]) == ("Zoë O'Neil-2",)
    for name in ("...", "", "a\nb", "a@b", "one two three four five six seven eight nine", "x" * 129):
        with pytest.raises(Unprocessable):
            check_addressees([name])


def test_an_unknown_category_counts_as_context_or_is_refused() -> None:
    facts = validated(FactsIn, {"text": "x", "memory_category": "episodic"})
    assert facts.to_core(now=NOW, lenient=True).category is Category.CONTEXT
    with pytest.raises(Invalid):
        facts.to_core(now=NOW, lenient=False)


def test_a_session_is_named_with_or_without_its_table() -> None:
    for name in ("s1", "session:s1"):
        assert validated(FactsIn, {"text": "x", "sessionId": name}).to_core(now=NOW, lenient=True).session == "s1"


def test_a_batch_keeps_order_times_and_reply() -> None:
    reply = ReplyKey(namespace="n", fingerprint="f", expires_at=NOW, render=str)
    messages = [
        {"role": "user", "content": "one", "ts": "2026-01-01T00:00:00+02:00"},
        {"text": "two", "speaker": "Bo"},
    ]
    batch = validated(BatchIn, {"items": messages, "infer": "none"}).to_core(reply=reply)
    assert [message.text for message in batch.messages] == ["one", "two"]
    assert batch.messages[0].observed_at == datetime(2025, 12, 31, 22, tzinfo=UTC)
    assert (batch.messages[1].speaker, batch.infer, batch.reply) == ("Bo", Infer.NONE, reply)


@pytest.mark.parametrize(
    "body", [{}, {"messages": []}, {"messages": ["x"]}, {"messages": [{"role": "user"}]}, {"messages": [None]}]
)
def test_batches_without_messages_are_refused(body: dict[str, Any]) -> None:
    with pytest.raises(Invalid):
        validated(BatchIn, body)


@pytest.mark.parametrize("body", [{}, {"query": " "}, {"query": None, "ids": []}])
def test_forget_needs_words_or_ids(body: dict[str, Any]) -> None:
    with pytest.raises(Invalid, match="query is required"):
        validated(ForgetIn, body)
    assert validated(ForgetIn, {"ids": ["attribute:x"]}).ids == ("attribute:x",)


def test_read_routes_take_a_lens_under_three_names() -> None:
    for name in ("lens", "scope", "scopes"):
        assert validated(QueryIn, {"query": "q", name: [["a"]]}).lens == [["a"]]
