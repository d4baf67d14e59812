"""Short ways to say things in the tests of services."""

from __future__ import annotations

from typing import Any

from keeps.core.access import Caller
from keeps.core.scopes import parse_scopes
from keeps.core.triples import parse_triples
from keeps.services.remember import Infer, Remember, Remembered, remember
from keeps.services.runtime import Context, Runtime


async def say(
    rt: Runtime, context: Context, who: Caller, *triples: dict[str, Any], scopes: object = "user/mara", **more: Any
) -> Remembered:
    """Remember triples in the form clients send."""
    request = Remember(
        infer=Infer.TRIPLES,
        triples=parse_triples(list(triples), anchor=rt.clock()),
        scope=parse_scopes(scopes),
        **more,
    )
    return await remember(rt, context, who, request)


def fact(key: str, value: str, name: str = "Mara", type_: str = "person", **more: Any) -> dict[str, Any]:
    """A triple that gives a value to a key."""
    return {"entity": {"type": type_, "name": name}, "key": key, "value": value, **more}


def relation(label: str, to: str, name: str = "Mara", to_type: str = "organisation", **more: Any) -> dict[str, Any]:
    """A triple that relates a person to another entity."""
    return {
        "entity": {"type": "person", "name": name},
        "key": label,
        "target": {"type": to_type, "name": to},
        **more,
    }


def action(verb: str, what: str, name: str = "Mara", **more: Any) -> dict[str, Any]:
    """A triple for something a person did."""
    return {"entity": {"type": "person", "name": name}, "verb": verb, "object": what, **more}
