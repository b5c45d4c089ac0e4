"""The elector's settings, and a record that is kept while the main loop moves."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from datetime import UTC, datetime
from pathlib import Path
from random import Random
from types import SimpleNamespace
from typing import Any

import aiohttp
import pytest
import yaml
from aiohttp import web

from berth.cluster.credentials import Credentials, Source
from berth.cluster.leadership import OUTSIDE, Leadership, Terms, write_record
from berth.elector import BriefBackoffs, Elector, Seat, make_settings
from berth.sim.resources import CRDS
from berth.sim.server import SimServer
from berth.sim.store import Store
from control_plane.client import Client
from support.patience import LIMIT_SECONDS

CRD = Path(__file__).parents[2] / "crds" / "clusterkopfpeerings.kopf.dev.yaml"
PEERINGS = "/apis/kopf.dev/v1/clusterkopfpeerings"


class RecordingServer(SimServer):
    """Remembers what it was asked for."""

    def __init__(self, store: Store) -> None:
        super().__init__(store)
        self.watched: list[str] = []  # the versions from which the peering objects were watched
        self.written: list[object] = []  # our records, as they were written; None where it was removed

    async def handle(self, request: web.BaseRequest) -> web.StreamResponse:
        if request.path == PEERINGS and request.query.get("watch"):
            self.watched.append(request.query["resourceVersion"])
        if request.method == "PATCH":
            self.written += [record for name, record in (await request.json())["status"].items() if name == "us"]
        return await super().handle(request)


def make_lead(leadership: Leadership) -> Any:
    """What the elector reads of a `Leader`."""
    return SimpleNamespace(
        leadership=leadership, peering=SimpleNamespace(name="berth"), beat_seconds=0.0, is_silent=False
    )


class World:
    """An embedded cluster, and a main loop that a test lets stand still."""

    def __init__(self, server: RecordingServer, api: Client, kubeconfig: Path) -> None:
        self.server = server
        self.api = api
        self.now = 0.0
        self.leadership = Leadership(
            "us", Terms(5), now=lambda: self.now, wall=lambda: datetime.now(UTC), random=Random(1)
        )
        self.lead = make_lead(self.leadership)
        self.elector = Elector(self.lead, Credentials(Source(str(kubeconfig))), now=lambda: self.now)

    async def records(self) -> dict[str, Any]:
        found: dict[str, Any] = (await self.api.get(f"{PEERINGS}/berth")).get("status", {})
        return found

    async def wait(self, condition: Callable[[], bool]) -> None:
        async with asyncio.timeout(LIMIT_SECONDS):
            while not condition():  # noqa: ASYNC110, another thread does it
                await asyncio.sleep(0.02)

    async def until(self, there: bool) -> dict[str, Any]:
        async with asyncio.timeout(LIMIT_SECONDS):
            while ("us" in (records := await self.records())) is not there:  # noqa: ASYNC110, another thread does it
                await asyncio.sleep(0.02)
        return records


@pytest.fixture
async def world(tmp_path: Path) -> AsyncIterator[World]:
    store = Store(lambda: datetime.now(UTC))
    store.create(CRDS, yaml.safe_load(CRD.read_text()))
    server = RecordingServer(store)
    await server.start()
    server.write_kubeconfig(tmp_path / "kubeconfig")
    async with Client(server.url, "") as api:
        await api.create({"apiVersion": "kopf.dev/v1", "kind": "ClusterKopfPeering", "metadata": {"name": "berth"}})
        world = World(server, api, tmp_path / "kubeconfig")
        yield world
        await asyncio.to_thread(world.elector.stop)
    await server.stop()
    for _ in range(3):  # turns, in which connections that a refused renewal has left behind hear that they have ended
        await asyncio.sleep(0)


async def test_the_record_is_there_from_the_start_to_a_clean_end(world: World) -> None:
    world.elector.start()
    records = await world.until(there=True)
    assert records["us"]["priority"] == world.leadership.priority
    assert records["us"]["lifetime"] == 5
    await asyncio.to_thread(world.elector.stop)
    assert await world.records() == {}


async def test_a_main_loop_that_hangs_costs_the_seat_until_it_moves_again(world: World) -> None:
    world.elector.start()
    await world.until(there=True)
    world.now += 5
    await world.until(there=False)
    world.lead.beat_seconds = world.now
    await world.until(there=True)


async def test_a_renewal_carries_the_priority_that_is_ours_then(world: World) -> None:
    world.elector.start()
    first = (await world.until(there=True))["us"]["priority"]
    world.leadership.leave()
    async with asyncio.timeout(LIMIT_SECONDS):
        while (await world.records()).get("us", {}).get("priority") == first:  # noqa: ASYNC110, another thread does it
            await asyncio.sleep(0.02)
    assert (await world.records())["us"]["priority"] < first


async def test_records_of_others_are_left_alone_however_old_they_seem_by_the_time_of_day(world: World) -> None:
    """As for a process that was frozen, whose kopf goes on with what it saw before."""
    out = {"priority": 1, "lifetime": 5, "lastseen": "2020-01-01T00:00:00+00:00"}
    await world.api.patch(f"{PEERINGS}/berth", {"status": {"them": out}})
    world.elector.start()
    first = await world.until(there=True)
    async with asyncio.timeout(LIMIT_SECONDS):
        while (records := await world.records())["us"]["lastseen"] == first["us"]["lastseen"]:  # noqa: ASYNC110
            await asyncio.sleep(0.02)
    assert records["them"] == out
    await asyncio.to_thread(world.elector.stop)
    assert await world.records() == {"them": out}


async def test_a_renewal_that_was_made_before_a_lapse_is_not_sent_after_it(world: World) -> None:
    """The time that passes between the two is spent in getting a connection, as it were."""
    seat = Seat(world.lead)
    trace = seat.trace()
    path = f"{world.server.url}{PEERINGS}/berth"

    freezes = iter((1, 20, 0))

    async def freeze(*_: object) -> None:
        world.now += next(freezes)

    trace.on_request_start.append(freeze)
    trace.freeze()
    async with aiohttp.ClientSession(trace_configs=[trace]) as session:
        for is_sent in (True, False):
            priority = seat.priority
            record = write_record(priority, world.leadership.terms, datetime.now(UTC))
            world.leadership.observe("", {"us": record})  # an earlier renewal of ours has come back
            request = session.patch(
                path, json={"status": {"us": record}}, headers={"Content-Type": "application/merge-patch+json"}
            )
            if is_sent:
                assert (await request).status == 200
            else:
                with pytest.raises(aiohttp.ClientConnectionError, match="has lapsed"):
                    await request
        assert (await session.get(path)).status == 200  # nothing is written by that
    assert seat.priority == OUTSIDE


async def test_after_a_restore_kopf_watches_from_a_fresh_list_and_the_record_is_kept(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    # A watch ends soon, with a bookmark: kopf goes on from the version that the store has come to.
    monkeypatch.setattr("berth.sim.server.server.WATCH_SECONDS", 0.1)
    world.elector.start()
    await world.until(there=True)
    await world.wait(lambda: bool(world.server.watched))
    backup = world.server.store.back_up()
    for number in range(100):
        await world.api.patch(f"{PEERINGS}/berth", {"metadata": {"labels": {"round": str(number)}}, "status": {}})
    ahead = world.server.store.revision
    await world.wait(lambda: int(world.server.watched[-1]) >= ahead)
    await world.server.restore(backup)
    renewals = len(world.server.written)
    world.leadership.start_over()
    await world.wait(lambda: int(world.server.watched[-1]) < ahead and len(world.server.written) > renewals)
    assert int(world.server.watched[-1]) <= world.server.store.revision
    assert None not in world.server.written


async def test_where_another_cluster_answers_the_record_is_neither_renewed_nor_removed(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    world.elector.start()
    await world.until(there=True)
    world.leadership.fall_silent()
    await world.wait(lambda: "not renewed any more" in caplog.text)
    written = list(world.server.written)
    world.now += 60  # nothing moves in such a process
    await asyncio.to_thread(world.elector.stop)
    assert world.server.written == written
    assert None not in written
    assert "hangs" not in caplog.text


def test_a_renewal_is_tried_again_for_a_part_of_the_lifetime_only() -> None:
    now = 0.0

    def clock() -> float:
        nonlocal now
        now += 0.5
        return now

    pauses = list(BriefBackoffs(3.0, clock))
    assert pauses == [0.25] * 5
    assert len(list(BriefBackoffs(3.0, clock))) == 5


def test_requests_of_the_elector_end_before_the_record_is_out_of_date() -> None:
    leadership = Leadership("us", Terms(10), now=lambda: 0.0, wall=lambda: datetime.now(UTC), random=Random(1))
    lead: Any = SimpleNamespace(leadership=leadership, peering=SimpleNamespace(name="berth"))
    settings = make_settings(lead)
    assert settings.networking.request_timeout is not None
    assert 2 * settings.networking.request_timeout + 0.3 * 10 <= 10
    assert settings.peering.mandatory
    assert settings.posting.enabled is False
