"""The port's implementation on a running scheduler.

Every method runs in the scheduler's loop, in pieces of a few milliseconds, with pauses in which decisions are made
(`collecting.Slices`). What a piece reads belongs to one moment; the cluster may change between two pieces.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import islice
from typing import Final, TypeVar

from berth.explain.explainer import Explainer
from berth.explain.judgement import Judgement
from berth.explain.objects import to_object, verdict_object
from berth.explain.records import NodeVerdict
from berth.explain.steps import Steps
from berth.explain.subjects import find_subject
from berth.explain.verdicts import verdicts_on
from berth.explain_api.collecting import Collection, Slices
from berth.explain_api.knowledge import ReplicaKnowledge
from berth.explain_api.port import Body, Detail, Found, Wanted
from berth.explain_api.resources import API_VERSION
from berth.explain_api.sources import Sources, metadata, timestamp
from berth.explain_api.summaries import Summaries
from berth.explain_api.views import ClusterViews, NodeViews
from berth.scheduler.decision_memory import Decision
from berth.scheduler.queue.queue import Part, QueuedPod

MOST_LOOKED_AT: Final = 2000  # queued pods, the latest
MOST_JUDGED: Final = 10  # pods of different signatures that a node is judged for

Result = TypeVar("Result")


class LiveExplanations:
    """Implements `berth.explain_api.port.Explanations`."""

    def __init__(self, sources: Sources) -> None:
        self._of = sources
        knowledge = ReplicaKnowledge(sources)
        self._explainer = Explainer(sources.cache.state, sources.policies, knowledge)
        self._summaries = Summaries(sources, knowledge)
        self._node_views = NodeViews(sources)
        self._cluster_views = ClusterViews(sources)

    # --- explanations ------------------------------------------------------------------------------------------------

    async def explanation(self, namespace: str, name: str, detail: Detail) -> Body | None:
        subject = find_subject(self._of.cache, namespace, name)
        if subject is None:
            return None
        steps = self._explainer.explain(subject, verdicts_of=detail.nodes, every_node=detail.every_node)
        said = await self._run(steps)
        body = to_object(replace(said, verdicts=()))
        if said.verdicts:
            body["status"]["verdicts"] = await self._verdicts(said.verdicts)
        body["status"]["leads"] = self._of.leads()
        return body

    async def _verdicts(self, verdicts: Sequence[NodeVerdict]) -> list[Body]:
        """Returns their bodies, made a few at a time: there may be one for each node."""
        slices, bodies = self._slices(), []
        for verdict in verdicts:
            bodies.append(verdict_object(verdict))
            await slices.breathe()
        return bodies

    async def pending(self, wanted: Wanted) -> Found:
        collection = Collection(
            self._summaries.candidates(),
            key=lambda pod: (pod.namespace, pod.name),
            labels=lambda pod: pod.labels,
            body=self._summaries.body,
        )
        return await collection.page(wanted, self._slices())

    # --- views -------------------------------------------------------------------------------------------------------

    async def node_view(self, name: str) -> Body | None:
        body = self._node_views.body(name)
        if body is None:
            return None
        rejects = await self._rejects(name)
        return {**body, "status": {**body["status"], "rejects": rejects}} if rejects else body

    async def node_views(self, wanted: Wanted) -> Found:
        table = self._of.cache.state.table
        collection = Collection(
            table.names(),
            key=lambda name: ("", name),
            labels=lambda name: node.labels if (node := table.node(name)) is not None else {},
            body=self._node_views.body,
        )
        return await collection.page(wanted, self._slices())

    async def cluster_view(self) -> Body:
        return await self._cluster_views.body(self._slices())

    async def _rejects(self, name: str) -> list[dict[str, str]]:
        """Returns the pending pods that the node rejects: of each signature the one that was tried last."""
        slices, found = self._slices(), []
        for item in islice(_latest(self._of.queue.items()[-MOST_LOOKED_AT:]), MOST_JUDGED):
            await slices.breathe()
            verdict = self._judge(item, name)
            if verdict is not None and not verdict.fits:
                found.append(_rejection(item, verdict))
        return found

    def _judge(self, item: QueuedPod, node: str) -> NodeVerdict | None:
        active = self._of.policy_for(item.pod)
        if active is None:
            return None
        return next(iter(verdicts_on(Judgement(item.pod, active.pipeline, self._of.cache.state), [node])), None)

    # --- decisions ---------------------------------------------------------------------------------------------------

    async def decisions(self, wanted: Wanted) -> Found:
        collection = Collection(
            self._of.decisions,
            key=lambda decision: (decision.pod.namespace, decision.name),
            labels=lambda decision: decision.pod.labels,
            body=decision_body,
        )
        return await collection.page(wanted, self._slices())

    async def decision(self, namespace: str, name: str) -> Body | None:
        decision = self._of.decisions.find(name)
        return None if decision is None or decision.pod.namespace != namespace else decision_body(decision)

    # --- steps -------------------------------------------------------------------------------------------------------

    def _slices(self) -> Slices:
        return Slices(self._of.clock)

    async def _run(self, steps: Steps[Result]) -> Result:
        slices = self._slices()
        while True:
            try:
                next(steps)
            except StopIteration as done:
                result: Result = done.value
                return result
            await slices.breathe()


def _latest(items: list[QueuedPod]) -> Iterator[QueuedPod]:
    """Yields unschedulable pods, the latest tried first, one of each signature."""
    rejected = [item for item in items if item.part in (Part.UNSCHEDULABLE, Part.BACKOFF) and item.attempts]
    seen = set()
    for item in sorted(rejected, key=lambda item: -item.tried):
        if item.pod.signature not in seen:
            seen.add(item.pod.signature)
            yield item


def _rejection(item: QueuedPod, verdict: NodeVerdict) -> dict[str, str]:
    first = next(said for said in verdict.plugins if said.messages)
    return {
        "pod": item.pod.key,
        "plugin": first.plugin,
        "code": first.codes[0] if first.codes else "",
        "message": ", ".join(first.messages),
    }


def decision_body(decision: Decision) -> Body:
    """Returns the API body of a decision."""
    pod, margin = decision.pod, decision.margin
    decided = timestamp(decision.time)
    scores = (
        {}
        if margin is None
        else {
            "total": margin.total,
            "runnerUpNodeName": margin.runner_up,
            "runnerUpTotal": margin.runner_up_total,
        }
    )
    return {
        "apiVersion": API_VERSION,
        "kind": "Decision",
        "metadata": metadata(decision.name, pod.namespace, created=decided, labels=pod.labels),
        "status": {
            "podName": pod.name,
            "podUID": pod.uid,
            "nodeName": decision.node,
            "schedulerName": pod.scheduler_name,
            "policy": {"name": decision.policy, "generation": decision.generation},
            "time": decided,
            "nodesEvaluated": decision.evaluated,
            "nodesFeasible": decision.feasible,
            **scores,
            "waitedSeconds": round(decision.waited_seconds, 3),
            "attempts": decision.attempts,
        },
    }
