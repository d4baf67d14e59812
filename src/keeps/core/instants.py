"""Moments from text: RFC 3339 times, plain dates, and the few relative phrases that mean one certain day."""

from __future__ import annotations

import re
from datetime import UTC, date, datetime, time, timedelta
from typing import Final

from keeps.core.errors import Invalid

FIRST_YEAR: Final = 1900
LAST_YEAR: Final = 2200

_DAY: Final = re.compile(r"\d{4}-\d\d-\d\d", re.ASCII)
_INSTANT: Final = re.compile(
    r"(\d{4}-\d\d-\d\d)[Tt ](\d\d:\d\d:\d\d)(?:\.(\d{1,9}))?([Zz]|[+-](?:[01]\d|2[0-3]):[0-5]\d)", re.ASCII
)
_OFFSET_PHRASE: Final = re.compile(r"(?:(in) )?(\d{1,4}) (day|week)s?(?: (ago))?", re.ASCII)
_NEAR_DAYS: Final = {"today": 0, "yesterday": -1, "tomorrow": 1}


def parse_instant(value: object) -> datetime:
    """A moment in UTC from RFC 3339 text with an offset, or from a date, which means its first moment in UTC.

    Digits beyond microseconds are dropped. Raises: Invalid, also outside the years 1900 to 2200.
    """
    if isinstance(value, datetime):
        if value.tzinfo is None:
            raise Invalid("a time needs an offset, for example 2026-11-30T10:00:00Z")
        return _in_range(value)
    if not isinstance(value, str):
        raise _bad_time()
    text = value.strip()
    try:
        if _DAY.fullmatch(text):
            return _in_range(datetime.combine(date.fromisoformat(text), time(), UTC))
        match = _INSTANT.fullmatch(text)
        if match is None:
            raise _bad_time()
        day, clock, fraction, offset = match.groups()
        micros = (fraction or "")[:6].ljust(6, "0")
        zone = "+00:00" if offset in "Zz" else offset
        return _in_range(datetime.fromisoformat(f"{day}T{clock}.{micros}{zone}"))
    except ValueError:
        raise _bad_time() from None


def resolve_hint(hint: str, anchor: datetime) -> datetime | None:
    """The first moment of the day a phrase means, seen from `anchor`, in UTC; None when it is not certain.

    Understood: dates and times as in `parse_instant`, today, yesterday, tomorrow, `3 days ago`, `2 weeks
    ago`, `in 3 days`. Days are those of the anchor's own offset.
    """
    phrase = " ".join(hint.casefold().split())
    try:
        return parse_instant(phrase)
    except Invalid:
        days = _days_from(phrase)
    if days is None:
        return None
    try:
        return _in_range(datetime.combine(anchor.date() + timedelta(days=days), time(), anchor.tzinfo))
    except (Invalid, OverflowError):
        return None


def _days_from(phrase: str) -> int | None:
    if phrase in _NEAR_DAYS:
        return _NEAR_DAYS[phrase]
    match = _OFFSET_PHRASE.fullmatch(phrase)
    if match is None or bool(match.group(1)) is bool(match.group(4)):
        return None
    days = int(match.group(2)) * (7 if match.group(3) == "week" else 1)
    return days if match.group(1) else -days


def _in_range(moment: datetime) -> datetime:
    try:
        utc = moment.astimezone(UTC)
    except OverflowError:
        raise _bad_time() from None
    if not FIRST_YEAR <= utc.year <= LAST_YEAR:
        raise Invalid(f"a time must lie between the years {FIRST_YEAR} and {LAST_YEAR}")
    return utc


def _bad_time() -> Invalid:
    return Invalid("a time is written as RFC 3339 with an offset, for example 2026-11-30T10:00:00Z")
