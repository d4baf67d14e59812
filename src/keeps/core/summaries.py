"""Sentences for what is remembered, written by code from its parts: for search and for people, never by a model."""

from __future__ import annotations

from typing import Final

VERB_KEYS: Final = frozenset(
    """
    avoids believes can_speak contributes_to disliked dislikes enjoyed enjoys follows hated hates has knows
    liked likes lives_at lives_in loved loves moved_to needs owned owns played plays prefers reads speaks
    studied studies uses used visited visits wants wanted watched watches went_to wishes worked_at worked_for
    worked_on works_as works_at works_for works_in works_on
    """.split()
)
"""Keys that read as a verb after a name: "Mara likes rye bread."."""


NOTE_PREFIX: Final = "note_"
"""Keys of notes: what a person saves in their own words, one key a note."""


def words_of(key: str) -> str:
    """A key or label as plain words."""
    return key.replace("_", " ")


def of_fact(name: str, key: str, value: str) -> str:
    """The sentence of one fact: `Mara's role is harbour pilot.` A note is its own sentence."""
    if key.startswith(NOTE_PREFIX):
        return value
    if key in VERB_KEYS:
        return f"{name} {words_of(key)} {_ended(value)}"
    return f"{_possessive(name)} {words_of(key)} is {_ended(value)}"


def of_relation(subject: str, label: str, obj: str) -> str:
    """The sentence of one relation: `Mara works at North Port.`"""
    return f"{subject} {words_of(label)} {_ended(obj)}"


def of_action(actor: str, verb: str, obj: str | None) -> str:
    """The sentence of one action: `Mara docked MV Teal.`"""
    return _ended(f"{actor} {words_of(verb)}" + (f" {obj}" if obj else ""))


def _possessive(name: str) -> str:
    return f"{name}'" if name.endswith(("s", "S")) else f"{name}'s"


def _ended(text: str) -> str:
    return text if text.endswith((".", "!", "?", "…", "。")) else f"{text}."
