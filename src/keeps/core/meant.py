"""Whether a phrase says what a text says, word by word: what is near in meaning alone can be its opposite.

What is forgotten by mistake does not come back. So the two must hold the same words in the same order, and may differ
only in what never makes another statement of it: see `Said`.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

from keeps.core.text import UNSEEN, cut_marks
from keeps.core.words import STOP_WORDS

MAX_CHARS: Final = 2_000
"""Longer texts are never what somebody's words mean: they say more than one thing."""

_LEAST_CONTENT: Final = 2

_NUMBERS: Final = {
    word: str(number)
    for number, word in enumerate("zero one two three four five six seven eight nine ten eleven twelve".split())
}
_AGREEING: Final = {"am": "be", "is": "be", "are": "be", "were": "was", "has": "have", "does": "do"}
"""Forms of one word that the word before them decides."""
_FORMS: Final = frozenset({*_AGREEING, *_AGREEING.values(), "been", "being", "had", "did"})
_SHORT: Final = {
    "im": ("i", "am"),
    "ive": ("i", "have"),
    "cannot": ("can", "not"),
    "won't": ("will", "not"),
    "can't": ("can", "not"),
    "shan't": ("shall", "not"),
} | {
    f"{word}nt": (word, "not")
    for word in "do does did is are was were has have had could would should must need might".split()
}
_ENDINGS: Final = {"'m": "am", "'re": "are", "'ve": "have", "'ll": "will"}
_FIRST_AND_SECOND: Final = frozenset(
    "i me my mine myself we us our ours ourselves you your yours yourself yourselves".split()
)
_PRONOUNS: Final = _FIRST_AND_SECOND | frozenset(
    "he him his himself she her hers herself it its itself they them their theirs themselves"
    " this that these those".split()
)
_SUBJECTS: Final = frozenset("he she it that there here who what".split())
_ARTICLES: Final = {"a": "a", "an": "a", "the": "the"}
_MEASURED: Final = frozenset(
    "few little bit lot couple number most least more less other only charge possession question future".split()
)
"""Words that an article makes others of: a few are some, few are hardly any."""
_ENGLISH: Final = frozenset("the my your our their you she they are have does been with from this that and not".split())
"""Words that show a text to be English: endings and articles are left out in no other language."""
_NO_PLURALS: Final = frozenset(
    "news glasses goods customs arms pants works times means spirits looks manners savings thanks less contents"
    " premises remains quarters ashes brains honours forces grounds scales woods damages puts reads cuts lets hits"
    " costs sets shuts quits hurts spreads splits casts bets bursts".split()
)
"""Words that say something else without their `s`: another thing, or the past."""
_NOT_CONTENT: Final = STOP_WORDS | _FORMS | _PRONOUNS
_NO_ENDING: Final = STOP_WORDS | _NO_PLURALS
_DELETERS: Final = frozenset("delete remove erase".split())
_JOINS: Final = frozenset(("that", "about", ":", ","))
_RECORDS: Final = frozenset("memory fact note".split())

_UNSEEN: Final = re.compile(f"[{UNSEEN}]")
_APOSTROPHE: Final = re.compile("[\u2018\u2019\u02bc\uff07\u02b9]")
_QUOTES: Final = ' \t\n"\u201c\u201d\u00ab\u00bb'
_ENDS: Final = ".!\u2026 \t\n"
_BULLETS: Final = ("- ", "* ", "\u2022 ")
_PART: Final = re.compile(
    r"(?P<number>(?:(?<![^\s(])[-+])?\d+(?:[.,:/-]\d+)*)|(?P<word>[^\W\d_]+(?:'[^\W\d_]+)*)|(?P<mark>\n+|\S)"
)
_SENTENCE_ENDS: Final = frozenset(".!?:\n")


@dataclass(frozen=True, slots=True)
class Word:
    """One word as it is compared. `capital`: written as names are; `article`: `a`, `the` or nothing before it."""

    text: str
    capital: bool = False
    article: str = ""


@dataclass(frozen=True, slots=True)
class Said:
    """The words of one text in order. Marks inside the text are words of their own, and so is every word that limits,
    denies, joins or asks.

    Left open are: case, marks at the end, quotation marks around all of it, `the`, contractions (`I'm`, `don't`), small
    numbers in words, and in English the forms of be, have and do that agree, and the `s` of plurals and verbs.
    """

    words: tuple[Word, ...]

    @classmethod
    def of(cls, text: str) -> Said:
        """The words of `text`, in time linear in its length."""
        return cls(tuple(_joined(_cut(text))))

    @property
    def english(self) -> bool:
        """True when it holds a word that shows it is English."""
        return any(word.article == "the" or word.text in _ENGLISH for word in self.words)

    @property
    def content(self) -> int:
        """How many of its words say something by themselves."""
        return sum(
            any(char.isalnum() for char in word.text) and word.text not in STOP_WORDS | _FORMS | _PRONOUNS
            for word in self.words
        )

    @property
    def points(self) -> bool:
        """True when whom it is about depends on who says it, and to whom: `I`, `your`."""
        return any(word.text in _FIRST_AND_SECOND for word in self.words)

    @property
    def spelled(self) -> tuple[tuple[str, str], ...]:
        """Its words without their capitals."""
        return tuple((word.text, word.article) for word in self.words)


def asked_by(phrase: str) -> Said:
    """What a phrase says, without the words of asking in front: `please forget that`, `delete the memory about`."""
    said = Said.of(phrase).words
    rest = _after_verb(said[1:] if said and said[0].text == "please" else said)
    if rest is not None:
        return Said(_after_join(rest))
    if [word.text for word in said[:2]] == ["fact", "that"] and said[0].article == "the":
        return Said(said[2:])
    if len(said) > 1 and said[0].text == "that" and (said[1].capital or said[1].article or said[1].text in _PRONOUNS):
        return Said(said[1:])
    return Said(said[1:] if said and said[0].text == "about" else said)


def same(asked: Said, text: Said) -> bool:
    """True when the two say one thing: the same words in the same order, and enough of them to say something."""
    if len(asked.words) != len(text.words) or min(asked.content, text.content) < _LEAST_CONTENT:
        return False
    if not (asked.english or text.english):
        return asked.spelled == text.spelled
    return all(_agree(one, other) for one, other in zip(asked.words, text.words, strict=True))


def torn(said: Sequence[tuple[Said, Hashable]]) -> bool:
    """True when texts that all say what was asked differ among each other, or say it of the `I` of several places: then
    nobody said which is meant."""
    return len({text.spelled for text, _ in said}) > 1 or len({place for text, place in said if text.points}) > 1


def _cut(text: str) -> list[tuple[str, str, bool, bool]]:
    """(kind, text as written, opens a sentence, a space follows) of each part."""
    seen = _APOSTROPHE.sub("'", _UNSEEN.sub("", unicodedata.normalize("NFC", cut_marks(text))))
    bare = seen.strip().rstrip(_ENDS)
    if len(bare) > 1 and bare[0] in _QUOTES and bare[-1] in _QUOTES:
        bare = bare[1:-1].strip().rstrip(_ENDS)
    if bare.startswith(_BULLETS):
        bare = bare[2:]
    parts: list[tuple[str, str, bool, bool]] = []
    opens = True
    for found in _PART.finditer(bare):
        end = found.end()
        parts.append((found.lastgroup or "mark", found.group(), opens, bare[end : end + 1].isspace()))
        opens = found.group() in _SENTENCE_ENDS
    return parts


def _joined(parts: list[tuple[str, str, bool, bool]]) -> list[Word]:
    """The words of parts: contractions written out, articles told with the word they stand before."""
    words: list[Word] = []
    article = ""
    for place, (kind, written, opens, spaced) in enumerate(parts):
        folded = written.casefold()
        follows = parts[place + 1][0] if place + 1 < len(parts) else "mark"
        if folded in _ARTICLES and spaced and follows != "mark" and not article and (opens or written != "A"):
            article = _ARTICLES[folded]
            continue
        capital = kind == "word" and written[0].isupper() and written != "I"
        for text in _written_out(folded) if kind == "word" else [folded]:
            words.append(Word(_NUMBERS.get(text, text), capital, article))
            article = ""
    for place, (word, after) in enumerate(pairwise(words)):
        # Before an article it can only be `is`: elsewhere it may be `has`, or say whose something is.
        if after.text == "'s" and word.text in _SUBJECTS and place + 2 < len(words) and words[place + 2].article:
            words[place + 1] = Word("is")
    return words


def _written_out(word: str) -> list[str]:
    if word in _SHORT:
        return list(_SHORT[word])
    head, apostrophe, end = word.rpartition("'")
    if not apostrophe:
        return [word]
    if end == "t" and head.endswith("n"):
        return [head[:-1], "not"]
    return [head, _ENDINGS.get(f"'{end}", f"'{end}")]


def _after_verb(said: tuple[Word, ...]) -> tuple[Word, ...] | None:
    """What follows `forget` or `delete the memory`; None without such words."""
    if said and said[0].text == "forget":
        return said[1:]
    texts = [word.text for word in said[:3]]
    if len(texts) == 3 and texts[0] in _DELETERS and texts[1] in _RECORDS and texts[2] in _JOINS:
        return said[2:] if said[1].article == "the" else None
    return None


def _after_join(said: tuple[Word, ...]) -> tuple[Word, ...]:
    if len(said) > 1 and said[0].text in _RECORDS and said[0].article == "the" and said[1].text == "that":
        return said[2:]
    return said[1:] if said and said[0].text in _JOINS else said


def _agree(one: Word, other: Word) -> bool:
    """True when two words in the same place of two English texts are one and the same."""
    if one.article != other.article and (
        "a" in (one.article, other.article) or one.text in _MEASURED or other.text in _MEASURED
    ):
        return False
    if one.text == other.text or _AGREEING.get(one.text, one.text) == _AGREEING.get(other.text, other.text):
        return True
    # A name is never another word's plural: Williams is not William.
    return not (one.capital or other.capital) and _singular(one.text) == _singular(other.text)


def _singular(word: str) -> str:
    """An English word without the `s` of plurals and of verbs."""
    if len(word) < 4 or word in _NO_ENDING or not word.endswith("s"):
        return word
    if word.endswith("ies") and len(word) > 4:
        return word[:-3] + "y"
    if word.endswith(("ches", "shes", "xes", "sses", "zzes")):
        return word[:-2]
    return word if word.endswith(("ss", "us", "is")) else word[:-1]
