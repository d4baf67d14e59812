"""For applications with a loop of their own: typed facts, pseudonyms, an ordered writer, memory for named agents."""

from __future__ import annotations

from keeps.loop.offers import ByQuestion, ByRule, Offer, Offered, Recall, Selection
from keeps.loop.pseudonyms import ForgotMe, Pseudonyms
from keeps.loop.remembering import Answer, Used, with_memory
from keeps.loop.templates import Sentence, Template
from keeps.loop.writer import Counts, Writer

__all__ = [
    "Answer",
    "ByQuestion",
    "ByRule",
    "Counts",
    "ForgotMe",
    "Offer",
    "Offered",
    "Pseudonyms",
    "Recall",
    "Selection",
    "Sentence",
    "Template",
    "Used",
    "Writer",
    "with_memory",
]
