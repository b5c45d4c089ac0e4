"""The lowest priority with which preemption would make room for the pod."""

from dataclasses import replace
from typing import Final

from berth.engine.pipeline import Pipeline
from berth.engine.plugin import PluginFailed
from berth.engine.preemption.preemption import Preemption
from berth.engine.preemption.victims import Nomination
from berth.engine.state.state import State
from berth.explain.judgement import Judgement
from berth.explain.records import Advice, FieldChange
from berth.explain.steps import Steps
from berth.explain.victims import nominate
from berth.model import Pod
from berth.policy.wording import count

SEARCHED: Final = 256  # nodes on which victims are looked for
TRIED: Final = 32  # the same if pods have to be moved for it
HIGHEST: Final = 1_000_000_000  # of a priority class that users may create


def raised(pod: Pod, pipeline: Pipeline, preemption: Preemption | None, state: State) -> Steps[Advice | None]:
    """Returns the advice to allow preemption or to raise the priority; None if neither helps."""
    if preemption is None:
        return None
    willing = replace(pod, preemption_policy="PreemptLowerPriority", nominated_node_name="")
    if pod.preemption_policy == "Never":
        found = yield from _nominated(willing, pipeline, preemption, state)
        if found is not None:
            field = FieldChange("spec.preemptionPolicy", "Never", "PreemptLowerPriority")
            return _advice("AllowPreemption", pod, "Remove preemptionPolicy Never", (field,), found)
        yield
    levels = sorted(p + 1 for p in state.table.pods.priorities if pod.priority <= p < HIGHEST)
    best: tuple[int, Nomination] | None = None
    low, high = 0, len(levels) - 1
    while low <= high:  # the higher the priority, the more pods may go: what helps once helps from there on
        middle = high if best is None else (low + high) // 2
        found = yield from _nominated(replace(willing, priority=levels[middle]), pipeline, preemption, state)
        yield
        if found is not None:
            best, high = (levels[middle], found), middle - 1
        elif best is None:
            return None
        else:
            low = middle + 1
    if best is None:
        return None
    return _raising(pod, *best)


def _raising(pod: Pod, priority: int, found: Nomination) -> Advice:
    fields = [FieldChange("spec.priority", str(pod.priority), str(priority))]
    text = f"Raise its priority from {pod.priority} to {priority} (with a PriorityClass)"
    if pod.preemption_policy == "Never":
        fields.append(FieldChange("spec.preemptionPolicy", "Never", "PreemptLowerPriority"))
        text += " and remove preemptionPolicy Never"
    return _advice("RaisePriority", pod, text, tuple(fields), found)


def _nominated(pod: Pod, pipeline: Pipeline, preemption: Preemption, state: State) -> Steps[Nomination | None]:
    """Returns a node that preemption could make free for the pod. Only some nodes are searched."""
    try:
        judgement = Judgement(pod, pipeline, state)
        if judgement.survey is None or judgement.survey.failed is not None or judgement.fits:
            return None
        found = yield from nominate(judgement, preemption, wanted=1, most_nodes=SEARCHED, most_tried=TRIED)
        return found if isinstance(found, Nomination) and _fits_without(found, pod, pipeline, state) else None
    except PluginFailed:
        return None


def _fits_without(found: Nomination, pod: Pod, pipeline: Pipeline, state: State) -> bool:
    """Whether the pod fits on the node once the victims are gone.

    As kube-scheduler, preemption may think so wrongly: it counts some claims and disks otherwise while it tries.
    """
    table = state.table
    for victim in found.victims:
        table.remove_pod(victim.uid)
    try:
        judgement = Judgement(pod, pipeline, state)
        return judgement.fits and bool((judgement.feasible == table.row(found.node)).any())
    finally:
        for victim in found.victims:
            table.add_pod(victim, found.node)


def _advice(code: str, pod: Pod, text: str, fields: tuple[FieldChange, ...], found: Nomination) -> Advice:
    victims = tuple(victim.key for victim in found.victims)
    sentence = f"{text}: preemption would evict {count(len(victims), 'pod')} on {found.node}."
    return Advice(code, "Pod", pod.name, sentence, fields, found.node, 1, victims)
