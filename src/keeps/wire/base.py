"""What all JSON shapes share: which spellings come in, which goes out, and how times are written."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Annotated, Any, ClassVar, Final, Self, TypeVar, cast

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError, model_validator
from pydantic.alias_generators import to_camel

from keeps.core.errors import Invalid, KeepsError
from keeps.core.instants import parse_instant

K_DEFAULT: Final = 10
K_MAX: Final = 50

_ModelT = TypeVar("_ModelT", bound=BaseModel)


def example(**members: Any) -> ConfigDict:
    """The configuration of a model whose description shows a request with these members."""
    return ConfigDict(json_schema_extra={"examples": [members]})


class WireIn(BaseModel):
    """A request. Each field is read from its own name, its camelCase form, and the names in `also`.

    Unknown members are ignored and an explicit null counts as absent. Two spellings of one field with
    different values are refused: which was meant cannot be known.
    """

    model_config = ConfigDict(extra="ignore", frozen=True, populate_by_name=True, alias_generator=to_camel)

    also: ClassVar[Mapping[str, tuple[str, ...]]] = {}
    _spellings: ClassVar[Mapping[str, str]] = {}

    @classmethod
    def __pydantic_init_subclass__(cls, **kwargs: Any) -> None:
        super().__pydantic_init_subclass__(**kwargs)
        table: dict[str, str] = {}
        for name, others in cls.also.items():
            for other in others:
                table[other] = table[to_camel(other)] = name
        for name in cls.model_fields:
            table[name] = table[to_camel(name)] = name
        cls._spellings = table

    @model_validator(mode="before")
    @classmethod
    def _any_spelling(cls, data: object) -> object:
        if not isinstance(data, Mapping):
            return data
        fields: dict[str, object] = {}
        for key, value in cast("Mapping[str, object]", data).items():
            name = cls._spellings.get(key)
            if name is None or value is None:
                continue
            if name in fields and fields[name] != value:
                raise ValueError(f"{name} is given twice with different values")
            fields[name] = value
        return fields


class StrictIn(WireIn):
    """A request in which every member counts: one that is not known is refused instead of ignored."""

    model_config = ConfigDict(extra="forbid")  # and said so in the schema; `_nothing_else` knows all spellings

    @model_validator(mode="before")
    @classmethod
    def _nothing_else(cls, data: object) -> object:
        if isinstance(data, Mapping):
            unknown = next((key for key in cast("Mapping[str, object]", data) if key not in cls._spellings), None)
            if unknown is not None:
                raise ValueError(f"{unknown[:64]} may not be given here")
        return cast("object", data)


class WireOut(BaseModel):
    """A response: camelCase, optional members left out while they have no value."""

    model_config = ConfigDict(frozen=True, populate_by_name=True, alias_generator=to_camel, serialize_by_alias=True)

    def to_json(self) -> bytes:
        """UTF-8 JSON, fields without a value left out."""
        return self.model_dump_json(exclude_none=True).encode()

    @classmethod
    def parse(cls, data: object) -> Self:
        """The value a reply stands for; tolerant of members it does not know. Raises: Invalid."""
        return validated(cls, data)


def validated(model: type[_ModelT], data: object) -> _ModelT:
    """`data` as `model`. Raises: Invalid naming the first field that is wrong, never its value."""
    try:
        return model.model_validate(data)
    except ValidationError as error:
        raise Invalid(first_fault(error)) from None


def first_fault(error: ValidationError) -> str:
    """One sentence about the first thing wrong: where it is and what is expected, without the value sent."""
    fault = error.errors(include_url=False, include_input=False, include_context=False)[0]
    where = ".".join(str(part) for part in fault["loc"])
    what = fault["msg"].removeprefix("Value error, ")
    if fault["type"] == "missing":
        return f"{where} is required"
    return f"{where}: {what}" if where else what


def _instant(value: object) -> datetime:
    try:
        return parse_instant(value)
    except KeepsError as error:
        raise ValueError(error.message) from None


def _k(value: object) -> object:
    if value == 0 and not isinstance(value, bool):
        return K_DEFAULT
    return value


def bare_id(value: str | None, *prefixes: str) -> str | None:
    """The id without the name of its table: both `turn:x` and `x` name turn `x`; None stays None."""
    if value is None:
        return None
    table, separator, rest = value.partition(":")
    return rest if separator and rest and table in prefixes else value


Instant = Annotated[datetime, BeforeValidator(_instant)]
"""RFC 3339 with any offset in, UTC inside."""

TopK = Annotated[int, BeforeValidator(_k), Field(ge=1, le=K_MAX)]
"""How many hits at most, 1 to 50; 0 stands for the default of 10."""

ScopeSets = Annotated[
    Any,
    Field(
        description='An OR of clauses, each an AND of paths: [["team/a"], ["team/b", "clearance/x"]]. '
        "A single path and a flat list (OR) are understood too.",
        json_schema_extra={
            "anyOf": [
                {"type": "string"},
                {
                    "type": "array",
                    "items": {"anyOf": [{"type": "string"}, {"type": "array", "items": {"type": "string"}}]},
                },
            ]
        },
    ),
]
"""Any spelling of scopes or of a lens; `core.scopes` parses it."""

Labels = Annotated[tuple[str, ...], Field(description="Labels `key=value`.")]
"""Labels as sent; `core.text.check_labels` checks them."""
