"""What an erasure relies on in the engine."""

from __future__ import annotations

import pytest

from keeps.store.db import Db, Duplicate, Engine, RecordID
from keeps.store.migrate import migrate

_SCHEMA = (
    "DEFINE TABLE said SCHEMALESS; DEFINE TABLE after TYPE RELATION IN said OUT said SCHEMALESS;"
    "CREATE said:a SET text = 'x'; CREATE said:b; CREATE said:c;"
    "INSERT RELATION INTO after [{id: after:ab, in: said:a, out: said:b}, {id: after:bc, in: said:b, out: said:c}];"
)


async def test_deleting_rows_by_a_list_takes_their_edges(db: Db) -> None:
    await db.run(_SCHEMA)
    await db.run("BEGIN; DELETE $gone RETURN NONE; RETURN 1; COMMIT;", gone=[RecordID("said", "a")])
    assert (await db.run("SELECT VALUE record::id(id) FROM after;"))[0] == ["bc"]
    assert (await db.run("SELECT VALUE <-after<-said FROM said:b;"))[0] == [[]]


async def test_the_edges_of_some_rows(db: Db) -> None:
    await db.run(_SCHEMA)
    found = await db.run(
        "SELECT id FROM array::flatten((SELECT VALUE array::concat(->after, <-after) FROM $ids));",
        ids=[RecordID("said", "b")],
    )
    assert sorted(row["id"].id for row in found[0]) == ["ab", "bc"]


async def test_in_memory_a_row_is_not_made_again_in_the_transaction_that_deletes_it(memory_engine: Engine) -> None:
    db = await memory_engine.database("made_again")
    await db.run(_SCHEMA)
    again = [{"id": RecordID("after", "ab"), "in": RecordID("said", "c"), "out": RecordID("said", "a")}]
    with pytest.raises(Duplicate):
        await db.run("BEGIN; DELETE after:ab; INSERT RELATION INTO after $again; RETURN 1; COMMIT;", again=again)


async def test_the_ends_of_an_edge_cannot_be_changed(db: Db) -> None:
    await db.run(_SCHEMA)
    await db.run("UPDATE after:ab MERGE {in: said:c};")
    assert (await db.run("SELECT VALUE in FROM ONLY after:ab;"))[0] == RecordID("said", "a")


@pytest.mark.parametrize("table", ["attribute", "relates_to", "action"])
async def test_what_rests_on_a_turn_is_found_by_an_index(db: Db, table: str) -> None:
    await migrate(db, "context")
    query = "SELECT * FROM type::table($table) WHERE source_ref IN $ids AND source_clause != NONE EXPLAIN;"
    (told,) = await db.run(query, table=table, ids=["turn:a", "turn:b"])
    assert "IndexScan" in str(told)
    assert "TableScan" not in str(told)
