"""Secrets that lie in the data folder, outside the database, readable by their owner alone."""

from __future__ import annotations

import json
import os
import secrets
from collections.abc import Mapping
from pathlib import Path
from typing import Final, cast

from keeps.store.owner import unusable

PEPPER_NAME: Final = "pepper"
KEYS_NAME: Final = "keys.json"
_PEPPER_BYTES: Final = 32


def pepper(folder: Path) -> bytes:
    """The secret that keys every stored hash, made when missing. Raises: StoreRefused."""
    path = folder / PEPPER_NAME
    try:
        if not path.exists():
            write_private(path, secrets.token_bytes(_PEPPER_BYTES))
        return path.read_bytes()
    except OSError as error:
        raise unusable(folder, error) from error


def saved_keys(folder: Path, context: str) -> Mapping[str, str]:
    """The keys kept for commands run beside the folder: `owner` and `agent`; empty when there are none."""
    return _read(folder).get(context, {})


def all_saved_keys(folder: Path) -> Mapping[str, Mapping[str, str]]:
    """The keys kept for every context, by its id. Raises: OSError, ValueError when the file cannot be read."""
    return _read(folder)


def save_keys(folder: Path, context: str, keys: Mapping[str, str]) -> None:
    """Keep the keys of a context; an empty mapping removes them."""
    kept = _read(folder) | {context: dict(keys)}
    if not keys:
        kept.pop(context)
    write_private(folder / KEYS_NAME, json.dumps(kept, indent=1).encode())


def write_private(path: Path, content: bytes) -> None:
    """Write a file whole, readable by its owner alone, and flush it."""
    fresh = path.with_name(f".{path.name}.{os.getpid()}")
    with os.fdopen(os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    fresh.replace(path)


def _read(folder: Path) -> dict[str, dict[str, str]]:
    try:
        return cast("dict[str, dict[str, str]]", json.loads((folder / KEYS_NAME).read_bytes()))
    except FileNotFoundError:
        return {}
