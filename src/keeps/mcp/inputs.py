"""What each tool takes: checked here, and described to the model in the same words."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Final, Literal, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from keeps.client.given import MAX_K
from keeps.core.errors import Invalid
from keeps.wire.base import K_DEFAULT, first_fault

Scopes = Annotated[
    str | list[str | list[str]] | None,
    Field(description="A path, a list of paths of which one suffices, or a list of lists: an OR of ANDs."),
]
Labels = Annotated[list[str] | None, Field(description="Labels, each `name=value`.")]
K = Annotated[int, Field(ge=1, le=MAX_K, description=f"How many at most, 1 to {MAX_K}.")]

_NULL: Final = {"type": "null"}


class Input(BaseModel):
    """What every tool takes: a null counts as absent, a member that is not known is refused."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    context_id: Annotated[
        str | None, Field(description="Which memory is meant; only the one this connection is for is answered.")
    ] = None


class RememberIn(Input):
    text: Annotated[str, Field(description="What to remember, in whole sentences that stand by themselves.")]
    session_id: Annotated[str | None, Field(description="The conversation it was said in.")] = None
    scope: Scopes = None
    labels: Labels = None
    infer: Annotated[
        Literal["full", "preview", "none"] | None,
        Field(description="full: draw facts, else keep it as a note. preview: only show them. none: history alone."),
    ] = None


class RecallIn(Input):
    query: Annotated[str, Field(description="A question, or words, names and keys to look for.")]
    k: K = K_DEFAULT
    mode: Annotated[
        Literal["hybrid", "bm25", "vector", "graph"] | None, Field(description="How to look; leave it out.")
    ] = None
    lens: Scopes = None
    labels: Labels = None


class ContextIn(Input):
    query: Annotated[str, Field(description="What the person asks or speaks about now.")]
    k: K = K_DEFAULT
    max_tokens: Annotated[
        int | None, Field(ge=0, le=8000, description="How long the block may be; it only shortens it.")
    ] = None
    lens: Scopes = None
    labels: Labels = None


class ForgetIn(Input):
    query: Annotated[
        str,
        Field(description="The exact words of a memory, or its id as `recall` gives it: `attribute:…`, `turn:…`."),
    ]
    purge: Annotated[bool, Field(description="Erase it for good instead of retiring it.")] = False
    dry_run: Annotated[bool, Field(description="Only tell what would go.")] = False


class InspectIn(Input):
    ref: Annotated[
        str,
        Field(description="`entity:person/mara`, `attribute:person/mara/role`, `turn:<id>`, or any id from `recall`."),
    ]


InputT = TypeVar("InputT", bound=Input)


def parse(model: type[InputT], arguments: Mapping[str, Any] | None) -> InputT:
    """The arguments of a call as `model`. Raises: Invalid naming the first that is wrong, never its value."""
    given = {name: value for name, value in (arguments or {}).items() if value is not None}
    unknown = sorted(given.keys() - model.model_fields.keys())
    if unknown:
        raise Invalid(f"there is no argument of that name: there are {', '.join(model.model_fields)}")
    try:
        return model.model_validate(given)
    except ValidationError as error:
        raise Invalid(first_fault(error)) from None


def schema_of(model: type[Input]) -> dict[str, Any]:
    """The JSON Schema of a tool's arguments; what may be left out is not written as nullable."""
    raw = model.model_json_schema()
    return {
        "type": "object",
        "properties": {name: _plain(member) for name, member in raw["properties"].items()},
        "required": raw.get("required", []),
        "additionalProperties": False,
    }


def _plain(member: dict[str, Any]) -> dict[str, Any]:
    kept = {name: value for name, value in member.items() if name != "title"}
    if kept.get("default", ...) is None:
        del kept["default"]
    choices = [choice for choice in kept.get("anyOf", ()) if choice != _NULL]
    if len(choices) == 1:
        del kept["anyOf"]
        kept |= choices[0]
    elif choices:
        kept["anyOf"] = choices
    return kept
