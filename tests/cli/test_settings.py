"""`keeps settings`, `pause`, `resume`, `consent` and `audit`, run as a person runs them."""

from __future__ import annotations

import pytest

from tests.cli.conftest import Desk


@pytest.fixture
def kept(desk: Desk) -> Desk:
    desk("remember", "The spare key hangs behind the oven.")
    return desk


def test_f1_f2_settings_are_shown_tried_set_and_taken_back(kept: Desk) -> None:
    assert "budget.max_memories = " in kept("settings", "show", "budget").out
    tried = kept("settings", "set", "retrieval_limit", "5", "--dry-run")
    assert "→ 5" in tried.out
    assert "unchanged" in tried.out
    assert "budget.max_memories" in kept("settings", "set", "retrieval_limit", "5", "--reason", "fewer").out
    assert kept("settings", "show", "--json").json["own"]["budget"] == {"max_memories": 5}
    assert kept("settings", "set", "retrieval_limit", "99", code=1).err.startswith("keeps: bad setting")
    assert "`keeps settings show`" in kept("settings", "set", "nonsense", "1", code=1).err
    assert "near it: policy" in kept("settings", "set", "polcy", "automatic", code=1).err
    kept("settings", "show", "nonsense", code=2)
    history = kept("settings", "history").out
    assert "fewer" in history
    assert "    budget.max_memories: null → 5\n" in history
    kept("settings", "revert", "0")
    assert "budget" not in kept("settings", "show", "--json").json["own"]
    kept("settings", "revert", "99", code=3)


def test_f3_the_switch(kept: Desk) -> None:
    assert kept("settings", "kill", "no_prompt").out.strip() == "No memory goes into prompts."
    assert kept("settings", "show", "kill").out.startswith("kill = no_prompt")
    kept("settings", "kill", "none")
    assert "kill = none" in kept("settings", "show", "kill").out


def test_an_agent_is_told_how_to_behave(kept: Desk) -> None:
    assert "told nothing" in kept("settings", "agent", "agent").out
    kept("settings", "agent", "agent", "Be brief.")
    kept("settings", "agent", "agent", "Be kind.")
    assert kept("settings", "agent", "agent", "--json").json["current"]["text"] == "Be kind."
    kept("settings", "agent", "agent", "--clear")
    assert "told nothing" in kept("settings", "agent", "agent").out
    kept("settings", "agent", "agent", "x", "--clear", code=2)


def test_h8_pauses_add_up_and_are_lifted_together(kept: Desk) -> None:
    assert "Saving paused until" in kept("pause", "--saving", "--for", "1h").out
    assert "agent (Agent)" in kept("pause", "--agent", "nobody", code=2).err
    both = kept("pause", "--agent", "agent").out
    assert "Saving and use of agent paused until you run `keeps resume`." in both
    assert len(kept("pause", "--using", "--for", "today", "--json").json["pauses"]) == 3
    assert len(kept("resume", "--agent", "agent", "--json").json["pauses"]) == 2
    assert "Saving paused until" in kept("controls").out
    assert kept("resume").out.strip() == "Nothing is paused."
    kept("pause", "--for", "soon", code=2)


def test_consents_and_blocks(kept: Desk) -> None:
    kept("consent", "health", "--history", "on", "--block", "my back")
    shown = kept("consent", "--json").json
    assert (shown["consents"], shown["history"], shown["blocked"]) == (["health"], True, ["my back"])
    kept("consent", "health", "--withdraw", "--unblock", "my back")
    assert "agreed to: nothing sensitive" in kept("consent").out
    assert "weather" in kept("consent", "weather", code=1).err
    kept("consent", "--history", "maybe", code=2)
    kept("consent", "--block", "my back")
    assert "blocked is “my back”" in kept("consent", "--unblock", "my front", code=2).err
    kept("consent", "--unblock", "my back")


def test_what_an_agent_may_do_is_shown_and_changed(kept: Desk) -> None:
    assert "Agent: uses memory, may propose" in kept("controls").out
    shown = kept("controls", "agent", "--suggest", "off", "--kind", "fact")
    assert "Agent: uses memory, only fact" in shown.out
    shown = kept("controls", "agent", "--suggest", "on", "--kind", "all", "--json").json
    assert [(one["use"], one["suggest"], one.get("kinds")) for one in shown["apps"] if one["agent"] == "agent"] == [
        (True, True, None)
    ]
    kept("controls", "agent", code=2)
    kept("controls", "--use", "off", code=2)


def test_f5_the_audit_is_listed_and_verified(kept: Desk) -> None:
    kept("settings", "set", "undo_seconds", "20")
    listed = kept("audit", "--action", "setting").out
    assert "setting.change setting:1 owner" in listed
    assert listed.startswith("number · what was done")
    assert "setting.change" in kept("audit", "--action", "bogus").err
    assert kept("audit", "verify").out.startswith("Whole: ")
    assert kept("audit", "verify", "--json").json["ok"] is True


def test_a_wrong_key_is_said_as_a_shell_knows_it(kept: Desk) -> None:
    said = kept("inbox", "--key", "sp-wrong", code=1).err
    assert "KEEPS_KEY" in said
    assert "keys.json" in said
    assert "Authorization" not in said
