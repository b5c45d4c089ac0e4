"""Links between the pages lead somewhere."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), ROOT / "tests" / "conformance" / "README.md"])
LINK = re.compile(r"\]\((?!https?:)([^)#\s]*)(?:#([^)\s]+))?\)")


def links() -> list[tuple[Path, str, str]]:
    return [(page, path, anchor) for page in PAGES for path, anchor in LINK.findall(page.read_text(encoding="utf-8"))]


@pytest.mark.parametrize(
    ("page", "path", "anchor"), links(), ids=lambda part: str(part.name if isinstance(part, Path) else part)
)
def test_a_link_leads_to_a_file_and_a_heading(page: Path, path: str, anchor: str) -> None:
    target = (page.parent / path) if path else page
    assert target.exists()
    if anchor:
        assert anchor in anchors(target)


def anchors(page: Path) -> set[str]:
    """The headings of a page as GitHub names them."""
    headings = re.findall(r"^#+ (.+)$", page.read_text(encoding="utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}
