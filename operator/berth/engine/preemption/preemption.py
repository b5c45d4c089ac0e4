"""DefaultPreemption: chooses a node on which the pod would fit without some pods of lower priority, its victims.

    eligible?  ->  nodes that preemption may help  ->  victims on them  ->  lowest cost  ->  nomination

Nodes are searched in the order of their names, starting at a random one, until there are enough candidates. How many
that is follows from `minCandidateNodesPercentage` and `minCandidateNodesAbsolute`. The search goes on as long as every
candidate violates a disruption budget. The candidate with the lowest cost wins (see Candidate), a random one among
equals.

Nothing is evicted here, and the state does not change: the result is a function of (state, pod, random stream). The
messages are those of kube-scheduler; the caller appends them to the diagnosis after a space.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from random import Random
from typing import Any

import numpy as np
from numpy.typing import NDArray

from berth.engine.diagnosis import Survey
from berth.engine.pipeline import Pipeline
from berth.engine.plugin import BadArgument, Query, refuse_unknown
from berth.engine.preemption.victims import Candidate, Candidates, Nomination, VictimSearch
from berth.engine.state.budgets import Budgets
from berth.engine.state.node_table import NodeTable
from berth.engine.state.state import State
from berth.engine.verdict import Code, row_numbers
from berth.model import Pod

NEVER = "not eligible due to preemptionPolicy=Never."
VICTIMS_LEAVE = "not eligible due to a terminating pod on the nominated node."
NOT_HELPFUL = "Preemption is not helpful for scheduling"
_SMALLEST_PORTION = 64


@dataclass(frozen=True, slots=True)
class NoNomination:
    """Why nothing is preempted. `withdraws`: no node can be made free, so a nomination of the pod has to be cleared."""

    message: str
    withdraws: bool = False
    error: bool = False


class _CandidateQuota:
    """The candidates found so far. Enough are `wanted` candidates, of which at least one violates no budget."""

    def __init__(self, wanted: int) -> None:
        self._wanted = wanted
        self._parts: list[Candidates] = []
        self._sound = self._violating = 0

    @property
    def missing(self) -> int:
        return max(self._wanted - self._sound - self._violating, 0)

    def take(self, part: Candidates) -> bool:
        """Adds candidates; returns whether there are enough. At most `wanted` count that violate a budget."""
        violating = int(np.count_nonzero(part.costs[0]))
        self._parts.append(part)
        self._sound += len(part) - violating
        self._violating = min(self._violating + violating, self._wanted)
        return self._sound > 0 and not self.missing

    def candidates(self) -> Candidates:
        """Returns the candidates up to the one that completed the search, those that violate no budget first."""
        found = Candidates.joined(self._parts)
        violates = found.costs[0] > 0
        sound, violating = np.cumsum(~violates), np.minimum(np.cumsum(violates), self._wanted)
        enough = np.flatnonzero((sound > 0) & (sound + violating >= self._wanted))
        violates = violates[: enough[0] + 1] if len(enough) else violates
        return found.of(np.concatenate((np.flatnonzero(~violates), np.flatnonzero(violates)[: self._wanted])))


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
        """Returns the node to nominate and its victims, for a pod whose survey has no feasible node; or why none."""
        found = self.find(pipeline, query, survey, state, random)
        return found if isinstance(found, NoNomination) else choose(found, random)

    def find(
        self, pipeline: Pipeline, query: Query, survey: Survey, state: State, random: Random
    ) -> Sequence[Candidate] | NoNomination:
        """Returns at least one candidate node, and at most as many as the search wants; or why there is none."""
        refusal = ineligible(query.pod, survey, state)
        if refusal is not None:
            return NoNomination(f"preemption: {refusal}")
        potential = _potential(survey, state)
        if not len(potential):
            return _hopeless(state, 0, Counter())
        offset = random.randrange(len(potential))
        turned = np.concatenate((potential[offset:], potential[:offset]))
        victims = VictimSearch(pipeline, query, survey, state, self._budgets_of(state))
        found = _found(victims, turned, self._wanted(len(potential)))
        if not found and victims.errors:
            return NoNomination(f"preemption: {_joined(victims.errors)}", error=True)
        return found or _hopeless(state, len(potential), victims.reasons())

    def candidates(self, pipeline: Pipeline, query: Query, survey: Survey, state: State) -> Sequence[Candidate]:
        """Returns all candidate nodes, without a limit; none if the pod is not eligible."""
        if ineligible(query.pod, survey, state) is not None:
            return []
        potential = _potential(survey, state)
        return _found(VictimSearch(pipeline, query, survey, state, self._budgets_of(state)), potential, len(potential))

    def _wanted(self, potential: int) -> int:
        return min(max(potential * self.percentage // 100, self.absolute), potential)

    def cached_pods(self, state: State) -> int:
        """Returns the number of pods whose budgets the next search finds cached."""
        return self._budgets_of(state).statistics()["pods"]

    def _budgets_of(self, state: State) -> Budgets:
        if self._budgets is None or not self._budgets.are_of(state):
            self._budgets = Budgets(state)
        self._budgets.forget_gone()
        return self._budgets


def ineligible(pod: Pod, survey: Survey, state: State) -> str | None:
    """Returns why the pod may not preempt: its policy is Never, or its earlier victims are still terminating."""
    if pod.preemption_policy == "Never":
        return NEVER
    if not pod.nominated_node_name or _code_of(pod.nominated_node_name, survey, state) is Code.UNRESOLVABLE:
        return None
    others = state.table.pods_on(pod.nominated_node_name).values()
    leaving = any(other.deleting and other.preempted and other.priority < pod.priority for other in others)
    return VICTIMS_LEAVE if leaving else None


def choose(candidates: Sequence[Candidate], random: Random) -> Nomination:
    """Returns one of the candidates with the lowest cost, at random."""
    best = cheapest(candidates)
    return best[random.randrange(len(best)) if len(best) > 1 else 0]


def cheapest(candidates: Sequence[Candidate]) -> list[Nomination]:
    """Returns the candidates with the lowest cost, sorted by node name."""
    best = candidates.cheapest() if isinstance(candidates, Candidates) else _cheapest(candidates)
    return sorted((candidate.nominate() for candidate in best), key=lambda nomination: nomination.node)


def _cheapest(candidates: Sequence[Candidate]) -> list[Candidate]:
    least = min(candidate.cost for candidate in candidates)
    return [candidate for candidate in candidates if candidate.cost == least]


def _found(search: VictimSearch, potential: NDArray[np.intp], wanted: int) -> Candidates:
    """Searches the nodes in this order until there are enough candidates, a portion at a time.

    A portion is a bit larger than the number of missing candidates, because some of its nodes will not do.
    """
    quota, begin = _CandidateQuota(wanted), 0
    while begin < len(potential):
        end = begin + quota.missing + quota.missing // 8 + _SMALLEST_PORTION
        for part in search.among(potential[begin:end], quota.missing):
            if quota.take(part):
                return quota.candidates()
        begin = end
    return quota.candidates()


def _potential(survey: Survey, state: State) -> NDArray[np.intp]:
    """Returns the survey positions of the nodes that preemption may help (code Unschedulable), sorted by node name."""
    if survey.stopped_by is not None:
        return np.zeros(0, dtype=np.intp)
    asked = _by_name(survey, state.table)
    potential: NDArray[np.intp] = asked[(first_codes(survey) == Code.UNSCHEDULABLE)[asked]]
    return potential


def _by_name(survey: Survey, table: NodeTable) -> NDArray[np.intp]:
    """Returns the survey positions sorted by node name."""
    if survey.rows is table.rows:
        return table.name_order[0]
    position = np.full(table.capacity, -1, dtype=np.intp)
    position[row_numbers(survey.rows)] = np.arange(len(survey.fits))
    by_name = position[table.rows_by_name]
    return by_name[by_name >= 0]


def first_codes(survey: Survey) -> NDArray[np.int8]:
    """Returns int8[rows asked]: the code of the first plugin that rejected each node."""
    codes = np.zeros(len(survey.fits), dtype=np.int8)
    for opinion in survey.opinions:
        if opinion.verdicts is not None and not opinion.verdicts.all_fit:
            np.copyto(codes, opinion.verdicts.codes, where=codes == Code.FITS)
    return codes


def _code_of(node_name: str, survey: Survey, state: State) -> Code:
    """Returns the code with which the node was rejected; unresolvable if it was not evaluated."""
    if survey.stopped_by is not None:
        return survey.stopped_by.pre_filter.code
    found = np.flatnonzero(row_numbers(survey.rows) == state.table.row(node_name))
    return Code(int(first_codes(survey)[found[0]])) if len(found) else Code.UNRESOLVABLE


def _hopeless(state: State, searched: int, reasons: Counter[str]) -> NoNomination:
    """Returns the message of a diagnosis. Nodes that were not searched count as not helped by preemption."""
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
