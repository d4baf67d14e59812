"""Retiring and erasing what matches."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, ClassVar

from pydantic import Field, model_validator

from keeps.wire.base import ScopeSets, WireIn, WireOut


class ForgetIn(WireIn):
    """What to forget: words, or exact row ids. `dryRun` only tells; `purge` erases instead of retiring."""

    also: ClassVar[Mapping[str, tuple[str, ...]]] = {"lens": ("scope", "scopes")}

    query: str | None = None
    ids: Annotated[tuple[str, ...], Field(max_length=1000)] = ()
    purge: bool = False
    dry_run: bool = False
    lens: ScopeSets = None

    @model_validator(mode="after")
    def _something(self) -> ForgetIn:
        if not self.ids and not (self.query or "").strip():
            raise ValueError("query is required, or ids")
        return self


class NearMiss(WireOut):
    """What the words come near to but would not remove."""

    id: str
    text: str
    score: float


class ForgetOut(WireOut):
    """`deleted` counts rows, `memories` what a person would call one thing remembered."""

    deleted: int
    memories: int | None = None
    near_misses: list[NearMiss] | None = None
    ids: list[str] | None = None
    receipt: str | None = None
