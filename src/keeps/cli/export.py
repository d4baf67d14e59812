"""`keeps export`: write out everything the caller may see."""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Callable, Generator, Mapping
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
    file: Annotated[
        Path | None, typer.Argument(metavar="FILE", help="Where to; stdout for - and unless given.")
    ] = None,
    format_: Annotated[str, typer.Option("--format", metavar="jsonl|json|markdown", help="How to write it.")] = "jsonl",
    force: Annotated[bool, typer.Option("--force", help="Replace a file that is there.")] = False,
) -> None:
    """Write out everything you may see, superseded values too: as JSON for programs, or as Markdown for people."""
    if format_ not in _WRITERS:
        raise typer.BadParameter("the format is jsonl, json or markdown")
    reach = Reach.of(ctx)
    if file == Path("-"):
        file = None

    async def work(memory: Client) -> int:
        count = 0
        with _target(file, force=force) as out:
            writer = _WRITERS[format_]()
            async for entry in everything(memory):
                out.write(writer.record(entry))
                count += 1
            out.write(writer.end())
        return count

    count = reach.ask(work)
    if file is not None:
        note(f"Wrote {count} records to {file}.")
        if reach.json:
            print(json.dumps({"file": str(file), "records": count}))


class _JsonLines:
    """One JSON object a line."""

    def record(self, entry: Entry) -> str:
        return _json(entry) + "\n"

    def end(self) -> str:
        return ""


class _Json:
    """One JSON document, `{"format": …, "version": …, "records": […]}`, written a record at a time."""

    _BEGIN: Final = '{"format": "keeps-export", "version": 1, "records": ['

    def __init__(self) -> None:
        self._before = self._BEGIN

    def record(self, entry: Entry) -> str:
        before, self._before = self._before, ","
        return f"{before}\n{_json(entry)}"

    def end(self) -> str:
        return (self._BEGIN if self._before == self._BEGIN else "") + "\n]}\n"


def _json(entry: Entry) -> str:
    """One object on one line, also for readers that take more than a line feed for the end of one."""
    text = json.dumps(entry.members(), ensure_ascii=False)
    return _LINE_ENDS.sub(lambda found: f"\\u{ord(found.group()):04x}", text)


_LINE_ENDS: Final = re.compile("[\x85\u2028\u2029]")


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

    def record(self, entry: Entry) -> str:
        title = self._TITLES[entry.kind]
        heading = f"\n## {title}\n" if title != self._title else ""
        self._title = title
        return heading + self._item(entry.kind, entry.members())

    def end(self) -> str:
        return ""

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
    one = _SIGNS.sub(r"\\\g<0>", " ".join(plain(text).split()))
    return _LIST.sub(r"\1\\\2", one)


_SIGNS: Final = re.compile(r"[\\`*_\[\]<>#|~&!$]")
_LIST: Final = re.compile(r"^(\d*)([-+=.)])")
"""What would begin a list, a rule or a heading of its own at the beginning of an item."""

_WRITERS: Final[Mapping[str, Callable[[], _JsonLines | _Json | _Markdown]]] = {
    "jsonl": _JsonLines,
    "json": _Json,
    "markdown": _Markdown,
}


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
            out.flush()
            os.fsync(out.fileno())
        fresh.replace(file)
    except OSError as error:
        raise Invalid(f"{file} cannot be written: {error.strerror}") from None
    finally:
        fresh.unlink(missing_ok=True)
