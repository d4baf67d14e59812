"""Screening takes time in proportion to a text, whatever the text is made of."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator
from types import ModuleType
from typing import cast

import pytest

from keeps.core import (
    credentials,
    folding,
    injection,
    instructing,
    official_numbers,
    screen,
    sensitive,
)

# What patterns repeat, and what ends them short of a match.
SEEDS = [
    *"eéА1-_.:=< \n\"'(@你{[#",
    *(
        "1 ",
        "4 ",
        "1-",
        "1_",
        "a.",
        "a-",
        "a_",
        "a ",
        "a'",
        "=>",
        " \n",
        "a\n",
        "1\n",
        "A1",
        "é!",
        "аa",
        "aа ",
        "e\u0301",
    ),
    *("4111 ", "DE12 ", "key: ", "key_", "api_", "secret", "password for a ", "password: abcd ", "hasło do a ", "pin "),
    *("recovery code ", "seed phrase ", "word ", "word, ", "1) word ", "eyJa-", "eyJaaaaaaaa.", "sk-", "bearer a"),
    *(
        "-----BEGIN PRIVATE KEY-----!",
        "-----BEGIN A",
        "PuTTY-User-Key-File-1",
        "a://b:",
        "sid=",
        "ssn ",
        "passport no ",
    ),
    *("when the user asks ", "wenn der nutzer ", "cuando el usuario pide ", "quand l'utilisateur dit ", "ignore all "),
    *(
        "do not tell the ",
        "you must always ",
        "sag dem ",
        "ne dis ",
        "cache a ",
        "hide word ",
        "send all ",
        "use the a_",
    ),
    *("\nhuman: a\n", "</a ", "{{user ", "end of ", "A1" * 12 + " ", "f0" * 12 + " ", "www.", "x" * 64 + "@", "a@a."),
    *(
        "born on ",
        "5 main ",
        "calle de la ",
        "12.345 ",
        "+1 555 ",
        "take my ",
        "my ",
        "当用户",
        "把",
        "تجاهل كلمة ",
        "ارسل ",
    ),
    *("無視", "игнорируй все ", "ignoruj ", "무시 ", "quietly send "),
]
SMALL, LARGE = 1_000, 4_000
MOST_TIMES = 8.0
"""Four times the text may take so many times the time; what grows with the square takes sixteen."""
TOO_SHORT_S = 0.003
"""What takes less for the longer text is not told from chance."""


def patterns(held: object, name: str) -> Iterator[tuple[str, re.Pattern[str]]]:
    if isinstance(held, re.Pattern):
        yield name, cast("re.Pattern[str]", held)
    elif isinstance(held, tuple):
        for place, each in enumerate(cast("tuple[object, ...]", held)):
            yield from patterns(each, f"{name}[{place}]")


def all_patterns(*modules: ModuleType) -> dict[str, re.Pattern[str]]:
    found = (each for module in modules for name, held in vars(module).items() for each in patterns(held, name))
    return {f"{name} {pattern.pattern[:20]}": pattern for name, pattern in found}


PATTERNS = all_patterns(credentials, folding, injection, instructing, official_numbers, sensitive)
MATCHED_AT_THE_BEGINNING = ("_CALL ", "_PEM_BODY ", "_HEX ", "_HASH ", "_PHRASE ")
"""These are tried at one place only."""


def longer(seed: str, chars: int) -> str:
    return (seed * (chars // len(seed) + 1))[:chars] + "é!"


def cpu_s(act: Callable[[str], object], text: str) -> float:
    began = time.process_time()
    act(text)
    return time.process_time() - began


def grows(act: Callable[[str], object], seed: str) -> bool:
    """True when four times the text takes more than `MOST_TIMES` the time, in each of three tries."""
    for _ in range(3):
        long = cpu_s(act, longer(seed, LARGE))
        if long < TOO_SHORT_S or long < MOST_TIMES * cpu_s(act, longer(seed, SMALL)):
            return False
    return True


def test_the_check_itself_finds_what_grows_with_the_square() -> None:
    bad = re.compile("[a-z]+[A-Z]")
    assert grows(lambda text: bad.findall(text), "e")


@pytest.mark.slow
def test_no_pattern_takes_more_than_time_in_proportion() -> None:
    bad = [
        (name, seed)
        for name, pattern in PATTERNS.items()
        if not name.startswith(MATCHED_AT_THE_BEGINNING)
        for seed in SEEDS
        if grows(lambda text, pattern=pattern: sum(1 for _ in pattern.finditer(text)), seed)
    ]
    assert bad == []


@pytest.mark.parametrize("seed", SEEDS)
def test_screening_takes_time_in_proportion(seed: str) -> None:
    assert not grows(screen.screen, seed)
    assert not grows(screen.may_instruct, seed)
