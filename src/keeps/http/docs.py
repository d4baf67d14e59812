"""The description of the interface: `/openapi.json`, `/docs` for people, and `/`, which says where both are."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, Final, cast

from fastapi import FastAPI
from fastapi.dependencies.models import Dependant
from fastapi.openapi.utils import get_openapi
from fastapi.routing import APIRoute, iter_route_contexts
from pydantic import BaseModel
from pydantic.json_schema import models_json_schema
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, Response

from keeps.http import manual
from keeps.http.body import JsonBody
from keeps.http.params import QueryOf

_REF: Final = "#/components/schemas/{model}"
_PROBLEM: Final[dict[str, Any]] = {
    "type": "object",
    "description": "Why a request failed. message and detail say the same.",
    "required": ["type", "title", "status", "detail", "instance", "message"],
    "properties": {
        "type": {"type": "string"},
        "title": {"type": "string"},
        "status": {"type": "integer"},
        "detail": {"type": "string"},
        "instance": {"type": "string"},
        "message": {"type": "string"},
        "retry_after": {"type": ["integer", "null"], "description": "Seconds."},
    },
}
_FAILURE: Final[dict[str, Any]] = {
    "description": "Any failure",
    "content": {"application/problem+json": {"schema": {"$ref": "#/components/schemas/Problem"}}},
}
WAYS: Final = {"docs": "/docs", "openapi": "/openapi.json", "health": "/api/v1/health"}
"""What `/` names."""


def install(app: FastAPI) -> None:
    """Gives `app` its description, with request bodies and query parameters, a page that shows it, and a root."""
    page: list[str] = []

    def openapi() -> dict[str, Any]:
        if not app.openapi_schema:
            app.openapi_schema = describe(app)
        return app.openapi_schema

    async def show(_: Request) -> Response:
        if not page:
            page.append(manual.render(openapi()))
        return HTMLResponse(page[0], headers=manual.PAGE_HEADERS)

    async def root(_: Request) -> Response:
        return JSONResponse({"name": app.title, "version": app.version, **WAYS})

    app.openapi = openapi
    app.add_route("/", root, include_in_schema=False)
    app.add_route("/docs", show, include_in_schema=False)


def describe(app: FastAPI) -> dict[str, Any]:
    """The OpenAPI document of `app`, with the bodies and parameters that our own readers take."""
    document = get_openapi(title=app.title, version=app.version, summary=app.summary, routes=app.routes)
    readers = {
        (str(route.path_format), method.lower()): list(_readers(route.dependant))
        for route in iter_route_contexts(app.routes)
        if isinstance(route.original_route, APIRoute)
        for method in route.methods or ()
    }
    models = {reader.model for found in readers.values() for reader in found}
    ordered = sorted(models, key=lambda model: model.__name__)
    _, defined = models_json_schema([(model, "validation") for model in ordered], ref_template=_REF)
    schemas = document.setdefault("components", {}).setdefault("schemas", {})
    schemas.update(defined.get("$defs", {}))
    for unused in ("HTTPValidationError", "ValidationError"):
        schemas.pop(unused, None)
    for schema in schemas.values():
        _untitle(schema)
    for model in ordered:
        # The generator sorts members by name; an example reads better as it was written.
        extra = model.model_config.get("json_schema_extra")
        if isinstance(extra, dict) and "examples" in extra and model.__name__ in schemas:
            schemas[model.__name__]["examples"] = extra["examples"]
    schemas["Problem"] = _PROBLEM
    document["components"]["securitySchemes"] = {"key": {"type": "http", "scheme": "bearer"}}
    for path, operations in cast("dict[str, dict[str, dict[str, Any]]]", document["paths"]).items():
        for method, operation in operations.items():
            operation["summary"] = _title(operation)
            operation["responses"].pop("422", None)
            operation["responses"]["default"] = _FAILURE
            operation["security"] = [{"key": []}] if path != "/api/v1/health" else []
            for reader in readers.get((path, method), ()):
                if isinstance(reader, JsonBody):
                    operation["requestBody"] = _body(reader.model)
                else:
                    operation.setdefault("parameters", []).extend(_parameters(reader.model))
    return document


def _title(operation: dict[str, Any]) -> str:
    """What an operation does, in the words its description begins with."""
    return re.split(r"[.;:](?:\s|$)", operation.get("description", ""), maxsplit=1)[0] or operation["summary"]


def _untitle(schema: dict[str, Any]) -> None:
    """Takes away the titles of members, which repeat their names in a worse spelling."""
    for member in schema.get("properties", {}).values():
        member.pop("title", None)


def _readers(dependant: Dependant) -> Iterator[JsonBody[Any] | QueryOf[Any]]:
    for inner in dependant.dependencies:
        reader: object = inner.call
        if isinstance(reader, JsonBody | QueryOf):
            yield cast("JsonBody[Any] | QueryOf[Any]", reader)
        yield from _readers(inner)


def _body(model: type[BaseModel]) -> dict[str, Any]:
    required = any(field.is_required() for field in model.model_fields.values())
    schema = {"$ref": _REF.format(model=model.__name__)}
    return {"required": required, "content": {"application/json": {"schema": schema}}}


def _parameters(model: type[BaseModel]) -> Iterator[dict[str, Any]]:
    schema = model.model_json_schema(ref_template=_REF)
    _untitle(schema)
    for name, member in schema.get("properties", {}).items():
        yield {"name": name, "in": "query", "required": name in schema.get("required", ()), "schema": member}
