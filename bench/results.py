"""What the rounds of a benchmark on a cluster have shown: one record a round, medians, tables.

Rounds are kept as they were measured, so that runs of single workloads can be put together afterwards.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from statistics import median
from typing import Any

BASELINE = "kube-scheduler"
LOWER, UPPER = 0.05, 0.95
DISTURBED = 0.1


class NoReport(Exception):
    """A file cannot be read as a report."""


@dataclass(frozen=True, slots=True)
class Round:
    """One workload with one scheduler, once. `cpu_seconds` are those of the scheduler from the first measured pod until
    it had nothing more to do, `client_cpu_seconds` those of the benchmark's client until the last pod was bound.
    `others_share` is how much of the machine's processor time meanwhile went to what is no part of the benchmark.
    """

    workload: str
    scheduler: str
    nodes: int
    pods: int
    pods_per_second: float
    p50_seconds: float
    p99_seconds: float
    cpu_seconds: float
    start_cpu_seconds: float
    peak_memory_mb: float
    client_cpu_seconds: float
    ready_seconds: float
    events: int
    others_share: float = 0.0
    changed: dict[str, list[int]] = field(default_factory=dict)
    arguments: list[str] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Row:
    """The medians of one scheduler in one workload; `ratio` is to kube-scheduler."""

    workload: str
    scheduler: str
    nodes: int
    pods: int
    rounds: int
    pods_per_second: float
    ratio: float | None
    p50_seconds: float
    p99_seconds: float
    cpu_seconds: float
    cpu_ms_a_pod: float
    peak_memory_mb: float
    others_share: float
    changed: str


def pods_per_second(bound: Iterable[float]) -> float:
    """Of the moments at which pods were bound: those between 5 % and 95 % of them."""
    moments = sorted(bound)
    last = len(moments) - 1
    lower, upper = round(LOWER * last), round(UPPER * last)
    if upper <= lower:
        return 0.0
    return (upper - lower) / max(moments[upper] - moments[lower], 1e-6)


def quantile(values: Sequence[float], share: float) -> float:
    """The value that so many are not above; 0 of nothing."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))] if ordered else 0.0


def summarise(rounds: Sequence[Round]) -> list[Row]:
    """One row for each workload and scheduler, in the order in which they first came."""
    groups: dict[tuple[str, str], list[Round]] = {}
    for one in rounds:
        groups.setdefault((one.workload, one.scheduler), []).append(one)
    baselines = {
        workload: median(one.pods_per_second for one in group)
        for (workload, scheduler), group in groups.items()
        if scheduler == BASELINE
    }
    order = list(dict.fromkeys(workload for workload, _ in groups))
    rows = [_row(group, baselines.get(workload)) for (workload, _), group in groups.items()]
    return sorted(rows, key=lambda row: order.index(row.workload))


def _row(group: Sequence[Round], baseline: float | None) -> Row:
    def middle(name: str) -> float:
        return float(median(getattr(one, name) for one in group))

    speed, first = middle("pods_per_second"), group[0]
    return Row(
        first.workload,
        first.scheduler,
        first.nodes,
        first.pods,
        len(group),
        speed,
        speed / baseline if baseline else None,
        middle("p50_seconds"),
        middle("p99_seconds"),
        middle("cpu_seconds"),
        1000 * middle("cpu_seconds") / max(1, first.pods),
        middle("peak_memory_mb"),
        max(one.others_share for one in group),
        ", ".join(f"{name} {now:,} instead of {before:,}" for name, (before, now) in first.changed.items()),
    )


# -- files -----------------------------------------------------------------------------------------------------------


def read_report(paths: Iterable[Path]) -> dict[str, Any]:
    """The reports of several runs as one: the rounds and cold starts of all, the rest of the last."""
    report: dict[str, Any] = {}
    together: dict[str, list[Any]] = {"rounds": [], "cold_starts": []}
    for path in paths:
        try:
            report = json.loads(path.read_text())
        except (OSError, ValueError) as error:
            raise NoReport(f"{path} is not a report of this benchmark: {error}") from error
        for name, entries in together.items():
            entries += report.get(name, [])
    return {**report, **together}


def rounds_of(report: dict[str, Any]) -> list[Round]:
    return [Round(**one) for one in report["rounds"]]


def make_report(rounds: Sequence[Round], **more: Any) -> dict[str, Any]:
    return {**more, "rounds": [asdict(one) for one in rounds]}


# -- tables ----------------------------------------------------------------------------------------------------------


HEADS = ("scheduler", "pods/s", "ratio", "p50", "p99", "CPU", "CPU/pod", "memory")


def table(rows: Sequence[Row]) -> str:
    """For a terminal: the workload, then a line for each scheduler."""
    lines = []
    for workload, group in itertools.groupby(rows, key=lambda row: row.workload):
        members = list(group)
        lines += ["", f"{workload}: {members[0].nodes:,} nodes, {members[0].pods:,} measured pods"]
        if members[0].changed:
            lines.append(f"  {members[0].changed}")
        lines.append(f"  {HEADS[0]:<16}" + "".join(f"{head:>10}" for head in HEADS[1:]))
        lines += [f"  {row.scheduler:<16}" + "".join(f"{cell:>10}" for cell in _cells(row)) for row in members]
        if (share := max(row.others_share for row in members)) > DISTURBED:
            lines.append(f"  other programs took up to {share:.0%} of the machine: measure again when it is quiet")
    return "\n".join(lines[1:])


def markdown(rows: Sequence[Row]) -> str:
    """For a page."""
    heads = ("workload", "nodes, pods", *HEADS)
    lines = ["| " + " | ".join(heads) + " |", "|" + "---|" * len(heads)]
    for workload, group in itertools.groupby(rows, key=lambda row: row.workload):
        for number, row in enumerate(group):
            name = (workload.partition("/")[0], f"{row.nodes:,}, {row.pods:,}") if number == 0 else ("", "")
            lines.append("| " + " | ".join((*name, row.scheduler, *_cells(row))) + " |")
    return "\n".join(lines)


def _cells(row: Row) -> tuple[str, ...]:
    return (
        f"{row.pods_per_second:.0f}",
        "-" if row.ratio is None else f"{row.ratio:.2f}",
        f"{row.p50_seconds:.2f} s",
        f"{row.p99_seconds:.2f} s",
        f"{row.cpu_seconds:.1f} s",
        f"{row.cpu_ms_a_pod:.2f} ms",
        f"{row.peak_memory_mb:.0f} MB",
    )
