"""The picture as an SVG file, for pages that cannot run the demo.

rich's own template makes the reader's browser fetch a font from somewhere; this one takes what the reader has.
"""

import io
from pathlib import Path

from rich.console import Console

from berth.demo.drawing import Scene, draw

WIDTH_CELLS, HEIGHT_LINES = 100, 34

TEMPLATE = """\
<svg class="rich-terminal" viewBox="0 0 {width} {height}" xmlns="http://www.w3.org/2000/svg">
    <style>
    .{unique_id}-matrix {{
        font-family: Fira Code, DejaVu Sans Mono, Menlo, Consolas, monospace;
        font-size: {char_height}px;
        line-height: {line_height}px;
    }}
    .{unique_id}-title {{
        font-size: 18px;
        font-weight: bold;
        font-family: arial, sans-serif;
    }}
    {styles}
    </style>
    <defs>
    <clipPath id="{unique_id}-clip-terminal">
      <rect x="0" y="0" width="{terminal_width}" height="{terminal_height}" />
    </clipPath>
    {lines}
    </defs>
    {chrome}
    <g transform="translate({terminal_x}, {terminal_y})" clip-path="url(#{unique_id}-clip-terminal)">
    {backgrounds}
    <g class="{unique_id}-matrix">
    {matrix}
    </g>
    </g>
</svg>
"""


def save_svg(scene: Scene, path: Path) -> None:
    """OSError when the file cannot be written."""
    console = Console(record=True, width=WIDTH_CELLS, height=HEIGHT_LINES, file=io.StringIO(), force_terminal=True)
    console.print(draw(scene, WIDTH_CELLS, HEIGHT_LINES))
    svg = console.export_svg(title="berth demo", code_format=TEMPLATE, unique_id="berth-demo")
    path.write_text("\n".join(line.rstrip() for line in svg.splitlines()) + "\n", encoding="utf-8")
