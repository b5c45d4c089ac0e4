"""Health and metrics over HTTP, on the loopback interface only."""

import aiohttp
import pytest
from prometheus_client.parser import text_string_to_metric_families

from berth.serving.health import Readiness
from berth.serving.metrics import render
from berth.serving.server import Address, BadAddress, Server, parse_address

STATISTICS = {
    "scheduler": {
        "queue": {"active": 2, "gated": 1},
        "attempts": {"scheduled": 7},
        "binds": {"running": 3, "bound": 6, "unknown": 1},
        "cache": {"objects": {"Pod": 9}, "invalid": {"Node": 1}, "old_news": 4},
        "echo_missing": 1,
        "faults": {"observing": 1},
    },
    "cluster": {"events": {"waiting": 1, "posted": 5}, "conditions": {"waiting": 0, "written": 2}},
    "census": {"whole": {"Pod": 1}, "ghosts": 2, "missed": 3},
    "faults": {"observing": 2, "counting": 1},
    "api_reachable": 1,
    "watch_restarts": 0,
}


def samples() -> dict[tuple[str, str], float]:
    families = text_string_to_metric_families(render(lambda: STATISTICS).decode())
    return {
        (sample.name, ",".join(sample.labels.values())): sample.value
        for family in families
        for sample in family.samples
        if not sample.name.endswith("_created")
    }


def test_the_metrics_name_the_statistics() -> None:
    values = samples()
    assert values["scheduler_pending_pods", "active"] == 2
    assert values["scheduler_schedule_attempts_total", "scheduled"] == 7
    assert values["berth_binds_total", "bound"] == 6
    assert ("berth_binds_total", "running") not in values
    assert values["berth_invalid_objects", "Node"] == 1
    assert values["berth_ghosts_total", ""] == 2
    assert values["berth_missed_objects_total", ""] == 3
    assert values["berth_events_total", "failed"] == 0
    assert values["berth_faults_total", "observing"] == 3
    assert values["berth_faults_total", "counting"] == 1


def test_what_can_fall_is_a_gauge() -> None:
    families = {
        family.name: family.type for family in text_string_to_metric_families(render(lambda: STATISTICS).decode())
    }
    assert families["berth_missing_echoes"] == "gauge"


def test_metrics_of_a_process_that_has_not_counted_anything_yet() -> None:
    assert b"berth_api_reachable 0.0" in render(dict)


def test_readiness_says_what_it_waits_for() -> None:
    waiting = Readiness({"Pod": "3 of 9 listed objects have not arrived yet", "Node": "ok"}, is_open=False)
    assert not waiting.is_ready
    assert "[-]Pod failed: 3 of 9 listed" in waiting.text(verbose=False)
    assert Readiness({"Pod": "ok"}, is_open=True).text(verbose=False) == "ok"
    assert "[+]Pod ok" in Readiness({"Pod": "ok"}, is_open=True).text(verbose=True)


async def test_the_paths_answer() -> None:
    ready, alive = [False], [True]
    server = Server(
        Address("127.0.0.1", 0),
        readiness=lambda: Readiness({"Pod": "ok"}, ready[0]),
        statistics=lambda: STATISTICS,
        alive=lambda: alive[0],
    )
    await server.start()
    async with aiohttp.ClientSession(f"http://127.0.0.1:{server.port}") as session:

        async def get(path: str) -> tuple[int, str]:
            async with session.get(path) as response:
                return response.status, await response.text()

        assert await get("/livez") == await get("/healthz") == (200, "ok")
        assert (await get("/readyz"))[0] == 503
        ready[0] = True
        assert await get("/readyz") == (200, "ok")
        assert "readyz check passed" in (await get("/readyz?verbose"))[1]
        assert "berth_binds_total" in (await get("/metrics"))[1]
        alive[0] = False
        assert (await get("/livez"))[0] == 500
    await server.stop()


@pytest.mark.parametrize("text", ["127.0.0.1:10261", "[::1]:0", "localhost:80", "127.1.2.3:5"])
def test_loopback_addresses_are_taken(text: str) -> None:
    assert parse_address(text).port == int(text.rpartition(":")[2])


@pytest.mark.parametrize("text", ["0.0.0.0:80", ":80", "10.0.0.1:80", "example.com:80", "[::]:80"])
def test_other_addresses_are_refused_in_words(text: str) -> None:
    with pytest.raises(BadAddress, match="loopback"):
        parse_address(text)


@pytest.mark.parametrize("text", ["127.0.0.1", "127.0.0.1:x", "127.0.0.1:99999", "127.0.0.1:-1"])
def test_what_is_no_address_is_refused_in_words(text: str) -> None:
    with pytest.raises(BadAddress, match="is not an address"):
        parse_address(text)
