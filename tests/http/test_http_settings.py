"""Settings, controls and the audit over HTTP: versions and states in headers, and who gets which answer."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import httpx
import pytest
from tests.http.conftest import Served

from keeps.services import contexts


class Asking:
    """One context of the server with its keys; what is sent there, and the body that comes back."""

    def __init__(self, served: Served, name: str) -> None:
        made = asyncio.run_coroutine_threadsafe(
            contexts.bootstrap(served.rt, name, policy="deliberate"), served.loop
        ).result(60)
        self.keys = {"owner": made.owner_key, "agent": made.agent_key}
        self._http = httpx.Client(base_url=f"{served.endpoint}/api/v1/{name}")

    def __call__(
        self, method: str, path: str, body: Any = None, *, who: str = "owner", match: int | None = None
    ) -> httpx.Response:
        headers = {"Authorization": f"Bearer {self.keys[who]}"} | (
            {"If-Match": f'"{match}"'} if match is not None else {}
        )
        return self._http.request(method, path, json=body, headers=headers)

    def close(self) -> None:
        self._http.close()


_NUMBER = iter(range(1000))


@pytest.fixture
def ask(served: Served) -> Iterator[Asking]:
    asking = Asking(served, f"settings-{next(_NUMBER)}")
    yield asking
    asking.close()


def test_f1_f2_settings_are_read_changed_by_version_and_taken_back(ask: Asking) -> None:
    found = ask("GET", "/settings")
    assert (found.status_code, found.headers["ETag"], found.json()["settingsVersion"]) == (200, '"0"', 0)
    assert found.json()["settings"]["budget"]["max_memories"] == 8
    shown = ask("PATCH", "/settings?dryRun=true", {"retrieval_limit": 4}, match=0).json()
    assert (shown["applied"], shown["after"]) == (False, {"budget.max_memories": 4})
    done = ask("PATCH", "/settings", {"retrieval_limit": 4, "reason": "shorter"}, match=0)
    assert (done.status_code, done.headers["ETag"], done.json()["applied"]) == (200, '"1"', True)
    assert ask("GET", "/me").headers["X-Keeps-Settings-Version"] == "1"
    for match, status in ((0, 412), (None, 412)):
        refused = ask("PATCH", "/settings", {"retrieval_limit": 5}, match=match)
        assert (refused.status_code, refused.json()["type"].rpartition(":")[2]) == (status, "stale-revision")
    for body in ({"nonsense": 1}, {"retrieval_limit": 99}, {"kill": "sometimes"}, {"reason": 4}):
        assert ask("PATCH", "/settings", body, match=1).status_code == 422
    history = ask("GET", "/settings/history").json()["versions"]
    assert [(row["version"], row.get("reason")) for row in history] == [(1, "shorter"), (0, None)]
    assert ask("POST", "/settings/revert/0", {}, match=1).json()["settingsVersion"] == 2
    assert ask("GET", "/settings").json()["settings"]["budget"]["max_memories"] == 8


def test_f3_the_switch_leaves_seeing_exporting_and_deleting(ask: Asking) -> None:
    said = {"text": "The spare key hangs behind the oven.", "infer": "none"}
    assert ask("POST", "/facts", said).status_code in (200, 201)
    assert ask("POST", "/settings/kill", {"kill": "both"}).status_code == 200
    assert ask("GET", "/settings").json()["settings"]["kill"] == "both"
    for path in ("/attributes", "/sessions", "/entities", "/audit", "/me/controls", "/settings/history"):
        assert ask("GET", path).status_code == 200, path
    forgotten = ask("POST", "/forget", {"query": said["text"], "purge": True})
    assert forgotten.status_code == 200
    assert ask("POST", "/settings/kill", {"kill": "none"}).status_code == 200


def test_f4_an_agent_gets_403_everywhere(ask: Asking) -> None:
    for method, path, body in (
        ("GET", "/settings", None),
        ("PATCH", "/settings", {"retrieval_limit": 1}),
        ("GET", "/settings/history", None),
        ("POST", "/settings/revert/0", {}),
        ("POST", "/settings/kill", {"kill": "none"}),
        ("GET", "/audit", None),
        ("POST", "/audit/verify", None),
        ("GET", "/me/controls", None),
        ("PUT", "/me/controls", {"pauses": []}),
        ("PUT", "/me/rules", {"consents": ["health"]}),
        ("PUT", "/me/apps", {"apps": {}}),
        ("PUT", "/agents/agent/instructions", {"text": "Do as you like."}),
        ("PATCH", "/principals/agent", {"roles": ["admin"]}),
        ("PATCH", "/principals/agent", {"trustedWriter": True}),
    ):
        assert ask(method, path, body, who="agent", match=0).status_code == 403, (method, path)
    denied = ask("GET", "/audit?action=denied").json()["entries"]
    assert {row["action"] for row in denied} >= {"denied.setting.change", "denied.controls.rules"}


def test_h8_pauses_rules_and_apps_are_one_state(ask: Asking) -> None:
    first = ask("PUT", "/me/controls", {"pauses": [{"saving": True, "until": "2099-01-01T00:00:00Z"}]}, match=0)
    assert (first.status_code, first.headers["ETag"]) == (200, '"1"')
    assert ask("PUT", "/me/rules", {"blocked": ["my back"], "history": True}, match=0).status_code == 412
    rules = ask("PUT", "/me/rules", {"blocked": ["my back"], "history": True}, match=1).json()
    assert (rules["rev"], rules["blocked"], rules["history"], rules["consents"]) == (2, ["my back"], True, [])
    apps = ask("PUT", "/me/apps", {"apps": {"principal:agent": {"suggest": False}}}, match=2).json()
    assert apps["apps"] == [{"agent": "agent", "name": "Agent", "use": True, "suggest": False}]
    assert ask("GET", "/me/controls").json()["pauses"][0]["saving"] is True
    assert ask("PUT", "/me/controls", {"pauses": [{}]}, match=3).status_code == 422


def test_f5_the_audit_is_listed_in_pages_and_verified(ask: Asking) -> None:
    for number in range(3):
        ask("PATCH", "/settings", {"retrieval_limit": number}, match=number)
    page = ask("GET", "/audit?limit=2&action=setting.change").json()
    assert [row["seq"] for row in page["entries"]] == [3, 2]
    assert page["entries"][0]["after"] == {"budget.max_memories": 2}
    rest = ask("GET", f"/audit?limit=2&action=setting.change&cursor={page['page']['nextCursor']}").json()
    assert [row["seq"] for row in rest["entries"]] == [1]
    assert ask("POST", "/audit/verify").json() == {"ok": True, "rows": 3, "underOlderKey": 0}


def test_f5_an_entry_names_the_request_it_comes_of(ask: Asking) -> None:
    done = ask("PATCH", "/settings", {"retrieval_limit": 7}, match=0)
    refused = ask("PATCH", "/settings", {"retrieval_limit": 1}, who="agent", match=1)
    entries = ask("GET", "/audit").json()["entries"]
    assert [(row["action"], row["request"]) for row in entries] == [
        ("denied.setting.change", refused.headers["X-Trace-Id"]),
        ("setting.change", done.headers["X-Trace-Id"]),
    ]
    assert done.headers["X-Trace-Id"] != refused.headers["X-Trace-Id"]
    assert ask("POST", "/audit/verify").json()["ok"] is True


def test_roles_are_given_by_an_owner_and_shown(ask: Asking) -> None:
    kim = ask("POST", "/principals", {"displayName": "Kim", "kind": "human", "roles": ["admin"]}).json()
    assert kim["roles"] == ["admin"]
    changed = ask("PATCH", f"/principals/{kim['id']}", {"roles": ["curator"], "trustedWriter": True}).json()
    assert (changed["roles"], changed["trustedWriter"]) == (["curator"], True)
    assert ask("PATCH", f"/principals/{kim['id']}", {"displayName": "Kay"}).status_code == 403
    assert ask("PATCH", "/principals/owner", {"roles": []}).status_code == 409
    assert ask("PATCH", "/principals/agent", {"roles": ["admin"]}).status_code == 400
    assert ask("PATCH", f"/principals/{kim['id']}", {"roles": ["subject"]}).status_code == 400
    assert ask("GET", "/me").json()["roles"] == ["owner"]


def test_an_agent_is_told_how_to_behave_in_versions(ask: Asking) -> None:
    path = "/agents/agent/instructions"
    assert ask("GET", path).json() == {"versions": []}
    assert ask("PUT", path, {"text": "Be brief."}).json()["version"] == 1
    assert ask("PUT", path, {"text": "Be brief. Use British English."}).json()["version"] == 2
    seen = ask("GET", path, who="agent").json()
    assert seen["current"]["text"] == "Be brief. Use British English."
    assert [row["version"] for row in seen["versions"]] == [2, 1]
    assert seen["versions"][1]["until"]
    for text, status in (("", 422), ("x" * 2001, 422), ("the key is AKIAIOSFODNN7EXAMPLE", 422)):
        assert ask("PUT", path, {"text": text}).status_code == status
    assert ask("PUT", "/agents/nobody/instructions", {"text": "x"}).status_code == 404
    assert ask("DELETE", path).status_code == 204
    assert "current" not in ask("GET", path).json()
    assert ask("DELETE", path).status_code == 404
    assert ask("PUT", path, {"text": "Be brief."}).json()["version"] == 3


@pytest.mark.parametrize("match", ["*", '"x"', '"1", "2"', "-1"])
def test_an_if_match_that_names_no_one_state_is_refused(ask: Asking, match: str) -> None:
    headers = {"Authorization": f"Bearer {ask.keys['owner']}", "If-Match": match}
    reply = ask._http.patch("/settings", json={"retrieval_limit": 1}, headers=headers)
    assert reply.status_code == 400
