"""Forgetting by meaning: what the words can only mean goes, look-alikes stay, and what is not sure is told."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Sequence

import numpy as np
import pytest
import pytest_asyncio

from keeps.config import Config
from keeps.core.errors import TooLarge
from keeps.core.sessions import Role
from keeps.core.spaces import Space
from keeps.core.text import fold
from keeps.models.base import Vectors
from keeps.models.fake import FakeEmbedder
from keeps.models.minilm import MiniLM
from keeps.services import contexts
from keeps.services.erase import Forget, Forgotten, forget
from keeps.services.recall import Recall, recall
from keeps.services.remember import Message, Remember, remember
from keeps.services.runtime import Context, Runtime, open_runtime
from keeps.store import vectors as store_vectors
from keeps.store.db import Engine
from keeps.wire.forget import ForgetIn, ForgetOut
from tests.core.test_meant import OTHERS
from tests.models.faulty import Faulty
from tests.services import saying
from tests.services.conftest import caller
from tests.services.saying import fact
from tests.services.test_vectors import is_settled, opened, say, until

KEY = "The spare key hangs behind the oven"
ASKED = "the spare keys hang behind the oven"


@pytest_asyncio.fixture
async def place(engine_of_the_run: Engine) -> AsyncIterator[tuple[Runtime, Context]]:
    async with opened(engine_of_the_run, FakeEmbedder()) as made:
        yield made


async def told(rt: Runtime, context: Context, *texts: str) -> list[str]:
    refs = await say(rt, context, *texts)
    await until(context, is_settled)
    return refs


async def gone(rt: Runtime, context: Context, words: str, **how: object) -> Forgotten:
    return await forget(rt, context, caller("/*"), Forget(query=words, **how))  # pyright: ignore[reportArgumentType]


async def test_what_the_words_mean_is_retired(place: tuple[Runtime, Context]) -> None:
    rt, context = place
    key, bread = await told(rt, context, KEY, "Fresh bread smells of yeast")
    done = await gone(rt, context, ASKED)
    assert (done.memories, done.refs, done.degraded) == (1, (key,), ())
    found = await recall(rt, context, caller("/*"), Recall(query="Where is the spare key? What smells of yeast?"))
    assert [hit.row.id for hit in found.hits] == [bread.removeprefix("turn:")]


async def test_an_exact_text_takes_nothing_beside_it(place: tuple[Runtime, Context]) -> None:
    rt, context = place
    key, near = await told(rt, context, KEY, ASKED)
    assert (await gone(rt, context, KEY.upper())).refs == (key,)
    assert (await gone(rt, context, ASKED)).refs == (near,)


async def test_a_dry_run_shows_what_would_go_and_what_comes_near(place: tuple[Runtime, Context]) -> None:
    rt, context = place
    key, other = await told(rt, context, KEY, "The spare key hangs behind the stove")
    done = await gone(rt, context, ASKED, dry_run=True)
    assert [match.ref for match in done.matches] == [key]
    assert [(miss.ref, 0.5 < miss.score <= 1) for miss in done.near_misses] == [(other, True)]
    assert (await gone(rt, context, ASKED)).refs == (key,)


async def test_a_purge_takes_what_is_named_exactly_alone(place: tuple[Runtime, Context]) -> None:
    rt, context = place
    (key,) = await told(rt, context, KEY)
    near = await gone(rt, context, ASKED, purge=True, dry_run=True)
    assert (near.rows, [miss.ref for miss in near.near_misses]) == (0, [key])
    assert (await gone(rt, context, ASKED, purge=True)).rows == 0
    assert (await gone(rt, context, KEY, purge=True)).refs == (key,)


async def test_a_name_that_was_not_said_is_not_meant(place: tuple[Runtime, Context]) -> None:
    rt, context = place
    refs = await told(rt, context, "Mara is allergic to peanuts", "Tom is allergic to peanuts")
    for words in ("allergic to peanuts", "the allergic to peanuts", "I am allergic to peanuts"):
        done = await gone(rt, context, words, dry_run=True)
        assert (done.rows, {miss.ref for miss in done.near_misses}) == (0, set(refs))
    assert (await gone(rt, context, "forget that Mara is allergic to peanuts")).refs == (refs[0],)


async def test_a_near_miss_goes_by_its_id(place: tuple[Runtime, Context]) -> None:
    rt, context = place
    (ref,) = await told(rt, context, "I hate peanuts and walnuts.")
    done = await gone(rt, context, "I love peanuts and walnuts.", dry_run=True)
    assert [(miss.ref, miss.score > 0.5) for miss in done.near_misses] == [(ref, True)]
    assert (await gone(rt, context, "I love peanuts and walnuts.")).rows == 0
    assert (await forget(rt, context, caller("/*"), Forget(ids=(ref,)))).refs == (ref,)


async def test_who_said_it_does_not_count_unless_it_is_about_them(place: tuple[Runtime, Context]) -> None:
    rt, context = place

    async def said(text: str, *speakers: str) -> list[str]:
        messages = [Message(text=text, speaker=speaker) for speaker in speakers]
        done = await remember(rt, context, caller("/*"), Remember(messages=messages))
        await until(context, is_settled)
        return [f"turn:{turn}" for turn in done.turns]

    both = await said(KEY, "Mara", "Tom")
    assert set((await gone(rt, context, ASKED)).refs) == set(both)
    mine = await said("I like the oolong tea", "Mara", "Tom")
    done = await gone(rt, context, "I like oolong tea", dry_run=True)
    assert (done.rows, {miss.ref for miss in done.near_misses}) == (0, set(mine))
    assert (await gone(rt, context, "Mara: I like oolong tea")).refs == (mine[0],)
    assert (await gone(rt, context, "I like oolong tea")).rows == 0


async def test_what_the_assistant_says_of_itself_is_not_what_a_person_means(place: tuple[Runtime, Context]) -> None:
    rt, context = place
    messages = [Message(text=text, role=Role.ASSISTANT) for text in ("I like the oolong tea", KEY)]
    await remember(rt, context, caller("/*"), Remember(messages=messages))
    await until(context, is_settled)
    assert (await gone(rt, context, "I like oolong tea")).rows == 0
    assert (await gone(rt, context, ASKED)).memories == 1


async def test_of_several_that_differ_the_very_words_go_and_else_none(place: tuple[Runtime, Context]) -> None:
    rt, context = place
    one, more = await told(rt, context, "my sister keeps the key of the boat", "my sisters keep the key of the boat")
    done = await gone(rt, context, "my sister keep key of the boat", dry_run=True)
    assert (done.rows, {miss.ref for miss in done.near_misses}) == (0, {one, more})
    assert (await gone(rt, context, "forget that my sisters keep the key of the boat")).refs == (more,)
    assert (await gone(rt, context, "my sister keep key of the boat")).refs == (one,)


async def test_facts_go_with_their_whole_chain(place: tuple[Runtime, Context]) -> None:
    rt, context = place
    await saying.say(rt, context, caller("/*"), fact("role", "cook"))
    await saying.say(rt, context, caller("/*"), fact("role", "pilot"))
    await until(context, is_settled)
    done = await gone(rt, context, "forget that Mara's role is the pilot")
    assert (done.memories, done.rows >= 2) == (1, True)
    assert not (await recall(rt, context, caller("/*"), Recall(query="What is the role of Mara?"))).hits


async def test_at_most_twenty_go_and_the_rest_is_told(place: tuple[Runtime, Context]) -> None:
    rt, context = place
    await told(rt, context, *(f"the boat is old and needs paint{'!' * n}" for n in range(25)))
    done = await gone(rt, context, "boats are old and need paint")
    assert (done.memories, done.remaining) == (20, 5)


async def test_a_text_of_many_passages_is_never_meant_as_a_whole(place: tuple[Runtime, Context]) -> None:
    rt, context = place
    (long,) = await told(rt, context, f"{KEY}. " * 120)
    done = await gone(rt, context, ASKED, dry_run=True)
    assert (done.rows, [miss.ref for miss in done.near_misses]) == (0, [long])


async def test_only_what_the_caller_may_forget_and_read_is_meant(place: tuple[Runtime, Context]) -> None:
    rt, context = place
    for home in ("user/mara", "user/tom"):
        writer = caller(f"{home}/*", home=home)
        await remember(rt, context, writer, Remember(messages=[Message(text=KEY)]))
    await until(context, is_settled)
    done = await forget(rt, context, caller("user/tom/*", home="user/tom"), Forget(query=ASKED))
    assert done.memories == 1
    assert [
        len((await recall(rt, context, caller(f"{home}/*"), Recall(query="spare key"))).hits)
        for home in ("user/mara", "user/tom")
    ] == [1, 0]


@pytest.mark.parametrize("words", ["turn:aaaaaaaaaaaaaaaaaaaa", "person/mara/role", "attribute:person/mara/role"])
async def test_an_id_and_a_reference_mean_nothing_else(place: tuple[Runtime, Context], words: str) -> None:
    rt, context = place
    await told(rt, context, "mara role", "turn aaaaaaaaaaaaaaaaaaaa", "person mara role")
    assert (await gone(rt, context, words)).rows == 0


async def test_an_embedder_that_fails_leaves_the_exact_rule_and_is_told(engine_of_the_run: Engine) -> None:
    embedder = Faulty(FakeEmbedder())
    async with opened(engine_of_the_run, embedder) as (rt, context):
        (key,) = await told(rt, context, KEY)
        embedder.fail = True
        asked = ForgetIn(query=ASKED)
        done = await forget(rt, context, caller("/*"), asked.to_core())
        assert (done.rows, ForgetOut.of(done, asked).degraded) == (0, ("vector",))
        assert (await gone(rt, context, KEY)).refs == (key,)


async def test_without_vectors_by_choice_nothing_is_degraded(engine_of_the_run: Engine) -> None:
    async with opened(engine_of_the_run) as (rt, context):
        await say(rt, context, KEY)
        done = await gone(rt, context, ASKED)
        assert (done.rows, done.degraded) == (0, ())


async def test_what_was_just_written_is_meant_too(place: tuple[Runtime, Context]) -> None:
    rt, context = place
    await told(rt, context, "one thing")
    (key,) = await say(rt, context, KEY)
    assert (await gone(rt, context, ASKED)).refs == (key,)


async def test_the_ledger_forgets_it_again_after_a_restore(tmp_path_factory: pytest.TempPathFactory) -> None:
    folder = tmp_path_factory.mktemp("m")
    config = Config(data=folder, embedder="fake")
    async with open_runtime(config) as rt:
        await contexts.bootstrap(rt, "acme")
        context = await rt.context("acme")
        (key,) = await told(rt, context, KEY)
        assert (await gone(rt, context, ASKED)).refs == (key,)
        # As in a record restored from before: the row is back, and the tombstone not yet carried out.
        await context.db.run("UPDATE turn SET forgotten_at = NONE, status = 'confirmed' RETURN NONE;")
        await context.db.run("UPDATE meta:state SET tombstone = 0 RETURN NONE;")
    async with open_runtime(config) as rt:
        context = await rt.context("acme")
        assert not (await recall(rt, context, caller("/*"), Recall(query="spare key"))).hits
        assert not await store_vectors.count(context.db)


class Constant:
    """An embedder for which all texts are one."""

    def __init__(self) -> None:
        self.behind = FakeEmbedder(8)

    @property
    def model(self) -> str:
        return self.behind.model

    async def space(self) -> Space:
        return await self.behind.space()

    async def embed(self, texts: Sequence[str], *, asking: bool = False) -> Vectors:
        rows = np.zeros((len(texts), 8), np.float32)
        rows[:, 0] = 1
        return rows

    async def close(self) -> None:
        await self.behind.close()


async def test_where_every_text_is_near_the_words_alone_decide(engine_of_the_run: Engine) -> None:
    async with opened(engine_of_the_run, Constant()) as (rt, context):
        kept = dict(zip(KEPT, await told(rt, context, *KEPT), strict=True))
        words = ["forget that", "that thing", "delete the memory", "it", "!!!", "insulin is in", "the", "I", "like it"]
        words += [asked for asked, _ in OTHERS if asked and fold(asked) not in {fold(text) for text in KEPT}]
        for phrase in words:
            assert (await gone(rt, context, phrase)).rows == 0, phrase
        assert (await gone(rt, context, "forget that I hate the peanuts.")).refs == (kept["I hate peanuts."],)


KEPT = ["I like it.", "the insulin is in the fridge", *dict.fromkeys(text for _, text in OTHERS if len(text) > 8)]


async def test_a_phrase_has_a_limit_and_is_told_what_to_do(place: tuple[Runtime, Context]) -> None:
    rt, context = place
    for dry_run in (False, True):
        with pytest.raises(TooLarge, match="at most 65536 are accepted: name longer texts by their ids"):
            await gone(rt, context, "ä" * 32_769, dry_run=dry_run)
    assert (await gone(rt, context, "ä" * 32_768)).rows == 0


async def test_long_words_are_named_and_never_meant(engine_of_the_run: Engine) -> None:
    embedder = Faulty(FakeEmbedder())
    async with opened(engine_of_the_run, embedder) as (rt, context):
        text = f"{KEY} " + "and so on " * 250
        (ref,) = await told(rt, context, text)
        embedder.calls = 0
        done = await gone(rt, context, f"forget that {text}")
        assert (done.rows, done.degraded, embedder.calls) == (0, (), 0)
        assert (await gone(rt, context, text)).refs == (ref,)


@pytest.mark.parametrize("unit", ["a ", "x. ", "e" + "\u0301" * 29, "person/", '"', "a'", "\ufdfa"])
async def test_no_phrase_holds_up_the_others(place: tuple[Runtime, Context], unit: str) -> None:
    rt, context = place
    await told(rt, context, *(f"{KEY} {'a ' * 900}{n}" for n in range(20)))
    waits: list[float] = []

    async def beat() -> None:
        while True:
            began = time.perf_counter()
            await asyncio.sleep(0.005)
            waits.append(time.perf_counter() - began)

    beating = asyncio.create_task(beat())
    size = len(unit.encode())
    await gone(rt, context, unit * (60_000 // size), dry_run=True)
    await gone(rt, context, f"{KEY} {unit * (1_900 // len(unit))}", dry_run=True)
    ids = tuple(f"person/{unit * (900 // len(unit))}{n}" for n in range(1_000))
    await forget(rt, context, caller("/*"), Forget(ids=ids, dry_run=True))
    beating.cancel()
    assert max(waits) < 1.0


PEOPLE = "Amara Bela Carys Dov Elif Farid Greta Hiro".split()
THINGS = "amber heron/crooked lantern/velvet anvil/silent compass/copper teapot/lunar beetle".split("/")
DOES = ("keeps a spare key under the {}", "collects {} postcards", "wrote a poem about a {}")


@pytest.mark.slow
async def test_near_opposites_stay_with_the_real_model(engine_of_the_run: Engine) -> None:
    pairs = [(asked, text) for asked, text in OTHERS if len(text) > 8][:24]
    async with opened(engine_of_the_run, MiniLM()) as (rt, context):
        refs = await say(rt, context, *dict.fromkeys(text for _, text in pairs))
        await until(context, is_settled, within_s=60)
        for asked, _ in pairs:
            assert (await gone(rt, context, asked)).rows == 0, asked
        assert (await gone(rt, context, "please forget that I hate the peanuts")).refs == (refs[0],)


@pytest.mark.slow
async def test_sentences_made_alike_lose_none_but_the_one_that_was_meant(engine_of_the_run: Engine) -> None:
    facts = {
        f"{PEOPLE[(n + m) % len(PEOPLE)]} {DOES[m].format(thing)}": f"forget that {PEOPLE[(n + m) % len(PEOPLE)]} "
        + DOES[m].format(thing).replace("the ", "").replace("collects", "collect")
        for n, thing in enumerate(THINGS)
        for m in range(len(DOES))
    }
    async with opened(engine_of_the_run, MiniLM()) as (rt, context):
        refs = dict(zip(facts, await say(rt, context, *facts), strict=True))
        await until(context, is_settled, within_s=60)
        meant = list(facts)[::3]
        forgotten = 0
        for text in meant:
            done = await gone(rt, context, facts[text])
            assert set(done.refs) <= {refs[text]}, (text, facts[text])
            forgotten += len(done.refs)
        assert forgotten >= len(meant) // 2
