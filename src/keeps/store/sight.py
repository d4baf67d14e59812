"""What a sight shows, as conditions that the engine checks, and which entities it keeps out of view."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, LiteralString

from keeps.core.entities import EntityRef
from keeps.core.sight import Sight
from keeps.store.db import INDEXED_VALUES, Db
from keeps.store.rows import Record, stored_ref

_LIST_S: Final = 15.0

_SEEN: Final[LiteralString] = (
    " AND (scope_set IN $whole OR ((scope_set IN $plain OR [scope_set, kind] IN $kinds_of)"
    " AND (topics ?? []) ALLINSIDE $home AND (topics != NONE OR sensitivity != 'sensitive')))"
)
"""The same as `Sight.shows`."""


def seen_by(sight: Sight) -> tuple[LiteralString, dict[str, Any]]:
    """The condition that keeps rows to what a sight shows, and what it names; nothing where that is every row."""
    if not sight.rest:
        return "", {}
    limited = [(each, kinds) for each, kinds in sight.rest.items() if kinds is not None]
    return _SEEN, {
        "whole": sorted(sight.whole),
        "plain": sorted(each for each, kinds in sight.rest.items() if kinds is None),
        "kinds_of": [[each, kind] for each, kinds in limited for kind in sorted(kinds)],
        "home": sorted(sight.home),
    }


_GIVEN: Final[LiteralString] = "muted = false AND (taint = [] OR user_confirmed = true)" + _SEEN
_NAMED: Final[tuple[tuple[LiteralString, LiteralString, LiteralString], ...]] = (
    ("entity AS ref", "attribute WITH INDEX attribute_entity", "entity"),
    ("subject AS ref", "relates_to WITH INDEX relation_subject", "subject"),
    ("object AS ref", "relates_to WITH INDEX relation_object", "object"),
    ("actor AS ref", "action WITH INDEX action_actor", "actor"),
    ("object AS ref", "action WITH INDEX action_object", "object"),
)
"""Where a row names an entity: what it is read as, from which table, in which column."""


def _naming(condition: LiteralString) -> LiteralString:
    script: LiteralString = ""
    for name, table, column in _NAMED:
        script = (
            script
            + ("SELECT " + name + ", scope_set FROM " + table + " WHERE " + column + " IN $refs")
            + (" AND scope_set IN $sets AND forgotten_at = NONE AND " + condition)
            + " GROUP BY ref, scope_set TIMEOUT 10s;"
        )
    return script


_HIDDEN: Final = _naming("!(" + _GIVEN + ")")
_SHOWN: Final = _naming(_GIVEN)


async def veiled(db: Db, sight: Sight, refs: Sequence[EntityRef]) -> set[tuple[EntityRef, str]]:
    """Where entities are named by nothing but rows that may not be seen: entity and scope set of each."""
    hidden: set[tuple[EntityRef, str]] = set()
    for start in range(0, len(refs) if sight.rest else 0, INDEXED_VALUES):
        part = [str(ref) for ref in refs[start : start + INDEXED_VALUES]]
        if held_back := await _places(db, _HIDDEN, sight, part):
            hidden |= held_back - await _places(db, _SHOWN, sight, sorted({str(ref) for ref, _ in held_back}))
    return hidden


async def _places(db: Db, script: LiteralString, sight: Sight, refs: Sequence[str]) -> set[tuple[EntityRef, str]]:
    _, names = seen_by(sight)
    parts: list[list[Record]] = await db.run(script, timeout_s=_LIST_S, sets=sorted(sight.rest), refs=refs, **names)
    return {(stored_ref(row["ref"]), row["scope_set"]) for part in parts for row in part}
