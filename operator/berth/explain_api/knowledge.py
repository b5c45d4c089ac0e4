"""What a replica knows of a pod beside the state: where it stands, and the recorded decision.

A standby counts no attempts and decides nothing, so it does not know where a pod stands. What it explains is explained
as if there were no scheduler: from the state and the policies.
"""

from berth.explain.live import LiveKnowledge
from berth.explain.ports import Waiting
from berth.explain.records import Choice, Evidence, ScoredNode
from berth.explain_api.sources import Sources
from berth.model import Pod
from berth.scheduler.decision_memory import Decision


class ReplicaKnowledge:
    """Implements `berth.explain.ports.Knowledge`."""

    def __init__(self, sources: Sources) -> None:
        self._of = sources
        self._live = LiveKnowledge(sources.scheduler, sources.clock.wall, self._recorded)

    def waiting(self, pod: Pod) -> Waiting | None:
        return self._live.waiting(pod) if self._of.leads() else None

    def choice(self, pod: Pod) -> Choice | None:
        return self._live.choice(pod)

    def _recorded(self, uid: str) -> Choice | None:
        decision = self._of.decisions.of_pod(uid)
        placed = self._of.cache.state.table.placed(uid)
        if decision is None or placed is None or placed[1] != decision.node:
            return None
        margin = decision.margin
        return Choice(
            decision.node,
            Evidence.RECORDED,
            _words(decision),
            None if margin is None else ScoredNode(decision.node, margin.total),
            () if margin is None else (ScoredNode(margin.runner_up, margin.runner_up_total),),
            decision.evaluated,
            decision.feasible,
        )


def _words(decision: Decision) -> str:
    margin, by = decision.margin, f"SchedulingPolicy {decision.policy}, generation {decision.generation}"
    if margin is None:
        return f"Recorded when {by} decided: {decision.node} was the only node that fitted, or nominated for it."
    had = f"Recorded when {by} decided: {decision.node} had {margin.total} points"
    if margin.total == margin.runner_up_total:
        return f"{had}, as many as {margin.runner_up}; {decision.feasible} nodes fitted, and the tie-break chose."
    return (
        f"{had}, the most of {decision.feasible} nodes that fitted; "
        f"{margin.runner_up} followed with {margin.runner_up_total}."
    )
