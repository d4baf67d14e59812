"""The description of the interface: `/openapi.json`, and `/docs`, a plain page that loads nothing else."""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Iterator, Mapping
from html import escape
from typing import Any, Final, cast

from fastapi import FastAPI
from fastapi.dependencies.models import Dependant
from fastapi.openapi.utils import get_openapi
from fastapi.routing import APIRoute, iter_route_contexts
from pydantic import BaseModel
from pydantic.json_schema import models_json_schema
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response

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
_STYLE: Final = """
:root { color-scheme: light dark; font: 16px/1.5 system-ui, sans-serif; }
body { max-width: 60rem; margin: 0 auto; padding: 1rem; }
code, pre { font-family: ui-monospace, monospace; font-size: .9em; }
pre { overflow-x: auto; padding: .5rem; border: 1px solid; }
summary { cursor: pointer; padding: .3rem 0; overflow-wrap: anywhere; }
table { border-collapse: collapse; }
td, th { text-align: left; vertical-align: top; padding: .1rem .8rem .1rem 0; }
"""
_CSP: Final = (
    "default-src 'none'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; style-src 'sha256-"
    + base64.b64encode(hashlib.sha256(_STYLE.encode()).digest()).decode()
    + "'"
)
PAGE_HEADERS: Final[Mapping[str, str]] = {
    "Content-Security-Policy": _CSP,
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
}


def install(app: FastAPI) -> None:
    """Gives `app` its description, with request bodies and query parameters, and a page that shows it."""
    page: list[str] = []

    def openapi() -> dict[str, Any]:
        if not app.openapi_schema:
            app.openapi_schema = describe(app)
        return app.openapi_schema

    async def show(_: Request) -> Response:
        if not page:
            page.append(render(openapi()))
        return HTMLResponse(page[0], headers=PAGE_HEADERS)

    app.openapi = openapi
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
    schemas["Problem"] = _PROBLEM
    document["components"]["securitySchemes"] = {"key": {"type": "http", "scheme": "bearer"}}
    for path, operations in cast("dict[str, dict[str, dict[str, Any]]]", document["paths"]).items():
        for method, operation in operations.items():
            operation["responses"].pop("422", None)
            operation["responses"]["default"] = _FAILURE
            operation["security"] = [{"key": []}] if path != "/api/v1/health" else []
            for reader in readers.get((path, method), ()):
                if isinstance(reader, JsonBody):
                    operation["requestBody"] = _body(reader.model)
                else:
                    operation.setdefault("parameters", []).extend(_parameters(reader.model))
    return document


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
    for name, member in schema.get("properties", {}).items():
        yield {"name": name, "in": "query", "required": name in schema.get("required", ()), "schema": member}


def render(document: Mapping[str, Any]) -> str:
    """The description as one HTML page."""
    parts = [
        "<!doctype html><html lang=en><meta charset=utf-8><meta name=viewport content='width=device-width'>",
        f"<title>{escape(document['info']['title'])}: the HTTP interface</title><style>{_STYLE}</style>",
        f"<main><h1>{escape(document['info']['title'])} {escape(document['info']['version'])}</h1>",
        "<p>The same as a machine-readable description: <a href='openapi.json'>openapi.json</a>.</p>",
    ]
    sections: dict[str, list[str]] = {}
    for path, operations in document["paths"].items():
        for method, operation in operations.items():
            tag = (operation.get("tags") or ["other"])[0]
            sections.setdefault(tag, []).append(_operation(method, path, operation))
    for tag, entries in sections.items():
        parts.append(f"<section><h2>{escape(tag)}</h2>{''.join(entries)}</section>")
    parts.append("<section><h2>Shapes</h2>")
    for name, schema in sorted(document["components"]["schemas"].items()):
        parts.append(
            f"<details id='{escape(name)}'><summary><code>{escape(name)}</code></summary>"
            f"<pre>{escape(json.dumps(schema, indent=1, ensure_ascii=False))}</pre></details>"
        )
    parts.append("</section></main></html>")
    return "".join(parts)


def _operation(method: str, path: str, operation: Mapping[str, Any]) -> str:
    rows = [
        f"<tr><td><code>{escape(item['name'])}</code></td><td>{escape(item['in'])}</td></tr>"
        for item in operation.get("parameters", ())
    ]
    shapes = [f"<p>Takes {link}</p>" for link in _links(operation.get("requestBody", {}))]
    for status, reply in sorted(operation.get("responses", {}).items()):
        links = ", ".join(_links(reply)) or escape(reply.get("description", ""))
        shapes.append(f"<p>{escape(status)}: {links}</p>")
    return (
        f"<details><summary><code>{method.upper()} {escape(path)}</code> "
        f"{escape(operation.get('summary', ''))}</summary>"
        f"<p>{escape(operation.get('description', ''))}</p>"
        f"{'<table>' + ''.join(rows) + '</table>' if rows else ''}{''.join(shapes)}</details>"
    )


def _links(holder: Mapping[str, Any]) -> list[str]:
    names: list[str] = []
    for media in holder.get("content", {}).values():
        reference = str(media.get("schema", {}).get("$ref", ""))
        if reference:
            names.append(escape(reference.rpartition("/")[2]))
    return [f"<a href='#{name}'>{name}</a>" for name in names]
