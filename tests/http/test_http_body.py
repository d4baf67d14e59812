"""What a hostile body costs and how it is refused."""

from __future__ import annotations

import contextlib
import json
import time
import tracemalloc
from collections.abc import AsyncIterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from keeps.core.errors import Invalid, TooLarge
from keeps.http.body import MAX_BODY_BYTES, _read_stream, check_shape, parse_object


def nested(depth: int) -> bytes:
    return b'{"a":' * (depth - 1) + b"{}" + b"}" * (depth - 1)


@pytest.mark.parametrize("data", [b"", b" \r\n\t", b"{}"])
def test_an_empty_body_is_an_empty_object(data: bytes) -> None:
    assert parse_object(data) == {}


def test_o34_200_000_nested_arrays_are_refused_without_recursion() -> None:
    started = time.perf_counter()
    with pytest.raises(Invalid, match="nested"):
        parse_object(b"[" * 200_000)
    with pytest.raises(Invalid, match="nested"):
        parse_object(b'{"a":' + b"[" * 200_000 + b"]" * 200_000 + b"}")
    assert time.perf_counter() - started < 10


def test_o34_33_nested_objects_are_refused_and_32_are_read() -> None:
    with pytest.raises(Invalid, match="nested"):
        parse_object(nested(33))
    assert parse_object(nested(32))


def test_arrays_hold_at_most_1000_items() -> None:
    assert len(parse_object(b'{"a":[' + b",".join([b"1"] * 1000) + b"]}")["a"]) == 1000
    with pytest.raises(Invalid, match="1000"):
        parse_object(b'{"a":[' + b",".join([b"1"] * 1001) + b"]}")


def test_structure_inside_strings_does_not_count() -> None:
    text = '[{"' * 500 + "," * 5000 + '\\"'
    assert parse_object(json.dumps({"text": text}).encode()) == {"text": text}


@pytest.mark.parametrize(
    "data",
    [
        b'{"text":"a","text":"b"}',
        b'{"a":{"scopes":[["user/alice"]],"scopes":[["user/bob"]]}}',
        b'{"te\\u0078t":"a","text":"b"}',
    ],
)
def test_o35_duplicate_names_are_refused(data: bytes) -> None:
    with pytest.raises(Invalid, match="duplicate"):
        parse_object(data)


@pytest.mark.parametrize(
    "literal",
    [
        "NaN",
        "Infinity",
        "-Infinity",
        "1e999",
        "-1e999",
        "9223372036854775808",
        "9007199254740993",
        "-" + "9" * 5000,
    ],
)
def test_o36_numbers_that_cannot_be_kept_are_refused(literal: str) -> None:
    with pytest.raises(Invalid):
        parse_object(f'{{"k":[{literal}]}}'.encode())


def test_o36_the_largest_safe_integers_are_kept() -> None:
    assert parse_object(b'{"a":9007199254740992,"b":-9007199254740992}') == {"a": 2**53, "b": -(2**53)}


@pytest.mark.parametrize(
    "data",
    [
        b'{"text":"a\\u0000b"}',
        b'{"a\\u0000b":1}',
        b'{"text":"a\\ud800b"}',
        b'{"text":["\\udc00"]}',
        b'{"text":"a\x00b"}',
        b'{"text":"\xff"}',
        b'{"text":"\xed\xa0\x80"}',
        b"\xff\xfe{\x00}\x00",
    ],
)
def test_o18_o19_text_that_cannot_be_stored_is_refused(data: bytes) -> None:
    with pytest.raises(Invalid):
        parse_object(data)


@pytest.mark.parametrize("data", [b"[]", b"null", b'"a"', b"{", b"{}{}", b"{'a':1}", b'{"a":01}', b"\xef\xbb\xbf{}"])
def test_what_is_no_json_object_is_refused(data: bytes) -> None:
    with pytest.raises(Invalid):
        parse_object(data)


@given(
    st.recursive(
        st.none()
        | st.booleans()
        | st.integers(-(2**53), 2**53)
        | st.text(st.characters(exclude_categories=["Cs", "Cn"], exclude_characters="\x00")),
        lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text("abc"), inner, max_size=4),
        max_leaves=20,
    )
)
def test_ordinary_json_is_read_as_it_is(value: Any) -> None:
    for ascii_only in (True, False):
        assert parse_object(json.dumps({"v": value}, ensure_ascii=ascii_only).encode()) == {"v": value}


@given(st.binary(max_size=200))
def test_any_bytes_are_read_or_refused(data: bytes) -> None:
    with contextlib.suppress(Invalid):
        parse_object(data)


@given(st.text('[]{}",:\\a', max_size=80))
def test_the_shape_check_never_lets_too_deep_json_through(text: str) -> None:
    data = text.encode() * 20
    try:
        check_shape(data)
        value = json.loads(data)
    except (Invalid, ValueError):
        return
    assert depth(value) <= 32


def depth(value: Any) -> int:
    if isinstance(value, dict):
        return 1 + max(map(depth, value.values()), default=0)
    if isinstance(value, list):
        return 1 + max(map(depth, value), default=0)
    return 0


async def chunks(count: int, size: int, taken: list[int]) -> AsyncIterator[dict[str, Any]]:
    for _ in range(count):
        taken.append(size)
        yield {"type": "http.request", "body": b"A" * size, "more_body": True}
    yield {"type": "http.request", "body": b"", "more_body": False}


async def test_o33_an_endless_body_is_left_after_one_mebibyte() -> None:
    taken: list[int] = []
    stream = chunks(1000, 65536, taken)
    tracemalloc.start()
    with pytest.raises(TooLarge):
        await _read_stream(stream.__anext__, MAX_BODY_BYTES)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert sum(taken) <= MAX_BODY_BYTES + 65536
    assert peak < 3 * MAX_BODY_BYTES
