"""Explanations and the page, in the demo's cluster."""

from __future__ import annotations

import asyncio

import aiohttp

from berth.cluster.clock import RealClock
from berth.demo.environment import EmbeddedEnvironment
from berth.demo.scenario import DEFAULT_TIMING, make_plan

WAIT_SECONDS = 180.0


async def test_the_page_of_the_demo_shows_its_nodes() -> None:
    async with EmbeddedEnvironment(RealClock(), 0) as environment, aiohttp.ClientSession() as session:
        await environment.make_cluster(make_plan(6, 30, 0, DEFAULT_TIMING))
        page = await wait_for(session, environment.page)
        nodes = await wait_for(session, environment.page.removesuffix("ui/") + "nodeviews", "zone-c")
        assert environment.problem() is None

    assert page.startswith("<!doctype html>")
    assert nodes.count('"NodeView"') == 6


async def wait_for(session: aiohttp.ClientSession, url: str, text: str = "") -> str:
    """Returns what the address answers, once it does and has this text: the operator is only starting."""
    async with asyncio.timeout(WAIT_SECONDS):
        while True:
            async with session.get(url) as answer:
                body = await answer.text()
                if answer.status == 200 and text in body:
                    return body
            await asyncio.sleep(0.1)
