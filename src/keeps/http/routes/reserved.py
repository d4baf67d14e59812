"""Paths of the published interface that this build does not serve: they say so instead of seeming absent."""

from __future__ import annotations

from typing import Final

from fastapi import APIRouter

from keeps.core.errors import NotImplementedYet
from keeps.http.deps import AdminCall, DataCall

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

_UNSERVED_MANAGEMENT: Final = (
    "GET /migrations",
    "POST /contexts/{id:segment}/lifecycle/decay",
    "POST /contexts/{id:segment}/lifecycle/reindex",
    "GET /contexts/{id:segment}/jobs/{job:segment}",
    "PUT /contexts/{id:segment}/scopes/{path:segment}/policy",
)

router = APIRouter()
management = APIRouter(prefix="/api/v1")


async def _unserved(call: DataCall) -> None:
    raise _not_yet()


async def _unserved_management(call: AdminCall) -> None:
    raise _not_yet()


def _not_yet() -> NotImplementedYet:
    return NotImplementedYet("this server does not offer that yet: see /docs for what it offers")


for _line in _UNSERVED:
    _method, _, _path = _line.partition(" ")
    router.add_api_route(_PREFIX + _path, _unserved, methods=[_method], include_in_schema=False)

for _line in _UNSERVED_MANAGEMENT:
    _method, _, _path = _line.partition(" ")
    management.add_api_route(_path, _unserved_management, methods=[_method], include_in_schema=False)
