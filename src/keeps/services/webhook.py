"""Telling a host that something waits for a person: soon after the write, and never in its way."""

from __future__ import annotations

import asyncio
import logging
import socket
from collections.abc import Callable, Collection, Sequence
from contextlib import suppress
from datetime import datetime
from typing import Final

import httpx

from keeps.core import webhook
from keeps.core.errors import Invalid

GATHER_S: Final = 0.2
"""What is proposed within this time is told in one message, seconds."""

DEADLINE_S: Final = 5.0
"""How long one try may take, the look-up of the name included, seconds."""

PAUSES_S: Final = (1.0, 5.0, 25.0)
"""Waits before a message that did not arrive is sent again; after the last it is dropped."""

MOST_IDS: Final = 100
"""Ids one message holds; `count` is the number of all."""

_GONE: Final = 410

_log = logging.getLogger(__name__)


class Unwilling(Exception):
    """The message may not go there, or was not taken; the text is a fixed word for the log."""


class Webhook:
    """What one context has to tell. One message is under way at a time; what comes meanwhile is told in the next.

    `url`: where to, as it is set now; None tells nobody. `private_hosts`: names that may be of this machine or of a
    private network, and may be told over http.
    """

    def __init__(
        self,
        context_id: str,
        secret: bytes,
        url: Callable[[], str | None],
        *,
        clock: Callable[[], datetime],
        private_hosts: Collection[str] = (),
        pauses_s: Sequence[float] = PAUSES_S,
    ) -> None:
        self._context_id = context_id
        self._url = url
        self._clock = clock
        self._private_hosts = frozenset(host.lower() for host in private_hosts)
        self._pauses_s = tuple(pauses_s)
        self._ids: list[str] = []
        self._count = 0
        self._sender: asyncio.Task[None] | None = None
        self._closed = False
        self.key: Final = webhook.key_of(secret)
        """What the messages are signed with."""
        self.told = 0
        """Messages that arrived."""
        self.dropped = 0
        """Proposals nobody was told of, because no message arrived."""

    def tell(self, ids: Sequence[str]) -> None:
        """Note proposals to tell of; a task of this webhook does it."""
        if self._closed or not ids or self._url() is None:
            return
        self._count += len(ids)
        self._ids += ids[: max(0, MOST_IDS - len(self._ids))]
        if self._sender is None or self._sender.done():
            self._sender = asyncio.get_running_loop().create_task(self._go_on())

    async def settle(self) -> None:
        """Wait until nothing is left to tell."""
        while self._sender is not None and not self._sender.done():
            await asyncio.wait({self._sender})

    async def close(self) -> None:
        """Tell nothing more."""
        self._closed = True
        sender, self._sender = self._sender, None
        if sender is not None:
            sender.cancel()
            with suppress(asyncio.CancelledError):
                await sender

    async def _go_on(self) -> None:
        while self._count:
            await asyncio.sleep(GATHER_S)
            ids, count = self._ids, self._count
            self._ids, self._count = [], 0
            if await self._delivered(ids, count):
                self.told += 1
            else:
                self.dropped += count
                _log.warning("webhook of %s: %d proposals not told, %d in all", self._context_id, count, self.dropped)

    async def _delivered(self, ids: Sequence[str], count: int) -> bool:
        for pause_s in (0.0, *self._pauses_s):
            await asyncio.sleep(pause_s)
            url = self._url()
            if url is None:  # switched off meanwhile
                return False
            try:
                async with asyncio.timeout(DEADLINE_S):
                    status = await self._send(url, ids, count)
            except Unwilling as refusal:
                _log.warning("webhook of %s: %s", self._context_id, refusal)
                return False
            except (httpx.HTTPError, OSError, TimeoutError) as error:
                _log.info("webhook of %s: no answer (%s)", self._context_id, type(error).__name__)
                continue
            if 200 <= status < 300:
                return True
            _log.info("webhook of %s: answered %d", self._context_id, status)
            if status == _GONE:
                return False
        return False

    async def _send(self, url: str, ids: Sequence[str], count: int) -> int:
        """The status of the answer to one try; what else it says is not read, nor where it leads followed."""
        try:
            parts = webhook.check_url(url, private_hosts=self._private_hosts)
        except Invalid:
            raise Unwilling("the address may not be told") from None
        host = parts.hostname or ""
        port = parts.port or (443 if parts.scheme == "https" else 80)
        address = await self._address(host, port)
        at = self._clock()
        body = webhook.body_of(self._context_id, ids, count, at)
        target = httpx.URL(url)
        headers = {
            "Host": target.netloc.decode("ascii"),
            "Content-Type": "application/json",
            "User-Agent": "keeps-webhook",
            webhook.SIGNATURE_HEADER: webhook.signature(self.key, body, at),
        }
        # The connection goes to the address that was looked at: a name may be answered otherwise the next time.
        async with (
            httpx.AsyncClient(trust_env=False, follow_redirects=False, timeout=DEADLINE_S) as http,
            http.stream(
                "POST",
                target.copy_with(host=address),
                content=body,
                headers=headers,
                extensions={"sni_hostname": host},
            ) as answer,
        ):
            return answer.status_code

    async def _address(self, host: str, port: int) -> str:
        """The address behind a name. Raises: Unwilling when any it has is not public, unless the host may be private;
        OSError when it has none."""
        found = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
        addresses = [str(entry[4][0]) for entry in found]
        if host not in self._private_hosts and not all(map(webhook.is_public, addresses)):
            raise Unwilling("the name leads to a private network, which KEEPS_WEBHOOK_HOSTS does not name")
        return addresses[0]
