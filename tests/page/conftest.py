"""A browser for the run, a page and a site for each test."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from page.browser import Page, chromium, open_page
from page.chromium import MISSING, find_chromium
from page.site import Site, running_site
from page.worlds import fill


@pytest.fixture(scope="session")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    program = find_chromium()
    assert program is not None, MISSING
    with chromium(program, tmp_path_factory.mktemp("chromium")) as address:
        yield address


@pytest.fixture
async def page(browser: str) -> AsyncIterator[Page]:
    """A tab whose console has no errors at the end, which includes what the Content-Security-Policy refuses."""
    async with open_page(browser) as page:
        yield page
        assert page.complaints == []


@pytest.fixture
async def site(tmp_path: Path) -> AsyncIterator[Site]:
    """The page of a cluster of sixty nodes."""
    async with running_site(tmp_path) as site:
        fill(site.port)
        yield site
