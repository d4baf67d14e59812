"""Every request reads every spelling, and turns into the value the service takes."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Mapping
from datetime import UTC, datetime
from enum import Enum
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin

import pytest
from pydantic.alias_generators import to_camel

import keeps.wire
from keeps.core.errors import Conflict, Invalid, KeepsError, Unprocessable
from keeps.core.facts import Category
from keeps.core.replies import ReplyKey
from keeps.core.scopes import parse_scopes
from keeps.services.remember import Infer
from keeps.wire.base import StrictIn, WireIn, validated
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


MOMENT = "2026-01-01T00:00:00Z"
SAMPLES: dict[str, Any] = {
    "mode": "bm25",
    "IndexIn.mode": "durable",
    "PromoteIn.kind": "insight",
    "DecisionIn.decision": "keep",
    "ToolCallIn.contradicts": ["attribute:x"],
    "BudgetIn.timeout_ms": 70,
    "infer": "none",
    "role": "tool",
    "by": "recency",
    "triples": [TRIPLE],
    "messages": [{"role": "user", "content": "x"}],
    "labels": ["a=b"],
}
"""Values of members whose type does not say what they may hold."""

BESIDE: dict[str, dict[str, Any]] = {
    "DecisionIn.text": {"decision": "edit"},
    "PromoteIn.chunk_id": {},
    "PromoteIn.turn_id": {},
    "PromoteIn": {"turn_id": "abc"},
    "ForgetIn.query": {},
    "ForgetIn": {"query": "abc"},
}
"""What a request needs besides its required members, all of it or when one member is given."""


def value_of(kind: Any, *, other_than: Any = None) -> Any:
    """A value of a type as it stands in JSON, another one than its default."""
    origin, inner = get_origin(kind), [each for each in get_args(kind) if each is not NoneType]
    if origin is Annotated:
        return MOMENT if inner[0] is datetime else value_of(inner[0], other_than=other_than)
    if origin in (Union, UnionType):
        return value_of(inner[0], other_than=other_than)
    if origin is Literal:
        return next(each for each in inner if each != other_than)
    if origin is not None and issubclass(origin, Mapping):
        return {"abc": value_of(inner[1])}
    if origin is not None:
        return [value_of(inner[0])]
    if isinstance(kind, type) and issubclass(kind, Enum):
        return next(each.value for each in kind if each is not other_than)
    if isinstance(kind, type) and issubclass(kind, WireIn):
        return needed_by(kind)
    if kind is bool:
        return not other_than
    return {int: 7, float: 0.5, datetime: MOMENT, dict: {"a": 1}}.get(kind, "abc")


def sample(name: str, model: type[WireIn]) -> Any:
    for known in (f"{model.__name__}.{name}", name):
        if known in SAMPLES:
            return SAMPLES[known]
    field = model.model_fields[name]
    return value_of(field.annotation, other_than=field.get_default())


def needed_by(model: type[WireIn], name: str = "") -> dict[str, Any]:
    """The members without which a request cannot give `name`."""
    needed = {key: sample(key, model) for key, field in model.model_fields.items() if field.is_required()}
    beside = BESIDE.get(f"{model.__name__}.{name}", BESIDE.get(model.__name__, {}))
    return needed | beside


def spellings() -> list[Any]:
    rows: list[Any] = []
    for model in models(WireIn):
        for name in model.model_fields:
            for spelling in sorted({name, to_camel(name), *model.also.get(name, ())}):
                rows.append(pytest.param(model, name, spelling, id=f"{model.__name__}-{spelling}"))
    return rows


@pytest.mark.parametrize(("model", "name", "spelling"), spellings())
def test_every_spelling_of_every_field_is_read(model: type[WireIn], name: str, spelling: str) -> None:
    value, needed = sample(name, model), needed_by(model, name)
    canonical = validated(model, {**needed, name: value})
    assert getattr(canonical, name) != model.model_fields[name].get_default()
    needed.pop(name, None)
    assert validated(model, {**needed, spelling: value}) == canonical


@pytest.mark.parametrize("model", models(WireIn), ids=lambda model: model.__name__)
def test_a_member_nobody_knows_is_ignored_or_where_every_member_counts_refused(model: type[WireIn]) -> None:
    needed = needed_by(model)
    if issubclass(model, StrictIn):
        with pytest.raises(Invalid, match="unknown_member may not be given here"):
            validated(model, {**needed, "unknown_member": 1})
    else:
        assert validated(model, {**needed, "unknown_member": 1}) == validated(model, needed)


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
