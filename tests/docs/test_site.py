"""The site has every page, and what it is made with works without the network."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"


class Loader(yaml.SafeLoader):
    """Reads mkdocs.yml, with the function that it names left out."""


Loader.add_multi_constructor("tag:yaml.org,2002:python/", lambda loader, suffix, node: None)
SITE = yaml.load((ROOT / "mkdocs.yml").read_text(), Loader)  # it is a SafeLoader


def pages_of(entry: Any) -> Iterator[str]:
    """Yields the pages of a part of the navigation."""
    if isinstance(entry, str):
        yield entry
    else:
        for part in entry if isinstance(entry, list) else entry.values():
            yield from pages_of(part)


def test_every_page_is_in_the_navigation_once() -> None:
    pages = sorted(str(path.relative_to(DOCS)) for path in DOCS.rglob("*.md"))
    listed = sorted(pages_of(SITE["nav"]))
    assert listed == [page for page in pages if not page.startswith("decisions/0")], "list new pages in mkdocs.yml"


@pytest.mark.parametrize("page", sorted((DOCS / "decisions").glob("0*.md")), ids=lambda page: page.name)
def test_every_decision_is_in_the_table(page: Path) -> None:
    number, (title, *_) = page.name.split("-")[0], page.read_text().splitlines()
    row = f"| [{number}]({page.name}) | {title.split('. ', 1)[1]} |"
    assert row in (DOCS / "decisions" / "index.md").read_text().splitlines()


def test_the_site_asks_for_nothing_from_outside() -> None:
    assert SITE["theme"]["font"] is False
