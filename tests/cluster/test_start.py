"""How a process begins: what it says first, whom it waits for, and that it ends when asked before it has begun."""

import asyncio
import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from random import Random

import pytest

from berth import __version__
from berth.cli.process import join_peering
from berth.cluster.api import Api
from berth.cluster.leadership import Leadership, Terms
from berth.cluster.peering import PATH, Peering
from berth.configuration import Options, as_mapping
from cluster.manual_clock import ManualClock
from cluster.server import Answer, Cut, Reaction, Server, busy, refusal, until, write_kubeconfig
from control_plane.berth_process import STOP_SECONDS, berth_command, berth_environment
from control_plane.process import Process, free_port, http_get

BERTH = f"{PATH}/berth"
LONGEST_PAUSE_SECONDS = 15.0
START_SECONDS = 60.0


# --- an API server that is away --------------------------------------------------------------------------------------


@contextmanager
def waiting(folder: Path, *arguments: str) -> Iterator[tuple[Process, Options]]:
    """A process that serves health, and whose API server is where nobody listens."""
    kubeconfig = str(write_kubeconfig(folder, f"http://127.0.0.1:{free_port()}"))
    options = Options(kubeconfig=kubeconfig, https_address=f"127.0.0.1:{free_port()}", log_format="json")
    flags = (f"--kubeconfig={kubeconfig}", f"--https-address={options.https_address}", "--log-format=json")
    command = [*berth_command(), "run", *flags, *arguments]
    process = Process("berth", command, folder / "log", environment=berth_environment())
    process.start()
    try:
        process.wait_ready(lambda: http_get(f"https://{options.https_address}/livez")[0] == 200, START_SECONDS)
        yield process, options
    finally:
        process.kill()


@pytest.mark.parametrize("arguments", [(), ("--standalone",)])
def test_a_process_that_waits_for_its_first_contact_ends_with_0_when_asked(
    tmp_path: Path, arguments: tuple[str, ...]
) -> None:
    with waiting(tmp_path, *arguments) as (process, _):
        assert process.stop(STOP_SECONDS) == 0, process.tail()


def test_the_first_line_has_version_and_configuration_also_while_the_api_server_is_away(tmp_path: Path) -> None:
    with waiting(tmp_path) as (process, options):
        process.wait_ready(lambda: "asking until it does" in process.log_text(), START_SECONDS)
        first = json.loads(process.log_text().splitlines()[0])
    assert first["version"] == __version__
    assert first["configuration"] == as_mapping(options)


# --- one that has no time --------------------------------------------------------------------------------------------


@pytest.fixture
def peering(api: Api, clock: ManualClock) -> Peering:
    leadership = Leadership("us", Terms(10), now=clock.now, wall=clock.wall, random=Random(1))
    return Peering(api, clock, "berth", leadership)


async def join(peering: Peering, clock: ManualClock) -> str | None:
    """What comes of it, however many pauses it takes."""
    joining = asyncio.create_task(join_peering(peering, clock))
    while not joining.done():
        await until(lambda: joining.done() or clock.sleeping == 1)
        await clock.advance(LONGEST_PAUSE_SECONDS)
    return await joining


@pytest.mark.parametrize(
    "reaction", [Cut(), busy("1"), *(refusal(status, "Busy", "later") for status in (408, 500, 503, 504))]
)
@pytest.mark.parametrize("method", ["PATCH", "GET"])
async def test_an_api_server_that_has_no_time_is_asked_until_it_has_and_that_is_said_once(
    server: Server,
    peering: Peering,
    clock: ManualClock,
    caplog: pytest.LogCaptureFixture,
    method: str,
    reaction: Reaction,
) -> None:
    for each in ("PATCH", "GET"):
        server.answer(each, BERTH, *((reaction,) * 3 if each == method else ()), Answer(200, {"metadata": {}}))
    assert await join(peering, clock) is None
    assert len(server.seen(method)) == 4
    (said,) = [record.message for record in caplog.records if record.name == "berth.cli.process"]
    assert said.startswith("The API server does not say which replicas there are; asking until it does: ")


async def test_the_pauses_grow_and_are_as_long_as_the_api_server_asks(
    server: Server, peering: Peering, clock: ManualClock
) -> None:
    server.answer("PATCH", BERTH, refusal(503, "Busy", "later"), busy("7"), Answer(200))
    server.answer("GET", BERTH, Answer(200, {"metadata": {}}))
    joining = asyncio.create_task(join_peering(peering, clock))
    for pause_seconds in (0.5, 7.0):
        await until(lambda: clock.sleeping == 1)
        await clock.advance(pause_seconds - 0.1)
        assert clock.sleeping == 1
        await clock.advance(0.1)
    assert await joining is None


@pytest.mark.parametrize("status", [401, 403, 422])
async def test_what_waiting_would_not_mend_is_told_at_once(
    server: Server, peering: Peering, clock: ManualClock, status: int
) -> None:
    server.answer("PATCH", BERTH, refusal(status, "No", "not like this"))
    assert "not like this" in str(await join(peering, clock))
    server.answer("PATCH", BERTH, Answer(200))
    server.answer("GET", BERTH, refusal(status, "No", "not like this"))
    assert "not like this" in str(await join(peering, clock))
