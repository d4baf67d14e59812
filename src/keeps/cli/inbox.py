"""`keeps inbox`: see what waits for you, and decide about it."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping, Sequence
from enum import StrEnum
from typing import Annotated, Final

import typer
from rich.console import Console

from keeps.cli.codes import FAILED, NOT_FOUND
from keeps.cli.reach import Reach, Reaching, console, counted, note, said
from keeps.client import Client, walk
from keeps.core.fence import plain
from keeps.wire.base import WireOut
from keeps.wire.inbox import DecidedOut, InboxItemOut, InboxOut, SettledOut
from keeps.wire.pages import PageMeta

app = typer.Typer()


class Action(StrEnum):
    """What to do with the inbox."""

    LIST = "list"
    APPROVE = "approve"
    EDIT = "edit"
    REJECT = "reject"
    RELEASE = "release"
    RECONSIDER = "reconsider"


_LEAST: Final = 4
"""Letters an id needs at least to be found by how it begins."""

_DONE: Final = {
    "keep": "Kept",
    "replace": "Kept, in the place of the old value",
    "keep_both": "Kept beside the old value",
    "edit": "Kept as you put it",
    "release": "Let into the inbox",
    "discard": "Discarded",
    "discard_and_block": "Discarded, and not asked again",
}

_KEYS: Final = {
    "k": ("keep", "keep"),
    "r": ("replace", "replace the old value"),
    "b": ("keep_both", "keep both"),
    "e": ("edit", "edit and keep"),
    "o": ("release", "let it into the inbox"),
    "d": ("discard", "discard"),
    "n": ("discard_and_block", "discard, never ask again"),
}
"""What each key decides, and how that is said."""

_QUIT: Final = "q"


class Listed(WireOut):
    """All that waits."""

    items: list[InboxItemOut]


@app.command(
    cls=Reaching,
    epilog="Example: keeps inbox · keeps inbox approve 3v9c0k2m7x1q8d4f6h5j · keeps inbox reject 3v9c --never-again",
)
def inbox(
    ctx: typer.Context,
    action: Annotated[Action, typer.Argument(help="What to do.")] = Action.LIST,
    what: Annotated[
        list[str] | None,
        typer.Argument(metavar="[ID]...", help="What it is about; after `edit` ID what to keep instead."),
    ] = None,
    never_again: Annotated[
        bool, typer.Option("--never-again", help="With reject: drop it unasked when it comes again.")
    ] = False,
    both: Annotated[bool, typer.Option("--both", help="With approve: keep the value that is saved beside it.")] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="With reconsider: only count.")] = False,
) -> None:
    """See what waits for you, and decide: on a terminal one by one, or by ids."""
    reach = Reach.of(ctx)
    named = list(what or ())
    if never_again and action is not Action.REJECT:
        raise typer.BadParameter("--never-again goes with reject")
    if both and action is not Action.APPROVE:
        raise typer.BadParameter("--both goes with approve")
    if dry_run and action is not Action.RECONSIDER:
        raise typer.BadParameter("--dry-run goes with reconsider")
    if action in (Action.LIST, Action.RECONSIDER):
        if named:
            raise typer.BadParameter("say what to do: approve, edit, reject or release")
        _look(reach) if action is Action.LIST else _reconsider(reach, dry_run=dry_run)
        return
    text = None
    if action is Action.EDIT:
        if len(named) < 2:
            raise typer.BadParameter("give an id, and the words to keep instead")
        text, named = " ".join(named[1:]), named[:1]
    if not named:
        raise typer.BadParameter("give the id of what you decide about, as `keeps inbox` shows it")
    if action is Action.APPROVE and len(named) > 1 and both:
        raise typer.BadParameter("--both is for one thing at a time")
    _decide(reach, action, named, text, never_again=never_again, both=both)


def _look(reach: Reach) -> None:
    found = reach.ask(_all)
    reach.show(found, lambda out: tell(out, found))
    if found.items and not reach.json and someone_is_there():
        decisions = ask_one_by_one(console(), found.items)
        if decisions:
            done = reach.ask(lambda memory: _one_by_one(memory, decisions))
            put = {str(each["id"]): str(each["text"]) for each in decisions if each["text"]}
            _tell_done(console(), done, found.items, put)


def _reconsider(reach: Reach, *, dry_run: bool) -> None:
    done = reach.ask(lambda memory: memory.reconsider(dry_run=dry_run))
    how = "would wait again" if dry_run else ("waits again" if done.moved == 1 else "wait again")
    reach.show(done, lambda out: out.print(f"{counted(done.moved, 'memory', 'memories')} {how}."))


async def _all(memory: Client) -> InboxOut:
    """Everything that waits, as one page."""
    pages = [page async for page in walk(memory.inbox)]
    items = [item for page in pages for item in page.items]
    return pages[0].model_copy(update={"items": items, "page": PageMeta(has_more=False)})


def _decide(
    reach: Reach, action: Action, named: Sequence[str], text: str | None, *, never_again: bool, both: bool
) -> None:
    shown: list[InboxItemOut] = []

    async def work(memory: Client) -> DecidedOut:
        items = (await _all(memory)).items
        decisions: list[dict[str, object]] = []
        for name in dict.fromkeys(named):
            item = _found(items, name)
            shown.extend([item] if item else [])
            decision = _decision(action, item, never_again=never_again, both=both)
            decisions.append({"id": item.id if item else name, "decision": decision, "text": text})
        return await memory.decide(decisions)

    done = reach.ask(work)
    put = {each.id: text for each in done.decided} if text is not None else {}
    reach.show(done, lambda out: _tell_done(out, done, shown, put))
    failed = [each for each in done.decided if each.error]
    for each in failed:
        note(f"keeps: {_failure(each)}")
    if failed:
        raise typer.Exit(NOT_FOUND if all(each.error == "not-found" for each in failed) else FAILED)


def _failure(each: SettledOut) -> str:
    if each.error != "not-found":
        return f"{each.id}: {each.detail or each.error}"
    short = f"; an id needs {_LEAST} letters at least" if len(each.id) < _LEAST else ""
    return f"{each.id} does not wait for you{short}. `keeps inbox` shows what does, each with its id"


def _found(items: Iterable[InboxItemOut], name: str) -> InboxItemOut | None:
    """What an id, or how it begins, names in the inbox. Wrong usage when it could be several."""
    bare = name.removeprefix("proposal:").removeprefix("memory:")
    exact = [item for item in items if bare in item.ids]
    if exact or len(bare) < _LEAST:
        return exact[0] if exact else None
    begins = [item for item in items if any(each.startswith(bare) for each in item.ids)]
    if len(begins) > 1:
        raise typer.BadParameter(f"{name} could be several: give more of the id")
    return begins[0] if begins else None


def _decision(action: Action, item: InboxItemOut | None, *, never_again: bool, both: bool) -> str:
    if action is Action.APPROVE:
        if both:
            return "keep_both"
        return "replace" if item is not None and "replace" in item.choices else "keep"
    if action is Action.REJECT:
        return "discard_and_block" if never_again else "discard"
    return "edit" if action is Action.EDIT else "release"


async def _one_by_one(memory: Client, decisions: Sequence[dict[str, object]]) -> DecidedOut:
    """Each in a call of its own: some may not be decided on with others."""
    done: list[SettledOut] = []
    waiting = 0
    for decision in decisions:
        answer = await memory.decide([decision])
        done += answer.decided
        waiting = answer.waiting
    return DecidedOut(decided=done, waiting=waiting)


def someone_is_there() -> bool:
    """True when a person sits at both ends."""
    return sys.stdin.isatty() and sys.stdout.isatty()


def ask_one_by_one(out: Console, items: Sequence[InboxItemOut]) -> list[dict[str, object]]:
    """What a person decides about each, in order; what they leave is not in it. Nothing is done before the end."""
    out.print()
    out.print(
        "One by one. Enter leaves a thing as it is; q ends. Nothing is done before the end, and Ctrl-C undoes all."
    )
    decided: list[dict[str, object]] = []
    for place, item in enumerate(items, 1):
        out.print()
        tell_item(out, item, f"{place} of {len(items)}")
        keys = {key: words for key, words in _KEYS.items() if words[0] in item.choices}
        asked = " · ".join(f"[{key}] {words}" for key, (_, words) in keys.items()) + " · [q] end"
        key = _key(asked, keys)
        if key == _QUIT:
            break
        if not key:
            continue
        choice = keys[key][0]
        text = typer.prompt(_instead_of(item), err=True) if choice == "edit" else None
        decided.append({"id": item.id, "decision": choice, "text": text})
    return decided


def _instead_of(item: InboxItemOut) -> str:
    return f"Instead of “{plain(' '.join((item.value or item.text).split()))}”"


def _key(asked: str, keys: dict[str, tuple[str, str]]) -> str:
    while True:
        given = str(typer.prompt(asked, default="", show_default=False, err=True)).strip().lower()
        if not given or given == _QUIT or given in keys:
            return given


def tell(out: Console, found: InboxOut) -> None:
    """Print for people what waits."""
    if not found.items:
        out.print("Nothing waits for you.")
    usual = [item for item in found.items if item.status != "quarantined"]
    held = [item for item in found.items if item.status == "quarantined"]
    if usual:
        out.print(f"Waiting for you: {len(usual)}")
    for place, item in enumerate(usual, 1):
        tell_item(out, item, f"{place:2}.")
    if held:
        out.print(f"Held back, not to be followed: {len(held)}")
    for place, item in enumerate(held, len(usual) + 1):
        tell_item(out, item, f"{place:2}.")
    if found.counts.elsewhere:
        out.print(said(f"{counted(found.counts.elsewhere, 'proposal')} of other people wait for them.", "dim"))
    for rate in found.rates:
        if rate.share is not None:
            kept = f"of {counted(rate.decided, 'proposal')} that were decided on, {rate.kept} kept"
            expired = f", and {rate.expired} went unanswered" if rate.expired else ""
            out.print(said(f"{rate.agent}: {kept}{expired}", "dim"))


def tell_item(out: Console, item: InboxItemOut, mark: str) -> None:
    """Print for people one thing that waits: what, beside what, who says so and why it waits."""
    out.print(said(f"{mark} {'New value: ' if item.conflict else ''}{item.text}"))
    if item.conflict is not None:
        out.print(said(f"    now saved: {item.conflict.text}"))
    if item.source.sentence is not None:
        out.print(said(f"    because this was said: “{' '.join(item.source.sentence.split())}”"))
    elif item.source.deleted:
        out.print(said("    The message was deleted.", "dim"))
    out.print(said("    " + " · ".join(_about(item)), "dim"))
    if item.reasons:
        out.print(said("    held back: " + ", ".join(reason.text for reason in item.reasons), "yellow"))


def _about(item: InboxItemOut) -> Iterable[str]:
    yield item.kind
    yield f"from {', '.join(item.proposed_by)}" + (f", {counted(item.times, 'time')}" if item.times > 1 else "")
    yield f"{item.at:%Y-%m-%d %H:%M}"
    if item.asked:
        yield "you may have asked for it"
    yield item.because
    if item.topics:
        yield "about " + ", ".join(item.topics)
    if item.taint:
        yield "rests on " + ", ".join(item.taint)
    yield item.id


def _tell_done(out: Console, done: DecidedOut, items: Sequence[InboxItemOut], put: Mapping[str, str]) -> None:
    """Print what was done. `put`: the words a person gave instead, by the id of what they stand for."""
    texts = {item.id: item.text for item in items} | dict(put)
    for each in done.decided:
        if each.error is None:
            out.print(said(f"{_DONE.get(each.decision, each.decision)}: {texts.get(each.id, each.id)}"))
            if each.memory and each.memory != each.id:
                out.print(said(f"    {each.memory}", "dim"))
    if done.waiting:
        out.print(f"{counted(done.waiting, 'thing')} still wait{'s' if done.waiting == 1 else ''} for you.")
