"""The search for victims: on which nodes the pod would fit if pods of lower priority went, and which of them must go.

On a node all pods of lower priority go first. Where the pod fits then, they come back one by one, those that a
disruption budget protects first, each group by importance (priority, then the time that they have run); who comes back
and leaves no room for the pod is a victim.

The pods of a node change what NodeResourcesFit says, and what other filters say that read pods. On most nodes none of
the latter minds them: it watches other nodes' pods (`Plugin.watched`), or is content with this node as it is and hangs
on nothing else. These nodes are searched all at once, on columns; the table's `free` of their rows is lent, changed
step by step and put back. Of the others, columns rule out those whose resources would not do even so, and the rest is
tried one by one, by moving the pods in the table and asking the pipeline. Either way the table is as it was afterwards.

Nominated pods of equal or higher priority count as present; for resources alone that is all there is to them, because
a pod that fits beside them fits without them.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial

import numpy as np
from numpy.typing import NDArray

from berth.engine.budgets import Budgets
from berth.engine.guests import Promised
from berth.engine.pipeline import Opinion, Pipeline, Survey, moved, reads_resources
from berth.engine.plugin import Query
from berth.engine.pods import started
from berth.engine.state import State
from berth.engine.verdict import BoolColumn, Code, Verdicts, row_numbers
from berth.model import Pod

NO_VICTIMS = "No preemption victims found for incoming pod"
_LOWEST_PRIORITY = -(2**31)  # taken off each priority, so that one victim more always adds to the sum

Cost = tuple[int, int, int, int, int]
Numbers = NDArray[np.intp]


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


@dataclass(frozen=True, slots=True)
class _Lower:
    """Pods of lower priority: their slots and, for each, the index of its row among the rows searched, ascending."""

    slots: Numbers
    place: Numbers

    def on(self, wanted: BoolColumn) -> "_Lower":
        """Those on the wanted ones of the rows searched."""
        chosen = wanted[self.place]
        return _Lower(self.slots[chosen], self.place[chosen])


class VictimSearch:
    """One pod that fits nowhere. `errors` are nodes on which the plugins contradict themselves."""

    def __init__(self, pipeline: Pipeline, query: Query, survey: Survey, state: State, budgets: Budgets) -> None:
        self._pipeline, self._query, self._survey, self._state = pipeline, query, survey, state
        self._budgets = budgets
        self._table, self._pods = state.table, state.table.pods
        self._rows = row_numbers(survey.rows)
        self._asked = [opinion for opinion in survey.opinions if opinion.verdicts is not None]
        self._changing = [opinion for opinion in self._asked if opinion.plugin.reads_pods]
        self._fit = [opinion.plugin for opinion in self._asked if reads_resources(opinion)]
        found = state.guests.promised(query.pod)
        self._contested = np.zeros(0, dtype=np.intp) if found is None else found.rows
        self._promised = None if found is None else self._spread_out(found)
        self._minded = [self._minded_by(opinion) for opinion in self._asked]
        self._refused: list[tuple[Verdicts, BoolColumn]] = []
        self._doubtful: list[int] = []
        self._reasons: Counter[str] = Counter()
        self.errors: list[str] = []

    def among(self, positions: Numbers) -> Iterator[Candidate]:
        """The nodes at these positions of the survey that victims would make room on, in that order."""
        rows = self._rows[positions]
        lower = self._lower_on(rows)
        left = np.zeros(len(rows), dtype=np.bool_)
        left[lower.place] = True
        self._reasons[NO_VICTIMS] += int(len(left) - np.count_nonzero(left))
        left &= self._may_fit(positions, rows, lower, left)
        minded = np.zeros(len(rows), dtype=np.bool_)
        for column in self._minded:
            if column is not None:
                minded |= column[rows]
        found = self._all_at_once(rows, lower.on(left & ~minded))
        return self._in_order(rows, found, lower.on(left & minded))

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
        index = np.zeros(self._table.capacity, dtype=np.intp)
        index[rows] = np.arange(len(rows))
        place = index[self._pods.row[slots]]
        order = np.argsort(place, kind="stable")
        return _Lower(slots[order], place[order])

    def _by_importance(self, lower: _Lower) -> _Lower:
        """The same, each row's pods in the order of their importance; of equals, the one that was made first."""
        slots, place = lower.slots, lower.place
        keys = np.stack([self._pods.started[slots], -self._pods.priority[slots], place])
        order = np.lexsort(keys)
        equal = (keys[:, order[1:]] == keys[:, order[:-1]]).all(axis=0)
        if equal.any():
            tied = order[np.append(equal, False) | np.append(False, equal)]
            made = np.zeros(len(slots), dtype=np.int64)
            made[tied] = _ranks([self._pods.record(slot) for slot in slots[tied].tolist()])
            order = np.lexsort((made, *keys))
        return _Lower(slots[order], place[order])

    def _spread_out(self, promised: Promised) -> NDArray[np.int64]:
        """int64[resources, rows]: what the nominated pods take that the pod has to yield to."""
        amounts = np.zeros_like(self._table.used)
        amounts[:, promised.rows] = promised.amounts
        return amounts

    def _minded_by(self, opinion: Opinion) -> BoolColumn | None:
        """bool[all rows]: where pods change what the filter says, other than by the resources that they use."""
        if not opinion.plugin.reads_pods or reads_resources(opinion):
            return None
        minded = np.ones(self._table.capacity, dtype=np.bool_)
        if opinion.plugin.node_local and opinion.verdicts is not None:
            minded[self._rows] = opinion.verdicts.codes != Code.FITS
        watched = opinion.plugin.watched(self._query, self._state)
        if watched is not None:
            minded &= watched
        minded[self._contested] = True
        return minded

    @contextmanager
    def _emptied(self, rows: Numbers, lower: _Lower) -> Iterator[None]:
        """The table's `free` of these rows is lent: without the lower pods, and with the promised room taken."""
        lent = self._table.free[:, rows]
        try:
            if len(lower.slots):
                begins = np.flatnonzero(np.diff(lower.place, prepend=-1))
                freed = np.add.reduceat(self._pods.usage[:, lower.slots], begins, axis=1)
                self._table.free[:, rows[lower.place[begins]]] += freed
            if self._promised is not None:
                self._table.free[:, rows] -= self._promised[:, rows]
            yield
        finally:
            self._table.free[:, rows] = lent

    def _may_fit(self, positions: Numbers, rows: Numbers, lower: _Lower, asked: BoolColumn) -> BoolColumn:
        """Where resources, and all that pods do not change, leave room once all pods of lower priority are gone.

        Why they do not is doubtful where a filter that minds the pods might have refused the node before.
        """
        left, unsure = asked.copy(), np.zeros(len(rows), dtype=np.bool_)
        for opinion, minded in zip(self._asked, self._minded, strict=True):
            assert opinion.verdicts is not None
            seen = _taken(opinion.verdicts, positions)
            if reads_resources(opinion):
                with self._emptied(rows, lower):
                    seen = opinion.plugin.filter(self._query, self._state, rows)
            refused = left & (seen.codes != Code.FITS)
            if minded is not None:
                refused &= ~minded[rows]
            left &= ~refused
            self._refused.append((seen, refused & ~unsure))
            self._doubtful += rows[refused & unsure].tolist()
            if minded is not None:
                unsure |= minded[rows]
        return left

    def _all_at_once(self, rows: Numbers, lower: _Lower) -> dict[int, Candidate]:
        """Where only resources count: one step a pod, all rows side by side. By the index of the row."""
        if not len(lower.slots):
            return {}
        lower = self._by_importance(lower)
        protected = np.zeros(len(lower.slots), dtype=np.bool_)
        if self._budgets:
            records = [self._pods.record(slot) for slot in lower.slots.tolist()]
            protected = self._budgets.protected(records, lower.place)
        victim = np.zeros(len(lower.slots), dtype=np.bool_)
        with self._emptied(rows, lower):
            for turn in _turns(lower.place, protected):
                on, usage = rows[lower.place[turn]], self._pods.usage[:, lower.slots[turn]]
                self._table.free[:, on] -= usage
                short = self._short(on)
                self._table.free[:, on[short]] += usage[:, short]
                victim[turn[short]] = True
        return self._candidates(rows, _Lower(lower.slots[victim], lower.place[victim]), protected[victim])

    def _short(self, rows: Numbers) -> BoolColumn:
        short = np.zeros(len(rows), dtype=np.bool_)
        for plugin in self._fit:
            short |= plugin.filter(self._query, self._state, rows).codes != Code.FITS
        return short

    def _candidates(self, rows: Numbers, victims: _Lower, protected: BoolColumn) -> dict[int, Candidate]:
        if not len(victims.slots):
            return {}
        begins = np.flatnonzero(np.diff(victims.place, prepend=-1))
        ends = np.append(begins[1:], len(victims.slots))
        priority = self._pods.priority[victims.slots]
        costs = (
            np.add.reduceat(protected.astype(np.int64), begins),
            priority[begins],
            np.add.reduceat(priority - _LOWEST_PRIORITY, begins),
            ends - begins,
            -self._pods.started[victims.slots[begins]],
        )
        spans = zip(
            victims.place[begins].tolist(),
            begins.tolist(),
            ends.tolist(),
            zip(*(column.tolist() for column in costs), strict=True),
            strict=True,
        )
        return {
            place: Candidate(cost, partial(self._nomination, int(rows[place]), victims.slots[begin:end], cost[0]))
            for place, begin, end, cost in spans
        }

    def _nomination(self, row: int, slots: Numbers, violations: int) -> Nomination:
        victims = tuple(self._pods.record(slot) for slot in slots.tolist())
        return Nomination(self._table.name(row), victims, violations)

    # --- one node at a time ------------------------------------------------------------------------------------------

    def _in_order(self, rows: Numbers, found: dict[int, Candidate], lower: _Lower) -> Iterator[Candidate]:
        """Those found already, and those that are found by trying the rows that the lower pods are on."""
        if not len(lower.slots):
            yield from found.values()
            return
        lower = self._by_importance(lower)
        begins = np.flatnonzero(np.diff(lower.place, prepend=-1))
        groups = zip(lower.place[begins].tolist(), np.split(lower.slots, begins[1:]), strict=True)
        untried = {place: [self._pods.record(slot) for slot in slots.tolist()] for place, slots in groups}
        for place in sorted([*found, *untried]):
            candidate = found[place] if place in found else self._on(int(rows[place]), untried[place])
            if candidate is not None:
                yield candidate

    def _on(self, row: int, pods: Sequence[Pod]) -> Candidate | None:
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
        return Candidate(cost_of(victims, violations), partial(Nomination, name, tuple(victims), violations))

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


def _taken(verdicts: Verdicts, positions: Numbers) -> Verdicts:
    return Verdicts(verdicts.codes[positions], verdicts.causes[positions], verdicts.describe)


def _turns(place: Numbers, protected: BoolColumn) -> Iterator[Numbers]:
    """Who comes back when: each turn holds at most one pod of a place, the protected ones first."""
    order = np.lexsort((~protected, place))
    begins = np.flatnonzero(np.diff(place[order], prepend=-1))
    lengths = np.diff(begins, append=len(place))
    turn = np.arange(len(place)) - np.repeat(begins, lengths)
    by_turn = order[np.argsort(turn, kind="stable")]
    yield from np.split(by_turn, np.cumsum(np.bincount(turn))[:-1])


def _ranks(pods: Sequence[Pod]) -> Numbers:
    """intp[pods]: the place of each pod in the order in which they were made."""
    ages = [(pod.created, pod.uid) for pod in pods]
    ranks = np.empty(len(pods), dtype=np.intp)
    ranks[sorted(range(len(pods)), key=ages.__getitem__)] = np.arange(len(pods))
    return ranks
