"""Whether the server answers; no key needed."""

from __future__ import annotations

from importlib.metadata import version

from fastapi import APIRouter
from starlette.responses import Response

from keeps.http.deps import reply
from keeps.wire.health import HealthOut

router = APIRouter(tags=["health"])
_UP = HealthOut(status="ok", version=version("keeps"))


@router.get("/api/v1/health", response_model=HealthOut)
async def health() -> Response:
    """Answers as soon as requests are served."""
    return reply(_UP)
