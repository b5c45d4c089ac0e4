"""Metrics in the Prometheus format, read from `statistics()` at the moment somebody asks.

Nothing is counted here: long-lived objects keep their own counts and the table (`metric_table`) names them. Names of
kube-scheduler are used where the meaning is the same, with its labels and buckets, `berth_*` elsewhere. Labels take
values from small sets only: queue parts, outcomes, kinds, and the first so many scheduler names, plugins and policies.
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
