"""The socket a server listens on."""

from __future__ import annotations

import socket

import pytest

from keeps.core.errors import Conflict
from keeps.http.listen import _bound


@pytest.mark.parametrize("host", ["127.0.0.1", "::1"])
def test_replies_are_sent_at_once(host: str) -> None:
    # asyncio switches the waiting off for accepted sockets of this protocol only, see `_set_nodelay` there.
    try:
        listener = _bound(host, 0)
    except Conflict:
        pytest.skip("this machine has no such loopback address")
    with listener, socket.create_connection(listener.getsockname()[:2]), listener.accept()[0] as accepted:
        assert accepted.proto == socket.IPPROTO_TCP
