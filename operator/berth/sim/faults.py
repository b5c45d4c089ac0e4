"""Faults by rule, seeded: everything that a cluster does to its clients now and then, done on purpose.

A `Rule` says what happens (its fault), to what (kinds, verbs, subresources) and how often (a probability, every n-th
time, at most so many times). `Faults` holds the rules and answers the four questions that the server asks:

    before(request)           what is done to this request            Fail CutBefore CutAfter Delay StaleList
    on_event(kind, type, ..)  in which copies a watch event goes out  Miss Late Double
    watch_lifetime(kind)      after how long this watch is dropped    DropWatch
    expire(kind, now)         whether the next watch (or page) of this kind is told 410   Expire

Of the rules that speak to a question and match, the first that fires wins. Each rule draws from a random stream of its
own, and all that is drawn depends on the seed, the rule's place and the number of times it was asked: adding a rule
at the end changes nothing for those before it.

How the server is to read the answers of `on_event`, one `Copy` for each time that the event is sent:

- none: the event is missed, and the client's next watch does not bring it either unless it starts before it;
- the first copy keeps its place in the stream. If it is late, everything behind it waits, as on a slow connection:
  an API server never sends changes of one kind in another order than they were made. The delay counts from the moment
  at which the event reached the watch (due = max(due of the one before, then + delay)), so delays do not add up;
- a second copy is a repeat of old news: it is sent by itself when its time has come, whatever was sent meanwhile. Where
  other events are late, repeat later than those: a repeat that overtakes its own first copy tells the client of a
  version beyond what is held back, and after a cut the client resumes from there and has missed it;
- `drop`: the connection is dropped right after that copy. What was still held back then is not lost: it has not been
  sent, so the client's next watch, from the last version that it saw, brings it.

It has no clock and does no I/O: times come in as arguments and go out as seconds.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from random import Random
from typing import Any, NamedTuple, TypeAlias, TypeVar

# --- what can be done to a request -----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Fail:
    """Answered with an error, and nothing is carried out."""

    code: int = 500
    retry_after: int | None = None  # seconds, the Retry-After header


@dataclass(frozen=True, slots=True)
class CutBefore:
    """The connection breaks before anything is carried out."""


@dataclass(frozen=True, slots=True)
class CutAfter:
    """The request is carried out, and the connection breaks before the answer is sent."""


@dataclass(frozen=True, slots=True)
class Delay:
    """The request is carried out this much later."""

    seconds: float = 1.0


@dataclass(frozen=True, slots=True)
class StaleList:
    """A list, or a read, is answered as the world was so many versions ago."""

    versions: int = 10


# --- what can be done to a watch event -------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Miss:
    """The event is never sent."""


@dataclass(frozen=True, slots=True)
class Late:
    """The event is sent so much later, somewhere between the two, and all that is behind it waits."""

    least_seconds: float = 0.0
    most_seconds: float = 1.0


@dataclass(frozen=True, slots=True)
class Double:
    """The event is sent in its place, and once more so much later, somewhere between the two."""

    least_seconds: float = 0.0
    most_seconds: float = 1.0


# --- what can be done to a watch -------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class DropWatch:
    """A watch lives no longer than this, somewhere between the two."""

    least_seconds: float = 2.0
    most_seconds: float = 5.0


@dataclass(frozen=True, slots=True)
class Expire:
    """Once in so many seconds, for each kind, whoever watches next is told that its version is too old (410)."""

    every_seconds: float = 30.0


Action: TypeAlias = Fail | CutBefore | CutAfter | Delay | StaleList
EventFault: TypeAlias = Miss | Late | Double
Fault: TypeAlias = Action | EventFault | DropWatch | Expire

ACTIONS = (Fail, CutBefore, CutAfter, Delay, StaleList)
EVENT_FAULTS = (Miss, Late, Double)

_F = TypeVar("_F")


class Copy(NamedTuple):
    """One sending of a watch event."""

    delay_seconds: float
    drop: bool = False  # the watch ends right after it


ONCE: tuple[Copy, ...] = (Copy(0.0),)


@dataclass(frozen=True, slots=True)
class FaultRequest:
    """A request as rules see it; `verb` is RBAC's (a bind is a `create` of subresource `binding`), `kind` e.g. Pod.

    Discovery, health and everything else that is not about a kind has `kind` "".
    """

    verb: str
    kind: str
    name: str = ""
    subresource: str = ""
    namespace: str = ""


@dataclass(frozen=True, slots=True)
class Rule:
    """A fault, to what it happens and how often; None matches everything.

    `event_types` narrows the faults of watch events (ADDED, MODIFIED, DELETED). `every`: each n-th match instead of a
    share of them. `limit`: not more often than that.
    """

    fault: Fault
    kinds: frozenset[str] | None = None
    verbs: frozenset[str] | None = None
    subresources: frozenset[str] | None = None
    event_types: frozenset[str] | None = None
    probability: float = 1.0
    every: int | None = None
    limit: int | None = None

    def __post_init__(self) -> None:
        for name in ("kinds", "verbs", "subresources", "event_types"):
            if isinstance(getattr(self, name), str):
                raise ValueError(f"{name}: a set of names is needed, not the text {getattr(self, name)!r}")
        if not 0.0 <= self.probability <= 1.0:
            raise ValueError(f"probability: {self.probability} is not between 0 and 1")
        if self.every is not None and self.every < 1:
            raise ValueError(f"every: {self.every} is less than 1")
        if self.limit is not None and self.limit < 0:
            raise ValueError(f"limit: {self.limit} is less than 0")

    def matches_request(self, request: FaultRequest) -> bool:
        return (
            _allows(self.kinds, request.kind)
            and _allows(self.verbs, request.verb)
            and _allows(self.subresources, request.subresource)
        )

    def matches_event(self, kind: str, event_type: str) -> bool:
        return _allows(self.kinds, kind) and _allows(self.event_types, event_type)


class _Armed:
    """A rule with its luck: how often it was asked and fired, and its own random stream."""

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
        """What is to be done to this request; None: nothing out of the ordinary."""
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
        """In which copies the event goes out; see the module's text. Bookmarks are left alone."""
        if not self.enabled or event_type == "BOOKMARK":
            return ONCE
        for armed in self._on_events:
            if armed.rule.matches_event(kind, event_type) and armed.fires():
                self._note(armed.rule.fault)
                return _copies(armed)
        return ONCE

    def watch_lifetime(self, kind: str) -> float | None:
        """After how many seconds the watch that has just begun is dropped; None: never."""
        if not self.enabled:
            return None
        for armed in self._on_lifetimes:
            fault = armed.rule.fault
            if isinstance(fault, DropWatch) and _allows(armed.rule.kinds, kind) and armed.fires():
                self._note(fault)
                return armed.between(fault.least_seconds, fault.most_seconds)
        return None

    def expire(self, kind: str, now: float) -> bool:
        """Whether the watch, or the further page of a list, that is asked for now gets 410. `now`: seconds."""
        if not self.enabled:
            return False
        return any(self._is_due(place, armed, kind, now) for place, armed in enumerate(self._on_expiry))

    def statistics(self) -> dict[str, int]:
        """How often each fault was done, by its name."""
        return dict(self._counts)

    def _is_due(self, place: int, armed: _Armed, kind: str, now: float) -> bool:
        """Due within the first period by chance, so that not all kinds expire at once, and then once a period."""
        fault = armed.rule.fault
        if not isinstance(fault, Expire) or not _allows(armed.rule.kinds, kind):
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
    is told 410 once in 30 s, and one watch event in twenty is late or comes twice.
    """
    return Faults(
        [
            Rule(Fail(500), probability=0.025),
            Rule(CutAfter(), probability=0.025),
            Rule(DropWatch(2.0, 5.0)),
            Rule(Expire(30.0)),
            Rule(Double(1.0, 3.0), probability=0.05),  # later than the late ones, see the module's text
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


def _allows(names: frozenset[str] | None, name: str) -> bool:
    return names is None or name in names
