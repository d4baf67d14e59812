"""Words that say how to write and how to ask."""

from __future__ import annotations

from enum import StrEnum


class Infer(StrEnum):
    """What is made of a text: `full` and `preview` extract with a model, `triples` takes facts as given."""

    FULL = "full"
    TRIPLES = "triples"
    PREVIEW = "preview"
    NONE = "none"


class Mode(StrEnum):
    """Which legs answer: meaning, words, the graph of entities, or all of them together."""

    HYBRID = "hybrid"
    VECTOR = "vector"
    BM25 = "bm25"
    GRAPH = "graph"


class Include(StrEnum):
    """Which halves of memory answer."""

    FACTS = "facts"
    PASSAGES = "passages"


class TopBy(StrEnum):
    """What comes first: most facts, most important, or learned of last."""

    COVERAGE = "coverage"
    IMPORTANCE = "importance"
    RECENCY = "recency"
