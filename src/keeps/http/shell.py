"""The application without its routes: the layer every request passes first, one form for all failures."""

from __future__ import annotations

import logging
import re
from collections.abc import Iterable
from dataclasses import dataclass
from ipaddress import ip_address
from typing import Final

from fastapi import FastAPI
from starlette.datastructures import MutableHeaders
from starlette.middleware.cors import CORSMiddleware
from starlette.requests import ClientDisconnect
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from keeps.core.errors import Invalid, Unavailable
from keeps.http import docs, errors
from keeps.http.body import CLOSES, MAX_BODY_BYTES
from keeps.http.errors import TRACE_HEADER, error_response, internal_error, request_id
from keeps.http.rawpath import RawPath
from keeps.http.slots import Slot, Slots
from keeps.services import request_ids

PENDING_HEADER: Final = "X-Keeps-Pending"
SETTINGS_HEADER: Final = "X-Keeps-Settings-Version"
"""On every reply of a context: the version of the settings it was made under."""
SETTINGS_VERSION: Final = "settings_version"
"""In the state of a request: that version."""
MEMORY_HEADER: Final = "X-Keeps-Memory"
"""`off` on every reply to somebody for whom memory is switched off: it looks as if nothing were remembered."""
MEMORY_OFF: Final = "memory_off"
"""In the state of a request: that it is."""
LOOPBACK_NAMES: Final = frozenset({"localhost", "127.0.0.1", "::1"})
_EXPOSED: Final = (
    TRACE_HEADER,
    "Retry-After",
    "Idempotency-Replayed",
    "ETag",
    PENDING_HEADER,
    SETTINGS_HEADER,
    MEMORY_HEADER,
)
_METHODS: Final = ("GET", "POST", "PUT", "PATCH", "DELETE")
_MAX_VERSION_CHARS: Final = 64
MAX_HEAD_BYTES: Final = 64 * 1024
"""The most the headers of a request may take, in bytes."""

HEALTH_PATH: Final = "/api/v1/health"
_PART_OF_ANOTHER: Final = "part_of_another"
"""In the state of a request: it is asked by one that is being served, and takes no place of its own."""

_HOST: Final = re.compile(r"(?:\[(?P<v6>[0-9a-f:.]+)\]|(?P<name>[a-z0-9._-]+))(?::[0-9]*)?")


@dataclass(frozen=True, slots=True, kw_only=True)
class ShellSettings:
    """How the server faces the network.

    `allowed_hosts` None accepts any Host header; a server on a loopback address names only itself, so that a
    web page cannot reach it through a name of its own. `max_in_flight` requests run at once, more get 503; requests
    whose body is awaited and the question whether the server is up do not count.
    """

    allowed_hosts: frozenset[str] | None = LOOPBACK_NAMES
    cors_origins: tuple[str, ...] = ()
    max_in_flight: int = 256
    max_body_bytes: int = MAX_BODY_BYTES
    legacy_list_user_agents: tuple[str, ...] = ("surrealdb-py-spectron/", "surrealdb-spectron-js/")
    legacy_lists: bool = False
    """Whether clients that say nothing about it get lists as bare arrays."""


def hosts_for(address: str, extra: Iterable[str] = ()) -> frozenset[str] | None:
    """The Host names a server bound to `address` answers to; None, any, unless it is a loopback address."""
    try:
        loopback = address == "localhost" or ip_address(address).is_loopback
    except ValueError:
        loopback = False
    return LOOPBACK_NAMES | {address.lower(), *extra} if loopback else None


def new_app(settings: ShellSettings) -> FastAPI:
    """An application without routes but `/openapi.json` and `/docs`."""
    app = FastAPI(
        title="keeps",
        summary="Agent memory that people can see, correct and erase.",
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,
        separate_input_output_schemas=False,
        # Paths hold names of people: nothing of a request leaves because a variable of the environment says so.
        telemetry={"tracing": False, "metrics": False, "logs": False, "auto_configure": False},
    )
    app.state.settings = settings
    errors.install(app)
    docs.install(app)
    # Added last is outermost: the edge sees every request first, the raw path is settled just before routing.
    app.add_middleware(RawPath)
    if settings.cors_origins:
        app.add_middleware(
            CORSMiddleware,
            allow_origins=settings.cors_origins,
            allow_methods=_METHODS,
            allow_headers=["*"],
            expose_headers=_EXPOSED,
        )
    app.add_middleware(Edge, settings=settings)
    return app


class Edge:
    """ASGI middleware: each request is answered once and has a name; strangers and floods stay out."""

    def __init__(self, app: ASGIApp, settings: ShellSettings) -> None:
        self.app = app
        self._settings = settings
        self._slots = Slots(settings.max_in_flight)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        state = scope.setdefault("state", {})
        reply = _Reply(scope, send)
        slot: Slot | None = None
        try:
            self._check(scope, state)
            if not _asks_for_health(scope) and not state.get(_PART_OF_ANOTHER):
                slot = Slot(self._slots, scope, receive)
        except (Invalid, Unavailable) as refusal:
            await error_response(refusal, scope)(scope, receive, reply)
            return
        try:
            with request_ids.serving(_name_of(scope, state)):
                await self.app(scope, receive if slot is None else slot.receive, reply)
        except ClientDisconnect:
            _log.info("request %s: the client left", request_id(scope))
        except Exception as error:  # noqa: BLE001 - the edge: a fault of ours must still be answered
            response = internal_error(error, scope)
            if not reply.started:
                await response(scope, receive, reply)
        finally:
            if slot is not None:
                slot.close()

    def _check(self, scope: Scope, state: dict[str, object]) -> None:
        """Raises: Invalid for headers that are too long, and a host that is not served here."""
        if sum(len(name) + len(value) for name, value in scope["headers"]) > MAX_HEAD_BYTES:
            state[CLOSES] = True
            raise Invalid(f"the headers of a request may take at most {MAX_HEAD_BYTES} bytes")
        allowed = self._settings.allowed_hosts
        if allowed is not None and host_name(scope) not in allowed:
            raise Invalid("this Host is not served here: use localhost, or start the server for another name")


def asked_from_inside(app: ASGIApp) -> ASGIApp:
    """`app` as one of its own requests may ask it: nested requests take no places, which could then all be taken
    by requests that wait for one."""

    async def inner(scope: Scope, receive: Receive, send: Send) -> None:
        scope.setdefault("state", {})[_PART_OF_ANOTHER] = True
        await app(scope, receive, send)

    return inner


def _name_of(scope: Scope, state: dict[str, object]) -> str:
    """The id that what this request does is written down under: that of the request which the caller made."""
    outer = request_ids.current() if state.get(_PART_OF_ANOTHER) else None
    return outer or request_id(scope)


def _asks_for_health(scope: Scope) -> bool:
    return scope["method"] == "GET" and scope["path"] == HEALTH_PATH


_log = logging.getLogger(__name__)


def host_name(scope: Scope) -> str | None:
    """The name in the Host header, lower case, without port or brackets; None unless one header holds just that."""
    hosts = [value for name, value in scope["headers"] if name == b"host"]
    if len(hosts) != 1:
        return None
    match = _HOST.fullmatch(hosts[0].decode("latin-1").lower())
    return (match["v6"] or match["name"]) if match else None


class _Reply:
    """Sends on, with the headers every reply carries; remembers whether the reply has begun."""

    def __init__(self, scope: Scope, send: Send) -> None:
        self.started = False
        self._scope = scope
        self._send = send

    async def __call__(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.started = True
            headers = MutableHeaders(raw=message.setdefault("headers", []))
            headers[TRACE_HEADER] = self._scope["state"].get("trace_id") or request_id(self._scope)
            if (settings := self._scope["state"].get(SETTINGS_VERSION)) is not None:
                headers[SETTINGS_HEADER] = str(settings)
            if self._scope["state"].get(MEMORY_OFF):
                headers[MEMORY_HEADER] = "off"
            if self._scope["state"].get(CLOSES):
                headers["Connection"] = "close"
            headers.setdefault("X-Content-Type-Options", "nosniff")
            headers.setdefault("Cache-Control", "no-store")
            version = next((value for name, value in self._scope["headers"] if name == b"api-version"), None)
            if version is not None and len(version) <= _MAX_VERSION_CHARS and version.isalnum():
                headers["api-version"] = version.decode("ascii")
        await self._send(message)
