"""Forgetting: what goes, what stays, for whom, and what is told about it."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta

import pytest

from keeps.core.access import Caller, PrincipalId, PrincipalKind, Verb
from keeps.core.entities import entity_ref
from keeps.core.errors import Forbidden, Invalid, NotFound, StaleHead, Unavailable
from keeps.core.replies import ReplyKey
from keeps.core.scopes import ScopePath, parse_lens, parse_scopes
from keeps.core.triples import parse_triples
from keeps.finder.base import Only
from keeps.services.erase import Forget, Forgotten, delete_entity, delete_session, forget, forget_scope
from keeps.services.remember import Infer, Message, Remember, Remembered, remember
from keeps.services.runtime import Context, Runtime
from keeps.store import facts as store_facts
from keeps.store.commit import Batch, commit, last_change
from keeps.store.db import RecordID
from tests.services.conftest import caller

READ = Verb.MEMORY_READ
MARA = entity_ref("person", "Mara")


async def say(
    rt: Runtime, context: Context, text: str, *, scope: object = "user/mara", session: str | None = None, **more: object
) -> Remembered:
    message = Message(text=text, speaker="Mara")
    request = Remember(messages=[message], scope=parse_scopes(scope), session=session, **more)  # type: ignore[arg-type]
    return await remember(rt, context, caller(), request)


async def state(
    rt: Runtime,
    context: Context,
    *facts: tuple[str, str],
    scope: object = "user/mara",
    name: str = "Mara",
    **more: object,
) -> Remembered:
    triples = parse_triples(
        [{"entity": {"type": "person", "name": name}, "key": key, "value": value} for key, value in facts],
        anchor=rt.clock(),
    )
    request = Remember(infer=Infer.TRIPLES, triples=triples, scope=parse_scopes(scope), **more)  # type: ignore[arg-type]
    return await remember(rt, context, caller(), request)


async def relate(rt: Runtime, context: Context, target: str, *, scope: object = "user/mara") -> Remembered:
    triples = parse_triples(
        [
            {
                "entity": {"type": "person", "name": "Mara"},
                "key": "works_at",
                "target": {"type": "organisation", "name": target},
            }
        ],
        anchor=rt.clock(),
    )
    return await remember(
        rt, context, caller(), Remember(infer=Infer.TRIPLES, triples=triples, scope=parse_scopes(scope))
    )


async def drop(
    rt: Runtime,
    context: Context,
    query: str | None = None,
    *,
    who: Caller | None = None,
    **more: object,
) -> Forgotten:
    return await forget(rt, context, who or caller(), Forget(query=query, **more))  # type: ignore[arg-type]


async def found(context: Context, words: str) -> list[str]:
    return [hit.ref for hit in await context.finder.find(words, context.sets.everything(), only=Only(live=False))]


async def row(context: Context, ref: str) -> dict[str, object] | None:
    return (await store_facts.records(context.db, [ref])).get(ref)


async def rows_in(context: Context, table: str) -> list[dict[str, object]]:
    return (await context.db.run("SELECT * FROM type::table($table);", table=table))[0]


def fact_ref(done: Remembered, place: int = 0) -> str:
    assert done.extraction is not None
    return f"attribute:{done.extraction.facts[place].id}"


class TestRetire:
    async def test_a_value_goes_with_its_whole_history(self, rt: Runtime, context: Context) -> None:
        old = await state(rt, context, ("role", "deckhand"))
        new = await state(rt, context, ("role", "harbour pilot"))
        gone = await drop(rt, context, "Harbour pilot")
        assert gone.memories == 1
        assert {fact_ref(old), fact_ref(new)} <= set(gone.refs)
        assert await found(context, "deckhand pilot") == []
        assert await store_facts.versions(context.db, context.sets, MARA, "role", context.sets.everything()) == []
        kept = await row(context, fact_ref(new))
        assert kept is not None
        assert kept["status"] == "expired"
        assert kept["forgotten_at"] is not None
        assert kept["valid_until"] <= rt.clock()  # type: ignore[operator]

    async def test_a_key_names_its_facts_and_a_later_word_begins_anew(self, rt: Runtime, context: Context) -> None:
        await state(rt, context, ("role", "deckhand"))
        assert (await drop(rt, context, "role")).memories == 1
        assert (await drop(rt, context, "role")).rows == 0
        again = await state(rt, context, ("role", "cook"))
        versions = await store_facts.versions(context.db, context.sets, MARA, "role", context.sets.everything())
        assert [v.value for v in versions] == ["cook"]
        assert versions[0].supersedes is None
        assert await found(context, "cook") == [fact_ref(again)]

    async def test_a_name_takes_everything_about_the_entity_and_hides_it(self, rt: Runtime, context: Context) -> None:
        await state(rt, context, ("role", "pilot"), ("city", "Lyon"))
        await relate(rt, context, "North Port")
        gone = await drop(rt, context, "MARA")
        assert gone.memories == 3
        assert await context.finder.names_in("where is mara?", context.sets.everything()) == []
        assert [r["forgotten_at"] is not None for r in await rows_in(context, "entity")] == [True, True]

    async def test_an_entity_with_other_rows_stays(self, rt: Runtime, context: Context) -> None:
        await state(rt, context, ("role", "pilot"), ("city", "Lyon"))
        await drop(rt, context, "Lyon")
        (entity,) = await rows_in(context, "entity")
        assert entity.get("forgotten_at") is None
        assert await context.finder.names_in("where is mara?", context.sets.everything()) != []

    async def test_words_that_equal_nothing_remove_nothing(self, rt: Runtime, context: Context) -> None:
        await say(rt, context, "The harbour pilot likes saffron rice")
        before = await last_change(context.db)
        assert await drop(rt, context, "saffron") == Forgotten(rows=0, memories=0)
        assert await last_change(context.db) == before
        assert rt.ledger.head[0] == 0

    async def test_a_doubt_about_a_retired_value_is_resolved(self, rt: Runtime, context: Context) -> None:
        await state(rt, context, ("role", "pilot"))
        await context.db.run(
            "CREATE uncertainty:q CONTENT {about: 'x', reason: 'y', kind: 'conflict', contenders: $refs, scope_set: $s,"
            " labels: [], resolved: false, created_at: time::now()};",
            refs=[(await drop(rt, context, "pilot", dry_run=True)).refs[0]],
            s="s",
        )
        await drop(rt, context, "pilot")
        assert [u["resolved"] for u in await rows_in(context, "uncertainty")] == [True]

    async def test_a_turn_takes_its_words_out_of_the_window_after_it(self, rt: Runtime, context: Context) -> None:
        first = await say(rt, context, "The saffron boat is late")
        second = await say(rt, context, "Then we wait", session=first.session)
        assert set(await found(context, "saffron")) == {f"turn:{first.turns[0]}", f"turn:{second.turns[0]}"}
        gone = await drop(rt, context, "Mara: the saffron boat is late.")
        assert (gone.rows, gone.memories) == (1, 1)
        assert await found(context, "saffron") == []
        assert await found(context, "wait") == [f"turn:{second.turns[0]}"]

    async def test_the_line_we_wrote_for_a_fact_goes_with_it(self, rt: Runtime, context: Context) -> None:
        done = await state(rt, context, ("role", "pilot"), ("city", "Lyon"))
        after = await say(rt, context, "Then we wait", session=done.session)
        assert f"turn:{after.turns[0]}" in await found(context, "Lyon")
        await drop(rt, context, "Lyon")
        assert await found(context, "Lyon") == []
        turn = await row(context, f"turn:{done.turns[0]}")
        assert turn is not None
        assert turn["content"] == "Mara role pilot"
        await drop(rt, context, "pilot")
        turn = await row(context, f"turn:{done.turns[0]}")
        assert turn is not None
        assert turn["status"] == "expired"


class TestChoosing:
    async def test_ids_in_every_spelling(self, rt: Runtime, context: Context) -> None:
        done = await state(rt, context, ("role", "pilot"), ("city", "Lyon"), ("pet", "Rex"))
        said = await say(rt, context, "Then we wait")
        spellings = (
            fact_ref(done),
            fact_ref(done, 1).removeprefix("attribute:"),
            f"memory_chunk:{said.chunks[0]}",
        )
        gone = await drop(rt, context, ids=spellings)
        assert gone.memories == 3
        assert f"turn:{said.turns[0]}" in gone.refs
        assert (await drop(rt, context, fact_ref(done, 2))).memories == 1

    async def test_unknown_and_malformed_ids_name_nothing(self, rt: Runtime, context: Context) -> None:
        await state(rt, context, ("role", "pilot"))
        gone = await drop(
            rt, context, ids=("attribute:nope", "turn:" + "a" * 20, "principal:" + "a" * 20, "", "entity:")
        )
        assert gone.rows == 0
        assert gone.unknown == (0, 1, 2, 3, 4)

    async def test_ids_that_name_nothing_are_told_by_place(self, rt: Runtime, context: Context) -> None:
        done = await state(rt, context, ("role", "pilot"))
        ids = (fact_ref(done), "turn:" + "a" * 20, "person/mara/role", "person/nobody")
        assert (await drop(rt, context, ids=ids, dry_run=True)).unknown == (1, 3)
        assert (await drop(rt, context, ids=ids)).unknown == (1, 3)
        assert (await drop(rt, context, ids=ids)).unknown == (0, 1, 2, 3)
        assert (await drop(rt, context, ids=ids, purge=True)).unknown == (1, 3)

    @pytest.mark.parametrize("by", ["query", "ids"])
    @pytest.mark.parametrize("slot", ["attribute:person/mara/role", "person/Mara/role", "attribute:Person/MARA/Role"])
    @pytest.mark.parametrize("purge", [False, True])
    async def test_a_slot_by_reference_takes_all_its_values_and_no_more(
        self, rt: Runtime, context: Context, by: str, slot: str, purge: bool
    ) -> None:
        old = await state(rt, context, ("role", "deckhand"))
        new = await state(rt, context, ("role", "pilot"), ("city", "Lyon"))
        await state(rt, context, ("role", "cook"), name="Ben")
        gone = await drop(rt, context, purge=purge, **{by: slot if by == "query" else (slot,)})
        assert gone.memories == 1
        assert {fact_ref(old), fact_ref(new)} <= set(gone.refs)
        everything = context.sets.everything()
        assert [f.value for f in await store_facts.of_entity(context.db, context.sets, MARA, everything)] == ["Lyon"]
        ben = entity_ref("person", "Ben")
        assert [f.value for f in await store_facts.of_entity(context.db, context.sets, ben, everything)] == ["cook"]

    @pytest.mark.parametrize("by", ["query", "ids"])
    @pytest.mark.parametrize("named", ["entity:person/mara", "person/Mara", "person:mara", "PERSON:Mara"])
    async def test_an_entity_by_reference_takes_all_about_it(
        self, rt: Runtime, context: Context, by: str, named: str
    ) -> None:
        await state(rt, context, ("role", "pilot"), ("city", "Lyon"))
        await state(rt, context, ("role", "cook"), name="Ben")
        gone = await drop(rt, context, **{by: named if by == "query" else (named,)})
        assert gone.memories == 2
        assert await store_facts.of_entity(context.db, context.sets, MARA, context.sets.everything()) == []

    @pytest.mark.parametrize(
        "words",
        [
            "attribute:person/mara/salary",
            "attribute:person/mara",
            "attribute:organisation/mara/role",
            "attribute:role",
            "person/mara/salary",
            "person/mara role",
            "person/",
            "person:nobody",
            "topic/mara",
            "topic:role",
            "entity:mara",
            "entity:role",
            "mara/role",
            "mara:role",
            "person/mara/",
            "relation:person/mara-[role]->topic/x",
        ],
    )
    @pytest.mark.parametrize("by", ["query", "ids"])
    async def test_what_only_looks_like_a_reference_names_nothing(
        self, rt: Runtime, context: Context, by: str, words: str
    ) -> None:
        await state(rt, context, ("role", "pilot"), ("person_mara_salary", "x"), ("person_mara_role", "y"))
        gone = await drop(rt, context, purge=True, **{by: words if by == "query" else (words,)})
        assert (gone.rows, gone.memories) == (0, 0)

    async def test_words_that_look_like_a_reference_still_name_a_text(self, rt: Runtime, context: Context) -> None:
        await say(rt, context, "person/mara/salary")
        await say(rt, context, "event: party on Friday")
        assert (await drop(rt, context, "person/mara/salary")).memories == 1
        assert (await drop(rt, context, "Event: party on friday")).memories == 1

    async def test_a_name_with_a_slash_is_the_entity_before_it_is_a_slot(self, rt: Runtime, context: Context) -> None:
        await state(rt, context, ("role", "pilot"))
        await state(rt, context, ("city", "Lyon"), name="mara/role")
        await drop(rt, context, "person/mara/role")
        everything = context.sets.everything()
        assert [f.value for f in await store_facts.of_entity(context.db, context.sets, MARA, everything)] == ["pilot"]
        await drop(rt, context, "attribute:person/mara/role")
        assert await store_facts.of_entity(context.db, context.sets, MARA, everything) == []

    async def test_at_most_twenty_by_words_and_no_limit_by_id(self, rt: Runtime, context: Context) -> None:
        done = await state(rt, context, *((f"key_{n}", f"value {n}") for n in range(23)))
        assert done.extraction is not None
        gone = await drop(rt, context, "Mara")
        assert (gone.memories, gone.remaining) == (20, 3)
        again = await drop(rt, context, "Mara")
        assert (again.memories, again.remaining) == (3, 0)
        ids = tuple(f"attribute:{fact.id}" for fact in done.extraction.facts)
        assert (await drop(rt, context, ids=ids, purge=True)).memories == 23

    async def test_a_dry_run_counts_the_same_and_writes_nothing(self, rt: Runtime, context: Context) -> None:
        await state(rt, context, ("role", "deckhand"))
        await state(rt, context, ("role", "pilot"), ("city", "Lyon"))
        said = await say(rt, context, "The pilot boat is late")
        before = await last_change(context.db)
        for purge in (False, True):
            told = await drop(rt, context, "pilot", dry_run=True, purge=purge)
            assert [near.ref for near in told.near_misses] == [f"turn:{said.turns[0]}"]
            assert told.near_misses[0].text == "The pilot boat is late"
            assert 0 < told.near_misses[0].score <= 1
        assert await last_change(context.db) == before
        assert rt.ledger.head[0] == 0
        done = await drop(rt, context, "pilot", purge=True)
        assert (done.rows, done.memories, done.refs) == (told.rows, told.memories, told.refs)

    async def test_the_lens_bounds_it(self, rt: Runtime, context: Context) -> None:
        await state(rt, context, ("role", "pilot"))
        await state(rt, context, ("role", "pilot"), scope="user/ben", name="Ben")
        gone = await drop(rt, context, "pilot", lens=parse_lens("user/ben"))
        assert gone.memories == 1
        assert len(await store_facts.versions(context.db, context.sets, MARA, "role", context.sets.everything())) == 1

    @pytest.mark.parametrize("query", [None, "", "  \n"])
    async def test_words_or_ids_are_needed(self, rt: Runtime, context: Context, query: str | None) -> None:
        with pytest.raises(Invalid):
            await drop(rt, context, query)

    async def test_an_instruction_goes_by_its_words(self, rt: Runtime, context: Context) -> None:
        done = await state(rt, context, ("role", "pilot"))
        fact = await row(context, fact_ref(done))
        assert fact is not None
        own = ("entity", "key", "value", "chain", "pillar", "folds", "id")
        told = {name: value for name, value in fact.items() if name not in own}
        told |= {"label": "tone", "description": "Answer in verse.", "active": True}
        await context.commit(Batch(at=rt.clock(), creates=[{"id": RecordID("instruction", "a" * 20), "row": told}]))
        assert (await drop(rt, context, "answer in verse")).refs == ("instruction:" + "a" * 20,)
        (kept,) = await rows_in(context, "instruction")
        assert (kept["active"], kept["status"]) == (False, "expired")
        assert (await drop(rt, context, "Answer in verse", purge=True)).memories == 1
        assert await rows_in(context, "instruction") == []


class TestMatches:
    """What would go is told in words, to those who may read them."""

    async def test_one_line_a_memory_by_its_newest_value(self, rt: Runtime, context: Context) -> None:
        await state(rt, context, ("role", "deckhand"))
        new = await state(rt, context, ("role", "pilot"))
        said = await say(rt, context, "pilot")
        told = await drop(rt, context, "pilot", dry_run=True)
        assert [(m.ref, m.text) for m in told.matches] == [
            (f"turn:{said.turns[0]}", "pilot"),
            (fact_ref(new), "Mara's role is pilot."),
        ]

    async def test_a_long_text_is_cut_and_on_one_line(self, rt: Runtime, context: Context) -> None:
        text = "line one\nline two " + "x" * 300
        said = await say(rt, context, text)
        (match,) = (await drop(rt, context, ids=(f"turn:{said.turns[0]}",), dry_run=True)).matches
        assert match.text == text.replace("\n", " ")[:200]

    async def test_at_most_twenty(self, rt: Runtime, context: Context) -> None:
        done = await state(rt, context, *((f"key_{n}", f"value {n}") for n in range(23)))
        assert done.extraction is not None
        ids = tuple(f"attribute:{fact.id}" for fact in done.extraction.facts)
        told = await drop(rt, context, ids=ids, dry_run=True)
        assert (told.memories, len(told.matches)) == (23, 20)

    async def test_a_real_forget_tells_no_text(self, rt: Runtime, context: Context) -> None:
        await state(rt, context, ("role", "pilot"))
        gone = await drop(rt, context, "pilot")
        assert gone.memories == 1
        assert (gone.matches, gone.near_misses) == ((), ())

    async def test_who_may_forget_and_not_read_sees_no_text(self, rt: Runtime, context: Context) -> None:
        await state(rt, context, ("role", "canary"))
        await say(rt, context, "the canary sings")
        own = caller("user/mara")
        blind = replace(own, key_grants={verb: held for verb, held in own.principal.grants.items() if verb != READ})
        for who, texts in ((own, 1), (blind, 0)):
            told = await drop(rt, context, "canary", who=who, dry_run=True)
            assert told.memories == 1
            assert (len(told.matches), len(told.near_misses)) == (texts, texts)

    async def test_what_was_forgotten_is_not_told_again(self, rt: Runtime, context: Context) -> None:
        done = await state(rt, context, ("role", "canary"))
        await drop(rt, context, "canary")
        told = await drop(rt, context, ids=(fact_ref(done),), purge=True, dry_run=True)
        assert (told.memories, told.matches) == (1, ())

    async def test_what_waits_for_a_person_is_told_too(self, rt: Runtime, context: Context) -> None:
        triples = parse_triples(
            [{"entity": {"type": "person", "name": "Mara"}, "key": "role", "value": "pilot"}], anchor=rt.clock()
        )
        request = Remember(infer=Infer.TRIPLES, triples=triples, scope=parse_scopes("user/mara"))
        home = ScopePath("user/mara")
        context.consent.move_in({home: PrincipalId("mara")})
        await remember(rt, context, caller(kind=PrincipalKind.HUMAN, name="mara", home=home), request)
        done = await state(rt, context, ("role", "captain"))
        assert done.extraction is not None
        (waiting,) = done.extraction.proposals
        (match,) = (await drop(rt, context, "captain", dry_run=True)).matches
        assert (match.ref, match.text) == (f"proposal:{waiting.id}", "Mara's role is captain.")

    async def test_an_entity_without_rows_is_told_by_its_name(self, rt: Runtime, context: Context) -> None:
        bare = parse_triples([{"entity": {"type": "person", "name": "Ben"}}], anchor=rt.clock())
        await remember(
            rt, context, caller(), Remember(infer=Infer.TRIPLES, triples=bare, scope=parse_scopes("user/mara"))
        )
        (match,) = (await drop(rt, context, "person:ben", dry_run=True)).matches
        assert (match.ref, match.text) == ("entity:person/ben", "person/ben")


class TestWhose:
    async def test_nothing_outside_the_region_is_touched_or_told(self, rt: Runtime, context: Context) -> None:
        done = await state(rt, context, ("role", "canary-bob"), scope="user/bob", name="Bob")
        alice = caller("user/alice")
        nowhere = fact_ref(done).replace(fact_ref(done)[-1], "0")
        slots = ("attribute:person/bob/role", "person/bob/role", "entity:person/bob")
        for more in ({"query": "canary-bob"}, *({"query": slot} for slot in slots)):
            for dry_run in (True, False):
                gone = await forget(rt, context, alice, Forget(purge=True, dry_run=dry_run, **more))  # type: ignore[arg-type]
                assert gone == Forgotten(rows=0, memories=0)
        for ids in ((fact_ref(done),), (nowhere,), slots):
            for dry_run in (True, False):
                gone = await forget(rt, context, alice, Forget(purge=True, dry_run=dry_run, ids=ids))
                assert gone == Forgotten(rows=0, memories=0, unknown=tuple(range(len(ids))))
        assert await row(context, fact_ref(done)) is not None

    async def test_without_the_verb_it_is_refused(self, rt: Runtime, context: Context) -> None:
        nobody = Caller(principal=caller().principal, key_id=caller().key_id, key_grants={})
        with pytest.raises(Forbidden):
            await forget(rt, context, nobody, Forget(query="x"))

    async def test_a_co_owner_gives_up_only_their_own_clause(self, rt: Runtime, context: Context) -> None:
        both = [["user/al"], ["user/bo"]]
        done = await state(rt, context, ("role", "pilot"), scope=both)
        await relate(rt, context, "North Port", scope=both)
        gone = await drop(rt, context, "Mara", who=caller("user/al"), purge=True)
        assert gone.memories == 2
        assert gone.released == gone.rows
        al, bo = (
            context.sets.readable(caller(f"user/{who}").region(verb)) for who, verb in (("al", READ), ("bo", READ))
        )
        assert await store_facts.of_entity(context.db, context.sets, MARA, al) == []
        assert [f.value for f in await store_facts.of_entity(context.db, context.sets, MARA, bo)] == ["pilot"]
        assert [r.object.name for r in await store_facts.relations_of(context.db, context.sets, MARA, bo)] == [
            "north port"
        ]
        assert [hit.ref for hit in await context.finder.find("pilot", bo)] == [fact_ref(done)]
        assert await context.finder.find("pilot", al) == []
        assert await context.finder.names_in("mara", al) == []
        assert await context.finder.names_in("mara", bo) != []
        again = await state(rt, context, ("role", "cook"), scope="user/bo")
        assert again.extraction is not None
        assert again.extraction.facts[0].supersedes == fact_ref(done).removeprefix("attribute:")
        edges = (await context.db.run("SELECT VALUE out.name FROM relates_to;"))[0]
        assert edges == ["north port"]

    async def test_what_is_hidden_is_not_handed_on(self, rt: Runtime, context: Context) -> None:
        await state(rt, context, ("role", "pilot"), scope=[["user/al"], ["user/bo"]])
        await drop(rt, context, "Mara")
        for purge in (False, True):
            await drop(rt, context, "Mara", who=caller("user/al"), purge=purge)
            assert [e for e in await rows_in(context, "entity") if e.get("forgotten_at") is None] == []
        bo = context.sets.readable(caller("user/bo").region(READ))
        assert await context.finder.names_in("mara", bo) == []
        assert {r["scope_set"] for r in await rows_in(context, "attribute")} <= bo

    async def test_two_chains_that_meet_have_one_head(self, rt: Runtime, context: Context) -> None:
        shared = await state(rt, context, ("role", "pilot"), scope=[["user/al"], ["user/bo"]])
        own = await state(rt, context, ("role", "cook"), scope="user/bo")
        await drop(rt, context, ids=(fact_ref(shared),), who=caller("user/al"))
        sets = context.sets.readable(caller("user/bo").region(READ))
        versions = await store_facts.versions(context.db, context.sets, MARA, "role", sets)
        assert [(v.value, v.control.status.value) for v in versions] == [("cook", "confirmed"), ("pilot", "superseded")]
        assert versions[1].superseded_by == versions[0].id
        (chain,) = await rows_in(context, "chain")
        assert chain["head"] == fact_ref(own).removeprefix("attribute:")
        await state(rt, context, ("role", "mate"), scope="user/bo")


class TestPurge:
    async def test_rows_are_gone_and_what_told_of_them(self, rt: Runtime, context: Context) -> None:
        key = ReplyKey(
            namespace="n1", fingerprint="f", expires_at=rt.clock() + timedelta(days=1), render=lambda _: "Mara pilot"
        )
        done = await state(rt, context, ("role", "pilot"), reply=key)
        await drop(rt, context, "pilot", purge=True)
        for table in ("attribute", "chain", "entity", "turn"):
            assert await rows_in(context, table) == [], table
        (reply,) = await rows_in(context, "reply")
        assert (reply["body"], reply["erased"]) == ("", True)
        assert await row(context, fact_ref(done)) is None

    async def test_what_is_retired_can_still_be_purged(self, rt: Runtime, context: Context) -> None:
        await state(rt, context, ("role", "pilot"))
        await drop(rt, context, "pilot")
        assert await rows_in(context, "attribute") != []
        assert (await drop(rt, context, "pilot", purge=True)).memories == 1
        assert await rows_in(context, "attribute") == []

    async def test_a_said_turn_that_holds_the_value_goes_along(self, rt: Runtime, context: Context) -> None:
        triples = parse_triples(
            [{"entity": {"type": "person", "name": "Mara"}, "key": "role", "value": "harbour pilot"}], anchor=rt.clock()
        )
        done = await remember(
            rt,
            context,
            caller(),
            Remember(
                infer=Infer.TRIPLES,
                triples=triples,
                messages=[Message(text="I became a harbour  pilot in May")],
                scope=parse_scopes("user/mara"),
            ),
        )
        gone = await drop(rt, context, fact_ref(done), purge=True)
        assert f"turn:{done.turns[0]}" in gone.refs
        assert await rows_in(context, "memory_chunk") == []

    async def test_a_purged_turn_takes_back_what_facts_quote_from_it(self, rt: Runtime, context: Context) -> None:
        triples = parse_triples(
            [
                {
                    "entity": {"type": "person", "name": "Mara"},
                    "key": "role",
                    "value": "navigator",
                    "sourceClause": "the saffron boat",
                }
            ],
            anchor=rt.clock(),
        )
        done = await remember(
            rt,
            context,
            caller(),
            Remember(
                infer=Infer.TRIPLES,
                triples=triples,
                messages=[Message(text="I steer the saffron boat")],
                scope=parse_scopes("user/mara"),
            ),
        )
        await drop(rt, context, "I steer the saffron boat", purge=True)
        kept = await row(context, fact_ref(done))
        assert kept is not None
        assert kept.get("source_clause") is None
        assert await found(context, "saffron") == []
        assert await found(context, "navigator") == [fact_ref(done)]

    async def test_the_edge_to_a_purged_turn_goes(self, rt: Runtime, context: Context) -> None:
        first = await say(rt, context, "The saffron boat is late")
        await say(rt, context, "Then we wait", session=first.session)
        assert len(await rows_in(context, "follows")) == 1
        await drop(rt, context, ids=(f"turn:{first.turns[0]}",), purge=True)
        assert await rows_in(context, "follows") == []
        assert len(await rows_in(context, "memory_chunk")) == 1


class TestEntity:
    async def test_it_is_hidden_with_its_rows(self, rt: Runtime, context: Context) -> None:
        await state(rt, context, ("role", "pilot"))
        gone = await delete_entity(rt, context, caller(), MARA)
        assert gone.memories == 1
        with pytest.raises(NotFound):
            await delete_entity(rt, context, caller(), MARA)

    async def test_absent_or_not_yours(self, rt: Runtime, context: Context) -> None:
        await state(rt, context, ("role", "pilot"))
        with pytest.raises(NotFound):
            await delete_entity(rt, context, caller("user/ben"), MARA)
        reader = caller("user/mara")
        grants = {READ: reader.principal.grants[READ]}
        with pytest.raises(Forbidden):
            await delete_entity(
                rt, context, Caller(principal=reader.principal, key_id=reader.key_id, key_grants=grants), MARA
            )


class TestSession:
    async def test_turns_go_and_facts_stay(self, rt: Runtime, context: Context) -> None:
        done = await state(rt, context, ("role", "pilot"))
        await say(rt, context, "The saffron boat", session=done.session)
        gone = await delete_session(rt, context, caller(), done.session)
        assert gone.rows == 2
        for table in ("session", "turn", "memory_chunk", "follows"):
            assert await rows_in(context, table) == [], table
        assert await found(context, "saffron") == []
        assert await found(context, "pilot") == [fact_ref(done)]
        with pytest.raises(NotFound):
            await delete_session(rt, context, caller(), done.session)
        with pytest.raises(Forbidden):
            await say(rt, context, "again", session=done.session)

    async def test_absent_or_not_yours(self, rt: Runtime, context: Context) -> None:
        done = await say(rt, context, "The saffron boat")
        with pytest.raises(NotFound):
            await delete_session(rt, context, caller("user/ben"), done.session)
        reader = caller("user/mara")
        grants = {READ: reader.principal.grants[READ]}
        with pytest.raises(Forbidden):
            await delete_session(
                rt, context, Caller(principal=reader.principal, key_id=reader.key_id, key_grants=grants), done.session
            )


class TestScope:
    async def test_whole_segments_only(self, rt: Runtime, context: Context) -> None:
        for who in ("user/al", "user/al/diary", "user/alice"):
            await state(rt, context, ("role", "pilot"), scope=who)
            await say(rt, context, f"The saffron boat of {who}", scope=who)
        before = await last_change(context.db)
        gone = await forget_scope(rt, context, caller(), "user/al")
        assert gone.memories == 4
        assert gone.rows > gone.memories
        assert await last_change(context.db) == before + 1
        alice = context.sets.readable(caller("user/alice").region(READ))
        for table in ("attribute", "turn", "entity", "session"):
            assert {r["scope_set"] for r in await rows_in(context, table)} <= alice, table
        assert len(await rows_in(context, "turn")) == 2
        assert len(await rows_in(context, "chain")) == 1
        assert len(await found(context, "saffron")) == 1
        assert await forget_scope(rt, context, caller(), "user/al") == type(gone)(rows=0, memories=0)

    async def test_co_owned_rows_stay_with_the_others(self, rt: Runtime, context: Context) -> None:
        both = [["user/al"], ["user/bo"]]
        first = await say(rt, context, "The saffron boat", scope=both)
        second = await say(rt, context, "Then we wait", scope=both, session=first.session)
        await state(rt, context, ("role", "pilot"), scope=both)
        await relate(rt, context, "North Port", scope=both)
        gone = await forget_scope(rt, context, caller(), "user/al")
        assert gone.released > 0
        bo = context.sets.readable(caller("user/bo").region(READ))
        al = context.sets.readable(caller("user/al").region(READ))
        assert {hit.ref for hit in await context.finder.find("saffron", bo)} == {
            f"turn:{first.turns[0]}",
            f"turn:{second.turns[0]}",
        }
        assert await context.finder.find("saffron pilot", al) == []
        for table in ("attribute", "turn", "session", "relates_to", "follows", "chain"):
            assert {r["scope_set"] for r in await rows_in(context, table)} <= bo, table
        assert {r["scope_set"] for r in await rows_in(context, "entity")} <= bo
        (edge,) = await rows_in(context, "follows")
        assert (edge["in"], edge["out"]) == (RecordID("turn", first.turns[0]), RecordID("turn", second.turns[0]))
        await say(rt, context, "We go on", scope=None, session=first.session)

    async def test_it_takes_the_verb_over_the_whole_subtree(self, rt: Runtime, context: Context) -> None:
        for held in ("user/al", "user/bo/*"):
            with pytest.raises(Forbidden):
                await forget_scope(rt, context, caller(held), "user/al")
        await forget_scope(rt, context, caller("user/al/*"), "user/al")

    @pytest.mark.parametrize("path", [None, "", "../x", "user/al/*"])
    async def test_a_path_is_needed(self, rt: Runtime, context: Context, path: str | None) -> None:
        with pytest.raises(Invalid):
            await forget_scope(rt, context, caller(), path)

    async def test_names_of_nodes_are_cleared(self, rt: Runtime, context: Context) -> None:
        await say(rt, context, "x", scope="user/al")
        batch = Batch(at=rt.clock())
        batch.patch(RecordID("scope", "user/al"), display_name="Al Canary", description="d")
        await context.commit(batch)
        await forget_scope(rt, context, caller(), "user/al")
        nodes = {r["id"].id: r for r in await rows_in(context, "scope")}  # type: ignore[attr-defined]
        assert "display_name" not in nodes["user/al"]


class TestOrder:
    async def test_the_ledger_comes_first(self, rt: Runtime, context: Context, monkeypatch: pytest.MonkeyPatch) -> None:
        await state(rt, context, ("role", "pilot"))

        def full(*_: object) -> int:
            raise Unavailable("full")

        with monkeypatch.context() as patched:
            patched.setattr(type(rt.ledger), "append", full)
            with pytest.raises(Unavailable):
                await drop(rt, context, "pilot", purge=True)
        assert len(await rows_in(context, "attribute")) == 1
        assert (await drop(rt, context, "pilot", purge=True)).memories == 1

    async def test_what_the_ledger_holds_is_carried_out_before_the_next(
        self, rt: Runtime, context: Context, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        await state(rt, context, ("role", "pilot"), ("city", "Lyon"))

        async def lost(*_: object) -> int:
            raise Unavailable("the engine died")

        with monkeypatch.context() as patched:
            patched.setattr(type(context), "commit", lost)
            with pytest.raises(Unavailable):
                await drop(rt, context, "pilot", purge=True)
        assert await found(context, "pilot") != []
        await drop(rt, context, "Lyon", purge=True)
        assert await rows_in(context, "attribute") == []
        assert await found(context, "pilot") == []

    async def test_a_job_that_writes_after_its_row_was_erased_is_refused(self, rt: Runtime, context: Context) -> None:
        done = await state(rt, context, ("role", "pilot"))
        said = await say(rt, context, "The saffron boat is late")
        await context.db.run(
            "CREATE job:j CONTENT {kind: 'embed', state: 'queued', rows: $rows, attempts: 0, created_at: time::now(),"
            " updated_at: time::now()};",
            rows=[fact_ref(done), f"turn:{said.turns[0]}"],
        )
        read = await row(context, fact_ref(done))
        assert read is not None
        turn = RecordID("turn", said.turns[0])
        await commit(context.db, Batch(at=rt.clock(), guards=[{"id": read["id"], "rev": read["rev"]}], needs=[turn]))
        await drop(rt, context, "The saffron boat is late")
        with pytest.raises(StaleHead):
            await commit(context.db, Batch(at=rt.clock(), needs=[turn]))
        assert [job["state"] for job in await rows_in(context, "job")] == ["queued"]
        for purge in (False, True):
            await drop(rt, context, "pilot", purge=purge)
            late = Batch(at=rt.clock(), guards=[{"id": read["id"], "rev": read["rev"]}])
            late.patch(read["id"], value="pilot")  # type: ignore[arg-type]
            with pytest.raises(StaleHead):
                await commit(context.db, late)
        assert [(job["state"], job["rows"]) for job in await rows_in(context, "job")] == [("cancelled", [])]

    async def test_writers_beside_an_erasure(self, rt: Runtime, context: Context) -> None:
        first = await say(rt, context, "The boat is late")
        writes = [state(rt, context, ("role", f"role {n}")) for n in range(8)]
        writes += [say(rt, context, f"word {n}", session=first.session) for n in range(8)]
        gone: Sequence[object] = await asyncio.gather(
            *writes[:6], drop(rt, context, "role", purge=True), *writes[6:], drop(rt, context, "word 3")
        )
        assert len(gone) == 18
        versions = await store_facts.versions(context.db, context.sets, MARA, "role", context.sets.everything())
        heads = [chain["head"] for chain in await rows_in(context, "chain")]
        assert heads == [v.id for v in versions if v.superseded_by is None]
        listed = {ref for n in range(8) for ref in await found(context, f"role {n}") if ref.startswith("attribute:")}
        assert listed == {f"attribute:{v.id}" for v in versions}
