"""Reading the query string into a model, in either spelling, unknown names ignored."""

from __future__ import annotations

from typing import Generic, TypeVar, get_origin

from fastapi import Request
from pydantic import BaseModel

from keeps.core.errors import Invalid
from keeps.core.text import refuse_bad_text
from keeps.wire.base import validated

ModelT = TypeVar("ModelT", bound=BaseModel)

_MANY = (list, tuple)


class QueryOf(Generic[ModelT]):
    """A dependency that gives the query string as `model`: `Depends(QueryOf(PageQuery))`.

    A parameter without a value counts as absent. One that holds a list may be repeated.
    """

    def __init__(self, model: type[ModelT]) -> None:
        self.model = model
        self._many = frozenset(
            name for name, field in model.model_fields.items() if get_origin(field.annotation) in _MANY
        )

    async def __call__(self, request: Request) -> ModelT:
        """Raises: Invalid, also for a parameter given twice with different values."""
        values: dict[str, str | list[str]] = {}
        for name, value in request.query_params.multi_items():
            if not value:
                continue
            refuse_bad_text(value, what="the query string")
            if name in self._many:
                values[name] = [*values.get(name, ()), value]
            elif values.setdefault(name, value) != value:
                raise Invalid("a query parameter is given twice with different values")
        return validated(self.model, values)
