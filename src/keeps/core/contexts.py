"""What a context may be called and how it is configured."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from datetime import datetime
from typing import Any, Final, cast

from keeps.core import setting_keys
from keeps.core.errors import Invalid, NotImplementedYet, Unprocessable
from keeps.core.fusion import MIN_SCORE
from keeps.core.generations import IndexMode
from keeps.core.policy import Preset

ROUTE_WORDS: Final = frozenset({"health", "contexts", "verbs", "migrations"})
FOLDER_NAMES: Final = frozenset(
    {"record", "ledger", "watermark", "pepper", "lock", "keys.json", "owner.json", "restore.json"}
)
"""Names in a data folder; a context has a folder of its own beside them."""
LAID_ASIDE: Final = ("record.", "ledger.")
"""How names in a data folder begin under which older pieces are kept."""
RESERVED_NAMESPACES: Final = frozenset({"spectron", "control", "system"})

MAX_CONFIG_BYTES: Final = 64 * 1024
MAX_DESCRIPTION_CHARS: Final = 2000
TRACE_ENDS: Final = "trace_text_ends_s"
"""When texts of questions are kept no more, seconds since 1970; the service writes it beside `trace_text`."""

_ID: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}")

DEFAULTS: Final[Mapping[str, Any]] = {
    "policy": Preset.DELIBERATE.value,
    "llm_extraction_enabled": False,
    "pii_redaction_enabled": False,
    "reconciliation": {"confidence_floor": 0.7},
    "allow_self_service_keys": True,
    "min_score": MIN_SCORE,
    "trace_text": False,
    "trace_retention": {"retrieval_trace_days": 30},
    "mode": IndexMode.HYBRID.value,
}
"""What holds where a context says nothing."""


def check_context_id(context_id: str) -> None:
    """Raises: Unprocessable for what cannot be the id of a context, or has a meaning of its own."""
    if not _ID.fullmatch(context_id):
        raise Unprocessable(
            "the id of a context is 1 to 128 of the letters A-Z a-z, digits and . _ -, beginning with a letter or digit"
        )
    name = context_id.lower()
    if name in ROUTE_WORDS | FOLDER_NAMES or name.startswith(LAID_ASIDE):
        raise Unprocessable(f"{context_id} is a reserved name: choose another for the context")


def check_policy(policy: object) -> None:
    """Raises: Invalid for a policy there is not."""
    if not isinstance(policy, str) or policy not in {preset.value for preset in Preset}:
        raise Invalid(f"bad policy: use one of {', '.join(Preset)}")


def merged(config: Mapping[str, Any], change: Mapping[str, Any]) -> dict[str, Any]:
    """`config` with `change` laid over it, member by member; a null removes what it names."""
    result = dict(config)
    for key, value in change.items():
        if value is None:
            result.pop(key, None)
        elif isinstance(value, Mapping):
            below = result.get(key)
            inner = cast("Mapping[str, Any]", value)
            result[key] = merged(cast("Mapping[str, Any]", below) if isinstance(below, Mapping) else {}, inner)
        else:
            result[key] = value
    return result


def effective(config: Mapping[str, Any]) -> dict[str, Any]:
    """What holds in a context: its own configuration over the defaults."""
    return {**merged(DEFAULTS, config), "providers_configured": []}


def check_config(config: Mapping[str, Any]) -> None:
    """Raises: Invalid for a value that makes no sense, NotImplementedYet for secrets of providers."""
    if len(json.dumps(config, ensure_ascii=False).encode()) > MAX_CONFIG_BYTES:
        raise Invalid(f"bad config: at most {MAX_CONFIG_BYTES} bytes are allowed")
    if config.get("providers"):
        raise NotImplementedYet("keys of model providers cannot be kept yet: this version calls no provider")
    models = config.get("models", {})
    if not isinstance(models, Mapping):
        raise Invalid("bad config: models is an object")
    if cast("Mapping[str, Any]", models).get("embedding") is not None:
        raise Invalid("bad config: models.embedding is not read here: name what makes vectors in embedder")
    if (fault := setting_keys.fault_of(config)) is not None:
        raise Invalid(f"bad config: {fault}")
    check_policy(config.get("policy", Preset.DELIBERATE.value))


def mode_of(config: Mapping[str, Any]) -> IndexMode:
    """Whether texts of the context have vectors."""
    return IndexMode(config.get("mode") or DEFAULTS["mode"])


def embedder_of(config: Mapping[str, Any], default: str) -> str:
    """The name of what turns the context's texts into vectors."""
    return str(config.get("embedder") or default)


def keeps_questions(config: Mapping[str, Any], now: datetime) -> bool:
    """True while the texts of questions are kept in traces."""
    wanted, ends = config.get("trace_text"), config.get(TRACE_ENDS)
    return wanted is True or (isinstance(wanted, str) and isinstance(ends, int) and now.timestamp() < ends)


def min_score_of(config: Mapping[str, Any]) -> float:
    """The score below which nothing goes into a prompt, 0..1."""
    found = config.get("min_score")
    return float(DEFAULTS["min_score"] if found is None else found)
