"""The search for victims in pieces: as preemption searches, but the loop may run in between.

If the state changes meanwhile, what was found is no longer valid: the search begins again, and after a few times it is
done in one piece.
"""

from typing import Final

import numpy as np
from numpy.typing import NDArray

from berth.engine.preemption.preemption import Preemption, cheapest, first_codes
from berth.engine.preemption.victims import Candidates, Nomination, VictimSearch
from berth.engine.state.budgets import Budgets
from berth.engine.verdict import Code
from berth.explain.judgement import Judgement
from berth.explain.steps import Steps

NODES_AT_ONCE: Final = 512
TRIED_AT_ONCE: Final = 1  # of nodes whose pods are moved tentatively, one by one: that may take milliseconds
MOST_RESTARTS: Final = 3
ALL: Final = 2**31


def nominate(
    judgement: Judgement,
    preemption: Preemption,
    *,
    wanted: int | None = None,
    most_nodes: int = ALL,
    most_tried: int = ALL,
) -> Steps[Nomination | str | None]:
    """Returns the nomination with the lowest cost, an error, or None if no node can be made free.

    `wanted`: how many candidates are enough; by default as many as the policy says. Of more than `most_nodes` nodes,
    or `most_tried` if pods have to be moved, only the first ones are searched.
    """
    for restart in range(MOST_RESTARTS + 1):
        search = _Search(judgement, preemption, wanted, (most_nodes, most_tried))
        while not search.is_over:
            if restart < MOST_RESTARTS:
                yield
                if not judgement.is_current:
                    break
            search.go_on()
        else:
            return search.result()
        judgement = Judgement(judgement.pod, judgement.pipeline, judgement.state)
        if judgement.survey is None or judgement.fits:
            return None
    raise AssertionError("the last search is not interrupted")


def potential_nodes(judgement: Judgement) -> NDArray[np.intp]:
    """Returns the positions of the nodes that an eviction may help, sorted by name."""
    survey = judgement.survey
    if survey is None or survey.stopped_by is not None:
        return np.zeros(0, dtype=np.intp)
    found = np.flatnonzero(first_codes(survey) == Code.UNSCHEDULABLE)
    return found[np.argsort(judgement.by_name[found], kind="stable")]


class _Search:
    def __init__(self, judgement: Judgement, preemption: Preemption, wanted: int | None, most: tuple[int, int]) -> None:
        survey = judgement.survey
        assert survey is not None
        # The pods of a node may matter to more than its resources: then each node is tried by moving pods.
        asked = [opinion.plugin for opinion in survey.opinions if opinion.verdicts is not None]
        tries = any(plugin.dependencies.reads_pods and not plugin.dependencies.reads_only_usage for plugin in asked)
        self._portion = TRIED_AT_ONCE if tries else NODES_AT_ONCE
        self._potential = potential_nodes(judgement)[: most[tries]]
        by_policy = max(len(self._potential) * preemption.percentage // 100, preemption.absolute)
        self._wanted = by_policy if wanted is None else wanted
        budgets = Budgets(judgement.state)
        self._search = VictimSearch(judgement.pipeline, judgement.query, survey, judgement.state, budgets)
        self._begin = 0
        self._parts: list[Candidates] = []
        self._sound = self._found = 0

    @property
    def is_over(self) -> bool:
        """As in preemption: enough candidates, of which one violates no budget; or no more nodes."""
        enough = self._found >= self._wanted and self._sound > 0
        return enough or self._begin >= len(self._potential)

    def go_on(self) -> None:
        part = self._potential[self._begin : self._begin + self._portion]
        self._begin += self._portion
        for found in self._search.among(part, len(part)):
            self._parts.append(found)
            self._found += len(found)
            self._sound += len(found) - int(np.count_nonzero(found.costs[0]))

    def result(self) -> Nomination | str | None:
        found = Candidates.joined(self._parts)
        if len(found):
            return cheapest(found)[0]
        return ", ".join(self._search.errors) or None
