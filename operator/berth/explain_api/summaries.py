"""Explanations in lists: what is known of a pending pod without judging it again.

The reason is that of the last attempt, as the pod's condition has it: a list of thousands of pods must not take
thousands of judgements. An explanation that is asked for by name is judged now, and says everything.
"""

import re
from collections.abc import Iterator
from functools import lru_cache
from typing import Final

from berth.explain.live import PARTS
from berth.explain.objects import to_object
from berth.explain.ports import Waiting
from berth.explain.reasons import FAILED, code_of_text
from berth.explain.records import Explanation, PodState, PolicyReference
from berth.explain_api.knowledge import ReplicaKnowledge
from berth.explain_api.port import Body
from berth.explain_api.sources import Sources
from berth.model import Pod
from berth.policy.near_names import nearest_name
from berth.scheduler.queue.queue import Part

_REASONS: Final = re.compile(r"\d+/\d+ nodes are available: (?P<reasons>.*?)\.?( preemption: .*)?", re.DOTALL)
_REASON: Final = re.compile(r"(\d+) (.+)")
_NOT_TRIED: Final = "it has not been tried yet."
_ERROR: Final = "SchedulerError"


class Summaries:
    """Makes the bodies of lists."""

    def __init__(self, sources: Sources, knowledge: ReplicaKnowledge) -> None:
        self._of = sources
        self._knowledge = knowledge

    def candidates(self) -> Iterator[Pod]:
        """Yields the pods of lists: pending ones that are ours or nearly are, and those that wait to be bound."""
        ours: dict[str, bool] = {}
        for pod in list(self._of.cache.pending.values()):
            name = pod.scheduler_name
            if name not in ours:
                ours[name] = self._of.policies.serves(name) or bool(self._meant(name))
            if ours[name]:
                yield pod
        for held in list(self._of.cache.assumed().values()):
            standing = self._of.scheduler.standing(held.pod.uid)
            if standing is not None and standing.stage is not None:
                yield held.pod

    def body(self, pod: Pod) -> Body | None:
        """Returns the body; None if the pod has got its node meanwhile, or is gone."""
        is_assumed = pod.uid in self._of.cache.assumed()
        now = self._of.cache.pending.get(pod.uid)
        if now is None and not is_assumed:
            return None
        return self._summary(pod if now is None else now)

    def _summary(self, pod: Pod) -> Body:
        waiting = self._waiting(pod)
        reason, message = reason_of(pod)
        active = self._of.policy_for(pod)
        meant = "" if self._of.policies.serves(pod.scheduler_name) else self._meant(pod.scheduler_name)
        state = _state_of(pod, waiting, served=active is not None, tried=bool(message))
        body = to_object(
            Explanation(
                name=pod.name,
                namespace=pod.namespace,
                uid=pod.uid,
                created=pod.created,
                labels=pod.labels,
                scheduler_name=pod.scheduler_name,
                priority=pod.priority,
                state=state,
                message=message or _NOT_TRIED,
                since=pod.created if waiting is None else waiting.since or pod.created,
                policy=None if active is None else PolicyReference(active.policy.name, active.policy.generation),
                attempts=None if waiting is None else waiting.attempts,
                next_try="" if waiting is None else waiting.next_try,
                nominated_node=pod.nominated_node_name,
                waits_for=pod.gates or (() if waiting is None else waiting.waits_for),
                did_you_mean=meant,
                scheduler_message=message,
            )
        )
        if reason and state in (PodState.UNSCHEDULABLE, PodState.BACKOFF, PodState.NOMINATED, PodState.PENDING):
            body["status"]["reason"] = reason
        body["status"]["leads"] = self._of.leads()
        return body

    def _waiting(self, pod: Pod) -> Waiting | None:
        """As the knowledge has it, without the place in the queue, for which others would have to be counted."""
        item = self._of.queue.item(pod.uid)
        if item is None or item.part is None or not self._of.leads():
            return self._knowledge.waiting(pod)
        due = {Part.BACKOFF: item.ready, Part.UNSCHEDULABLE: item.since + item.backoff.flush_seconds}.get(item.part)
        return Waiting(
            PARTS[item.part],
            since="" if item.queued is None else self._of.moment(item.queued),
            attempts=item.attempts,
            next_try="" if due is None else self._of.moment(due),
        )

    def _meant(self, scheduler_name: str) -> str:
        return nearest_name(scheduler_name, self._of.policies.scheduler_names()) or ""


def _state_of(pod: Pod, waiting: Waiting | None, *, served: bool, tried: bool) -> PodState:
    if not served:
        return PodState.NOT_SERVED
    if pod.gates:
        return PodState.GATED
    if pod.nominated_node_name and (waiting is None or waiting.state is PodState.UNSCHEDULABLE):
        return PodState.NOMINATED
    if waiting is not None:
        return waiting.state
    return PodState.UNSCHEDULABLE if tried else PodState.PENDING


def reason_of(pod: Pod) -> tuple[str, str]:
    """Returns the code of the reason that rejected most nodes in the last attempt, and the sentence that said so."""
    status, reason, message = pod.scheduled_condition or ("", "", "")
    if status != "False" or pod.gates:
        return "", ""
    return (FAILED if reason == _ERROR else dominant_code(message)), message


@lru_cache(maxsize=1024)
def dominant_code(message: str) -> str:
    """Returns the code of the reason for which a message counts most nodes; "" if it counts none."""
    match = _REASONS.fullmatch(message)
    if match is None:
        return ""
    counted = [found for part in match["reasons"].split(", ") if (found := _REASON.fullmatch(part)) is not None]
    if not counted:
        return code_of_text(match["reasons"]) if match["reasons"] else ""
    return code_of_text(max(counted, key=lambda found: int(found[1]))[2])
