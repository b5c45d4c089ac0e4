"""What a metric is: a name, a type, labels, and where its numbers are found in the statistics."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric

Type = Literal["gauge", "counter", "histogram"]
Sample = tuple[Sequence[str], Any]  # the labels' values, and a number or what Histogram.statistics() gives


Read = Callable[[Mapping[str, Any]], Iterable[Sample]]


@dataclass(frozen=True, slots=True)
class Definition:
    """One metric. `labels` are by name, with words on the values that they take; `read` finds the samples in the
    statistics.
    """

    name: str
    type: Type
    text: str
    read: Read
    labels: Mapping[str, str] = field(default_factory=dict)

    def family(self, statistics: Mapping[str, Any]) -> Metric:
        names = tuple(self.labels)
        if self.type == "histogram":
            histogram = HistogramMetricFamily(self.name, self.text, labels=names)
            for values, said in self.read(statistics):
                buckets = [(_bound(bound), count) for bound, count in said["buckets"].items()]
                histogram.add_metric(values, [*buckets, ("+Inf", said["count"])], said["sum"])
            return histogram
        made = GaugeMetricFamily if self.type == "gauge" else CounterMetricFamily
        family = made(self.name.removesuffix("_total"), self.text, labels=names)
        for values, said in self.read(statistics):
            family.add_metric(values, said)
        return family


def _bound(bound: float) -> str:
    """As kube-scheduler writes it: dashboards may ask for it as a text."""
    return f"{bound:.12g}"


# --- where the numbers are -------------------------------------------------------------------------------------------


def section(statistics: Mapping[str, Any], *path: str) -> Mapping[str, Any]:
    for step in path:
        found = statistics.get(step)
        statistics = found if isinstance(found, Mapping) else {}
    return statistics


def value(*path: str) -> Read:
    """The number at the end of the path; 0 where nothing is."""
    *where, last = path
    return lambda statistics: [((), section(statistics, *where).get(last, 0))]


def given(*path: str) -> Read:
    """The number at the end of the path; no sample where nothing is."""
    *where, last = path

    def read(statistics: Mapping[str, Any]) -> Iterable[Sample]:
        found = section(statistics, *where).get(last)
        return [((), found)] if isinstance(found, int | float) else []

    return read


def by_key(
    *path: str, but: tuple[str, ...] = (), only: tuple[str, ...] | None = None, always: tuple[str, ...] = ()
) -> Read:
    """The numbers of a mapping, by their key. Those of `always` are there from the start: the first time that something
    is counted can be seen only beside the 0 that was there before.
    """

    def read(statistics: Mapping[str, Any]) -> Iterable[Sample]:
        found = section(statistics, *path)
        for key in dict.fromkeys((*always, *found)) if only is None else only:
            if key not in but:
                yield (str(key),), found.get(key, 0)

    return read


def by_two_keys(*path: str) -> Read:
    def read(statistics: Mapping[str, Any]) -> Iterable[Sample]:
        for first, counts in section(statistics, *path).items():
            for second, number in counts.items():
                yield (first, second), number

    return read


def histogram(*path: str) -> Read:
    *where, last = path

    def read(statistics: Mapping[str, Any]) -> Iterable[Sample]:
        found = section(statistics, *where).get(last)
        return [((), found)] if found else []

    return read
