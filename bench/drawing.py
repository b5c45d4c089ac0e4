"""A picture of pods/s, as SVG text: for each workload a bar for each scheduler."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from html import escape

from bench.results import Row

COLOURS = {"kube-scheduler": "#8a94a6", "berth": "#1f7a5c", "bind-only": "#d9dde3"}
OTHER_COLOUR = "#b98b2f"
LABEL_WIDTH, BAR_WIDTH, RIGHT_WIDTH = 300, 380, 120
BAR_HEIGHT, GAP, MARGIN, LEGEND_HEIGHT = 14, 12, 16, 28
FONT = "font-family='system-ui, sans-serif' font-size='12'"
INK, FAINT = "#1c2430", "#5b6472"


def draw(rows: Sequence[Row]) -> str:
    """The picture; rows of one workload lie together, as `summarise` has them."""
    groups = [list(group) for _, group in itertools.groupby(rows, key=lambda row: row.workload)]
    most = max((row.pods_per_second for row in rows), default=0.0) or 1.0
    parts = _legend(list(dict.fromkeys(row.scheduler for row in rows)))
    top = MARGIN + LEGEND_HEIGHT
    for group in groups:
        parts += _group(group, top, most)
        top += len(group) * BAR_HEIGHT + GAP
    width, height = LABEL_WIDTH + BAR_WIDTH + RIGHT_WIDTH, top + MARGIN - GAP
    head = (
        f"<svg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 {width} {height}' width='{width}' height='{height}' "
        f"role='img' aria-label='Pods a second by workload and scheduler' {FONT}>"
    )
    return "\n".join([head, f"<rect width='{width}' height='{height}' rx='6' fill='#ffffff'/>", *parts, "</svg>", ""])


def _legend(schedulers: Sequence[str]) -> list[str]:
    parts, left = [], LABEL_WIDTH
    for scheduler in schedulers:
        parts.append(f"<rect x='{left}' y='{MARGIN}' width='12' height='12' fill='{_colour(scheduler)}'/>")
        parts.append(_text(left + 18, MARGIN + 10, scheduler, FAINT))
        left += 36 + 7 * len(scheduler)
    return [*parts, _text(LABEL_WIDTH - 10, MARGIN + 10, "pods/s", FAINT, anchor="end")]


def _group(rows: Sequence[Row], top: int, most: float) -> list[str]:
    name = rows[0].workload.partition("/")[0]
    middle = top + len(rows) * BAR_HEIGHT / 2 + 4
    parts = [_text(LABEL_WIDTH - 10, middle, name, INK, anchor="end")]
    for number, row in enumerate(rows):
        y = top + number * BAR_HEIGHT
        width = max(1.0, BAR_WIDTH * row.pods_per_second / most)
        bar = f"x='{LABEL_WIDTH}' y='{y + 1}' width='{width:.1f}' height='{BAR_HEIGHT - 2}'"
        parts.append(f"<rect {bar} fill='{_colour(row.scheduler)}'/>")
        parts.append(_text(LABEL_WIDTH + width + 6, y + 11, _value(row), INK))
    return parts


def _value(row: Row) -> str:
    ratio = "" if row.ratio is None or row.ratio == 1 else f" ({row.ratio:.1f}x)"
    return f"{row.pods_per_second:.0f}{ratio}"


def _colour(scheduler: str) -> str:
    return COLOURS.get(scheduler, OTHER_COLOUR)


def _text(x: float, y: float, text: str, colour: str, anchor: str = "start") -> str:
    return f"<text x='{x:.0f}' y='{y:.0f}' fill='{colour}' text-anchor='{anchor}'>{escape(text)}</text>"
