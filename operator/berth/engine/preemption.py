"""Preemption: a node that would take the pod if pods of lower priority went, and which of them have to go.

    eligible?  ->  nodes that removing pods may help  ->  victims on them  ->  the cheapest  ->  nomination

The nodes are looked at in the order of their names from a random one on, until enough would do: a share of them, and
at least so many (`minCandidateNodesPercentage`, `minCandidateNodesAbsolute`); it goes on as long as every one found
violates a disruption budget. Among those found the choice falls on the lowest cost (see Candidate), at random among
equals.

Nothing is evicted here and nothing changes: a decision about victims is a function of (state, pod, random stream), as
one about nodes is. What it finds or does not find is said in kube-scheduler's words, ready to be appended to the
diagnosis with a space in between.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from random import Random
from typing import Any

import numpy as np
from numpy.typing import NDArray

from berth.engine.budgets import Budgets
from berth.engine.pipeline import Pipeline, Survey
from berth.engine.plugin import BadArgument, Query, refuse_unknown
from berth.engine.state import State
from berth.engine.verdict import Code, row_numbers
from berth.engine.victims import Candidate, Nomination, VictimSearch
from berth.model import Pod

NEVER = "not eligible due to preemptionPolicy=Never."
VICTIMS_LEAVE = "not eligible due to a terminating pod on the nominated node."
NOT_HELPFUL = "Preemption is not helpful for scheduling"
_SMALLEST_PORTION = 64


@dataclass(frozen=True, slots=True)
class NoNomination:
    """Why nothing is preempted. `withdraws`: a nomination that the pod has is void, for no node can be made free."""

    message: str
    withdraws: bool = False
    error: bool = False


@dataclass(frozen=True, slots=True)
class _Search:
    """What was found, those that violate no disruption budget first; and what became of the other nodes."""

    found: list[Candidate]
    victims: VictimSearch


class Preemption:
    def __init__(self, args: Mapping[str, Any] | None = None) -> None:
        """Reads the arguments of DefaultPreemption, or raises BadArgument."""
        args = args or {}
        refuse_unknown(args, "minCandidateNodesPercentage", "minCandidateNodesAbsolute")
        self.percentage = _whole(args, "minCandidateNodesPercentage", 10, 100)
        self.absolute = _whole(args, "minCandidateNodesAbsolute", 100, 2**31 - 1)
        if not self.percentage and not self.absolute:
            raise BadArgument("minCandidateNodesPercentage", "cannot be zero together with minCandidateNodesAbsolute")
        self._budgets: Budgets | None = None

    def preempt(
        self, pipeline: Pipeline, query: Query, survey: Survey, state: State, random: Random
    ) -> Nomination | NoNomination:
        """For a pod whose survey has no feasible node."""
        found = self.find(pipeline, query, survey, state, random)
        return found if isinstance(found, NoNomination) else choose(found, random)

    def find(
        self, pipeline: Pipeline, query: Query, survey: Survey, state: State, random: Random
    ) -> list[Candidate] | NoNomination:
        """The nodes that victims would make room on, as many as are looked for; at least one."""
        refusal = ineligible(query.pod, survey, state)
        if refusal is not None:
            return NoNomination(f"preemption: {refusal}")
        potential = _potential(survey, state)
        if not len(potential):
            return _hopeless(state, 0, Counter())
        offset = random.randrange(len(potential))
        search = self._search(pipeline, query, survey, state, np.roll(potential, -offset), self._wanted(len(potential)))
        if not search.found and search.victims.errors:
            return NoNomination(f"preemption: {_joined(search.victims.errors)}", error=True)
        if not search.found:
            return _hopeless(state, len(potential), search.victims.reasons())
        return search.found

    def candidates(self, pipeline: Pipeline, query: Query, survey: Survey, state: State) -> list[Candidate]:
        """Every node that victims would make room on, however many there are; none where the pod is not eligible."""
        if ineligible(query.pod, survey, state) is not None:
            return []
        potential = _potential(survey, state)
        return self._search(pipeline, query, survey, state, potential, len(potential)).found

    def _wanted(self, potential: int) -> int:
        return min(max(potential * self.percentage // 100, self.absolute), potential)

    def _search(
        self, pipeline: Pipeline, query: Query, survey: Survey, state: State, potential: NDArray[np.intp], wanted: int
    ) -> _Search:
        search = VictimSearch(pipeline, query, survey, state, self._budgets_of(state))
        sound: list[Candidate] = []
        violating: list[Candidate] = []
        begin = 0
        while begin < len(potential):
            missing = max(wanted - len(sound) - len(violating), 0)
            end = begin + missing + missing // 8 + _SMALLEST_PORTION
            for candidate in search.among(potential[begin:end]):
                if not candidate.violations:
                    sound.append(candidate)
                elif len(violating) < wanted:
                    violating.append(candidate)
                if sound and len(sound) + len(violating) >= wanted:
                    return _Search(sound + violating, search)
            begin = end
        return _Search(sound + violating, search)

    def _budgets_of(self, state: State) -> Budgets:
        if self._budgets is None or not self._budgets.are_of(state):
            self._budgets = Budgets(state)
        self._budgets.forget_gone()
        return self._budgets


def ineligible(pod: Pod, survey: Survey, state: State) -> str | None:
    """Why the pod may not preempt: it must never, or pods that it pushed out are still leaving."""
    if pod.preemption_policy == "Never":
        return NEVER
    if not pod.nominated_node_name or _code_of(pod.nominated_node_name, survey, state) is Code.UNRESOLVABLE:
        return None
    others = state.table.pods_on(pod.nominated_node_name).values()
    leaving = any(other.deleting and other.preempted and other.priority < pod.priority for other in others)
    return VICTIMS_LEAVE if leaving else None


def choose(candidates: Sequence[Candidate], random: Random) -> Nomination:
    """One of the cheapest."""
    best = cheapest(candidates)
    return best[random.randrange(len(best)) if len(best) > 1 else 0]


def cheapest(candidates: Sequence[Candidate]) -> list[Nomination]:
    """Those among which the choice is free, in the order of their names."""
    least = min(candidate.cost for candidate in candidates)
    best = [candidate.nominate() for candidate in candidates if candidate.cost == least]
    return sorted(best, key=lambda nomination: nomination.node)


def _potential(survey: Survey, state: State) -> NDArray[np.intp]:
    """The positions in the survey of the nodes that removing pods may help, in the order of the nodes' names."""
    if survey.stopped_by is not None:
        return np.zeros(0, dtype=np.intp)
    position = np.full(state.table.capacity, -1, dtype=np.intp)
    position[row_numbers(survey.rows)] = np.arange(len(survey.fits))
    by_name = position[state.table.rows_by_name]
    asked = by_name[by_name >= 0]
    potential: NDArray[np.intp] = asked[first_codes(survey)[asked] == Code.UNSCHEDULABLE]
    return potential


def first_codes(survey: Survey) -> NDArray[np.int8]:
    """int8[rows asked]: the code with which the first plugin to refuse the node did so."""
    codes = np.zeros(len(survey.fits), dtype=np.int8)
    for opinion in survey.opinions:
        if opinion.verdicts is not None:
            np.copyto(codes, opinion.verdicts.codes, where=codes == Code.FITS)
    for position, opinion in survey.crowded.items():
        if opinion.verdicts is not None:
            codes[position] = opinion.verdicts.codes[0]
    return codes


def _code_of(node_name: str, survey: Survey, state: State) -> Code:
    """How the node was refused; one that was not looked at is beyond help."""
    if survey.stopped_by is not None:
        return survey.stopped_by.pre_filter.code
    found = np.flatnonzero(row_numbers(survey.rows) == state.table.row(node_name))
    return Code(int(first_codes(survey)[found[0]])) if len(found) else Code.UNRESOLVABLE


def _hopeless(state: State, searched: int, reasons: Counter[str]) -> NoNomination:
    """In the words of a diagnosis; nodes that were not searched were beyond help."""
    nodes = len(state.table)
    if searched < nodes:
        reasons[NOT_HELPFUL] += nodes - searched
    said = ", ".join(sorted(f"{count} {reason}" for reason, count in reasons.items()))
    return NoNomination(f"preemption: 0/{nodes} nodes are available: {said}.", withdraws=True)


def _joined(errors: list[str]) -> str:
    return errors[0] if len(errors) == 1 else f"[{', '.join(errors)}]"


def _whole(args: Mapping[str, Any], field: str, default: int, highest: int) -> int:
    value = args.get(field)
    if value is None:
        return default
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value <= highest:
        raise BadArgument(field, f"must be a whole number from 0 to {highest}")
    return value
