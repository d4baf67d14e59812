"""Hands on the record itself: what was done is changed, or its end cut off."""

from __future__ import annotations

from typing import Any

from tests.hostile.place import Harbour, Place
from tests.hostile.rows import row
from tests.hostile.screening import HOME


def busy(place: Place) -> Harbour:
    """A context in which much was done."""
    harbour = place.harbour("deliberate")
    for number in range(6):
        saved = harbour.owner.post("/memories", {"kind": "note", "text": f"note {number}", "scopes": HOME})
        assert saved.status_code == 201, saved.text
    assert verdict(harbour)["ok"] is True
    return harbour


def verdict(harbour: Harbour) -> dict[str, Any]:
    reply = harbour.owner.post("/audit/verify", {})
    assert reply.status_code == 200, reply.text
    return reply.json()


def done_to(harbour: Harbour, statement: str, **values: Any) -> None:
    """Run a statement in the record, past everything that guards it."""

    async def run() -> None:
        context = await harbour.place.rt.context(harbour.id)
        await context.db.run(statement, **values)  # type: ignore[arg-type]

    harbour.place.run(run())


@row("O52")
def an_audit_that_is_changed(place: Place) -> None:
    for how in (
        "UPDATE audit:4 SET actor = 'somebody';",
        "UPDATE audit:4 SET action = 'memory.reject';",
        "UPDATE audit:4 SET target = 'attribute:x';",
        "UPDATE audit:4 SET at_us += 1;",
        "UPDATE audit:4 SET request = 'x';",
        "UPDATE audit:4 SET mac = (SELECT VALUE mac FROM ONLY audit:5);",
    ):
        harbour = busy(place)
        done_to(harbour, how)
        found = verdict(harbour)
        assert (found["ok"], found["flaw"], found["firstBad"], found["rows"]) == (False, "changed", 4, 3), how
    harbour = busy(place)
    last = max(entry["seq"] for entry in harbour.owner.get("/audit", limit="500").json()["entries"])
    done_to(harbour, f"DELETE audit:{last - 4}..;")
    found = verdict(harbour)
    assert (found["ok"], found["flaw"], found["firstBad"]) == (False, "tail_missing", last - 4)
    # What is done next does not hide it.
    harbour.owner.post("/memories", {"kind": "note", "text": "one more", "scopes": HOME})
    found = verdict(harbour)
    assert (found["ok"], found["firstBad"]) == (False, last - 4)
    harbour = busy(place)
    done_to(harbour, "DELETE audit:3;")
    found = verdict(harbour)
    assert (found["ok"], found["flaw"], found["firstBad"]) == (False, "missing", 3)
