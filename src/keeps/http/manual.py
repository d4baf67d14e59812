"""The description of the interface as one plain page for people: it loads nothing else and runs nothing."""

from __future__ import annotations

import base64
import hashlib
import json
import re
from collections.abc import Iterator, Mapping
from html import escape
from typing import Any, Final, cast

Schema = Mapping[str, Any]

_STYLE: Final = """
:root { color-scheme: light dark; font: 16px/1.5 system-ui, sans-serif; }
body { max-width: 60rem; margin: 0 auto; padding: 1rem; }
code, pre, td:first-child { font-family: ui-monospace, monospace; font-size: .9em; }
pre { overflow-x: auto; padding: .5rem; border: 1px solid; }
summary { cursor: pointer; padding: .3rem 0; overflow-wrap: anywhere; }
table { border-collapse: collapse; }
td, th { text-align: left; vertical-align: top; padding: .1rem .8rem .1rem 0; overflow-wrap: anywhere; }
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


def render(document: Mapping[str, Any]) -> str:
    """An OpenAPI document as one HTML page: what each route does and takes, with examples, and every shape.

    End tags that HTML does without are left out of what stands there hundreds of times.
    """
    shapes: Mapping[str, Schema] = document["components"]["schemas"]
    name = escape(document["info"]["title"])
    parts = [
        "<!doctype html><html lang=en><meta charset=utf-8><meta name=viewport content='width=device-width'>",
        f"<title>{name}: the HTTP interface</title><style>{_STYLE}</style>",
        f"<main><h1>{name} {escape(document['info']['version'])}</h1>",
        "<p>A key goes into the header <code>Authorization: Bearer &lt;key&gt;</code>. Members and parameters that "
        "are not known here are ignored, unless a shape says that it refuses them. What fails is answered with a "
        f"{_link('Problem')}. The same for machines, in full: <a href='openapi.json'>openapi.json</a>.</p>",
    ]
    sections: dict[str, list[str]] = {}
    for path, operations in document["paths"].items():
        for method, operation in operations.items():
            tag = (operation.get("tags") or ["other"])[0]
            sections.setdefault(tag, []).append(_operation(method, path, operation, shapes))
    for tag, entries in sections.items():
        parts.append(f"<section><h2>{escape(tag[:1].upper() + tag[1:])}</h2>{''.join(entries)}</section>")
    parts.append("<section><h2>Shapes</h2>")
    parts += [_shape(shape, schema) for shape, schema in sorted(shapes.items())]
    parts.append("</section></main></html>")
    return "".join(parts)


def _operation(method: str, path: str, operation: Schema, shapes: Mapping[str, Schema]) -> str:
    title, about = operation.get("summary", ""), operation.get("description", "")
    parts = [] if about == f"{title}." else [f"<p>{_prose(about)}"]
    if rows := [_parameter(item) for item in operation.get("parameters", ())]:
        parts.append(f"<table>{''.join(rows)}</table>")
    for shape in _references(operation.get("requestBody", {})):
        parts.append(f"<p>Takes {_link(shape)}")
        for example in shapes[shape].get("examples", ()):
            parts.append(f"<pre>{escape(json.dumps(example, indent=2, ensure_ascii=False))}</pre>")
    for status, reply in sorted(operation.get("responses", {}).items()):
        if status == "default":
            continue  # the same for all of them, and said at the top of the page
        told = ", ".join(map(_link, _references(reply))) or escape(reply.get("description", ""))
        parts.append(f"<p>{escape(status)}: {told}")
    return (
        f"<details><summary><code>{method.upper()} {escape(path)}</code> "
        f"{_prose(title)}</summary>{''.join(parts)}</details>"
    )


def _parameter(item: Schema) -> str:
    about = item["schema"].get("description") or item.get("description", "")
    need = "needed" if item.get("required") else ""
    return _row(item["name"], escape(item["in"]), _type(item["schema"]), need, _prose(about))


def _row(name: str, *about: str) -> str:
    """A row of a table: a name, and what is told about it, as HTML; without empty cells at its end."""
    last = max((number for number, cell in enumerate(about, start=1) if cell), default=0)
    return f"<tr><td>{escape(name)}" + "".join(f"<td>{cell}" for cell in about[:last])


def _shape(name: str, schema: Schema) -> str:
    needed = schema.get("required", ())
    rows = [
        _row(
            member,
            _type(about),
            "needed" if member in needed else _default(about),
            _prose(about.get("description", "")),
        )
        for member, about in schema.get("properties", {}).items()
    ]
    body = f"<table>{''.join(rows)}</table>" if rows else f"<p>{_type(schema)}"
    about = f"<p>{_prose(schema.get('description', ''))}" if schema.get("description") else ""
    if schema.get("additionalProperties") is False:
        about += "<p>It refuses members that are not named here."
    return f"<details id='{escape(name)}'><summary><code>{escape(name)}</code></summary>{about}{body}</details>"


def _default(schema: Schema) -> str:
    default = schema.get("default")
    return "" if default in (None, [], "") else f"<code>{escape(json.dumps(default))}</code> unless given"


def _type(schema: Schema) -> str:
    """The type of a value in a few words."""
    if "$ref" in schema:
        return _link(_named(schema))
    if "enum" in schema:
        return " or ".join(f"<code>{escape(json.dumps(value))}</code>" for value in schema["enum"])
    for key in ("anyOf", "oneOf"):
        if key in schema:
            members = cast("list[Schema]", schema[key])
            return " or ".join(dict.fromkeys(_type(member) for member in members if member.get("type") != "null"))
    kind = schema.get("type", "anything")
    if isinstance(kind, list):
        return " or ".join(escape(str(each)) for each in cast("list[str]", kind) if each != "null")
    if kind == "array":
        return f"list of {_type(schema.get('items', {}))}"
    if kind == "object" and isinstance(schema.get("additionalProperties"), Mapping):
        return f"object of {_type(schema['additionalProperties'])}"
    if kind == "object" and "properties" in schema:
        return f"object of {', '.join(f'<code>{escape(name)}</code>' for name in schema['properties'])}"
    return "time" if schema.get("format") == "date-time" else {"string": "text"}.get(kind, escape(kind))


def _prose(text: str) -> str:
    """Text with what stands between backticks as code."""
    return re.sub(r"`([^`]*)`", r"<code>\1</code>", escape(text))


def _references(holder: Schema) -> Iterator[str]:
    for media in holder.get("content", {}).values():
        if "$ref" in media.get("schema", {}):
            yield _named(media["schema"])


def _named(schema: Schema) -> str:
    return str(schema["$ref"]).rpartition("/")[2]


def _link(shape: str) -> str:
    return f"<a href='#{escape(shape)}'>{escape(shape)}</a>"
