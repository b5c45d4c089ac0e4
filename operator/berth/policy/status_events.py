"""Which Kubernetes Events a new status of a policy is worth, beside the one that the API server has.

    Warning Refused      a generation was refused, or is refused for another reason than before
    Warning NeverValid   after a restart nothing of the policy is in force: its latest generation is invalid
    Warning Superseded   another policy decides for every pod that this one matches
    Normal  InForce      a generation takes over, or a change of its base changed what it means
    Normal  Shadow       the same, in mode Shadow
    Normal  Disabled     a generation with mode Disabled takes over

Two statuses are compared, so nothing has to be remembered: after a restart, or when another replica leads, the status
of the object shows what was already reported.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Literal

from berth.policy.status import Status

_TOLD = ("InForce", "Shadow", "Disabled", "Superseded", "NeverValid")  # reasons of Active; Refused says the others
_WARNINGS = ("Superseded", "NeverValid")

_Condition = Mapping[str, object]
_NOTHING: _Condition = {}


@dataclass(frozen=True, slots=True)
class PolicyEvent:
    """A Kubernetes Event about a policy, as `kubectl describe sp` shows it."""

    type: Literal["Normal", "Warning"]
    reason: str
    action: str
    note: str


@dataclass(frozen=True, slots=True)
class StatusChange:
    """A status that is to be written; `before` is the one that the API server has, whatever that is."""

    name: str
    uid: str
    before: object
    status: Status


def events_of(change: StatusChange) -> list[PolicyEvent]:
    """Returns the events that the change is worth, none if it is about counters only."""
    accepted, active = (_condition(change.status, kind) for kind in ("Accepted", "Active"))
    refused = accepted.get("status") == "False"
    if refused and not _same(accepted, _condition(change.before, "Accepted"), "observedGeneration", "message"):
        return [_refusal(change, accepted)]
    same = _same(active, _condition(change.before, "Active"), "reason", "message")
    if same and _hash(change.before) == _hash(change.status):
        return []
    reason = str(active.get("reason"))
    if reason not in _TOLD:
        return []
    note = str(active.get("message"))
    if same:
        note += "; what it has from its base has changed"
    return [PolicyEvent("Warning" if reason in _WARNINGS else "Normal", reason, "Activating", note)]


def _refusal(change: StatusChange, accepted: _Condition) -> PolicyEvent:
    in_force = change.status.get("activeGeneration")
    what = f"generation {in_force} stays in force" if in_force else "nothing of this policy is in force"
    note = f"generation {accepted.get('observedGeneration')} is refused, {what}: {accepted.get('message')}"
    return PolicyEvent("Warning", "Refused", "Validating", note)


def _same(condition: _Condition, before: _Condition, *keys: str) -> bool:
    return all(condition.get(key) == before.get(key) for key in ("status", *keys))


def _hash(status: object) -> object:
    return status.get("activeHash") if isinstance(status, Mapping) else None


def _condition(status: object, kind: str) -> _Condition:
    return next((condition for condition in _conditions(status) if condition.get("type") == kind), _NOTHING)


def _conditions(status: object) -> Iterator[_Condition]:
    listed = status.get("conditions") if isinstance(status, Mapping) else None
    return (one for one in (listed if isinstance(listed, list | tuple) else ()) if isinstance(one, Mapping))
