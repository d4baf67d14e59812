"""The door to a database: what an engine and `Db.run` promise, and how a store is opened.

Rules of scripts, each held by a test in `tests/store/test_engine_contract.py`:

- A transaction is one script, `BEGIN; … COMMIT;`. It gives one result a statement, those two included.
- Inside it `RETURN` ends the block: what follows is **skipped without an error**, what went before is
  committed. Put it last, just before `COMMIT`, and never into a branch.
- A `THROW` rolls everything back and arrives as `StaleHead` (reason `stale-head`) or `Thrown`.
- `None` is the engine's NONE: in an object it removes the field. `NULL` is not used and reads as `None`.
- `$session`, `$auth`, `$token` and `$access` are protected names of parameters.
- Transactions never cross databases.
"""

from __future__ import annotations

from typing import Any, Final, LiteralString, Protocol

from keeps.store.address import NAMESPACE, parse_store_url
from keeps.store.embedded import EmbeddedEngine
from keeps.store.outcome import Duplicate, EngineError, RecordID, ScriptRejected, StoreDamaged, Thrown
from keeps.store.remote import RemoteEngine

__all__ = [
    "Db",
    "Duplicate",
    "Engine",
    "EngineError",
    "RecordID",
    "ScriptRejected",
    "StoreDamaged",
    "Thrown",
    "open_engine",
]


INDEXED_VALUES: Final = 32
"""How many values `field IN $values` may hold for the engine to use an index; above, it reads the whole table."""


class Db(Protocol):
    """One database of one namespace, for any number of tasks at once."""

    @property
    def name(self) -> str: ...

    async def run(self, surql: LiteralString, /, *, timeout_s: float = 5.0, **params: object) -> list[Any]:
        """One result a statement, in order. Datetimes are aware UTC with microseconds, NONE is `None`.

        `timeout_s` bounds the wait for a turn, and again the run itself. Lost write conflicts are retried.

        Raises:
            StaleHead: the script threw `stale-head`.
            Thrown: it threw something else.
            Duplicate: a record id or a value of a unique index exists already.
            Invalid: a parameter cannot be stored (lone surrogate, integer beyond 64 bits).
            Unavailable: no answer in time, the engine died, the disk is full; nothing was acknowledged.
            ScriptRejected: anything else, which is an error of ours.
        """
        ...


class Engine(Protocol):
    """What holds the connection, or the process, behind the databases of one store."""

    @property
    def commits(self) -> int:
        """Scripts with a COMMIT that succeeded since this engine was opened."""
        ...

    async def database(self, name: str) -> Db:
        """The database of that name, defined when missing."""
        ...

    async def remove_database(self, name: str) -> None:
        """Drop a database and all its rows; nothing when there is none."""
        ...

    async def close(self) -> None:
        """Flush and let go. Later calls raise `Unavailable`."""
        ...


async def open_engine(
    url: str, *, namespace: str = NAMESPACE, user: str | None = None, password: str | None = None
) -> Engine:
    """The engine at `url`; namespace, user and password are for servers.

    Raises:
        Invalid: the address is not understood.
        StoreRefused: the folder cannot be used.
    """
    place = parse_store_url(url)
    if place.remote:
        return RemoteEngine(place, namespace=namespace, user=user, password=password)
    engine = EmbeddedEngine(place)
    try:
        await engine.start()
    except BaseException:
        await engine.close()
        raise
    return engine
