"""What an Event looks like on the wire: events.k8s.io/v1, and core/v1 where a server has only that.

Both versions are views of one stored object, with different names for the same fields. A repeated event becomes a
series on the first one, as client-go's recorder makes it: a patch of `series` (new) or of `count` and `lastTimestamp`
(old). Who reports is the pod's schedulerName, as kube-scheduler reports under the name of the profile in charge.
"""

import re
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

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


@dataclass(slots=True)
class Record:
    """One event and how often it has happened."""

    pod: Pod
    event: PodEvent
    name: str
    first: datetime
    last: datetime
    count: int = 1
    written: int = field(default=0)
    queued: bool = field(default=False)
    attempts: int = field(default=0)
    written_seconds: float = field(default=0.0)


def cut_note(note: str) -> str:
    """The note within the API's limit, which counts bytes; half a surrogate pair in it becomes a question mark."""
    raw = note.encode(errors="replace")
    if len(raw) <= NOTE_LIMIT:
        return raw.decode()
    return raw[: NOTE_LIMIT - len(CUT)].decode(errors="ignore") + CUT


def event_name(pod_name: str, nanoseconds: int) -> str:
    """`<pod>.<hexadecimal time>`; the pod's name goes where it would make a name that is too long."""
    name = f"{pod_name}.{nanoseconds:x}"
    return name if len(name) <= NAME_LIMIT else f"{CONTROLLER}.{nanoseconds:x}"


def controller(pod: Pod, event: PodEvent) -> str:
    """Who reports: the scheduler by its name, of the pod that the event is due to, unless no event may carry it."""
    name = event.controller or (event.related or pod).scheduler_name
    return name if _QUALIFIED.fullmatch(name) else CONTROLLER


def events_body(record: Record, instance: str) -> dict[str, Any]:
    """The object for events.k8s.io/v1."""
    event = record.event
    body: dict[str, Any] = {
        "apiVersion": "events.k8s.io/v1",
        "kind": "Event",
        "metadata": {"name": record.name, "namespace": record.pod.namespace},
        "eventTime": _micro(record.first),
        "reportingController": controller(record.pod, event),
        "reportingInstance": instance,
        "type": event.type,
        "reason": event.reason,
        "action": event.action,
        "note": cut_note(event.note),
        "regarding": _reference(record.pod),
        **_related(event),
    }
    return body | events_patch(record) if record.count > 1 else body


def events_patch(record: Record) -> dict[str, Any]:
    """How often it has happened by now, for events.k8s.io/v1."""
    return {"series": {"count": record.count, "lastObservedTime": _micro(record.last)}}


def core_body(record: Record, instance: str) -> dict[str, Any]:
    """The object for core/v1."""
    event = record.event
    return {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"name": record.name, "namespace": record.pod.namespace},
        "involvedObject": _reference(record.pod),
        "reason": event.reason,
        "message": cut_note(event.note),
        "type": event.type,
        "action": event.action,
        "source": {"component": controller(record.pod, event)},
        "reportingComponent": controller(record.pod, event),
        "reportingInstance": instance,
        "firstTimestamp": _second(record.first),
        **_related(event),
        **core_patch(record),
    }


def core_patch(record: Record) -> dict[str, Any]:
    """How often it has happened by now, for core/v1."""
    return {"count": record.count, "lastTimestamp": _second(record.last)}


def _related(event: PodEvent) -> dict[str, Any]:
    return {} if event.related is None else {"related": _reference(event.related)}


def _reference(pod: Pod) -> dict[str, str]:
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "namespace": pod.namespace,
        "name": pod.name,
        "uid": pod.uid,
        "resourceVersion": pod.resource_version,
    }


def _micro(time: datetime) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def _second(time: datetime) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ")
