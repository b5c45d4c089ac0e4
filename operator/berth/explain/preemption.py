"""Why preemption helps a pod that fits nowhere, or does not."""

from random import Random

import numpy as np

from berth.engine.preemption.preemption import (
    NEVER,
    NoNomination,
    Preemption,
    choose,
    first_codes,
    ineligible,
)
from berth.engine.preemption.victims import Nomination
from berth.engine.verdict import Code
from berth.explain.judgement import Judgement
from berth.explain.records import PreemptionCode, PreemptionNote
from berth.explain.text import count


def preemption_note(judgement: Judgement, preemption: Preemption | None, policy: str) -> PreemptionNote:
    """Returns whether preemption would make room for the pod, and why not."""
    survey, pod = judgement.survey, judgement.pod
    if preemption is None:
        text = f"SchedulingPolicy {policy} has preemption switched off."
        return PreemptionNote(PreemptionCode.DISABLED, text)
    if survey is None:
        return PreemptionNote(PreemptionCode.NOTHING_TO_GAIN, "there are no nodes.")
    refusal = ineligible(pod, survey, judgement.state)
    if refusal == NEVER:
        return PreemptionNote(PreemptionCode.NEVER, "the pod has preemptionPolicy Never.")
    if refusal is not None:
        text = f"pods that were preempted for it on {pod.nominated_node_name} are still terminating."
        return PreemptionNote(PreemptionCode.WAITING_FOR_VICTIMS, text, pod.nominated_node_name)
    found = nomination(judgement, preemption)
    return _helps(found) if isinstance(found, Nomination) else _why_not(judgement, found)


def nomination(judgement: Judgement, preemption: Preemption) -> Nomination | NoNomination:
    """Returns the node that preemption would choose for the pod, with the victims; or why there is none."""
    assert judgement.survey is not None
    random = Random(judgement.pod.uid)
    found = preemption.find(judgement.pipeline, judgement.query, judgement.survey, judgement.state, random)
    return found if isinstance(found, NoNomination) else choose(found, random)


def _helps(found: Nomination) -> PreemptionNote:
    text = f"it would make room on {found.node} by evicting {count(len(found.victims), 'pod')}"
    if found.violations:
        text += f", of which disruption budgets protect {found.violations:,}"
    victims = tuple(victim.key for victim in found.victims)
    return PreemptionNote(PreemptionCode.HELPS, f"{text}.", found.node, victims, found.violations)


def _why_not(judgement: Judgement, why: NoNomination) -> PreemptionNote:
    survey, pod, pods = judgement.survey, judgement.pod, judgement.table.pods
    assert survey is not None
    if why.error:
        return PreemptionNote(PreemptionCode.FAILED, why.message)
    none = np.zeros(0, dtype=np.intp)
    potential = none if survey.stopped_by is not None else judgement.rows[first_codes(survey) == Code.UNSCHEDULABLE]
    if not len(potential):
        text = "no node rejects the pod for a reason that an eviction changes."
        return PreemptionNote(PreemptionCode.NOTHING_TO_GAIN, text)
    slots = pods.slots_on(potential, judgement.table.capacity)
    if not (pods.priority[slots] < pod.priority).any():
        text = f"on {count(len(potential), 'node')} an eviction might help, but no pod there has a priority below "
        return PreemptionNote(PreemptionCode.NO_LOWER_PRIORITY, f"{text}{pod.priority}.")
    text = f"without all pods of a priority below {pod.priority} it would still not fit on any node."
    return PreemptionNote(PreemptionCode.NOTHING_TO_GAIN, text)
