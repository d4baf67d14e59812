"""A restored folder takes the place of another: staged whole beside it, then moved in piece by piece.

The note `restore.json` is the point of no return. Before it the old folder is untouched; once it is on the disk
the moves are carried out, by whoever opens the folder next when this process does not get to it.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Sequence
from contextlib import suppress
from datetime import datetime
from pathlib import Path
from typing import Final

from keeps.core.errors import StoreRefused
from keeps.store.archive import flush_folder
from keeps.store.owner import unusable
from keeps.store.secrets import write_private

STAGING: Final = ".restoring"
NOTE: Final = "restore.json"
FINDER: Final = "finder"

KEPT_ASIDE: Final = frozenset({"record", "ledger"})
"""Pieces that are kept under another name; the others are replaced."""


def staging(folder: Path) -> Path:
    """An empty folder to build the restored one in; what an interrupted restore left there is removed."""
    place = folder / STAGING
    try:
        if place.exists():
            shutil.rmtree(place)
        place.mkdir(mode=0o700)
    except OSError as error:
        raise unusable(folder, error) from error
    return place


def discard(folder: Path) -> None:
    """Remove what is staged; nothing once the moves have begun."""
    if not (folder / NOTE).exists():
        shutil.rmtree(folder / STAGING, ignore_errors=True)


def swap(folder: Path, pieces: Sequence[str], at: datetime) -> dict[str, Path]:
    """Move the staged `pieces` and indexes into `folder`; where each old piece went that is kept aside.

    Raises:
        StoreRefused: the folder cannot be written. Before the note nothing has changed.
    """
    stamp = f"before-restore-{at:%Y%m%dT%H%M%SZ}"
    while any((folder / f"{piece}.{stamp}").exists() for piece in KEPT_ASIDE):
        stamp += "-again"
    note = {"pieces": list(pieces), "aside": stamp}
    try:
        _flush_tree(folder / STAGING)
        write_private(folder / NOTE, json.dumps(note).encode())
        flush_folder(folder)
    except OSError as error:
        raise unusable(folder, error) from error
    finish(folder)
    asides = {piece: folder / f"{piece}.{stamp}" for piece in pieces if piece in KEPT_ASIDE}
    return {piece: aside for piece, aside in asides.items() if aside.exists()}


def finish(folder: Path) -> bool:
    """Carry out the moves of a restore that was decided; True when there was one. Every step may be repeated.

    Raises:
        StoreRefused: the folder cannot be written, or the note is damaged.
    """
    try:
        note = json.loads((folder / NOTE).read_bytes())
        pieces, stamp = list(map(str, note["pieces"])), str(note["aside"])
    except FileNotFoundError:
        return False
    except OSError as error:
        raise unusable(folder, error) from error
    except (ValueError, KeyError, TypeError):
        raise StoreRefused(
            f"The note of a restore is damaged ({folder / NOTE}): restore the backup again into an empty folder."
        ) from None
    place = folder / STAGING
    try:
        for piece in pieces:
            _move(place / piece, folder / piece, folder / f"{piece}.{stamp}" if piece in KEPT_ASIDE else None)
            flush_folder(folder)
        _move_finders(folder, place)
        shutil.rmtree(place, ignore_errors=True)
        (folder / NOTE).unlink()
        flush_folder(folder)
    except OSError as error:
        raise unusable(folder, error) from error
    return True


def interrupted(folder: Path) -> bool:
    """True when a restore was begun and not finished."""
    return (folder / STAGING).exists() or (folder / NOTE).exists()


def _move(new: Path, old: Path, aside: Path | None) -> None:
    if not new.exists():
        return  # moved already
    if aside is not None and _holds_something(old):
        old.rename(aside)
    elif old.is_dir():
        shutil.rmtree(old)
    new.rename(old)


def _move_finders(folder: Path, place: Path) -> None:
    """Indexes of the old record go, those of the new one come: for a context without one it is built at the start."""
    for old in folder.glob(f"*/{FINDER}"):
        if not old.is_relative_to(place):
            shutil.rmtree(old)
            with suppress(OSError):
                old.parent.rmdir()
    for new in place.glob(f"*/{FINDER}"):
        target = folder / new.parent.name
        target.mkdir(mode=0o700, exist_ok=True)
        new.rename(target / FINDER)


def _holds_something(path: Path) -> bool:
    if not path.is_dir():
        return path.exists()
    return any(found.is_file() and found.stat().st_size for found in path.rglob("*"))


def _flush_tree(place: Path) -> None:
    for folder, _, names in os.walk(place):
        for name in names:
            handle = os.open(Path(folder) / name, os.O_RDONLY)
            try:
                os.fsync(handle)
            finally:
                os.close(handle)
        flush_folder(Path(folder))
