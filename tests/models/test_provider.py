"""Embedders behind a server, against a double of one: what is sent, what is learned, and what a fault says."""

from __future__ import annotations

import gzip
import importlib
import logging
import socket
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import SecretStr
from pydantic_ai.embeddings import TestEmbeddingModel

from keeps.core.spaces import Space
from keeps.models import provider
from keeps.models.base import EmbedderLost
from keeps.models.checked import Checked
from keeps.models.fake import FakeEmbedder
from keeps.models.provider import ProviderEmbedder, requests
from tests.models.double import Double

TEXT = "the code of the safe is 4711"
KEY = "sk-very-secret-0815"


@pytest.fixture
def embedder(double: Double) -> ProviderEmbedder:
    return ProviderEmbedder("openai", "small", url=double.url, key=SecretStr(KEY))


async def test_vectors_are_those_of_the_server(double: Double, embedder: ProviderEmbedder) -> None:
    rows = await embedder.embed([TEXT, "tea"])
    assert np.allclose(rows, await FakeEmbedder(48).embed([TEXT, "tea"]), atol=1e-6)
    assert await embedder.space() == Space("openai:small", 48)
    assert [asked["input"] for asked in double.asked] == [[TEXT, "tea"]]
    assert double.asked[0]["model"] == "small"
    assert double.headers[0]["authorization"] == f"Bearer {KEY}"
    await embedder.close()


async def test_the_width_is_asked_for_once(double: Double, embedder: ProviderEmbedder) -> None:
    assert await embedder.space() == await embedder.space() == Space("openai:small", 48)
    assert [asked["input"] for asked in double.asked] == [["width"]]
    await embedder.close()


async def test_long_lists_go_in_parts_and_long_texts_are_cut(double: Double, embedder: ProviderEmbedder) -> None:
    rows = await embedder.embed([f"text {number}" for number in range(300)] + ["x" * 10_000])
    assert rows.shape == (301, 48)
    assert [len(asked["input"]) for asked in double.asked] == [128, 128, 45]
    assert len(double.asked[-1]["input"][-1]) == 6000
    await embedder.close()


@given(st.lists(st.integers(0, 6000).map("x".__mul__), max_size=300))
def test_parts_are_the_texts_in_order(texts: list[str]) -> None:
    parts = list(requests(texts))
    assert [text for part in parts for text in part] == texts
    assert all(0 < len(part) <= 128 for part in parts)
    assert all(sum(map(len, part)) <= 200_000 for part in parts)


async def test_without_a_key_none_is_taken_from_the_environment(
    double: Double, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    monkeypatch.setenv("OPENAI_BASE_URL", "http://192.0.2.1/v1")
    embedder = ProviderEmbedder("ollama", "small", url=double.url)
    await embedder.embed([TEXT])
    assert KEY not in str(double.headers)
    await embedder.close()


async def test_no_proxy_stands_before_this_machine(
    double: Double, embedder: ProviderEmbedder, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    assert (await embedder.embed(["tea"])).shape == (1, 48)
    await embedder.close()


@pytest.mark.parametrize(
    ("status", "says"),
    [(401, "KEEPS_EMBEDDER_KEY"), (403, "KEEPS_EMBEDDER_KEY"), (404, "KEEPS_EMBEDDER_URL"), (400, "400"), (500, "500")],
)
async def test_a_refusal_says_what_to_do_and_quotes_nothing(
    double: Double, embedder: ProviderEmbedder, status: int, says: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    double.status, double.body = status, {"error": {"message": f"{TEXT} {KEY}", "type": TEXT, "code": KEY}}
    with pytest.raises(EmbedderLost, match="openai:small") as lost:
        await embedder.embed([TEXT])
    assert says in str(lost.value)
    assert "try again" in str(lost.value) or "KEEPS_" in str(lost.value)
    assert lost.value.__suppress_context__
    for quoted in (str(lost.value), repr(lost.value), caplog.text):
        assert "4711" not in quoted
        assert KEY not in quoted
    await embedder.close()


async def test_too_many_requests_is_said(double: Double, embedder: ProviderEmbedder) -> None:
    double.status, double.body = 429, {"error": {"message": "slow down"}}
    with pytest.raises(EmbedderLost, match="429"):
        await embedder.embed([TEXT])
    await embedder.close()


@pytest.mark.parametrize(
    "body",
    [
        {"object": "list", "data": []},
        {"object": "list", "data": [{"object": "embedding", "index": 0, "embedding": []}]},
        {"object": "list", "data": [{"object": "embedding", "index": 0, "embedding": [1.0] * 47}]},
        {"object": "list", "data": [{"object": "embedding", "index": 0, "embedding": "4711"}]},
        {"error": TEXT},
        [TEXT],
        TEXT,
    ],
)
async def test_a_wrong_answer_is_the_one_error(double: Double, embedder: ProviderEmbedder, body: Any) -> None:
    checked = Checked(embedder)
    await checked.space()
    double.body = body
    with pytest.raises(EmbedderLost) as lost:
        await checked.embed([TEXT])
    assert "4711" not in str(lost.value)
    double.body = None
    assert (await checked.embed([TEXT])).shape == (1, 48)
    await embedder.close()


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
async def test_texts_go_to_no_other_address(double: Double, embedder: ProviderEmbedder, status: int) -> None:
    with Double() as elsewhere:
        double.status, double.body, double.more = status, b"", {"Location": f"{elsewhere.url}/embeddings"}
        with pytest.raises(EmbedderLost, match="KEEPS_EMBEDDER_URL") as lost:
            await embedder.embed([TEXT])
        assert str(status) in str(lost.value)
        assert "not followed" in str(lost.value)
        assert elsewhere.asked == []
    await embedder.close()


@pytest.mark.parametrize("status", [200, 500])
async def test_no_more_is_read_than_vectors_are_large(
    double: Double, embedder: ProviderEmbedder, status: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(provider, "_REPLY_BYTES", 100_000)
    assert (await embedder.embed([TEXT])).shape == (1, 48)
    double.status, double.body = status, b" " * 100_001
    with pytest.raises(EmbedderLost, match="larger than vectors"):
        await embedder.embed([TEXT])
    await embedder.close()


async def test_a_packed_answer_is_not_unpacked(double: Double, embedder: ProviderEmbedder) -> None:
    double.body, double.more = gzip.compress(b" " * 1000), {"Content-Encoding": "gzip"}
    with pytest.raises(EmbedderLost, match="larger than vectors"):
        await embedder.embed([TEXT])
    assert double.headers[0]["accept-encoding"] == "identity"
    await embedder.close()


@pytest.mark.parametrize(("dims", "fits"), [(4096, True), (4097, False)])
async def test_wider_vectors_than_are_kept_are_refused_before_anything_is_kept(dims: int, fits: bool) -> None:
    with Double(dims) as double:
        checked = Checked(ProviderEmbedder("compatible", "wide", url=double.url))
        if fits:
            assert (await checked.space()).dims == 4096
        else:
            with pytest.raises(EmbedderLost, match="4097 numbers, at most 4096"):
                await checked.embed([TEXT])
        await checked.close()


async def test_nobody_there() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        url = f"http://127.0.0.1:{taken.getsockname()[1]}/v1"
    embedder = ProviderEmbedder("ollama", "small", url=url, key=SecretStr(KEY))
    with pytest.raises(EmbedderLost, match="does not answer") as lost:
        await embedder.embed([TEXT])
    assert KEY not in str(lost.value)
    await embedder.close()


@pytest.mark.parametrize("missing", ["openai", "pydantic_ai.embeddings.openai"])
async def test_without_the_extra_it_says_which(
    missing: str, embedder: ProviderEmbedder, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = importlib.import_module

    def without(name: str) -> Any:
        if name == missing:
            raise ImportError(name)
        return real(name)

    monkeypatch.setattr(importlib, "import_module", without)
    with pytest.raises(EmbedderLost, match=r'pip install "keeps\[llm\]"'):
        await embedder.embed([TEXT])
    monkeypatch.undo()
    assert (await embedder.embed([TEXT])).shape == (1, 48)
    await embedder.close()


async def test_the_test_model_of_the_library_fits(embedder: ProviderEmbedder, monkeypatch: pytest.MonkeyPatch) -> None:
    model = TestEmbeddingModel(dimensions=16)
    monkeypatch.setattr(embedder, "_model", model)
    rows = await Checked(embedder).embed(["tea", "boat"], asking=True)
    assert rows.shape == (2, 16)
    assert np.allclose(np.linalg.norm(rows, axis=1), 1)
