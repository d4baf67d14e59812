"""Where a host may be told, what it is told, and how it knows who says so."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from keeps.core import webhook
from keeps.core.errors import Invalid

AT = datetime(2026, 5, 1, 12, 0, tzinfo=UTC)


@pytest.mark.parametrize(
    "url",
    [
        "https://host.example/hook",
        "https://host.example:8443/hook?team=a",
        "http://127.0.0.1:8000/hook",
        "http://inner.example/hook",
        "http://INNER.example/hook",
    ],
)
def test_an_address_that_may_be_told(url: str) -> None:
    assert webhook.check_url(url, private_hosts={"127.0.0.1", "Inner.Example"}).hostname


@pytest.mark.parametrize(
    "url",
    [
        "",
        "host.example/hook",
        "ftp://host.example/hook",
        "file:///etc/passwd",
        "http://host.example/hook",
        "http://localhost/hook",
        "https:///hook",
        "https://mara:pass@host.example/hook",
        "https://host.example/hook#part",
        "https://host.example:0/hook",
        "https://host.example:99999/hook",
        "https://host.example:port/hook",
        "https://[::1/hook",
        "https://host.example/ hook",
        "https://host.example\\@inner.example/hook",
        "https://höst.example/hook",
        "https://host.example/" + "a" * webhook.MAX_URL_CHARS,
    ],
)
def test_an_address_that_may_not(url: str) -> None:
    with pytest.raises(Invalid):
        webhook.check_url(url, private_hosts={"127.0.0.1", "inner.example"})


@pytest.mark.parametrize("address", ["93.184.216.34", "2606:2800:220:1:248:1893:25c8:1946", "::ffff:93.184.216.34"])
def test_addresses_of_the_internet(address: str) -> None:
    assert webhook.is_public(address)


@pytest.mark.parametrize(
    "address",
    [
        "127.0.0.1",
        "10.1.2.3",
        "192.168.0.1",
        "172.16.0.1",
        "169.254.169.254",
        "100.64.0.1",
        "0.0.0.0",
        "224.0.0.1",
        "255.255.255.255",
        "::1",
        "::",
        "fe80::1%eth0",
        "fc00::1",
        "ff02::1",
        "::ffff:127.0.0.1",
        "::ffff:10.0.0.1",
        "64:ff9b::7f00:1",
        "2002:7f00:1::",
        "fec0::1",
        "192.88.99.1",
        "192.0.0.8",
        "::ffff:192.0.0.8",
        "2001:0:0:0:0:0:7f00:1",
        "host.example",
        "",
    ],
)
def test_addresses_that_are_not(address: str) -> None:
    assert not webhook.is_public(address)


def test_a_message_holds_ids_and_numbers_alone() -> None:
    said = json.loads(webhook.body_of("acme", ["a" * 20], 3, AT))
    assert said == {
        "event": "memory.proposed",
        "context": "acme",
        "ids": ["a" * 20],
        "count": 3,
        "at": "2026-05-01T12:00:00.000+00:00",
    }


@given(st.binary(), st.binary(min_size=1, max_size=64), st.integers(-600, 600))
def test_a_signature_holds_for_its_message_and_its_time(body: bytes, secret: bytes, late_s: int) -> None:
    key = webhook.key_of(secret)
    header = webhook.signature(key, body, AT)
    now = AT + timedelta(seconds=late_s)
    assert webhook.is_signed(header, key, body, now=now) == (abs(late_s) <= 300)
    assert not webhook.is_signed(header, key, body + b" ", now=AT)
    assert not webhook.is_signed(header, webhook.key_of(secret + b"x"), body, now=AT)


@given(st.text())
def test_no_other_header_is_a_signature(header: str) -> None:
    assert not webhook.is_signed(header, webhook.key_of(b"secret"), b"{}", now=AT)
