"""The search for victims: on which nodes the pod would fit if pods of lower priority went, and which of them must go.

On a node all pods of lower priority go first. Where the pod fits then, they come back one by one, those that a
disruption budget protects first, each group by importance (priority, then the time that they have run); who comes back
and leaves no room for the pod is a victim.

The pods of a node change what NodeResourcesFit says, and what other filters say that read pods. On most nodes none of
the latter minds them: it watches other nodes' pods (`Plugin.watched`), or is content with this node as it is and hangs
on nothing else. These nodes are searched all at once, on columns of their own, which are lent to the table while
NodeResourcesFit is asked. Of the others, columns rule out those whose resources would not do even so, and the rest is
tried one by one, by moving the pods in the table and asking the pipeline. Either way the table is as it was afterwards.

What is found stays in columns, too (Candidates): there are many, and records are made of the cheapest only.

Nominated pods of equal or higher priority count as present, and as absent. For resources the former is enough: a pod
that fits beside them fits without them. What a filter says that minds none of the node's pods is known for both from
the survey.
"""

from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from itertools import accumulate
from typing import overload

import numpy as np
from numpy.typing import NDArray

from berth.engine.pipeline import Opinion, Pipeline, Survey, moved, reads_resources
from berth.engine.plugin import Query
from berth.engine.state.amounts import Amounts, difference, sums
from berth.engine.state.budgets import Budgets
from berth.engine.state.nominated_pods import Promised
from berth.engine.state.placed_pods import started
from berth.engine.state.state import State
from berth.engine.verdict import BoolColumn, Code, Int64Column, Verdicts, row_count, row_numbers
from berth.model import Pod

NO_VICTIMS = "No preemption victims found for incoming pod"
_LOWEST_PRIORITY = -(2**31)  # taken off each priority, so that one victim more always adds to the sum
_NEVER = 2**38  # in seconds: later than a time can be that a pod has started at

Cost = tuple[int, int, int, int, int]
Numbers = NDArray[np.intp]
_NO_COSTS = np.zeros((5, 0), dtype=np.int64)


@dataclass(frozen=True, slots=True)
class Nomination:
    """A node that takes the pod once `victims` are gone; they are ordered by importance, the highest first.

    `violations` is the number of victims that a disruption budget protects.
    """

    node: str
    victims: tuple[Pod, ...]
    violations: int


@dataclass(frozen=True, slots=True)
class Candidate:
    """A node that could be nominated.

    `cost` is what the choice among several looks at, the lowest first: violations of disruption budgets, the victims'
    highest priority, the sum of their priorities, their number, and when the longest running one of the highest
    priority began (negated: the later the better).
    """

    cost: Cost
    nominate: Callable[[], Nomination]

    @property
    def violations(self) -> int:
        return self.cost[0]


class Candidates(Sequence[Candidate]):
    """Candidates side by side, in the order in which their nodes were looked at.

    `costs` (int64[5, candidates]) are as in Candidate, `nominate` makes the nomination of one, by its index. A record
    is made of one when somebody looks at it.
    """

    def __init__(self, costs: NDArray[np.int64], nominate: Callable[[int], Nomination]) -> None:
        self.costs, self.nominate = costs, nominate

    @classmethod
    def joined(cls, parts: Sequence["Candidates"]) -> "Candidates":
        ends = list(accumulate(map(len, parts)))

        def nominate(index: int) -> Nomination:
            number = bisect_right(ends, index)
            return parts[number].nominate(index - ends[number] + len(parts[number]))

        return cls(np.concatenate([_NO_COSTS, *(part.costs for part in parts)], axis=1), nominate)

    def __len__(self) -> int:
        return int(self.costs.shape[1])

    @overload
    def __getitem__(self, index: int) -> Candidate: ...

    @overload
    def __getitem__(self, index: slice) -> "Candidates": ...

    def __getitem__(self, index: int | slice) -> "Candidate | Candidates":
        number = range(len(self))[index]
        if isinstance(number, range):
            return Candidates(self.costs[:, index], lambda at: self.nominate(number[at]))
        return Candidate(tuple(self.costs[:, number].tolist()), partial(self.nominate, number))

    def of(self, chosen: Numbers) -> "Candidates":
        """Those with these indices, in this order."""
        return Candidates(self.costs[:, chosen], lambda at: self.nominate(int(chosen[at])))

    def cheapest(self) -> list[Candidate]:
        """Those of the lowest cost."""
        left = np.arange(len(self))
        for column in self.costs:
            costs = column[left]
            left = left[costs == costs.min()]
        return [self[index] for index in left.tolist()]


@dataclass(frozen=True, slots=True)
class _Lower:
    """Pods of lower priority: their slots and, for each, the index of its row among the rows searched, ascending."""

    slots: Numbers
    place: Numbers

    def on(self, wanted: BoolColumn) -> "_Lower":
        """Those on the wanted ones of the rows searched."""
        chosen = wanted[self.place]
        return _Lower(self.slots[chosen], self.place[chosen])


@dataclass(frozen=True, slots=True)
class _Found:
    """Candidates, and for each the index of its row among the rows searched (`places`, intp[candidates]), ascending."""

    places: Numbers
    candidates: Candidates


class VictimSearch:
    """One pod that fits nowhere. `errors` are nodes on which the plugins contradict themselves."""

    def __init__(self, pipeline: Pipeline, query: Query, survey: Survey, state: State, budgets: Budgets) -> None:
        self._pipeline, self._query, self._survey, self._state = pipeline, query, survey, state
        self._budgets = budgets
        self._table, self._pods = state.table, state.table.pods
        self._rows = row_numbers(survey.rows)
        self._asked = [opinion for opinion in survey.opinions if opinion.verdicts is not None]
        without = [opinion.verdicts for opinion in survey.without or survey.opinions if opinion.verdicts is not None]
        self._changing = [opinion for opinion in self._asked if opinion.plugin.reads_pods]
        self._fit = [opinion.plugin for opinion in self._asked if reads_resources(opinion)]
        found = state.guests.promised(query.pod)
        self._contested: set[int] = set() if found is None else set(found.rows.tolist())
        self._promised = None if found is None else self._spread_out(found)
        self._minded = [self._minded_by(opinion, alone) for opinion, alone in zip(self._asked, without, strict=True)]
        self._refused: list[tuple[Verdicts, BoolColumn]] = []
        self._doubtful: list[int] = []
        self._reasons: Counter[str] = Counter()
        self.errors: list[str] = []

    def among(self, positions: Numbers, first: int) -> Iterator[Candidates]:
        """The nodes at these positions of the survey that victims would make room on, in that order.

        Victims are looked for on the first so many that are not ruled out; on the others, if somebody asks on.
        """
        rows = self._rows[positions]
        lower = self._lower_on(rows)
        free = self._emptied(rows, lower)
        left = np.zeros(len(rows), dtype=np.bool_)
        left[lower.place] = True
        self._reasons[NO_VICTIMS] += int(len(left) - np.count_nonzero(left))
        left = self._may_fit(positions, rows, free, left)
        minded = np.zeros(len(rows), dtype=np.bool_)
        for column in self._minded:
            if column is not None:
                minded |= column[rows]
        places = np.flatnonzero(left)
        for part in filter(len, (places[:first], places[first:])):
            left = np.zeros(len(rows), dtype=np.bool_)
            left[part] = True
            found = self._all_at_once(rows, free, lower.on(left & ~minded))
            yield from self._in_order(rows, found, lower.on(left & minded))

    def reasons(self) -> Counter[str]:
        """Why nodes among those searched were ruled out, and how many for each reason."""
        for verdicts, refused in self._refused:
            for cause, times in zip(*np.unique(verdicts.causes[refused], return_counts=True), strict=True):
                for reason in verdicts.describe(int(cause)):
                    self._reasons[reason] += int(times)
        for row in self._doubtful:
            self._reasons.update(self._words_when_empty(row))
        self._refused.clear()
        self._doubtful.clear()
        return +self._reasons

    # --- columns -----------------------------------------------------------------------------------------------------

    def _lower_on(self, rows: Numbers) -> _Lower:
        """The pods of lower priority on the rows, by row."""
        slots = self._pods.slots_on(rows, self._table.capacity)
        slots = slots[self._pods.priority[slots] < self._query.pod.priority]
        index = np.zeros(self._table.capacity, dtype=np.min_scalar_type(len(rows)))  # small numbers are sorted faster
        index[rows] = np.arange(len(rows))
        place = index[self._pods.row[slots]]
        order = np.argsort(place, kind="stable")
        return _Lower(slots[order], place[order].astype(np.intp))

    def _by_importance(self, lower: _Lower) -> _Lower:
        """The same, each row's pods in the order of their importance; of equals, the one that was made first."""
        order, alike = _sorted_within(lower.place, -self._pods.priority[lower.slots])
        slots = lower.slots[order]
        order, alike = _sorted_within(alike, np.minimum(self._pods.started[slots], _NEVER))
        slots = slots[order]
        equal = alike[1:] == alike[:-1]
        if equal.any():
            tied = np.flatnonzero(np.append(equal, False) | np.append(False, equal))
            made = np.zeros(len(slots), dtype=np.int64)
            made[tied] = _ranks([self._pods.record(slot) for slot in slots[tied].tolist()])
            slots = slots[_sorted_within(alike, made)[0]]
        return _Lower(slots, lower.place)

    def _spread_out(self, promised: Promised) -> Amounts:
        """Of all rows: what the nominated pods take that the pod has to yield to."""
        amounts = np.zeros_like(self._table.used)
        amounts[:, promised.rows] = promised.amounts
        return amounts

    def _minded_by(self, opinion: Opinion, without: Verdicts) -> BoolColumn | None:
        """bool[all rows]: where pods change what the filter says, other than by the resources that they use.

        `without` is what it says without nominated pods. Where it refuses a node without them and not with them, one
        column cannot tell both, and the node is tried.
        """
        if not opinion.plugin.reads_pods or reads_resources(opinion):
            return None
        minded = np.ones(self._table.capacity, dtype=np.bool_)
        if opinion.plugin.node_local and opinion.verdicts is not None:
            minded[self._rows] = opinion.verdicts.codes != Code.FITS
        watched = opinion.plugin.watched(self._query, self._state)
        if watched is not None:
            minded &= watched
        if self._contested:
            refused = self._rows[without.codes != Code.FITS]
            minded[refused[np.isin(refused, list(self._contested))]] = True
        return minded

    def _emptied(self, rows: Numbers, lower: _Lower) -> Amounts:
        """What is free on these rows without the lower pods, and with the promised room taken."""
        free = self._table.free.take(rows, axis=1)
        if len(lower.slots):
            begins = _begins(lower.place)
            free[:, lower.place[begins]] += np.add.reduceat(self._pods.usage.take(lower.slots, axis=1), begins, axis=1)
        self._empty_saturated(rows, free)
        return free if self._promised is None else difference(free, self._promised.take(rows, axis=1))

    def _empty_saturated(self, rows: Numbers, free: Amounts) -> None:
        """Writes what is free without the lower pods where all pods together take more than 64 bits hold.

        What was cut off a sum does not come back when pods are taken off it: here the pods that stay are summed up.
        """
        saturated = self._table.saturated_rows
        if not len(saturated):
            return
        places = np.flatnonzero(np.isin(rows, saturated))
        slots = self._pods.slots_on(rows[places], self._table.capacity)
        slots = slots[self._pods.priority[slots] >= self._query.pod.priority]
        slots = slots[np.argsort(self._pods.row[slots], kind="stable")]
        stay = np.zeros_like(self._table.used)
        if len(slots):
            begins = _begins(self._pods.row[slots])
            stay[:, self._pods.row[slots[begins]]] = sums(self._pods.usage.take(slots, axis=1), begins)
        free[:, places] = self._table.allocatable.take(rows[places], axis=1) - stay.take(rows[places], axis=1)

    @contextmanager
    def _lent(self, rows: Numbers, free: Amounts) -> Iterator[None]:
        """For a filter that reads resources, the first rows of the table are these, and so much is free on them."""
        table = self._table
        kept = table.free, table.allocatable
        try:
            table.free, table.allocatable = free, table.allocatable.take(rows, axis=1)
            yield
        finally:
            table.free, table.allocatable = kept

    def _may_fit(self, positions: Numbers, rows: Numbers, free: Amounts, asked: BoolColumn) -> BoolColumn:
        """Where resources, and all that pods do not change, leave room once all pods of lower priority are gone.

        Why they do not is doubtful where a filter that minds the pods might have refused the node before.
        """
        left, unsure = asked.copy(), np.zeros(len(rows), dtype=np.bool_)
        for opinion, minded in zip(self._asked, self._minded, strict=True):
            seen = self._seen(opinion, positions, rows, free)
            if seen is not None:
                refused = left & ~seen.fits
                if minded is not None:
                    refused &= ~minded[rows]
                left &= ~refused
                self._refused.append((seen, refused & ~unsure))
                self._doubtful += rows[refused & unsure].tolist()
            if minded is not None:
                unsure |= minded[rows]
        return left

    def _seen(self, opinion: Opinion, positions: Numbers, rows: Numbers, free: Amounts) -> Verdicts | None:
        """What the filter says with so much free, and all else as it was; None: that the pod fits everywhere."""
        verdicts = opinion.verdicts
        assert verdicts is not None
        if reads_resources(opinion):
            with self._lent(rows, free):
                return opinion.plugin.filter(self._query, self._state, slice(0, len(rows)))
        if verdicts.all_fit:
            return None
        return Verdicts(verdicts.codes[positions], lambda: verdicts.causes[positions], verdicts.describe)

    def _all_at_once(self, rows: Numbers, free: Amounts, lower: _Lower) -> _Found:
        """Where only resources count: one step a pod, all rows side by side."""
        protected = np.zeros(len(lower.slots), dtype=np.bool_)
        if not len(lower.slots):
            return self._found(rows, lower, protected)
        lower = self._by_importance(lower)
        if self._budgets:
            records = [self._pods.record(slot) for slot in lower.slots.tolist()]
            protected = self._budgets.protected(records, lower.place)
        victim = np.zeros(len(lower.slots), dtype=np.bool_)
        turns = _turns(lower.place, protected)
        places = lower.place[turns[0]]
        free = free.take(places, axis=1)
        with self._lent(rows[places], free):
            for turn in turns:
                there = slice(0, len(turn))
                usage = self._pods.usage.take(lower.slots[turn], axis=1)
                before = free[:, there].copy()
                free[:, there] = difference(before, usage)
                short = self._short(there)
                if short.any():
                    np.copyto(free[:, there], before, where=short)
                    victim[turn[short]] = True
        return self._found(rows, _Lower(lower.slots[victim], lower.place[victim]), protected[victim])

    def _short(self, rows: slice) -> BoolColumn:
        """bool[rows]: where resources do not do."""
        short = np.zeros(row_count(rows), dtype=np.bool_)
        for plugin in self._fit:
            short |= ~plugin.filter(self._query, self._state, rows).fits
        return short

    def _found(self, rows: Numbers, victims: _Lower, protected: BoolColumn) -> _Found:
        """The rows that the victims are on, as candidates."""
        begins = _begins(victims.place)
        ends = np.append(begins[1:], len(victims.slots))
        places = victims.place[begins]
        priority = self._pods.priority[victims.slots]
        costs = np.stack(
            [
                np.add.reduceat(protected, begins, dtype=np.int64),
                priority[begins],
                np.add.reduceat(priority - _LOWEST_PRIORITY, begins),
                ends - begins,
                -self._pods.started[victims.slots[begins]],
            ]
        )

        def nominate(index: int) -> Nomination:
            slots = victims.slots[begins[index] : ends[index]]
            gone = tuple(self._pods.record(slot) for slot in slots.tolist())
            return Nomination(self._table.name(int(rows[places[index]])), gone, int(costs[0, index]))

        return _Found(places, Candidates(costs, nominate))

    # --- one node at a time ------------------------------------------------------------------------------------------

    def _in_order(self, rows: Numbers, found: _Found, lower: _Lower) -> Iterator[Candidates]:
        """Those found already, and those that are found by trying the rows that the lower pods are on."""
        begin = 0
        for place, slots in self._untried(lower):
            end = int(np.searchsorted(found.places, place))
            yield found.candidates[begin:end]
            candidate = self._on(int(rows[place]), [self._pods.record(slot) for slot in slots.tolist()])
            if candidate is not None:
                yield candidate
            begin = end
        yield found.candidates[begin:]

    def _untried(self, lower: _Lower) -> Iterator[tuple[int, Numbers]]:
        """The places of the lower pods, and their slots by importance."""
        if len(lower.slots):
            lower = self._by_importance(lower)
            begins = _begins(lower.place)
            yield from zip(lower.place[begins].tolist(), np.split(lower.slots, begins[1:]), strict=True)

    def _on(self, row: int, pods: Sequence[Pod]) -> Candidates | None:
        """Moves the pods, which are in the order of their importance, in the table and asks the pipeline."""
        protected = self._budgets.protected(pods, np.zeros(len(pods), dtype=np.intp)).tolist()
        returning = [pod for _, pod in sorted(zip(protected, pods, strict=True), key=lambda pair: not pair[0])]
        name = self._table.name(row)
        with self._table.trying():
            victims = self._tried(row, name, pods, returning)
        if victims is None:
            return None
        if not victims:
            self.errors.append(f'expected at least one victim pod on node "{name}"')
            return None
        order = {pod.uid: number for number, pod in enumerate(pods)}
        victims = sorted(victims, key=lambda pod: order[pod.uid])
        violations = sum(protected[order[pod.uid]] for pod in victims)
        nomination = Nomination(name, tuple(victims), violations)
        return Candidates(np.array([cost_of(victims, violations)], dtype=np.int64).T, lambda index: nomination)

    def _tried(self, row: int, name: str, pods: Sequence[Pod], returning: Sequence[Pod]) -> list[Pod] | None:
        """Who of the returning pods must stay away; None where the pod does not fit without all of them."""
        away: dict[str, Pod] = {}
        try:
            for pod in pods:
                self._table.remove_pod(pod.uid)
                away[pod.uid] = pod
            if not self._fits(row):
                self._reasons.update(self._words(row, self._changing))
                return None
            for pod in returning:
                self._table.add_pod(pod, name)
                del away[pod.uid]
                if not self._fits(row):
                    self._table.remove_pod(pod.uid)
                    away[pod.uid] = pod
            return list(away.values())
        finally:
            for pod in away.values():
                self._table.add_pod(pod, name)
            self._query.memo.clear()

    def _fits(self, row: int) -> bool:
        """As the table is now, for a node that all filters let the pod onto that do not read pods."""
        self._query.memo.clear()
        if row in self._contested:
            return self._pipeline.refusal(self._query, self._state, row, self._changing) is None
        return all(opinion.plugin.fits_row(self._query, self._state, row) for opinion in self._changing)

    def _words(self, row: int, opinions: Sequence[Opinion]) -> tuple[str, ...]:
        """Why the node is refused as the table is now."""
        self._query.memo.clear()
        refusal = self._pipeline.refusal(self._query, self._state, row, opinions)
        return refusal.verdicts.reasons(0) if refusal is not None and refusal.verdicts is not None else ()

    def _words_when_empty(self, row: int) -> tuple[str, ...]:
        """Why the node is refused once all pods of lower priority are gone."""
        name = self._table.name(row)
        lower = [(pod, name) for pod in self._table.pods_on(name).values() if pod.priority < self._query.pod.priority]
        with moved(self._query, self._table, remove=lower):
            return self._words(row, self._asked)


def cost_of(victims: Sequence[Pod], violations: int) -> Cost:
    """What a candidate costs; the victims are in the order of their importance."""
    highest = victims[0].priority
    sums = sum(pod.priority - _LOWEST_PRIORITY for pod in victims)
    return violations, highest, sums, len(victims), -started(victims[0].start_time)


def _differ(numbers: Numbers) -> BoolColumn:
    """bool[numbers]: whether each is another one than that before it."""
    differ = np.ones(len(numbers), dtype=np.bool_)
    np.not_equal(numbers[1:], numbers[:-1], out=differ[1:])
    return differ


def _begins(place: Numbers) -> Numbers:
    """intp[places]: the index of the first pod of each place, of pods that are ordered by their places."""
    return np.flatnonzero(_differ(place))


def _sorted_within(groups: Numbers, values: Int64Column) -> tuple[Numbers, Numbers]:
    """The order by group and then by value, and the groups in that order of those that are alike in both.

    Groups are numbered in ascending order. As each lies together already, one sort by a number that stands for group
    and value is much faster than a sort by one and then by the other.
    """
    lowest = values.min()
    both = groups * (values.max() - lowest + 1) + (values - lowest)
    order = np.argsort(both, kind="stable")
    return order, np.cumsum(_differ(both[order]))


def _turns(place: Numbers, protected: BoolColumn) -> list[Numbers]:
    """Who comes back when: each turn holds at most one pod of a place, the protected ones first.

    The places that have a pod in a turn are the first of those in the turn before.
    """
    order = np.argsort(2 * place + ~protected, kind="stable")
    begins = _begins(place)
    lengths = np.diff(begins, append=len(place))
    longest = np.argsort(-lengths, kind="stable")
    ends = len(begins) - np.cumsum(np.bincount(lengths))[:-1]
    begins = begins[longest]
    return [order[begins[:end] + turn] for turn, end in enumerate(ends.tolist())]


def _ranks(pods: Sequence[Pod]) -> Numbers:
    """intp[pods]: the place of each pod in the order in which they were made."""
    ages = [(pod.created, pod.uid) for pod in pods]
    ranks = np.empty(len(pods), dtype=np.intp)
    ranks[sorted(range(len(pods)), key=ages.__getitem__)] = np.arange(len(pods))
    return ranks
