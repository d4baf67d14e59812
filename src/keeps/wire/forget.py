"""Retiring and erasing what matches."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, ClassVar, Self

from pydantic import Field, model_validator

from keeps.core.scopes import parse_lens
from keeps.wire.base import ScopeSets, WireIn, WireOut, example
from keeps.wire.late import Late

if TYPE_CHECKING:
    from keeps.services import erase
    from keeps.services.erase import Forget, Forgotten
else:
    erase = Late("keeps.services.erase")


class ForgetIn(WireIn):
    """What to forget: words, row ids, or references. `dryRun` only tells; `purge` erases instead of retiring, and then
    words must be exact."""

    model_config = example(query="attribute:person/mara/role", dryRun=True)
    also: ClassVar[Mapping[str, tuple[str, ...]]] = {"lens": ("scope", "scopes")}

    query: str | None = None
    ids: Annotated[tuple[str, ...], Field(max_length=1000)] = ()
    purge: bool = False
    dry_run: bool = False
    lens: ScopeSets = None

    def to_core(self) -> Forget:
        """What this asks to forget. Raises: Invalid for a bad lens."""
        return erase.Forget(
            query=self.query,
            ids=self.ids,
            purge=self.purge,
            dry_run=self.dry_run,
            lens=parse_lens(self.lens),
        )

    @model_validator(mode="after")
    def _something(self) -> ForgetIn:
        if not self.ids and not (self.query or "").strip():
            raise ValueError("query is required, or ids")
        return self


class Match(WireOut):
    """A memory that would go, by its latest value. `text`: on one line, at most 200 characters."""

    id: str
    text: str


class NearMiss(WireOut):
    """What the words come near to but would not remove. `score` 0..1: how much of the words it holds, or how near its
    meaning is, whichever is more."""

    id: str
    text: str
    score: float


class ForgetOut(WireOut):
    """`deleted` counts rows, `memories` what a person would call one thing remembered.

    Of the rows, `released` stay for their other owners. `remaining` memories the words name beyond the limit.
    `ids`, `matches` (the first 20 memories of what the caller may read) and `nearMisses` only when nothing was
    removed yet. `unknownIds`: those of the ids that name nothing that can go; once something was removed by their
    place, `ids[0]`. `degraded`: `vector` when the words equal nothing and their meaning could not be asked.
    """

    deleted: int
    memories: int | None = None
    released: int | None = None
    remaining: int | None = None
    unknown_ids: tuple[str, ...] | None = None
    ids: tuple[str, ...] | None = None
    matches: tuple[Match, ...] | None = None
    near_misses: tuple[NearMiss, ...] | None = None
    degraded: tuple[str, ...] | None = None

    @classmethod
    def of(cls, gone: Forgotten, asked: ForgetIn) -> Self:
        """What is told of a forget. That of a real one may be kept: nothing in it can be a text."""
        unknown = tuple(asked.ids[place] if asked.dry_run else f"ids[{place}]" for place in gone.unknown)
        told = cls(
            deleted=gone.rows,
            memories=gone.memories,
            released=gone.released or None,
            remaining=gone.remaining or None,
            unknown_ids=unknown or None,
            degraded=gone.degraded or None,
        )
        if not asked.dry_run:
            return told
        return told.model_copy(
            update={
                "ids": gone.refs,
                "matches": tuple(Match(id=m.ref, text=m.text) for m in gone.matches),
                "near_misses": tuple(NearMiss(id=m.ref, text=m.text, score=m.score) for m in gone.near_misses),
            }
        )
