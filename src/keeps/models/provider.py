"""Embedders of others, over the interface of OpenAI: OpenAI itself, Ollama, and whoever speaks the same."""

from __future__ import annotations

import asyncio
import importlib
import ipaddress
import logging
from collections.abc import AsyncIterator, Iterator, Sequence
from typing import Any, Final, Literal
from urllib.parse import urlsplit

import numpy as np
from pydantic import SecretStr

from keeps.core.spaces import Space
from keeps.models.base import EmbedderLost, Vectors

Kind = Literal["openai", "ollama", "compatible"]

_TIMEOUT_S: Final = 30.0
_TEXTS_A_REQUEST: Final = 128
_CHARS_A_TEXT: Final = 6_000
_CHARS_A_REQUEST: Final = 200_000
"""OpenAI refuses texts over 8,192 tokens and requests over 300,000; a character is a token at most, nearly always."""
_REPLY_BYTES: Final = 32 * 1024 * 1024
"""The most that is read of one answer: 128 vectors of 4,096 numbers written out take 13 MB at most."""
_NO_KEY: Final = "none"
"""The client wants a key even for a server that asks for none."""


class ProviderEmbedder:
    """Sends texts to a server and gets vectors. What it is given leaves this machine, unless the server is on it."""

    def __init__(self, kind: Kind, name: str, *, url: str, key: SecretStr | None = None) -> None:
        """`name`: the model, as the server calls it. `url`: where the interface begins, `/v1` included."""
        self._kind = kind
        self._name = name
        self._url = url
        self._key = key
        self._model: Any = None
        self._client: Any = None
        self._space: Space | None = None
        self._opening = asyncio.Lock()

    @property
    def model(self) -> str:
        """`<kind>:<name>`. Which weights a server means by a name is up to the server."""
        return f"{self._kind}:{self._name}"

    async def space(self) -> Space:
        """The width is that of the first answer: without one, a single word is sent to get it."""
        if self._space is None:
            await self.embed(["width"])
        assert self._space is not None
        return self._space

    async def embed(self, texts: Sequence[str], *, asking: bool = False) -> Vectors:
        """One vector a text, as the server gives them; of a text, the first 6,000 characters count."""
        parts = [await self._ask(part, asking) for part in requests([_sent(text) for text in texts])]
        if not parts:
            return np.empty((0, (await self.space()).dims), np.float32)
        rows = np.concatenate(parts)
        if self._space is None:
            self._space = Space(self.model, rows.shape[1])
        return rows

    async def close(self) -> None:
        """Close the connections."""
        client, self._client, self._model = self._client, None, None
        if client is not None:
            await client.close()

    async def _ask(self, texts: Sequence[str], asking: bool) -> Vectors:
        model = await self._opened()
        try:
            answer = await model.embed(texts, input_type="query" if asking else "document")
        except Exception as error:  # noqa: BLE001 - becomes the one error of embedders
            # The error of the library, and what caused it, hold the answer of the server, which may quote the text.
            raise EmbedderLost(self._why(error)) from None
        return np.asarray(answer.embeddings, np.float32)

    async def _opened(self) -> Any:
        async with self._opening:
            if self._model is None:
                # Importing takes seconds, which the loop does not have.
                self._client, self._model = await asyncio.to_thread(self._open)
            return self._model

    def _open(self) -> tuple[Any, Any]:
        try:
            openai: Any = importlib.import_module("openai")
            embeddings: Any = importlib.import_module("pydantic_ai.embeddings.openai")
            providers: Any = importlib.import_module("pydantic_ai.providers.openai")
        except ImportError:
            raise EmbedderLost(f'{self.model} needs more packages: pip install "keeps[llm]"') from None
        # At its lowest level this library logs whole requests.
        logging.getLogger("openai").setLevel(logging.WARNING)
        http = openai.DefaultAsyncHttpxClient(
            trust_env=not _is_here(self._url),
            follow_redirects=False,  # texts go where the operator said and nowhere else
            headers={"Accept-Encoding": "identity"},  # packed, an answer could be a thousand times what is counted
            event_hooks={"response": [_bound]},
        )
        client = openai.AsyncOpenAI(
            api_key=self._key.get_secret_value() if self._key else _NO_KEY,
            base_url=self._url,
            timeout=_TIMEOUT_S,
            max_retries=1,
            http_client=http,
        )
        return client, embeddings.OpenAIEmbeddingModel(
            self._name, provider=providers.OpenAIProvider(openai_client=client)
        )

    def _why(self, error: Exception) -> str:
        causes = list(_causes(error))
        if any(isinstance(cause, _TooLarge) for cause in causes):
            return f"{self.model} gave an answer that is larger than vectors are: check KEEPS_EMBEDDER_URL"
        status = next((found for cause in causes if (found := getattr(cause, "status_code", None)) is not None), None)
        if status is not None and 300 <= status < 400:
            return (
                f"{self.model} sends elsewhere ({status}), which is not followed: set KEEPS_EMBEDDER_URL to where it is"
            )
        if status in (401, 403):
            return f"{self.model} refuses the key ({status}): set KEEPS_EMBEDDER_KEY"
        if status == 404:
            return f"{self.model} is not known to the server (404): check the name and KEEPS_EMBEDDER_URL"
        if status == 429:
            return f"{self.model} takes no more requests now (429): try again later"
        if status is not None:
            return f"{self.model} answered {status}: try again later"
        return f"{self.model} does not answer ({type(error).__name__}): check KEEPS_EMBEDDER_URL, or try again later"


class _TooLarge(Exception):
    """An answer is larger than vectors can be, or packed."""


class _Bounded:
    """What a server sends, as far as it may be read."""

    def __init__(self, behind: Any) -> None:
        self._behind = behind

    async def __aiter__(self) -> AsyncIterator[bytes]:
        read = 0
        async for part in self._behind:
            read += len(part)
            if read > _REPLY_BYTES:
                raise _TooLarge
            yield part

    async def aclose(self) -> None:
        await self._behind.aclose()


async def _bound(response: Any) -> None:
    """Let no more of an answer be read than one of vectors can have."""
    if response.headers.get("Content-Encoding", "identity").strip().lower() != "identity":
        raise _TooLarge
    # Which library carries the requests depends on the version of the client; each takes only streams of its own.
    own = next(base for base in type(response.stream).__mro__ if base.__name__ == "AsyncByteStream")
    response.stream = type("Bounded", (_Bounded, own), {})(response.stream)


def _causes(error: BaseException) -> Iterator[BaseException]:
    """An error and what it was raised from, a few steps back."""
    found: BaseException | None = error
    for _ in range(10):
        if found is None:
            return
        yield found
        found = found.__cause__ or found.__context__


def _sent(text: str) -> str:
    """The text as it can be sent: no half of a pair, which is no UTF-8, and not empty, which OpenAI refuses."""
    return text[:_CHARS_A_TEXT].encode("utf-8", "replace").decode() or " "


def requests(texts: Sequence[str]) -> Iterator[list[str]]:
    """The texts in their order, in parts that one request may carry."""
    part: list[str] = []
    chars = 0
    for text in texts:
        if part and (len(part) == _TEXTS_A_REQUEST or chars + len(text) > _CHARS_A_REQUEST):
            yield part
            part, chars = [], 0
        part.append(text)
        chars += len(text)
    if part:
        yield part


def _is_here(url: str) -> bool:
    """Whether the server is on this machine: no proxy of the environment leads there."""
    host = urlsplit(url).hostname or ""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
