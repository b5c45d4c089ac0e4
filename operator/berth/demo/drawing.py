"""The picture as rich draws it: a bar a node, zone by zone; how full nodes are, then and now; queue, rate, decisions.

`draw` is a function of a scene and a size. It fits itself into the size: with many nodes a bar stands for several of
them, and the list of decisions takes the lines that are left. Colours are styles, which rich leaves out where there
is no terminal to show them.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from rich.console import Group, RenderableType
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from berth.demo.picture import BUCKETS, DrawnNode, Fullness, Picture, bucket, fullness_of

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
FEWEST_DECISIONS, MOST_DECISIONS = 1, 8
# Everything but zone bars and decisions: three borders, a title a zone, the table in the middle, the headline.
FRAME_LINES = 17

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
    zones, room = draw_zones(scene.picture.zones(), width - 4, height)
    now = scene.picture.fullness()
    columns = [("now", now)] if scene.before is None else [("before", scene.before), ("now", now)]
    return Group(
        panel(zones, _headline(scene)),
        side_by_side(lambda cells: histogram(columns, cells), lambda cells: _numbers_panel(scene, cells), width),
        panel(_decisions(scene, room, width - 4), "Last decisions"),
    )


def panel(content: RenderableType, title: str | Text) -> Panel:
    """Returns the content with a border and a title."""
    return Panel(content, title=title, border_style=BORDER, title_align="left")


def _headline(scene: Scene) -> Text:
    return Text.assemble(("Berth demo", "bold"), f"  {scene.title}  ", (f"{scene.now_seconds:4.1f} s", "bold"))


# --- zones -----------------------------------------------------------------------------------------------------------


def draw_zones(zones: Mapping[str, Sequence[DrawnNode]], width: int, height: int) -> tuple[RenderableType, int]:
    """Returns a title and bars for each zone, and how many lines of the screen are left beside the other panels."""
    most_lines = max(1, (height - FRAME_LINES - FEWEST_DECISIONS) // max(1, len(zones)))
    most_nodes = max((len(nodes) for nodes in zones.values()), default=0)
    together = max(1, -(-most_nodes // max(1, width * most_lines)))
    drawn = [(_zone_title(zone, nodes, together), _bars(nodes, together, width)) for zone, nodes in zones.items()]
    room = height - FRAME_LINES - sum(len(lines) for _, lines in drawn)
    return Group(*(line for title, lines in drawn for line in (title, *lines))), room


def _zone_title(zone: str, nodes: Sequence[DrawnNode], together: int) -> Text:
    fullness = fullness_of(nodes)
    title = Text.assemble(
        (zone or "no zone", "bold"),
        f"  {fullness.nodes} nodes, {fullness.in_use} in use, ",
        (f"{fullness.empty} empty", "bold" if fullness.empty else ""),
        f", cpu {fullness.cpu_percent:.0f} %",
    )
    return title.append(f" (a bar is {together} nodes)", "bright_black") if together > 1 else title


def _bars(nodes: Sequence[DrawnNode], together: int, width: int) -> list[Text]:
    groups = [nodes[start : start + together] for start in range(0, len(nodes), together)]
    cells = [_bar(fullness_of(group)) for group in groups]
    return [Text.assemble(*cells[start : start + width]) for start in range(0, len(cells), width)]


def _bar(fullness: Fullness) -> tuple[str, str]:
    """A character as high as the nodes are full, and its colour."""
    if fullness.empty == fullness.nodes:
        return NOTHING, COLOURS[0]
    step = min(len(STEPS) - 1, int(fullness.cpu_percent * len(STEPS) / 100))
    return STEPS[step], COLOURS[bucket(fullness.in_use, fullness.cpu_percent)]


# --- how full, queue, rate -------------------------------------------------------------------------------------------


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


def _decisions(scene: Scene, room: int, width: int) -> RenderableType:
    refused = [pod for pod in scene.picture.waiting() if pod.refusal][:1]
    most = max(FEWEST_DECISIONS, min(MOST_DECISIONS, room - 2 * len(refused)))
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
    reasons = [
        Text.assemble(("pending ", "bold red"), (pod.key.partition("/")[2], "bold"), f": {pod.refusal}")
        for pod in refused
    ]
    headline = Text(scene.headline, "bold", no_wrap=True, overflow="ellipsis")
    return Group(headline, table, *reasons)
