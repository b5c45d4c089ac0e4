"""The faults, and the rules that say to what they happen and how often."""

from dataclasses import dataclass
from typing import NamedTuple, TypeAlias

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
    """Once in so many seconds, for each kind, the next watch is answered that its version is too old (410)."""

    every_seconds: float = 30.0


Action: TypeAlias = Fail | CutBefore | CutAfter | Delay | StaleList
EventFault: TypeAlias = Miss | Late | Double
Fault: TypeAlias = Action | EventFault | DropWatch | Expire

ACTIONS = (Fail, CutBefore, CutAfter, Delay, StaleList)
EVENT_FAULTS = (Miss, Late, Double)


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
            allows(self.kinds, request.kind)
            and allows(self.verbs, request.verb)
            and allows(self.subresources, request.subresource)
        )

    def matches_event(self, kind: str, event_type: str) -> bool:
        return allows(self.kinds, kind) and allows(self.event_types, event_type)


def allows(names: frozenset[str] | None, name: str) -> bool:
    return names is None or name in names
