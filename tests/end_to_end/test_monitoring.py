"""Alerts and panels of the chart ask for series that a running Berth exports, with the labels that they name."""

from __future__ import annotations

import asyncio
import re
from dataclasses import dataclass, field

from prometheus_client.parser import text_string_to_metric_families

from chart.test_monitoring import expressions
from control_plane.berth_process import BerthProcess
from control_plane.client import PODS, Client
from end_to_end.watching import StartBerth, are_bound
from support.builders import make_node, make_pod

SERIES = re.compile(r"\b((?:berth|scheduler)_[a-z_]+)(?:\{([^}]*)\})?")
GROUPED = re.compile(r"\b(?:by|on|without|ignoring) ?\(([^)]*)\)")
SUFFIXES = ("_bucket", "_sum", "_count")
# Prometheus itself writes these on every series: which target it is of.
OF_THE_TARGET = {"namespace", "job", "pod", "instance"}


@dataclass(slots=True)
class Exported:
    """What one scrape has: labels, and the values of each, by the name of the series."""

    labels: dict[str, dict[str, set[str]]] = field(default_factory=dict)
    kinds: dict[str, str] = field(default_factory=dict)

    def has(self, name: str) -> bool:
        return name in self.labels or self.kind(name) is not None

    def kind(self, name: str) -> str | None:
        """The type of the metric, by the name of one of its series."""
        stems = [name, name.removesuffix("_total"), *(name.removesuffix(suffix) for suffix in SUFFIXES)]
        return next((self.kinds[stem] for stem in stems if stem in self.kinds), None)


def read_scrape(text: str) -> Exported:
    exported = Exported()
    for family in text_string_to_metric_families(text):
        exported.kinds[family.name] = family.type
        for sample in family.samples:
            seen = exported.labels.setdefault(sample.name, {})
            for label, value in sample.labels.items():
                seen.setdefault(label, set()).add(value)
    return exported


def asked(expression: str) -> list[tuple[str, dict[str, str]]]:
    """The series of an expression, with the labels that it selects by."""
    found = []
    for name, selector in SERIES.findall(expression):
        pairs = re.findall(r'(\w+)(?:=~|=|!=|!~)"([^"]*)"', selector)
        found.append((name, {label: value for label, value in pairs if label not in OF_THE_TARGET}))
    return found


def grouped(expression: str) -> set[str]:
    """The labels that an expression groups or joins by, but for those of the target."""
    labels = {label.strip() for group in GROUPED.findall(expression) for label in group.split(",")}
    return labels - OF_THE_TARGET - {""}


async def test_what_alerts_and_panels_ask_for_is_exported(api: Client, berth_process: StartBerth) -> None:
    await api.create(make_node("n", cpu="2"))
    berth = await asyncio.to_thread(berth_process)
    await api.create_many([make_pod("fits", cpu="1"), make_pod("large", cpu="64")])
    await api.wait_until(PODS, are_bound(1), timeout_seconds=60)

    exported = await _scrape_with_unschedulable(berth)
    problems: list[str] = []
    for expression in expressions():
        problems += _missing(expression, exported)
    assert problems == []
    for wrong in (
        "berth_nothing_total{SELECTOR}",
        'berth_binds_total{SELECTOR,outcome="lost"}',
        "sum by (x) (berth_objects)",
    ):
        assert len(_missing(wrong, exported)) == 1, "a slip would be seen"


async def _scrape_with_unschedulable(berth: BerthProcess) -> Exported:
    """The scrape in which the pod that fits nowhere is counted."""
    async with asyncio.timeout(60):
        while True:
            _, text = await asyncio.to_thread(berth.get, "/metrics")
            if re.search(r'^scheduler_pending_pods\{queue="unschedulable"\} 1\.0$', text, re.MULTILINE):
                return read_scrape(text)
            await asyncio.sleep(0.05)


def _missing(expression: str, exported: Exported) -> list[str]:
    series = asked(expression)
    problems = [f"{expression}: there is no {name}" for name, _ in series if not exported.has(name)]
    for name, selected in series:
        if name in exported.labels:
            there = exported.labels[name]
            for label, pattern in selected.items():
                wanted = set(pattern.split("|"))
                problems += [
                    f'{expression}: no {name} has {label}="{value}"' for value in wanted - there.get(label, set())
                ]
    known = {label for name, _ in series for label in exported.labels.get(name, {})}
    if known:  # a metric whose labels nobody knows beforehand has no series until the first case
        problems += [f"{expression}: no series has the label {label}" for label in grouped(expression) - known]
    return problems
