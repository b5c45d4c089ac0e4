"""Terms that placed pods carry, in sets: those that select the same pods, and how many pods carry them, summed up.

A tenant can make thousands of different terms that are about everybody. What a decision needs of them is how many pods
near a node carry any, so a set of many terms has one total for each role and topology key, and keeps it: pods that come
and go are looked up in the journal of moves, and all terms are walked over only when the set is new. Sets of the same
terms are one set, for all pods that these select.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import chain
from typing import Any, Final
from weakref import WeakSet, WeakValueDictionary

import numpy as np

from berth.engine.state.pod_counts import Extent, RowCounts
from berth.model import LabelSelector, PodTerm, Role

FEW_TERMS: Final = 8  # of which each speaks for itself
_JOURNAL: Final = 1024


class CarriedTerm:
    """A term with its weight (0 where it is required), and how many pods on each row carry it.

    `near` is how many of these rows have a node with the topology key; with none, the term is idle.
    """

    __slots__ = ("near", "pods", "requirements", "role", "rows", "term", "topology_key", "weight")

    def __init__(self, role: Role, term: PodTerm, weight: int, extent: Extent) -> None:
        self.role = role
        self.term = term
        self.topology_key = term.topology_key
        self.requirements = selector_of(term).requirements
        self.weight = weight
        self.rows = RowCounts(extent)
        self.pods = 0
        self.near = 0


def selector_of(term: PodTerm) -> LabelSelector:
    assert term.selector is not None, "a term without a selector is not carried"
    return term.selector


class Total:
    """The pods that carry any of several terms of one role and topology key.

    `rows` counts a pod once for each of the terms that it carries, times the term's weight. So the weight of each count
    is 1, or 0 where the terms are required, as it is for such a term.
    """

    __slots__ = ("role", "rows", "topology_key", "weight")

    def __init__(self, like: Speaker, rows: RowCounts) -> None:
        """`like`: one of the terms, or another total of such."""
        self.role: Role = like.role
        self.topology_key: str = like.topology_key
        self.weight: int = min(like.weight, 1)
        self.rows = rows

    def add_up(self, terms: Sequence[CarriedTerm]) -> None:
        """Counts these terms, and nothing else any more."""
        counted = [carried.rows.counted() for carried in terms]
        weights = np.array([carried.weight or 1 for carried in terms], dtype=np.int64)
        pods = np.concatenate([pods for _, pods in counted])
        pods *= weights.repeat([len(rows) for rows, _ in counted])
        self.rows.refill(np.concatenate([rows for rows, _ in counted]), pods)

    def add(self, carried: CarriedTerm, sign: int) -> None:
        """Counts one more term (1), or one less (-1)."""
        rows, pods = carried.rows.counted()
        for row, count in zip(rows.tolist(), pods.tolist(), strict=True):
            self.rows.add(row, sign * count * (carried.weight or 1))


Speaker = CarriedTerm | Total


class Moves:
    """The journal of carriers: which term, on which row, and whether a pod that carries it came (1) or went (-1)."""

    def __init__(self) -> None:
        self._entries: list[tuple[CarriedTerm, int, int]] = []
        self._begins = 0

    @property
    def mark(self) -> int:
        """Now, for `since`."""
        return self._begins + len(self._entries)

    def note(self, carried: CarriedTerm, row: int, sign: int) -> None:
        self._entries.append((carried, row, sign))
        if len(self._entries) > _JOURNAL:
            self._begins += _JOURNAL // 2
            del self._entries[: _JOURNAL // 2]

    def since(self, mark: int) -> list[tuple[CarriedTerm, int, int]] | None:
        """What was noted since then; None: too much."""
        return None if mark < self._begins else self._entries[mark - self._begins :]

    def clear(self) -> None:
        self._begins += len(self._entries) + 1
        self._entries = []

    def __len__(self) -> int:
        return len(self._entries)


class TermSet:
    """Distinct terms. `speakers` are they, or their totals where they are many: right when `follow` was called last."""

    __slots__ = ("__weakref__", "_mark", "_moves", "_totals", "members", "speakers", "terms")

    def __init__(self, terms: Sequence[CarriedTerm], members: frozenset[CarriedTerm], moves: Moves) -> None:
        self.terms, self.members = terms, members
        self._moves, self._mark = moves, moves.mark
        self._totals: dict[tuple[Role, str], Total] = {}
        self.speakers: Sequence[Speaker] = terms

    @property
    def is_summed(self) -> bool:
        return bool(self._totals)

    def sum_up(self, extent: Extent) -> None:
        """Makes totals of the terms: the first time, and when too much has been noted since they were right."""
        alike: dict[tuple[Role, str], list[CarriedTerm]] = {}
        for carried in self.terms:
            alike.setdefault((carried.role, carried.topology_key), []).append(carried)
        for key, terms in alike.items():
            total = self._totals.get(key)
            if total is None:
                total = self._totals[key] = Total(terms[0], RowCounts(extent))
            total.add_up(terms)
        self.speakers = list(self._totals.values())
        self._mark = self._moves.mark

    def sum_up_like(self, before: TermSet, extent: Extent) -> None:
        """The same, from the totals of a set that few terms differ from."""
        before.follow(extent)
        went = [carried for carried in before.terms if carried not in self.members]
        came = [carried for carried in self.terms if carried not in before.members]
        self._totals = {key: Total(each, each.rows.copy()) for key, each in before._totals.items()}
        for sign, changed in ((-1, went), (1, came)):
            for carried in changed:
                key = carried.role, carried.topology_key
                if key not in self._totals:
                    self._totals[key] = Total(carried, RowCounts(extent))
                self._totals[key].add(carried, sign)
        self.speakers = list(self._totals.values())

    def follow(self, extent: Extent) -> None:
        """Brings the totals up to date."""
        mark = self._moves.mark
        if mark == self._mark:
            return
        noted = self._moves.since(self._mark)
        if noted is None:
            self.sum_up(extent)
            return
        for carried, row, sign in noted:
            if carried in self.members:
                self._totals[carried.role, carried.topology_key].rows.add(row, sign * (carried.weight or 1))
        self._mark = mark


class TermSets:
    """The sets that are in use somewhere, each once."""

    def __init__(self, extent: Extent) -> None:
        self._extent = extent
        self._moves = Moves()
        self._summed: WeakSet[TermSet] = WeakSet()
        self._known: WeakValueDictionary[frozenset[CarriedTerm], TermSet] = WeakValueDictionary()
        self.empty = self.of(())

    def of(self, terms: Sequence[CarriedTerm], before: TermSet | None = None) -> TermSet:
        """The set of these terms; `before` is one that few of them are not in, and that has few others."""
        members = frozenset(terms)
        found = self._known.get(members)
        if found is None:
            found = self._known[members] = TermSet(terms, members, self._moves)
            if len(terms) > FEW_TERMS:
                if before is not None and before.is_summed:
                    found.sum_up_like(before, self._extent)
                else:
                    found.sum_up(self._extent)
                self._summed.add(found)
        return found

    def note(self, carried: CarriedTerm, row: int, sign: int) -> None:
        """A pod that carries the term has come to the row (1) or gone from it (-1).

        Noted for as long as somebody has totals: the journal holds terms that nobody carries any more.
        """
        if self._summed:
            self._moves.note(carried, row, sign)
        elif self._moves:
            self._moves.clear()

    def compact(self) -> None:
        self._moves.clear()


class Matched:
    """The terms that select a pod: those that name a value of a label are `named`, others `wide`.

    Wide terms are the same for most pods. `derived` is for what a plugin works out from the terms alone: it lasts as
    they do.
    """

    __slots__ = ("_summed", "derived", "named", "wide")

    def __init__(self, wide: TermSet, named: TermSet) -> None:
        self.wide, self.named = wide, named
        self._summed = [part for part in (wide, named) if part.is_summed]
        self.derived: dict[str, Any] = {}

    def __iter__(self) -> Iterator[CarriedTerm]:
        return chain(self.wide.terms, self.named.terms)

    def __len__(self) -> int:
        return len(self.wide.terms) + len(self.named.terms)

    @property
    def speakers(self) -> Iterator[Speaker]:
        """Who carries the terms: each term, or totals of many."""
        return chain(self.wide.speakers, self.named.speakers)

    def follow(self, extent: Extent) -> None:
        """Brings the totals up to date."""
        for part in self._summed:
            part.follow(extent)
