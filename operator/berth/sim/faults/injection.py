"""The rules at work: each with a random stream of its own, so that adding a rule changes nothing for the others."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from random import Random
from typing import Any, TypeVar

from berth.sim.faults.rules import (
    ACTIONS,
    EVENT_FAULTS,
    ONCE,
    Action,
    Copy,
    CutAfter,
    Double,
    DropWatch,
    Expire,
    Fail,
    Fault,
    FaultRequest,
    Late,
    Rule,
    StaleList,
    allows,
)

_F = TypeVar("_F")


class _Armed:
    """A rule with its state: how often it was tried and fired, and its own random stream."""

    def __init__(self, rule: Rule, seed: str) -> None:
        self.rule = rule
        self.random = Random(seed)
        self._asked = 0
        self._fired = 0

    def fires(self) -> bool:
        self._asked += 1
        if self.rule.limit is not None and self._fired >= self.rule.limit:
            return False
        if self.rule.every is not None:
            hit = self._asked % self.rule.every == 0
        else:
            hit = self.random.random() < self.rule.probability
        self._fired += hit
        return hit

    def between(self, least_seconds: float, most_seconds: float) -> float:
        return self.random.uniform(least_seconds, most_seconds)


class Faults:
    """The rules at work. `enabled` turns all of them off and on again."""

    def __init__(self, rules: Iterable[Rule] = (), seed: int = 0) -> None:
        self.enabled = True
        self._counts: Counter[str] = Counter()
        armed = [_Armed(rule, f"{seed}/{place}") for place, rule in enumerate(rules)]
        self._on_requests = _speaking(armed, ACTIONS)
        self._on_events = _speaking(armed, EVENT_FAULTS)
        self._on_lifetimes = _speaking(armed, (DropWatch,))
        self._on_expiry = _speaking(armed, (Expire,))
        self._due: dict[tuple[int, str], float] = {}

    def before(self, request: FaultRequest) -> Action | None:
        """Returns the fault of this request, or None."""
        if not self.enabled:
            return None
        for armed in self._on_requests:
            fault = armed.rule.fault
            if isinstance(fault, StaleList) and request.verb not in ("get", "list"):
                continue
            if armed.rule.matches_request(request) and armed.fires():
                assert isinstance(fault, ACTIONS)
                self._note(fault)
                return fault
        return None

    def on_event(self, kind: str, event_type: str, body: Mapping[str, Any]) -> Sequence[Copy]:
        """Returns the copies in which the event is sent; see the package's docstring. Bookmarks are left alone."""
        if not self.enabled or event_type == "BOOKMARK":
            return ONCE
        for armed in self._on_events:
            if armed.rule.matches_event(kind, event_type) and armed.fires():
                self._note(armed.rule.fault)
                return _copies(armed)
        return ONCE

    def watch_lifetime(self, kind: str) -> float | None:
        """Returns after how many seconds the watch that has just begun is dropped; None: never."""
        if not self.enabled:
            return None
        for armed in self._on_lifetimes:
            fault = armed.rule.fault
            if isinstance(fault, DropWatch) and allows(armed.rule.kinds, kind) and armed.fires():
                self._note(fault)
                return armed.between(fault.least_seconds, fault.most_seconds)
        return None

    def expire(self, kind: str, now: float) -> bool:
        """Whether this watch, or this further page of a list, gets 410. `now`: seconds."""
        if not self.enabled:
            return False
        return any(self._is_due(place, armed, kind, now) for place, armed in enumerate(self._on_expiry))

    def statistics(self) -> dict[str, int]:
        """Returns how often each fault happened, by its name."""
        return dict(self._counts)

    def _is_due(self, place: int, armed: _Armed, kind: str, now: float) -> bool:
        """Due within the first period by chance, so that not all kinds expire at once, and then once a period."""
        fault = armed.rule.fault
        if not isinstance(fault, Expire) or not allows(armed.rule.kinds, kind):
            return False
        due = self._due.setdefault((place, kind), now + armed.between(0.0, fault.every_seconds))
        if now < due:
            return False
        periods = (now - due) // fault.every_seconds + 1
        self._due[place, kind] = due + periods * fault.every_seconds
        if not armed.fires():
            return False
        self._note(fault)
        return True

    def _note(self, fault: Fault) -> None:
        self._counts[type(fault).__name__] += 1


def storm(seed: int = 0) -> Faults:
    """Bad weather all around: every fault that loses nothing for good, at once.

    One request in twenty fails or is cut off after it was carried out, each watch is dropped after 2 to 5 s, every kind
    gets 410 once in 30 s, and one watch event in twenty is late or comes twice.
    """
    return Faults(
        [
            Rule(Fail(500), probability=0.025),
            Rule(CutAfter(), probability=0.025),
            Rule(DropWatch(2.0, 5.0)),
            Rule(Expire(30.0)),
            Rule(Double(1.0, 3.0), probability=0.05),  # later than the late ones, see the package's docstring
            Rule(Late(0.0, 1.0), probability=0.05),
        ],
        seed,
    )


def _copies(armed: _Armed) -> Sequence[Copy]:
    fault = armed.rule.fault
    if isinstance(fault, Late):
        return (Copy(armed.between(fault.least_seconds, fault.most_seconds)),)
    if isinstance(fault, Double):
        return (Copy(0.0), Copy(armed.between(fault.least_seconds, fault.most_seconds)))
    return ()


def _speaking(armed: Iterable[_Armed], faults: tuple[type[_F], ...]) -> list[_Armed]:
    return [one for one in armed if isinstance(one.rule.fault, faults)]
