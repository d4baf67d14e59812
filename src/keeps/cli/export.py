"""`keeps export`: write out everything the caller may see."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any, Final, TextIO

import typer

from keeps.cli.reach import Reach, Reaching, note
from keeps.client import Client
from keeps.client.inventory import Entry, everything
from keeps.core.errors import Conflict, Invalid
from keeps.core.fence import plain

app = typer.Typer()


@app.command(cls=Reaching, epilog="Example: keeps export memory.md --format markdown")
def export(
    ctx: typer.Context,
    file: Annotated[Path | None, typer.Argument(metavar="FILE", help="Where to; stdout unless given.")] = None,
    format_: Annotated[str, typer.Option("--format", metavar="jsonl|markdown", help="How to write it.")] = "jsonl",
    force: Annotated[bool, typer.Option("--force", help="Replace a file that is there.")] = False,
) -> None:
    """Write out everything you may see, superseded values too: as JSON lines, or as Markdown for people."""
    if format_ not in {"jsonl", "markdown"}:
        raise typer.BadParameter("the format is jsonl or markdown")
    reach = Reach.of(ctx)

    async def work(memory: Client) -> int:
        count = 0
        with _target(file, force=force) as out:
            writer = _json_line if format_ == "jsonl" else _Markdown()
            async for entry in everything(memory):
                out.write(writer(entry))
                count += 1
        return count

    count = reach.ask(work)
    if file is not None:
        note(f"Wrote {count} records to {file}.")
        if reach.json:
            print(json.dumps({"file": str(file), "records": count}))


def _json_line(entry: Entry) -> str:
    return json.dumps(entry.members(), ensure_ascii=False) + "\n"


class _Markdown:
    """One heading a kind, one list item a record; what a memory says cannot begin a line of its own."""

    _TITLES: Final = {
        "scope": "Scopes",
        "entity": "Facts",
        "fact": "Facts",
        "relation": "Relations",
        "action": "Actions",
        "session": "Conversations",
        "turn": "Conversations",
    }

    def __init__(self) -> None:
        self._title = ""

    def __call__(self, entry: Entry) -> str:
        title = self._TITLES[entry.kind]
        heading = f"\n## {title}\n" if title != self._title else ""
        self._title = title
        return heading + self._item(entry.kind, entry.members())

    def _item(self, kind: str, row: dict[str, Any]) -> str:
        match kind:
            case "entity":
                return f"\n### {_line(row['name'])} ({_line(row['id'])})\n\n"
            case "session":
                return f"\n### {_line(row['createdAt'][:10])} session {_line(row['id'])}\n\n"
            case "scope":
                return f"- {_line(row['path'])}\n"
            case "turn":
                who = row.get("speaker") or row["role"]
                return f"- {row['createdAt']} **{_line(who)}**: {_line(row['content'])}\n"
            case "fact":
                ended = f", until {row['validUntil']}" if row.get("validUntil") else ""
                since = row.get("validFrom") or row["createdAt"]
                return f"- {_line(row['key'])}: {_line(row['value'])} (since {since}{ended})\n"
            case _:
                return f"- {_line(row.get('summary') or row['id'])}\n"


def _line(text: str) -> str:
    """Text on one line, with what Markdown or HTML would take for its own written out."""
    one = " ".join(plain(text).split())
    return "".join(f"\\{char}" if char in "\\`*_[]<>#|" else char for char in one)


@contextmanager
def _target(file: Path | None, *, force: bool) -> Generator[TextIO]:
    """A text file that takes its name only when it is whole, readable by its owner alone; or stdout."""
    if file is None:
        yield sys.stdout
        return
    if file.exists() and not force:
        raise Conflict(f"{file} is there already: choose another name, or pass --force")
    fresh = file.with_name(f".{file.name}.{os.getpid()}")
    try:
        with os.fdopen(os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="utf-8") as out:
            yield out
        fresh.replace(file)
    except OSError as error:
        raise Invalid(f"{file} cannot be written: {error.strerror}") from None
    finally:
        fresh.unlink(missing_ok=True)
