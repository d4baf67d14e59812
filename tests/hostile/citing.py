"""Answers that name what they were never given, and answers that would make a memory stronger by repeating it."""

from __future__ import annotations

from typing import Any

from tests.hostile.faces import answered, tool
from tests.hostile.place import Harbour, Place, Someone
from tests.hostile.rows import row
from tests.hostile.screening import HOME, waiting

TEXT = "Prefers short answers with one example"
QUESTION = "Which answers are preferred?"


def saved(harbour: Harbour, text: str = TEXT) -> str:
    """The reference of what a person saved."""
    done = harbour.owner.post("/memories", {"kind": "preference", "text": text, "scopes": HOME})
    assert done.status_code == 201, done.text
    return f"attribute:{done.json()['id']}"


def offered(who: Someone) -> tuple[str, list[str]]:
    """A new run, and what it was given."""
    run = who.post("/runs", {}).json()["id"]
    block = who.post("/context", {"query": QUESTION, "runId": run}).json()
    return run, [each["id"] for each in block["offered"]]


def standing(harbour: Harbour) -> tuple[list[Any], list[Any], list[Any]]:
    """The memories as they are stored, what waits, and which facts answer in which order with which score."""
    found = harbour.owner.ask(QUESTION, include=["facts"])
    return harbour.rows("attribute"), waiting(harbour), [(hit["id"], hit["score"]) for hit in found]


@row("O12")
def a_memory_that_is_repeated_until_it_is_believed(place: Place) -> None:
    for policy, times in (("deliberate", 10), ("automatic", 3)):
        harbour = place.harbour(policy)
        agent = harbour.agent
        saved(harbour, "Preferred are answers in which a number stands")
        saved(harbour)
        before = standing(harbour)
        _, (ref, _) = before[2]
        (fact,) = [each for each in before[0] if each["id"].id == ref.partition(":")[2]]
        name, key, text = fact["entity"].partition("/")[2], fact["key"], fact["value"]
        for _ in range(times):
            run, given = offered(agent)
            assert ref in given
            triple = {"entity": {"type": "person", "name": name}, "key": key, "value": text}
            said = {"role": "assistant", "runId": run, "scopes": HOME}
            for path, body in (
                ("/facts", {"infer": "triples", "triples": [triple], **said}),
                ("/facts", {"text": text, "infer": "triples", "triples": [triple], **said}),
                ("/facts", {"text": text, "infer": "none", **said}),
                (
                    "/facts/batch",
                    {"messages": [{"role": "assistant", "content": text}], "infer": "none", "scopes": HOME},
                ),
                ("/memories", {"kind": "preference", "text": text, "runId": run, "scopes": HOME}),
            ):
                done = agent.post(path, body)
                assert done.status_code == 200, (path, done.text)
            assert agent.send("PATCH", f"/runs/{run}", json={"endReason": "answered"}).status_code == 200
        answered(agent, QUESTION, f"{text}.")
        if policy == "deliberate":
            said = tool(agent, "remember", text=text, scope="user/owner")["structuredContent"]
            assert said["memory"]["reason"] == "known"
        after = standing(harbour)
        assert after[:2] == before[:2], policy
        assert [each for each, _ in after[2]] == [each for each, _ in before[2]], policy
        assert dict(after[2])[ref] <= dict(before[2])[ref], policy


@row("O48")
def ids_that_were_never_given(place: Place) -> None:
    harbour, other = place.harbour("deliberate"), place.harbour("deliberate")
    agent, ref = harbour.agent, saved(harbour)
    hidden, foreign = saved(harbour, "The code of the safe is taped below"), saved(other)
    assert harbour.owner.send(
        "PATCH", f"/memories/{hidden}", json={"muted": True}, headers={"If-Match": '"1"'}
    ).is_success
    run, given = offered(agent)
    assert given == [ref]
    made_up = "z" * 20
    fakes = [f"attribute:{made_up}", made_up, foreign, hidden, f" {ref}", ref.upper(), ref.partition(":")[2]]
    cited = agent.post(f"/runs/{run}/citations", {"cites": [ref, ref, *fakes]})
    assert cited.status_code == 200, cited.text
    body = cited.json()
    assert (body["kept"], body["dropped"], body["reason"]) == ([ref], len(fakes), "not_offered")
    assert [each["id"] for each in body["memoriesUsed"]["cited"]] == [ref]
    for fake in fakes[:4]:
        assert fake not in cited.text
    # Made up, of somebody else, or hidden: nobody can tell which.
    alone = [agent.post(f"/runs/{run}/citations", {"cites": [fake]}).json() for fake in fakes]
    assert all(each == alone[0] for each in alone)
    assert alone[0]["uncited"] is True
    record = agent.get(f"/runs/{run}").json()
    assert (record["citesKept"], record["citesDropped"]) == (1, 2 * len(fakes))
    used = harbour.owner.get(f"/runs/{run}").json()["memoriesUsed"]
    assert [each["id"] for each in used["cited"] + used["alsoShown"]] == [ref]
    # And in the loop: what is shown to people holds no id, true or not.
    _, answer = answered(agent, QUESTION, f"Short ones [{ref}] [{ref}] [attribute:{made_up}] [{foreign}].")
    assert answer.text == "Short ones."
    assert [memory.id for memory in answer.used.memories] == [ref]
    assert answer.used.dropped == 2
