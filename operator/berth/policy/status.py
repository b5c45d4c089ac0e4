"""What a policy's status says: conditions, the generation seen, the one in force, and what it was used for.

    Ready      True  InForce, Shadow, Disabled
                                       the latest generation is valid and does what its mode says
               False Invalid           it was refused
               False Superseded        it is valid, and another policy decides instead
    Accepted   True  Valid             the latest generation is a policy
               False Invalid           it is not; the message has every problem with its field
    Active     True  InForce           the latest generation decides
               True  LastGoodInForce   the latest was refused; the last good one goes on deciding
               False Superseded        another policy comes first for every pod that this one matches
               False Shadow            mode Shadow: it judges beside the policy that decides, and reports
               False Disabled          mode Disabled
               False NeverValid        no generation that could decide has been seen
    Contested  True  SameRank          others of the same rank may match the same pods: the first by name decides
               False Alone             no others do
               False NoClaim           the policy decides for no pods
    Degraded   True  ExtenderFailing, PluginFailing, ExpressionFailing, Failing (several of them)
                                       something failed in the last five minutes
               False Healthy           nothing did

Times follow metav1.Condition: lastTransitionTime moves only when a condition's status does, whatever becomes of its
reason and message. activeSince moves when another generation, or another meaning of it, comes into force. Pure
functions: `selection` and `conflicts` find which policy decides.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from berth.policy.counting import describe_counts, format_time
from berth.policy.fields.status_fields import MESSAGE_MAX_LENGTH
from berth.policy.records import Mode, Policy, Problem
from berth.policy.usage import NO_COUNTS, Counts, RecordedFailure
from berth.policy.wording import count, list_names

DEGRADED_SECONDS = 300

_NEVER_VALID = "nothing of this policy is in force: no valid generation has been seen since Berth started"
_KINDS = {"extender": "ExtenderFailing", "plugin": "PluginFailing"}  # by the first word of a source

Status = dict[str, object]
_Verdict = tuple[bool, str, str]


@dataclass(frozen=True, slots=True)
class PolicyState:
    """All that the status of one policy is made from."""

    generation: int  # the latest seen
    problems: tuple[Problem, ...]  # of the latest
    last_good: Policy | None
    fingerprint: str = ""  # of last_good
    rivals: tuple[str, ...] = ()  # of the same rank, by name
    superseder: str | None = None  # the policy that decides wherever this one could
    counts: Counts = NO_COUNTS

    @property
    def claims(self) -> bool:
        return self.last_good is not None and self.last_good.mode is Mode.ACTIVE

    @property
    def shadows(self) -> bool:
        return self.last_good is not None and self.last_good.mode is Mode.SHADOW

    @property
    def in_force(self) -> Policy | None:
        """The policy that decides, or evaluates pods in Shadow mode; None if it does neither."""
        return self.last_good if self.shadows or (self.claims and self.superseder is None) else None


def describe(state: PolicyState, now: datetime, *previous: object) -> Status:
    """Returns the status of a policy, with the times of the first previous one that says the same.

    A field without a value is None: a merge patch removes it.
    """
    conditions = [
        _condition(kind, verdict, state.generation)
        for kind, verdict in (
            ("Ready", _ready(state)),
            ("Accepted", _accepted(state)),
            ("Active", _active(state)),
            ("Contested", _contested(state)),
            ("Degraded", _degraded(state.counts.failures, now)),
        )
    ]
    for condition in conditions:
        condition["lastTransitionTime"] = _turned(condition, previous) or format_time(now)
    return {
        "observedGeneration": state.generation,
        **_in_force(state, now, previous),
        **describe_counts(state.counts, is_shadow=state.shadows),
        "conditions": conditions,
    }


@dataclass(frozen=True, slots=True)
class PolicyStanding:
    """Where a policy stands, in short. `problem`: why its latest generation is refused or what fails; "" for nothing.

    `state` is the reason of condition Active. `active_generation` is 0 if nothing of the policy is in force.
    """

    name: str
    uid: str
    generation: int
    active_generation: int
    scheduler_name: str
    mode: Mode
    state: str
    problem: str = ""


def find_problem(state: PolicyState, now: datetime) -> str:
    """Returns the message of the first condition that is as it should not be; "" if there is none."""
    accepted, degraded = _accepted(state), _degraded(state.counts.failures, now)
    if not accepted[0]:
        return accepted[2]
    return degraded[2] if degraded[0] else ""


def active_reason(state: PolicyState) -> str:
    """Returns the reason of condition Active."""
    return _active(state)[1]


def _in_force(state: PolicyState, now: datetime, previous: Sequence[object]) -> Status:
    policy = state.in_force
    if policy is None:
        return {"activeGeneration": 0, "activeHash": None, "activeSince": None}
    what: Status = {"activeGeneration": policy.generation, "activeHash": state.fingerprint}
    for status in _mappings(previous):
        since = status.get("activeSince")
        if isinstance(since, str) and all(status.get(key) == value for key, value in what.items()):
            return {**what, "activeSince": since}
    return {**what, "activeSince": format_time(now)}


# --- the conditions


def _ready(state: PolicyState) -> _Verdict:
    """Returns the one answer that `kubectl wait` needs: whether the latest generation has the effect it asks for."""
    if state.problems:
        return _accepted(state)
    _, reason, message = _active(state)
    return reason != "Superseded", reason, message


def _accepted(state: PolicyState) -> _Verdict:
    if state.problems:
        return False, "Invalid", _list_problems(state.problems)
    return True, "Valid", f"generation {state.generation} is valid"


def _active(state: PolicyState) -> _Verdict:
    good = state.last_good
    if good is None:
        return False, "NeverValid", _NEVER_VALID
    if good.mode is Mode.DISABLED:
        return False, "Disabled", f"generation {good.generation} says mode: Disabled"
    if good.mode is Mode.SHADOW:
        what = f"generation {good.generation} judges pods of schedulerName {good.scheduler_name} and binds nothing"
        return False, "Shadow", f"mode: Shadow: {what}"
    if state.superseder is not None:
        why = f"policy {state.superseder} matches every pod that this one matches, and comes first"
        return False, "Superseded", f"{why} (more selectors, then more requirements, then by name)"
    if state.problems:
        message = f"generation {good.generation} stays in force for schedulerName {good.scheduler_name}: generation"
        return True, "LastGoodInForce", f"{message} {state.generation} was refused (see Accepted)"
    return True, "InForce", f"generation {good.generation} decides for schedulerName {good.scheduler_name}"


def _contested(state: PolicyState) -> _Verdict:
    good = state.last_good
    if good is None or not state.claims:
        return False, "NoClaim", "the policy decides for no pods"
    if not state.rivals:
        return False, "Alone", "no other policy of the same rank may match the same pods"
    before = [name for name in state.rivals if name < good.name]
    after = [name for name in state.rivals if name > good.name]
    wins = [f"{list_names(before)} before this policy"] if before else []
    wins += [f"this policy before {list_names(after)}"] if after else []
    why = f"{list_names(state.rivals)} may match the same pods with as many selectors and requirements"
    return True, "SameRank", f"{why}; where they do, the first by name decides: {', '.join(wins)}"


def _degraded(failures: Sequence[RecordedFailure], now: datetime) -> _Verdict:
    recent = [failure for failure in failures if now - failure.last < timedelta(seconds=DEGRADED_SECONDS)]
    if not recent:
        return False, "Healthy", "nothing has failed in the last five minutes"
    reasons = {_KINDS.get(failure.source.partition(" ")[0], "ExpressionFailing") for failure in recent}
    told = [f"{failure.source} failed {_times(failure.count)}, lastly: {failure.message}" for failure in recent]
    return True, reasons.pop() if len(reasons) == 1 else "Failing", "; ".join(told)


def _times(count: int) -> str:
    return "once" if count == 1 else f"{count} times"


def _list_problems(problems: Sequence[Problem]) -> str:
    """Returns every problem; if they do not fit into a condition, the first ones and the number of the others."""
    message = "; ".join(map(str, problems))
    if len(message) <= MESSAGE_MAX_LENGTH:
        return message
    kept, room = [], MESSAGE_MAX_LENGTH - 40
    for text in map(str, problems):
        room -= len(text) + 2
        if room < 0:
            break
        kept.append(text)
    return "; ".join([*kept, f"and {count(len(problems) - len(kept), 'more problem')}"])


def _condition(kind: str, verdict: _Verdict, generation: int) -> dict[str, object]:
    holds, reason, message = verdict
    return {
        "type": kind,
        "status": "True" if holds else "False",
        "observedGeneration": generation,
        "reason": reason,
        "message": message[:MESSAGE_MAX_LENGTH],
    }


def _turned(condition: Mapping[str, object], previous: Sequence[object]) -> str | None:
    """Returns when the condition got its status, or None if no previous status has it."""
    for status in _mappings(previous):
        for old in _conditions(status):
            since = old.get("lastTransitionTime")
            same = all(old.get(key) == condition[key] for key in ("type", "status"))
            if same and isinstance(since, str) and since:
                return since
    return None


def _conditions(status: Mapping[str, object]) -> Iterator[Mapping[str, object]]:
    listed = status.get("conditions")
    return _mappings(listed if isinstance(listed, list | tuple) else ())


def _mappings(values: Sequence[object]) -> Iterator[Mapping[str, object]]:
    return (value for value in values if isinstance(value, Mapping))
