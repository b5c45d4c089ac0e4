"""Pictures on pages: that of the figures shows the table below it, and that of the demo is drawn as it is now."""

import re
from pathlib import Path

from berth.demo import drawing
from berth.demo.svg import save_svg
from demo.test_views import scene_at, small_picture
from support.repository import ROOT

IMAGES = ROOT / "docs" / "images"
FIGURES = (ROOT / "docs" / "performance.md").read_text(encoding="utf-8").split("### Figures")[1]


def texts(svg: str) -> list[str]:
    return [text.replace("&#160;", " ").strip() for text in re.findall(r">([^<>]*)</text>", svg)]


def figures_of_the_table() -> list[tuple[str, str]]:
    """Workload and pods a second, row by row; the first row of a workload has its name."""
    found, workload = [], ""
    for line in FIGURES.splitlines():
        cells = [cell.strip() for cell in line.split("|")[1:-1]]
        if len(cells) == 10 and re.fullmatch(r"[\d,]+", cells[3]):
            workload = cells[0] or workload
            found.append((workload, cells[3].replace(",", "")))
    return found


def test_the_picture_of_the_figures_shows_the_table() -> None:
    shown, workload = [], ""
    for text in texts((IMAGES / "performance.svg").read_text(encoding="utf-8")):
        if re.fullmatch(r"[\d,]+(?: \([\d.]+x\))?", text):
            shown.append((workload, text.split(" ")[0].replace(",", "")))
        elif text[:1].isupper():
            workload = text
    assert shown
    assert shown == figures_of_the_table()[: len(shown)]


def test_the_picture_of_the_demo_is_as_wide_and_has_the_panels_that_the_demo_draws(tmp_path: Path) -> None:
    """`berth demo --picture docs/images/demo.svg` makes it again."""
    save_svg(scene_at(2.0, small_picture()), tmp_path / "now.svg")
    now, shown = (path.read_text(encoding="utf-8") for path in (tmp_path / "now.svg", IMAGES / "demo.svg"))
    titles = re.findall(r'panel\(.*"([A-Z][^"]+)"\)', Path(drawing.__file__).read_text(encoding="utf-8"))
    assert titles
    assert all(title in texts(now) and title in texts(shown) for title in titles)
    assert re.findall(r"viewBox=\S+ \S+ \S+", shown) == re.findall(r"viewBox=\S+ \S+ \S+", now)
