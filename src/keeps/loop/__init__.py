"""For applications with a loop of their own: typed facts, pseudonyms, an ordered writer, memory for named agents."""

from __future__ import annotations

from keeps.loop.pseudonyms import ForgotMe, Pseudonyms
from keeps.loop.templates import Sentence, Template
from keeps.loop.writer import Counts, Writer

__all__ = ["Counts", "ForgotMe", "Pseudonyms", "Sentence", "Template", "Writer"]
