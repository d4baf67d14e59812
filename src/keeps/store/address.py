"""Where a store is: its address, and the names of its databases."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final, Literal

from keeps.core.errors import Invalid

NAMESPACE: Final = "keeps"

_NAME: Final = re.compile(r"[a-z][a-z0-9_-]{0,127}")


def checked_name(name: str) -> str:
    """`name` when it can name a namespace or database (`a-z`, `0-9`, `_`, `-`; a letter first; at most 128).

    Lower case only: it is also a folder, and some file systems do not tell cases apart.
    """
    if not _NAME.fullmatch(name):
        raise Invalid("A database name starts with a letter and holds only a-z, 0-9, _ and -.")
    return name


@dataclass(frozen=True, slots=True)
class StoreUrl:
    """Where a store is: `mem://`, `surrealkv:///absolute/folder`, or `ws://host[:port]`, `wss://host[:port]`.

    The engine ignores what it does not understand without a word, so it is refused here.
    """

    scheme: Literal["mem", "surrealkv", "ws", "wss"]
    rest: str = ""
    sync: str | None = None
    """When commits reach the disk: `every` (the default), `never`, or at most `500ms`, `5s` … apart."""

    @property
    def in_memory(self) -> bool:
        return self.scheme == "mem"

    @property
    def remote(self) -> bool:
        return self.scheme in ("ws", "wss")

    def with_sync(self, sync: str | None) -> StoreUrl:
        return replace(self, sync=sync)

    def within(self, name: str) -> StoreUrl:
        """The place of one database of this store."""
        return replace(self, rest=f"{self.rest.rstrip('/')}/{name}")

    def __str__(self) -> str:
        return f"{self.scheme}://{self.rest}" + (f"?sync={self.sync}" if self.sync else "")


def parse_store_url(text: str) -> StoreUrl:
    """The place `text` names. Raises `Invalid` for anything the engine would misread."""
    scheme, separator, rest = text.partition("://")
    if not separator or scheme not in ("mem", "surrealkv", "ws", "wss"):
        raise Invalid("A store is mem://, surrealkv:///absolute/folder, ws://host or wss://host.")
    if scheme == "mem":
        if rest:
            raise Invalid("mem:// takes no path: nothing would be kept there. Use surrealkv:///absolute/folder.")
        return StoreUrl("mem")
    place, _, query = rest.partition("?")
    if scheme == "surrealkv":
        return StoreUrl("surrealkv", _checked_folder(place), _checked_sync(query) if "?" in rest else None)
    if "?" in rest or "#" in rest or "@" in rest or not place.rstrip("/"):
        raise Invalid("A server's address is ws://host[:port] or wss://host[:port]; user and password go elsewhere.")
    return StoreUrl("wss" if scheme == "wss" else "ws", place.rstrip("/"))


def folder_url(folder: Path, *, sync: str | None = None) -> StoreUrl:
    """The store in `folder`, made absolute."""
    return StoreUrl("surrealkv", _checked_folder(str(folder.absolute())), sync)


def _checked_folder(folder: str) -> str:
    if not folder.startswith("/"):
        raise Invalid("The folder of a store must be absolute: surrealkv:///absolute/folder.")
    if "?" in folder or "\0" in folder:
        raise Invalid("The folder of a store cannot have a question mark in its name.")
    return folder


def _checked_sync(query: str) -> str:
    key, _, value = query.partition("=")
    if key != "sync" or not re.fullmatch(r"every|never|[1-9][0-9]{0,5}(ms|s|m)", value):
        raise Invalid(
            "A folder's name cannot hold a question mark; behind it only ?sync=every, ?sync=never or a time as in "
            "?sync=5s is understood."
        )
    return value
