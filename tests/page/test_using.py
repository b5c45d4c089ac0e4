"""How the page is used: search, keyboard, screen reader, colours, narrow screens; and what goes wrong."""

from __future__ import annotations

from importlib.resources import files
from random import Random
from typing import Any

import pytest

from berth.serving.bridge import BridgeTimeout
from explain_api.fakes import explanation
from page.browser import Page
from page.site import Site
from page.worlds import node

pytestmark = pytest.mark.page

FOCUSED = "document.activeElement.tagName + '#' + document.activeElement.id"
BACKGROUND = "getComputedStyle(document.documentElement).backgroundColor"
WIDER = "document.documentElement.scrollWidth > document.documentElement.clientWidth"


# --- search ----------------------------------------------------------------------------------------------------------


async def test_the_search_finds_nodes_and_pods(page: Page, site: Site) -> None:
    await page.open(site.url)
    await page.until("performance.getEntriesByName('berth-nodes-update').length")
    await page.until_text("#pending", "train-7d")
    await page.click("#search")
    await page.type("0042")
    await page.until_text("#found", "node-0042")
    await page.press("Enter")
    await page.until_text("#detail h2", "node-0042")
    await page.press("/")
    await page.type("train-7")
    await page.until_text("#found", "research/train-7d")
    await page.press("Enter")
    await page.until_text("#detail h2", "research/train-7d")


async def test_the_search_opens_any_pod_by_its_name(page: Page, site: Site) -> None:
    await page.open(site.url)
    await page.click("#search")
    await page.type("shop/web-5f")
    await page.until_text("#found", "by its name")
    await page.press("Enter")
    await page.until_text("#detail", "Why this node")


# --- keyboard and screen reader --------------------------------------------------------------------------------------


async def test_the_keyboard_reaches_a_node_in_the_map_and_comes_back(page: Page, site: Site) -> None:
    await page.open(site.url)
    await page.until("document.querySelectorAll('#zones canvas').length === 3")
    await page.press("Tab")
    assert await page.get(FOCUSED) == "BUTTON#skip"
    await page.press("Enter")
    assert await page.get(FOCUSED) == "MAIN#main"
    for _ in range(10):
        await page.press("Tab")
        if await page.get("document.activeElement.tagName") == "CANVAS":
            break
    assert (await page.get("document.querySelector('#cell').textContent")).startswith("node-0000: cpu")
    await page.press("ArrowRight", "ArrowRight", "ArrowLeft")
    assert (await page.get("document.querySelector('#cell').textContent")).startswith("node-0003: cpu")
    await page.press("Enter")
    await page.until_text("#detail h2", "node-0003")
    assert await page.get(FOCUSED) == "H2#detail-title"
    await page.press("Escape")
    await page.until("!document.querySelector('#overview').hidden")
    assert await page.get(FOCUSED) == "MAIN#main"


async def test_an_update_leaves_the_focus_where_it_is(page: Page, site: Site) -> None:
    await page.open(site.url)
    await page.until_text("#pending", "train-7d")
    await page.get("document.querySelector(\"#pending tr[data-key='research/train-7d'] a\").focus()")
    site.port.pods["research", "train-7d"]["status"]["attempts"] = 77
    site.port.put(explanation("aaa", "research"))
    await page.until_text("#pending", "77")
    await page.until_text("#pending", "research/aaa")
    assert "train-7d" in await page.get("document.activeElement.innerText")


@pytest.mark.parametrize("colours", ["light", "dark"])
@pytest.mark.parametrize(
    ("route", "text"),
    [
        ("", "Insufficient resource"),
        ("#/?form=table", "node-0042"),
        ("#/pod/research/train-7d", "What would help"),
        ("#/pod/shop/web-5f", "Why this node"),
        ("#/node/node-0013", "Room"),
        ("#/pod/shop/gone", "There is no pod gone"),
    ],
)
async def test_axe_finds_no_serious_problem(page: Page, site: Site, route: str, text: str, colours: str) -> None:
    await page.prefer(colours)
    await page.open(site.url + route)
    await page.until_text("main", text)
    assert await serious_problems(page) == []


async def serious_problems(page: Page) -> list[str]:
    """Returns what axe-core finds of impact serious or critical."""
    await page.get(files("axe_core_python").joinpath("axe.min.js").read_text(encoding="utf-8") + ";0")
    found: list[dict[str, Any]] = (await page.get("axe.run(document).then(({violations}) => ({violations}))"))[
        "violations"
    ]
    return [
        f"{one['id']}: {[target['html'] for target in one['nodes']]}"
        for one in found
        if one["impact"] in ("serious", "critical")
    ]


# --- colours and widths ----------------------------------------------------------------------------------------------


async def test_colours_follow_the_system_until_the_switch_is_used(page: Page, site: Site) -> None:
    await page.prefer("dark")
    await page.open(site.url)
    assert await page.get(BACKGROUND) == "rgb(15, 20, 26)"
    await page.prefer("light")
    await page.until(f"{BACKGROUND} === 'rgb(244, 246, 248)'")
    await page.click("#theme")
    await page.until(f"{BACKGROUND} === 'rgb(15, 20, 26)'")
    await page.open("about:blank")
    await page.open(site.url)
    assert await page.get(BACKGROUND) == "rgb(15, 20, 26)", "the choice is remembered"
    assert await page.get("document.querySelector('#theme').getAttribute('aria-label')") == "Switch to light colours"


@pytest.mark.parametrize("route", ["", "#/?form=table", "#/pod/research/train-7d", "#/pod/shop/web-5f", "#/node/n-8"])
async def test_everything_fits_on_a_narrow_screen(page: Page, site: Site, route: str) -> None:
    site.port.nodes["n-8"] = node(8, Random(1), taints=["dedicated=a-rather-long-name.example.com:NoSchedule"])
    await page.resize(360, 740)
    await page.open(site.url + route)
    await page.until("performance.getEntriesByName('berth-nodes-update').length")
    await page.until("document.querySelector('#detail').hidden || document.querySelector('#detail .panel')")
    assert await page.get(WIDER) is False


# --- what goes wrong -------------------------------------------------------------------------------------------------


async def test_a_user_without_rights_to_nodes_is_told_and_sees_his_pods(page: Page, site: Site) -> None:
    site.may_not("nodeviews", "clusterviews")
    await page.open(site.url)
    await page.until_text("#nodes-trouble", "You may not see nodes and the cluster")
    assert "berth-explain-cluster-view" in await page.text("#nodes-trouble")
    await page.until_text("#pending", "research/train-7d")
    assert await serious_problems(page) == []


async def test_a_user_of_one_namespace_enters_it(page: Page, site: Site) -> None:
    site.may_not("explanations", "decisions", "nodeviews", "clusterviews", namespaced=True)
    await page.open(site.url)
    await page.until_text("#queue-trouble", "Enter a namespace of yours above")
    await page.click("#namespace")
    await page.type("shop")
    await page.press("Enter")
    await page.until_text("#pending", "shop/")
    await page.until_text("#decided", "shop/")
    assert "research/" not in await page.text("#pending")
    assert "namespace=shop" in await page.get("location.hash")
    assert await page.text("#queue-trouble") == ""


async def test_a_pod_that_is_not_there_is_named(page: Page, site: Site) -> None:
    await page.open(site.url + "#/pod/shop/gone")
    await page.until_text("#detail", "There is no pod gone")
    assert "It is gone, it has finished, or the name is another one." in await page.text("#detail")


async def test_an_api_server_that_is_away_is_reported_until_it_is_back(page: Page, site: Site) -> None:
    await page.open(site.url)
    await page.until_text("#facts", "60")
    site.upstream.is_away = True
    await page.until_text("#troubles", "The API server cannot be reached")
    assert "60" in await page.text("#facts"), "what is known stays"
    site.upstream.is_away = False
    await page.until("document.querySelector('#troubles').innerText === ''")


async def test_a_scheduler_that_does_not_answer_is_reported_until_it_does(page: Page, site: Site) -> None:
    await page.open(site.url)
    await page.until_text("#facts", "60")
    site.port.failing = BridgeTimeout()
    await page.until_text("#troubles", "Berth does not answer")
    site.port.failing = None
    await page.until("document.querySelector('#troubles').innerText === ''")


async def test_a_lost_connection_is_reported(page: Page, site: Site) -> None:
    await page.open(site.url)
    await page.until_text("#facts", "60")
    await site.loopback.stop()
    await page.until_text("#troubles", "Is berth ui, or kubectl proxy, still running?")


# --- what it asks for ------------------------------------------------------------------------------------------------


async def test_nothing_outside_is_asked_for(page: Page, site: Site) -> None:
    for route in ("", "#/pod/research/train-7d", "#/node/node-0013"):
        await page.open(site.url + route)
        await page.until_text("main", "CPU" if not route else "kubectl")
    assert page.requests
    assert [url for url in page.requests if not url.startswith(site.origin)] == []


async def test_the_browser_refuses_what_the_page_does_not_need(page: Page, site: Site) -> None:
    await page.open(site.url)
    blocked = """(async () => {
        const tried = [];
        document.addEventListener("securitypolicyviolation", ({effectiveDirective}) => tried.push(effectiveDirective));
        await fetch("http://127.0.0.1:9/").catch(() => {});
        const script = document.createElement("script");
        script.textContent = "window.injected = true";
        document.body.append(script);
        const image = new Image();
        await new Promise((done) => { image.onerror = done; image.src = "http://127.0.0.1:9/x.png"; });
        return {tried, injected: Boolean(window.injected)};
    })()"""
    found = await page.get(blocked)
    page.complaints.clear()  # the browser reports what it has refused
    assert found["injected"] is False
    assert {"connect-src", "script-src-elem", "img-src"} <= set(found["tried"])


async def test_names_are_shown_and_never_read_as_markup(page: Page, site: Site) -> None:
    evil = "<img src=x onerror=window.injected=1>"
    site.port.put(explanation("evil", "shop", message=evil, reason=evil, waitsFor=[evil]))
    await page.open(site.url)
    await page.until_text("#pending", "shop/evil")
    await page.open(site.url + "#/pod/shop/evil")
    await page.until_text("#detail", evil)
    assert await page.get("document.querySelectorAll('main img').length") == 0


async def test_the_address_without_a_slash_leads_to_the_page(page: Page, site: Site) -> None:
    await page.open(site.url.rstrip("/"))
    await page.until_text("#facts", "60")
    assert (await page.get("location.pathname")).endswith("/ui/")
