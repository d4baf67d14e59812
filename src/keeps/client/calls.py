"""One call to the service: how it is written, sent, repeated when that is safe, and read."""

from __future__ import annotations

import asyncio
import inspect
import json
from collections.abc import Awaitable, Callable, Mapping, Sequence, Set
from dataclasses import dataclass
from datetime import datetime
from importlib.metadata import version
from ipaddress import ip_address
from typing import Any, Final
from urllib.parse import quote

import httpx

from keeps.config import DEFAULT_HOST, DEFAULT_PORT
from keeps.core.errors import Invalid, KeepsError, Unavailable
from keeps.core.instants import parse_instant
from keeps.wire.problems import error_of

DEFAULT_ENDPOINT: Final = f"http://{DEFAULT_HOST}:{DEFAULT_PORT}"
CONNECT_TIMEOUT_S: Final = 5.0
PAUSES_S: Final = (0.25, 0.5, 1.0)
"""Waits before a call that may be repeated is sent again."""

MAX_PATIENCE_S: Final = 5
"""A server that asks for a longer pause gets no second try."""

PENDING_HEADER: Final = "X-Keeps-Pending"
HEARD_S: Final = 5.0
"""How long a reply waits for whoever is told what waits, seconds."""

OnPending = Callable[[int], Awaitable[None] | None]
"""Who is told how many proposals a write left for a person to decide on."""

_MAX_PORT: Final = 65535
_DELEGATE: Final = "X-Memory-On-Behalf-Of"


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """One request below the root of a context, or below `/api/v1` when `rooted`.

    `repeatable`: sending it twice does what sending it once does. `revision`: the one of what is changed that was read.
    """

    method: str
    path: str
    body: Mapping[str, object] | None = None
    params: Mapping[str, object] | None = None
    idempotency_key: str | None = None
    rooted: bool = False
    repeatable: bool = False
    revision: int | None = None
    nulls: bool = False
    """A member without a value says something, and is sent."""

    def content(self) -> bytes | None:
        """The JSON body, None without one. Raises: Invalid for what JSON or the service cannot hold."""
        if self.body is None:
            return None
        given = {name: value for name, value in self.body.items() if value is not None or self.nulls}
        try:
            return json.dumps(given, ensure_ascii=False, allow_nan=False, default=_plain).encode()
        except UnicodeEncodeError:
            raise Invalid("the text holds half a character (a lone surrogate): decode it properly first") from None
        except ValueError:
            raise Invalid("a number is infinite or not a number: JSON has no such value") from None

    def query(self) -> dict[str, str]:
        """The query parameters, those without a value left out."""
        return {name: _text(value) for name, value in (self.params or {}).items() if value is not None}


def path_of(*segments: str) -> str:
    """A path of segments, each escaped whole: a slash in a name stays inside its segment."""
    return "".join(f"/{_escaped(segment)}" for segment in segments)


def _escaped(segment: str) -> str:
    if not segment:
        raise Invalid("a name in the path is empty")
    try:
        text = quote(segment, safe="")
    except UnicodeEncodeError:
        raise Invalid("a name holds half a character (a lone surrogate): decode it properly first") from None
    # A path segment of dots means a folder: written out, it stays a name.
    return text.replace(".", "%2E") if set(segment) == {"."} else text


def _plain(value: object) -> object:
    if isinstance(value, datetime):
        return parse_instant(value).isoformat()
    if isinstance(value, (Set, Sequence)):
        return list(value)  # pyright: ignore[reportUnknownArgumentType, reportUnknownVariableType]
    if isinstance(value, Mapping):
        return dict(value)  # pyright: ignore[reportUnknownArgumentType, reportUnknownVariableType]
    raise Invalid(f"a {type(value).__name__} cannot be sent: give text, numbers, lists or mappings")


def _text(value: object) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, datetime):
        return parse_instant(value).isoformat()
    return str(value)


def http_client(
    endpoint: str,
    *,
    key: str | None,
    on_behalf_of: str | None = None,
    timeout_s: float = 30.0,
    transport: httpx.AsyncBaseTransport | None = None,
    direct: bool = False,
) -> httpx.AsyncClient:
    """An HTTP client for one service and one key. A service on this machine is never reached through a proxy, nor
    is any when `direct`."""
    url = _checked(endpoint)
    headers = {"User-Agent": f"keeps/{version('keeps')}", "X-List-Envelope": "object", "Accept": "application/json"}
    if key is not None:
        headers["Authorization"] = f"Bearer {_header(key, 'a key')}"
    if on_behalf_of is not None:
        headers[_DELEGATE] = _header(on_behalf_of, "the id of a principal")
    return httpx.AsyncClient(
        base_url=endpoint,
        headers=headers,
        timeout=httpx.Timeout(timeout_s, connect=min(CONNECT_TIMEOUT_S, timeout_s)),
        transport=transport,
        trust_env=not direct and not _is_loopback(url.host),
    )


def _checked(endpoint: str) -> httpx.URL:
    try:
        url = httpx.URL(endpoint)
    except httpx.InvalidURL:
        url = httpx.URL()
    if url.scheme not in {"http", "https"} or not url.host or (url.port or 0) > _MAX_PORT:
        raise Invalid("an endpoint is written as http://127.0.0.1:9090")
    return url


def _header(value: str, what: str) -> str:
    """A value fit for a header; it is not repeated in the message, for it may be a secret."""
    if not value or not value.isascii() or not value.isprintable():
        raise Invalid(f"{what} is printable ASCII: it was not copied whole")
    return value


def _is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False


async def send(http: httpx.AsyncClient, context: str, call: Call) -> httpx.Response:
    """The reply to one try, whatever its status. Raises: Invalid; httpx.TransportError when none came."""
    root = "/api/v1" if call.rooted else f"/api/v1{path_of(context)}"
    content = call.content()
    headers: dict[str, str] = {}
    if content is not None:
        headers["Content-Type"] = "application/json"
    if call.idempotency_key is not None:
        headers["Idempotency-Key"] = _header(call.idempotency_key, "an idempotency key")
    if call.revision is not None:
        headers["If-Match"] = f'"{call.revision}"'
    return await http.request(call.method, root + call.path, content=content, params=call.query(), headers=headers)


async def answer(http: httpx.AsyncClient, context: str, call: Call, *, on_pending: OnPending | None = None) -> Any:
    """The JSON of the reply, None for an empty one; sent again while that is safe and may help.

    `on_pending` is told before the reply is given when it says that something waits.

    Raises: the error the service answered with; Unavailable when no answer came. httpx.ConnectError passes
    through: nothing was sent.
    """
    pauses = list(PAUSES_S) if call.repeatable else []
    while True:
        try:
            reply = await send(http, context, call)
            found = read(reply)
            waiting = reply.headers.get(PENDING_HEADER, "")
            if on_pending is not None and waiting.isdecimal() and len(waiting) < 9:
                await _tell(on_pending, int(waiting))
            return found
        except httpx.ConnectError:
            raise
        except httpx.TransportError as error:
            failure: KeepsError = no_answer(call, error)
        except Unavailable as error:
            failure = error
        if not pauses or (failure.retry_after_s or 0) > MAX_PATIENCE_S:
            raise failure
        await asyncio.sleep(max(pauses.pop(0), failure.retry_after_s or 0))


def read(reply: httpx.Response) -> Any:
    """The JSON in a good reply, None when it is empty. Raises: the error another reply stands for."""
    if not reply.is_success:
        raise error_of(reply.status_code, _body(reply), retry_after_s=_retry_after_s(reply))
    if not reply.content:
        return None
    body = _body(reply)
    if isinstance(body, str):
        raise Unavailable("the answer is no JSON: something else than keeps listens there")
    return body


async def _tell(on_pending: OnPending, waiting: int) -> None:
    """Tell how many wait. What goes wrong there goes to the loop's handler of exceptions: the reply is not lost."""

    async def telling() -> None:
        done = on_pending(waiting)
        if inspect.isawaitable(done):
            await done

    loop = asyncio.get_running_loop()
    task = loop.create_task(telling())
    try:
        await asyncio.wait({task}, timeout=HEARD_S)
    finally:
        task.cancel()
    await asyncio.wait({task}, timeout=HEARD_S)
    if task.done() and not task.cancelled() and (failure := task.exception()) is not None:
        loop.call_exception_handler({"message": "on_pending failed", "exception": failure, "task": task})


def no_answer(call: Call, error: httpx.TransportError) -> Unavailable:
    """What to say when the connection broke or the time was up."""
    what = "took too long to answer" if isinstance(error, httpx.TimeoutException) else "went away while it was asked"
    if call.repeatable:
        return Unavailable(f"the service {what}: try again")
    return Unavailable(
        f"the service {what}: whether this was written is not known. "
        "Look before you repeat it, or write with an idempotency_key, which makes repeating safe"
    )


def unreachable(endpoint: str) -> Unavailable:
    """What to say when nobody listens at `endpoint`."""
    return Unavailable(f"nothing answers at {endpoint}: start it with `keeps serve`, or name another endpoint")


def _body(reply: httpx.Response) -> object:
    try:
        return reply.json()
    except ValueError:
        return reply.text[:500]


def _retry_after_s(reply: httpx.Response) -> int | None:
    text = reply.headers.get("Retry-After", "")
    return int(text) if text.isdecimal() and len(text) < 9 else None
