"""Metrics in the Prometheus format, read from `statistics()` at the moment somebody asks.

Nothing is counted here: long-lived objects keep their own counts and this module names them. Names of kube-scheduler
are used where the meaning is the same, `berth_*` elsewhere. Labels take values from fixed sets only (queue parts,
outcomes, kinds).
"""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

Statistics = Callable[[], Mapping[str, Any]]


class StatisticsCollector(Collector):
    """Names the numbers that `statistics()` returns."""

    def __init__(self, statistics: Statistics) -> None:
        self._statistics = statistics

    def collect(self) -> Iterable[Metric]:
        statistics = self._statistics()
        yield _gauge(
            "scheduler_pending_pods",
            "Pods waiting for a node, by the part of the queue they are in.",
            "queue",
            _section(statistics, "scheduler", "queue"),
        )
        yield _counter(
            "scheduler_schedule_attempts",
            "Attempts to schedule pods, by the result.",
            "result",
            _section(statistics, "scheduler", "attempts"),
        )
        yield from _binds(_section(statistics, "scheduler", "binds"))
        yield from _volumes(_section(statistics, "scheduler", "volumes"))
        yield from _cache(_section(statistics, "scheduler", "cache"))
        yield _value(
            "berth_missing_echoes",
            "Binds that the API server has acknowledged and the watch has not shown for 30 seconds.",
            _section(statistics, "scheduler").get("echo_missing", 0),
        )
        yield _counter(
            "berth_faults",
            "Errors of Berth itself that cost one object or one step, by what it was doing.",
            "doing",
            Counter(_section(statistics, "scheduler", "faults")) + Counter(_section(statistics, "faults")),
        )
        yield from _edge(statistics)


def render(statistics: Statistics) -> bytes:
    """The text that a Prometheus server scrapes."""
    registry = CollectorRegistry(auto_describe=False)
    registry.register(StatisticsCollector(statistics))
    return generate_latest(registry)


def _binds(binds: Mapping[str, Any]) -> Iterable[Metric]:
    outcomes = {outcome: count for outcome, count in binds.items() if outcome != "running"}
    yield _counter("berth_binds", "Binds by how they ended.", "outcome", outcomes)
    yield _value("berth_binds_running", "Binds that are on their way.", binds.get("running", 0))


def _volumes(volumes: Mapping[str, Any]) -> Iterable[Metric]:
    outcomes = {outcome: count for outcome, count in volumes.items() if outcome != "waiting"}
    text = "Pods whose volumes were to be bound first, by how that ended."
    yield _counter("berth_volume_bindings", text, "outcome", outcomes)
    text = "Pods with a node whose volumes are being bound."
    yield _value("berth_volume_bindings_waiting", text, volumes.get("waiting", 0))


def _cache(cache: Mapping[str, Any]) -> Iterable[Metric]:
    yield _gauge("berth_objects", "Objects that the watches have shown, by kind.", "kind", _section(cache, "objects"))
    yield _gauge(
        "berth_invalid_objects",
        "Objects left out because a field makes no sense, by kind.",
        "kind",
        _section(cache, "invalid"),
    )
    yield _total("berth_old_news", "Reports that were older than what was known.", cache.get("old_news", 0))


def _edge(statistics: Mapping[str, Any]) -> Iterable[Metric]:
    census = _section(statistics, "census")
    yield _gauge("berth_kind_whole", "1 for each kind whose first list is whole.", "kind", _section(census, "whole"))
    yield _total("berth_ghosts", "Objects removed because a list no longer had them.", census.get("ghosts", 0))
    yield _total(
        "berth_missed_objects", "Objects fetched because the watch did not deliver them.", census.get("missed", 0)
    )
    events = _section(statistics, "cluster", "events")
    yield _value("berth_events_waiting", "Events that wait to be posted.", events.get("waiting", 0))
    yield _counter(
        "berth_events",
        "Events by what became of them.",
        "result",
        {result: events.get(result, 0) for result in ("posted", "failed", "dropped")},
    )
    conditions = _section(statistics, "cluster", "conditions")
    yield _value("berth_conditions_waiting", "Pod conditions that wait to be written.", conditions.get("waiting", 0))
    yield _counter(
        "berth_conditions",
        "Pod conditions by what became of them.",
        "result",
        {result: conditions.get(result, 0) for result in ("written", "gone", "refused", "retried")},
    )
    yield _value("berth_api_reachable", "1 while the API server answers.", statistics.get("api_reachable", 0))
    yield _total(
        "berth_watch_restarts",
        "How often kopf's watching ended with an error and was started again.",
        statistics.get("watch_restarts", 0),
    )


def _section(statistics: Mapping[str, Any], *path: str) -> Mapping[str, Any]:
    for step in path:
        found = statistics.get(step)
        statistics = found if isinstance(found, Mapping) else {}
    return statistics


def _gauge(name: str, text: str, label: str, values: Mapping[str, Any]) -> Metric:
    family = GaugeMetricFamily(name, text, labels=[label])
    for key, value in values.items():
        if isinstance(value, int | float):
            family.add_metric([str(key)], value)
    return family


def _counter(name: str, text: str, label: str, values: Mapping[str, Any]) -> Metric:
    family = CounterMetricFamily(name, text, labels=[label])
    for key, value in values.items():
        family.add_metric([str(key)], value)
    return family


def _value(name: str, text: str, value: float) -> Metric:
    return GaugeMetricFamily(name, text, value=value)


def _total(name: str, text: str, value: float) -> Metric:
    return CounterMetricFamily(name, text, value=value)
