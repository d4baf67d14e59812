"""The text leg in memory: the postings of terms in use, and the ranking.

Postings are kept for each term and scope set apart, so that a search touches rows of readable scope sets
only: nothing else can change its result.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from keeps.core import ranking, words
from keeps.finder.columns import CLOSED, LIVE, Bytes, Columns, Floats, Ints, Row, Wanted

CACHE_POSTINGS: Final = 8_000_000
"""Occurrences kept in memory, about 6 bytes each, before the terms longest unused are let go."""

MOST_TERMS: Final = 256
"""Terms of a question that are looked up at all, the first; of these the rarest are searched for."""

MOST_LOOK_UPS: Final = 4_096
"""Above so many pairs of a term and a scope set one scan a term costs less than a look-up a pair."""

_FEW_SETS: Final = 64
_SHARE_OF_SETS: Final = 8


class GivenUp(Exception):
    """Nobody waits for the answer any more."""


class Hit(NamedTuple):
    """A row that answers: its number, its rank for the order, the share of the question it holds, 0..1, and how much
    of that share is names of speakers."""

    row: int
    rank: float
    share: float
    named: float = 0.0


@dataclass(slots=True)
class Postings:
    """The rows of one scope set that hold a term, and how often: in the text and in the one before it."""

    rows: Ints = field(default_factory=lambda: np.empty(0, np.int32))
    own: Bytes = field(default_factory=lambda: np.empty(0, np.uint8))
    before: Bytes = field(default_factory=lambda: np.empty(0, np.uint8))
    late: list[tuple[int, int, int]] = field(default_factory=list[tuple[int, int, int]])

    def settle(self) -> Postings:
        """Itself, with what was added since in its arrays."""
        if self.late:
            rows, own, before = zip(*self.late, strict=True)
            self.rows = np.concatenate([self.rows, np.array(rows, np.int32)])
            self.own = np.concatenate([self.own, np.array(own, np.uint8)])
            self.before = np.concatenate([self.before, np.array(before, np.uint8)])
            self.late.clear()
        return self


@dataclass(frozen=True, slots=True)
class _Sums:
    """Rows in order of number, and for each the rank, the share, and the part of the share that is names."""

    rows: Ints
    rank: Floats
    share: Floats
    named: Floats

    def of(self, keep: NDArray[np.bool_]) -> _Sums:
        """Those that are kept."""
        return _Sums(self.rows[keep], self.rank[keep], self.share[keep], self.named[keep])


@dataclass(slots=True)
class _Term:
    """Postings of one term by scope set. `complete`: a scope set that is not here has none."""

    by_set: dict[int, Postings] = field(default_factory=dict[int, Postings])
    complete: bool = False
    size: int = 0


Read = Callable[[str, Collection[int] | None], Mapping[int, Postings]]
"""Reads the postings of a term from the file: of the given scope sets, or of all when None."""


class TextIndex:
    """Ranks rows by words. `read` supplies postings that are not in memory yet."""

    def __init__(self, read: Read) -> None:
        self.columns = Columns()
        self._read = read
        self._terms: OrderedDict[str, _Term] = OrderedDict()
        self._held = 0
        self._removed = 0

    def add(self, row: Row, counts: Mapping[str, tuple[int, int]]) -> None:
        """Take a row that is now in the file. `counts`: occurrences by term, in the text and before it."""
        self.columns.add(row)
        for word, (own, before) in counts.items():
            term = self._terms.get(word)
            if term is None:
                continue
            postings = term.by_set.get(row.scope_set)
            if postings is None:
                if not term.complete:
                    continue
                postings = term.by_set[row.scope_set] = Postings()
            postings.late.append((row.row, own, before))
            term.size += 1
            self._held += 1

    def remove(self, row: int) -> None:
        """Forget a row that is gone from the file."""
        self.columns.remove(row)
        self._removed += 1
        if self._removed > max(1000, self.columns.size // 4):
            # Postings still name removed rows, which are masked; now and then they are read afresh.
            self.forget_terms()

    def forget_terms(self) -> None:
        """Let go of everything that was read on demand."""
        self._terms.clear()
        self._held = 0
        self._removed = 0

    def search(self, question: Sequence[str], wanted: Wanted) -> list[Hit]:
        """The best rows first, the best unit of each group only.

        The number of texts and the rarity of terms are taken over the wanted scope sets only.
        """
        texts = self.columns.texts(wanted)
        if texts == 0 or not question:
            return []
        question = question[:MOST_TERMS]
        wanted = replace(wanted, terms=len(question))
        lists = [(word, self._postings(word, wanted)) for word in question]
        lists.sort(key=lambda item: (int(np.count_nonzero(item[1].own)), item[0]))
        lists = lists[: ranking.MAX_QUESTION_TERMS]
        said = [self._said(word, held, wanted) if len(held.rows) else held.rows for word, held in lists]
        sums = self._sums([postings for _, postings in lists], said, texts)
        return self._best(sums.of(self._allowed(sums.rows, wanted)), wanted)

    def _sums(self, lists: Sequence[Postings], said: Sequence[Ints], texts: int) -> _Sums:
        """Rank and share of every row that holds one of the terms.

        `said`: for each of the terms rows that hold it and gain by who said them.
        """
        touched = sum(len(postings.rows) for postings in lists)
        # Zeroed pages are made when touched, so this costs what the readable rows cost.
        rank = np.zeros(self.columns.size)
        have = np.zeros(self.columns.size)
        named = np.zeros(self.columns.size)
        asked = 0.0
        for postings, spoken in zip(lists, said, strict=True):
            rows = postings.rows
            weight = ranking.rarity(int(np.count_nonzero(postings.own)), texts)
            asked += weight
            if not len(rows):
                continue
            count = postings.own + ranking.BEFORE_WEIGHT * postings.before
            rank[rows] += weight * (count / (count + self.columns.hurdle[rows]))
            held = np.where(postings.own > 0, weight, weight * ranking.BEFORE_WEIGHT)
            have[rows] += held
            if len(spoken):
                named[rows] += held
                rank[spoken] += ranking.spoken(len(spoken), texts)
        if touched * 16 > self.columns.size:
            rows = np.flatnonzero(rank).astype(np.int32)
        elif touched:
            rows = np.unique(np.concatenate([postings.rows for postings in lists]))
        else:
            rows = np.empty(0, np.int32)
        whole = asked or 1.0
        return _Sums(rows, rank[rows], np.minimum(have[rows] / whole, 1.0), np.minimum(named[rows] / whole, 1.0))

    def _said(self, word: str, postings: Postings, wanted: Wanted) -> Ints:
        """Rows that somebody of the name `word` said, and of those that hold it the ones that nobody is named to have
        said: "Mara moved" is no worse an answer than "Mara: I moved". None when nobody of that name speaks."""
        rows = self._postings(words.SAID + word, wanted).rows
        if not len(rows):
            return rows
        own = postings.rows[postings.own > 0]
        return np.concatenate([rows, own[~self.columns.named[own]]])

    def _allowed(self, rows: Ints, wanted: Wanted) -> NDArray[np.bool_]:
        """Which of `rows` have a wanted kind and all wanted labels."""
        keep = np.isin(self.columns.kind[rows], list(wanted.kinds))
        if wanted.labels:
            fitting = [n for n, have in enumerate(self.columns.label_sets) if wanted.labels <= have]
            keep &= np.isin(self.columns.label_set[rows], fitting)
        return keep

    def _best(self, sums: _Sums, wanted: Wanted) -> list[Hit]:
        """The first `limit` groups by rank, then share, then the newest, then by what only the entry's key decides."""
        rows, rank, share = sums.rows, sums.rank, sums.share
        room = wanted.limit * 2
        while True:
            if len(rows) > room:
                floor = np.partition(rank, len(rank) - room)[len(rank) - room]
                some = np.flatnonzero(rank >= floor)
            else:
                some = np.arange(len(rows))
            tie, at = self.columns.tie[rows[some]], self.columns.at[rows[some]]
            order = some[np.lexsort((tie, -at, -share[some], -rank[some]))]
            leading = order[self.columns.leading(rows[order], wanted.limit, wanted.copies)].tolist()
            if len(leading) == wanted.limit or len(some) == len(rows):
                return [
                    Hit(int(rows[place]), float(rank[place]), float(share[place]), float(sums.named[place]))
                    for place in leading
                ]
            room *= 4

    def _postings(self, word: str, wanted: Wanted) -> Postings:
        """The rows of the wanted scope sets that hold `word` and are there to be found. Raises: GivenUp."""
        if wanted.given_up():
            raise GivenUp
        term = self._fetched(word, wanted.scope_sets, wanted.terms)
        parts = [
            part.settle()
            for number in sorted(wanted.scope_sets)
            if (part := term.by_set.get(number)) is not None and (len(part.rows) or part.late)
        ]
        if not parts:
            return Postings()
        one = len(parts) == 1
        rows = parts[0].rows if one else np.concatenate([part.rows for part in parts])
        own = parts[0].own if one else np.concatenate([part.own for part in parts])
        before = parts[0].before if one else np.concatenate([part.before for part in parts])
        there = self.columns.state[rows] >= (LIVE if wanted.live_only else CLOSED)
        if wanted.past is not None:
            there &= self.columns.heard(rows, wanted.past)
        if not there.all():
            rows, own, before = rows[there], own[there], before[there]
        return Postings(rows, own, before)

    def _fetched(self, word: str, scope_sets: Collection[int], terms: int) -> _Term:
        """The term with the postings of `scope_sets` in memory. `terms`: how many are looked up in all."""
        term = self._terms.get(word)
        if term is None:
            term = self._terms[word] = _Term()
        else:
            self._terms.move_to_end(word)
        if term.complete:
            return term
        missing = [number for number in scope_sets if number not in term.by_set]
        if not missing:
            return term
        # Each scope set costs a look-up. When a good part of all sets is asked for, one scan costs less;
        # a narrow reader never pays for the rows of others.
        whole = (len(missing) > _FEW_SETS and len(missing) * _SHARE_OF_SETS > self.columns.scope_sets) or (
            len(missing) > 1 and len(missing) * terms > MOST_LOOK_UPS
        )
        read = self._read(word, None if whole else missing)
        if whole:
            self._held -= term.size
            term.by_set, term.size, term.complete = dict(read), 0, True
            added = read
        else:
            added = {number: read.get(number) or Postings() for number in missing}
            term.by_set.update(added)
        grown = sum(16 + len(part.rows) for part in added.values())
        term.size += grown
        self._held += grown
        self._make_room(word)
        return term

    def _make_room(self, keep: str) -> None:
        while self._held > CACHE_POSTINGS and len(self._terms) > 1:
            word, term = self._terms.popitem(last=False)
            if word == keep:
                self._terms[word] = term
                continue
            self._held -= term.size
