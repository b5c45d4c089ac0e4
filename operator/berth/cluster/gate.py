"""Who may write now: binds first, then nominations and evictions, then conditions, then events.

All writes share one event loop and one API server, so what is sent early delays the rest. Each write has a rank:

    rank       waits while                                             and at most     at once
    bind       never (the scheduler limits how many there are)                         -
    urgent     32 binds are under way                                  1 s             64
    condition  any of the above is under way                           4 s             16
    event      any of the above, or a condition, is under way          4 s             16

A write that has waited for the time of its rank goes, whatever else is under way: with a second for the request itself
an event is there within 5 s. Those of one rank go in the order in which they came.

What it does not do: keep what is to be written, or limit how much waits. That is for those who submit (`outbox`,
`events`), who may also find, when it is their turn, that nothing is left to be written.
"""

import asyncio
from collections import Counter, deque
from collections.abc import Callable
from dataclasses import dataclass, field

from berth.scheduler.ports import Clock
from berth.scheduler.waiting import wait_for_signal

STEP_SECONDS = 0.05  # between two looks for writes that have waited long enough

Go = Callable[[], bool]
"""Begin the write; returns False if there is nothing to write. Who begins calls `end` afterwards, once."""


@dataclass(frozen=True, slots=True, eq=False)
class Rank:
    """A kind of write. `beside`: how many of earlier ranks may be under way when it begins."""

    name: str
    order: int
    beside: int
    at_once: int
    patience_seconds: float


BIND = Rank("bind", 0, 0, 0, 0.0)
URGENT = Rank("urgent", 1, 31, 64, 1.0)
CONDITION = Rank("condition", 2, 0, 16, 4.0)
EVENT = Rank("event", 3, 0, 16, 4.0)
RANKS = (BIND, URGENT, CONDITION, EVENT)


@dataclass(slots=True, eq=False)
class _Lane:
    """Writes of one rank."""

    rank: Rank
    under_way: int = 0
    waiting: deque[tuple[float, Go]] = field(default_factory=deque)  # since when, oldest first


class WriteGate:
    """Nothing but binds passes before `start` and after `stop`."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._lanes = [_Lane(rank) for rank in RANKS]
        self._is_open = False
        self._task: asyncio.Task[None] | None = None
        self._sooner = asyncio.Event()
        self._next_look_seconds: float | None = None
        self.late: Counter[str] = Counter()
        """Writes by rank that went since they had waited for long enough."""

    def start(self) -> None:
        self._is_open = True
        self._task = asyncio.create_task(self._look(), name="write-gate")

    async def stop(self) -> None:
        self._is_open = False
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    def begin(self, rank: Rank) -> None:
        """A write that asks nobody begins; the others give way to it."""
        self._lanes[rank.order].under_way += 1

    def end(self, rank: Rank) -> None:
        """A write has ended, one way or another."""
        self._lanes[rank.order].under_way -= 1
        self._admit()

    def submit(self, rank: Rank, go: Go) -> None:
        """Have the write begin when it may: now, or later."""
        now = self._clock.now()
        self._lanes[rank.order].waiting.append((now, go))
        self._admit()
        due = now + rank.patience_seconds
        if self._next_look_seconds is None or due < self._next_look_seconds:
            self._sooner.set()

    async def wait(self, rank: Rank) -> None:
        """Returns when a write of ours may begin; it has begun then."""
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.submit(rank, lambda: _set(turn))
        try:
            await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled():
                self.end(rank)  # it was our turn, and nobody is left to make use of it
            raise

    def statistics(self) -> dict[str, dict[str, int]]:
        return {
            "waiting": {lane.rank.name: len(lane.waiting) for lane in self._lanes[1:]},
            "late": {rank.name: self.late[rank.name] for rank in RANKS[1:]},
        }

    def sizes(self) -> dict[str, int]:
        """Writes of any rank: those that wait, and those that are under way."""
        return {
            "waiting": sum(len(lane.waiting) for lane in self._lanes),
            "under_way": sum(lane.under_way for lane in self._lanes),
        }

    def _admit(self) -> None:
        if not self._is_open:
            return
        above = self._lanes[0].under_way
        for lane in self._lanes[1:]:
            in_the_way = above > lane.rank.beside
            while lane.waiting and lane.under_way < lane.rank.at_once and not (in_the_way and self._is_patient(lane)):
                if lane.waiting.popleft()[1]():
                    lane.under_way += 1
                    self.late[lane.rank.name] += in_the_way
            above += lane.under_way

    def _is_patient(self, lane: _Lane) -> bool:
        return self._clock.now() - lane.waiting[0][0] < lane.rank.patience_seconds

    async def _look(self) -> None:
        while True:
            self._sooner.clear()
            self._admit()
            seconds = self._wait_seconds()
            self._next_look_seconds = None if seconds is None else self._clock.now() + seconds
            await wait_for_signal(self._sooner, self._clock, seconds)

    def _wait_seconds(self) -> float | None:
        """Until one has waited for long enough; None while none waits."""
        due = [lane.waiting[0][0] + lane.rank.patience_seconds for lane in self._lanes if lane.waiting]
        return max(STEP_SECONDS, min(due) - self._clock.now()) if due else None


def _set(turn: asyncio.Future[None]) -> bool:
    if turn.done():
        return False
    turn.set_result(None)
    return True
