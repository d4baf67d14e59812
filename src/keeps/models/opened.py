"""The embedder that a name means."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

from pydantic import SecretStr

from keeps.core.errors import Invalid
from keeps.models.base import MOST_DIMS, Embedder
from keeps.models.checked import Checked
from keeps.models.fake import FakeEmbedder
from keeps.models.minilm import MiniLM
from keeps.models.provider import ProviderEmbedder

NAMES: Final = ("minilm", "none", "fake", "fake-<dims>", "openai:<model>", "ollama:<model>", "compatible:<model>")
_URLS: Final = {"openai": "https://api.openai.com/v1", "ollama": "http://127.0.0.1:11434/v1"}
_KINDS: Final = ("openai", "ollama", "compatible")


def provider_of(name: str) -> str | None:
    """The kind of the provider that `name` is a model of; None for what runs on this machine, and for no name."""
    kind, _, model = name.partition(":")
    return kind if kind in _KINDS and model.strip() else None


def open_embedder(
    name: str, *, files: Path | None = None, url: str | None = None, key: SecretStr | None = None
) -> Embedder | None:
    """What `name`, one of `NAMES`, means, with its answers checked; None for `none`. Loads nothing yet.

    `files`: where `minilm` finds its two files. `url`, `key`: for those with a server. The `key` goes
    to no address that was not set, but to OpenAI's own.

    Raises:
        Invalid: no embedder has this name, or it cannot be without a key or an address that is missing.
    """
    if name == "none":
        return None
    return Checked(_meant(name, files, url, key))


def _meant(name: str, files: Path | None, url: str | None, key: SecretStr | None) -> Embedder:
    if name == "minilm":
        return MiniLM(files)
    if name == "fake":
        return FakeEmbedder()
    if (fake := re.fullmatch(r"fake-([1-9]\d{0,3})", name)) and int(fake[1]) <= MOST_DIMS:
        return FakeEmbedder(int(fake[1]))
    kind, _, model = name.partition(":")
    if kind not in _KINDS or not model.strip():
        raise Invalid(f"no embedder has the name set in KEEPS_EMBEDDER: there are {', '.join(NAMES)}")
    if kind == "openai" and key is None and url is None:
        raise Invalid("an embedder of OpenAI needs a key: set KEEPS_EMBEDDER_KEY")
    if kind == "ollama" and url is None:
        key = None
    place = url or _URLS.get(kind)
    if place is None:
        raise Invalid("a compatible embedder needs an address: set KEEPS_EMBEDDER_URL")
    return ProviderEmbedder(kind, model, url=_checked(place), key=key)


def _checked(url: str) -> str:
    """The address as it is. Raises `Invalid` when it is none, or holds a name and password."""
    try:
        parts = urlsplit(url)
        fine = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        fine, parts = False, urlsplit("")
    if not fine or parts.username is not None or parts.password is not None or parts.query or parts.fragment:
        raise Invalid("KEEPS_EMBEDDER_URL is http:// or https://, a host, a path; a key goes into KEEPS_EMBEDDER_KEY")
    return url
