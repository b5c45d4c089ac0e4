"""Reports to users: Events and the PodScheduled condition, worded as in kube-scheduler.

The port returns at once and writes later. If it raises all the same, the report is lost and the error is logged; the
attempt goes on.
"""

from collections.abc import Callable, Sequence

from berth.model import Pod
from berth.scheduler.error_log import ErrorLog
from berth.scheduler.ports import Cluster, PodEvent

UNSCHEDULABLE = "Unschedulable"
SCHEDULER_ERROR = "SchedulerError"


class Reporter:
    """Reports the outcomes of attempts."""

    def __init__(self, cluster: Cluster, errors: ErrorLog) -> None:
        self._cluster = cluster
        self._errors = errors

    def scheduled(self, pod: Pod, node_name: str) -> None:
        """The pod is bound."""
        note = f"Successfully assigned {pod.namespace}/{pod.name} to {node_name}"
        self._send(pod, lambda: self._cluster.record_event(pod, PodEvent("Normal", "Scheduled", "Binding", note)))

    def rejected(self, pod: Pod, message: str, *, error: bool) -> None:
        """No node fits the pod, or an error prevented the decision."""
        self._warn(pod, "Scheduling", message)
        self._condition(pod, SCHEDULER_ERROR if error else UNSCHEDULABLE, message)

    def not_bound(self, pod: Pod, message: str, *, pod_moved_on: bool) -> None:
        """A node was found, but the bind failed; the condition of a pod that moved on is not ours to change."""
        self._warn(pod, "Scheduling", message)
        if not pod_moved_on:
            self._condition(pod, SCHEDULER_ERROR, message)

    def waits_on_permit(self, pod: Pod, node_name: str, plugins: Sequence[str]) -> None:
        """A node is chosen, and these plugins have to permit it."""
        self._note(pod, "WaitingOnPermit", f"Node {node_name} is chosen; waiting for a permit of {', '.join(plugins)}")

    def waits_for_volumes(self, pod: Pod, node_name: str, claims: Sequence[str]) -> None:
        """A node is chosen, and the volumes of these claims have to be bound."""
        self._note(pod, "WaitingForVolumes", f"Node {node_name} is chosen; waiting for volumes of {', '.join(claims)}")

    def unserved(self, pod: Pod, meant: str) -> None:
        """No policy serves the scheduler name of the pod, and one serves a name like it."""
        note = f"Berth does not serve the scheduler name {pod.scheduler_name}: did you mean {meant}?"
        event = PodEvent("Warning", "SchedulerNameNotServed", "Scheduling", note, controller=meant)
        self._send(pod, lambda: self._cluster.record_event(pod, event))

    def preempted(self, victim: Pod, preemptor: Pod, node_name: str, *, in_memory: bool) -> None:
        """The pod is preempted; `in_memory`: it was assumed only, so nothing had to be deleted."""
        note = f"Preempted by pod {preemptor.uid} on node {node_name}"
        if in_memory:
            note += " (in scheduler memory)."
        event = PodEvent("Normal", "Preempted", "Preempting", note, preemptor)
        self._send(victim, lambda: self._cluster.record_event(victim, event))

    def _note(self, pod: Pod, reason: str, note: str) -> None:
        self._send(pod, lambda: self._cluster.record_event(pod, PodEvent("Normal", reason, "Binding", note)))

    def _warn(self, pod: Pod, action: str, note: str) -> None:
        event = PodEvent("Warning", "FailedScheduling", action, note)
        self._send(pod, lambda: self._cluster.record_event(pod, event))

    def _condition(self, pod: Pod, reason: str, message: str) -> None:
        self._send(pod, lambda: self._cluster.report_condition(pod, reason, message))

    def _send(self, pod: Pod, send: Callable[[], None]) -> None:
        try:
            send()
        except Exception as error:
            self._errors.note("reporting on", pod, error)
