"""Hypothesis strategies for the values of `keeps.core`, small enough that paths often meet."""

from __future__ import annotations

from hypothesis import strategies as st

from keeps.core.access import Grants, Region, Verb
from keeps.core.scopes import ROOT, Lens, Pattern, Scope, ScopePath

_segments = st.sampled_from(["a", "b", "ab", "c", "user", "org"])

paths: st.SearchStrategy[ScopePath] = st.one_of(
    st.just(ROOT), st.lists(_segments, min_size=1, max_size=4).map(lambda parts: ScopePath("/".join(parts)))
)
patterns: st.SearchStrategy[Pattern] = st.builds(Pattern, path=paths, subtree=st.booleans())
regions: st.SearchStrategy[Region] = st.lists(patterns, max_size=4).map(lambda found: Region(tuple(found)))
clauses: st.SearchStrategy[frozenset[ScopePath]] = st.frozensets(paths, min_size=1, max_size=3)
scopes: st.SearchStrategy[Scope] = st.frozensets(clauses, max_size=3).map(Scope)
lenses: st.SearchStrategy[Lens] = st.lists(st.frozensets(patterns, max_size=3), max_size=3).map(
    lambda found: Lens(tuple(found))
)
grants: st.SearchStrategy[Grants] = st.dictionaries(
    st.sampled_from(Verb), st.lists(patterns, max_size=3, unique=True).map(tuple), max_size=len(Verb)
)

_awkward = st.sampled_from(
    [
        "\u200b", "\u200c", "\u200d", "\ufeff", "\u202e", "\u2066", "\ufe0f", "\ufe0e", "\U000e0101",
        "\U000e0067", "\U000e007f", "\U0001f3f4", "\u0301", "\u0308", "\r", "\n", "\x85", "\u2028",
        "\x1b", "\t", " ", "\u0645", "\u06cc", "\u0d4d", "\u0d28", "\u0e01", "\u1780", "\U0001f468",
        "\U0001f469", "\U0001f9d1", "\u2764", "e", "x", "\u0345", "\u0130", "\u00df", "\ufb01", '"', "\\",
        "<", ">", "&", "`", "|", "[", "]",
    ]
)  # fmt: skip
texts: st.SearchStrategy[str] = st.one_of(
    st.text(max_size=60),
    st.lists(_awkward, max_size=14).map("".join),
    st.lists(st.one_of(_awkward, st.text(max_size=3)), max_size=14).map("".join),
)
"""Any text that a JSON reader can hand over, weighted towards what cleaning and escaping must handle."""


def _storable(text: str) -> bool:
    return not any(
        char == "\0" or 0xD800 <= ord(char) <= 0xDFFF or 0xFDD0 <= ord(char) <= 0xFDEF or ord(char) & 0xFFFE == 0xFFFE
        for char in text
    )


storable_texts: st.SearchStrategy[str] = texts.filter(_storable)
"""Texts that cleaning accepts."""
