"""The picture as rich draws it: a bar a node, zone by zone; how full nodes are, then and now; queue, rate, decisions.

`draw` is a function of a scene and a size, and fills the size. With many nodes a bar stands for several of them; on a
high terminal bars are several lines high, and the list of decisions takes the lines that are left. Where there is too
little room for the panels in the middle, the most important numbers stand in two lines. `draw_end` draws the bars
alone, for the end. Colours are styles, which rich leaves out where there is no terminal to show them.
"""

import textwrap
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from rich.console import Group, RenderableType
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from berth.demo.picture import BUCKETS, DrawnNode, Fullness, Picture, bucket, fullness_of
from berth.policy.wording import count

STEPS = "▁▂▃▄▅▆▇█"
NOTHING = "·"
# By bucket of the histogram: nothing, then from cool to warm.
COLOURS = ("bright_black", "blue", "cyan", "green", "yellow", "red")
BORDER = "bright_black"
CURVE_SECONDS = 40
# The panels in the middle stand side by side from this width on; the bars in the left one take what is left.
SIDE_BY_SIDE_CELLS = 72
RIGHT_CELLS, MOST_RIGHT_CELLS = 34, 46
# Around the two bars of a line: borders, the bucket's name, gaps, and the numbers behind the bars.
BESIDE_BARS_CELLS = 27
FEWEST_BAR_CELLS, MOST_BAR_CELLS = 4, 24
FEWEST_DECISIONS, ENOUGH_DECISIONS = 1, 6
MOST_REASON_LINES = 3
MOST_BAR_LINES = 4
# The lines of the panels in the middle: side by side, one above the other, and as two lines of numbers.
BESIDE_LINES, STACKED_LINES, COMPACT_LINES = 9, 18, 4
# The borders of the two other panels, and the headline.
BORDER_LINES = 5
# Everything but zone bars and decisions with panels side by side and three zones, which have a title each.
FRAME_LINES = BESIDE_LINES + BORDER_LINES + 3
COMPACT_CURVE_CELLS = 50  # that the numbers beside it take

Part = Callable[[int], RenderableType]
"""Draws something that is this many cells wide."""


@dataclass(frozen=True, slots=True)
class Scene:
    """What there is to draw: the picture, where the story is, and how nodes were filled when the policy changed."""

    picture: Picture
    now_seconds: float
    title: str
    headline: str
    planned: int
    before: Fullness | None = None


def draw(scene: Scene, width: int, height: int) -> RenderableType:
    """Returns the screen, at most `height` lines of `width` cells if that is possible at all."""
    zones, reasons = scene.picture.zones(), _reasons(scene, width - 4)
    least = BORDER_LINES + 2 * len(zones) + FEWEST_DECISIONS + min(1, len(reasons))
    middle, middle_lines = _middle(scene, width, height - least)
    room = height - BORDER_LINES - len(zones) - middle_lines
    reasons = cut_lines(reasons, min(MOST_REASON_LINES, room - len(zones) - FEWEST_DECISIONS))
    drawn = _zones(zones, width - 4, room - len(reasons))
    room -= len(reasons) + sum(len(lines) for _, lines in drawn)
    return Group(
        panel(_zone_group(drawn), _headline(scene)),
        middle,
        panel(_decisions(scene, room, reasons), "Last decisions"),
    )


def draw_end(scene: Scene, width: int, height: int) -> RenderableType:
    """Returns the bars of all nodes alone, for text below: `height` lines at most, and `end_lines` at least."""
    zones = scene.picture.zones()
    room = max(height - 2 - len(zones), len(zones))
    return panel(_zone_group(_zones(zones, width - 4, room + ENOUGH_DECISIONS)), _headline(scene))


def end_lines(scene: Scene) -> int:
    """How many lines `draw_end` has at least."""
    return 2 + 2 * len(scene.picture.zones())


def cut_lines(lines: Sequence[str], most: int) -> list[str]:
    """Returns the first lines; the last one shows that there would be more."""
    shown = list(lines[: max(0, most)])
    if shown and len(shown) < len(lines):
        shown[-1] = f"{shown[-1][:-1]}…"
    return shown


def panel(content: RenderableType, title: str | Text) -> Panel:
    """Returns the content with a border and a title."""
    return Panel(content, title=title, border_style=BORDER, title_align="left")


def _headline(scene: Scene) -> Text:
    return Text.assemble(("Berth demo", "bold"), f"  {scene.title}  ", (f"{scene.now_seconds:4.1f} s", "bold"))


# --- zones -----------------------------------------------------------------------------------------------------------


def draw_zones(zones: Mapping[str, Sequence[DrawnNode]], width: int, height: int) -> tuple[RenderableType, int]:
    """Returns a title and bars for each zone, and how many lines of the screen are left beside the other panels."""
    drawn = _zones(zones, width, height - FRAME_LINES)
    return _zone_group(drawn), height - FRAME_LINES - sum(len(lines) for _, lines in drawn)


def _zone_group(zones: Sequence[tuple[Text, list[Text]]]) -> RenderableType:
    return Group(*(line for title, lines in zones for line in (title, *lines)))


def _zones(zones: Mapping[str, Sequence[DrawnNode]], width: int, room: int) -> list[tuple[Text, list[Text]]]:
    """The title and the bars of each zone. The bars are as high as `room` allows, of which decisions get enough."""
    count = max(1, len(zones))
    most_nodes = max((len(nodes) for nodes in zones.values()), default=0)
    most_lines = max(1, (room - FEWEST_DECISIONS) // count)
    together = max(1, -(-most_nodes // max(1, width * most_lines)))
    lines = max(1, -(-most_nodes // (max(1, width) * together)))
    high = min(MOST_BAR_LINES, max(1, (room - ENOUGH_DECISIONS) // (count * lines)))
    return [(_zone_title(zone, nodes, together), _bars(nodes, together, width, high)) for zone, nodes in zones.items()]


def _zone_title(zone: str, nodes: Sequence[DrawnNode], together: int) -> Text:
    fullness = fullness_of(nodes)
    title = Text.assemble(
        (zone or "no zone", "bold"),
        f"  {count(fullness.nodes, 'node')}, {fullness.in_use} in use, ",
        (f"{fullness.empty} empty", "bold" if fullness.empty else ""),
        f", cpu {fullness.cpu_percent:.0f} %",
    )
    if together > 1:
        title.append(f" (a bar is {together} nodes)", "bright_black")
    return _one_line(title)


def _bars(nodes: Sequence[DrawnNode], together: int, width: int, high: int) -> list[Text]:
    groups = [nodes[start : start + together] for start in range(0, len(nodes), together)]
    bars = [_bar(fullness_of(group), high) for group in groups]
    return [
        Text.assemble(*((cells[line], colour) for cells, colour in bars[start : start + width]))
        for start in range(0, len(bars), width)
        for line in range(high)
    ]


def _bar(fullness: Fullness, high: int) -> tuple[str, str]:
    """As many characters as bars are high, from the top down, and their colour."""
    if fullness.empty == fullness.nodes:
        return NOTHING.rjust(high), COLOURS[0]
    steps = len(STEPS) * high
    step = 1 + min(steps - 1, int(fullness.cpu_percent * steps / 100))
    whole, part = divmod(step, len(STEPS))
    bar = (STEPS[part - 1] if part else "") + STEPS[-1] * whole
    return bar.rjust(high), COLOURS[bucket(fullness.in_use, fullness.cpu_percent)]


# --- how full, queue, rate -------------------------------------------------------------------------------------------


def _middle(scene: Scene, width: int, room: int) -> tuple[RenderableType, int]:
    """The panels that fit into so many lines, and how many they have."""
    lines = BESIDE_LINES if width >= SIDE_BY_SIDE_CELLS else STACKED_LINES
    if room < lines:
        return _compact_panel(scene, width), COMPACT_LINES
    now = scene.picture.fullness()
    columns = [("now", now)] if scene.before is None else [("before", scene.before), ("now", now)]
    return side_by_side(
        lambda cells: histogram(columns, cells), lambda cells: _numbers_panel(scene, cells), width
    ), lines


def side_by_side(left: Part, right: Part, width: int) -> RenderableType:
    """Returns two panels beside each other if there is room, otherwise one above the other."""
    if width < SIDE_BY_SIDE_CELLS:
        return Group(left(width), right(width))
    cells = min(MOST_RIGHT_CELLS, max(RIGHT_CELLS, width // 3))
    grid = Table.grid(expand=True)
    grid.add_column(ratio=1)
    grid.add_column(width=cells)
    grid.add_row(left(width - cells), right(cells))
    return grid


def histogram(columns: Sequence[tuple[str, Fullness]], width: int) -> Panel:
    """Returns how many nodes are how full, in a column for each moment."""
    cells = max(FEWEST_BAR_CELLS, min(MOST_BAR_CELLS, (width - BESIDE_BARS_CELLS) // 2))
    table = Table.grid(padding=(0, 2))
    table.add_row(Text("cpu asked"), *(Text(title, "bold") for title, _ in columns))
    for number, name in enumerate(BUCKETS):
        bars = (_length(fullness.histogram[number], fullness.nodes, cells, COLOURS[number]) for _, fullness in columns)
        table.add_row(Text(name, COLOURS[number]), *bars)
    return panel(table, "Nodes by how full they are")


def _length(count: int, whole: int, most_cells: int, colour: str) -> Text:
    cells = -(-count * most_cells // whole) if whole else 0
    return Text.assemble(("█" * cells, colour), f"{' ' if cells else ''}{count}")


def _numbers_panel(scene: Scene, width: int) -> Panel:
    picture, now = scene.picture, scene.now_seconds
    seconds = min(CURVE_SECONDS, max(1, width - 13))
    waiting = picture.waiting()
    table = Table.grid(padding=(0, 2))
    table.add_row("placed", Text(f"{picture.placed} of {scene.planned}", "bold"))
    table.add_row("running", str(picture.running))
    table.add_row("rate", Text(f"{picture.rate(now):.0f} pods/s", "bold"))
    table.add_row("", curve(picture.rates(now, seconds)))
    table.add_row("waiting", Text(str(len(waiting)), "bold"))
    table.add_row("", curve(picture.waits(now, seconds)))
    table.add_row("policy", _policy(picture))
    return panel(table, "Queue and rate")


def _compact_panel(scene: Scene, width: int) -> Panel:
    picture, now = scene.picture, scene.now_seconds
    placing = Text.assemble(
        "placed ",
        (f"{picture.placed} of {scene.planned}", "bold"),
        f", running {picture.running}, {picture.rate(now):.0f} pods/s ",
        curve(picture.rates(now, max(1, min(CURVE_SECONDS, width - COMPACT_CURVE_CELLS)))),
    )
    waiting = Text.assemble("waiting ", (str(len(picture.waiting())), "bold"), ", policy ", _policy(picture))
    return panel(Group(_one_line(placing), _one_line(waiting)), "Queue and rate")


def _one_line(text: Text) -> Text:
    text.no_wrap, text.overflow = True, "ellipsis"
    return text


def curve(numbers: Sequence[int]) -> Text:
    """A line of small bars, the highest number as the highest bar."""
    highest = max(numbers, default=0)
    if not highest:
        return Text(STEPS[0] * len(numbers), COLOURS[0])
    steps = (STEPS[-(-number * (len(STEPS) - 1) // highest)] for number in numbers)
    return Text("".join(steps), "cyan")


def _policy(picture: Picture) -> Text:
    policy = picture.policy
    if policy is None:
        return Text("none yet", "bright_black")
    aim = "packing" if policy.is_packing else "spreading"
    if policy.in_force:
        return Text.assemble((aim, "bold magenta" if policy.is_packing else "bold cyan"), ", in force")
    return Text(f"{aim}, applied", "bright_black")


# --- decisions -------------------------------------------------------------------------------------------------------


def _decisions(scene: Scene, room: int, reasons: Sequence[str]) -> RenderableType:
    most = max(FEWEST_DECISIONS, room)
    latest = list(scene.picture.decisions)[-most:]
    table = Table.grid(padding=(0, 1))
    for decision in reversed(latest):
        table.add_row(
            Text(f"{decision.at_seconds:5.1f} s", "bright_black"),
            Text(decision.pod.partition("/")[2]),
            Text("on", "bright_black"),
            Text(decision.node, "bold"),
            Text(f"which is {decision.percent:.0f} % full now", "bright_black"),
        )
    for _ in range(most - len(latest)):
        table.add_row("")
    shown = [_one_line(Text(line, "bold red" if not number else "")) for number, line in enumerate(reasons)]
    return Group(_one_line(Text(scene.headline, "bold")), table, *shown)


def _reasons(scene: Scene, width: int) -> list[str]:
    """Why a pod is pending, in lines."""
    refused = [f"pending {pod.key.partition('/')[2]}: {pod.refusal}" for pod in scene.picture.waiting() if pod.refusal]
    return [line for text in refused[:1] for line in textwrap.wrap(text, max(1, width))]
