"""Events about pods and policies, posted in the background; losing one never costs a pod.

The same event about the same object (UID, reason and note) within six minutes becomes a series on the first one, which
is written as often as client-go writes it: the second occurrence at once, the count of a series that goes on every 30
minutes, and what is unwritten when nothing has come for six minutes, or at exit, is written then. Memory is bounded
twice: events waiting to be posted, and series that may still go on.

A server without events.k8s.io/v1 answers 404; from then on core/v1 is used. An event is tried again only when the
server had no time for it (429, 5xx) or could not be reached, and waits for that aside (`delays`), so that a namespace
in trouble does not hold up the others' events. It is given up when it is refused, after several attempts (`failed`),
or because too many wait (`dropped`); both are counted, and that events are dropped is said once a minute.

Events give way to binds and to everything else that is written, for a few seconds (`gate`). Those about pods are posted
even by a replica that has just lost the lead: they tell what it did. Those with a fence are given up then.
"""

import asyncio
import logging
from collections import Counter, OrderedDict
from functools import partial

from berth.cluster.api import MERGE_PATCH, Api
from berth.cluster.delays import Delays, pause_seconds
from berth.cluster.errors import ApiError, Unreachable
from berth.cluster.event_bodies import (
    Record,
    Report,
    core_body,
    core_patch,
    event_name,
    events_body,
    events_patch,
    report_about,
)
from berth.cluster.fence import Fence
from berth.cluster.gate import EVENT, WriteGate
from berth.model import Pod
from berth.scheduler.error_log import ErrorLog
from berth.scheduler.ports import Clock, NotLeading, PodEvent

WAITING_LIMIT = 10_000
SERIES_LIMIT = 8192
SERIES_SECONDS = 360.0
REFRESH_SECONDS = 1800.0
SWEEP_SECONDS = 60.0
COMPLAINT_SECONDS = 60.0
ATTEMPTS = 24  # nearly five minutes, with the pauses of `delays`

_log = logging.getLogger(__name__)

Key = tuple[str, str, str]


class EventRecorder:
    """Takes events at any rate and posts them as fast as the API server takes them."""

    def __init__(self, api: Api, clock: Clock, instance: str, errors: ErrorLog, gate: WriteGate) -> None:
        self._api = api
        self._clock = clock
        self._errors = errors
        self._instance = instance[:128]
        self._series: OrderedDict[Key, Record] = OrderedDict()
        self._gate = gate
        self._delays: Delays[Record] = Delays(clock, self._submit)
        self._keeping: list[asyncio.Task[None]] = []
        self._posting: dict[asyncio.Task[None], None] = {}
        self._is_over = False
        self._unposted = 0  # waiting, set aside or on their way
        self._all_posted = asyncio.Event()
        self._last_nanoseconds = 0
        self._has_events_api = True
        self._complained_seconds = -COMPLAINT_SECONDS
        self.counts: Counter[str] = Counter()

    def start(self) -> None:
        self._keeping = [
            asyncio.create_task(self._delays.run(), name="events-delays"),
            asyncio.create_task(self._sweep(), name="events-series"),
        ]

    async def flush(self, limit_seconds: float) -> None:
        """Write what waits, and the series that have grown; what is left at the limit is lost and counted."""
        for record in self._series.values():
            self._enqueue_growth(record)
        try:
            async with asyncio.timeout(limit_seconds):
                await self._wait_all_posted()
        except TimeoutError:
            self.counts["dropped"] += self._unposted
            _log.warning("Events that could not be posted before the exit: %d", self._unposted)
        tasks = [*self._keeping, *self._posting]
        self._is_over = True
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def record(self, pod: Pod, event: PodEvent) -> None:
        """Have the event about the pod posted, or counted to one that was posted before; returns at once."""
        self.report(report_about(pod, event))

    def report(self, report: Report, fence: Fence | None = None) -> None:
        """The same about any object; with a fence, it is posted only while this replica leads."""
        key = (report.regarding.uid, report.reason, report.note)
        known = self._series.get(key)
        now, wall = self._clock.now(), self._clock.wall()
        if known is not None and (wall - known.last).total_seconds() < SERIES_SECONDS:
            known.count += 1
            known.last = wall
            if known.count == 2 or now - known.written_seconds >= REFRESH_SECONDS:
                self._enqueue_growth(known)
            return
        record = Record(report, self._name(report.regarding.name), wall, wall, fence=fence)
        # One that is dropped begins no series: its next occurrence has to be posted as a first one.
        if self._enqueue(record):
            self._remember(key, record)

    @property
    def delayed(self) -> int:
        """The number of events that wait to be tried again."""
        return len(self._delays)

    def statistics(self) -> dict[str, int]:
        return {"waiting": self._unposted, "series": len(self._series), **self.counts}

    def drop(self) -> None:
        """Count an event that is beyond what may be said about its object."""
        self.counts["dropped"] += 1

    def _name(self, object_name: str) -> str:
        nanoseconds = int(self._clock.wall().timestamp() * 1_000_000) * 1000
        self._last_nanoseconds = max(nanoseconds, self._last_nanoseconds + 1)
        return event_name(object_name, self._last_nanoseconds)

    def _remember(self, key: Key, record: Record) -> None:
        self._series[key] = record
        self._series.move_to_end(key)
        if len(self._series) > SERIES_LIMIT:
            _, oldest = self._series.popitem(last=False)
            self._enqueue_growth(oldest)

    def _enqueue_growth(self, record: Record) -> None:
        if record.written and record.count > record.written and not record.queued:
            self._enqueue(record)

    def _enqueue(self, record: Record) -> bool:
        """Whether there was room for it."""
        if self._unposted >= WAITING_LIMIT:
            self.counts["dropped"] += 1
            self._complain()
            return False
        self._unposted += 1
        record.queued, record.attempts = True, 0
        self._submit(record)
        return True

    def _complain(self) -> None:
        now = self._clock.now()
        if now - self._complained_seconds >= COMPLAINT_SECONDS:
            self._complained_seconds = now
            _log.warning("Events that wait to be posted: %d; more are dropped", self._unposted)

    async def _wait_all_posted(self) -> None:
        while self._unposted:
            self._all_posted.clear()
            await self._all_posted.wait()

    async def _sweep(self) -> None:
        """Write series that have grown and stopped, or that go on for long, and forget those that are over."""
        while True:
            await self._clock.sleep(SWEEP_SECONDS)
            now, wall = self._clock.now(), self._clock.wall()
            for key, record in list(self._series.items()):
                is_over = (wall - record.last).total_seconds() >= SERIES_SECONDS
                if is_over or now - record.written_seconds >= REFRESH_SECONDS:
                    self._enqueue_growth(record)
                if is_over:
                    del self._series[key]

    def _submit(self, record: Record) -> None:
        self._gate.submit(EVENT, partial(self._begin, record))

    def _begin(self, record: Record) -> bool:
        """Whether it is posted: not after the last flush."""
        if self._is_over:
            return False
        task = asyncio.get_running_loop().create_task(self._post(record), name="event")
        self._posting[task] = None
        task.add_done_callback(self._ended)
        return True

    def _ended(self, task: asyncio.Task[None]) -> None:
        del self._posting[task]
        self._gate.end(EVENT)

    async def _post(self, record: Record) -> None:
        """Write it; set it aside if the server has no time for it now, give it up if it is refused."""
        record.attempts += 1
        count = record.count
        try:
            await self._write(record)
        except (ApiError, Unreachable) as error:
            may_pass = isinstance(error, Unreachable) or error.is_overload
            if may_pass and record.attempts < ATTEMPTS:
                asked_seconds = error.retry_after_seconds if isinstance(error, ApiError) else 0.0
                return self._delays.add(record, pause_seconds(record.attempts, asked_seconds))
            self._give_up(record, error)
        except NotLeading as error:
            if record.fence is not None and record.fence.is_leading and record.attempts < ATTEMPTS:
                return self._delays.add(record, pause_seconds(record.attempts))  # closed for a moment
            self._give_up(record, error)
        except Exception as error:
            self._errors.note("posting", f"an event about {record.report.regarding}", error, **_fields(record))
            self._give_up(record, error)
        else:
            record.written, record.written_seconds = count, self._clock.now()
            self.counts["posted"] += 1
        return self._done(record)

    def _done(self, record: Record) -> None:
        record.queued = False
        self._unposted -= 1
        if not self._unposted:
            self._all_posted.set()

    def _give_up(self, record: Record, error: Exception) -> None:
        # Counts as written, so that occurrences of an event that is refused do not each bring it back.
        record.written = record.count
        self.counts["failed"] += 1
        said = "The event %s about %s was given up: %s"
        _log.debug(said, record.name, record.report.regarding, error, extra=_fields(record))

    async def _write(self, record: Record) -> None:
        """Patch a series that exists, post everything else; one that is there already is our own earlier attempt."""
        try:
            if record.written:
                try:
                    return await self._send("PATCH", record)
                except ApiError as error:
                    if error.status != 404:
                        raise
            await self._send("POST", record)
        except ApiError as error:
            if error.status == 404 and self._has_events_api and error.details.get("kind") != "namespaces":
                self._has_events_api = False
                _log.info("The API server has no events.k8s.io/v1; events are posted through core/v1")
                return await self._write(record)
            if error.status != 409:
                raise
        return None

    async def _send(self, method: str, record: Record) -> None:
        namespace, new = record.report.regarding.event_namespace, self._has_events_api
        path = f"{'/apis/events.k8s.io/v1' if new else '/api/v1'}/namespaces/{namespace}/events"
        if method == "PATCH":
            path += f"/{record.name}"
            body, content_type = (events_patch(record) if new else core_patch(record)), MERGE_PATCH
        else:
            body, content_type = (events_body if new else core_body)(record, self._instance), "application/json"
        await self._api.request(method, path, body=body, content_type=content_type, fence=record.fence)


def _fields(record: Record) -> dict[str, str]:
    """Returns the fields of a log line about the object of an event."""
    regarding = record.report.regarding
    key = f"{regarding.namespace}/{regarding.name}" if regarding.namespace else regarding.name
    named = "pod" if regarding.kind == "Pod" else "policy"
    return {"kind": regarding.kind, named: key, "uid": regarding.uid}
