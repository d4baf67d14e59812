from collections.abc import Iterable
from pathlib import Path

from keeps.finder.base import Name
from keeps.finder.local import LocalFinder
from tests.finder.making import stream, turn

CANARY = "Zyxwortel quvantik 東京塔 Ñandúbix bluefinCanary"
TRACES = ["zyxwortel", "quvantik", "東京", "塔", "andubix", "andúbix", "bluefin", "canary"]


def left(folder: Path, traces: Iterable[str] = TRACES) -> list[str]:
    """The traces that stand in any file of the folder."""
    contents = [path.read_bytes().lower() for path in folder.rglob("*") if path.is_file()]
    assert contents
    return [trace for trace in traces if any(trace.encode() in content for content in contents)]


def noise(start: int, count: int) -> list:
    return [turn(n, f"ordinary text number {n} about boats and kites {n * 7}") for n in range(start, start + count)]


async def test_no_byte_of_dropped_text_is_left(tmp_path: Path) -> None:
    folder = tmp_path / "finder"
    finder = await LocalFinder.open(folder, "c")
    await finder.rebuild("c", stream(*noise(0, 300)), 1)
    secret = turn("secret", CANARY)
    after = turn("after", "yes I agree", before=CANARY, window_of="turn:secret")
    canary_name = Name(entity="person/zyxwortel", scope_set="s1", name="zyxwortel")
    await finder.apply(2, put=[secret, after], names=[canary_name])
    await finder.apply(3, put=noise(1000, 200))
    assert left(folder) != []
    assert await finder.find(CANARY, ["s1"])

    assert await finder.neighbours(["turn:secret"]) == ["turn:after"]
    await finder.apply(4, drop=["turn:secret"], put=[turn("after", "yes I agree")], drop_names=[canary_name])
    assert await finder.find(CANARY, ["s1"]) == []
    assert await finder.names_in("Zyxwortel?", ["s1"]) == []
    await finder.scrub()
    assert left(folder) == []
    assert len(await finder.find("yes agree boats", ["s1"], limit=1000)) == 501

    await finder.close()
    assert left(folder) == []


async def test_a_replaced_text_is_scrubbed_too(tmp_path: Path) -> None:
    folder = tmp_path / "finder"
    finder = await LocalFinder.open(folder, "c")
    await finder.rebuild("c", stream(turn(1, CANARY, labels=frozenset({"quvantik"})), *noise(2, 50)), 1)
    await finder.apply(2, put=[turn(1, "something else")])
    await finder.scrub()
    assert left(folder) == []
    await finder.close()


async def test_many_rounds_leave_nothing_either(tmp_path: Path) -> None:
    folder = tmp_path / "finder"
    finder = await LocalFinder.open(folder, "c")
    await finder.rebuild("c", stream(*noise(0, 40)), 1)
    traces = [f"canary{chr(97 + n)}{chr(122 - n)}q" for n in range(20)]
    for step, trace in enumerate(traces):
        await finder.apply(2 + 2 * step, put=[turn("t", f"{trace} " * 20), *noise(100 + step, 1)])
        await finder.apply(3 + 2 * step, drop=["turn:t"] if step % 2 else [])
    await finder.apply(100, drop=["turn:t"])
    await finder.scrub()
    assert left(folder, traces) == []
    await finder.close()


async def test_a_rebuild_leaves_nothing_of_the_old_index(tmp_path: Path) -> None:
    folder = tmp_path / "finder"
    finder = await LocalFinder.open(folder, "c")
    await finder.rebuild("c", stream(turn(1, CANARY)), 1)
    await finder.rebuild("c", stream(*noise(0, 5)), 2)
    assert left(folder) == []
    await finder.close()
