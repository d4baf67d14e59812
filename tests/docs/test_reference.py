"""The reference pages are complete and name nothing that does not exist: settings, errors, routes, members, files."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from pydantic_core import PydanticUndefined

from keeps.cli.codes import exit_code_of
from keeps.config import Config
from keeps.core import contexts, errors, setting_keys
from keeps.core.cardinality import MANY_VALUED
from keeps.core.errors import KeepsError
from keeps.core.fence import LABELS, PASSAGE_LABEL
from keeps.core.policy import Preset
from keeps.core.settings import document_of, of_preset
from keeps.http.app import create_app
from keeps.http.routes import reserved
from keeps.services import meant
from keeps.services.runtime import open_runtime
from keeps.wire.problems import INTERNAL, METHOD_NOT_ALLOWED, PROBLEMS
from tests.docs.examples import ROOT

REFERENCE = ROOT / "docs" / "reference"


def rows(page: str, *, below: str = "") -> list[list[str]]:
    """The cells of every row of the tables on a page, without heads; only those `below` a heading, when given."""
    text = (REFERENCE / page).read_text("utf-8")
    if below:
        text = text.partition(f"\n## {below}\n")[2].partition("\n## ")[0]
    tables = re.findall(r"(?:^\|.*\n)+", text, re.MULTILINE)
    assert tables, f"no table below {below!r}"
    lines = [line for table in tables for line in table.splitlines()[2:]]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]


# --- settings --------------------------------------------------------------------------------------------


def shown_default(name: str) -> str:
    """How the page writes the default of a setting."""
    default = Config.model_fields[name].default
    assert default is not PydanticUndefined
    if default is None:
        return ""
    return f"`{default}`" if isinstance(default, str) else f"`{json.dumps(default)}`"


def test_every_setting_is_on_the_page_with_its_default() -> None:
    shown = {row[0].strip("`"): row[1] for row in rows("configuration.md") if row[0].startswith("`KEEPS_")}
    assert shown == {f"KEEPS_{name.upper()}": shown_default(name) for name in Config.model_fields}


def test_every_setting_without_a_restart_is_on_the_page_with_default_range_and_role() -> None:
    said = setting_keys.flat(contexts.effective({}) | document_of(of_preset(Preset.DELIBERATE)))
    shown = {row[0].strip("`"): row[1:4] for row in rows("configuration.md", below="Settings without a restart")}

    def default(path: str) -> str:
        value = said.get(path)
        return "" if value is None else f"`{value}`" if isinstance(value, str) else f"`{json.dumps(value)}`"

    assert shown == {path: [default(path), key.wanted, str(key.who)] for path, key in setting_keys.KEYS.items()}


def test_every_setting_is_read_somewhere() -> None:
    source = ROOT / "src" / "keeps"
    code = "".join(path.read_text("utf-8") for path in source.rglob("*.py") if path != source / "config.py")
    assert [name for name in Config.model_fields if not re.search(rf"config\.{name}\b", code)] == []


def test_members_of_a_list_are_written_as_the_page_says(monkeypatch: pytest.MonkeyPatch) -> None:
    page = (REFERENCE / "configuration.md").read_text("utf-8")
    value = re.search(r"`KEEPS_CORS_ORIGINS='(.*?)'`", page)
    assert value
    monkeypatch.setenv("KEEPS_CORS_ORIGINS", value[1])
    assert Config().cors_origins == ("https://memory.example",)


# --- errors ----------------------------------------------------------------------------------------------


def kinds() -> Iterator[type[KeepsError]]:
    for found in vars(errors).values():
        if isinstance(found, type) and issubclass(found, KeepsError) and found is not KeepsError:
            yield found


def test_every_error_is_on_the_page_with_what_it_becomes() -> None:
    shown = {row[0].strip("`"): row[1:4] for row in rows("errors.md")}
    expected = {
        kind.__name__: [str(PROBLEMS[kind].status), f"`{PROBLEMS[kind].slug}`", str(exit_code_of(kind("")))]
        for kind in kinds()
    }
    assert shown == expected
    assert all(len(row) == 6 and all(row) for row in rows("errors.md"))


def test_answers_without_a_class_are_on_the_page_too() -> None:
    page = (REFERENCE / "errors.md").read_text("utf-8")
    for problem in (METHOD_NOT_ALLOWED, INTERNAL):
        assert str(problem.status) in page
        assert f"`{problem.slug}`" in page


# --- routes ----------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Api:
    """What the application offers."""

    routes: set[tuple[str, str]]
    members: set[str]


@pytest.fixture(scope="module")
def api() -> Api:
    return asyncio.run(_described())


async def _described() -> Api:
    async with open_runtime(Config()) as rt:
        app = create_app(rt)
        document: dict[str, Any] = app.openapi()
        served = {
            (method.upper(), path)
            for path, operations in document["paths"].items()
            for method in operations
            if path.startswith("/api/")
        }
        schemas = document["components"]["schemas"].values()
        named = {name for schema in schemas for name in schema.get("properties", ())}
        asked = {
            parameter["name"]
            for operations in document["paths"].values()
            for operation in operations.values()
            for parameter in operation.get("parameters", ())
        }
        return Api(served, {_camel(name) for name in named | asked})


def _camel(name: str) -> str:
    first, *rest = name.split("_")
    return first + "".join(part.capitalize() for part in rest)


def _routes(below: str, prefix: str) -> set[tuple[str, str]]:
    found = [(row[0], prefix + row[1].strip("`")) for row in rows("http.md", below=below)]
    assert len(found) == len(set(found))
    return set(found)


HIDDEN = ("GET", "/api/v1/{context}/sessions/{session}/context")
"""An older form of a route, which the description leaves out."""


def test_every_route_is_on_the_page_and_none_besides(api: Api) -> None:
    shown = _routes("Served: the data plane", "/api/v1/{context}") | _routes("Served: management", "/api/v1")
    assert sorted(shown - {HIDDEN} - api.routes) == []
    assert sorted(api.routes - shown) == []
    assert HIDDEN in shown


def test_what_answers_501_is_on_the_page_and_nothing_besides() -> None:
    shown = {(row[0], row[1].strip("`")) for row in rows("http.md", below="Not served: 501") if len(row) == 2}
    shown = {(method, path) for method, path in shown if method in {"GET", "POST", "PUT", "DELETE"}}
    mounted = [
        (method, re.sub(r":segment\b", "", route.path).removeprefix("/api/v1").removeprefix("/{context}"))
        for router in (reserved.router, reserved.management)
        for route in router.routes
        for method in getattr(route, "methods", ())
    ]
    assert sorted(shown) == sorted(mounted)


def test_every_member_we_added_exists(api: Api) -> None:
    cells = [row[1] for row in rows("http.md", below="What we added")]
    members = {name for cell in cells if "header" not in cell for name in re.findall(r"`(\w+)`", cell)}
    assert len(members) > 20
    assert sorted(members - api.members) == []


# --- the command line ------------------------------------------------------------------------------------


def test_every_key_that_holds_several_values_is_on_the_page_once() -> None:
    shown = [
        key.strip("` ")
        for row in rows("library.md", below="Keys that hold several values")
        for key in row[1].split(",")
    ]
    assert sorted(shown) == sorted(MANY_VALUED)


def test_every_label_is_on_the_page_with_its_meaning() -> None:
    shown = {row[0]: row[1] for row in rows("command-line.md", below="Who stands behind a memory")}
    assert shown.keys() == {*LABELS.values(), PASSAGE_LABEL}
    assert all(shown.values())


def test_the_page_says_how_near_is_near_enough() -> None:
    text = (REFERENCE / "command-line.md").read_text("utf-8").partition("\n## What words mean to forget\n")[2]
    assert re.findall(r"cosine of (\d\.\d)", text) == [str(meant.NEAR_ENOUGH), str(meant.WORTH_TELLING)]


# --- coverage --------------------------------------------------------------------------------------------


def test_every_row_that_is_there_names_tests_and_no_other_does() -> None:
    capabilities = [row for row in rows("coverage.md") if re.fullmatch(r"[A-E]\d+", row[0])]
    assert capabilities
    for name, _, where, proofs in capabilities:
        tests = re.findall(r"`(tests/[\w/]+\.py)::(test_\w+)`", proofs)
        assert bool(tests) == where.startswith(("record", "recall", "consent")), name
        for file, test in tests:
            assert re.search(rf"def {test}\(", (ROOT / file).read_text("utf-8")), f"{name}: {file}::{test}"


# --- the map of the pages --------------------------------------------------------------------------------


def _listed(index: Path) -> set[Path]:
    links = re.findall(r"\]\(([^)#\s]+\.md)", index.read_text("utf-8"))
    return {(index.parent / link).resolve() for link in links}


def test_every_page_is_listed() -> None:
    docs = ROOT / "docs"
    pages = {page for page in docs.rglob("*.md") if page.parent.name != "decisions"} - {docs / "README.md"}
    assert sorted(pages - _listed(docs / "README.md")) == []


def test_every_decision_is_listed_and_begins_with_its_choice() -> None:
    folder = ROOT / "docs" / "decisions"
    pages = sorted(set(folder.glob("*.md")) - {folder / "README.md"})
    assert _listed(folder / "README.md") >= set(pages)
    for number, page in enumerate(pages, start=1):
        assert page.name.startswith(f"{number:04}-"), page.name
        assert re.match(rf"# {number:04}\. \w", page.read_text("utf-8")), page.name
