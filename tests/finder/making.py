"""What the tests of the finder put into it."""

from collections.abc import AsyncIterator

from keeps.finder.base import Entry, Kind, Name


def turn(
    number: int | str,
    text: str,
    *,
    scope_set: str = "s1",
    before: str = "",
    window_of: str | None = None,
    labels: frozenset[str] = frozenset(),
    live: bool = True,
    kind: Kind = "passage",
    at: int = 0,
) -> Entry:
    ref = f"turn:{number}"
    return Entry(
        ref=ref,
        unit=ref,
        kind=kind,
        scope_set=scope_set,
        text=text,
        before=before,
        window_of=window_of,
        labels=labels,
        live=live,
        at=at,
    )


async def stream(*entries: Entry | Name) -> AsyncIterator[Entry | Name]:
    for entry in entries:
        yield entry
