"""Which ledger of erased rows goes with a restored record, and whether a folder's secrets are those of an archive."""

from __future__ import annotations

import hmac
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Final, Literal

from keeps.core.errors import Conflict, Invalid, StoreRefused
from keeps.services.runtime import LEDGER_FOLDER
from keeps.store import secrets as store_secrets
from keeps.store.archive import Header
from keeps.store.ledger import FILE_NAME as LEDGER_FILE
from keeps.store.ledger import Ledger, read_ledger

NEW_LEDGER: Final = "new-ledger"
"""Kind of the first line of a ledger that was begun without the old one. It belongs to no context."""

MAX_REASON_CHARS: Final = 500


def pepper_check(pepper: bytes) -> str:
    """Tells two peppers apart without giving either away."""
    return hmac.new(pepper, b"keeps archive", sha256).hexdigest()[:32]


@dataclass(frozen=True, slots=True, kw_only=True)
class LedgerChoice:
    """The ledger that will hold: the folder's own, a copy of `source`, or a new one begun for a reason."""

    how: Literal["kept", "copied", "new"]
    source: Path | None = None
    reason: str = ""


_WAYS: Final = (
    "Give the file ledger/tombstones.jsonl of the machine the backup comes from with --ledger FILE, or, when it is "
    "lost, begin a new one with --new-ledger REASON: what was erased after the backup then comes back."
)


def choose(folder: Path, header: Header, given: Path | None, reason: str | None) -> LedgerChoice:
    """The ledger for an archive restored into `folder`: one that holds the line the archive names.

    Raises: StoreRefused when none fits, Invalid, Conflict when a new one is asked for without need.
    """
    own = folder / LEDGER_FOLDER / LEDGER_FILE
    if given is not None and reason is not None:
        raise Invalid("Give --ledger or --new-ledger, not both.")
    if reason is not None:
        if not 0 < len(reason.strip()) <= MAX_REASON_CHARS:
            raise Invalid(f"Say why a new ledger is begun, in 1 to {MAX_REASON_CHARS} characters.")
        if own.exists() and _misfit(folder, own, header) is None:
            raise Conflict("The ledger of this folder fits the backup: restore without --new-ledger.")
        return LedgerChoice(how="new", reason=reason.strip())
    if given is None:
        misfit = _misfit(folder, own, header) if own.exists() else "This folder has no ledger of erased rows."
        if misfit is not None:
            raise StoreRefused(f"{misfit} {_WAYS}")
        return LedgerChoice(how="kept", source=own)
    head, found = _look(given, header.ledger)
    if not found:
        raise StoreRefused(f"The ledger {given} is not the one of this backup, or ends before it. {_WAYS}")
    try:
        own_head, own_is_longer = _look(own, head) if own.exists() else ((0, ""), False)
    except StoreRefused:  # damaged: that is what the copy is for
        return LedgerChoice(how="copied", source=given)
    if own_is_longer:
        return LedgerChoice(how="kept", source=own)
    if not _look(given, own_head)[1]:
        raise StoreRefused(
            f"The ledger of this folder and {given} part ways: neither holds the other's lines. Restore into an "
            "empty folder."
        )
    return LedgerChoice(how="copied", source=given)


def _misfit(folder: Path, own: Path, header: Header) -> str | None:
    """Why the folder's own ledger cannot be the one that the backup was made beside; None when it can."""
    try:
        head, found = _look(own, header.ledger)
    except StoreRefused as error:
        return error.message
    if not found:
        return f"The ledger of this folder ends at number {head[0]} and is not the one of this backup, or is behind it."
    pepper = folder / store_secrets.PEPPER_NAME
    known = header.ledger[0] > 0 or (
        pepper.exists() and pepper_check(store_secrets.pepper(folder)) == header.pepper_check
    )
    return None if known else "The backup comes from another folder, and nothing says that this ledger belongs to it."


def _look(file: Path, wanted: tuple[int, str]) -> tuple[tuple[int, str], bool]:
    """Head of a ledger, and whether it holds the line `wanted`. Raises: Invalid, StoreRefused."""
    head, found = (0, ""), wanted == (0, "")
    try:
        for tombstone in read_ledger(file):
            head = tombstone.seq, tombstone.digest
            found = found or head == wanted
    except OSError as error:
        raise Invalid(f"The ledger {file} cannot be read: {error.strerror}.") from error
    return head, found


def stage(place: Path, header: Header, choice: LedgerChoice) -> int:
    """Put the ledger that will hold beside the new record; the number of its last line."""
    target = place / LEDGER_FOLDER
    target.mkdir(mode=0o700)
    if choice.source is not None:
        store_secrets.write_private(target / LEDGER_FILE, choice.source.read_bytes())
    ledger = Ledger.open(target)
    try:
        if choice.how == "new":
            before = {"seq": header.ledger[0], "digest": header.ledger[1]}
            ledger.append("", NEW_LEDGER, [], 0, {"reason": choice.reason, "before": before})
        return ledger.head[0]
    finally:
        ledger.close()
