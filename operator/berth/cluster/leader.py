"""From standby to leader and back: when this replica leads, and when its fence opens and closes.

`Leadership` says who may lead by the records; here that becomes what the replica does:

    standby --- may lead ---> our name is written beside the records, which shows them once more; then every kind is
       ^                           |                                           listed and compared (`CacheSync.confirm`)
       |                           |--- something is missing, or a senior has come back: later
       |                           v
       +--- lost ------------ leading:  fence open --- our renewal is late, a bind is not confirmed ----> closed
       |                                  ^------------------ it has come -----------------------------------+
       +--- resigned: the confirmation of a bind has been missing for another lifetime; others may see better

The comparison makes a new leader decide on a synced cache: the list is requested when nothing of its predecessor is
under way any more, and the fence opens when the watch has shown everything on it. A watch that is dead shows
nothing, so this replica does not lead.

A look every tenth of a second notices all this; it is also the beat by which the elector knows that this loop moves.
The fence itself is computed each time it is asked (`fence`). Openings and closings are logged with the time by which
they count, which for a closing that nobody could notice lies in the past.
"""

import asyncio
import logging
from collections import Counter
from collections.abc import Awaitable, Callable
from datetime import datetime, timedelta

from berth.cluster.cache_sync import CacheSync
from berth.cluster.errors import ApiError, Unreachable
from berth.cluster.fence import LeadershipFence
from berth.cluster.leadership import Leadership
from berth.cluster.peering import NoPeering, Peering
from berth.scheduler.error_log import ErrorLog
from berth.scheduler.ports import Clock

LOOK_SECONDS = 0.1
CONFIRM_SECONDS = 5.0
PAUSE_SECONDS = 1.0
SEE_SECONDS = 0.01

_log = logging.getLogger(__name__)


class Leader:
    """One replica's part in it; `on_open` and `on_close` are called for the fence, `on_lose` for the lead as well."""

    def __init__(
        self,
        leadership: Leadership,
        fence: LeadershipFence,
        peering: Peering,
        cache_sync: CacheSync,
        clock: Clock,
        errors: ErrorLog,
        *,
        on_open: Callable[[bool], None],
        on_close: Callable[[], None],
        on_lose: Callable[[], None],
    ) -> None:
        """`on_open` is called with whether the lead is new, rather than the fence open again."""
        self.leadership = leadership
        self.peering = peering
        self._fence = fence
        self._cache_sync = cache_sync
        self._clock = clock
        self._errors = errors
        self._on_open = on_open
        self._on_close = on_close
        self._on_lose = on_lose
        self._is_ending = False
        self._was_open = False
        self._closed_seconds = 0.0
        self._is_announced = False
        self._announced_seconds = 0.0
        self._has_entered = False  # it is for the elector to do so first
        self._entered_seconds = 0.0
        self._alive_seconds = 0.0  # when our record was last seen to be there, or missed
        self._cleaned_seconds = 0.0
        self._has_complained = False  # that there is no peering object, and none can be made
        self._tasks: dict[asyncio.Task[None], None] = {}  # in the order in which they began
        self._proving: asyncio.Task[None] | None = None
        self.since: datetime | None = None
        self.beat_seconds = clock.now()
        """When the main loop last came by."""
        self.counts: Counter[str] = Counter()

    @property
    def is_leading(self) -> bool:
        return self._fence.is_leading

    @property
    def is_open(self) -> bool:
        """Whether the fence is open."""
        return self._fence.is_open

    def alarm(self) -> str | None:
        """Why the process is to be ended: it keeps the lead although its record is long out of date. From any thread.

        That is noticed ten times a second, so the loop that should have done so hangs.
        """
        late_seconds = self.leadership.stale_seconds() - self.leadership.terms.lifetime_seconds
        if not self.is_leading or late_seconds < 0:
            return None
        return f"it holds the lead, and its record has been out of date for {late_seconds:.0f} s"

    # --- life --------------------------------------------------------------------------------------------------------

    async def run(self) -> None:
        """Until cancelled."""
        while True:
            await self._clock.sleep(LOOK_SECONDS)
            self.beat_seconds = self._clock.now()
            try:
                self._look()
            except Exception as error:
                self._errors.note("leading", "this replica", error)

    async def stop(self) -> None:
        """Nothing of ours is under way: leave the lead to others, who need not wait until our record is out of date."""
        was_leading, self._is_ending = self.is_leading, True
        self._fence.stop_leading()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self.leadership.leave()
        if was_leading:
            self._close_fence("this replica ends", self._clock.wall())
            await self._try("giving up the lead", self._give_up())

    async def _give_up(self) -> None:
        await self.peering.announce(leading=False)
        await self.peering.disclaim()

    def _look(self) -> None:
        if self._is_ending:
            return
        self._enter_soon()
        if self.is_leading:
            reason = self._why_lost()
            if reason:
                self._lose(reason)
            else:
                self._mind_fence()
        elif (
            self._proving is None
            and self._cache_sync.synced
            and self.leadership.may_lead()
            and not self._fence.is_blind()
        ):
            self._proving = self._start(self._prove())

    def _enter_soon(self) -> None:
        """Where we have to choose another priority, not only when kopf renews our record the next time."""
        now = self._clock.now()
        if self._has_entered and self.leadership.is_outside and now - self._entered_seconds >= PAUSE_SECONDS:
            self._entered_seconds = now
            self._start(self._try("entering again", self._enter()))
        self._has_entered = self._has_entered or not self.leadership.is_outside
        if self.leadership.is_alive():
            self._alive_seconds = now
        elif self._has_entered and now - self._alive_seconds >= self.leadership.terms.lifetime_seconds:
            self._alive_seconds = now
            self._start(self._try("looking for the peering object", self._make_peering()))

    async def _enter(self) -> None:
        """After a lapse everything that we know of the others may be as old: it is read first."""
        if self.leadership.must_look:
            await self.peering.look()
        if self.leadership.is_outside and not self.leadership.must_look:
            await self.peering.announce(leading=False)

    async def _make_peering(self) -> None:
        """Our record has not been there for a lifetime: the object may have been deleted, or a backup restored that has
        none. Then nobody could lead any more.
        """
        try:
            await self.peering.ensure()
            self._has_complained = False
        except NoPeering as problem:
            _log.log(logging.DEBUG if self._has_complained else logging.ERROR, "No replica can lead: %s", problem)
            self._has_complained = True

    # --- taking over -------------------------------------------------------------------------------------------------

    async def _prove(self) -> None:
        """All seniors are out: see that they still are, and that we have seen what they did."""
        began_seconds, priority = self._clock.now(), self.leadership.priority
        try:
            if await self._see(await self.peering.claim()) and self.leadership.may_lead():
                is_confirmed = await self._cache_sync.confirm(CONFIRM_SECONDS)
                # With another priority we have lapsed meanwhile, and another replica may have led since the lists.
                if is_confirmed and self.leadership.may_lead() and self.leadership.priority == priority:
                    self._begin(self._clock.now() - began_seconds)
        except (ApiError, Unreachable) as error:
            _log.info("This replica cannot lead yet: %s", error)
        except Exception as error:
            self._errors.note("taking over", "the lead", error)
        finally:
            if not self.is_leading:
                await self._clock.sleep(PAUSE_SECONDS)
            self._proving = None

    async def _see(self, version: int) -> bool:
        """Whether our watch of the records has come as far as this version, or does so soon."""
        give_up_seconds = self._clock.now() + CONFIRM_SECONDS
        while self.leadership.version < version and self._clock.now() < give_up_seconds:
            await self._clock.sleep(SEE_SECONDS)
        return self.leadership.version >= version

    def _begin(self, seconds: float) -> None:
        self._fence.start_leading()
        self._was_open = True
        self.since = self._clock.wall()
        self.counts["changes"] += 1
        _log.info("This replica (%s) leads; the cache was compared in %.2f s", self.leadership.identity, seconds)
        _log.info("The fence is open at %s", _exactly(self.since))
        self._on_open(True)
        self._is_announced, self._announced_seconds = False, self._clock.now() - PAUSE_SECONDS

    # --- leading -----------------------------------------------------------------------------------------------------

    def _why_lost(self) -> str:
        if not self.leadership.is_alive():
            return "its record was removed, or renewed too late"
        seniors = self.leadership.seniors()
        return f"{seniors[0]} is senior to it" if seniors else ""

    def _announce(self) -> None:
        """For people; until it is written."""
        now = self._clock.now()
        if not self._is_announced and now - self._announced_seconds >= PAUSE_SECONDS:
            self._announced_seconds = now
            self._start(self._try("announcing the lead", self._write_announcement()))

    async def _write_announcement(self) -> None:
        await self.peering.announce(leading=True)
        self._is_announced = True

    def _clean(self) -> None:
        """Remove records that nobody renews any more."""
        now = self._clock.now()
        if now - self._cleaned_seconds >= self.leadership.terms.lifetime_seconds:
            self._cleaned_seconds = now
            for identity, stamp in self.leadership.outdated().items():
                self._start(self._try("removing a record", self.peering.remove(identity, stamp)))

    def _mind_fence(self) -> None:
        if self.is_open:
            self._announce()
            self._clean()
            if not self._was_open:
                self._was_open = True
                _log.info("The fence is open at %s", _exactly(self._clock.wall()))
                self._on_open(False)
            return
        if self._was_open:
            blind = "the watch has not shown a bind that was acknowledged"
            self._close_fence(blind if self._fence.is_blind() else "our record is renewed late", self._closed_at())
            self._on_close()
        elif (
            self._fence.is_blind()
            and self._clock.now() - self._closed_seconds >= self.leadership.terms.lifetime_seconds
        ):
            self.leadership.leave()
            self._lose("its watch of pods is dead")

    def _lose(self, reason: str) -> None:
        if self._was_open:
            self._close_fence(reason, self._closed_at())
        self._fence.stop_leading()
        self.since = None
        self.counts["changes"] += 1
        _log.warning("This replica (%s) does not lead any more: %s", self.leadership.identity, reason)
        self._on_lose()

    def _close_fence(self, reason: str, since: datetime) -> None:
        self._was_open = False
        self._closed_seconds = self._clock.now()
        self.counts["closings"] += 1
        _log.info("The fence is closed at %s: %s", _exactly(since), reason)

    def _closed_at(self) -> datetime:
        return self._clock.wall() - timedelta(seconds=self.leadership.stale_seconds())

    # --- helpers -----------------------------------------------------------------------------------------------------

    def _start(self, work: "Awaitable[None]") -> asyncio.Task[None]:
        task = asyncio.ensure_future(work)
        self._tasks[task] = None
        task.add_done_callback(self._tasks.pop)
        return task

    async def _try(self, what: str, work: Awaitable[None]) -> None:
        """What others would find out by themselves, only later."""
        try:
            await work
        except (ApiError, Unreachable) as error:
            _log.debug("Failed at %s: %s", what, error)
        except Exception as error:
            self._errors.note(what, "this replica", error)

    def statistics(self) -> dict[str, int]:
        return {
            "leading": int(self.is_leading),
            "open": int(self.is_open),
            "changes": self.counts["changes"],
            "closings": self.counts["closings"],
            **self.leadership.statistics(),
        }


def _exactly(wall: datetime) -> str:
    return wall.strftime("%Y-%m-%dT%H:%M:%S.%fZ")
