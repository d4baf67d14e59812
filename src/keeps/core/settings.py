"""What an admin sets without a restart, as values: read from the document of a context, and written as one."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields, replace
from enum import StrEnum
from typing import Any, Final, cast

from keeps.core.facts import Origin
from keeps.core.packing import Budget, SensitiveUse, Tainted, Unconfirmed, WriteBudget
from keeps.core.policy import Decision, History, Preset, Rule
from keeps.core.scopes import parse_pattern


class Kill(StrEnum):
    """The switch that stops memory at once: nothing, use, saving, or both. People still see, export and delete."""

    NONE = "none"
    NO_PROMPT = "no_prompt"
    NO_WRITE = "no_write"
    BOTH = "both"


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """The settings in force. `version` counts from 1; 0 before anything was set. Days and seconds as the names say.

    `agents`: budgets of single agents, by principal, each at most the context's. `retention_days`: by kind, over the
    life the kind has of its own. `home_topics`: sensitive topics the product is about.
    """

    version: int = 0
    policy: Preset = Preset.DELIBERATE
    rules: tuple[Rule, ...] = ()
    history: History = History.SESSION
    budget: Budget = field(default_factory=Budget)
    writes: WriteBudget = field(default_factory=WriteBudget)
    agents: Mapping[str, Budget] = field(default_factory=dict[str, Budget])
    kill: Kill = Kill.NONE
    home_topics: frozenset[str] = frozenset()
    sensitive_min_score: float = 0.6
    kinds: frozenset[str] = frozenset()
    retention_days: Mapping[str, int] = field(default_factory=dict[str, int])
    proposal_ttl_days: int = 30
    quarantine_ttl_days: int = 14
    undo_seconds: int = 10
    show_memories_used: bool = True
    webhook_url: str | None = None

    @property
    def may_prompt(self) -> bool:
        """False while the switch keeps memory out of prompts."""
        return self.kill not in (Kill.NO_PROMPT, Kill.BOTH)

    @property
    def may_write(self) -> bool:
        """False while the switch keeps agents from saving."""
        return self.kill not in (Kill.NO_WRITE, Kill.BOTH)


WIDE: Final = Budget(
    max_memories=50,
    max_tokens=8000,
    max_per_kind=50,
    max_per_source=50,
    allow_unconfirmed=Unconfirmed.LABEL,
    min_score=0.0,
    min_trust=0.35,
    timeout_ms=10_000,
)
"""The budget of a context that keeps everything: what its clients asked for before there were budgets still fits."""

_HISTORY: Final[Mapping[Preset, History]] = {
    Preset.DELIBERATE: History.SESSION,
    Preset.OPERATIONAL: History.ON,
    Preset.AUTOMATIC: History.ON,
}


def of_preset(preset: Preset) -> Settings:
    """What holds under a preset where nothing else was set."""
    budget = WIDE if preset is Preset.AUTOMATIC else Budget()
    return Settings(policy=preset, history=_HISTORY[preset], budget=budget)


# --- the document as values ------------------------------------------------------------------------------


def parsed(document: Mapping[str, Any], *, version: int = 0, default: Preset = Preset.DELIBERATE) -> Settings:
    """The settings that a sound document comes to, over what its preset says. `default`: where it names none."""
    base = of_preset(Preset(document.get("policy") or default))
    said = {name: document[name] for name in _PLAIN if document.get(name) is not None}
    if document.get("min_score") is not None:
        base = replace(base, budget=replace(base.budget, min_score=float(document["min_score"])))
    budget = _budget(document.get("budget"), base.budget)
    if document.get("history") is not None:
        said["history"] = History(document["history"])
    return replace(
        base,
        version=version,
        rules=tuple(map(rule_of, document.get("rules") or ())),
        budget=budget,
        writes=replace(base.writes, **_said(document.get("writes"))),
        agents={
            who: narrower(budget, _budget(one, budget))
            for who, one in cast("Mapping[str, Any]", document.get("agents") or {}).items()
        },
        kill=Kill(document.get("kill") or Kill.NONE),
        home_topics=frozenset(document.get("home_topics") or ()),
        kinds=frozenset(document.get("kinds") or ()),
        retention_days=dict(document.get("retention_days") or {}),
        **said,
    )


_PLAIN: Final = (
    "sensitive_min_score",
    "proposal_ttl_days",
    "quarantine_ttl_days",
    "undo_seconds",
    "show_memories_used",
    "webhook_url",
)

_WORDS: Final[Mapping[str, Callable[[Any], Any]]] = {
    "kinds": frozenset,
    "allow_unconfirmed": Unconfirmed,
    "allow_tainted": Tainted,
    "allow_sensitive": SensitiveUse,
}


def _said(value: Any) -> dict[str, Any]:
    members = cast("Mapping[str, Any]", value or {})
    return {name: _WORDS.get(name, _same)(below) for name, below in members.items() if below is not None}


def _same(value: Any) -> Any:
    return value


def _budget(value: Any, base: Budget) -> Budget:
    return replace(base, **_said(value))


_ORDER: Final[Mapping[type[StrEnum], tuple[StrEnum, ...]]] = {
    Unconfirmed: (Unconfirmed.NEVER, Unconfirmed.LABEL, Unconfirmed.ALLOW),
    Tainted: (Tainted.NEVER, Tainted.CONFIRMED_ONLY),
    SensitiveUse: (SensitiveUse.NEVER, SensitiveUse.ON_TOPIC),
}


def _strictest(*values: StrEnum) -> Any:
    order = _ORDER[type(values[0])]
    return min(values, key=order.index)


def narrower(one: Budget, other: Budget) -> Budget:
    """The smaller of two budgets, member by member: neither widens the other."""
    both = (one, other)
    allowed = [budget.kinds for budget in both if budget.kinds is not None]
    ages = [budget.max_age_days for budget in both if budget.max_age_days is not None]
    return Budget(
        max_memories=min(budget.max_memories for budget in both),
        max_tokens=min(budget.max_tokens for budget in both),
        max_per_kind=min(budget.max_per_kind for budget in both),
        max_per_source=min(budget.max_per_source for budget in both),
        kinds=frozenset[str].intersection(*allowed) if allowed else None,
        allow_unconfirmed=_strictest(*(budget.allow_unconfirmed for budget in both)),
        allow_tainted=_strictest(*(budget.allow_tainted for budget in both)),
        allow_sensitive=_strictest(*(budget.allow_sensitive for budget in both)),
        min_score=max(budget.min_score for budget in both),
        min_trust=max(budget.min_trust for budget in both),
        min_trust_guess=max(budget.min_trust_guess for budget in both),
        max_age_days=min(ages) if ages else None,
        timeout_ms=min(budget.timeout_ms for budget in both),
    )


def document_of(settings: Settings) -> dict[str, Any]:
    """Everything that holds, as a document says it; `parsed` makes the same settings of it."""
    return {
        "policy": settings.policy.value,
        "rules": [_rule_document(rule) for rule in settings.rules],
        "history": settings.history.value,
        "budget": _budget_document(settings.budget),
        "writes": {one.name: getattr(settings.writes, one.name) for one in fields(WriteBudget)},
        "agents": {who: _budget_document(budget) for who, budget in settings.agents.items()},
        "kill": settings.kill.value,
        "home_topics": sorted(settings.home_topics),
        "kinds": sorted(settings.kinds),
        "retention_days": dict(settings.retention_days),
        **{name: getattr(settings, name) for name in _PLAIN},
    }


def _rule_document(rule: Rule) -> dict[str, Any]:
    said = {
        "decision": rule.decision.name.lower(),
        "scope": None if rule.scope is None else str(rule.scope),
        "origin": None if rule.origin is None else rule.origin.value,
        **{word: getattr(rule, word) for word in _RULE_WORDS},
    }
    return {name: value for name, value in said.items() if value is not None}


def _budget_document(budget: Budget) -> dict[str, Any]:
    said = {one.name: getattr(budget, one.name) for one in fields(Budget)}
    plain = {name: value.value if isinstance(value, StrEnum) else value for name, value in said.items()}
    return plain | {"kinds": None if budget.kinds is None else sorted(budget.kinds)}


_RULE_WORDS: Final = ("kind", "agent", "sensitivity", "topic")
_SENSITIVITIES: Final = frozenset({"normal", "personal", "sensitive"})


def rule_of(value: object) -> Rule:
    """A rule as the document spells it. Raises: Invalid, ValueError."""
    if not isinstance(value, Mapping):
        raise ValueError("an object is wanted")
    said = {name: below for name, below in cast("Mapping[str, Any]", value).items() if below is not None}
    unknown = said.keys() - {"decision", "scope", "origin", *_RULE_WORDS}
    if unknown:
        raise ValueError(f"there is no member {sorted(unknown)[0][:64]!a}")
    decision = said.get("decision")
    if not isinstance(decision, str) or decision.upper() not in Decision.__members__ or decision != decision.lower():
        raise ValueError("decision is auto, ask or never")
    if not all(is_named(said[word]) for word in _RULE_WORDS if word in said):
        raise ValueError("kind, agent, sensitivity and topic are names")
    if said.get("sensitivity", "normal") not in _SENSITIVITIES:
        raise ValueError("sensitivity is normal, personal or sensitive")
    if said.get("origin") is not None and said["origin"] not in {origin.value for origin in Origin}:
        raise ValueError("origin is one of the origins of memories")
    scope = parse_pattern(said["scope"]) if "scope" in said else None
    return Rule(
        decision=Decision[decision.upper()],
        layer="agent" if "agent" in said else "scope" if scope is not None else "context",
        scope=scope,
        origin=Origin(said["origin"]) if "origin" in said else None,
        **{word: said[word] for word in _RULE_WORDS if word in said},
    )


MAX_NAME_CHARS: Final = 128


def is_named(value: object) -> bool:
    """True for a short printable name."""
    return isinstance(value, str) and 0 < len(value) <= MAX_NAME_CHARS and value.isprintable()


_LOOSENESS: Final = (Preset.DELIBERATE, Preset.OPERATIONAL, Preset.AUTOMATIC)


def is_looser(after: Preset, before: Preset) -> bool:
    """True when a preset keeps more without asking than another."""
    return _LOOSENESS.index(after) > _LOOSENESS.index(before)
