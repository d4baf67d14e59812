"""Every failure leaves as the same body: known errors with their message, others with a request id only."""

from __future__ import annotations

import json
import logging
import secrets
from typing import Any, Final

from fastapi import FastAPI
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from keeps.core.errors import Invalid, KeepsError, NotFound, StoreRefused
from keeps.wire.problems import INTERNAL, METHOD_NOT_ALLOWED, PROBLEMS, Problem, body_of, problem_of

TRACE_HEADER: Final = "X-Trace-Id"
_RETRY_AFTER_S: Final = {429: 60, 503: 1}
"""When to come back if the error itself does not say, seconds by status."""
_MEDIA_TYPE: Final = "application/problem+json"
_log = logging.getLogger(__name__)


def request_id(scope: Scope) -> str:
    """The id of this request, made on first use: 16 hex digits."""
    state: dict[str, Any] = scope.setdefault("state", {})
    if "request_id" not in state:
        state["request_id"] = secrets.token_hex(8)
    return str(state["request_id"])


def problem_response(problem: Problem, message: str, scope: Scope, *, retry_after_s: int | None = None) -> Response:
    """The reply for `problem` to the request of `scope`."""
    raw = scope.get("raw_path")
    instance = raw.partition(b"?")[0].decode("ascii", "replace") if isinstance(raw, bytes) else scope["path"]
    body = body_of(problem, message, instance=instance, retry_after_s=retry_after_s)
    headers = {} if retry_after_s is None else {"Retry-After": str(max(1, retry_after_s))}
    if problem.status == 401:
        headers["WWW-Authenticate"] = "Bearer"
    return Response(json.dumps(body), problem.status, headers, _MEDIA_TYPE)


def error_response(error: KeepsError, scope: Scope) -> Response:
    """The reply for a known error."""
    problem = problem_of(error)
    if problem is INTERNAL:
        return internal_error(error, scope)
    retry_after_s = error.retry_after_s
    # What was refused stays so until a person has seen to it: waiting does not help.
    if retry_after_s is None and not isinstance(error, StoreRefused):
        retry_after_s = _RETRY_AFTER_S.get(problem.status)
    return problem_response(problem, error.message, scope, retry_after_s=retry_after_s)


def internal_error(error: BaseException, scope: Scope) -> Response:
    """The reply for a fault of ours: it names the request, the log names the kind of fault and where."""
    identifier = request_id(scope)
    _log.error("request %s failed: %s at %s", identifier, type(error).__name__, _where(error))
    return problem_response(INTERNAL, f"internal error, request {identifier}", scope)


def _where(error: BaseException) -> str:
    """File and line of the innermost frame: the message itself might hold what a caller sent."""
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    if trace is None:
        return "an unknown place"
    return f"{trace.tb_frame.f_code.co_filename}:{trace.tb_lineno}"


async def send_error(error: KeepsError, scope: Scope, receive: Receive, send: Send) -> None:
    """Answers a request with `error` from middleware, before any route is looked for."""
    await error_response(error, scope)(scope, receive, send)


def install(app: FastAPI) -> None:
    """Makes `app` answer every failure with the one body."""

    async def known(request: Request, error: Exception) -> Response:
        assert isinstance(error, KeepsError)
        return error_response(error, request.scope)

    async def malformed(request: Request, error: Exception) -> Response:
        return error_response(Invalid(_fault(error)), request.scope)

    async def unrouted(request: Request, error: Exception) -> Response:
        assert isinstance(error, HTTPException)
        response = _unrouted(error, request.scope)
        for name, value in (error.headers or {}).items():
            response.headers[name] = value
        return response

    app.add_exception_handler(KeepsError, known)
    app.add_exception_handler(RequestValidationError, malformed)
    app.add_exception_handler(HTTPException, unrouted)


def _unrouted(error: HTTPException, scope: Scope) -> Response:
    if error.status_code == 404:
        return problem_response(PROBLEMS[NotFound], "no such path", scope)
    if error.status_code == 405:
        return problem_response(METHOD_NOT_ALLOWED, f"{scope['method']} is not offered here", scope)
    problem = next((kind for kind in PROBLEMS.values() if kind.status == error.status_code), INTERNAL)
    return problem_response(problem, problem.title, scope)


def _fault(error: Exception) -> str:
    if not isinstance(error, RequestValidationError):
        return "the request is malformed"
    fault = error.errors()[0]
    where = str(fault["loc"][-1])
    return (
        f"{where} is required"
        if fault["type"] == "missing"
        else f"{where}: {fault['msg'].removeprefix('Value error, ')}"
    )
