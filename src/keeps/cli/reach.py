"""How a command reaches the memory, and how it prints: the options that all of them share."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Annotated, Any, Final, Self, TypeVar

import typer
from pydantic import ValidationError
from rich.console import Console
from rich.text import Text
from typer.core import TyperCommand

from keeps.cli.codes import USAGE
from keeps.client import Client
from keeps.config import Config
from keeps.core.entities import EntityType, parse_ref
from keeps.core.errors import Invalid, StoreRefused
from keeps.core.fence import plain
from keeps.core.instants import parse_instant
from keeps.memory import DEFAULT_CONTEXT, DEFAULT_FOLDER, Memory
from keeps.store.secrets import PEPPER_NAME
from keeps.wire.base import WireOut

_REACH: Final = "How to reach the memory"
T = TypeVar("T")


def _template(
    reach_data: Annotated[
        str | None,
        typer.Option(
            "--data",
            metavar="DIR",
            envvar="KEEPS_DATA",
            rich_help_panel=_REACH,
            help="The data folder; ./memory unless given.",
        ),
    ] = None,
    reach_endpoint: Annotated[
        str | None,
        typer.Option(
            "--endpoint",
            metavar="URL",
            envvar="KEEPS_ENDPOINT",
            rich_help_panel=_REACH,
            help="A running service, not a folder.",
        ),
    ] = None,
    reach_key: Annotated[
        str | None,
        typer.Option(
            "--key",
            metavar="KEY",
            envvar="KEEPS_KEY",
            rich_help_panel=_REACH,
            help="The key; beside a folder its owner's.",
        ),
    ] = None,
    reach_context: Annotated[
        str,
        typer.Option("--context", metavar="ID", envvar="KEEPS_CONTEXT", rich_help_panel=_REACH, help="Which context."),
    ] = DEFAULT_CONTEXT,
    reach_json: Annotated[bool, typer.Option("--json", help="Print the result as JSON, and nothing else.")] = False,
) -> None: ...


@cache
def _options() -> list[Any]:
    """The shared options, as the command line library sees them."""
    pattern = typer.Typer(add_completion=False)
    pattern.command()(_template)
    return typer.main.get_command(pattern).params


class Reaching(TyperCommand):
    """A command with the shared options, which it finds in `Reach.of(ctx)`."""

    def __init__(self, *args: Any, params: list[Any] | None = None, **kwargs: Any) -> None:
        super().__init__(*args, params=[*(params or []), *_options()], **kwargs)

    def invoke(self, ctx: Any) -> Any:
        given = {option.name: ctx.params.pop(option.name) for option in _options()}
        ctx.obj = Reach(
            folder=Path(given["reach_data"] or DEFAULT_FOLDER).expanduser(),
            endpoint=given["reach_endpoint"],
            key=given["reach_key"],
            context=given["reach_context"],
            json=given["reach_json"],
        )
        return super().invoke(ctx)


@dataclass(frozen=True, slots=True, kw_only=True)
class Reach:
    """Where one command goes, and whether people or programs read what it prints."""

    folder: Path
    endpoint: str | None
    key: str | None = field(repr=False)
    context: str
    json: bool

    @classmethod
    def of(cls, ctx: typer.Context) -> Self:
        """What the options of the running command say."""
        assert isinstance(ctx.obj, cls)
        return ctx.obj

    def ask(self, work: Callable[[Client], Awaitable[T]], *, creates: bool = False) -> T:
        """What `work` makes of the memory. Only a command that writes `creates` a folder that is not there.

        Raises: as the verbs that `work` uses; StoreRefused without a folder.
        """

        async def run() -> T:
            async with self.opened(creates=creates) as memory:
                return await work(memory)

        return asyncio.run(run())

    @asynccontextmanager
    async def opened(self, *, creates: bool = False) -> AsyncGenerator[Client]:
        """The memory, open. Raises: as `ask`."""
        if self.endpoint is not None:
            async with Client(self.endpoint, key=self.key, context=self.context) as client:
                yield client
            return
        if not creates:
            check_memory(self.folder)
        opening = Memory.open(
            self.folder, context=self.context, key=self.key, saved_key="owner", config=settings(data=self.folder)
        )
        async with opening as memory:
            if memory.created:
                note(f"Began a new memory in {self.folder}.")
            yield memory

    def show(self, out: WireOut, people: Callable[[Console], None]) -> None:
        """Print a result: as JSON when asked to, else as `people` prints it."""
        if self.json:
            show_json(out.model_dump(mode="json", exclude_none=True))
        else:
            people(console())


def check_folder(folder: Path) -> None:
    """Nothing when `folder` is one. Raises: StoreRefused for a file, and for what is not there."""
    if folder.is_dir():
        return
    if folder.exists():
        raise StoreRefused(f"{folder} is a file: --data names the folder of a memory")
    raise StoreRefused(_no_memory(folder))


def check_memory(folder: Path) -> None:
    """Nothing when a memory lies in `folder`. Raises: StoreRefused."""
    check_folder(folder)
    if not (folder / PEPPER_NAME).exists():
        raise StoreRefused(_no_memory(folder))


def _no_memory(folder: Path) -> str:
    return (
        f"there is no memory in {folder}: begin one with `keeps remember` or `keeps serve`, "
        "or name another folder with --data"
    )


def moment(value: str | None) -> str | None:
    """A time as given on a command line, checked. Wrong usage unless it is one."""
    try:
        if value is not None:
            parse_instant(value)
    except Invalid as error:
        raise typer.BadParameter(error.message) from None
    return value


def named(value: str | None) -> str | None:
    """An entity as given on a command line, checked. Wrong usage unless a type stands before the name."""
    try:
        if value is not None:
            parse_ref(value)
    except Invalid:
        raise typer.BadParameter(f"an entity is written type/name, for example person/{value or 'mara'}") from None
    return value


def someone(value: str) -> str:
    """The same, where a name without a type is that of a person, as in `remember --fact`."""
    bare = value.strip() and "/" not in value and ":" not in value
    return named(f"{EntityType.PERSON.value}/{value}" if bare else value) or value


def settings(**fixed: object) -> Config:
    """What this process reads from its environment, with what the command line says. Ends with 2 when it is wrong."""
    try:
        return Config(**fixed)  # pyright: ignore[reportArgumentType]
    except ValidationError as error:
        fault = error.errors(include_url=False, include_input=False, include_context=False)[0]
        where = "_".join(str(part) for part in fault["loc"]).upper()
        note(f"keeps: KEEPS_{where}: {fault['msg'].removeprefix('Value error, ')}")
        raise typer.Exit(USAGE) from None


def console() -> Console:
    """Stdout for people: nothing in a memory's text is taken for markup, and no line is cut."""
    return Console(highlight=False, markup=False, emoji=False, soft_wrap=True)


def errors() -> Console:
    """Stderr for people: progress and questions."""
    return Console(stderr=True, highlight=False, markup=False, emoji=False)


def show_json(value: object) -> None:
    """Print one JSON value on stdout."""
    print(json.dumps(value, ensure_ascii=False, indent=2 if sys.stdout.isatty() else None))


def note(text: str) -> None:
    """Say something beside the result, on stderr."""
    print(plain(text), file=sys.stderr)


def counted(count: int, one: str, many: str | None = None) -> str:
    """A number of things: `1 turn`, `2 turns`; `many` where an s is not enough."""
    return f"{count} {one if count == 1 else many or one + 's'}"


def said(text: str, style: str = "") -> Text:
    """Text of a memory, made safe for a terminal."""
    return Text(plain(text), style=style)


def confirm(question: str, *, yes: bool, shows: bool = False) -> None:
    """Go on only when a person says so; a program has to pass --yes. `shows`: the command has a --dry-run."""
    if yes:
        return
    if not sys.stdin.isatty():
        note("keeps: nobody is there to ask: pass --yes" + (", or --dry-run to see what would happen" if shows else ""))
        raise typer.Exit(USAGE)
    if not typer.confirm(question, err=True):
        raise typer.Exit(1)
