"""How long the page takes in a browser: until it is painted, and for each update, measured by the browser.

`make bench-page [ARGS='--nodes 500']`. A made-up cluster answers through `berth ui` and the real API, so that the times
until something is shown include both; an update is what keeps the browser busy: reading the answers, and drawing.
"""

import argparse
import asyncio
import tempfile
from pathlib import Path
from statistics import median

from page.browser import Page, chromium, open_page
from page.chromium import MISSING, find_chromium
from page.site import running_site
from page.worlds import fill

NODES, UPDATES = 5000, 4
LAST = "performance.getEntriesByName('berth-nodes-update')[0]"


async def measure(address: str, nodes: int, updates: int) -> None:
    """Opens the page, waits for updates, and prints the figures."""
    with tempfile.TemporaryDirectory() as folder:
        async with running_site(Path(folder)) as site, open_page(address) as page:
            fill(site.port, nodes, pods=400, decisions=1000)
            await page.open(site.url)
            await page.until(LAST)
            painted = await page.get("performance.getEntriesByName('first-contentful-paint')[0].startTime")
            first = await page.get("performance.getEntriesByName('berth-first-map')[0].startTime")
            complete = await page.get(f"{LAST}.startTime + {LAST}.duration")
            print(f"{nodes} nodes")
            print(f"  first paint                {painted:7.0f} ms after the address was entered")
            print(f"  first nodes on the map     {first:7.0f} ms")
            print(f"  all nodes on the map       {complete:7.0f} ms")
            durations = [await _next_update(page) for _ in range(updates)]
            print(f"  an update, in the browser  {median(durations):7.1f} ms, the longest {max(durations):.1f} ms")


async def _next_update(page: Page) -> float:
    before = await page.get(f"{LAST}.startTime")
    await page.until(f"{LAST}.startTime > {before}")
    return float(await page.get(f"{LAST}.duration"))


def main() -> None:
    parser = argparse.ArgumentParser(prog="bench.page")
    parser.add_argument("--nodes", type=int, default=NODES)
    parser.add_argument("--updates", type=int, default=UPDATES)
    options = parser.parse_args()
    program = find_chromium()
    if program is None:
        raise SystemExit(MISSING)
    with tempfile.TemporaryDirectory() as folder, chromium(program, Path(folder)) as address:
        asyncio.run(measure(address, options.nodes, options.updates))


if __name__ == "__main__":
    main()
