"""Text in the form that screening compares: what a reader sees, without tricks of writing.

Characters that show nothing are gone, wide and styled letters are plain ones, digits of any script are 0-9.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from keeps.core.text import UNSEEN, cut_marks

_UNSEEN: Final = re.compile(f"[{UNSEEN}\u034f\u115f\u1160\u17b4\u17b5\u2800\u3164\uffa0]")
_ACCENTS: Final = re.compile("[\u0300-\u036f\u064b-\u065f\u0670\u0640]")
_SPACES: Final = re.compile(r"\s+")
_BREAKS: Final = re.compile(r"(?<![ \t\r])[ \t\r]*\n[ \t\r\n]*")
_PHRASES: Final = "\ufdfa\ufdfb"
"""Ligatures of 8 and 18 characters, which hold no secret: left as they are, so that folding adds little."""
_QUOTES: Final = str.maketrans({"\u2018": "'", "\u2019": "'", "\u02bc": "'", "\u00b4": "'"})


ARABIC: Final = str.maketrans("أإآؤئ", "اااوي")
"""What folding makes of Arabic letters with a hamza, for patterns that are matched against folded text."""

_ALIKE: Final = str.maketrans(
    "аеорсухіјѕһԁԛԝвкмнтгпӏАВЕКМНОРСТУХІЈЅαεοριυνκτχηΑΒΕΖΗΙΚΜΝΟΡΤΥΧ",
    "aeopcyxijshdqwvkmhtrnlABEKMHOPCTYXIJSaeopiuvktxnABEZHIKMNOPTYX",
)
_TWO_ALPHABETS: Final = re.compile(
    "[A-Za-z\u00c0-\u024f][\u0370-\u03ff\u0400-\u052f]|[\u0370-\u03ff\u0400-\u052f][A-Za-z\u00c0-\u024f]"
)
_LETTERS: Final = re.compile(r"[^\W\d_]+")
_WORD: Final = re.compile(r"[^\W_]+")


@dataclass(frozen=True, slots=True)
class Placed:
    """A text, and where each of its characters stood in the original; `places` None: where it stands here."""

    text: str
    places: Sequence[int] | None = None

    def span(self, start: int, end: int) -> tuple[int, int]:
        """`start:end` of this text (not empty) as a span of the original."""
        if self.places is None:
            return start, end
        return self.places[start], self.places[end - 1] + 1


def placed(text: str) -> Placed:
    """`text` with case kept, characters that show nothing removed, and each of the others in its plain form."""
    if text.isascii():
        return Placed(text)
    chars: list[str] = []
    places: list[int] = []
    for place, char in enumerate(text):
        plain = char if char.isascii() else _plain(char)
        chars.append(plain)
        places.extend([place] * len(plain))
    return Placed("".join(chars), places)


def unbroken(whole: Placed) -> Placed | None:
    """`whole` without its line breaks and the spaces beside them; None when it has none."""
    if "\n" not in whole.text:
        return None
    chars: list[str] = []
    places: list[int] = []
    start = 0
    for gap in _BREAKS.finditer(whole.text):
        chars.append(whole.text[start : gap.start()])
        places.extend(_original(whole, start, gap.start()))
        start = gap.end()
    chars.append(whole.text[start:])
    places.extend(_original(whole, start, len(whole.text)))
    return Placed("".join(chars), places)


def plain_words(text: str) -> str:
    """`text` in small letters without accents, signs that show nothing, and line breaks; spaces are single ones."""
    if text.isascii():
        return _SPACES.sub(" ", text.lower())
    visible = _UNSEEN.sub("", cut_marks(text))
    parts = unicodedata.normalize("NFKD", visible.replace("\ufdfa", "").replace("\ufdfb", ""))
    return _SPACES.sub(" ", _ACCENTS.sub("", parts.casefold())).translate(_QUOTES)


def as_latin(text: str) -> str:
    """`text` with each Greek and Cyrillic letter that looks like a Latin one as that; of the same length."""
    return text.translate(_ALIKE)


def in_latin(text: str) -> str:
    """The same, for the words alone that hold letters of two alphabets; of the same length."""
    if text.isascii() or not _TWO_ALPHABETS.search(text):
        return text
    return _LETTERS.sub(lambda word: as_latin(word.group()) if is_mixed(word.group()) else word.group(), text)


def is_mixed(word: str) -> bool:
    """True where a Latin letter stands beside a Greek or Cyrillic one."""
    return _TWO_ALPHABETS.search(word) is not None


def bare_words(text: str) -> list[str]:
    """The words of `text` as they are told apart where it must not matter how they are written: letters and digits
    alone, without case, accents, and an English plural; everything else stands between words or is not there."""
    return [_singular(word) for word in _bare(text)]


def bare_letters(text: str) -> str:
    """The same in one piece and with plurals, for a text whose words were told apart in another way."""
    return "".join(_bare(text))


def _bare(text: str) -> list[str]:
    plain = text.lower() if text.isascii() else as_latin(plain_words(placed(text).text))
    return [word for word in _WORD.findall(plain) if word != "sic"]


def _singular(word: str) -> str:
    if len(word) < 4 or not word.endswith("s") or word.endswith(("ss", "us", "is")):
        return word
    return f"{word[:-3]}y" if word.endswith("ies") and len(word) > 4 else word[:-1]


def _original(whole: Placed, start: int, end: int) -> Sequence[int]:
    return range(start, end) if whole.places is None else whole.places[start:end]


def _plain(char: str) -> str:
    if _UNSEEN.match(char):
        return ""
    if char in _PHRASES:
        return char
    digit = unicodedata.decimal(char, None)
    return unicodedata.normalize("NFKC", char) if digit is None else str(digit)
