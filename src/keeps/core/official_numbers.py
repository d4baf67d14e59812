"""Numbers of cards, bank accounts and people in text, told from other numbers by their checks.

Numbers without a check, or with a weak one, count only beside a word that says what they are.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from itertools import accumulate
from typing import Final

from keeps.core import checksums

_Check = Callable[[str], bool]

CARD: Final = "card number"
IBAN: Final = "iban"
NATIONAL_ID: Final = "national id"

_RUN: Final = re.compile(r"(?<![\w.+])\d+(?:[ .\-–_\n]{1,2}\d+)*(?!\w)")
_GROUP: Final = re.compile(r"\d+")
_CARD_DIGIT: Final = re.compile("[2-6]")
_IBAN_BEGIN: Final = re.compile(r"(?i)(?<![a-z0-9])[a-z]{2}\d{2}(?=[ \-]?[a-z0-9])")
_IBAN_REST: Final = re.compile(r"(?:[ \-]?[A-Za-z0-9]){1,34}")
_SIGNS: Final = re.compile(r"[^A-Za-z0-9]")

# The number itself, and the check it has to pass. None of them needs a word beside it.
_SHAPES: Final[tuple[tuple[re.Pattern[str], _Check], ...]] = (
    (re.compile(r"(?<![\w\-])\d{3}-\d{2}-\d{4}(?![\w\-])"), checksums.is_ssn),
    (
        re.compile(r"(?<!\w)[A-CEGHJ-PR-TW-Z][A-CEGHJ-NPR-TW-Z] ?\d{2} ?\d{2} ?\d{2} ?[A-D](?!\w)"),
        checksums.is_nino,
    ),
    (re.compile(r"(?<![\w\-])(?:\d{8}|[XYZ]\d{7})[ \-]?[A-HJ-NP-TV-Z](?![\w\-])"), checksums.is_dni),
    (
        re.compile(r"(?<!\w)[12] ?\d{2} ?(?:0[1-9]|1[0-2]|[2-9]\d) ?(?:\d{2}|2[AB]) ?\d{3} ?\d{3} ?\d{2}(?!\w)"),
        checksums.is_nir,
    ),
    (re.compile(r"(?<!\w)[A-Z]{6}\d{2}[A-EHLMPRST]\d{2}[A-Z]\d{3}[A-Z](?!\w)"), checksums.is_codice_fiscale),
    (re.compile(r"(?<![\w.])\d{3}\.\d{3}\.\d{3}-\d{2}(?!\w)"), checksums.is_cpf),
    (re.compile(r"(?<!\w)[1-9]\d{16}[\dX](?!\w)"), checksums.is_resident_id),
)


def _any(_: str) -> bool:
    return True


def _is_swedish(digits: str) -> bool:
    return checksums.luhn(digits[-10:]) and 1 <= int(digits[-8:-6]) <= 12


def _is_dni(text: str) -> bool:
    return checksums.is_dni(text.upper())


def _has_digits(text: str) -> bool:
    return sum(map(str.isdecimal, text)) >= _FEWEST_DIGITS


# Words that say what a number is, the number, its check.
_NAMES: Final[tuple[tuple[str, str, _Check], ...]] = (
    ("ssn|social security", r"\d{3}[ \-]?\d{2}[ \-]?\d{4}", checksums.is_ssn),
    (
        "steuer-?id(?:entifikationsnummer|-?nr)?|steueridentifikationsnummer|steuerliche identifikationsnummer|idnr"
        "|tax id|tin",
        r"\d{2} ?\d{3} ?\d{3} ?\d{3}",
        checksums.is_steuer_id,
    ),
    (
        "sozialversicherungsnummer|rentenversicherungsnummer|sv-nummer",
        r"\d{2} ?\d{6} ?[A-Za-z] ?\d{3}|\d{4} ?\d{6}",
        _any,
    ),
    (
        "bsn|burgerservicenummer|sofinummer|citizen service number",
        r"\d{4}[ .]?\d{2}[ .]?\d{3}|\d{9}",
        checksums.is_bsn,
    ),
    ("cpf", r"\d{11}", checksums.is_cpf),
    ("pesel", r"\d{11}", checksums.is_pesel),
    ("personnummer", r"(?:\d{2})?\d{6}[\-+]?\d{4}", _is_swedish),
    ("aadhaar|aadhar", r"\d{4}[ \-]?\d{4}[ \-]?\d{4}", checksums.is_aadhaar),
    ("sin|social insurance", r"\d{3}[ \-]?\d{3}[ \-]?\d{3}", checksums.luhn),
    ("dni|nie|nif", r"(?:\d{8}|[XYZxyz]\d{7})[ \-]?[A-Za-z]", _is_dni),
    (
        "ni(?:no)? number|nino|national insurance",
        r"[A-Za-z]{2} ?\d{2} ?\d{2} ?\d{2} ?[A-Da-d]",
        _any,
    ),
    (
        "passport (?:no|number|nr)|reisepass(?:nummer|nr)?|ausweis(?:nummer|nr)|personalausweis|pasaporte|passeport"
        "|护照号?|身份证号?|رقم (?:الجواز|الهوية|جواز السفر)|driver'?s? licen[cs]e (?:no|number)",
        r"(?=[A-Za-z]{0,3}\d)[A-Za-z0-9]{7,18}",
        _has_digits,
    ),
)
_NAMED: Final = tuple(
    (re.compile(rf"(?i)(?<![^\W_])(?:{words})(?![^\W_])"), re.compile(rf"(?<!\w)(?:{shape})(?!\w)"), check)
    for words, shape, check in _NAMES
)
_ANY_NAME: Final = re.compile(rf"(?i)(?<![^\W_])(?:{'|'.join(words for words, _, _ in _NAMES)})(?![^\W_])")
_REACH: Final = 48
"""How far behind its word a number is looked for, in characters."""
_FEWEST_DIGITS: Final = 5


def numbers(text: str) -> Iterator[tuple[str, int, int]]:
    """Cards, accounts and numbers of people in `text`, each with its place."""
    if sum(map(text.count, "0123456789")) < _FEWEST_DIGITS:
        return
    yield from _cards(text)
    yield from _ibans(text)
    for shape, check in _SHAPES:
        for match in shape.finditer(text):
            if check(_SIGNS.sub("", match.group())):
                yield NATIONAL_ID, match.start(), match.end()
    if not _ANY_NAME.search(text):
        return
    for words, shape, check in _NAMED:
        for word in words.finditer(text):
            found = shape.search(text, word.end(), word.end() + _REACH)
            if found and check(_SIGNS.sub("", found.group())):
                yield NATIONAL_ID, found.start(), found.end()


def _cards(text: str) -> Iterator[tuple[str, int, int]]:
    for run in _RUN.finditer(text):
        if not _CARD_DIGIT.search(text, run.start(), run.end()):
            continue
        groups = [match.span() for match in _GROUP.finditer(text, run.start(), run.end())]
        yield from ((CARD, start, end) for start, end in _Groups(text, groups).cards())


class _Groups:
    """The groups of digits of one run, and which of them make a card; in time with their number."""

    def __init__(self, text: str, spans: list[tuple[int, int]]) -> None:
        self._text = text
        self._spans = spans
        self._digits = "".join(text[start:end] for start, end in spans)
        self._sizes = [end - start for start, end in spans]
        offsets = [0, *accumulate(self._sizes)]
        self._begins = offsets[:-1]
        self._last = {end: number for number, end in enumerate(offsets[1:])}
        # Up to which group all are as large as this one.
        self._alike = list(range(len(spans)))
        for number in range(len(spans) - 2, -1, -1):
            if self._sizes[number] == self._sizes[number + 1]:
                self._alike[number] = self._alike[number + 1]

    def cards(self) -> Iterator[tuple[int, int]]:
        after = 0
        for first, begin in enumerate(self._begins):
            if begin < after:
                continue
            for chars in checksums.card_chars(self._digits[begin : begin + 4]):
                last = self._last.get(begin + chars)
                if last is None or not self._is_written(first, last):
                    continue
                if checksums.is_card(self._digits[begin : begin + chars]):
                    after = begin + chars
                    yield self._spans[first][0], self._spans[last][1]
                    break

    def _is_written(self, first: int, last: int) -> bool:
        """True for one group, groups of one size with a shorter rest, and the groups of 15 and 14 digits, over two
        lines at most, and these only where the groups beside are told apart in another way."""
        sizes = self._sizes[first : min(last, first + 3) + 1]
        uniform = first == last or (self._alike[first] >= last - 1 and self._sizes[last] <= self._sizes[first])
        if not uniform and not (last == first + 2 and sizes in ([4, 6, 5], [4, 6, 4])):
            return False
        breaks = self._text.count("\n", self._spans[first][0], self._spans[last][1])
        return breaks == 0 or (breaks == 1 and last - first >= 2)


def _ibans(text: str) -> Iterator[tuple[str, int, int]]:
    place = 0
    for begun in _IBAN_BEGIN.finditer(text):
        chars = checksums.iban_chars(begun.group()[:2].upper())
        if begun.start() < place or chars is None:
            continue
        rest = _IBAN_REST.match(text, begun.end())
        if rest is None:
            continue
        number, end = begun.group(), begun.end()
        for char in rest.group():
            if len(number) == chars:
                break
            number, end = number + _SIGNS.sub("", char), end + 1
        if checksums.is_iban(number.upper()):
            place = end
            yield IBAN, begun.start(), end
