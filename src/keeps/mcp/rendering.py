"""Results as text for a model: what is remembered stands inside the fence and nowhere else."""

from __future__ import annotations

import json
import secrets
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any

from keeps.core import fence
from keeps.core.facts import Origin
from keeps.core.fence import Note
from keeps.wire.facts import FactsOut
from keeps.wire.forget import ForgetOut
from keeps.wire.inspect import InspectOut
from keeps.wire.memories import SavedOut
from keeps.wire.query import ContextOut, Hit, QueryOut
from keeps.wire.rows import ActionDetail, AttributeDetail, RelationDetail, RowOut

NOTHING = "Nothing that is remembered answers this."
_LOOKED_UP = "what the record holds"
_WOULD_GO = "would be forgotten"
_WOULD_STAY = "comes near, would stay"


def recalled(found: QueryOut) -> str:
    """Hits, the best first."""
    degraded = f"\nNot searched this time: {', '.join(found.degraded)}." if found.degraded else ""
    return (_fenced(_of_hit(hit) for hit in found.hits) or NOTHING) + degraded


def block(found: ContextOut) -> str:
    """The block itself; a sentence when it is empty, since some hosts refuse an empty text. Behind it, outside the
    fence, how many proposals wait: a number, which no memory can write."""
    return "\n".join(filter(None, [found.context or NOTHING, waiting(found.pending)]))


def waiting(pending: int | None) -> str:
    """How many proposals a person has yet to decide on; empty for none."""
    if not pending:
        return ""
    return f"{_counted(pending, 'proposal waits', 'proposals wait')} for the person to decide on: keeps inbox."


def written(done: FactsOut) -> str:
    """What a write did, in numbers and ids."""
    where = f"turn:{done.turn_id}" if done.turn_id else "no turn"
    said = [f"{'Would be remembered' if done.preview else 'Remembered'}: {where}."]
    if (extraction := done.extraction) is not None:
        facts = len(extraction.attributes) + len(extraction.relations) + len(extraction.actions)
        said += [f"{facts} drawn from it"] if facts else []
        said += [f"{len(extraction.corrections)} corrected"] if extraction.corrections else []
        left = len(extraction.proposals or ())
        said += [f"{left} {'waits' if left == 1 else 'wait'} for the person's approval"] if left else []
    lost = [*(done.dropped or ()), *((done.extraction.dropped if done.extraction else None) or ())]
    if lost:
        said.append(f"{len(lost)} not kept ({', '.join(sorted({each.reason for each in lost}))})")
    return " ".join([said[0], *([", ".join(said[1:]) + "."] if said[1:] else [])])


def noted(saved: SavedOut) -> str:
    """What became of a text as a note, in ids and fixed words."""
    if saved.dropped:
        return f"Not kept as a memory ({saved.reason})."
    if saved.status == "confirmed":
        return f"Kept as memory:{saved.id}."
    return f"As a memory it waits for the person's approval: memory:{saved.id}."


def forgotten(gone: ForgetOut, *, dry_run: bool, purge: bool) -> str:
    """What went, or would go; a dry run shows the memories themselves."""
    how = ("erase" if dry_run else "Erased") if purge else ("forget" if dry_run else "Forgot")
    count = "" if gone.memories is None else f" ({_counted(gone.memories, 'memory', 'memories')})"
    told = f"{'Would ' if dry_run else ''}{how} {_counted(gone.deleted, 'row', 'rows')}{count}."
    if gone.remaining:
        told += f" {_counted(gone.remaining, 'memory', 'memories')} beyond the limit would need another call."
    notes = [Note(id=m.id, kind="memory", label=_WOULD_GO, text=m.text) for m in gone.matches or ()]
    notes += [Note(id=m.id, kind="memory", label=_WOULD_STAY, text=m.text) for m in gone.near_misses or ()]
    return "\n".join(filter(None, [told, _fenced(notes)]))


def inspected(ref: str, found: InspectOut, data: Mapping[str, Any]) -> str:
    """One thing of the record."""
    notes = list(_of_rows(found))
    if found.turn is not None:
        turn = found.turn
        text = f"{turn.speaker or turn.role}: {found.text or turn.content}"
        label = fence.PASSAGE_LABEL
        notes.append(Note(id=f"turn:{turn.id}", kind=found.kind, label=label, text=text, at=turn.created_at))
    if not notes:
        text = json.dumps(data, ensure_ascii=False)
        notes.append(Note(id=ref, kind=found.kind, label=_LOOKED_UP, text=text))
    return _fenced(notes)


def _of_hit(hit: Hit) -> Note:
    if hit.role is not None:
        text = f"{hit.speaker or hit.role}: {hit.text}"
        return Note(id=hit.id, kind="passage", label=fence.PASSAGE_LABEL, text=text, at=hit.occurred_at)
    kind, label = fence.told_as(hit.kind or hit.source, _label(hit.origin), hit.text)
    return Note(id=hit.id, kind=kind, label=label, text=hit.text, at=hit.occurred_at)


def _of_rows(found: InspectOut) -> Iterator[Note]:
    if found.entity is not None:
        entity = found.entity
        yield Note(id=entity.id, kind="entity", label=_LOOKED_UP, text=entity.name, at=entity.updated_at)
    row = found.attribute or found.relation or found.action
    shown: set[str] = set()
    current: Sequence[AttributeDetail] = () if found.current is None else (found.current,)
    rows: tuple[Iterable[RowOut], ...] = (
        () if row is None else (row,),
        current,
        found.history or (),
        found.attributes or (),
        found.relations or (),
        found.matches or (),
    )
    for one in (one for some in rows for one in some):
        if one.id not in shown:
            shown.add(one.id)
            yield _of_row(one)


def _of_row(row: RowOut) -> Note:
    text = row.summary or _stated(row)
    since = _span(row.valid_from, row.valid_until)
    kind, label = fence.told_as(row.kind or "fact", _label(row.origin), text)
    return Note(
        id=row.id,
        kind=kind,
        label=label,
        text=f"{text} ({since})" if since else text,
        at=row.created_at,
    )


def _stated(row: RowOut) -> str:
    if isinstance(row, AttributeDetail):
        return f"{row.entity} {row.key}: {row.value}"
    if isinstance(row, RelationDetail):
        return f"{row.subject} {row.label} {row.object}"
    assert isinstance(row, ActionDetail)
    return " ".join(filter(None, [row.actor, row.verb, row.object or row.object_text]))


def _span(since: datetime | None, until: datetime | None) -> str:
    parts = [f"since {since.date()}" if since else "", f"until {until.date()}" if until else ""]
    return ", ".join(filter(None, parts))


def _label(origin: str | None) -> str:
    """Who stands behind it; an origin that this version does not know is nobody who confirmed anything."""
    try:
        return fence.LABELS[Origin(origin)]
    except (ValueError, KeyError):
        return fence.LABELS[Origin.AGENT_INFERRED]


def _fenced(notes: Iterable[Note]) -> str:
    return fence.fence(notes, nonce=secrets.token_hex(8))


def _counted(count: int, one: str, many: str) -> str:
    return f"{count} {one if count == 1 else many}"
