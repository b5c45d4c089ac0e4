"""TermSets: sets of affinity terms of placed pods that select the same pods, with summed counts of their carriers.

A placed pod carries a term if the term is in its spec.affinity. InterPodAffinity needs, for each node, how many pods in
its domain carry a term that selects the incoming pod. A tenant can create thousands of different terms that select
every pod, so a decision must not walk over terms. Therefore:

    a set of few terms     is walked over: each term has its own counts
    a set of many terms    has one Total per role and topology key: the weighted sum of its terms' counts

Totals are refreshed from a journal (Moves) of pods that were added or removed. All terms are summed up only when a set
is new, or when the journal no longer reaches back far enough. Sets are interned: all pods that the same terms select
share one set and its totals. They are held weakly, so a set lives as long as a cached result uses it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import chain
from typing import Any, Final
from weakref import WeakSet, WeakValueDictionary

import numpy as np

from berth.engine.state.pod_counts import Extent, RowCounts
from berth.model import LabelSelector, PodTerm, Role

FEW_TERMS: Final = 8  # up to so many terms, a set has no totals
_JOURNAL: Final = 1024


class CarriedTerm:
    """A distinct term with its weight (0 if it is required), and the number of pods on each row that carry it.

    `near` is the number of these rows whose node has the topology key; if it is 0, the term is idle: it applies to no
    node.
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
    """The summed counts of several terms with the same role and topology key. It can be used like one term.

    `rows` counts a pod once for each of the terms that it carries, times the term's weight. So the weight of the total
    itself is 1, or 0 if the terms are required, as for a required term.
    """

    __slots__ = ("role", "rows", "topology_key", "weight")

    def __init__(self, like: Speaker, rows: RowCounts) -> None:
        """`like` is one of the terms, or another total of such terms."""
        self.role: Role = like.role
        self.topology_key: str = like.topology_key
        self.weight: int = min(like.weight, 1)
        self.rows = rows

    def add_up(self, terms: Sequence[CarriedTerm]) -> None:
        """Replaces the counts by the sum over these terms."""
        counted = [carried.rows.counted() for carried in terms]
        weights = np.array([carried.weight or 1 for carried in terms], dtype=np.int64)
        pods = np.concatenate([pods for _, pods in counted])
        pods *= weights.repeat([len(rows) for rows, _ in counted])
        self.rows.refill(np.concatenate([rows for rows, _ in counted]), pods)

    def add(self, carried: CarriedTerm, sign: int) -> None:
        """Adds the counts of one term (1), or subtracts them (-1)."""
        rows, pods = carried.rows.counted()
        for row, count in zip(rows.tolist(), pods.tolist(), strict=True):
            self.rows.add(row, sign * count * (carried.weight or 1))


Speaker = CarriedTerm | Total


class Moves:
    """The journal of carriers: (term, row, sign), where a pod that carries the term was added (1) or removed (-1)."""

    def __init__(self) -> None:
        self._entries: list[tuple[CarriedTerm, int, int]] = []
        self._begins = 0

    @property
    def mark(self) -> int:
        """The current end of the journal, for `since`."""
        return self._begins + len(self._entries)

    def note(self, carried: CarriedTerm, row: int, sign: int) -> None:
        self._entries.append((carried, row, sign))
        if len(self._entries) > _JOURNAL:
            self._begins += _JOURNAL // 2
            del self._entries[: _JOURNAL // 2]

    def since(self, mark: int) -> list[tuple[CarriedTerm, int, int]] | None:
        """Returns the entries since `mark`; None if some of them were dropped already."""
        return None if mark < self._begins else self._entries[mark - self._begins :]

    def clear(self) -> None:
        self._begins += len(self._entries) + 1
        self._entries = []

    def __len__(self) -> int:
        return len(self._entries)


class TermSet:
    """A set of distinct terms. `speakers` are the terms, or their totals if they are many.

    Totals are valid as of the last call of `follow`.
    """

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
        """Computes the totals from all terms: for a new set, and when the journal does not reach back far enough."""
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
        """Computes the totals from those of `before`, a set that differs in few terms. Costs only the difference."""
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
        """Refreshes the totals from the journal."""
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
    """All sets that are in use, interned."""

    def __init__(self, extent: Extent) -> None:
        self._extent = extent
        self._moves = Moves()
        self._summed: WeakSet[TermSet] = WeakSet()
        self._known: WeakValueDictionary[frozenset[CarriedTerm], TermSet] = WeakValueDictionary()
        self.empty = self.of(())

    def of(self, terms: Sequence[CarriedTerm], before: TermSet | None = None) -> TermSet:
        """Returns the set of these terms. `before` is a set that differs in few terms, to compute totals from."""
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
        """Notes that a pod that carries the term was added to the row (1) or removed from it (-1).

        Without totals the journal stays empty: it would keep terms alive that no pod carries any more.
        """
        if self._summed:
            self._moves.note(carried, row, sign)
        elif self._moves:
            self._moves.clear()

    def compact(self) -> None:
        self._moves.clear()


class Matched:
    """The terms that select a pod: those whose selector names a value of a label are `named`, the others `wide`.

    They are separate sets because wide terms are the same for most pods, so that their totals are shared. `derived` is
    for what a plugin computes from the terms alone: it is valid as long as this object.
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
        """The terms with their counts, or totals of many."""
        return chain(self.wide.speakers, self.named.speakers)

    def follow(self, extent: Extent) -> None:
        """Refreshes the totals."""
        for part in self._summed:
            part.follow(extent)
