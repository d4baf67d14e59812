"""Where a host is told that something waits, and what it is told: ids and numbers, sealed, never text."""

from __future__ import annotations

import hmac
import json
from collections.abc import Collection, Sequence
from datetime import UTC, datetime
from hashlib import sha256
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address
from typing import Final
from urllib.parse import SplitResult, urlsplit

from keeps.core.errors import Invalid

PROPOSED: Final = "memory.proposed"
"""The one event there is."""

SIGNATURE_HEADER: Final = "X-Keeps-Signature"

MAX_URL_CHARS: Final = 2000
_MAX_PORT: Final = 65535
_NAT64: Final = IPv6Network("64:ff9b::/96")
_LOCAL: Final = (IPv4Network("192.0.0.0/24"), IPv4Network("192.88.99.0/24"), IPv6Network("fec0::/10"))
"""What counts as global by its list, and leads into a network: protocol assignments, relays, the old site-local."""


def check_url(url: str, *, private_hosts: Collection[str]) -> SplitResult:
    """The parts of an address a host may be told at: `https`, unless the operator named its host as a private one.

    Raises: Invalid, saying what is wrong with it and not repeating it.
    """
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        raise Invalid("the address of a webhook is written as https://host.example/path") from None
    host = parts.hostname
    plain = url.isascii() and url.isprintable() and " " not in url and "\\" not in url and len(url) <= MAX_URL_CHARS
    if not plain or not host or parts.scheme not in ("https", "http") or port == 0 or (port or 0) > _MAX_PORT:
        raise Invalid("the address of a webhook is written as https://host.example/path")
    if parts.username is not None or parts.password is not None or parts.fragment:
        raise Invalid("the address of a webhook holds no user, no password and no fragment")
    if parts.scheme == "http" and host not in {each.lower() for each in private_hosts}:
        raise Invalid("a webhook is told over https; http only at a host that KEEPS_WEBHOOK_HOSTS names")
    return parts


def is_public(address: str) -> bool:
    """True for an address on the open internet; False for one of this machine or of a private network, however it is
    wrapped, and for what is no address."""
    try:
        found = ip_address(address.partition("%")[0])
    except ValueError:
        return False
    if isinstance(found, IPv6Address):
        inner: IPv4Address | None = found.ipv4_mapped
        if inner is not None:
            return _is_public(inner)
        if found.sixtofour is not None or found.teredo is not None or found in _NAT64:
            return False
    return _is_public(found)


def _is_public(address: IPv4Address | IPv6Address) -> bool:
    if any(address in network for network in _LOCAL):
        return False
    return address.is_global and not (address.is_multicast or address.is_reserved or address.is_unspecified)


def body_of(context: str, ids: Sequence[str], count: int, at: datetime) -> bytes:
    """What is sent: which proposals are new in a context, `count` of them; `ids` may be the first of them only."""
    message = {
        "event": PROPOSED,
        "context": context,
        "ids": list(ids),
        "count": count,
        "at": at.astimezone(UTC).isoformat(timespec="milliseconds"),
    }
    return json.dumps(message, separators=(",", ":")).encode()


def key_of(secret: bytes) -> str:
    """What the messages of a context are signed with, as its admin sees it; `secret` is the context's own."""
    return "whk_" + hmac.new(secret, b"webhook", sha256).hexdigest()


def signature(key: str, body: bytes, at: datetime) -> str:
    """The header beside a message: `t=<seconds>,v1=<HMAC-SHA-256 of "<seconds>.<body>" in hex>`."""
    seconds = int(at.timestamp())
    return f"t={seconds},v1={_seal(key, body, seconds)}"


def is_signed(header: str, key: str, body: bytes, *, now: datetime, within_s: int = 300) -> bool:
    """True when a message was signed with the key, at most `within_s` seconds from now."""
    parts = {name: value for name, _, value in (part.partition("=") for part in header.split(","))}
    seconds = parts.get("t", "")
    if not seconds.isascii() or not seconds.isdecimal() or len(seconds) > 12:
        return False
    given, wanted = parts.get("v1", "").encode(errors="replace"), _seal(key, body, int(seconds)).encode()
    return hmac.compare_digest(given, wanted) and abs(int(now.timestamp()) - int(seconds)) <= within_s


def _seal(key: str, body: bytes, seconds: int) -> str:
    return hmac.new(key.encode(), f"{seconds}.".encode() + body, sha256).hexdigest()
