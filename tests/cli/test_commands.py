"""Each command through its front door: what it prints for people and for programs, and how it ends."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from keeps.cli.app import COMMANDS, GROUPS
from keeps.cli.reach import counted
from keeps.cli.recall import lacking
from keeps.client import Client
from keeps.store.secrets import saved_keys
from keeps.wire.index import IndexOut
from tests.cli.conftest import Desk, Server


def test_help_names_every_command_and_the_exit_codes(desk: Desk) -> None:
    text = desk("--help").out
    for command in (*COMMANDS, *GROUPS):
        assert command in text
        assert desk(command, "--help").out
    assert "Exit codes" in text


def test_version(desk: Desk) -> None:
    assert desk("--version").out.startswith("keeps 0.")


def test_remember_saves_a_note_of_the_person(desk: Desk) -> None:
    done = desk("remember", "The ladle hangs behind the zinnia pot", "--json").json
    (fact,) = done["extraction"]["attributes"]
    assert fact["entityId"] == "entity:person/owner"
    assert fact["key"].startswith("note_")
    hit = desk("recall", "zinnia ladle", "--json").json["hits"][0]
    assert hit["text"] == "The ladle hangs behind the zinnia pot"
    assert (hit["kind"], hit["origin"]) == ("note", "user_saved")


def test_remember_reads_stdin(desk: Desk) -> None:
    desk("remember", "-", stdin="The quince jam is in the attic\n")
    assert "quince jam is in the attic" in desk("recall", "quince").out


def test_a_fact_is_corrected_and_its_history_stays(desk: Desk) -> None:
    assert "role = deckhand" in desk("remember", "--fact", "Runa", "role", "deckhand").out
    assert "was: deckhand" in desk("remember", "--fact", "Runa", "role", "harbour pilot").out
    lines = desk("history", "person/runa", "role").out.splitlines()
    assert lines[0] == "person/runa role = harbour pilot"
    assert lines[2] == "person/runa role = deckhand"
    assert "rests on turn:" in lines[1]
    assert " until " in lines[3]
    shown = desk("show", "attribute:person/runa/role", "--json").json
    assert shown["current"]["value"] == "harbour pilot"
    assert desk("history", "Runa").out.splitlines()[0] == "person/runa role = harbour pilot"
    assert [row["value"] for row in desk("history", "person/runa", "--json").json["history"]] == [
        "harbour pilot",
        "deckhand",
    ]


def test_a_value_beside_others_is_said_to_stand_there_and_the_one_asked_for_comes_first(desk: Desk) -> None:
    assert "beside" not in desk("remember", "--fact", "Bo", "likes", "rye bread").out
    first = desk("remember", "--fact", "Bo", "likes", "green tea", "--json").json["extraction"]["attributes"][0]["id"]
    assert "likes = plums (beside: green tea, rye bread)" in desk("remember", "--fact", "Bo", "likes", "plums").out
    lines = desk("show", f"attribute:{first}").out.splitlines()
    assert [line for line in lines if not line.startswith(" ")] == [
        "person/bo likes = green tea",
        "person/bo likes = plums",
        "person/bo likes = rye bread",
    ]


def test_a_fact_may_be_about_any_type(desk: Desk) -> None:
    desk("remember", "--fact", "organisation/North Port", "harbour_master", "Ilse")
    assert "North Port organisation/north port" in desk("entities", "--type", "organisation").out
    desk("remember", "--fact", "AC/DC Fan", "likes", "rye bread")
    assert "person/ac/dc fan" in desk("entities", "--type", "person").out


def test_what_was_said_is_kept_as_a_turn(desk: Desk) -> None:
    turn = desk("remember", "The tern nests on the breakwater", "--as-turn", "--json").json["turnId"]
    assert "The tern nests on the breakwater" in desk("show", f"turn:{turn}").out
    assert "from a past conversation, not confirmed" in desk("recall", "tern breakwater").out


def test_context_is_a_fenced_block(desk: Desk) -> None:
    desk("remember", "The heron stands on one leg")
    block = desk("context", "heron leg").out
    assert block.startswith("<memory-")
    assert "The heron stands on one leg" in block
    assert desk("context", "heron leg", "--json").json["context"].startswith("<memory-")


def test_a_question_without_an_answer(desk: Desk) -> None:
    assert desk("recall", "xylophone").out == "Nothing found.\n"
    assert desk("context", "xylophone").out == ""


def test_labels_lens_and_time_narrow_a_question(desk: Desk) -> None:
    desk("remember", "The osprey is ringed", "--scope", "team/birds", "--label", "ring=7")
    assert "osprey" in desk("recall", "osprey", "--lens", "team/*", "--label", "ring=7").out
    assert desk("recall", "osprey", "--lens", "team/fish").out == "Nothing found.\n"
    assert desk("recall", "osprey", "--label", "ring=8").out == "Nothing found.\n"
    assert desk("recall", "osprey", "--as-of", "2020-01-01").out == "Nothing found.\n"


def test_forget_says_first_what_would_go(desk: Desk) -> None:
    desk("remember", "The gate code is plumage")
    would = desk("forget", "The gate code is plumage", "--dry-run").out
    assert would.startswith("Would forget 1 memory")
    assert "    The gate code is plumage attribute:" in would
    assert "plumage" in desk("recall", "gate code").out
    refused = desk("forget", "The gate code is plumage", code=2)
    assert "--yes" in refused.err
    assert "    The gate code is plumage attribute:" in refused.out
    assert "plumage" in desk("recall", "gate code").out
    assert desk("forget", "The gate code is plumage", "--yes", "--json").json["deleted"] >= 1
    assert desk("recall", "plumage").out == "Nothing found.\n"


def test_purge_erases_by_id(desk: Desk) -> None:
    done = desk("remember", "The vault opens with marzipan", "--json").json
    fact = done["extraction"]["attributes"][0]
    assert desk("forget", "--id", f"attribute:{fact['id']}", "--purge", "--yes", "--json").json["deleted"] >= 1
    assert desk("recall", "marzipan").out == "Nothing found.\n"
    desk("show", f"attribute:person/owner/{fact['key']}", code=3)


def test_scopes(desk: Desk) -> None:
    assert desk("scopes", "register", "org/east/crew").out == "Registered org/east/crew/\n"
    paths = [node["path"] for node in desk("scopes", "list", "--json").json["scopes"]]
    assert {"org/", "org/east/", "org/east/crew/"} <= set(paths)
    desk("remember", "The crew sings shanties", "--scope", "org/east/crew")
    desk("scopes", "forget", "org/east", code=2)
    assert desk("scopes", "forget", "org/east", "--yes", "--json").json["forgotten"] > 0
    assert desk("recall", "shanties").out == "Nothing found.\n"
    desk("scopes", "delete", "org/east/crew")
    assert "removed" in next(line for line in desk("scopes", "list").out.splitlines() if "crew" in line)


def test_keys_are_shown_once(desk: Desk, server: Server) -> None:
    made = desk("keys", "create", "reader", "--grant", "memory:read=team/*", "--json")
    secret = made.json["key"]
    assert "once" in made.err
    listed = desk("keys", "list", "--json")
    assert secret not in listed.out
    assert "reader" in [key["name"] for key in listed.json["keys"]]
    remote = Desk(folder=server.folder, env={"KEEPS_ENDPOINT": server.endpoint, "KEEPS_KEY": secret})
    assert remote("recall", "anything", "--json").json["hits"] == []
    assert "keeps: " in remote("remember", "not allowed", "--as-turn", code=1).err
    renewed = desk("keys", "rotate", "reader").out.strip()
    assert renewed != secret
    assert "not one of this context" in remote("recall", "anything", code=1).err
    desk("keys", "delete", "reader")
    desk("keys", "delete", "reader", code=3)
    desk("keys", "create", "x", "--grant", "nonsense", code=2)


def test_a_service_is_reached_without_its_folder(server: Server, tmp_path: Path) -> None:
    key = saved_keys(server.folder, "default")["agent"]
    far = Desk(folder=tmp_path / "none", env={"KEEPS_ENDPOINT": server.endpoint, "KEEPS_KEY": key})
    done = far("remember", "The agent saw a kingfisher", "--json").json
    assert done["extraction"]["attributes"][0]["entityId"] == "entity:agent/agent"
    assert "kingfisher" in far("recall", "kingfisher").out
    assert not (tmp_path / "none").exists()
    assert far("recall", "kingfisher", "--endpoint", "http://127.0.0.1:1", code=4).err.count("keeps serve") == 1


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (("show", "entity:person/nobody"), 3),
        (("history", "person/nobody"), 3),
        (("show", "no reference"), 1),
        (("recall", ""), 1),
        (("recall", "x", "-k", "51"), 2),
        (("recall",), 2),
        (("remember",), 2),
        (("remember", "x", "--fact", "a", "b", "c"), 2),
        (("remember", "--fact", "a", "b", "c", "--as-turn"), 2),
        (("forget",), 2),
        (("nosuch",), 2),
        (("recall", "x", "--as-of", "someday"), 2),
        (("context", "x", "--as-of", "someday"), 2),
        (("context", "x", "--subject", "mara"), 2),
        (("show", "person/mara", "--as-of", "someday"), 2),
        (("show", "person/mara", "--at-instant", "someday"), 2),
        (("remember", "x", "--observed-at", "someday"), 2),
        (("history", ""), 2),
        (("history", "nobody"), 3),
        (("forget", "no such memory", "--dry-run"), 3),
        (("forget", "no such memory", "--yes"), 3),
        (("forget", "no such memory", "--purge", "-y"), 3),
        (("forget", "--id", "attribute:nosuch", "--purge", "-y"), 3),
        (("serve", "--policy", "deliberate"), 2),
        (("bootstrap", "--policy", "nonsense"), 2),
        (("export", "--format", "xml"), 2),
    ],
)
def test_exit_codes(desk: Desk, arguments: tuple[str, ...], code: int) -> None:
    ran = desk(*arguments, code=code)
    assert ran.out == "" or code == 2
    assert ran.err


def test_a_folder_that_is_not_there_is_made_by_writing_only(alone: Desk) -> None:
    asking = [("recall", "x"), ("context", "x"), ("show", "person/a"), ("history", "person/a"), ("entities",)]
    working = [
        ("export",),
        ("forget", "x", "--yes"),
        ("scopes", "list"),
        ("keys", "list"),
        ("backup", "x"),
        ("doctor",),
    ]
    for arguments in (*asking, *working):
        assert "there is no memory" in alone(*arguments, code=2).err
    assert not alone.folder.exists()
    ran = alone("remember", "The first thing", "--json")
    assert "Began a new memory" in ran.err
    assert ran.json["mode"] == "triples"
    assert "The first thing" in alone("recall", "first thing").out


def test_a_bad_environment_is_a_usage_error(alone: Desk) -> None:
    alone.env["KEEPS_MAX_IN_FLIGHT"] = "soon"
    assert "KEEPS_MAX_IN_FLIGHT" in alone("remember", "x", code=2).err
    alone.env |= {"KEEPS_MAX_IN_FLIGHT": None, "KEEPS_POLICY": "lenient"}
    assert "KEEPS_POLICY" in alone("remember", "x", code=2).err
    assert not alone.folder.exists()


def test_terminal_tricks_in_a_memory_are_shown_not_performed(desk: Desk) -> None:
    desk("remember", "The petrel \x1b[31m[red]is \u202ereversed[/red] \u200b", "--as-turn")
    out = desk("recall", "petrel").out
    assert "\x1b" not in out
    assert "[red]" in out


def test_errors_of_the_wrong_key_do_not_show_it(desk: Desk, server: Server) -> None:
    ran = desk("recall", "x", "--endpoint", server.endpoint, "--key", "sp-aaaa-thesecretpart", code=1)
    assert "thesecretpart" not in ran.out + ran.err


def test_export_writes_everything_the_caller_sees(desk: Desk, tmp_path: Path) -> None:
    desk("remember", "--fact", "Siv", "role", "cook")
    desk("remember", "--fact", "Siv", "role", "baker")
    desk("remember", "The plover is _shy_ <b>", "--as-turn")
    records = [json.loads(line) for line in desk("export").out.splitlines()]
    kinds = {record["record"] for record in records}
    assert {"scope", "entity", "fact", "session", "turn"} <= kinds
    siv = [record["value"] for record in records if record.get("entity") == "entity:person/siv"]
    assert siv == ["baker", "cook"]
    file = tmp_path / "all.md"
    ran = desk("export", str(file), "--format", "markdown")
    assert ran.out == ""
    text = file.read_text("utf-8")
    assert "### Siv (entity:person/siv)" in text
    assert "The plover is \\_shy\\_ \\<b\\>" in text
    assert file.stat().st_mode & 0o777 == 0o600
    assert "there already" in desk("export", str(file), code=1).err
    assert desk("export", "-").out.splitlines()[0].startswith("{")
    assert not Path("-").exists()
    desk("export", str(file), "--force")


async def test_commands_and_programs_see_the_same(desk: Desk, server: Server) -> None:
    key = saved_keys(server.folder, "default")["owner"]
    async with Client(server.endpoint, key=key) as client:
        await client.remember("The gannet dives", infer="none")
        found = await client.recall("gannet")
        assert found.hits[0].text == "The gannet dives"


def test_a_file_is_no_folder(tmp_path: Path) -> None:
    file = tmp_path / "memory.jsonl"
    file.write_text("{}")
    beside = Desk(folder=file)
    for arguments in (("recall", "x"), ("backup", "x"), ("doctor",)):
        assert f"{file} is a file" in beside(*arguments, code=2).err
    assert "is not a folder" in beside("remember", "x", code=2).err


def test_a_forget_that_means_nothing_says_what_is_understood(desk: Desk) -> None:
    desk("remember", "The grebe nests in the reeds")
    ran = desk("forget", "grebe reeds", "--dry-run", code=3)
    assert "The grebe nests in the reeds attribute:" in ran.out
    assert "Would forget" not in ran.out
    assert "person/mara/role" in ran.err
    assert "--id" in ran.err
    assert desk("forget", "grebe reeds", "--yes", "--json", code=3).json["deleted"] == 0
    assert "grebe" in desk("recall", "grebe").out


def test_a_forget_that_means_nothing_ends_with_what_to_copy(desk: Desk) -> None:
    desk("remember", "The siskin feeds on alder seeds, " + "and on birch, " * 20 + "in winter")
    for bird in range(7):
        desk("remember", f"Another siskin, number {bird}, feeds elsewhere")
    ran = desk("forget", "siskin alder", "--dry-run", code=3)
    near = ran.out.partition("not touched:\n")[2].splitlines()
    assert len(near) == 5
    assert near[0].startswith("    The siskin feeds on alder seeds, and on birch,")
    assert len(near[0].partition(" attribute:")[0].strip()) <= 80
    command = ran.err.splitlines()[-1].partition("keeps ")[2]
    assert command.startswith("forget --id attribute:")
    desk(*command.split(), "--yes")
    assert "alder" not in desk("recall", "siskin alder", "--json").out
    exact = desk("forget", "another siskin, number 3, feeds elsewhere", "--dry-run").out
    assert "Would forget 1 memory" in exact
    assert "not touched" not in exact


def test_what_a_forget_takes_along_is_shown(desk: Desk) -> None:
    desk("remember", "--fact", "Ylva", "role", "carpenter")
    desk("remember", "--fact", "Ylva", "role", "sailmaker")
    out = desk("forget", "person/ylva/role", "--dry-run").out
    assert "    Ylva's role is sailmaker. attribute:" in out
    assert "    person/ylva role = carpenter (no longer) attribute:" in out
    assert [line for line in out.splitlines() if line.strip().startswith(("attribute:", "turn:"))] == []


def test_a_block_of_nothing_says_so(desk: Desk) -> None:
    ran = desk("context", "xyzzy")
    assert (ran.out, ran.err) == ("", "Nothing that is remembered answers this.\n")


def test_what_an_answer_had_to_do_without_is_said_in_words() -> None:
    def index(**members: object) -> IndexOut:
        common = {"mode": "hybrid", "embedder": "minilm", "pending": 0, "stored": 0, "settled": True}
        return IndexOut.parse(common | members)

    assert list(lacking((), None)) == []
    said = [
        *lacking(["vector"], index(pending=1)),
        *lacking(["vector"], index(pending=3)),
        *lacking(["vector"], None),
        *lacking(["vector"], index(mode="durable")),
        *lacking(["vector"], index(degraded="the model is away")),
        *lacking(["vector"], index(embedder="none")),
        *lacking(["text"], None),
    ]
    assert said == [
        "1 text has no vector yet, so meaning counts only in part: `keeps mode --wait` waits for them",
        "3 texts have no vector yet, so meaning counts only in part: `keeps mode --wait` waits for them",
        "Some texts have no vector yet, so meaning counts only in part: `keeps mode --wait` waits for them",
        "This context keeps no vectors (mode durable), so nothing is found by meaning",
        "Meaning counts only in part: the model is away",
        "There is no embedder (KEEPS_EMBEDDER is none), so nothing is found by meaning",
        "One search could not answer in time, that by words: ask again",
    ]


def test_asking_for_meaning_where_none_is_kept_is_answered_plainly(alone: Desk) -> None:
    alone("remember", "The wren sings in the hedge")
    alone("mode", "durable", "--wait")
    ran = alone("recall", "wren", "--mode", "vector")
    assert ran.out == "Nothing found.\n"
    assert "This context keeps no vectors (mode durable), so nothing is found by meaning" in ran.err


def test_vectors_that_are_kept_without_an_embedder_are_not_said_to_leave(alone: Desk) -> None:
    alone("remember", "The wren sings in the hedge")
    alone.env["KEEPS_EMBEDDER"] = "fake"
    alone("mode", "--wait")
    alone.env["KEEPS_EMBEDDER"] = "none"
    out = alone("mode").out
    assert "1 of 1 · kept, not asked" in out
    assert "leaving" not in out


def test_a_switch_does_not_say_that_nothing_is_to_come(alone: Desk) -> None:
    alone.env["KEEPS_EMBEDDER"] = "fake"
    alone("remember", "The wren sings in the hedge")
    alone("mode", "durable", "--wait")
    assert alone("mode", "hybrid").out.startswith("hybrid, 0 vectors in the record, 1 to come · fake\n")


def test_a_forget_takes_a_reference(desk: Desk) -> None:
    desk("remember", "--fact", "Tove", "role", "bosun")
    would = desk("forget", "person/tove/role", "--dry-run").out
    assert "    Tove's role is bosun. attribute:" in would
    desk("forget", "attribute:person/tove/role", "--yes")
    assert desk("recall", "Tove bosun").out == "Nothing found.\n"


def test_slips_are_answered_with_what_was_meant(desk: Desk) -> None:
    assert "Did you mean 'recall'?" in desk("recal", "x", code=2).err
    assert "person/nobody" in desk("history", "nobody", code=3).err
    assert "person/mara" in desk("context", "x", "--subject", "mara", code=2).err
    assert "--dry-run" not in desk("scopes", "forget", "org/east", code=2).err
    assert "--ledger memory/ledger/tombstones.jsonl" in " ".join(desk("restore", "--help").out.split())


@pytest.mark.parametrize(("count", "words"), [(0, "0 turns"), (1, "1 turn"), (2, "2 turns")])
def test_numbers_agree_with_their_nouns(count: int, words: str) -> None:
    assert counted(count, "turn") == words
    assert counted(count, "memory", "memories").endswith("memory" if count == 1 else "memories")


def test_commands_that_only_call_verbs_load_nothing_of_the_server() -> None:
    verbs = [
        name for name in (*COMMANDS.values(), *GROUPS.values()) if name.rpartition(".")[2] not in {"serve", "archive"}
    ]
    code = (
        "import importlib, json, sys\n"
        "for name in sys.argv[1:]: importlib.import_module(name)\n"
        "print(json.dumps([m for m in ('fastapi', 'surrealdb', 'numpy', 'keeps.services') if m in sys.modules]))"
    )
    ran = subprocess.run([sys.executable, "-c", code, *verbs], capture_output=True, text=True, check=True)
    assert json.loads(ran.stdout) == []


def test_gaps_that_purges_leave_are_said_to_be_harmless(alone: Desk, tmp_path: Path) -> None:
    file = tmp_path / "chat.json"
    file.write_text(
        json.dumps([{"role": "user", "content": "The smew dives"}, {"role": "user", "content": "It sleeps"}])
    )
    assert "Imported 2 turns in 1 session." in alone("import", "conversation", str(file)).out
    alone("forget", "The smew dives", "--purge", "--yes")
    told = alone("doctor").out
    assert "numbers without a turn: 1 (" in told
    assert "harmless" in told
    assert "All is well." in told


def test_mode_shows_switches_and_verifies(desk: Desk) -> None:
    desk("remember", "The lighthouse keeper retired in May")
    shown = desk("mode", "--json").json
    assert (shown["mode"], shown["embedder"], shown["pending"]) == ("hybrid", "none", 0)
    filled = desk("mode", "--embedder", "fake", "--wait", "--json").json
    assert (filled["settled"], filled["stored"] > 0, filled["spaces"][0]["state"]) == (True, True, "answering")
    assert "fake-384 384 numbers" in desk("mode").out
    assert desk("mode", "durable", "--wait").out == "durable, verified: 0 vectors in the record, none in the index\n"
    assert desk("mode", "hybrid", "--wait", "--json").json["stored"] == filled["stored"]
    assert "hybrid" in desk("mode", "semantic", code=2).err
    desk("mode", "--embedder", "no such", code=1)
    desk("mode", "--embedder", "none")
