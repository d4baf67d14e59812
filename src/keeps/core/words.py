"""The words a text is found by: one way of cutting text for what is stored and for what is asked.

Words are folded (compatibility forms, case, accents of Latin and Greek letters), compound names such as
`getUserName` and `user_name` give their parts and the whole, and scripts that put no space between words
(Chinese, Japanese, Korean, Thai, Lao, Khmer, Myanmar) give pairs of neighbouring characters. Arabic words lose
vowel signs, article and plural endings, Hindi ones their endings; German umlauts are found by both spellings. The
stemmer, for English, is handed in, so that this module needs the standard library only.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from typing import Final

from keeps.core.text import MAX_MARKS, UNSEEN, compatible, cut_marks, spans

Stem = Callable[[str], str]

MAX_TERM_CHARS: Final = 64
"""Longer words are cut: they are hashes and encoded data, found by their beginning."""

# English words that carry no subject: articles, pronouns, prepositions, auxiliaries, conjunctions, and the
# words questions are asked with. Contractions stand without their apostrophe.
_STOP_LIST: Final = """
    a an the this that these those such same other another each every either neither both all any some none
    no not nor only own few more most much many several enough
    i me my mine myself you your yours yourself yourselves he him his himself she her hers herself it its
    itself we us our ours ourselves they them their theirs themselves one ones oneself
    someone somebody something anyone anybody anything everyone everybody everything nobody nothing
    who whom whose which what when where why how whoever whatever whichever whenever wherever however
    am is are was were be been being do does did done doing have has had having
    can could might must shall should will would ought cannot
    and or but if because as while until till unless although though whereas since than then so yet
    of at by for with about against between among into through during before after above below to from up
    down in out on off over under upon within without toward towards onto via per along across around
    again further once here there now just also too very really quite rather even ever still already
    im ive youre youve youd youll hes shes theyre theyve theyd theyll weve
    isnt arent wasnt werent dont doesnt didnt hasnt havent hadnt cant couldnt wont wouldnt shouldnt mustnt
    mightnt neednt aint lets thats whats whos wheres whens whys hows theres heres
    please tell
    b c d e f g h j k l m n o p q r s t u v w x y z
"""
STOP_WORDS: Final = frozenset(_STOP_LIST.split())

_UNSPACED_RANGES: Final = (
    "\u0e00-\u0eff"  # Thai, Lao
    "\u1000-\u109f\uaa60-\uaa7f\ua9e0-\ua9ff"  # Myanmar
    "\u1780-\u17ff"  # Khmer
    "\u1100-\u11ff\uac00-\ud7ff"  # Korean
    "\u3040-\u30ff\u31f0-\u31ff\uff66-\uff9f"  # Japanese kana
    "\u2e80-\u2fdf\u3005-\u3007\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U000323af"  # Han
)


# Vowel signs and accents belong to the word they stand in.
_MARKS: Final = spans(lambda char: unicodedata.category(char)[0] == "M")
_APOSTROPHE: Final = re.compile("[\u2018\u2019\u02bc\uff07\u02b9]")
_RUN: Final = re.compile(rf"\w[\w{_MARKS}]*(?:'\w[\w{_MARKS}]*)*")
_ASCII_RUN: Final = re.compile(r"\w+(?:'\w+)*")
_UNSPACED: Final = re.compile(f"[{_UNSPACED_RANGES}]+")
_CLITIC: Final = re.compile(r"'(?:s|d|m|ll|re|ve)\b", re.IGNORECASE)
_NEGATION: Final = re.compile(r"n't\b", re.IGNORECASE)
_PARTS: Final = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+|[^A-Za-z\d_']+|[A-Z]")
_ACCENTED: Final = re.compile("([A-Za-z\u00c0-\u024f\u0370-\u03ff\u1e00-\u1fff])[\u0300-\u036f]+")
_HIDDEN: Final = re.compile(f"[{UNSEEN}\U000e0100-\U0010ffff]")


SAID: Final = "\ue003"
"""In front of a term: it names who said a text, and not only somebody the text mentions."""

_SPEAKER: Final = re.compile(r"\s*([^\W\d_][^\n:]{0,39}):\s")
_MAX_NAME_WORDS: Final = 3
_NO_NAMES: Final = frozenset({"user", "assistant", "system", "tool", "human", "ai", "bot"})
_ASKS: Final = re.compile("[?\uff1f\u061f](?!\\w)")  # not the mark in an address


# Arabic: vowel signs and the stretching line go; letters that writers use for each other become one.
# Devanagari: the dot below goes, and both signs for a nasal are one.
_UNWRITTEN: Final = re.compile("[\u064b-\u0652\u0670\u0640\u093c]")
_ONE_FOR_MANY: Final = str.maketrans("أإآٱىةँ", "اااايهं")
_ARABIC: Final = re.compile("[\u0620-\u06d3]+")
_ARTICLES: Final = ("وال", "بال", "كال", "فال", "لل", "ال")
_ARABIC_ENDINGS: Final = ("ات", "ون", "ين", "ان", "ها", "ه")
_DEVANAGARI: Final = re.compile("[\u0900-\u097f]+")
_HINDI_ENDINGS: Final = tuple("ियां ियों ाओं ाएं ुओं ुएं ओं एं ों ें ीं ां ा े ी ो ि ु ू".split())
_ROOT: Final = 3
"""Letters of a word that must be left when something is taken off its beginning: most Arabic roots have three."""
_UMLAUT: Final = re.compile("[äöüÄÖÜ]")
_WHOLE: Final = re.compile(r"[^\W_]+")
_SPELLED: Final = {ord(one): two for one, two in zip("äöüÄÖÜ", ("ae", "oe", "ue", "Ae", "Oe", "Ue"), strict=True)}


@dataclass(frozen=True, slots=True)
class Bag:
    """The terms of one text. `counts` has every term; `length` counts the words that carry meaning."""

    counts: dict[str, int]
    length: int


def bag(text: str, stem: Stem) -> Bag:
    """Every term of `text` with its number of occurrences. Empty for a text without letters or digits."""
    counts: dict[str, int] = {}
    length = 0
    for term, counted in _terms(text, stem, asking=False):
        counts[term] = counts.get(term, 0) + 1
        length += counted
    return Bag(counts, length)


def speaker_terms(text: str, stem: Stem) -> list[str]:
    """The terms of the name in front of what was said ("Mara: …"), each behind `SAID`; empty without a name."""
    found = _SPEAKER.match(text)
    if found is None or found.group(1).lower() in _NO_NAMES or len(found.group(1).split()) > _MAX_NAME_WORDS:
        return []
    return list(dict.fromkeys(SAID + term for term, counted in _terms(found.group(1), stem, asking=True) if counted))


def asks(text: str) -> bool:
    """True when a question is asked in `text`."""
    return _ASKS.search(text) is not None


def question(text: str, stem: Stem, *, limit: int = 1024) -> list[str]:
    """The distinct terms to look for, in order of appearance, at most `limit`.

    Words without meaning of their own are left out, unless the question has no others.
    """
    meant: dict[str, None] = {}
    rest: dict[str, None] = {}
    for term, counted in _terms(text, stem, asking=True):
        (meant if counted else rest)[term] = None
        if len(meant) >= limit:
            break
    return list(meant or rest)[:limit]


def name_words(text: str) -> list[str]:
    """The folded, unstemmed words of a name or a question, to compare the two word by word."""
    return [word for word, _ in _name_runs(text)]


def capitalised_words(text: str) -> list[bool]:
    """For each of `name_words(text)`: True when it was written with a capital."""
    return [capital for _, capital in _name_runs(text)]


def name_runs(text: str) -> list[tuple[str, bool]]:
    """`name_words(text)`, each with whether it was written with a capital."""
    return list(_name_runs(text))


def has_unspaced(text: str) -> bool:
    """True when some of `text` is in a script that puts no spaces between words."""
    return _UNSPACED.search(text) is not None


def fold(text: str) -> str:
    """Case, width and accents of Latin and Greek letters removed; other scripts keep their marks."""
    if text.isascii():
        return text.lower()
    return _unaccented(compatible(text).casefold())


def _unaccented(text: str) -> str:
    """Latin and Greek letters without their accents; a dot or ring in another script is part of its letter."""
    if text.isascii():
        return text
    bare = _ACCENTED.sub(r"\1", unicodedata.normalize("NFD", cut_marks(text)))
    return unicodedata.normalize("NFC", bare).replace("ё", "е").replace("Ё", "Е")


def _terms(text: str, stem: Stem, *, asking: bool) -> Iterator[tuple[str, bool]]:
    """(term, carries meaning) in order. Stored text also gives the single characters of unspaced scripts."""
    for run in _runs(text):
        if run.isascii():
            yield from _compound(run, stem)
            continue
        place = 0
        for found in _UNSPACED.finditer(run):
            if found.start() > place:
                yield from _compound(run[place : found.start()], stem)
            yield from _pairs(fold(found.group()), asking=asking)
            place = found.end()
        if place < len(run):
            yield from _compound(run[place:], stem)
    if not text.isascii() and _UMLAUT.search(text):
        for word in _WHOLE.findall(text):
            if _UMLAUT.search(word):
                # The other spelling stands beside the word, and does not make the text longer.
                yield _term(word.translate(_SPELLED), stem)[0], asking


def _runs(text: str) -> Iterator[str]:
    """Runs of letters, marks, digits, underscores and inner apostrophes."""
    if text.isascii():
        cleaned, pattern = text, _ASCII_RUN
    else:
        plain = compatible(_APOSTROPHE.sub("'", text))
        cleaned, pattern = _one_spelling(_unaccented(_visible(plain))), _RUN
    for found in pattern.finditer(cleaned):
        run = found.group()
        if "'" in run:
            # "Mara's" is Mara; "don't" is one word, not "don" and "t"; "O'Brien" is two.
            for part in _NEGATION.sub("nt", _CLITIC.sub("", run)).split("'"):
                if part:
                    yield part
        else:
            yield run


def _visible(text: str) -> str:
    """Without characters that are not seen (joiners, direction marks, soft hyphens, selectors)."""
    if text.isascii():
        return text
    return _HIDDEN.sub("", text.replace("\u200b", " "))


def _one_spelling(text: str) -> str:
    """Arabic and Devanagari without what may be written or left out, one letter for those that replace each other."""
    return text if text.isascii() else _UNWRITTEN.sub("", text).translate(_ONE_FOR_MANY)


def _compound(run: str, stem: Stem) -> Iterator[tuple[str, bool]]:
    """A word; for one made of several (`getUserName`, `user_name`, `gpt4`), its parts and then the whole."""
    if run.isalpha() and (run.islower() or run[1:].islower() or run.isupper()):
        yield _term(run, stem)
        return
    parts = _PARTS.findall(run)
    for part in parts:
        yield _term(part, stem)
    if len(parts) > 1:
        whole = "".join(parts)
        yield _term(whole, stem)


def _term(word: str, stem: Stem) -> tuple[str, bool]:
    """The term of one word, and whether it carries meaning of its own. Long words are not kept in memory."""
    if len(word) > MAX_TERM_CHARS:
        return _term_of(word[: MAX_TERM_CHARS * (MAX_MARKS + 1)], stem)
    return _kept_term(word, stem)


@lru_cache(maxsize=65_536)
def _kept_term(word: str, stem: Stem) -> tuple[str, bool]:
    return _term_of(word, stem)


def _term_of(word: str, stem: Stem) -> tuple[str, bool]:
    folded = fold(word)
    if folded in STOP_WORDS:
        return folded, False
    if folded.isascii() and folded.isalpha() and len(folded) <= MAX_TERM_CHARS:
        return stem(folded), True
    return _bare(folded)[:MAX_TERM_CHARS], True


def _bare(word: str) -> str:
    """An Arabic word without article and ending, a Hindi one without its ending; any other as it is."""
    if _ARABIC.fullmatch(word):
        return _without_end(_without_article(word), _ARABIC_ENDINGS, left=3)
    if _DEVANAGARI.fullmatch(word):
        return _without_end(word, _HINDI_ENDINGS, left=2)
    return word


def _without_article(word: str) -> str:
    for article in _ARTICLES:
        if word.startswith(article) and len(word) - len(article) >= _ROOT:
            return word[len(article) :]
    # "And" is written together with its word; many short words begin with the same letter.
    return word[1:] if word.startswith("و") and len(word) > _ROOT + 1 else word


def _without_end(word: str, endings: tuple[str, ...], *, left: int) -> str:
    return next((word[: -len(end)] for end in endings if word.endswith(end) and len(word) - len(end) >= left), word)


def _pairs(run: str, *, asking: bool) -> Iterator[tuple[str, bool]]:
    """Neighbouring characters two by two. A lone character is a term; stored text has all of them too."""
    if len(run) == 1:
        yield run, True
        return
    for first, second in pairwise(run):
        yield first + second, True
    if not asking:
        for char in run:
            if unicodedata.category(char)[0] != "M":
                yield char, False


def _name_runs(text: str) -> Iterator[tuple[str, bool]]:
    for run in _runs(text):
        for part in run.split("_"):
            if part:
                yield fold(part), part[0].isupper()
