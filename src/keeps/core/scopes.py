"""Who a record belongs to: paths, patterns over paths, scopes of rows and the lens of a read.

A path names one node of a tree, `org/acme`. A pattern covers one node, `org/acme`, or a node and everything
below it, `org/acme/*`. A row carries a `Scope`, an OR of clauses each an AND of paths; a read may carry a
`Lens`, which keeps rows by involvement and never widens what the caller may see.
"""

from __future__ import annotations

import hashlib
import json
import re
import unicodedata
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Final, NewType, Protocol, TypeVar, cast
from urllib.parse import unquote

from keeps.core.errors import Invalid
from keeps.core.text import refuse_mark_runs, refuse_unseen

ScopePath = NewType("ScopePath", str)
"""A checked path without leading or trailing slash; the root is `/`."""

ROOT: Final = ScopePath("/")

MAX_PATH_BYTES: Final = 512
MAX_SEGMENTS: Final = 16
MAX_CLAUSES: Final = 32
MAX_PATHS_IN_CLAUSE: Final = 8

_STRICT_SEGMENT: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._~-]{0,63}")
_STRICT_TOP: Final = "user"
_RESERVED_SEGMENTS: Final = frozenset({"", ".", ".."})

_T = TypeVar("_T")


class Covering(Protocol):
    """Anything that can say whether it covers a node: a region of grants."""

    def covers(self, path: ScopePath, /) -> bool: ...


@dataclass(frozen=True, slots=True, order=True)
class Pattern:
    """One node, or with `subtree` the node and all below it."""

    path: ScopePath
    subtree: bool = False

    def __str__(self) -> str:
        if not self.subtree:
            return self.path
        return "/*" if self.path == ROOT else f"{self.path}/*"

    def covers(self, path: ScopePath) -> bool:
        """True when `path` is the node, or below it for a subtree. Compared by whole segments."""
        return path == self.path or (self.subtree and is_below(path, self.path))

    def covers_pattern(self, other: Pattern) -> bool:
        """True when everything `other` covers is covered here."""
        if other.subtree and not self.subtree:
            return False
        return self.covers(other.path)


EVERYTHING: Final = Pattern(ROOT, subtree=True)


def is_below(path: ScopePath, ancestor: ScopePath) -> bool:
    """True when `path` lies strictly below `ancestor`."""
    return path != ROOT and (ancestor == ROOT or path.startswith(f"{ancestor}/"))


def ancestors(path: ScopePath) -> tuple[ScopePath, ...]:
    """The nodes above `path`, nearest last, without the root: `a/b/c` gives `a`, `a/b`."""
    if path == ROOT:
        return ()
    parts = path.split("/")
    return tuple(ScopePath("/".join(parts[:end])) for end in range(1, len(parts)))


def wire_path(path: ScopePath) -> str:
    """The spelling sent to clients: `org/acme/`; the root is `/`."""
    return path if path == ROOT else f"{path}/"


def parse_path(value: object) -> ScopePath:
    """A checked path; one leading and one trailing slash are tolerated, `/` is the root.

    Percent signs are kept as they are: nothing is decoded, but a path that would hide a reserved segment
    behind one decoding is refused. Raises: Invalid.
    """
    text = _checked_text(value)
    if text == ROOT:
        return ROOT
    return _path_of(text)


def parse_pattern(value: object) -> Pattern:
    """A checked pattern: a path, or a path ending in `/*`; `*` and `/*` cover everything. Raises: Invalid."""
    text = _checked_text(value)
    if text in {"*", "/*"}:
        return EVERYTHING
    if text == ROOT:
        return Pattern(ROOT)
    if text.endswith("/*"):
        return Pattern(_path_of(text[:-2]), subtree=True)
    return Pattern(_path_of(text))


def _bad(why: str) -> Invalid:
    return Invalid(f"bad scope: {why}")


def _checked_text(value: object) -> str:
    if not isinstance(value, str):
        raise _bad("a path is a string such as org/acme")
    if len(value) > MAX_PATH_BYTES:
        raise _bad(f"at most {MAX_PATH_BYTES} bytes are allowed")
    # Covers NUL, other controls, lone surrogates, unassigned and invisible format characters.
    if not value.isprintable():
        raise _bad("only printable characters are allowed")
    refuse_mark_runs(value, what="a scope")
    refuse_unseen(value, what="a scope")
    text = unicodedata.normalize("NFC", value)
    if len(text.encode()) > MAX_PATH_BYTES:
        raise _bad(f"at most {MAX_PATH_BYTES} bytes are allowed")
    return text


def _path_of(text: str) -> ScopePath:
    segments = text.removeprefix("/").removesuffix("/").split("/")
    if len(segments) > MAX_SEGMENTS:
        raise _bad(f"at most {MAX_SEGMENTS} segments are allowed")
    decoded = unquote("/".join(segments), errors="replace").replace("\\", "/").split("/")
    for segment in (*segments, *decoded):
        if segment.strip() in _RESERVED_SEGMENTS:
            raise _bad("empty, '.' and '..' segments are not allowed, percent-encoded or not")
    for segment in segments:
        if "*" in segment:
            raise _bad("'*' is allowed only as the whole last segment of a pattern")
        if segment != segment.strip():
            raise _bad("a segment must not begin or end with a space")
    if segments[0] == _STRICT_TOP and not all(map(_STRICT_SEGMENT.fullmatch, segments)):
        raise _bad(
            "below user/ a segment is 1 to 64 of the letters A-Z a-z, digits and . _ ~ -, "
            "beginning with a letter or digit"
        )
    return ScopePath("/".join(segments))


@lru_cache(maxsize=4096)
def _id_of(clauses: frozenset[frozenset[ScopePath]]) -> str:
    """See `Scope.id`. Kept, because every row written or read asks for it."""
    text = json.dumps(sorted(sorted(clause) for clause in clauses), ensure_ascii=True, separators=(",", ":"))
    return hashlib.sha256(text.encode("ascii")).hexdigest()[:32]


@dataclass(frozen=True, slots=True)
class Scope:
    """Who a record belongs to: an OR of clauses, each an AND of paths. Without clauses it takes the root."""

    clauses: frozenset[frozenset[ScopePath]] = frozenset()

    def visible_clauses(self, region: Covering) -> frozenset[frozenset[ScopePath]]:
        """The clauses lying wholly inside `region`; an empty clause is in none."""
        return frozenset(clause for clause in self._effective() if clause and all(map(region.covers, clause)))

    def visible_to(self, region: Covering) -> bool:
        """True when one clause lies wholly inside `region`."""
        return any(clause and all(map(region.covers, clause)) for clause in self._effective())

    def seen_by(self, region: Covering) -> Scope:
        """This scope with the clauses a reader holds alone: who else owns a row is not theirs to know."""
        return Scope(self.visible_clauses(region) if self.clauses else self.clauses)

    def within(self, region: Covering) -> bool:
        """True when every clause lies wholly inside `region`: what a writer must hold."""
        return all(clause and all(map(region.covers, clause)) for clause in self._effective())

    @property
    def id(self) -> str:
        """A hash of all clauses, 32 hex digits: equal exactly when the scopes are equal."""
        return _id_of(self.clauses)

    def nodes(self) -> frozenset[ScopePath]:
        """Every path named in some clause."""
        return frozenset(path for clause in self.clauses for path in clause)

    def to_wire(self) -> list[list[str]]:
        """Sorted clauses of sorted paths in the spelling sent to clients."""
        return [[wire_path(ScopePath(path)) for path in clause] for clause in self._sorted()]

    def to_lists(self) -> list[list[str]]:
        """Sorted clauses of sorted paths as they are stored; `from_lists` reads them back."""
        return self._sorted()

    @classmethod
    def from_lists(cls, clauses: Sequence[Sequence[str]]) -> Scope:
        """The scope that `to_lists` wrote; nothing is checked again."""
        return cls(frozenset(frozenset(map(ScopePath, clause)) for clause in clauses))

    def touches(self, pattern: Pattern) -> bool:
        """True when some clause names a node that `pattern` covers."""
        return any(pattern.covers(path) for clause in self._effective() for path in clause)

    def without(self, pattern: Pattern) -> Scope | None:
        """What is left for co-owners when every clause that `pattern` touches goes; None when nothing is."""
        kept = frozenset(clause for clause in self._effective() if clause and not any(map(pattern.covers, clause)))
        if not kept:
            return None
        return self if not self.clauses else Scope(kept)

    def _effective(self) -> frozenset[frozenset[ScopePath]]:
        return self.clauses or _UNSCOPED

    def _sorted(self) -> list[list[str]]:
        return sorted(sorted(clause) for clause in self.clauses)


_UNSCOPED: Final = frozenset({frozenset({ROOT})})


def parse_scopes(value: object) -> Scope | None:
    """A scope from a path, a flat list (OR), or a list of lists (OR of AND), mixed as you like.

    None and an empty list mean unset and give None. At most 32 clauses of 8 paths. Raises: Invalid, also
    for an empty clause.
    """
    clauses = _parse_clauses(value, parse_path)
    if not clauses:
        return None
    if not all(clauses):
        raise _bad("an empty clause belongs to nobody: name at least one path in each clause")
    return Scope(frozenset(clauses))


@dataclass(frozen=True, slots=True)
class Lens:
    """A filter by involvement: an OR of clauses, each an AND of patterns. Without clauses it keeps all."""

    clauses: tuple[frozenset[Pattern], ...] = ()

    def __bool__(self) -> bool:
        return bool(self.clauses)

    def keeps(self, scope: Scope, region: Covering) -> bool:
        """True when a clause of `scope` visible in `region` involves all patterns of one lens clause.

        An empty lens clause keeps nothing. A row that is not visible is never kept.
        """
        visible = scope.visible_clauses(region)
        if not self.clauses:
            return bool(visible)
        return any(
            wanted and all(any(map(pattern.covers, clause)) for pattern in wanted)
            for wanted in self.clauses
            for clause in visible
        )

    def to_wire(self) -> list[list[str]]:
        """Clauses of pattern strings, each sorted."""
        return [sorted(map(str, clause)) for clause in self.clauses]


def parse_lens(value: object) -> Lens:
    """A lens from the same forms as a scope, with patterns; None and an empty list give the unset lens.

    Raises: Invalid.
    """
    return Lens(tuple(dict.fromkeys(_parse_clauses(value, parse_pattern))))


def _parse_clauses(value: object, parse: Callable[[object], _T]) -> list[frozenset[_T]]:
    if value is None:
        return []
    if isinstance(value, str):
        return [frozenset({parse(value)})]
    if not isinstance(value, list | tuple):
        raise _bad("give a path, a list of paths, or a list of lists of paths")
    entries = cast("Sequence[object]", value)
    if len(entries) > MAX_CLAUSES:
        raise _bad(f"at most {MAX_CLAUSES} clauses are allowed")
    return [_parse_clause(entry, parse) for entry in entries]


def _parse_clause(entry: object, parse: Callable[[object], _T]) -> frozenset[_T]:
    if not isinstance(entry, list | tuple):
        return frozenset({parse(entry)})
    paths = cast("Sequence[object]", entry)
    if len(paths) > MAX_PATHS_IN_CLAUSE:
        raise _bad(f"at most {MAX_PATHS_IN_CLAUSE} paths are allowed in one clause")
    return frozenset(map(parse, paths))
