"""The document of settings: sound or refused by name, the same after it was read, and budgets that only narrow."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from keeps.core import contexts, setting_keys
from keeps.core.access import Role
from keeps.core.errors import Unprocessable
from keeps.core.packing import Budget, SensitiveUse, Tainted, Unconfirmed, WriteBudget
from keeps.core.policy import History, Preset
from keeps.core.settings import Kill, document_of, is_looser, narrower, of_preset, parsed

BUDGETS: dict[str, st.SearchStrategy[Any]] = {
    "max_memories": st.integers(0, 50),
    "max_tokens": st.integers(0, 8000),
    "max_per_kind": st.integers(0, 50),
    "max_per_source": st.integers(1, 50),
    "kinds": st.lists(st.sampled_from(["note", "fact", "goal"]), unique=True).map(sorted),
    "allow_unconfirmed": st.sampled_from([value.value for value in Unconfirmed]),
    "allow_tainted": st.sampled_from([value.value for value in Tainted]),
    "allow_sensitive": st.sampled_from([value.value for value in SensitiveUse]),
    "min_score": st.floats(0, 1),
    "min_trust": st.floats(0, 1),
    "min_trust_guess": st.floats(0, 1),
    "max_age_days": st.integers(1, 3650),
    "timeout_ms": st.integers(50, 10_000),
}
budgets = st.fixed_dictionaries({}, optional=BUDGETS)
rules = st.fixed_dictionaries(
    {"decision": st.sampled_from(["auto", "ask", "never"])},
    optional={
        "scope": st.sampled_from(["org/acme/*", "user/mara"]),
        "kind": st.sampled_from(["note", "goal"]),
        "origin": st.sampled_from(["agent_inferred", "app_written"]),
        "agent": st.just("bot"),
        "sensitivity": st.sampled_from(["normal", "personal", "sensitive"]),
        "topic": st.just("health"),
    },
)
documents = st.fixed_dictionaries(
    {},
    optional={
        "policy": st.sampled_from([preset.value for preset in Preset]),
        "history": st.sampled_from([value.value for value in History]),
        "rules": st.lists(rules, max_size=3),
        "budget": budgets,
        "agents": st.dictionaries(st.sampled_from(["bot", "coach"]), budgets, max_size=2),
        "kill": st.sampled_from([kill.value for kill in Kill]),
        "home_topics": st.lists(st.sampled_from(["health", "religion"]), unique=True),
        "kinds": st.lists(st.sampled_from(["recipe", "song"]), unique=True),
        "retention_days": st.dictionaries(st.sampled_from(["note", "topic"]), st.integers(1, 3650)),
        "proposal_ttl_days": st.integers(1, 365),
        "undo_seconds": st.integers(0, 300),
        "sensitive_min_score": st.floats(0, 1),
        "webhook_url": st.just("https://hooks.example/x"),
        "min_score": st.floats(0, 1),
    },
)


@given(documents)
def test_a_sound_document_is_read_and_written_without_loss(document: dict[str, Any]) -> None:
    assert setting_keys.fault_of(document) is None
    held = parsed(document)
    again = document_of(held)
    assert setting_keys.fault_of(again) is None
    assert parsed(again) == held


@given(budgets, budgets)
def test_an_agent_never_has_more_than_the_context(of_all: dict[str, Any], of_one: dict[str, Any]) -> None:
    held = parsed({"budget": of_all, "agents": {"bot": of_one}})
    one, most = held.agents["bot"], held.budget
    assert narrower(one, most) == one
    assert one.max_memories <= most.max_memories
    assert one.min_trust >= most.min_trust
    assert most.kinds is None or (one.kinds is not None and one.kinds <= most.kinds)


@given(documents, documents)
def test_what_changed_is_exactly_what_differs(one: dict[str, Any], other: dict[str, Any]) -> None:
    paths = setting_keys.changed_paths(one, other)
    assert (paths == []) == (setting_keys.flat(one) == setting_keys.flat(other))
    assert paths == setting_keys.changed_paths(other, one)


def test_every_field_of_a_budget_can_be_set() -> None:
    assert {one.name for one in fields(Budget)} == setting_keys.BUDGET_KEYS.keys()
    assert {f"writes.{one.name}" for one in fields(WriteBudget)} <= setting_keys.KEYS.keys()


@pytest.mark.parametrize(
    ("given_", "wanted"),
    [
        ({"retrieval_limit": 3}, {"budget": {"max_memories": 3}}),
        ({"maxMemories": 3, "maxInbox": 9}, {"budget": {"max_memories": 3}, "writes": {"max_inbox": 9}}),
        ({"budget": {"maxTokens": 5, "min_trust": 0.4}}, {"budget": {"max_tokens": 5, "min_trust": 0.4}}),
        ({"proposalTtl": 3}, {"proposal_ttl_days": 3}),
        ({"retention": {"topic": 30}}, {"retention_days": {"topic": 30}}),
        ({"agents": {"Bot-7": {"maxTokens": 5}}}, {"agents": {"Bot-7": {"max_tokens": 5}}}),
        ({"rules": [{"decision": "never"}]}, {"rules": [{"decision": "never"}]}),
        ({"budget": None, "kill": None}, {"budget": None, "kill": None}),
        ({"traceRetention": {"retrievalTraceDays": 3}}, {"trace_retention": {"retrieval_trace_days": 3}}),
    ],
)
def test_either_spelling_is_taken(given_: dict[str, Any], wanted: dict[str, Any]) -> None:
    assert setting_keys.canonical(given_) == wanted


@pytest.mark.parametrize(
    "change", [{"x": 1}, {"budget": {"x": 1}}, {"budget.max_tokens.x": 1}, {"": 1}, {"trace_text_ends_s": 4}]
)
def test_f2_an_unknown_key_is_named(change: dict[str, Any]) -> None:
    with pytest.raises(Unprocessable, match="there is no setting"):
        setting_keys.canonical(change)


@pytest.mark.parametrize("path", sorted(setting_keys.KEYS))
def test_f2_no_key_takes_what_is_no_value_of_its(path: str) -> None:
    for wrong in (object(), "\0", -1, 2**60, [[]], {"x": object()}):
        key = setting_keys.KEYS[path]
        assert not key.fits(wrong), (path, wrong)


def test_policy_is_the_owners_only_where_it_becomes_looser() -> None:
    asks, keeps = of_preset(Preset.DELIBERATE), of_preset(Preset.AUTOMATIC)
    assert setting_keys.role_for("policy", asks, keeps) is Role.OWNER
    assert setting_keys.role_for("policy", keeps, asks) is Role.ADMIN
    assert is_looser(Preset.OPERATIONAL, Preset.DELIBERATE)
    assert not is_looser(Preset.OPERATIONAL, Preset.AUTOMATIC)


def test_the_document_of_a_context_that_says_nothing_is_sound() -> None:
    assert setting_keys.fault_of(contexts.effective({})) is None
