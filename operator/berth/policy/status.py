"""What a policy's status says: two conditions, the generation seen and the generation in force.

    Accepted   True  Valid            the latest generation is a policy
               False Invalid          it is not; the message has every problem with its field
    Active     True  InForce          the latest generation decides
               True  LastGoodInForce  the latest was refused; the last good one goes on deciding
               False Superseded       another policy with the same schedulerName comes first by name
               False NeverValid       no generation that could decide has been seen

Times follow metav1.Condition: lastTransitionTime moves only when a condition's status does, whatever becomes of its
reason and message. Pure functions: who wins a scheduler name is decided in `book`.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from berth.policy.records import Policy, Problem

MESSAGE_MAX_LENGTH = 32768  # metav1.Condition

_NEVER_VALID = "nothing of this policy is in force: no valid generation has been seen since Berth started"

Status = dict[str, object]


@dataclass(frozen=True, slots=True)
class Standing:
    """Where one policy stands at this moment."""

    generation: int  # the latest seen
    problems: tuple[Problem, ...]  # of the latest
    last_good: Policy | None
    claimants: tuple[str, ...]  # every policy that claims last_good's scheduler name, by name: the first decides

    @property
    def in_force(self) -> bool:
        return self.last_good is not None and self.claimants[:1] == (self.last_good.name,)


def describe(standing: Standing, previous: object, now: datetime) -> Status:
    """The status of a policy, taking over times from the previous status where a condition has not turned."""
    conditions = [
        _condition("Accepted", *_accepted(standing), standing.generation),
        _condition("Active", *_active(standing), standing.generation),
    ]
    for condition in conditions:
        condition["lastTransitionTime"] = _since(condition, previous) or format_time(now)
    in_force = standing.last_good.generation if standing.in_force and standing.last_good else 0
    return {"observedGeneration": standing.generation, "activeGeneration": in_force, "conditions": conditions}


def format_time(moment: datetime) -> str:
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _accepted(standing: Standing) -> tuple[bool, str, str]:
    if standing.problems:
        return False, "Invalid", _list_problems(standing.problems)
    return True, "Valid", f"generation {standing.generation} is valid"


def _active(standing: Standing) -> tuple[bool, str, str]:
    good = standing.last_good
    if good is None:
        return False, "NeverValid", _NEVER_VALID
    if not standing.in_force:
        winner = standing.claimants[0]
        message = f"policy {winner} claims schedulerName {good.scheduler_name} too and comes first by name"
        return False, "Superseded", message
    rivals = _mention_rivals(standing.claimants[1:])
    if standing.problems:
        message = f"generation {good.generation} stays in force for schedulerName {good.scheduler_name}: generation"
        return True, "LastGoodInForce", f"{message} {standing.generation} was refused (see Accepted){rivals}"
    return True, "InForce", f"generation {good.generation} decides for schedulerName {good.scheduler_name}{rivals}"


def _mention_rivals(names: Sequence[str]) -> str:
    if not names:
        return ""
    return f"; also claimed, without effect, by {', '.join(names)}: the first by name decides"


def _list_problems(problems: Sequence[Problem]) -> str:
    """Every problem, unless they do not fit into a condition: then as many as do, and the number of the others."""
    message = "; ".join(map(str, problems))
    if len(message) <= MESSAGE_MAX_LENGTH:
        return message
    kept, room = [], MESSAGE_MAX_LENGTH - 40
    for text in map(str, problems):
        room -= len(text) + 2
        if room < 0:
            break
        kept.append(text)
    return "; ".join([*kept, f"and {len(problems) - len(kept)} more problems"])


def _condition(kind: str, holds: bool, reason: str, message: str, generation: int) -> dict[str, object]:
    return {
        "type": kind,
        "status": "True" if holds else "False",
        "observedGeneration": generation,
        "reason": reason,
        "message": message[:MESSAGE_MAX_LENGTH],
    }


def _since(condition: Mapping[str, object], previous: object) -> str | None:
    """When the condition took its status, if the previous status knows."""
    before = previous.get("conditions") if isinstance(previous, Mapping) else None
    for old in before if isinstance(before, list | tuple) else ():
        if not isinstance(old, Mapping) or old.get("type") != condition["type"]:
            continue
        since = old.get("lastTransitionTime")
        if old.get("status") == condition["status"] and isinstance(since, str) and since:
            return since
    return None
