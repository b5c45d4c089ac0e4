"""What an Event looks like on the wire: events.k8s.io/v1, and core/v1 where a server has only that.

Both versions are views of one stored object, with different names for the same fields. A repeated event becomes a
series on the first one, as client-go's recorder makes it: a patch of `series` (new) or of `count` and `lastTimestamp`
(old). Who reports about a pod is its schedulerName, as kube-scheduler reports under the name of the profile in charge.
"""

import re
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from berth.cluster.fence import Fence
from berth.model import Pod
from berth.scheduler.ports import PodEvent

CONTROLLER = "berth"
NOTE_LIMIT = 1024
NAME_LIMIT = 253
CUT = " ..."
# What the API asks of a reporting controller: a name of 63 characters, with a domain before it or not.
_QUALIFIED = re.compile(
    r"([a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*/)?"
    r"(?=.{1,63}\Z)[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?"
)


@dataclass(frozen=True, slots=True)
class Reference:
    """The object that an event is about. Events about an object without a namespace are in namespace default."""

    api_version: str
    kind: str
    namespace: str
    name: str
    uid: str
    resource_version: str = ""

    @property
    def event_namespace(self) -> str:
        return self.namespace or "default"

    def body(self) -> dict[str, str]:
        named = {
            "apiVersion": self.api_version,
            "kind": self.kind,
            "namespace": self.namespace,
            "name": self.name,
            "uid": self.uid,
            "resourceVersion": self.resource_version,
        }
        return {field: value for field, value in named.items() if value}

    def __str__(self) -> str:
        return f"{self.kind} {self.namespace}/{self.name}" if self.namespace else f"{self.kind} {self.name}"


@dataclass(frozen=True, slots=True)
class Report:
    """What an event says, about which object, and who says it."""

    regarding: Reference
    type: str
    reason: str
    action: str
    note: str
    controller: str
    related: Reference | None = None


@dataclass(slots=True)
class Record:
    """One event and how often it has happened; with a fence, it is written by the replica that leads only."""

    report: Report
    name: str
    first: datetime
    last: datetime
    count: int = 1
    written: int = field(default=0)
    queued: bool = field(default=False)
    attempts: int = field(default=0)
    written_seconds: float = field(default=0.0)
    fence: Fence | None = field(default=None)


def cut_note(note: str) -> str:
    """The note within the API's limit, which counts bytes; half a surrogate pair in it becomes a question mark."""
    raw = note.encode(errors="replace")
    if len(raw) <= NOTE_LIMIT:
        return raw.decode()
    return raw[: NOTE_LIMIT - len(CUT)].decode(errors="ignore") + CUT


def event_name(object_name: str, nanoseconds: int) -> str:
    """`<object>.<hexadecimal time>`; the object's name goes where it would make a name that is too long."""
    name = f"{object_name}.{nanoseconds:x}"
    return name if len(name) <= NAME_LIMIT else f"{CONTROLLER}.{nanoseconds:x}"


def report_about(pod: Pod, event: PodEvent) -> Report:
    """The event about the pod, reported by its scheduler or by that of the pod that it is due to."""
    related = None if event.related is None else _reference(event.related)
    return Report(_reference(pod), event.type, event.reason, event.action, event.note, controller(pod, event), related)


def controller(pod: Pod, event: PodEvent) -> str:
    """Who reports: the scheduler by its name, of the pod that the event is due to, unless no event may carry it."""
    name = event.controller or (event.related or pod).scheduler_name
    return name if _QUALIFIED.fullmatch(name) else CONTROLLER


def events_body(record: Record, instance: str) -> dict[str, Any]:
    """The object for events.k8s.io/v1."""
    report = record.report
    body: dict[str, Any] = {
        "apiVersion": "events.k8s.io/v1",
        "kind": "Event",
        "metadata": {"name": record.name, "namespace": report.regarding.event_namespace},
        "eventTime": _micro(record.first),
        "reportingController": report.controller,
        "reportingInstance": instance,
        "type": report.type,
        "reason": report.reason,
        "action": report.action,
        "note": cut_note(report.note),
        "regarding": report.regarding.body(),
        **_related(report),
    }
    return body | events_patch(record) if record.count > 1 else body


def events_patch(record: Record) -> dict[str, Any]:
    """How often it has happened by now, for events.k8s.io/v1."""
    return {"series": {"count": record.count, "lastObservedTime": _micro(record.last)}}


def core_body(record: Record, instance: str) -> dict[str, Any]:
    """The object for core/v1."""
    report = record.report
    return {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"name": record.name, "namespace": report.regarding.event_namespace},
        "involvedObject": report.regarding.body(),
        "reason": report.reason,
        "message": cut_note(report.note),
        "type": report.type,
        "action": report.action,
        "source": {"component": report.controller},
        "reportingComponent": report.controller,
        "reportingInstance": instance,
        "firstTimestamp": _second(record.first),
        **_related(report),
        **core_patch(record),
    }


def core_patch(record: Record) -> dict[str, Any]:
    """How often it has happened by now, for core/v1."""
    return {"count": record.count, "lastTimestamp": _second(record.last)}


def _related(report: Report) -> dict[str, Any]:
    return {} if report.related is None else {"related": report.related.body()}


def _reference(pod: Pod) -> Reference:
    return Reference("v1", "Pod", pod.namespace, pod.name, pod.uid, pod.resource_version)


def _micro(time: datetime) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def _second(time: datetime) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ")
