"""What the owner of a data folder does for other processes of the same user; only the folder's token opens it."""

from __future__ import annotations

import hmac
from pathlib import Path
from typing import Annotated, Final

from fastapi import APIRouter, Depends, Request
from starlette.responses import Response

from keeps.core.errors import Unauthenticated
from keeps.http.body import JsonBody
from keeps.http.deps import bearer, reply
from keeps.services import archive
from keeps.services.runtime import Runtime
from keeps.wire.local import BackupIn, BackupOut

BACKUP_PATH: Final = "/local/backup"


def router(token: str) -> APIRouter:
    """The routes, opened by `token`, which stands in a file that only this user can read."""

    def opened(request: Request) -> None:
        if not hmac.compare_digest((bearer(request) or "").encode(), token.encode()):
            raise Unauthenticated("this is for processes of the user who runs the server")

    routes = APIRouter(dependencies=[Depends(opened)], include_in_schema=False)

    @routes.post(BACKUP_PATH)
    async def _backup(request: Request, body: Annotated[BackupIn, Depends(JsonBody(BackupIn))]) -> Response:
        rt: Runtime = request.app.state.rt
        return reply(BackupOut.of(await archive.backup(rt, Path(body.file), force=body.force)))

    return routes
