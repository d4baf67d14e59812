"""Which keys hold one value and which hold many, and what a chain of values is named."""

from __future__ import annotations

from keeps.core.facts import Category
from keeps.core.text import fold

MANY_VALUED = frozenset(
    """
    alias aliases also_known_as allergic_to allergies allergy avoids believes books_read brother brothers can_speak
    child children colleague colleagues contributes_to cousin cousins daughter daughters disliked dislikes email emails
    enjoys enjoyed favourites favorites follows food_allergy friend friends goal goals grandchild grandchildren has
    hated hates hobbies hobby interest interested_in interests kin knows language languages likes liked loves loved
    member_of members needs nickname nicknames owned owns parent parents pet pets phone phones plays played prefers
    project projects reads relative relatives sibling siblings sister sisters skill skills son sons speaks
    spoken_language
    studied studies tag tags tool tools topic topics tried uses visited visits wants watched watches went_to wishes
    worked_on works_on
    """.split()
)
"""Predicates that hold many values at once; every other key, known or not, holds one."""

PREFERENCE_KEYS = frozenset(
    """
    avoids disliked dislikes enjoys favourite favorite favourites favorites hates likes loves preference prefers
    """.split()
)
"""Keys that say how someone likes things."""

_SEPARATOR = "\u001f"


def is_many_valued(key: str) -> bool:
    """True when a new value of `key` stands beside the old ones instead of replacing them."""
    return key in MANY_VALUED


def chain_key(key: str, value: str, category: Category, row_id: str) -> str:
    """The name of the chain a value belongs to, unique inside its entity, scope set and pillar.

    One-valued keys: the key. Many-valued keys: the key, U+001F and the folded value, so that only the same value
    meets itself. Keys of category `context` have no chain: every row is its own.
    """
    if category is Category.CONTEXT:
        return f"{key}{_SEPARATOR}{_SEPARATOR}{row_id}"
    if is_many_valued(key):
        return f"{key}{_SEPARATOR}{fold(value)}"
    return key
