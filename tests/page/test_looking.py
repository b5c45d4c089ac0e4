"""What the page shows of the cluster, of a pod and of a node."""

from __future__ import annotations

from random import Random

import pytest

from page.browser import Page
from page.site import Site
from page.worlds import fill, made, node, put_decision, refresh

pytestmark = pytest.mark.page

CANVASES = "document.querySelectorAll('#zones canvas').length"
COLOURS = """(() => {
    const canvas = document.querySelector('#zones canvas');
    const data = canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height).data;
    const seen = new Set();
    for (let i = 0; i < data.length; i += 4) if (data[i + 3]) seen.add(`${data[i]} ${data[i + 1]} ${data[i + 2]}`);
    return seen.size;
})()"""


async def test_the_heat_map_shows_nodes_by_zone(page: Page, site: Site) -> None:
    await page.open(site.url)
    await page.until(f"{CANVASES} === 3")
    await page.until_text("#zones", "europe-a 20 nodes, cpu")
    assert await page.get("document.querySelectorAll('#zones h3').length") == 3
    assert await page.get(COLOURS) > 3
    label = await page.get("document.querySelector('#zones canvas').getAttribute('aria-label')")
    assert label.startswith("europe-a, 20 nodes, cpu")


async def test_the_heat_map_shows_the_resource_that_is_chosen(page: Page, site: Site) -> None:
    await page.open(site.url)
    await page.until_text("#zones", "cpu")
    await page.click("#resources label:has([value=memory])")
    await page.until_text("#zones", "20 nodes, memory")
    assert "resource=memory" in await page.get("location.hash")
    await page.click("#resources label:has([value='nvidia.com/gpu'])")
    await page.until_text("#zones", "nvidia.com/gpu")


async def test_pointing_at_a_cell_names_the_node_and_a_click_opens_it(page: Page, site: Site) -> None:
    await page.open(site.url)
    await page.until(f"{CANVASES} === 3")
    x, y = await page.get(
        "(({left, top}) => [left + 8, top + 8])(document.querySelector('#zones canvas').getBoundingClientRect())"
    )
    await page.point_at(x, y)
    await page.until_text("#tip", "node-0000: cpu")
    await page.click_at(x, y)
    await page.until_text("#detail", "node-0000")
    assert await page.get("location.hash") == "#/node/node-0000"


async def test_nodes_are_a_table_as_well_which_can_be_sorted(page: Page, site: Site) -> None:
    await page.open(site.url)
    await page.click("#forms label:has([value=table])")
    await page.until("document.querySelectorAll('#table tbody tr').length === 60")
    await page.click("#table th:first-child button")
    await page.until("document.querySelector('#table tbody tr').innerText.startsWith('node-0000')")
    assert await page.get("document.querySelector('#table th:first-child').getAttribute('aria-sort')") == "ascending"
    await page.click("#table th:first-child button")
    await page.until("document.querySelector('#table tbody tr').innerText.startsWith('node-0059')")


async def test_the_queue_shows_pods_with_their_reasons(page: Page, site: Site) -> None:
    await page.open(site.url)
    await page.until_text("#reasons", "Insufficient resource")
    await page.until_text("#pending", "research/train-7d")
    assert "13 unschedulable" in await page.text("#queue-states")
    assert "5m" in await page.text("#pending tr[data-key='research/train-7d']")


async def test_a_reason_leaves_only_its_pods_in_the_queue(page: Page, site: Site) -> None:
    taints = sum(body["status"].get("reason") == "UntoleratedTaint" for body in site.port.pods.values())
    await page.open(site.url)
    await page.until("document.querySelectorAll('#pending tr').length === 13")
    await page.click("#reasons li[data-key=UntoleratedTaint] button")
    await page.until(f"document.querySelectorAll('#pending tr').length === {taints}")
    assert "Insufficient" not in await page.text("#pending")
    assert await page.get("document.querySelector('#reasons [aria-pressed=true]').innerText.includes('Untolerated')")


async def test_a_click_on_a_pod_explains_it(page: Page, site: Site) -> None:
    await page.open(site.url)
    await page.click("#pending tr[data-key='research/train-7d'] a")
    await page.until_text("#detail", "Request 960m cpu instead of 1200m: it fits on node-0036.")
    said = await page.text("#detail")
    assert "lacks 240m cpu: 1200m asked for, 960m free" in said
    assert "40 of 60 nodes" in said
    assert "31 nodes would take it if pods left." in said
    assert "No pod there has a lower priority." in said
    assert "0/60 nodes are available" in said


async def test_an_address_leads_to_a_pod_and_its_scores(page: Page, site: Site) -> None:
    await page.open(site.url + "#/pod/shop/web-5f")
    await page.until_text("#detail", "node-0010 had the highest score.")
    rows = await page.get("[...document.querySelectorAll('#detail tfoot td')].map((cell) => cell.innerText)")
    assert rows == ["599", "571", "493"]
    assert "as recorded at the decision" in await page.text("#detail")
    assert await page.get("document.title") == "web-5f · Berth"


async def test_the_verdicts_on_one_node_can_be_asked_for(page: Page, site: Site) -> None:
    await page.open(site.url + "#/pod/research/train-7d")
    await page.until_text("#detail", "One node")
    plugins = [{"plugin": "NodeResourcesFit", "status": "Unschedulable", "messages": ["Insufficient cpu"]}]
    site.port.pods["research", "train-7d"]["status"]["verdicts"] = [
        {"nodeName": "node-0036", "fits": False, "plugins": plugins}
    ]
    await page.click("#verdict-node")
    await page.type("node-0036")
    await page.press("Enter")
    await page.until_text("#detail", "does not fit")
    asked = [call for call in site.port.asked if call[0] == "explanation"]
    assert asked[-1][3].nodes == ("node-0036",)


async def test_an_address_leads_to_a_node(page: Page, site: Site) -> None:
    rejected = {"pod": "research/train-7d", "plugin": "NodeResourcesFit", "code": "", "message": "Insufficient cpu"}
    site.port.nodes["node-0013"] = node(13, Random(1), rejects=[rejected], taints=["dedicated=gpu:NoSchedule"])
    put_decision(site.port, made(99, nodeName="node-0013"))
    await page.open(site.url + "#/node/node-0013")
    await page.until_text("#detail", "Placed here lately")
    said = await page.text("#detail")
    assert "cordoned" in said
    assert "dedicated=gpu:NoSchedule" in said
    assert "research/train-7d: Insufficient cpu" in said
    assert "nvidia.com/gpu" not in said
    await page.click("#detail .plain a")
    await page.until_text("#detail", "Why no node fits")


async def test_policies_are_shown_with_what_a_shadow_would_have_done(page: Page, site: Site) -> None:
    await page.open(site.url)
    await page.until_text("#policies", "binpack-trial")
    said = await page.text("#policies")
    assert "18,214 pods placed, 24 pending" in said
    assert "3,710 another node" in said
    assert "Shadow" in said


async def test_the_page_says_who_leads(page: Page, site: Site) -> None:
    await page.open(site.url)
    await page.until_text("#leader", "berth-5d9c7b6f4-x2x7q leads")
    site.port.cluster["status"]["leads"] = False
    await page.until_text("#leader", "stands by")


# --- updates ---------------------------------------------------------------------------------------------------------


async def test_decisions_appear_as_they_are_made(page: Page, site: Site) -> None:
    await page.open(site.url)
    await page.until("document.querySelectorAll('#decided tr').length === 20")
    put_decision(site.port, made(1000))
    await page.until("document.querySelector('#decided tr').innerText.includes('web-3e8')")
    assert len([path for path in site.upstream.asked if "/decisions" in path]) == 1, "one watch, and no polls"


async def test_nodes_and_pods_follow_the_cluster(page: Page, site: Site) -> None:
    await page.open(site.url)
    await page.until_text("#facts", "60")
    await page.until_text("#pending", "research/train-7d")
    del site.port.pods["research", "train-7d"]
    site.port.nodes["node-9000"] = node(9000, Random(1), "europe-d")
    refresh(site.port)
    await page.until_text("#zones", "europe-d 1 node")
    await page.until("!document.querySelector('#pending').innerText.includes('train-7d')")
    await page.until_text("#facts", "61")


async def test_a_pod_that_gets_its_node_is_announced(page: Page, site: Site) -> None:
    await page.open(site.url + "#/pod/research/train-7d")
    await page.until("document.querySelector('#says').textContent === 'research/train-7d: Unschedulable'")
    site.port.pods["research", "train-7d"]["status"].update(state="Bound", message="it is on node-0036")
    await page.until("document.querySelector('#says').textContent === 'research/train-7d: Bound'")
    await page.until_text("#detail h2", "Bound")
    assert await page.get("document.querySelector('#says').getAttribute('aria-live')") == "polite"


async def test_a_page_that_is_hidden_asks_for_nothing(page: Page, site: Site) -> None:
    await page.before_scripts(
        """const timers = window.timers = new Set(), set = setTimeout, clear = clearTimeout;
        window.setTimeout = (work, ...rest) => {
            const id = set(() => (timers.delete(id), work()), ...rest);
            timers.add(id);
            return id;
        };
        window.clearTimeout = (id) => (timers.delete(id), clear(id));"""
    )
    await page.open(site.url)
    await page.until_text("#facts", "Nodes")
    await page.until("performance.getEntriesByName('berth-nodes-update').length")
    await page.hide(True)
    assert await page.get("timers.size") == 0
    before = len(site.upstream.asked)
    put_decision(site.port, made(2000))
    await page.hide(False)
    await page.until_text("#decided", "web-7d0")
    assert len(site.upstream.asked) > before


async def test_a_large_cluster_is_read_in_pages_and_shown_from_the_first_on(page: Page, site: Site) -> None:
    fill(site.port, nodes=1200)
    await page.open(site.url)
    await page.until_text("#zones", "400 nodes")
    pages = [path for path in site.upstream.asked if "/nodeviews" in path]
    assert len(pages) >= 3
    assert all("limit=500" in path for path in pages)
