"""Paths of the published interface that this build does not serve: they say so instead of seeming absent."""

from __future__ import annotations

from typing import Final

from fastapi import APIRouter

from keeps.core.errors import NotImplementedYet
from keeps.http.deps import DataCall

_PREFIX: Final = "/api/v1/{context:segment}"
_UNSERVED: Final = (
    "POST /lookup",
    "POST /chat",
    "POST /reflect",
    "POST /elaborate",
    "POST /consolidate",
    "POST /fsck",
    "GET /state",
    "POST /state",
    "GET /profile",
    "GET /audit",
    "GET /traces",
    "GET /traces/stats",
    "GET /traces/{id:segment}",
    "POST /lifecycle/decay",
    "POST /lifecycle/expire",
    "GET /documents",
    "POST /documents",
    "POST /documents/query",
    "POST /documents/recompute-links",
    "GET /documents/keywords",
    "POST /documents/keywords/search",
    "GET /documents/keywords/{id:segment}",
    "GET /documents/{id:segment}",
    "PUT /documents/{id:segment}",
    "DELETE /documents/{id:segment}",
    "GET /documents/{id:segment}/raw",
    "GET /documents/{id:segment}/chunks",
    "GET /documents/{id:segment}/keywords",
    "POST /uncertainty/{id:segment}/resolve",
    "GET /instructions",
    "POST /instructions/{id:segment}/deactivate",
    "GET /providers",
    "POST /scope-grants",
    "POST /sessions/{id:segment}/chat",
)

router = APIRouter()


async def _unserved(call: DataCall) -> None:
    raise NotImplementedYet("this server does not offer that yet: see /docs for what it offers")


for _line in _UNSERVED:
    _method, _, _path = _line.partition(" ")
    router.add_api_route(_PREFIX + _path, _unserved, methods=[_method], include_in_schema=False)
