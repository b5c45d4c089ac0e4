"""Pictures of a result as inline SVG: nodes as cells by zone, and the use of each zone as bars.

Colours are classes, which the page's style sheet defines for light and dark. Each picture has a title that says in
words what it shows, and each cell its own.
"""

from collections.abc import Iterator, Mapping, Sequence
from html import escape
from typing import Final

from berth.policy.wording import count
from berth.whatif.usage import NodeUse, Usage
from berth.whatif.wording import percent

CELL, GAP, COLUMNS = 11, 2, 50  # pixels, and cells in a row
HEAD: Final = 18
LEVELS: Final = (0.0, 0.2, 0.4, 0.6, 0.75, 0.9, 1.0)  # a node's share begins a new colour at each of these
BAR_WIDTH, BAR_HEIGHT, LABEL_WIDTH = 360, 12, 110


def heat_map(usage: Usage, resource: str, title: str) -> str:
    """Returns a cell for each node, in blocks by zone, the darker the more of the resource is requested."""
    zones: dict[str, list[NodeUse]] = {}
    for node in usage.nodes:
        zones.setdefault(node.zone, []).append(node)
    parts, top = [], 0
    for zone, nodes in sorted(zones.items()):
        parts.append(f'<text x="0" y="{top + 12}">{escape(zone)} ({len(nodes):,})</text>')
        parts += _cells(nodes, resource, top + HEAD)
        top += HEAD + _rows(len(nodes)) * (CELL + GAP) + GAP
    return _picture(COLUMNS * (CELL + GAP), max(top, 1), title, parts)


def _cells(nodes: Sequence[NodeUse], resource: str, top: int) -> Iterator[str]:
    for place, node in enumerate(nodes):
        share: float = getattr(node, resource)
        x, y = place % COLUMNS * (CELL + GAP), top + place // COLUMNS * (CELL + GAP)
        cordoned = ", cordoned" if node.cordoned else ""
        words = f"{node.name}: {resource} {percent(share)}, {count(node.pods, 'pod')}{cordoned}"
        shade = "cordoned" if node.cordoned else f"level{_level(share)}"
        yield (
            f'<rect x="{x}" y="{y}" width="{CELL}" height="{CELL}" rx="2" class="{shade}">'
            f"<title>{escape(words)}</title></rect>"
        )


def zone_bars(before: Usage, after: Usage, resource: str, title: str) -> str:
    """Returns two bars for each zone, before and after, as long as the share of the resource that is requested."""
    zones = sorted({*before.zones, *after.zones})
    parts = []
    for place, zone in enumerate(zones):
        top = place * (2 * BAR_HEIGHT + 12)
        parts.append(f'<text x="0" y="{top + BAR_HEIGHT + 4}">{escape(zone)}</text>')
        for row, (usage, shade) in enumerate(((before, "before"), (after, "after"))):
            parts += _bar(_zone_share(usage, zone, resource), shade, top + row * BAR_HEIGHT)
    return _picture(LABEL_WIDTH + BAR_WIDTH + 60, len(zones) * (2 * BAR_HEIGHT + 12), title, parts)


def _bar(share: float, shade: str, top: int) -> Iterator[str]:
    width = max(1, round(BAR_WIDTH * min(share, 1.0)))
    yield f'<rect x="{LABEL_WIDTH}" y="{top}" width="{BAR_WIDTH}" height="{BAR_HEIGHT - 2}" class="track"/>'
    yield f'<rect x="{LABEL_WIDTH}" y="{top}" width="{width}" height="{BAR_HEIGHT - 2}" class="{shade}"/>'
    yield f'<text x="{LABEL_WIDTH + BAR_WIDTH + 6}" y="{top + BAR_HEIGHT - 2}">{percent(share)}</text>'


def spread_bars(before: Mapping[str, int], after: Mapping[str, int], title: str) -> str:
    """Returns two bars for each zone, as long as the number of a workload's pods there."""
    zones = sorted({*before, *after})
    most = max((*before.values(), *after.values(), 1))
    parts = []
    for place, zone in enumerate(zones):
        top = place * (2 * BAR_HEIGHT + 8)
        parts.append(f'<text x="0" y="{top + BAR_HEIGHT + 4}">{escape(zone)}</text>')
        for row, (counts, shade) in enumerate(((before, "before"), (after, "after"))):
            number, y = counts.get(zone, 0), top + row * BAR_HEIGHT
            width = round(BAR_WIDTH * number / most)
            parts.append(f'<rect x="{LABEL_WIDTH}" y="{y}" width="{width}" height="{BAR_HEIGHT - 2}" class="{shade}"/>')
            parts.append(f'<text x="{LABEL_WIDTH + width + 6}" y="{y + BAR_HEIGHT - 2}">{number:,}</text>')
    return _picture(LABEL_WIDTH + BAR_WIDTH + 60, len(zones) * (2 * BAR_HEIGHT + 8), title, parts)


def _zone_share(usage: Usage, zone: str, resource: str) -> float:
    use = usage.zones.get(zone)
    return use.resources[resource].share if use is not None and resource in use.resources else 0.0


def _picture(width: int, height: int, title: str, parts: Sequence[str]) -> str:
    body = "".join(parts)
    words = escape(title)
    return (
        f'<svg viewBox="0 0 {width} {height}" width="{width}" height="{height}" role="img" aria-label="{words}">'
        f"<title>{words}</title>{body}</svg>"
    )


def _rows(cells: int) -> int:
    return -(-cells // COLUMNS)


def _level(share: float) -> int:
    return sum(share >= least for least in LEVELS) - 1
