import pytest

from keeps.finder.base import Name
from keeps.finder.local import LocalFinder
from keeps.finder.names import MOST_OF_A_KEY


def name(text: str, scope_set: str = "s1", entity: str | None = None) -> Name:
    return Name(entity=entity or f"person/{text}", scope_set=scope_set, name=text)


KNOWN = [
    name("mara"),
    name("new york"),
    name("new"),
    name("york"),
    name("josé garcía"),
    name("c++"),
    name("c"),
    name("node.js"),
    name("o'brien"),
    name("will"),
    name("田中"),
    name("🙂"),
    name("a b c d e f"),
]


@pytest.mark.parametrize(
    ("question", "expected"),
    [
        ("Where does Mara live?", ["mara"]),
        ("what is MARA’s phone number", ["mara"]),
        ("marathon", []),
        ("Is Mara in New York?", ["mara", "new york"]),
        ("york is new", ["york", "new"]),
        ("did Jose Garcia call", ["josé garcía"]),
        ("is C++ hard", ["c++"]),
        ("does she use node.js", ["node.js"]),
        ("does she use node js", ["node.js"]),
        ("ask O’Brien", ["o'brien"]),
        ("what did Will say", ["will"]),
        ("what will she say", []),
        ("田中さんはどこですか", ["田中"]),
        ("who is 🙂 ?", ["🙂"]),
        ("so a b c d e f it is", ["a b c d e f"]),
        ("", []),
    ],
)
async def test_names_a_question_mentions(finder: LocalFinder, question: str, expected: list[str]) -> None:
    await finder.apply(1, names=KNOWN)
    assert [found.name for found in await finder.names_in(question, ["s1"])] == expected


async def test_names_come_back_as_they_were_given(finder: LocalFinder) -> None:
    mine, theirs = name("mara"), name("mara", "s2", "person/mara-2")
    await finder.apply(1, names=[mine, theirs])
    assert await finder.names_in("Mara?", ["s1"]) == [mine]
    assert set(await finder.names_in("Mara?", ["s1", "s2"])) == {mine, theirs}
    assert await finder.names_in("Mara?", ["s3"]) == []
    await finder.apply(2, names=[mine], drop_names=[theirs])
    assert await finder.names_in("Mara?", ["s1", "s2"]) == [mine]
    await finder.apply(3, drop_names=[mine])
    assert await finder.names_in("Mara?", ["s1", "s2"]) == []


async def test_a_longer_name_of_others_does_not_hide_a_shorter_one(finder: LocalFinder) -> None:
    await finder.apply(1, names=[name("mara", "s1"), name("mara lee", "s2")])
    assert [n.name for n in await finder.names_in("Mara Lee?", ["s1"])] == ["mara"]
    assert [n.name for n in await finder.names_in("Mara Lee?", ["s1", "s2"])] == ["mara lee"]


async def test_a_name_of_very_many_gives_the_first_of_them(finder: LocalFinder) -> None:
    many = [Name(entity=f"e{number:04}", scope_set=f"s{number % 600}", name="mara") for number in range(1200)]
    await finder.apply(1, names=many)
    found = await finder.names_in("mara " * 13_000, {f"s{number}" for number in range(600)})
    assert [name.entity for name in found] == [f"e{number:04}" for number in range(MOST_OF_A_KEY)]
