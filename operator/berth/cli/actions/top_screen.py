"""What `berth top` draws: the demo's picture, of a real cluster, as the scheduler's API tells of it.

`draw_top` is a function of a view and a size. What is read how often is in `top`.
"""

from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from berth.demo.drawing import CURVE_SECONDS, curve, draw_zones, histogram, panel, side_by_side
from berth.demo.picture import DrawnNode, fullness_of
from berth.explain_api.durations import age
from berth.model import parse_quantity, to_milli

Body = Mapping[str, Any]

LATEST_LINES: Final = 3  # which pending pods and decisions have on any screen, whatever nodes there are
MOST_PENDING: Final = 4
MOST_DECISIONS: Final = 10
MOST_REASONS: Final = 2


@dataclass(slots=True)
class TopView:
    """What was read last, and the numbers of the latest readings."""

    cluster: Body
    nodes: Sequence[DrawnNode] = ()
    decisions: Sequence[Body] = ()
    pending: Sequence[Body] = ()
    problem: str = ""
    rates: deque[int] = field(default_factory=lambda: deque(maxlen=CURVE_SECONDS))
    waits: deque[int] = field(default_factory=lambda: deque(maxlen=CURVE_SECONDS))


def draw_top(view: TopView, now: datetime, width: int, height: int) -> RenderableType:
    """Returns the screen, at most `height` lines of `width` cells if that is possible at all."""
    zones, room = draw_zones(_by_zone(view.nodes), width - 4, height - LATEST_LINES)
    columns = [("now", fullness_of(view.nodes))]
    return Group(
        panel(zones, _headline(view, now)),
        side_by_side(lambda cells: histogram(columns, cells), lambda cells: _numbers(view, cells), width),
        panel(_latest(view, now, room + LATEST_LINES), "Pending pods and last decisions"),
    )


def drawn_node(body: Body) -> DrawnNode:
    """Returns what is drawn of a NodeView."""
    status = body["status"]
    cpu = next((room for room in status.get("resources") or [] if room["name"] == "cpu"), None)
    there, used = (0, 0) if cpu is None else (_millicores(cpu["allocatable"]), _millicores(cpu["requested"]))
    return DrawnNode(body["metadata"]["name"], status.get("zone", ""), there, used, status.get("podCount", 0))


def _millicores(text: str) -> int:
    return to_milli(parse_quantity(text))


def _by_zone(nodes: Sequence[DrawnNode]) -> dict[str, list[DrawnNode]]:
    zones: dict[str, list[DrawnNode]] = {}
    for node in sorted(nodes, key=lambda node: (node.zone, node.name)):
        zones.setdefault(node.zone, []).append(node)
    return zones


def _headline(view: TopView, now: datetime) -> Text:
    status = view.cluster["status"]
    replica = str(status.get("replica") or "a replica")
    role = Text(f"{replica} leads", "green") if status.get("leads") else Text(f"{replica} does not lead", "bold red")
    headline = Text.assemble(("Berth", "bold"), "  ", role, f"  {now:%H:%M:%S}")
    trouble = view.problem or "; ".join(status.get("problems") or [])
    return headline.append(f"  {trouble}", "bold red") if trouble else headline


def _numbers(view: TopView, width: int) -> RenderableType:
    status = view.cluster["status"]
    cells = max(1, width - 13)
    policies = status.get("policies") or []
    wrong = sum(bool(policy.get("problem")) for policy in policies)
    table = Table.grid(padding=(0, 2))
    table.add_row("placed", Text(f"{status.get('pods', 0)} on {status.get('nodes', 0)} nodes", "bold"))
    table.add_row("rate", Text(f"{(status.get('rates') or {}).get('decisionsPerSecond', 0):g} pods/s", "bold"))
    table.add_row("", curve(list(view.rates)[-cells:]))
    table.add_row("pending", Text(str(status.get("pending", 0)), "bold"))
    table.add_row("", curve(list(view.waits)[-cells:]))
    table.add_row("because", Text(_reasons(status), no_wrap=True, overflow="ellipsis"))
    table.add_row("policies", Text(f"{len(policies)}" + (f", {wrong} with problems" if wrong else "")))
    return panel(table, "Queue and rate")


def _reasons(status: Body) -> str:
    named = [f"{one['pods']} {one['reason']}" for one in (status.get("reasons") or [])[:MOST_REASONS]]
    return ", ".join(named) or "-"


def _latest(view: TopView, now: datetime, room: int) -> RenderableType:
    table = Table.grid(padding=(0, 1))
    for _ in range(5):
        table.add_column(no_wrap=True, overflow="ellipsis")
    pending = view.pending[: min(MOST_PENDING, room // 2)]
    for body in pending:
        status = body["status"]
        reason = status.get("reason") or status.get("state") or ""
        table.add_row(_age(status.get("since"), now), _key(body), Text("waits:", "red"), Text(reason, "bold"), "")
    shown = max(1, min(MOST_DECISIONS, room - len(pending)))
    for body in list(view.decisions)[-shown:][::-1]:
        status = body["status"]
        choice = f"of {status.get('nodesFeasible', 0)} that fitted"
        key = Text(f"{body['metadata'].get('namespace', '')}/{status['podName']}")
        faint = Text(choice, "bright_black")
        table.add_row(_age(status.get("time"), now), key, Text("on", "green"), Text(status["nodeName"], "bold"), faint)
    return table


def _age(moment: object, now: datetime) -> Text:
    return Text(age(moment, now).rjust(6), "bright_black")


def _key(body: Body) -> Text:
    return Text(f"{body['metadata'].get('namespace', '')}/{body['metadata']['name']}")
