"""What a process reads from its environment, once: every name begins with `KEEPS_`."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from pydantic import Field, SecretStr
from pydantic_settings import BaseSettings, SettingsConfigDict

DEFAULT_HOST = "127.0.0.1"
DEFAULT_PORT = 9090
LEGACY_LIST_USER_AGENTS = ("surrealdb-py-spectron/", "surrealdb-spectron-js/")
"""Clients that iterate a bare array where newer ones expect an object with a page."""


class Config(BaseSettings):
    """Settings of one process. What an admin changes without a restart lives in the database instead."""

    model_config = SettingsConfigDict(env_prefix="KEEPS_", frozen=True, extra="forbid")

    data: Path | None = Field(default=None, description="Data folder. None keeps everything in memory.")
    engine_url: str | None = Field(
        default=None,
        description="Where the record lives; default: the data folder. `wss://host` names a SurrealDB server.",
    )
    engine_namespace: str = Field(default="keeps", description="Namespace on a SurrealDB server.")
    engine_user: str | None = Field(default=None, description="User on a SurrealDB server.")
    engine_password: SecretStr | None = Field(default=None, description="Password of that user.")
    policy: Literal["deliberate", "operational", "automatic"] = Field(
        default="deliberate",
        description="What a new context may keep without asking: nothing, what is no person's, or everything.",
    )
    delegation: Literal["any", "manage"] = Field(
        default="manage",
        description="Who may act for another principal: any key, or those that hold grant:manage over its grants.",
    )
    auto_register_scopes: bool = Field(default=True, description="A write registers the scopes it names.")
    lenient_categories: bool = Field(
        default=True, description="An unknown memory category counts as `context` instead of being refused."
    )
    max_body_bytes: int = Field(default=1024 * 1024, gt=0, description="Largest JSON body, bytes.")
    max_in_flight: int = Field(default=256, gt=0, description="Requests served at once; more get a 503.")
    cors_origins: tuple[str, ...] = Field(default=(), description="Exact browser origins that may call the API.")
    allowed_hosts: tuple[str, ...] = Field(
        default=(), description="Host names accepted besides loopback when listening on loopback."
    )
    webhook_hosts: tuple[str, ...] = Field(
        default=(), description="Hosts of webhooks that may be of a private network, and told over http."
    )
    legacy_list_user_agents: tuple[str, ...] = Field(
        default=LEGACY_LIST_USER_AGENTS, description="User-Agent prefixes that get bare arrays from list routes."
    )
    allow_self_service_keys: bool = Field(default=True, description="Keys may mint further keys of their principal.")
    max_token_ttl_s: int | None = Field(default=None, gt=0, description="Longest life of a minted key, seconds.")
    embedder: str = Field(
        default="minilm",
        min_length=1,
        max_length=200,
        description="What turns text into vectors: `minilm`, `none`, or a model of a provider, `openai:<model>`.",
    )
    embedder_files: Path | None = Field(
        default=None, description="Folder with model.onnx and tokenizer.json of `minilm`; default: the installed ones."
    )
    embedder_url: str | None = Field(
        default=None, max_length=2000, description="Where the provider of the embedder is, `/v1` included."
    )
    embedders_allowed: tuple[str, ...] = Field(
        default=(),
        description="Models of providers that a context may choose besides `embedder`: `openai:<model>`, exactly.",
    )
    embedder_key: SecretStr | None = Field(default=None, description="Key of the provider of the embedder.")
