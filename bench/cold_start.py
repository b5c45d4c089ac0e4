"""How long a scheduler needs from its start to its first bind, on a cluster that is full already; in turns."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from statistics import median
from typing import Any

from bench.contestants import CRDS, LOGS, Settings
from bench.lean import LeanClient
from bench.starting import Start, preparation, started
from bench.terminal import Progress
from control_plane.launcher import ControlPlane
from control_plane.programs import Programs

WORKERS = 64


@dataclass(frozen=True, slots=True)
class ColdStart:
    scheduler: str
    nodes: int
    pods: int
    start: Start


def measure(
    programs: Programs,
    schedulers: Sequence[str],
    nodes: int,
    pods: int,
    rounds: int,
    settings: Settings,
    progress: Progress,
) -> list[ColdStart]:
    """Every scheduler on the same cluster, each time with a new API server."""
    progress.heading(f"cold start: {nodes:,} nodes, {pods:,} bound pods")
    found: list[ColdStart] = []
    with ControlPlane(programs, logs=LOGS) as plane:
        plane.apply_crds(CRDS)
        progress.step(f"creating {nodes:,} nodes and {pods:,} bound pods")
        asyncio.run(_prepare(plane, nodes, pods))
        plane.back_up()
        for number in range(rounds):
            shift = number % len(schedulers)
            for name in [*schedulers[shift:], *schedulers[:shift]]:
                if found:
                    plane.restore()
                progress.step(f"starting {name}")
                start = asyncio.run(_start(plane, name, settings))
                progress.result(f"{name}: first bind after {start.first_bind_seconds:.1f} s")
                found.append(ColdStart(name, nodes, pods, start))
    return found


async def _prepare(plane: ControlPlane, nodes: int, pods: int) -> None:
    async with LeanClient(plane.url, plane.token, connections=WORKERS) as api:
        await api.send_all(preparation(nodes, pods))


async def _start(plane: ControlPlane, name: str, settings: Settings) -> Start:
    async with (
        LeanClient(plane.url, plane.token, connections=4) as api,
        started(plane, api, name, settings) as scheduler,
    ):
        return scheduler.start


def to_report(starts: Sequence[ColdStart]) -> list[dict[str, Any]]:
    return [asdict(one) for one in starts]


def from_report(entries: Sequence[dict[str, Any]]) -> list[ColdStart]:
    return [ColdStart(**{**entry, "start": Start(**entry["start"])}) for entry in entries]


def table(starts: Sequence[ColdStart]) -> str:
    """Medians, as Markdown."""
    heads = ("cold start", "nodes", "bound pods", "first bind", "CPU", "memory", "peak")
    lines = ["| " + " | ".join(heads) + " |", "|" + "---|" * len(heads)]
    groups: dict[tuple[int, int, str], list[Start]] = {}
    for one in starts:
        groups.setdefault((one.nodes, one.pods, one.scheduler), []).append(one.start)
    for (nodes, pods, name), group in sorted(groups.items(), key=lambda item: item[0][:2]):
        cells = (
            name,
            f"{nodes:,}",
            f"{pods:,}",
            f"{median(one.first_bind_seconds for one in group):.2f} s",
            f"{median(one.cpu_seconds for one in group):.1f} s",
            f"{median(one.memory_mb for one in group):.0f} MB",
            f"{median(one.peak_memory_mb for one in group):.0f} MB",
        )
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines)
