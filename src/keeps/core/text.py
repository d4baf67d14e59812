"""Cleaning text before anything else sees it, and the folded form used only for comparing.

What is stored is what a person would see: composed characters, plain line breaks, no invisible carriers of
hidden words. Joiners that scripts and emoji need stay.
"""

from __future__ import annotations

import math
import re
import unicodedata
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Final, cast

from keeps.core.errors import Conflict, Invalid, TooLarge

MAX_SAFE_INT: Final = 2**53
"""The largest integer that every JSON reader and the engine keep exactly."""
MAX_DEPTH: Final = 32
MAX_LABELS: Final = 32
MAX_LABEL_CHARS: Final = 256
MAX_MARKS: Final = 30
"""The most combining marks kept on one letter. No script needs more, and composing a run of them takes time
that grows with the square of its length."""
_PADDING: Final = 8
"""How many times its limit a text may be long before it is cleaned."""
_MAX_PASSES: Final = 5

_NON_CHARACTERS: Final = "\ufdd0-\ufdef" + "".join(
    f"{chr(plane * 0x10000 + 0xFFFE)}{chr(plane * 0x10000 + 0xFFFF)}" for plane in range(17)
)
_UNSTORABLE: Final = re.compile(f"[\x00\ud800-\udfff{_NON_CHARACTERS}]")
_CONTROLS: Final = re.compile("[\x01-\x08\x0b-\x1f\x7f-\x9f]")
_LINE_ENDS: Final = re.compile("\r\n?")
_BLANK_LINES: Final = re.compile("\n{3,}")
_SPACES: Final = re.compile(r"\s+")

# The three flags written with tag characters that are in general use; the alternative matches any other tag.
_TAGS: Final = re.compile(
    "(\U0001f3f4\U000e0067\U000e0062(?:\U000e0065\U000e006e\U000e0067|\U000e0073\U000e0063\U000e0074"
    "|\U000e0077\U000e006c\U000e0073)\U000e007f)|[\U000e0000-\U000e007f]"
)
_BIDI: Final = "\u202a-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb\u180e"
_SELECTORS: Final = "\ufe00-\ufe0f\U000e0100-\U000e01ef"
_CARRIERS: Final = f"{_BIDI}{_SELECTORS}\u200b-\u200d\U000e0000-\U000e007f"
_BIDI_AND_INVISIBLE: Final = re.compile(f"[{_BIDI}]")
_SELECTOR_RUNS: Final = re.compile(f"[{_SELECTORS}]{{2,}}")
_JOINERS: Final = re.compile("[\u200b-\u200d]")
_CARRIER: Final = re.compile(f"[{_CARRIERS}]")
# Writing needs two of them side by side at most: a selector and the joiner after it.
_CARRIER_RUNS: Final = re.compile(f"{_TAGS.pattern.partition('|[')[0]}|[{_CARRIERS}]{{3,}}")
# Scripts written without spaces, where the zero-width space marks where a line may break.
_UNSPACED: Final = re.compile("[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u19e0-\u19ff\u1a20-\u1aaf]")
_VIRAMA_CLASS: Final = 9
_PHRASES: Final = re.compile("([\ufdfa\ufdfb])")
_MAX_PHRASES: Final = 64
_BLANK: Final = "\u2800\u3164\uffa0"
_BLANKS: Final = re.compile(f"[{_BLANK}]")
"""Characters that count as letters or signs and show as an empty space."""
_SIGHTLESS: Final = "\u00ad\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\U0001d159\U0001d173-\U0001d17a"
_NO_SIGHT: Final = re.compile(f"[{_SIGHTLESS}]")
"""Characters that show nothing themselves, and that cleaning leaves in texts, where some scripts need them."""


def spans(wanted: Callable[[str], bool]) -> str:
    """The characters for which `wanted` is true, as the inside of a character class."""
    found: list[list[int]] = []
    for code in (*range(0x80, 0x1_F000), *range(0xE_0000, 0xE_01F0)):
        if not wanted(chr(code)):
            continue
        if found and found[-1][1] == code - 1:
            found[-1][1] = code
        else:
            found.append([code, code])
    return "".join(f"{chr(first)}-{chr(last)}" for first, last in found)


# The five written out count as letters themselves, but decompose to nothing but marks.
_MARKS: Final = "\u0f73\u0f75\u0f81\uff9e\uff9f" + spans(lambda char: unicodedata.combining(char) > 0)
_MARK_RUNS: Final = re.compile(f"[{_MARKS}]{{{MAX_MARKS + 1},}}")
UNSEEN: Final = spans(lambda char: unicodedata.category(char) == "Cf") + _SELECTORS
"""Format characters and variation selectors, as the inside of a character class."""
_UNSEEN: Final = re.compile(f"[{UNSEEN}]")
# Signs before a number or a word that count as format characters and are drawn.
_DRAWN: Final = frozenset("\u0600\u0601\u0602\u0603\u0604\u0605\u06dd\u070f\u0890\u0891\u08e2\U000110bd\U000110cd")
_SIDED: Final = frozenset("\u200b\u200c\u200d") | {chr(code) for code in range(0xE0000, 0xE0080)}
"""Characters whose neighbours say whether they are wanted."""
# Code points that are not given out yet and are shown as nothing wherever they turn up.
_RESERVED: Final = "\u2065\ufff0-\ufff8\U000e0080-\U000e00ff\U000e01f0-\U000e0fff"
_CONCEALING: Final = re.compile(
    f"[{spans(lambda char: unicodedata.category(char) == 'Cf' and char not in _DRAWN | _SIDED)}"
    f"{_SIGHTLESS}{_BLANK}{_RESERVED}]"
)
_CONCEALING_RUNS: Final = re.compile(f"[{_SIGHTLESS}{_BLANK}]{{2,}}")
_SELECTED: Final = re.compile(f"(?s:(.?))([{_SELECTORS}])")


@dataclass(frozen=True, slots=True)
class Cleaned:
    """Text fit to store, and whether invisible characters had to be removed from it."""

    text: str
    hidden_chars: bool


def clean(text: str, *, limit_chars: int | None = None) -> Cleaned:
    """`text` composed, trimmed and without invisible carriers; cleaning twice changes nothing more.

    Raises: Invalid for characters that cannot be stored, or more than `limit_chars` characters.
    """
    refuse_bad_text(text)
    if limit_chars is not None and len(text) > limit_chars * _PADDING:
        raise Invalid(f"bad text: {len(text)} characters, at most {limit_chars} are allowed")
    current, hidden = text, False
    for _ in range(_MAX_PASSES):
        composed, cut = _composed(current)
        visible = _invisible_as(_nothing, composed)
        hidden = hidden or cut or len(visible) != len(composed)
        tidy = _tidied(visible)
        if tidy == current:
            break
        current = tidy
    else:
        # Only text made to do so keeps losing a joiner in every pass: nothing invisible in it is wanted.
        current = _tidied(_composed(_CARRIER.sub("", current))[0])
    if limit_chars is not None and len(current) > limit_chars:
        raise Invalid(f"bad text: {len(current)} characters, at most {limit_chars} are allowed")
    return Cleaned(current, hidden)


def reveal(text: str) -> str:
    """`text` with every character that `clean` would remove as hidden written as `⟨U+202E⟩`."""
    if text.isascii():
        return text
    text = _MARK_RUNS.sub(lambda run: run.group()[:MAX_MARKS] + _as_codes(run.group()[MAX_MARKS:]), text)
    return _invisible_as(_as_codes, text)


def unseen_as(shown: Callable[[str], str], text: str) -> str:
    """`text` with every character that shows nothing as `shown` gives it: what `clean` would remove, and what it leaves
    because some script needs it. Joiners, tags and selectors stay where what stands beside them asks for them."""
    if text.isascii():
        return text
    text = _CONCEALING.sub(lambda match: shown(match.group()), _invisible_as(shown, text))
    return _SELECTED.sub(lambda match: match.group() if _kept_selector(match) else match[1] + shown(match[2]), text)


def conceals(text: str) -> bool:
    """True when characters that show nothing stand side by side in it: no script needs that, and it can carry words."""
    return not text.isascii() and _CONCEALING_RUNS.search(text) is not None


def cut_marks(text: str) -> str:
    """`text` with at most 30 combining marks in a row. To be called before any normalising."""
    if text.isascii():
        return text
    return _MARK_RUNS.sub(lambda run: run.group()[:MAX_MARKS], text)


def compatible(text: str) -> str:
    """`text` in compatibility form (NFKC), with at most 30 combining marks in a row before it.

    Two ligatures stand for whole phrases of 8 and 18 characters. Above 64 of them none is written out: a text of
    nothing else would take seconds, and be found by the same four words whatever its length.
    """
    cut = cut_marks(text)
    if len(_PHRASES.findall(cut)) <= _MAX_PHRASES:
        return unicodedata.normalize("NFKC", cut)
    return "".join(part if part in "\ufdfa\ufdfb" else unicodedata.normalize("NFKC", part) for part in _split(cut))


def _split(text: str) -> list[str]:
    """The text between the two ligatures, and each of them."""
    return [part for part in _PHRASES.split(text) if part]


def seen_name(text: str) -> str:
    """A name without characters that show nothing, and with a space for those that show as one.

    Two names that look the same to everybody would else be two things.
    """
    return text if text.isascii() else _NO_SIGHT.sub("", _BLANKS.sub(" ", text))


def refuse_unseen(text: str, *, what: str) -> None:
    """Raises: Invalid when `text` holds a character that shows nothing, or shows as a space and is none."""
    found = None if text.isascii() else _BLANKS.search(text) or _NO_SIGHT.search(text)
    if found:
        raise Invalid(f"bad text: {what} holds U+{ord(found.group()):04X}, which nobody can see: remove it")


def refuse_mark_runs(text: str, *, what: str) -> None:
    """Raises: Invalid when `text` has more than 30 combining marks in a row."""
    if not text.isascii() and _MARK_RUNS.search(text):
        raise Invalid(f"bad text: {what} has more than {MAX_MARKS} combining marks in a row: remove them")


def _composed(text: str) -> tuple[str, bool]:
    """`text` in composed form, and whether marks had to go. Composing can split a mark in two, so cut again."""
    once = cut_marks(text)
    whole = unicodedata.normalize("NFC", once)
    composed = cut_marks(whole)
    return composed, len(once) != len(text) or len(composed) != len(whole)


def _tidied(text: str) -> str:
    text = _CONTROLS.sub(" ", _LINE_ENDS.sub("\n", text))
    return _BLANK_LINES.sub("\n\n", text.strip())


def _nothing(_: str) -> str:
    return ""


def _as_codes(hidden: str) -> str:
    return "".join(f"⟨U+{ord(char):04X}⟩" for char in hidden)


def _invisible_as(shown: Callable[[str], str], text: str) -> str:
    if text.isascii():
        return text
    text = _CARRIER_RUNS.sub(lambda match: match.group(1) or shown(match.group()), text)
    # Joiners first: what stands beside them must still be what the writer put there.
    text = _JOINERS.sub(lambda match: _kept_joiner(match) or shown(match.group()), text)
    text = _TAGS.sub(lambda match: match.group(1) or shown(match.group()), text)
    for hidden in (_BIDI_AND_INVISIBLE, _SELECTOR_RUNS):
        text = hidden.sub(lambda match: shown(match.group()), text)
    return text


def _kept_joiner(match: re.Match[str]) -> str:
    """The joiner when its neighbours give it something to do, else nothing."""
    text, at = match.string, match.start()
    before = _seen(text, at - 1) or _seen(text, at - 2)  # a letter may have a form chosen by a mark that nobody sees
    after = _seen(text, at + 1)
    joiner = match.group()
    if not before or not after:
        kept = bool(before) and joiner != "\u200b" and unicodedata.combining(before) == _VIRAMA_CLASS
    elif joiner == "\u200b":
        kept = bool(_UNSPACED.match(before) and _UNSPACED.match(after))
    elif unicodedata.combining(before) == _VIRAMA_CLASS:
        kept = True
    elif _is_emoji(before) and _is_emoji(after):
        kept = joiner == "\u200d"
    else:
        kept = _is_word(before) and _is_word(after) and (_in_joining_script(before) or _in_joining_script(after))
    return joiner if kept else ""


def _seen(text: str, at: int) -> str:
    """The character at a place; empty where there is none, or none that shows anything."""
    char = text[at] if 0 <= at < len(text) else ""
    return "" if _NO_SIGHT.match(char) else char


def _kept_selector(match: re.Match[str]) -> bool:
    """True for a selector after a character that has several forms: signs, and letters that know no upper case."""
    before, selector = match.groups()
    if not before:
        return False
    if selector in "\ufe0e\ufe0f":
        return not before.isspace() and not (before.isascii() and before.isalpha())
    return unicodedata.category(before) in {"Lo", "So", "Sm"}


def _is_word(char: str) -> bool:
    return unicodedata.category(char)[0] in "LMN"


def _in_joining_script(char: str) -> bool:
    """True for Arabic, Indic and their neighbours; in Latin, Greek or Cyrillic words a joiner only hides."""
    return 0x0590 <= ord(char) <= 0x1CFF or 0xA800 <= ord(char) <= 0xABFF or 0xFB50 <= ord(char) <= 0xFDFF


def _is_emoji(char: str) -> bool:
    code = ord(char)
    return (
        code in (0xFE0F, 0x20E3, 0xE007F)
        or 0x1F000 <= code <= 0x1FAFF
        or (code >= 0x2190 and unicodedata.category(char) in {"So", "Sm"})
    )


def refuse_bad_text(text: str, *, what: str = "text") -> None:
    """Raises: Invalid when `text` holds NUL, a lone surrogate or a code point that is no character."""
    found = _UNSTORABLE.search(text)
    if found:
        raise Invalid(f"bad text: {what} holds U+{ord(found.group()):04X}, which cannot be stored: remove it")


def check_bytes(text: str, *, limit_bytes: int) -> None:
    """Raises: TooLarge when `text` takes more than `limit_bytes` in UTF-8."""
    size = len(text.encode("utf-8", "surrogatepass"))
    if size > limit_bytes:
        raise TooLarge(f"text of {size} bytes, at most {limit_bytes} are accepted: split it")


def clean_name(text: str, *, what: str, limit_chars: int = 128) -> str:
    """One line for a name or id: cleaned, spaces collapsed. Raises: Invalid, also when nothing is left."""
    refuse_bad_text(text, what=what)
    if len(text) > limit_chars * _PADDING:
        raise Invalid(f"bad text: {what} has {len(text)} characters, at most {limit_chars} are allowed")
    refuse_mark_runs(text, what=what)
    name = _SPACES.sub(" ", clean(seen_name(clean(text).text)).text)
    if not name:
        raise Invalid(f"bad text: {what} must not be empty")
    if len(name) > limit_chars:
        raise Invalid(f"bad text: {what} has {len(name)} characters, at most {limit_chars} are allowed")
    return name


def check_label(label: str) -> str:
    """A label `key=value`, cleaned. Raises: Invalid without a key, or when the key begins with `_`."""
    name = clean_name(label, what="a label", limit_chars=MAX_LABEL_CHARS)
    key, separator, value = name.partition("=")
    key, value = key.strip(), value.strip()
    if not separator or not key:
        raise Invalid("bad label: write it as key=value")
    if key.startswith("_"):
        raise Invalid("bad label: keys beginning with '_' are reserved")
    return f"{key}={value}"


def check_labels(labels: Iterable[str]) -> tuple[str, ...]:
    """Checked labels in order, each once. Raises: Invalid; Conflict above 32 labels."""
    checked = tuple(dict.fromkeys(map(check_label, labels)))
    if len(checked) > MAX_LABELS:
        raise Conflict(f"{len(checked)} labels, at most {MAX_LABELS} are kept on one row")
    return checked


def refuse_unstorable(value: object, *, what: str = "the request") -> None:
    """Raises: Invalid when a JSON value holds text or numbers that the record cannot keep exactly.

    Strings and keys with NUL, lone surrogates or non-characters; NaN and infinities; integers beyond 2^53
    either way; nesting deeper than 32.
    """
    pending: list[tuple[object, str, int]] = [(value, what, 0)]
    while pending:
        item, where, depth = pending.pop()
        if depth > MAX_DEPTH:
            raise Invalid(f"bad value: {what} is nested deeper than {MAX_DEPTH}")
        if isinstance(item, str):
            refuse_bad_text(item, what=where)
        elif isinstance(item, bool) or item is None:
            continue
        elif isinstance(item, int):
            if abs(item) > MAX_SAFE_INT:
                raise Invalid(f"bad number: {where} is beyond 2^53; send it as text")
        elif isinstance(item, float):
            if not math.isfinite(item):
                raise Invalid(f"bad number: {where} is not a finite number")
        elif isinstance(item, Mapping):
            for key, child in cast("Mapping[object, object]", item).items():
                refuse_bad_text(str(key), what=f"a name in {where}")
                pending.append((child, str(key), depth + 1))
        elif isinstance(item, Iterable):
            pending.extend((child, where, depth + 1) for child in cast("Iterable[object]", item))


_QUOTES: Final = "\"'`«»‹›“”„‟‘’‚‛「」『』"
_SENTENCE_ENDS: Final = ".,;:!?…。、，；：！？"
_OPENERS: Final = "¿¡"


def fold(text: str) -> str:
    """A form for comparing only: width, case, spacing, invisible characters, wrapping quotes and the marks
    that end a sentence do not count. Folding twice changes nothing more."""
    current = text
    while True:
        folded = cut_marks(compatible(compatible(current).casefold()))
        if not folded.isascii():
            folded = _UNSEEN.sub("", folded)
        folded = _without_outer_marks(_SPACES.sub(" ", folded).strip())
        if folded == current:
            return folded
        current = folded


def _without_outer_marks(text: str) -> str:
    """Signs that carry meaning stay: `C#`, `-5`, `50%`, `.net` and a lone `?` are not shortened."""
    start, end = 0, len(text)
    while True:
        while start < end and (text[end - 1] in _SENTENCE_ENDS or text[end - 1].isspace()):
            end -= 1
        while start < end and (text[start] in _OPENERS or text[start].isspace()):
            start += 1
        if end - start < 2 or text[start] not in _QUOTES or text[end - 1] not in _QUOTES:
            return text[start:end] or text
        start, end = start + 1, end - 1
