"""The columns that `kubectl get` shows of each kind; those of priority 1 are for `-o wide`."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from berth.explain_api.durations import age, seconds_between, short
from berth.explain_api.port import Body
from berth.explain_api.resources import CLUSTER_VIEWS, DECISIONS, EXPLANATIONS, NODE_VIEWS

NONE: Final = "<none>"
MANY: Final = 3
Cell = Callable[[Body, datetime], Any]


@dataclass(frozen=True, slots=True)
class Column:
    name: str
    cell: Cell
    text: str
    type: str = "string"
    format: str = ""
    priority: int = 0

    def definition(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "type": self.type,
            "format": self.format,
            "description": self.text,
            "priority": self.priority,
        }


def _at(*path: str) -> Callable[[Body], Any]:
    def read(body: Body) -> Any:
        value: Any = body
        for part in path:
            value = value.get(part) if isinstance(value, Mapping) else None
        return value

    return read


def _text(*path: str) -> Cell:
    read = _at("status", *path)
    return lambda body, _: NONE if (value := read(body)) in (None, "") else str(value)


def _number(*path: str) -> Cell:
    read = _at("status", *path)
    return lambda body, _: read(body) or 0


def _age(*path: str) -> Cell:
    read = _at("status", *path)
    return lambda body, now: age(read(body), now)


def _policy(body: Body, _: datetime) -> str:
    policy = _at("status", "policy")(body) or {}
    return f"{policy['name']}@{policy['generation']}" if policy else NONE


def _few(names: Sequence[str]) -> str:
    more = f" and {len(names) - MANY} more" if len(names) > MANY else ""
    return ", ".join(names[:MANY]) + more


# --- explanations ----------------------------------------------------------------------------------------------------


def next_step(body: Body, now: datetime) -> str:
    """Returns what happens next to a pod, or has to be done, in a few words."""
    status = body["status"]
    state, waits_for = status.get("state"), status.get("waitsFor") or []
    if state == "Gated":
        return f"needs its gates removed: {_few(waits_for)}"
    if waits_for:
        return f"waits for {_few(waits_for)}"
    if state == "NotServed":
        meant = status.get("didYouMean")
        return f"no policy serves it, did you mean {meant}?" if meant else "no policy serves it"
    if status.get("nominatedNodeName"):
        return f"waits for room on {status['nominatedNodeName']}"
    return _next_try(state, status.get("nextTry"), now)


def _next_try(state: str | None, moment: object, now: datetime) -> str:
    seconds = seconds_between(moment, now)
    due = "" if seconds is None else short(-seconds)
    if state == "Unschedulable":
        return "tried when the cluster changes" + (f", or in {due}" if due else "")
    if state == "Backoff":
        return f"tried in {due}" if due else "tried after its backoff"
    return "tried in its turn" if state == "Pending" else NONE


def _reason(body: Body, now: datetime) -> str:
    status = body["status"]
    return str(status.get("reason") or status.get("state") or NONE)


# --- views -----------------------------------------------------------------------------------------------------------


def _share(resource: str) -> Cell:
    """Requested of allocatable, with the percentage."""

    def show(body: Body, _: datetime) -> str:
        for entry in body["status"].get("resources") or []:
            if entry["name"] == resource:
                return f"{entry['requested']}/{entry['allocatable']} ({entry['percent']}%)"
        return NONE

    return show


def _counts(*path: str, name: str, count: str) -> Cell:
    read = _at("status", *path)
    return lambda body, _: ", ".join(f"{entry[name]}: {entry[count]}" for entry in read(body) or []) or NONE


def _room(body: Body, _: datetime) -> str:
    status = body["status"]
    return "cordoned" if status.get("unschedulable") else _few(status.get("taints") or []) or NONE


def _feasible(body: Body, _: datetime) -> str:
    status = body["status"]
    return f"{status.get('nodesFeasible', 0)}/{status.get('nodesEvaluated', 0)}"


def _score(*path: str) -> Cell:
    read = _at("status", *path)
    return lambda body, _: NONE if read(body) is None else str(read(body))


def _waited(body: Body, _: datetime) -> str:
    return f"{body['status'].get('waitedSeconds', 0):.1f}s"


COLUMNS: Final[Mapping[str, tuple[Column, ...]]] = {
    EXPLANATIONS.plural: (
        Column("State", _text("state"), "What the pod is waiting for, if anything."),
        Column("Reason", _reason, "The reason that rejects most nodes."),
        Column("Since", _age("since"), "For how long it has been in this state."),
        Column("Attempts", _number("attempts"), "How often it was tried.", "integer"),
        Column("Next", next_step, "What happens next, or has to be done."),
        Column("Policy", _policy, "The SchedulingPolicy that decides for it, and its generation.", priority=1),
        Column("Node", _text("nodeName"), "Where it is.", priority=1),
        Column("Priority", _number("priority"), "Its priority.", "integer", priority=1),
        Column("Message", _text("message"), "The reason in a sentence.", priority=1),
    ),
    NODE_VIEWS.plural: (
        Column("Zone", _text("zone"), "The zone of the node."),
        Column("CPU", _share("cpu"), "Requested of allocatable cpu."),
        Column("Memory", _share("memory"), "Requested of allocatable memory."),
        Column("Pods", _share("pods"), "Pods of how many there may be."),
        Column("Closed", _room, "Whether it is cordoned, or its taints.", priority=1),
        Column("Policies", _counts("pods", name="policy", count="count"), "Pods by policy.", priority=1),
    ),
    CLUSTER_VIEWS.plural: (
        Column("Nodes", _number("nodes"), "How many nodes there are.", "integer"),
        Column("Pods", _number("pods"), "How many pods have a node.", "integer"),
        Column("Pending", _number("pending"), "How many pods wait for one.", "integer"),
        Column("CPU", _share("cpu"), "Requested of allocatable cpu."),
        Column("Memory", _share("memory"), "Requested of allocatable memory."),
        Column("Rate", _text("rates", "decisionsPerSecond"), "Placements a second, in the last minute."),
        Column("Leads", _text("leads"), "Whether the replica that answers leads."),
        Column("Queue", _counts("queue", name="state", count="pods"), "Pending pods by state.", priority=1),
        Column("Reasons", _counts("reasons", name="reason", count="pods"), "Pending pods by reason.", priority=1),
    ),
    DECISIONS.plural: (
        Column("Pod", _text("podName"), "The pod that was placed."),
        Column("Node", _text("nodeName"), "Where it was placed."),
        Column("Policy", _policy, "The SchedulingPolicy that decided, and its generation."),
        Column("Feasible", _feasible, "How many nodes fitted, of how many that were looked at."),
        Column("Waited", _waited, "From the first time that it was queued to the decision."),
        Column("Age", _age("time"), "How long ago that was."),
        Column("Total", _score("total"), "The score of the node.", priority=1),
        Column("Runner-up", _score("runnerUpTotal"), "The score of the next best node.", priority=1),
        Column("Attempts", _number("attempts"), "How often it was tried.", "integer", priority=1),
    ),
}
