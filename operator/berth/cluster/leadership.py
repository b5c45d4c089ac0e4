"""Who leads, judged by the records of the peering object and by our own clock; and the fence before every write.

Each replica keeps a record in one ClusterKopfPeering object: priority, lifetime, `lastseen`. kopf writes and renews it
(`berth.elector`); here it is only read, as our own watch shows it. The priority is seniority: who entered first has the
highest, and a replica that enters is lower than all that it sees. A record whose identity and priority are greater is
senior.

      absent ----- our own record comes back through the watch -----> STANDBY <------------------------------------+
        ^                                                               |                                          |
        | re-enter as the youngest                                      | no senior record is alive                |
        |                                                               v                                          |
      LAPSED <-- ours is gone, or a lifetime old --- any state       PROVING   the records are read again, and     |
                                                                        |      every kind is listed and compared   |
                                                                        v                                          |
                                            +-- a senior is alive -- LEADING --- resigns: its watch of pods is dead
                                            +--> STANDBY                |
                                                                   fence open while: our record is fresh,
                                                                   no senior is alive, the watch is alive

Times, with L the lifetime and T the longest that a guarded request may take (`Terms`):

    0         our renewal is sent                       others see it at this moment at the earliest
    L - T     the fence closes, unless a later renewal has come back through the watch
    L         nothing of ours is under way any more; we count as lapsed, and others may open theirs

1. Our record counts from the moment at which its renewal was *sent*, by our monotonic clock, not from when we see it:
   a process that was stopped sees its own old renewal at once when it goes on. So each reading of the priority, which
   kopf does right before it takes the time of day for `lastseen`, is noted with both clocks, and a `lastseen` that
   comes back is looked up there. One that cannot be found proves nothing.
2. Where the time of day says that more time has passed than the monotonic clock does (a machine that was suspended, a
   clock that was set), it is believed. Where it says less, it is not.
3. The record of another counts for its whole lifetime from the moment at which we *saw* it change. What its `lastseen`
   says is never compared with our clock: foreign clocks do not matter.
4. A record that is gone counts on for that time: any client may have removed it, and replicas of earlier versions
   remove what is out of date by their time of day, so that its owner may well be alive. Only a record that its owner
   has lowered below ours is out of the way at once. Owners do so when nothing of theirs is under way any more: after a
   lapse, at a resignation, at a clean end.
5. A renewal goes on from the last one only if it was seen before that one was a lifetime old. Else we have lapsed,
   whatever the record says, and enter again with another priority. What we know of the others may be as old by then,
   and what our watch shows next may have waited for us: the object is read first (`ask`, `answer`). Until then
   renewals have the priority OUTSIDE. To others such a record is none, not one that was lowered: it may arrive late,
   when its owner has entered again and leads.
   Where ours was taken away, or the time of day alone says so, requests may be under way: it is lowered after T, and
   kept up as it was until then.
6. The object is one: a view in which our renewal is shows every other record as it was at that time or later. Views
   older than one that was seen are ignored. A watch shows every view: before we lead, it has to show what we wrote
   after the seniors were out. Where views may have been left out, what is gone counts from now on.
7. A priority is ours when it has come back once and no live replica is below it: then every replica below has entered
   after us, and sees us whenever it sees itself. If one is, two have entered at once, and we choose again, below it.
8. Before a replica leads it writes its name beside the records, where kopf removes nothing. A replica that finds a
   name there without a known record gives it a lifetime, as a senior: it may be alive, and its record removed.
9. Nobody removes the record of another but the leader, and only where it was silent for two of its lifetimes, by our
   clock, and is in the object as we know it (`outdated`). kopf does not get to see the others' records: it would judge
   them by the time of day, and after a freeze by what it saw before.

So two fences are never open at once: ours is open only up to L - T after a renewal was sent, and another replica, which
saw that renewal later than we sent it, opens its own when it is L old and a look after that still shows nothing newer.

Renewals are noted from the elector's thread, everything else comes from the main loop: one lock guards it all.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from random import Random
from typing import Any, Final

from berth.scheduler.object_events import version_number

LIFETIME_SECONDS: Final = 10
SHORTEST_LIFETIME_SECONDS: Final = 5
LONGEST_LIFETIME_SECONDS: Final = 60
LONGEST_REQUEST_SECONDS: Final = 3.0
FOREIGN_LIFETIME_SECONDS: Final = 60.0  # of a record that does not say; kopf's own default
NOTED = 2048
NOTE_SECONDS = 0.05  # kopf reads the priority once for each of the others too, whenever a record changes
LOOKUP_SECONDS = 1.0  # between the reading of the priority and the time that kopf writes
TOP_PRIORITY = 2**52  # JSON numbers are exact up to here
OUTSIDE: Final = -TOP_PRIORITY  # of a replica that has lapsed and does not know yet who is there
OUTDATED_LIFETIMES: Final = 2  # after which a silent record is removed
STEPS_IN_A_MILLISECOND = 1024


@dataclass(frozen=True, slots=True)
class Terms:
    """What follows from the lifetime of records."""

    lifetime_seconds: int = LIFETIME_SECONDS

    @property
    def request_seconds(self) -> float:
        """The longest that a request behind the fence may take.

        kopf renews up to 5 s before the end of the lifetime, so 2 s are left for a renewal that is slow.
        """
        return min(LONGEST_REQUEST_SECONDS, self.lifetime_seconds / 4)

    @property
    def fresh_seconds(self) -> float:
        """How long after a renewal was sent the fence is open."""
        return self.lifetime_seconds - self.request_seconds


@dataclass(frozen=True, slots=True)
class PeerRecord:
    """One replica's record, as it is written."""

    priority: int
    lifetime_seconds: float
    stamp: str


@dataclass(frozen=True, slots=True)
class Question:
    """What was known when the object was asked for: how often we had lapsed, and the newest version."""

    lapses: int
    version: int


@dataclass(slots=True)
class _Other:
    """Another replica: its last record, and when we saw that."""

    record: PeerRecord
    seen_seconds: float
    is_told_of: bool = False  # we know its name only


class Leadership:
    """Our own record and those of the others; see the module's text. Never raises for what a record says."""

    def __init__(
        self,
        identity: str,
        terms: Terms,
        *,
        now: Callable[[], float],
        wall: Callable[[], datetime],
        random: Random,
    ) -> None:
        self.identity = identity
        self.terms = terms
        self._now = now
        self._wall = wall
        self._random = random
        self._lock = threading.Lock()
        self._noted: deque[tuple[float, datetime]] = deque(maxlen=NOTED)
        self._others: dict[str, _Other] = {}
        self._outsiders: dict[str, _Other] = {}
        self._version = -1
        self._priority: int | None = None
        self._is_settled = False  # rule 7
        self._must_look = False  # rule 5
        self._former: int | None = None  # the priority that we kept up, until nothing is under way any more
        self._quiet_seconds = 0.0
        self._leader = ""  # as written beside the records, rule 8
        self._own_stamp = ""
        self._own: tuple[float, datetime] | None = None  # when the renewal was sent that came back last
        self._last: tuple[float, datetime] | None = None  # the same, also after a lapse
        self.lapses = 0
        self.beginnings = 0
        """How often everything began anew; whatever else watches the records has to begin again then, too."""
        self._is_silent = False

    # --- entering and renewing -----------------------------------------------------------------------------------

    def renew(self) -> int:
        """The priority to write: a renewal may be written from now on. Called from the elector's thread too."""
        with self._lock:
            self._look()
            now = self._now()
            self._note(now, self._wall())
            if self._former is not None and now < self._quiet_seconds:
                return self._former
            if self._must_look:
                return OUTSIDE
            if self._priority is None:
                self._priority, self._former = self._youngest(), None
            return self._priority

    @property
    def priority(self) -> int | None:
        """Ours, as long as we do not lapse; None before we enter."""
        with self._lock:
            return self._priority

    def stands(self, priority: int) -> bool:
        """Whether a renewal that was made with this priority may still be sent: not after a lapse."""
        with self._lock:
            self._look()
            return priority in (self._priority, self._former, OUTSIDE)

    @property
    def is_outside(self) -> bool:
        """Whether a renewal would have us enter, once we know who is there."""
        with self._lock:
            self._look()
            return self._priority is None and self._now() >= self._quiet_seconds

    @property
    def must_look(self) -> bool:
        """Whether the object has to be read before we may enter."""
        with self._lock:
            self._look()
            return self._must_look

    def _note(self, now: float, wall: datetime) -> None:
        """One note is as good as another right after it, and the earlier one is the safer, unless a clock was set."""
        if self._noted:
            passed, by_wall = now - self._noted[-1][0], (wall - self._noted[-1][1]).total_seconds()
            if passed < NOTE_SECONDS and 0 <= by_wall < NOTE_SECONDS:
                return
        self._noted.append((now, wall))

    def leave(self) -> None:
        """Enter anew, as the youngest: nothing of ours is under way."""
        with self._lock:
            self._lapse()

    def _youngest(self) -> int:
        """Lower than all that are there. Among replicas that see no other, the one that started first is the higher."""
        started = int(self._wall().timestamp() * 1000) * STEPS_IN_A_MILLISECOND
        by_time = TOP_PRIORITY - started - self._random.randrange(STEPS_IN_A_MILLISECOND)
        lowest = min((other.record.priority for other in self._others.values()), default=by_time)
        return min(by_time, lowest - 1 - self._random.randrange(STEPS_IN_A_MILLISECOND))

    def _lapse(self) -> None:
        self._priority = self._own = self._former = None
        self._is_settled = False
        self._own_stamp = ""

    def _lapse_suddenly(self) -> None:
        """While requests may be under way: until they have ended, the priority is kept up, for the others to see."""
        former = self._priority
        self._lapse()
        self._former, self._quiet_seconds = former, self._now() + self.terms.request_seconds

    # --- what the watch shows ------------------------------------------------------------------------------------

    @property
    def version(self) -> int:
        """The newest version of the object that was seen."""
        with self._lock:
            return self._version

    def ask(self) -> Question:
        """The object is about to be read."""
        with self._lock:
            self._look()
            return Question(self.lapses, self._version)

    def answer(self, question: Question, version: str, status: object, leader: str = "") -> None:
        """This is what the API server says of the object, asked after `ask`.

        A version that is older than one seen before the question is of another history: an earlier state was restored.
        """
        number = version_number(version)
        if number is not None and number < question.version:
            with self._lock:
                self._version = -1
        self.observe(version, status, leader, jumped=True)
        with self._lock:
            self._look()
            self._must_look = self._must_look and self.lapses != question.lapses

    def observe(self, version: str, status: object, leader: str = "", *, jumped: bool = False) -> None:
        """The peering object has, or had, this status, and this name beside it; both empty, if there is none.

        `jumped`: what it was before may not have been shown (a list, not a watch). Then a record that is gone may have
        been renewed before it went.
        """
        with self._lock:
            number = version_number(version)
            if number is not None:
                if number < self._version:
                    return
                self._version = number
            records = read_records(status)
            self._look()
            own = records.pop(self.identity, None)
            self._observe_outsiders(records)
            if jumped:
                for identity in self._others.keys() - records.keys():
                    self._others[identity].seen_seconds = self._now()
            self._observe_others(records, leader)
            self._observe_own(own)

    def start_over(self) -> None:
        """The store has gone back in time: what is shown from now on is believed, in whatever version it is."""
        with self._lock:
            self._version = -1
            self.beginnings += 1

    @property
    def is_silent(self) -> bool:
        """Whether nothing may be written, not even our record: another cluster answers."""
        return self._is_silent

    def fall_silent(self) -> None:
        """Another cluster answers, for good. From any thread."""
        self._is_silent = True

    def _observe_outsiders(self, records: dict[str, PeerRecord]) -> None:
        """Take out the records that are none."""
        now, before, self._outsiders = self._now(), self._outsiders, {}
        for identity in [identity for identity, record in records.items() if record.priority == OUTSIDE]:
            record, known = records.pop(identity), before.get(identity)
            is_unchanged = known is not None and known.record == record
            self._outsiders[identity] = known if known is not None and is_unchanged else _Other(record, now)

    def _observe_others(self, records: Mapping[str, PeerRecord], leader: str) -> None:
        now = self._now()
        for identity, record in records.items():
            known = self._others.get(identity)
            if known is None or known.record != record:
                self._others[identity] = _Other(record, now)
        if leader != self._leader:
            self._leader = leader
            identity, lifetime_seconds = read_leader(leader)
            if identity not in ("", self.identity) and identity not in self._others:
                self._others[identity] = _Other(PeerRecord(TOP_PRIORITY, lifetime_seconds, ""), now, is_told_of=True)
        self._others = {
            identity: other
            for identity, other in self._others.items()
            if identity in records or self._is_alive(other, now)
        }

    def _observe_own(self, record: PeerRecord | None) -> None:
        if record is None:
            if self._own is not None:
                self.lapses += 1
                self._lapse_suddenly()
        elif record.priority == self._priority and record.stamp != self._own_stamp:
            sent = self._find(record.stamp)
            if sent is not None and (self._own is None or sent[0] >= self._own[0]):
                self._own = self._last = sent
                self._own_stamp = record.stamp
                self._settle()

    def _settle(self) -> None:
        """Rule 7."""
        if self._is_settled:
            return
        now = self._now()
        alive = [(identity, other) for identity, other in self._others.items() if self._is_alive(other, now)]
        if any(not self._is_senior(identity, other.record) for identity, other in alive):
            self._lapse()
        else:
            self._is_settled = not any(other.is_told_of for _, other in alive)

    def _find(self, stamp: str) -> tuple[float, datetime] | None:
        """When we sent the renewal of this time of day; where the clock was set meanwhile, the earliest it may be."""
        given = parse_stamp(stamp)
        if given is None:
            return None
        close = [noted for noted in self._noted if 0 <= (given - noted[1]).total_seconds() <= LOOKUP_SECONDS]
        if not close:
            return None
        is_sure = close[-1][0] - close[0][0] <= LOOKUP_SECONDS * 1.5
        return close[-1] if is_sure else close[0]

    # --- what follows --------------------------------------------------------------------------------------------

    def age_seconds(self) -> float | None:
        """How old our record is that came back last; None, if there is none."""
        with self._lock:
            return self._age(self._own)

    def _age(self, sent: tuple[float, datetime] | None) -> float | None:
        if sent is None:
            return None
        return max(self._now() - sent[0], (self._wall() - sent[1]).total_seconds())

    def _look(self) -> None:
        """Whether we have lapsed."""
        age = self._age(self._own)
        if self._own is None or age is None or age < self.terms.lifetime_seconds:
            return
        is_quiet = self._now() - self._own[0] >= self.terms.lifetime_seconds
        self.lapses += 1
        self._must_look = True
        if is_quiet:
            self._lapse()
        else:  # by the time of day alone: a moment ago the fence was open
            self._lapse_suddenly()

    def is_alive(self) -> bool:
        """Whether our record is there and has not lapsed."""
        with self._lock:
            self._look()
            return self._own is not None

    def is_fresh(self) -> bool:
        """Whether no other replica may open its fence before a request that is sent now has ended."""
        with self._lock:
            age = self._age(self._own)
            return age is not None and age < self.terms.fresh_seconds

    def stale_seconds(self) -> float:
        """For how long our last renewal has been too old to write anything; 0 while it is not."""
        with self._lock:
            age = self._age(self._last)
            return 0.0 if age is None else max(0.0, age - self.terms.fresh_seconds)

    def seniors(self) -> list[str]:
        """Those whom we have to leave the lead to; all others, while we have no priority."""
        with self._lock:
            now = self._now()
            return sorted(
                identity
                for identity, other in self._others.items()
                if self._is_alive(other, now) and self._is_senior(identity, other.record)
            )

    def others(self) -> list[str]:
        """The other replicas that are alive."""
        with self._lock:
            now = self._now()
            return sorted(identity for identity, other in self._others.items() if self._is_alive(other, now))

    def outdated(self) -> dict[str, str]:
        """Records that nobody renews any more and that are still there, with their time; rule 9."""
        with self._lock:
            now = self._now()
            return {
                identity: other.record.stamp
                for identity, other in (*self._others.items(), *self._outsiders.items())
                if now - other.seen_seconds >= OUTDATED_LIFETIMES * other.record.lifetime_seconds
                and other.record.stamp
                and not other.is_told_of
            }

    def _is_alive(self, other: _Other, now: float) -> bool:
        return now - other.seen_seconds < other.record.lifetime_seconds

    def _is_senior(self, identity: str, record: PeerRecord) -> bool:
        return self._priority is None or (record.priority, identity) > (self._priority, self.identity)

    def may_lead(self) -> bool:
        """Whether our record is fresh, our priority is ours, and no senior is alive."""
        return self.is_fresh() and self._is_settled and not self.seniors()

    def statistics(self) -> dict[str, int]:
        with self._lock:
            return {"replicas": len(self._others) + 1, "lapses": self.lapses}


def read_records(status: object) -> dict[str, PeerRecord]:
    """The records of a peering object's status; what is invalid is no record, but for what can be read of it.

    A record without a lifetime that can be read has kopf's own, one without a priority has kopf's, 0.
    """
    found: dict[str, PeerRecord] = {}
    for identity, body in status.items() if isinstance(status, Mapping) else ():
        if isinstance(identity, str) and isinstance(body, Mapping):
            lifetime = _number(body.get("lifetime"), FOREIGN_LIFETIME_SECONDS)
            stamp = body.get("lastseen")
            found[identity] = PeerRecord(
                int(_number(body.get("priority"), 0)),
                max(0.0, float(lifetime)),
                stamp if isinstance(stamp, str) else "",
            )
    return found


def read_leader(text: str) -> tuple[str, float]:
    """The identity and the lifetime that stand beside the records; an empty identity, where nobody is named."""
    identity, _, lifetime = text.partition(" ")
    try:
        return identity, min(max(0.0, float(lifetime)), LONGEST_LIFETIME_SECONDS)
    except ValueError:
        return identity, FOREIGN_LIFETIME_SECONDS


def write_leader(identity: str, terms: Terms) -> str:
    return f"{identity} {terms.lifetime_seconds}"


def _number(value: Any, default: float) -> float:
    """An int stays one: priorities are larger than a float is exact."""
    return value if isinstance(value, int | float) and not isinstance(value, bool) and abs(value) < 2**62 else default


def parse_stamp(text: str) -> datetime | None:
    """The time that a record was written, in UTC; None for what is no time."""
    try:
        given = datetime.fromisoformat(text)
        return given.replace(tzinfo=UTC) if given.tzinfo is None else given.astimezone(UTC)
    except (ValueError, OverflowError):
        return None


def write_record(priority: int, terms: Terms, wall: datetime) -> dict[str, Any]:
    """A record as kopf writes it."""
    return {"priority": priority, "lifetime": terms.lifetime_seconds, "lastseen": wall.isoformat()}
