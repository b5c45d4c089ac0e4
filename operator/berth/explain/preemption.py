"""Why preemption helps a pod that fits nowhere, or does not."""

from berth.engine.preemption.preemption import NEVER, Preemption, ineligible
from berth.engine.preemption.victims import Nomination
from berth.explain.judgement import Judgement
from berth.explain.records import PreemptionCode, PreemptionNote
from berth.explain.steps import Steps
from berth.explain.victims import nominate, potential_nodes
from berth.policy.wording import count


def preemption_note(judgement: Judgement, preemption: Preemption | None, policy: str) -> Steps[PreemptionNote]:
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
    without = _nobody_to_evict(judgement)
    if without is not None:
        return without
    found = yield from nominate(judgement, preemption)
    if isinstance(found, Nomination):
        return _helps(found)
    if found is not None:
        return PreemptionNote(PreemptionCode.FAILED, found)
    text = f"without all pods of a priority below {pod.priority} it would still not fit on any node."
    return PreemptionNote(PreemptionCode.NOTHING_TO_GAIN, text)


def _nobody_to_evict(judgement: Judgement) -> PreemptionNote | None:
    pod, pods = judgement.pod, judgement.table.pods
    potential = judgement.rows[potential_nodes(judgement)]
    if not len(potential):
        text = "no node rejects the pod for a reason that an eviction changes."
        return PreemptionNote(PreemptionCode.NOTHING_TO_GAIN, text)
    slots = pods.slots_on(potential, judgement.table.capacity)
    if (pods.priority[slots] < pod.priority).any():
        return None
    text = f"on {count(len(potential), 'node')} an eviction might help, but no pod there has a priority below "
    return PreemptionNote(PreemptionCode.NO_LOWER_PRIORITY, f"{text}{pod.priority}.")


def _helps(found: Nomination) -> PreemptionNote:
    text = f"it would make room on {found.node} by evicting {count(len(found.victims), 'pod')}"
    if found.violations:
        text += f", of which disruption budgets protect {found.violations:,}"
    victims = tuple(victim.key for victim in found.victims)
    return PreemptionNote(PreemptionCode.HELPS, f"{text}.", found.node, victims, found.violations)
