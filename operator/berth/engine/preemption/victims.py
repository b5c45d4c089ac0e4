"""The search for victims: the nodes on which the pod would fit without pods of lower priority, and which pods must go.

The algorithm on one node is kube-scheduler's (SelectVictimsOnNode). Remove all pods of lower priority. If the pod does
not fit even then, the node is no candidate. Otherwise add the pods back one by one: first those that a disruption
budget protects, then the others, each by importance (priority, then start time). A pod that leaves no room for the
preemptor when it is added back is a victim.

To do that for thousands of nodes, nodes are split by which filters their pods can affect:

    resources only   The pods of the node affect NodeResourcesFit and no other filter: other filters read the pods of
                     other nodes only (`rows_with_pods`), or accept this node already and are node_local. Most nodes
                     are like this. They are searched all at once, on arrays: each step adds one pod back on every
                     node. NodeResourcesFit runs on these arrays (`filter_with_free`).
    other            The pods of the node may affect another filter. Arrays first rule out the nodes whose resources
                     do not suffice even without all lower pods. The others are tried one by one: pods are removed
                     from the table and added back, and the pipeline's filters run.

Either way the table is restored afterwards. Results stay in arrays (Candidates), because there are many and a record
is needed only for the cheapest.

Nominated pods of equal or higher priority must be considered both as present and as absent. For resources, present is
enough: a pod that fits beside them also fits without them. For filters that the node's pods do not affect, the survey
already has both verdicts.
"""

from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import accumulate
from typing import overload

import numpy as np
from numpy.typing import NDArray

from berth.engine.diagnosis import Opinion, Survey
from berth.engine.pipeline import Pipeline
from berth.engine.plugin import Query
from berth.engine.state.amounts import Amounts, difference, sums
from berth.engine.state.budgets import Budgets
from berth.engine.state.nominated_pods import NominatedUsage
from berth.engine.state.placed_pods import started
from berth.engine.state.state import State
from berth.engine.trial import moved
from berth.engine.verdict import BoolColumn, Code, Int64Column, Verdicts, row_numbers
from berth.model import Pod

NO_VICTIMS = "No preemption victims found for incoming pod"
_LOWEST_PRIORITY = -(2**31)  # subtracted from each priority, so that a sum grows with each victim (as kube-scheduler)
_NEVER = 2**38  # in seconds: later than any start time of a pod

Cost = tuple[int, int, int, int, int]
Numbers = NDArray[np.intp]
_NO_COSTS = np.zeros((5, 0), dtype=np.int64)


@dataclass(frozen=True, slots=True)
class Nomination:
    """A node on which the pod fits once `victims` are gone; they are sorted by importance, the highest first.

    `violations` is the number of victims whose eviction violates a disruption budget.
    """

    node: str
    victims: tuple[Pod, ...]
    violations: int


@dataclass(frozen=True, slots=True)
class Candidate:
    """A node that could be nominated.

    `cost` decides between candidates, the lowest wins: violations of disruption budgets, the victims' highest
    priority, the sum of their priorities, their number, and the earliest start time among those of the highest
    priority (negated: a later start is cheaper).
    """

    cost: Cost
    nominate: Callable[[], Nomination]

    @property
    def violations(self) -> int:
        return self.cost[0]


class Candidates(Sequence[Candidate]):
    """Many candidates as one array, in the order in which their nodes were searched.

    `costs` (int64[5, candidates]) are as in Candidate; `nominate` makes the nomination of one, by its index. A
    Candidate object is made only on access.
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
        """Returns the candidates with these indices, in this order."""
        return Candidates(self.costs[:, chosen], lambda at: self.nominate(int(chosen[at])))

    def cheapest(self) -> list[Candidate]:
        """Returns the candidates with the lowest cost."""
        left = np.arange(len(self))
        for column in self.costs:
            costs = column[left]
            left = left[costs == costs.min()]
        return [self[index] for index in left.tolist()]


@dataclass(frozen=True, slots=True)
class _Lower:
    """Pods of lower priority: their slots in PlacedPods, and `place`: the index of each pod's row among the rows
    searched. Pods are sorted by place.
    """

    slots: Numbers
    place: Numbers

    def on(self, wanted: BoolColumn) -> "_Lower":
        """Returns the pods on those rows searched for which `wanted` is True."""
        chosen = wanted[self.place]
        return _Lower(self.slots[chosen], self.place[chosen])


@dataclass(frozen=True, slots=True)
class _Found:
    """Candidates, and for each the index of its row among the rows searched (`places`, intp[candidates]), ascending."""

    places: Numbers
    candidates: Candidates


class VictimSearch:
    """The search for one pod that fits nowhere.

    `errors` name nodes that were rejected although the pod fits without any victim: the plugins are inconsistent.
    """

    def __init__(self, pipeline: Pipeline, query: Query, survey: Survey, state: State, budgets: Budgets) -> None:
        self._pipeline, self._query, self._survey, self._state = pipeline, query, survey, state
        self._budgets = budgets
        self._table, self._pods = state.table, state.table.pods
        self._rows = row_numbers(survey.rows)
        self._asked = [opinion for opinion in survey.opinions if opinion.verdicts is not None]
        without = [opinion.verdicts for opinion in survey.without or survey.opinions if opinion.verdicts is not None]
        self._changing = [opinion for opinion in self._asked if opinion.plugin.dependencies.reads_pods]
        self._fit = [opinion.plugin for opinion in self._asked if opinion.plugin.dependencies.reads_only_usage]
        found = state.nominated_pods.usage_beside(query.pod)
        self._rows_with_nominated: set[int] = set() if found is None else set(found.rows.tolist())
        self._nominated_usage = None if found is None else self._spread_out(found)
        self._affected = [
            self._affected_by(opinion, alone) for opinion, alone in zip(self._asked, without, strict=True)
        ]
        self._refused: list[tuple[Verdicts, BoolColumn]] = []
        self._doubtful: list[int] = []
        self._reasons: Counter[str] = Counter()
        self.errors: list[str] = []

    def among(self, positions: Numbers, first: int) -> Iterator[Candidates]:
        """Yields the candidates among the nodes at these positions of the survey, in that order.

        Searches the `first` nodes that are not ruled out; the others only if the caller keeps iterating.
        """
        rows = self._rows[positions]
        lower = self._lower_on(rows)
        free = self._emptied(rows, lower)
        left = np.zeros(len(rows), dtype=np.bool_)
        left[lower.place] = True
        self._reasons[NO_VICTIMS] += int(len(left) - np.count_nonzero(left))
        left = self._may_fit(positions, rows, free, left)
        affected = np.zeros(len(rows), dtype=np.bool_)
        for column in self._affected:
            if column is not None:
                affected |= column[rows]
        places = np.flatnonzero(left)
        for part in filter(len, (places[:first], places[first:])):
            left = np.zeros(len(rows), dtype=np.bool_)
            left[part] = True
            found = self._all_at_once(rows, free, lower.on(left & ~affected))
            yield from self._in_order(rows, found, lower.on(left & affected))

    def reasons(self) -> Counter[str]:
        """Returns why searched nodes were ruled out: the number of nodes by reason."""
        for verdicts, refused in self._refused:
            for cause, times in zip(*np.unique(verdicts.causes[refused], return_counts=True), strict=True):
                for reason in verdicts.describe(int(cause)):
                    self._reasons[reason] += int(times)
        for row in self._doubtful:
            self._reasons.update(self._reasons_when_empty(row))
        self._refused.clear()
        self._doubtful.clear()
        return +self._reasons

    # --- columns -----------------------------------------------------------------------------------------------------

    def _lower_on(self, rows: Numbers) -> _Lower:
        """Returns the pods of lower priority on the rows, sorted by row."""
        slots = self._pods.slots_on(rows, self._table.capacity)
        slots = slots[self._pods.priority[slots] < self._query.pod.priority]
        # The smallest dtype that will do: numpy sorts 8 and 16 bit integers with radix sort, which is much faster.
        index = np.zeros(self._table.capacity, dtype=np.min_scalar_type(len(rows)))
        index[rows] = np.arange(len(rows))
        place = index[self._pods.row[slots]]
        order = np.argsort(place, kind="stable")
        return _Lower(slots[order], place[order].astype(np.intp))

    def _by_importance(self, lower: _Lower) -> _Lower:
        """Returns the same pods, those of each row sorted by importance; among equals, the one created first."""
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

    def _spread_out(self, nominated: NominatedUsage) -> Amounts:
        """Returns int64[resources, all rows]: what nominated pods of equal or higher priority take."""
        amounts = np.zeros_like(self._table.used)
        amounts[:, nominated.rows] = nominated.amounts
        return amounts

    def _affected_by(self, opinion: Opinion, without: Verdicts) -> BoolColumn | None:
        """Returns bool[all rows]: where the node's pods may affect the filter other than by their resource usage.

        Such nodes are tried one by one. `without` are the verdicts without nominated pods. A node that has nominated
        pods and is rejected without them is tried, too: the one column of verdicts cannot express both cases.
        """
        dependencies = opinion.plugin.dependencies
        if not dependencies.reads_pods or dependencies.reads_only_usage:
            return None
        affected = np.ones(self._table.capacity, dtype=np.bool_)
        if dependencies.node_local and opinion.verdicts is not None:
            affected[self._rows] = opinion.verdicts.codes != Code.FITS
        if dependencies.rows_with_pods is not None:
            known = dependencies.rows_with_pods(self._query, self._state)
            if known is not None:
                affected &= known
        if self._rows_with_nominated:
            refused = self._rows[without.codes != Code.FITS]
            affected[refused[np.isin(refused, list(self._rows_with_nominated))]] = True
        return affected

    def _emptied(self, rows: Numbers, lower: _Lower) -> Amounts:
        """Returns what is free on these rows without the lower pods, and with the nominated pods."""
        free = self._table.free.take(rows, axis=1)
        if len(lower.slots):
            begins = _begins(lower.place)
            free[:, lower.place[begins]] += np.add.reduceat(self._pods.usage.take(lower.slots, axis=1), begins, axis=1)
        self._empty_saturated(rows, free)
        return free if self._nominated_usage is None else difference(free, self._nominated_usage.take(rows, axis=1))

    def _empty_saturated(self, rows: Numbers, free: Amounts) -> None:
        """Corrects `free` on rows whose pods take more of a resource than 64 bits hold.

        There `used` is cut off at MOST, so subtracting the lower pods from it would be wrong. The usage of the pods
        that stay is summed up instead.
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

    def _may_fit(self, positions: Numbers, rows: Numbers, free: Amounts, asked: BoolColumn) -> BoolColumn:
        """Returns bool[rows]: where the pod may fit once all pods of lower priority are gone.

        It considers resources, and the filters that the node's pods do not affect. The reason for a rejection is
        doubtful if a filter earlier in the pipeline is affected by the pods: it might reject the node first. Such
        rows get their reasons later, from the pipeline (`_doubtful`).
        """
        left, unsure = asked.copy(), np.zeros(len(rows), dtype=np.bool_)
        for opinion, affected in zip(self._asked, self._affected, strict=True):
            seen = self._seen(opinion, positions, rows, free)
            if seen is not None:
                refused = left & ~seen.fits
                if affected is not None:
                    refused &= ~affected[rows]
                left &= ~refused
                self._refused.append((seen, refused & ~unsure))
                self._doubtful += rows[refused & unsure].tolist()
            if affected is not None:
                unsure |= affected[rows]
        return left

    def _seen(self, opinion: Opinion, positions: Numbers, rows: Numbers, free: Amounts) -> Verdicts | None:
        """Returns the filter's verdicts with so much free, and all else unchanged; None: the pod fits everywhere."""
        verdicts = opinion.verdicts
        assert verdicts is not None
        if opinion.plugin.dependencies.reads_only_usage:
            return opinion.plugin.filter_with_free(self._query, free, self._table.allocatable.take(rows, axis=1))
        if verdicts.all_fit:
            return None
        return Verdicts(verdicts.codes[positions], lambda: verdicts.causes[positions], verdicts.describe)

    def _all_at_once(self, rows: Numbers, free: Amounts, lower: _Lower) -> _Found:
        """Finds the victims on rows where only resources matter: one step adds one pod back on every row."""
        protected = np.zeros(len(lower.slots), dtype=np.bool_)
        if not len(lower.slots):
            return self._found(rows, lower, protected)
        lower = self._by_importance(lower)
        if self._budgets:
            records = [self._pods.record(slot) for slot in lower.slots.tolist()]
            protected = self._budgets.protected(records, lower.place)
        victim = np.zeros(len(lower.slots), dtype=np.bool_)
        turns = _steps(lower.place, protected)
        places = lower.place[turns[0]]  # rows with the most pods first: each step works on a prefix of them
        free, allocatable = free.take(places, axis=1), self._table.allocatable.take(rows[places], axis=1)
        for turn in turns:
            there = slice(0, len(turn))
            usage = self._pods.usage.take(lower.slots[turn], axis=1)
            before = free[:, there].copy()
            free[:, there] = difference(before, usage)
            short = self._short(free[:, there], allocatable[:, there])
            if short.any():  # the preemptor does not fit any more: the pod is a victim and stays away
                np.copyto(free[:, there], before, where=short)
                victim[turn[short]] = True
        return self._found(rows, _Lower(lower.slots[victim], lower.place[victim]), protected[victim])

    def _short(self, free: Amounts, allocatable: Amounts) -> BoolColumn:
        """Returns one bool per node: where the pod does not fit with this much free."""
        short = np.zeros(free.shape[1], dtype=np.bool_)
        for plugin in self._fit:
            short |= ~plugin.filter_with_free(self._query, free, allocatable).fits
        return short

    def _found(self, rows: Numbers, victims: _Lower, protected: BoolColumn) -> _Found:
        """Returns the rows that the victims are on, as candidates."""
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
        """Yields the candidates found already, and those found by trying the rows of the lower pods, in row order."""
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
        """Yields each place with lower pods, and their slots sorted by importance."""
        if len(lower.slots):
            lower = self._by_importance(lower)
            begins = _begins(lower.place)
            yield from zip(lower.place[begins].tolist(), np.split(lower.slots, begins[1:]), strict=True)

    def _on(self, row: int, pods: Sequence[Pod]) -> Candidates | None:
        """Finds the victims on one row, with the pipeline's filters; `pods` are sorted by importance."""
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
        """Returns the victims; None if the pod does not fit even without all of `pods`."""
        away: dict[str, Pod] = {}
        try:
            for pod in pods:
                self._table.remove_pod(pod.uid)
                away[pod.uid] = pod
            if not self._fits(row):
                self._reasons.update(self._reasons_now(row, self._changing))
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
        """Whether the pod fits on the row as the table is now. Filters that do not read pods accept it already."""
        self._query.memo.clear()
        if row in self._rows_with_nominated:
            return self._pipeline.refusal(self._query, self._state, row, self._changing) is None
        return all(opinion.plugin.fits_row(self._query, self._state, row) for opinion in self._changing)

    def _reasons_now(self, row: int, opinions: Sequence[Opinion]) -> tuple[str, ...]:
        """Returns the reasons why the node is rejected as the table is now."""
        self._query.memo.clear()
        refusal = self._pipeline.refusal(self._query, self._state, row, opinions)
        return refusal.verdicts.reasons(0) if refusal is not None and refusal.verdicts is not None else ()

    def _reasons_when_empty(self, row: int) -> tuple[str, ...]:
        """Returns the reasons why the node is rejected without all pods of lower priority."""
        name = self._table.name(row)
        lower = [(pod, name) for pod in self._table.pods_on(name).values() if pod.priority < self._query.pod.priority]
        with moved(self._query, self._table, remove=lower):
            return self._reasons_now(row, self._asked)


def cost_of(victims: Sequence[Pod], violations: int) -> Cost:
    """Returns the cost of a candidate; the victims are sorted by importance."""
    highest = victims[0].priority
    sums = sum(pod.priority - _LOWEST_PRIORITY for pod in victims)
    return violations, highest, sums, len(victims), -started(victims[0].start_time)


def _differ(numbers: Numbers) -> BoolColumn:
    """Returns bool[numbers]: whether each differs from the one before it."""
    differ = np.ones(len(numbers), dtype=np.bool_)
    np.not_equal(numbers[1:], numbers[:-1], out=differ[1:])
    return differ


def _begins(place: Numbers) -> Numbers:
    """Returns intp[places]: the index of the first pod of each place; pods are sorted by place."""
    return np.flatnonzero(_differ(place))


def _sorted_within(groups: Numbers, values: Int64Column) -> tuple[Numbers, Numbers]:
    """Returns the order by group and then by value, and, in that order, a number for each distinct (group, value).

    `groups` ascend. One sort by a combined key of group and value is much faster than a sort by two keys.
    """
    lowest = values.min()
    both = groups * (values.max() - lowest + 1) + (values - lowest)
    order = np.argsort(both, kind="stable")
    return order, np.cumsum(_differ(both[order]))


def _steps(place: Numbers, protected: BoolColumn) -> list[Numbers]:
    """Returns which pods are added back in which step: at most one pod of a place per step, the protected ones first.

    Places are sorted by their number of pods, the most first. So the places of a step are a prefix of those of the
    step before, and arrays can be cut instead of indexed.
    """
    order = np.argsort(2 * place + ~protected, kind="stable")
    begins = _begins(place)
    lengths = np.diff(begins, append=len(place))
    longest = np.argsort(-lengths, kind="stable")
    ends = len(begins) - np.cumsum(np.bincount(lengths))[:-1]
    begins = begins[longest]
    return [order[begins[:end] + turn] for turn, end in enumerate(ends.tolist())]


def _ranks(pods: Sequence[Pod]) -> Numbers:
    """Returns intp[pods]: the rank of each pod by creation time."""
    ages = [(pod.created, pod.uid) for pod in pods]
    ranks = np.empty(len(pods), dtype=np.intp)
    ranks[sorted(range(len(pods)), key=ages.__getitem__)] = np.arange(len(pods))
    return ranks
