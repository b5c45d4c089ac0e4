"""What the runtime does with what it is told: options, and the way of an event."""

import asyncio
from pathlib import Path

import pytest

from berth.cluster.errors import Unreachable
from berth.runtime import Options, Runtime
from edge.manual_clock import ManualClock
from edge.server import Answer, Server, until, write_kubeconfig
from support.builders import make_node, make_pod

BINDING = "/api/v1/namespaces/default/pods/web/binding"


def test_the_options_come_from_the_environment() -> None:
    options = Options.from_environment(
        {"BERTH_KUBECONFIG": "f", "BERTH_CONTEXT": "c", "BERTH_HTTP_ADDRESS": "", "BERTH_SEED": "7"}
    )
    assert options == Options("f", "c", "", 7, 300.0)


def test_an_option_that_makes_no_sense_is_named() -> None:
    with pytest.raises(ValueError, match="BERTH_SEED"):
        Options.from_environment({"BERTH_SEED": "seven"})
    with pytest.raises(ValueError, match="BERTH_CENSUS_SECONDS: must be at least 1"):
        Options.from_environment({"BERTH_CENSUS_SECONDS": "0"})


async def test_a_pod_is_bound_once_every_kind_is_whole_and_not_before(server: Server, tmp_path: Path) -> None:
    path = write_kubeconfig(tmp_path, f"http://127.0.0.1:{server.port}")
    server.answer("GET", "/api/v1/nodes", Answer(200, {"metadata": {}, "items": [make_node("a")]}))
    server.answer("GET", "/api/v1/pods", Answer(200, {"metadata": {}, "items": [make_pod("web")]}))
    server.answer("POST", BINDING, Answer(201))
    server.answer("POST", "/apis/events.k8s.io/v1/namespaces/default/events", Answer(201))
    runtime = Runtime(Options(kubeconfig=str(path), http_address=""))
    await runtime.start()
    runtime.on_event("Pod", None, make_pod("web"))
    await until(lambda: runtime.readiness().kinds["Pod"] == "ok")
    assert not runtime.readiness().is_ready
    assert not server.seen("POST")
    runtime.on_event("Node", None, make_node("a"))
    await until(lambda: len(server.seen("POST", "binding")) == 1)
    assert runtime.readiness().is_ready
    runtime.on_event("Pod", "MODIFIED", make_pod("web", node="a"))
    await runtime.stop()
    assert server.seen("POST", "events")[0].body["reason"] == "Scheduled"
    assert len(server.seen("POST", "binding")) == 1


async def test_an_error_that_nobody_expects_does_not_end_the_housekeeping(
    tmp_path: Path, clock: ManualClock, caplog: pytest.LogCaptureFixture
) -> None:
    problems = iter([KeyError("surprise"), Unreachable("away"), None])

    class Startled(Runtime):
        async def probe(self) -> Unreachable | None:
            problem = next(problems)
            if isinstance(problem, KeyError):
                raise problem
            return problem

    caplog.set_level("INFO")
    runtime = Startled(Options(kubeconfig=str(write_kubeconfig(tmp_path, "http://x:1")), http_address=""))
    runtime._clock = clock
    keeping = asyncio.create_task(runtime._keep_house())
    for _ in range(3):
        await until(lambda: clock.sleeping == 1)
        await clock.advance(10)
    keeping.cancel()
    await asyncio.gather(keeping, return_exceptions=True)
    assert runtime.statistics()["faults"] == {"keeping house": 1}
    assert [record.message for record in caplog.records if record.name == "berth.runtime"] == [
        "The API server is away; going on when it is back: away",
        "The API server is back after 10 s",
    ]
