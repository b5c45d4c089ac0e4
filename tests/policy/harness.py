"""What tests of the policy store share: a clock to advance, pods to ask for, and statuses in brief."""

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

from berth.model import Pod, parse_pod
from berth.policy import PolicyStore
from berth.policy.compile import ActivePolicy
from support.builders import make_pod

START = datetime(2026, 1, 1, 12, 0, 0, 250_000, tzinfo=UTC)
BAD: dict[str, Any] = {"tieBreak": "Coin"}


class Clock:
    def __init__(self) -> None:
        self.moment = START

    def __call__(self) -> datetime:
        return self.moment

    def advance(self, seconds: int) -> None:
        self.moment += timedelta(seconds=seconds)


def a_pod(scheduler: str = "berth", **labels: str) -> Pod:
    return parse_pod(make_pod("pod", scheduler=scheduler, labels=labels))


def chosen(store: PolicyStore, pod: Pod, **namespace_labels: str) -> ActivePolicy:
    active = store.for_pod(pod, namespace_labels)
    assert active is not None
    return active


def in_force(store: PolicyStore, scheduler_name: str = "berth") -> str:
    """ "name/generation" of what decides for a pod without labels, or "nobody"."""
    return who(store, a_pod(scheduler_name))


def who(store: PolicyStore, pod: Pod, **namespace_labels: str) -> str:
    active = store.for_pod(pod, namespace_labels)
    return f"{active.policy.name}/{active.policy.generation}" if active else "nobody"


def condition(status: Mapping[str, Any], kind: str) -> dict[str, Any]:
    found: dict[str, Any] = next(entry for entry in status["conditions"] if entry["type"] == kind)
    return found


def summary(status: Mapping[str, Any]) -> str:
    """ "Accepted reason, Active status reason, generation in force"."""
    accepted, active = condition(status, "Accepted"), condition(status, "Active")
    return f"{accepted['reason']} {active['status']} {active['reason']} {status['activeGeneration']}"


def says(status: Mapping[str, Any], kind: str) -> str:
    """ "status reason" of one condition."""
    found = condition(status, kind)
    return f"{found['status']} {found['reason']}"


def labels(**wanted: str) -> dict[str, Any]:
    """A selector by labels."""
    return {"matchLabels": wanted}


def matching(*expressions: tuple[Any, ...]) -> dict[str, Any]:
    """A selector by (key, operator, value...)."""
    return {
        "matchExpressions": [
            {"key": key, "operator": operator, **({"values": list(values)} if values else {})}
            for key, operator, *values in expressions
        ]
    }
