"""Pictures of the page for the docs: `python -m page.screenshots FOLDER`, or `make screenshots`."""

from __future__ import annotations

import asyncio
import sys
import tempfile
from pathlib import Path

from page.browser import Page, chromium, open_page
from page.chromium import MISSING, find_chromium
from page.site import Site, running_site
from page.worlds import fill

NODES, PODS, DECISIONS = 900, 46, 60
PHONE = 390, 844


async def take(address: str, folder: Path) -> None:
    """Writes the pictures."""
    with tempfile.TemporaryDirectory() as temporary:
        async with running_site(Path(temporary)) as site, open_page(address) as page:
            fill(site.port, NODES, PODS, DECISIONS)
            for name, colours in (("page.png", "light"), ("page-dark.png", "dark")):
                await page.prefer(colours)
                await _overview(page, site)
                (folder / name).write_bytes(await page.picture())
            await page.prefer("light")
            await page.resize(1120, 900)
            for name, route, text in (
                ("page-pod.png", "#/pod/research/train-7d", "Why no node fits"),
                ("page-bound.png", "#/pod/shop/web-5f", "Why this node"),
                ("page-node.png", "#/node/node-0008", "Room"),
            ):
                await page.open("about:blank")
                await page.open(site.url + route)
                await page.until_text("#detail", text)
                (folder / name).write_bytes(await page.picture())
            await page.resize(*PHONE, scale=2)
            await _overview(page, site)
            (folder / "page-phone.png").write_bytes(await page.picture())


async def _overview(page: Page, site: Site) -> None:
    await page.open("about:blank")
    await page.open(site.url)
    await page.until("performance.getEntriesByName('berth-nodes-update').length")
    await page.until("document.querySelectorAll('#decided tr').length && document.querySelectorAll('.policy').length")


def main(folder: Path) -> int:
    program = find_chromium()
    if program is None:
        print(MISSING, file=sys.stderr)
        return 1
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as temporary, chromium(program, Path(temporary)) as address:
        asyncio.run(take(address, folder))
    return 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
