"""Metrics of the loop under kube-scheduler's names: attempts, their duration, and how long pods wait.

    attempt ----------------------------------------------------> ended: the result and the duration
       |  one in ten: a stopwatch                                   |
       +---> PreFilter, Filter, Score, PostFilter, Reserve, ...     +--> bound: attempts, time since it was queued

A histogram is a list of counts: observing a value is a search among a dozen bounds and two additions. Extension points
are measured for one attempt in ten, because reading the clock at every step of every attempt would cost too much.

Labels are bounded. The label `profile` is the pod's scheduler name. The first MOST_PROFILES names that have a policy or
occur in pods get series of their own; all further names share one label (`Names`). A name without a policy gives its
place up, unless a value was observed for it.
"""

from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Final

from berth.scheduler.ports import Clock

MOST_PROFILES: Final = 50
SAMPLED: Final = 10  # one attempt of this many is measured by extension point
MOST_ATTEMPTS: Final = 15  # pods that need this many or more share one label
OTHERS: Final = "(others)"
SUCCESS: Final = "Success"
UNSCHEDULABLE: Final = "Unschedulable"
ERROR: Final = "Error"
WAIT: Final = "Wait"

Status = Callable[[BaseException | None], str]


def doubling(first: float, count: int) -> tuple[float, ...]:
    """`count` bounds, each twice the one before."""
    return tuple(first * 2**power for power in range(count))


# The bounds of kube-scheduler, so that its dashboards work.
ATTEMPT_SECONDS: Final = doubling(0.001, 15)
WAIT_SECONDS: Final = doubling(0.01, 20)
POINT_SECONDS: Final = doubling(0.0001, 12)
ATTEMPTS: Final = doubling(1, 5)


class Histogram:
    """Counts of values by upper bound."""

    __slots__ = ("_bounds", "_counts", "_sum")

    def __init__(self, bounds: Sequence[float]) -> None:
        self._bounds = bounds
        self._counts = [0] * (len(bounds) + 1)
        self._sum = 0.0

    def observe(self, value: float) -> None:
        self._counts[bisect_left(self._bounds, value)] += 1
        self._sum += value

    @property
    def count(self) -> int:
        return sum(self._counts)

    def statistics(self) -> dict[str, Any]:
        """`buckets`: for each bound the number of values that are not greater."""
        buckets, total = {}, 0
        for bound, count in zip(self._bounds, self._counts, strict=False):
            total += count
            buckets[bound] = total
        return {"buckets": buckets, "count": total + self._counts[-1], "sum": self._sum}


class Names:
    """The names that may be labels: the first `most` names; all others share one label."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._known: dict[str, str] = {}

    def of(self, name: str) -> str:
        """The label of the name: the name itself while there is a free place, and from then on."""
        known = self._known.get(name)
        if known is not None:
            return known
        if len(self._known) >= self._most:
            return OTHERS
        return self._known.setdefault(name, name)

    def keep(self, names: Iterable[str]) -> dict[str, str]:
        """The label of each of these names; names that are not among them give their places up."""
        there = sorted(names)
        gone = self._known.keys() - there
        for name in gone:
            del self._known[name]
        return {name: self.of(name) for name in there}


class Stopwatch:
    """Measures the extension points of one attempt: each call ends a lap, named after the point that has run."""

    __slots__ = ("_last", "_measures", "_scheduler_name")

    def __init__(self, measures: "Measures", scheduler_name: str, now: float) -> None:
        self._measures = measures
        self._scheduler_name = scheduler_name
        self._last = now

    def __call__(self, point: str, status: str = SUCCESS) -> None:
        now = self._measures.now()
        self._measures.point(self._scheduler_name, point, status, now - self._last)
        self._last = now

    def skip(self) -> None:
        """Leave the time since the last lap out."""
        self._last = self._measures.now()


def outcome(error: BaseException | None) -> str:
    """The status of an extension point that ended with this exception, or with none."""
    return SUCCESS if error is None else ERROR


@contextmanager
def timed(stopwatch: Stopwatch | None, point: str, status: Status = outcome) -> Iterator[None]:
    """Measure the block as this extension point, if the attempt is measured; `status` maps an exception to a status."""
    if stopwatch is None:
        yield
        return
    stopwatch.skip()
    try:
        yield
    except BaseException as error:
        stopwatch(point, status(error))
        raise
    stopwatch(point, status(None))


class Measures:
    """Counters and histograms by label."""

    def __init__(self, clock: Clock) -> None:
        self.now = clock.now
        self.profiles = Names(MOST_PROFILES)
        self._turn = -1
        self._attempts: dict[tuple[str, str], Histogram] = {}
        self._points: dict[tuple[str, str, str], Histogram] = {}
        self._waits: dict[int, Histogram] = {}
        self._needed = Histogram(ATTEMPTS)

    def stopwatch(self, scheduler_name: str) -> Stopwatch | None:
        """A stopwatch for one attempt in ten, else None."""
        self._turn = (self._turn + 1) % SAMPLED
        return None if self._turn else Stopwatch(self, scheduler_name, self.now())

    def point(self, scheduler_name: str, point: str, status: str, seconds: float) -> None:
        """Record the duration of an extension point."""
        key = self.profiles.of(scheduler_name), point, status
        histogram = self._points.get(key)
        if histogram is None:
            histogram = self._points[key] = Histogram(POINT_SECONDS)
        histogram.observe(seconds)

    def ended(self, scheduler_name: str, result: str, began: float) -> None:
        """Record an attempt that began at this time: scheduled (the pod is bound), unschedulable or error."""
        self._observe(scheduler_name, result, self.now() - began)

    def scheduled(self, scheduler_name: str, began: float, attempts: int, queued: float) -> None:
        """Record a bound pod: its last attempt, the number of attempts, and the time since it was `queued`."""
        now = self.now()
        self._observe(scheduler_name, "scheduled", now - began)
        self._needed.observe(attempts)
        bounded_attempts = min(attempts, MOST_ATTEMPTS)
        histogram = self._waits.get(bounded_attempts)
        if histogram is None:
            histogram = self._waits[bounded_attempts] = Histogram(WAIT_SECONDS)
        histogram.observe(now - queued)

    def _observe(self, scheduler_name: str, result: str, seconds: float) -> None:
        histogram = self._attempts.get((scheduler_name, result))
        if histogram is None:  # a new label, or a name without a label of its own
            key = self.profiles.of(scheduler_name), result
            histogram = self._attempts.get(key)
            if histogram is None:
                histogram = self._attempts[key] = Histogram(ATTEMPT_SECONDS)
        histogram.observe(seconds)

    @property
    def results(self) -> dict[str, int]:
        """The number of attempts by result."""
        counts: Counter[str] = Counter()
        for (_, result), histogram in self._attempts.items():
            counts[result] += histogram.count
        return dict(counts)

    def statistics(self, served: Iterable[str] = ()) -> Mapping[str, Any]:
        """Histograms as lists of (labels, histogram), and the profile labels.

        `served` are the scheduler names that have a policy; they get labels from now on.
        """
        return {
            "profiles": self._keep_profiles(served),
            "attempt_seconds": [(key, one.statistics()) for key, one in self._attempts.items()],
            "point_seconds": [(key, one.statistics()) for key, one in self._points.items()],
            "wait_seconds": [((_label(key),), one.statistics()) for key, one in self._waits.items()],
            "attempts_needed": self._needed.statistics(),
        }

    def _keep_profiles(self, served: Iterable[str]) -> list[str]:
        counted = {labels[0] for labels in (*self._attempts, *self._points)} - {OTHERS}
        return sorted(set(self.profiles.keep({*served, *counted}).values()))


def _label(attempts: int) -> str:
    return str(attempts) if attempts < MOST_ATTEMPTS else f"{MOST_ATTEMPTS}+"
