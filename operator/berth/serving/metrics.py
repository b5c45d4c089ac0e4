"""Metrics in the Prometheus format, read from `statistics()` at each scrape.

Nothing is counted here: long-lived objects have their own counters, and the table (`metric_table`) names them. A metric
with the meaning of one of kube-scheduler's has its name, labels and buckets; all others are `berth_*`. Labels have
values from small sets only: queue parts, outcomes, kinds, and the first scheduler names, plugins and policies.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import Metric
from prometheus_client.registry import Collector

from berth.serving.metric import Definition
from berth.serving.metric_table import TABLE

Statistics = Callable[[], Mapping[str, Any]]


class StatisticsCollector(Collector):
    """Names the numbers that `statistics()` returns."""

    def __init__(self, statistics: Statistics, table: Sequence[Definition]) -> None:
        self._statistics = statistics
        self._table = table

    def collect(self) -> Iterable[Metric]:
        statistics = self._statistics()
        for definition in self._table:
            yield definition.family(statistics)


def render(statistics: Statistics) -> bytes:
    """The text that a Prometheus server scrapes."""
    registry = CollectorRegistry(auto_describe=False)
    registry.register(StatisticsCollector(statistics, TABLE))
    return generate_latest(registry)
