"""What a policy makes of a candidate: the table of the presets, the layers, and the laws that always hold."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from keeps.core.controls import App, Controls, Pause
from keeps.core.facts import TRUST, Origin, Status
from keeps.core.policy import BY_HAND, Decision, Drop, Preset, Rule, Subject, Verdict, Why, blocked_by, decide
from keeps.core.scopes import ScopePath, parse_pattern
from keeps.core.settings import Kill, Settings, of_preset
from keeps.core.trust import spread, trust_of
from keeps.finder.local import stemmer

NOW = datetime(2026, 5, 1, tzinfo=UTC)
MARA = ScopePath("user/mara")
ACME = ScopePath("org/acme")
STEM = stemmer()


def candidate(**more: Any) -> Subject:
    given_: dict[str, Any] = {
        "kind": "preference",
        "origin": Origin.AGENT_INFERRED,
        "agent": "bot",
        "nodes": frozenset({MARA}),
        "personal": True,
    }
    return Subject(**(given_ | more))


def verdict(
    subject: Subject, settings: Settings | Preset = Preset.DELIBERATE, *controls: Controls, trusted: bool = False
) -> Verdict:
    held = of_preset(settings) if isinstance(settings, Preset) else settings
    return decide(subject, settings=held, controls=controls, now=NOW, trusted_writer=trusted)


# ---------------------------------------------------------------------- the table
@pytest.mark.parametrize("preset", Preset)
def test_what_a_person_saves_by_hand_is_kept(preset: Preset) -> None:
    assert verdict(candidate(origin=Origin.USER_SAVED), preset).status is Status.CONFIRMED


@pytest.mark.parametrize("preset", Preset)
def test_what_a_trusted_writer_gives_is_kept(preset: Preset) -> None:
    assert verdict(candidate(origin=Origin.APP_WRITTEN), preset, trusted=True).status is Status.CONFIRMED


def test_nobody_is_a_trusted_writer_by_saying_so() -> None:
    assert verdict(candidate(origin=Origin.APP_WRITTEN), trusted=False).status is Status.PROPOSED
    assert verdict(candidate(origin=Origin.AGENT_INFERRED), trusted=True).status is Status.PROPOSED


@pytest.mark.parametrize(
    ("preset", "kind", "personal", "status"),
    [
        (Preset.DELIBERATE, "fact", True, Status.PROPOSED),
        (Preset.DELIBERATE, "fact", False, Status.PROPOSED),
        (Preset.OPERATIONAL, "fact", True, Status.PROPOSED),
        (Preset.OPERATIONAL, "fact", False, Status.CONFIRMED),
        (Preset.OPERATIONAL, "event", False, Status.CONFIRMED),
        (Preset.OPERATIONAL, "goal", False, Status.CONFIRMED),
        (Preset.OPERATIONAL, "preference", False, Status.PROPOSED),
        (Preset.OPERATIONAL, "note", False, Status.PROPOSED),
        (Preset.AUTOMATIC, "fact", True, Status.CONFIRMED),
        (Preset.AUTOMATIC, "note", False, Status.CONFIRMED),
    ],
)
def test_what_an_agent_writes(preset: Preset, kind: str, personal: bool, status: Status) -> None:
    nodes = frozenset({MARA if personal else ACME})
    assert verdict(candidate(kind=kind, personal=personal, nodes=nodes), preset).status is status


@pytest.mark.parametrize("preset", Preset)
@pytest.mark.parametrize(
    ("more", "why"),
    [
        ({"kind": "insight"}, Why.KIND),
        ({"kind": "instruction"}, Why.KIND),
        ({"tainted": True}, Why.TAINTED),
        ({"topics": frozenset({"health"}), "stated": True}, Why.SENSITIVE),
    ],
)
def test_what_always_waits(preset: Preset, more: dict[str, Any], why: Why) -> None:
    for trusted in (False, True):
        found = verdict(candidate(origin=Origin.APP_WRITTEN, **more), preset, trusted=trusted)
        assert (found.status, found.why) == (Status.PROPOSED, why)


def test_personal_data_waits_unless_everything_is_kept() -> None:
    email = candidate(sensitivity="personal", kind="fact", nodes=frozenset({ACME}), personal=False)
    assert verdict(email, Preset.OPERATIONAL).status is Status.PROPOSED
    assert verdict(replace(email, origin=Origin.APP_WRITTEN), trusted=True).status is Status.PROPOSED
    assert verdict(email, Preset.AUTOMATIC).status is Status.CONFIRMED


@pytest.mark.parametrize("preset", Preset)
def test_what_screening_holds_goes_into_quarantine(preset: Preset) -> None:
    assert verdict(candidate(held=True), preset) == Verdict(Status.QUARANTINED, Why.QUARANTINE, rule="screening")


# ---------------------------------------------------------------------- sensitive matters
@pytest.mark.parametrize("preset", Preset)
def test_a13_an_inferred_sensitive_matter_is_dropped_and_a_stated_one_waits(preset: Preset) -> None:
    health = candidate(topics=frozenset({"health"}))
    for settings in (of_preset(preset), replace(of_preset(preset), home_topics=frozenset({"health"}))):
        assert verdict(health, settings, Controls(consents=frozenset({"health"}))).drop is Drop.INFERRED_SENSITIVE
    said = replace(health, stated=True)
    assert verdict(said, preset) == Verdict(Status.PROPOSED, Why.SENSITIVE, rule="sensitive")


def test_with_consent_a_stated_sensitive_matter_waits_for_being_one_and_it_is_noted_that_they_agreed() -> None:
    said = candidate(topics=frozenset({"health"}), stated=True)
    agreed, asked = (Verdict(Status.PROPOSED, Why.SENSITIVE, rule=rule) for rule in ("consent", "sensitive"))
    assert verdict(said, Preset.DELIBERATE, Controls(consents=frozenset({"health"}))) == agreed
    assert verdict(said, replace(of_preset(Preset.AUTOMATIC), home_topics=frozenset({"health"}))) == agreed
    one_of_two = (Controls(consents=frozenset({"health"})), Controls())
    assert verdict(said, Preset.DELIBERATE, *one_of_two) == asked
    assert verdict(candidate(sensitivity="sensitive", stated=True)) == asked


# ---------------------------------------------------------------------- layers
def test_a12_the_strictest_layer_wins_whichever_it_is() -> None:
    loose = of_preset(Preset.AUTOMATIC)
    never = Controls(never_kinds=frozenset({"preference"}))
    assert verdict(candidate(), loose, never).drop is Drop.POLICY
    strict = replace(loose, rules=(Rule(decision=Decision.NEVER, kind="preference"),))
    assert verdict(candidate(), strict, Controls()).drop is Drop.POLICY
    allowed = replace(strict, rules=(*strict.rules, Rule(decision=Decision.AUTO, layer="person")))
    assert verdict(candidate(), allowed).drop is Drop.POLICY


@pytest.mark.parametrize(
    "rule",
    [
        Rule(decision=Decision.ASK, scope=parse_pattern("user/mara/*")),
        Rule(decision=Decision.ASK, kind="preference"),
        Rule(decision=Decision.ASK, origin=Origin.AGENT_INFERRED),
        Rule(decision=Decision.ASK, agent="bot"),
        Rule(decision=Decision.ASK, sensitivity="normal"),
        Rule(decision=Decision.ASK, layer="deployment"),
    ],
)
def test_a_rule_holds_where_all_it_names_fits(rule: Rule) -> None:
    settings = replace(of_preset(Preset.AUTOMATIC), rules=(rule,))
    assert verdict(candidate(), settings) == Verdict(Status.PROPOSED, Why.POLICY, rule=rule.layer)


@pytest.mark.parametrize(
    "rule",
    [
        Rule(decision=Decision.NEVER, scope=parse_pattern("user/bo/*")),
        Rule(decision=Decision.NEVER, kind="note"),
        Rule(decision=Decision.NEVER, origin=Origin.DOCUMENT),
        Rule(decision=Decision.NEVER, agent="other"),
        Rule(decision=Decision.NEVER, sensitivity="personal"),
        Rule(decision=Decision.NEVER, topic="health"),
    ],
)
def test_a_rule_holds_nowhere_else(rule: Rule) -> None:
    assert verdict(candidate(), replace(of_preset(Preset.AUTOMATIC), rules=(rule,))).status is Status.CONFIRMED


def test_a_rule_about_one_node_holds_for_what_several_own() -> None:
    rule = Rule(decision=Decision.NEVER, scope=parse_pattern("org/acme"))
    shared = candidate(nodes=frozenset({MARA, ACME}), personal=False)
    assert verdict(shared, replace(of_preset(Preset.AUTOMATIC), rules=(rule,))).drop is Drop.POLICY


def test_an_admins_never_binds_people_too_and_an_ask_does_not() -> None:
    by_hand = candidate(origin=Origin.USER_SAVED)
    for decision, status in ((Decision.NEVER, None), (Decision.ASK, Status.CONFIRMED)):
        settings = replace(of_preset(Preset.DELIBERATE), rules=(Rule(decision=decision, kind="preference"),))
        assert verdict(by_hand, settings).status is status


@pytest.mark.parametrize(
    ("controls", "drop"),
    [
        (Controls(pauses=(Pause(saving=True),)), Drop.PAUSED),
        (Controls(pauses=(Pause(saving=True, until=NOW + timedelta(hours=1)),)), Drop.PAUSED),
        (Controls(pauses=(Pause(saving=True, agents=frozenset({"bot"})),)), Drop.PAUSED),
        (Controls(apps={"bot": App(suggest=False)}), Drop.POLICY),
        (Controls(apps={"bot": App(kinds=frozenset({"event"}))}), Drop.POLICY),
        (Controls(never_kinds=frozenset({"preference"})), Drop.POLICY),
        (Controls(pauses=(Pause(using=True),)), None),
        (Controls(pauses=(Pause(saving=True, until=NOW),)), None),
        (Controls(pauses=(Pause(saving=True, agents=frozenset({"other"})),)), None),
        (Controls(apps={"other": App(suggest=False)}), None),
    ],
)
def test_h8_what_a_person_stops_is_dropped_and_never_queued(controls: Controls, drop: Drop | None) -> None:
    for preset in Preset:
        assert verdict(candidate(), preset, controls).drop is drop
    assert verdict(candidate(origin=Origin.USER_SAVED), Preset.DELIBERATE, controls).status is Status.CONFIRMED


def test_each_of_several_people_can_stop_it() -> None:
    assert (
        verdict(candidate(), Preset.AUTOMATIC, Controls(), Controls(pauses=(Pause(saving=True),))).drop is Drop.PAUSED
    )


@pytest.mark.parametrize("kill", Kill)
def test_the_switch_stops_what_agents_save(kill: Kill) -> None:
    settings = replace(of_preset(Preset.AUTOMATIC), kill=kill)
    stops = kill in (Kill.NO_WRITE, Kill.BOTH)
    assert verdict(candidate(), settings).drop is (Drop.OFF if stops else None)
    assert verdict(candidate(origin=Origin.USER_SAVED), settings).status is Status.CONFIRMED


# ---------------------------------------------------------------------- topics in a person's own words
@pytest.mark.parametrize(
    ("block", "text", "blocked"),
    [
        ("nothing about my divorce", "Mara's DIVORCES were hard", True),
        ("my job search", "She is searching for jobs", True),
        ("my job search", "She has a job", False),
        ("Nothing about my café", "the cafe at the corner", True),
        ("politics", "She works at a bakery", False),
        ("never remember anything about me", "She works at a bakery", False),
        ("", "anything", False),
    ],
)
def test_a_block_is_compared_word_by_word(block: str, text: str, blocked: bool) -> None:
    assert blocked_by(block, text, STEM) is blocked


def test_a_blocked_topic_is_dropped() -> None:
    assert verdict(candidate(blocked=True), Preset.AUTOMATIC).drop is Drop.TOPIC_BLOCKED


# ---------------------------------------------------------------------- laws
RULES = st.builds(
    Rule,
    decision=st.sampled_from(Decision),
    layer=st.sampled_from(["deployment", "context", "scope", "person", "agent"]),
    scope=st.sampled_from([None, parse_pattern("user/mara/*"), parse_pattern("org/acme"), parse_pattern("user/bo/*")]),
    kind=st.sampled_from([None, "fact", "note", "insight"]),
    origin=st.sampled_from([None, Origin.AGENT_INFERRED, Origin.APP_WRITTEN]),
    agent=st.sampled_from([None, "bot", "other"]),
    sensitivity=st.sampled_from([None, "normal", "personal", "sensitive"]),
    topic=st.sampled_from([None, "health"]),
)
CONTROLS = st.builds(
    Controls,
    pauses=st.lists(st.builds(Pause, saving=st.booleans(), using=st.booleans()), max_size=2).map(tuple),
    consents=st.frozensets(st.sampled_from(["health", "religion"])),
    never_kinds=st.frozensets(st.sampled_from(["fact", "note"])),
    apps=st.dictionaries(st.sampled_from(["bot", "other"]), st.builds(App, use=st.booleans(), suggest=st.booleans())),
)
SETTINGS = st.builds(
    lambda preset, rules, kill, home: replace(of_preset(preset), rules=tuple(rules), kill=kill, home_topics=home),
    st.sampled_from(Preset),
    st.lists(RULES, max_size=3),
    st.sampled_from(Kill),
    st.frozensets(st.sampled_from(["health"])),
)
SUBJECTS = st.builds(
    Subject,
    kind=st.sampled_from(["fact", "note", "event", "goal", "preference", "insight", "instruction"]),
    origin=st.sampled_from(Origin),
    agent=st.sampled_from(["bot", "other"]),
    nodes=st.sampled_from([frozenset({MARA}), frozenset({ACME}), frozenset({MARA, ACME})]),
    personal=st.booleans(),
    sensitivity=st.sampled_from(["normal", "personal", "sensitive"]),
    topics=st.frozensets(st.sampled_from(["health", "religion"]), max_size=1),
    tainted=st.booleans(),
    stated=st.booleans(),
    blocked=st.booleans(),
    held=st.booleans(),
)


def strictness(found: Verdict) -> int:
    """How far from being kept: kept, waits for a person, held back from agents too, nowhere."""
    return [Status.CONFIRMED, Status.PROPOSED, Status.QUARANTINED, None].index(found.status)


@given(SUBJECTS, SETTINGS, st.lists(CONTROLS, max_size=2), RULES, st.booleans())
def test_another_rule_never_loosens(
    subject: Subject, settings: Settings, controls: list[Controls], rule: Rule, trusted: bool
) -> None:
    before = verdict(subject, settings, *controls, trusted=trusted)
    after = verdict(subject, replace(settings, rules=(*settings.rules, rule)), *controls, trusted=trusted)
    assert strictness(after) >= strictness(before)


@given(SUBJECTS, SETTINGS, st.lists(CONTROLS, max_size=2), CONTROLS, st.booleans())
def test_another_persons_controls_never_loosen(
    subject: Subject, settings: Settings, controls: list[Controls], more: Controls, trusted: bool
) -> None:
    before = verdict(subject, settings, *controls, trusted=trusted)
    after = verdict(subject, settings, *controls, more, trusted=trusted)
    assert strictness(after) >= strictness(before)


@given(SUBJECTS, SETTINGS, st.lists(CONTROLS, max_size=2), st.booleans(), st.randoms())
def test_the_order_of_rules_and_people_is_nothing(
    subject: Subject, settings: Settings, controls: list[Controls], trusted: bool, random: Any
) -> None:
    turned = list(settings.rules)
    random.shuffle(turned)
    one = verdict(subject, settings, *controls, trusted=trusted)
    other = verdict(subject, replace(settings, rules=tuple(turned)), *reversed(controls), trusted=trusted)
    assert strictness(one) == strictness(other)


@given(SUBJECTS.filter(lambda s: s.origin not in BY_HAND), SETTINGS, st.lists(CONTROLS, max_size=2), st.booleans())
def test_what_must_ask_is_never_kept_unasked(
    subject: Subject, settings: Settings, controls: list[Controls], trusted: bool
) -> None:
    asks = subject.tainted or subject.is_sensitive or subject.held or subject.kind in ("insight", "instruction")
    found = verdict(subject, settings, *controls, trusted=trusted)
    if asks or subject.blocked or not settings.may_write:
        assert found.status is not Status.CONFIRMED
    if not subject.stated and subject.is_sensitive:
        assert found.status is None


@given(SUBJECTS, SETTINGS, st.lists(CONTROLS, max_size=2), st.booleans())
def test_a_verdict_says_why(subject: Subject, settings: Settings, controls: list[Controls], trusted: bool) -> None:
    found = verdict(subject, settings, *controls, trusted=trusted)
    assert (found.drop is not None) is (found.status is None)
    assert (found.why is not None) is (found.status in (Status.PROPOSED, Status.QUARANTINED))
    assert found.rule


@given(SUBJECTS.filter(lambda s: s.origin not in BY_HAND), SETTINGS, st.booleans())
def test_a_looser_preset_never_keeps_less(subject: Subject, settings: Settings, trusted: bool) -> None:
    strict, middle, loose = (
        strictness(verdict(subject, replace(settings, policy=preset), trusted=trusted)) for preset in Preset
    )
    assert strict >= middle >= loose


# ---------------------------------------------------------------------- trust
def test_trust_is_the_table_of_origins() -> None:
    assert trust_of(Origin.USER_SAVED) == 0.95
    assert trust_of(Origin.AGENT_INFERRED) == 0.40
    assert trust_of(Origin.DOCUMENT) == 0.85


@given(
    st.sampled_from(Origin),
    st.frozensets(st.sampled_from(["tool", "web", "email"])),
    st.booleans(),
    st.lists(st.floats(0, 1), max_size=3),
)
def test_trust_only_ever_falls_without_a_person(
    origin: Origin, taint: frozenset[str], confirmed: bool, parents: list[float]
) -> None:
    trust = trust_of(origin, taint=taint, confirmed=confirmed, parents=parents)
    if confirmed:
        assert trust == TRUST[origin]
        return
    assert trust <= TRUST[origin] * (0.5 if taint else 1.0)
    assert all(trust <= parent for parent in parents)
    if origin in (Origin.AGENT_INFERRED, Origin.AUTO_ACCEPTED, Origin.DERIVED):
        assert trust <= 0.60


@given(st.lists(st.frozensets(st.sampled_from(["tool", "web", "import"])), max_size=3))
def test_taint_spreads_and_never_shrinks(taints: list[frozenset[str]]) -> None:
    assert all(taint <= spread(*taints) for taint in taints)
    assert spread() == frozenset()
