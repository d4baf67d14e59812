"""`keeps import conversation`: bring the conversations of a file into the memory, each turn once."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Final

import typer
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from keeps.cli.reach import Reach, Reaching, counted, errors
from keeps.cli.transcripts import Line, Talk, read_talks
from keeps.client import Client, walk
from keeps.core.errors import Conflict
from keeps.wire.base import WireOut
from keeps.wire.sessions import SessionOut

app = typer.Typer(no_args_is_help=True, help="Bring in what lies in files.")

BATCH_TURNS: Final = 200
BATCH_BYTES: Final = 512 * 1024
"""A batch is one commit; a longer one would not fit into a request."""

_ORIGIN: Final = "import"
_CONVERSATION: Final = "{conversation}"


class Imported(WireOut):
    """What an import did: sessions of the file, turns written now, turns that were there before."""

    sessions: int
    turns: int
    already: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Aim:
    """Where turns go: in the scope, else where the caller's memories go. `{conversation}` stands for its id."""

    scope: str | None = None
    labels: Sequence[str] = ()

    def scope_of(self, talk: Talk) -> str | None:
        """The scope of one session."""
        return None if self.scope is None else self.scope.replace(_CONVERSATION, talk.conversation)


@app.callback()
def group() -> None:
    """Bring in what lies in files."""


@app.command(cls=Reaching, epilog="Example: keeps import conversation chat.jsonl --label source=chat")
def conversation(
    ctx: typer.Context,
    file: Annotated[
        Path, typer.Argument(metavar="FILE", help="JSON or JSON lines of turns: role or speaker, content.")
    ],
    scope: Annotated[
        str | None, typer.Option(metavar="SCOPE", help="Whose it is; {conversation} stands for the conversation's id.")
    ] = None,
    label: Annotated[
        list[str] | None, typer.Option(metavar="KEY=VALUE", help="On each turn; may be given again.")
    ] = None,
) -> None:
    """Import a conversation. Repeated, or after an interruption, it goes on where it stopped.

    It becomes history. Under the policy deliberate agents are given nothing of it before you `keeps promote` it.
    """
    reach = Reach.of(ctx)
    talks = read_talks(file)
    total = sum(len(talk.lines) for talk in talks)
    aim = Aim(scope=scope, labels=label or ())

    async def work(memory: Client) -> Imported:
        with _bar(total) as bar:
            task = bar.add_task("Importing", total=total)
            return await import_talks(memory, talks, aim, lambda turns: bar.advance(task, turns))

    done = reach.ask(work, creates=True)
    before = ""
    if done.already:
        before = f"; {done.already} {'was' if done.already == 1 else 'were'} there already"
    what = f"{counted(done.turns, 'turn')} in {counted(done.sessions, 'session')}"
    reach.show(done, lambda out: out.print(f"Imported {what}{before}."))


def _bar(total: int) -> Progress:
    screen = errors()
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    return Progress(*columns, console=screen, transient=True, disable=not screen.is_terminal or total < BATCH_TURNS)


async def import_talks(
    memory: Client, talks: Sequence[Talk], aim: Aim, advance: Callable[[int], Any] = lambda _: None
) -> Imported:
    """Write the turns that are not there yet, session by session, a batch a commit.

    A session remembers where it came from, and how many turns it ever had, so that a turn which was erased since
    does not come back. Raises: Conflict when a session was imported before with other turns.
    """
    known = await _known(memory)
    written = already = 0
    for talk in talks:
        key = _key(talk, aim.scope_of(talk))
        session = known.get(key) or await _begin(memory, talk, key, aim)
        there = min(await _next(memory, session), len(talk.lines))
        if there:
            await _check_same(memory, session, talk)
        already += there
        advance(there)
        for start, lines in _batches(talk.lines, there):
            messages = [line.message() for line in lines]
            await memory.remember_many(
                messages,
                infer="none",
                session=session.id,
                labels=aim.labels,
                idempotency_key=_digest(key, start, messages),
            )
            written += len(lines)
            advance(len(lines))
    return Imported(sessions=len(talks), turns=written, already=already)


async def _known(memory: Client) -> Mapping[str, SessionOut]:
    """Sessions that an import began, by the key of what they came from."""
    found: dict[str, SessionOut] = {}
    async for page in walk(memory.sessions.list):
        for session in page.sessions:
            origin: object = (session.metadata or {}).get(_ORIGIN)
            if isinstance(origin, Mapping):
                found[str(origin.get("key"))] = session  # pyright: ignore[reportUnknownArgumentType, reportUnknownMemberType]
    return found


async def _begin(memory: Client, talk: Talk, key: str, aim: Aim) -> SessionOut:
    origin = {"key": key, "conversation": talk.conversation, "session": talk.session}
    return await memory.sessions.create(
        scopes=aim.scope_of(talk), metadata={_ORIGIN: origin}, idempotency_key=_digest(_ORIGIN, key)
    )


async def _next(memory: Client, session: SessionOut) -> int:
    """The number of the first turn that was never written. A service may not tell: then, after the last one seen."""
    if session.next_seq is not None:
        return session.next_seq
    seen = [turn.seq async for page in walk(memory.sessions.turns, session.id) for turn in page.turns]
    return max(seen, default=-1) + 1


async def _check_same(memory: Client, session: SessionOut, talk: Talk) -> None:
    async for page in walk(memory.sessions.turns, session.id):
        for turn in page.turns:
            if turn.seq < len(talk.lines) and turn.content != talk.lines[turn.seq].kept:
                raise Conflict(
                    f"session {talk.session} was imported before, and its turn {turn.seq + 1} was another: "
                    "delete that session first, or leave it out of the file"
                )


def _batches(lines: Sequence[Line], start: int) -> Iterator[tuple[int, list[Line]]]:
    """Runs of lines from `start`, each small enough for one request, with the number of its first."""
    run: list[Line] = []
    size = 0
    for number, line in enumerate(lines[start:], start):
        bytes_ = len(json.dumps(line.message(), ensure_ascii=False).encode("utf-8", "surrogatepass"))
        if run and (len(run) == BATCH_TURNS or size + bytes_ > BATCH_BYTES):
            yield number - len(run), run
            run, size = [], 0
        run.append(line)
        size += bytes_
    if run:
        yield len(lines) - len(run), run


def _key(talk: Talk, scope: str | None) -> str:
    """What tells a session of a file from any other: its name, where it goes, and how it begins."""
    first = talk.lines[0]
    return _digest(talk.conversation, talk.session, scope, first.message())[:32]


def _digest(*parts: object) -> str:
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()
