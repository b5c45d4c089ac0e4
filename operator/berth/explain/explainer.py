"""Explainer: answers questions about a pod from the state, the policies and, live, what the scheduler knows.

Every answer is a generator that yields between pieces of work and returns the answer: a live caller lets the loop run
meanwhile, another one uses `steps.finish`. What a piece reads belongs to one moment. The state may change between two
pieces, so each begins with a judgement of the state as it is then. Nothing is left changed in the state.
"""

from collections.abc import Sequence
from typing import Any, Final

from berth.engine.plugin import PluginFailed
from berth.engine.state.state import State
from berth.explain.advice import advise
from berth.explain.choices import compare_nodes, judged_choice, lifted
from berth.explain.judgement import Judgement
from berth.explain.near_misses import reasons_of
from berth.explain.ports import Knowledge, Policies, Waiting
from berth.explain.preemption import preemption_note
from berth.explain.prospects import prospect_of
from berth.explain.reasons import FAILED
from berth.explain.records import (
    Explanation,
    NodeComparison,
    NodeVerdict,
    PodState,
    PolicyReference,
    PreemptionCode,
    Reason,
)
from berth.explain.steps import Steps
from berth.explain.subjects import Subject
from berth.explain.verdicts import verdicts_on
from berth.model import Pod
from berth.policy.compile import ActivePolicy
from berth.policy.near_names import nearest_name

Facts = dict[str, Any]

NODES_AT_ONCE: Final = 100


class NoComparison(Exception):
    """The nodes cannot be compared for the pod; the message says why."""


class Explainer:
    def __init__(self, state: State, policies: Policies, knowledge: Knowledge | None = None) -> None:
        self._state = state
        self._policies = policies
        self._knowledge = knowledge

    def explain(
        self, subject: Subject, *, verdicts_of: Sequence[str] = (), every_node: bool = False, advice: bool = True
    ) -> Steps[Explanation]:
        """Explains a pod; with every plugin's verdict on these nodes, or on all, if wanted."""
        pod = subject.pod
        waiting = self._knowledge.waiting(pod) if self._knowledge is not None else None
        facts = _facts(pod, waiting)
        served = self._without_policy(subject)
        if served is not None:
            return Explanation(**{**facts, **served})
        active = self._active(pod)
        assert active is not None, "a pod without a policy was explained above"
        facts |= {"policy": _reference(active), "notes": _notes(active)}
        if subject.node:
            facts |= yield from self._placed(pod, subject.node, active, waiting)
        else:
            facts |= yield from self._pending(pod, active, waiting, advice)
        names = self._state.table.sorted_names if every_node else verdicts_of
        if names:
            facts["verdicts"] = yield from self._verdicts(pod, active, names)
        return Explanation(**facts)

    def compare(self, subject: Subject, first: str, second: str) -> Steps[NodeComparison]:
        """Compares two nodes for a pod, plugin by plugin; raises NoComparison."""
        pod = subject.pod
        active = self._active(pod)
        if active is None:
            raise NoComparison(f"no SchedulingPolicy decides for pod {pod.key}")
        for name in (first, second):
            if self._state.table.row(name) is None:
                raise NoComparison(f"node {name} is not known")
        yield
        with lifted(pod, self._state) as judged:
            judgement = Judgement(judged, active.pipeline, self._state)
            return compare_nodes(judgement, _reference(active), (first, second))

    # --- pods that nothing is judged for -----------------------------------------------------------------------------

    def _without_policy(self, subject: Subject) -> Facts | None:
        """Returns what there is to say of a pod that no policy of ours decides for; None if one does."""
        pod = subject.pod
        if not self._policies.serves(pod.scheduler_name):
            return self._of_another_scheduler(pod, subject.node)
        if subject.problem:
            return {"state": PodState.INVALID, "message": subject.problem}
        if self._active(pod) is None:
            why = self._policies.unserved(pod, self._state.namespace_labels(pod.namespace) or {})
            return {"state": PodState.NOT_SERVED, "message": f"{why}.", "node": subject.node}
        if pod.deleting and not subject.node:
            return {"state": PodState.TERMINATING, "message": "it is being deleted, and not tried any more."}
        if pod.gates and not subject.node:
            text = "it is not tried before its scheduling gates are removed."
            return {"state": PodState.GATED, "message": text, "waits_for": pod.gates}
        return None

    def _of_another_scheduler(self, pod: Pod, node: str) -> Facts:
        meant = nearest_name(pod.scheduler_name, self._policies.scheduler_names())
        if meant and not node:
            text = f"nobody here serves the scheduler name {pod.scheduler_name}. Did you mean {meant}?"
            return {"state": PodState.NOT_SERVED, "message": text, "did_you_mean": meant}
        where = f", and on {node}" if node else ""
        text = f"it belongs to another scheduler, {pod.scheduler_name}{where}. Berth decides nothing for it."
        return {"state": PodState.OTHER_SCHEDULER, "message": text, "node": node}

    # --- pending pods ------------------------------------------------------------------------------------------------

    def _pending(self, pod: Pod, active: ActivePolicy, waiting: Waiting | None, advice: bool) -> Steps[Facts]:
        judgement = self._judge(pod, active)
        facts = self._reasons(judgement, pod, waiting)
        if not isinstance(judgement, Judgement):
            return facts
        yield
        judgement = self._again(judgement)
        facts["prospect"] = prospect_of(judgement)
        if judgement.fits or judgement.diagnosis.error:
            return facts
        yield
        judgement = self._again(judgement)
        if judgement.fits:
            return facts
        note = yield from preemption_note(judgement, active.preemption, active.policy.name)
        facts["preemption"] = note
        if advice and note.code is not PreemptionCode.HELPS:
            yield
            facts["advice"] = yield from advise(pod, active, self._state)
        return facts

    def _reasons(self, judgement: Judgement | PluginFailed, pod: Pod, waiting: Waiting | None) -> Facts:
        if not isinstance(judgement, Judgement):
            reason = Reason(FAILED, judgement.plugin, judgement.problem, len(self._state.table))
            return {
                "state": _state_of(pod, waiting, fits=False),
                "message": str(judgement),
                "nodes": len(self._state.table),
                "reasons": (reason,),
            }
        facts: Facts = {"state": _state_of(pod, waiting, judgement.fits), "nodes": judgement.nodes}
        if judgement.fits:
            return facts | {"message": _fitting(judgement, waiting)}
        diagnosis = judgement.diagnosis
        events = sorted(diagnosis.retry_events)
        facts |= {"message": diagnosis.message, "scheduler_message": diagnosis.message}
        facts |= {"reasons": reasons_of(judgement)}
        if waiting is None or not waiting.retried_on:
            facts["retried_on"] = tuple(event.value for event in events)
        return facts

    # --- pods on a node ----------------------------------------------------------------------------------------------

    def _placed(self, pod: Pod, node: str, active: ActivePolicy, waiting: Waiting | None) -> Steps[Facts]:
        recorded = self._knowledge.choice(pod) if self._knowledge is not None else None
        facts = _on_node(node, waiting)
        if recorded is not None:
            return facts | {"choice": recorded, "nodes": len(self._state.table)}
        yield
        with lifted(pod, self._state) as judged:
            judgement = self._judge(judged, active)
            if isinstance(judgement, Judgement):
                return facts | {"choice": judged_choice(judgement, node), "nodes": judgement.nodes}
            return facts | {"notes": (*_notes(active), f"it could not be judged again: {judgement}")}

    # --- verdicts ----------------------------------------------------------------------------------------------------

    def _verdicts(self, pod: Pod, active: ActivePolicy, names: Sequence[str]) -> Steps[tuple[NodeVerdict, ...]]:
        found: list[NodeVerdict] = []
        for begin in range(0, len(names), NODES_AT_ONCE):
            yield
            with lifted(pod, self._state) as judged:
                judgement = self._judge(judged, active)
                if isinstance(judgement, Judgement):
                    found += verdicts_on(judgement, names[begin : begin + NODES_AT_ONCE])
        return tuple(found)

    # --- shared ------------------------------------------------------------------------------------------------------

    def _active(self, pod: Pod) -> ActivePolicy | None:
        return self._policies.for_pod(pod, self._state.namespace_labels(pod.namespace) or {})

    def _judge(self, pod: Pod, active: ActivePolicy) -> Judgement | PluginFailed:
        try:
            return Judgement(pod, active.pipeline, self._state)
        except PluginFailed as failure:
            return failure

    def _again(self, judgement: Judgement) -> Judgement:
        """Returns the judgement, made anew if the state has changed meanwhile."""
        return judgement if judgement.is_current else Judgement(judgement.pod, judgement.pipeline, self._state)


def _facts(pod: Pod, waiting: Waiting | None) -> Facts:
    facts: Facts = {
        "name": pod.name,
        "namespace": pod.namespace,
        "uid": pod.uid,
        "created": pod.created,
        "labels": pod.labels,
        "scheduler_name": pod.scheduler_name,
        "priority": pod.priority,
        "nominated_node": "" if pod.node_name else pod.nominated_node_name,
        "since": pod.created,
    }
    if waiting is not None:
        facts |= {
            "since": waiting.since or pod.created,
            "attempts": waiting.attempts,
            "place_in_queue": waiting.place,
            "next_try": waiting.next_try,
            "retried_on": waiting.retried_on,
            "waits_for": waiting.waits_for,
        }
    return facts


def _state_of(pod: Pod, waiting: Waiting | None, fits: bool) -> PodState:
    if pod.nominated_node_name and (waiting is None or waiting.state is PodState.UNSCHEDULABLE):
        return PodState.NOMINATED
    if waiting is not None:
        return waiting.state
    return PodState.PENDING if fits else PodState.UNSCHEDULABLE


def _fitting(judgement: Judgement, waiting: Waiting | None) -> str:
    text = f"{len(judgement.feasible):,}/{judgement.nodes:,} nodes are available"
    if waiting is not None and waiting.state is PodState.BACKOFF:
        return f"{text}; it is tried when its backoff is over."
    return f"{text}; it is tried in its turn."


_ON_NODE: Final = {
    PodState.WAITING_FOR_PERMIT: "{node} is chosen, and it waits for plugins to permit it.",
    PodState.WAITING_FOR_VOLUMES: "{node} is chosen, and it waits for its volumes to be bound.",
    PodState.BINDING: "{node} is chosen, and it is being bound.",
}


def _on_node(node: str, waiting: Waiting | None) -> Facts:
    state = waiting.state if waiting is not None else PodState.BOUND
    text = _ON_NODE.get(state, "it is on {node}.").format(node=node)
    return {"state": state, "message": text, "node": node}


def _reference(active: ActivePolicy) -> PolicyReference:
    return PolicyReference(active.policy.name, active.policy.generation)


def _notes(active: ActivePolicy) -> tuple[str, ...]:
    if not active.policy.extenders:
        return ()
    return (f"SchedulingPolicy {active.policy.name} has extenders, which were not asked: they may reject more nodes.",)
