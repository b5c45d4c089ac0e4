"""What the runtime does with what it is told: options, and the way of an event."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from berth.cluster.api import Api
from berth.cluster.errors import Unreachable
from berth.cluster.leader import Leader
from berth.runtime import Options, Runtime, make_runtime
from berth.serving.loop_watchdog import LoopWatchdog
from cluster.manual_clock import ManualClock
from cluster.server import Answer, Server, listed, until, write_kubeconfig
from control_plane.process import http_get
from policy.builders import make_policy
from support.builders import make_node, make_pod
from support.patience import LIMIT_SECONDS

BINDING = "/api/v1/namespaces/default/pods/web/binding"


async def test_a_pod_is_bound_once_every_kind_is_synced_and_not_before(server: Server, tmp_path: Path) -> None:
    path = write_kubeconfig(tmp_path, f"http://127.0.0.1:{server.port}")
    server.answer("GET", "/api/v1/nodes", listed("Node", make_node("a")))
    server.answer("GET", "/api/v1/pods", listed("Pod", make_pod("web")))
    server.answer("POST", BINDING, Answer(201))
    server.answer("POST", "/apis/events.k8s.io/v1/namespaces/default/events", Answer(201))
    runtime = make_runtime(Options(kubeconfig=str(path), https_address="", standalone=True))
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


async def test_of_an_event_that_cannot_be_handed_over_nothing_but_the_name_is_logged(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise RuntimeError("surprise")

    runtime = make_runtime(Options(kubeconfig=str(write_kubeconfig(tmp_path, "http://x:1"))))
    monkeypatch.setattr(runtime.components.fanout, "on_event", fail)
    body = make_pod("web") | {"status": "sesame"}
    body["metadata"] |= {"annotations": {"copy": "sesame"}}
    runtime.on_event("Pod", "ADDED", body)
    (said,) = caplog.records
    assert said.getMessage() == "handing over Pod default/web: RuntimeError: surprise"
    assert vars(said)["kind"] == "Pod"
    assert "sesame" not in caplog.text


async def test_an_error_that_nobody_expects_does_not_end_the_housekeeping(
    tmp_path: Path, clock: ManualClock, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    problems = iter([KeyError("surprise"), Unreachable("away"), None])

    async def probe(*_: object) -> Unreachable | None:
        problem = next(problems)
        if isinstance(problem, KeyError):
            raise problem
        return problem

    caplog.set_level("INFO")
    kubeconfig = str(write_kubeconfig(tmp_path, "http://x:1"))
    runtime = make_runtime(Options(kubeconfig=kubeconfig, https_address="", standalone=True), clock=clock)
    monkeypatch.setattr(runtime.components.identity, "probe", probe)
    keeping = asyncio.create_task(runtime.components.housekeeping.run())
    for _ in range(3):
        await until(lambda: clock.sleeping == 1)
        await clock.advance(10)
    keeping.cancel()
    await asyncio.gather(keeping, return_exceptions=True)
    assert runtime.statistics()["faults"] == {"housekeeping": 1}
    assert [record.message for record in caplog.records if record.name == "berth.cluster.outage_log"] == [
        "The API server is away; going on when it is back: away",
        "The API server is back after 10 s",
    ]


# --- what is told of policies ----------------------------------------------------------------------------------------

POLICIES = "/apis/berth.dev/v1alpha1/schedulingpolicies"
STATUS = f"{POLICIES}/batch/status"


@asynccontextmanager
async def scheduling(server: Server, tmp_path: Path, clock: ManualClock) -> AsyncIterator[Runtime]:
    """A runtime that is open, on a cluster of one node; its reports are made when the clock says so."""
    path = write_kubeconfig(tmp_path, f"http://127.0.0.1:{server.port}")
    server.answer("GET", "/api/v1/nodes", listed("Node", make_node("a")))
    server.answer("POST", BINDING, Answer(201))
    server.answer("POST", "/apis/events.k8s.io/v1/namespaces/default/events", Answer(201))
    server.answer("PATCH", STATUS, Answer())
    runtime = make_runtime(Options(kubeconfig=str(path), https_address="", standalone=True))
    runtime.components.housekeeping._clock = runtime.components.policy_reports._clock = clock
    await runtime.start()
    runtime.on_event("Node", None, make_node("a"))
    await until(lambda: runtime.readiness().is_ready)
    yield runtime
    await runtime.stop()


def pod_events(server: Server) -> list[dict[str, Any]]:
    return [request.body for request in server.seen("POST", "events") if request.body["regarding"]["kind"] == "Pod"]


def policy_events(server: Server) -> list[str]:
    """Returns "policy: reason" of the events about policies."""
    events = [request.body for request in server.seen("POST", "events")]
    found = [event for event in events if event["regarding"]["kind"] == "SchedulingPolicy"]
    return [f"{event['regarding']['name']}: {event['reason']}" for event in found]


def written(server: Server) -> list[dict[str, Any]]:
    return [request.body["status"] for request in server.seen("PATCH", "schedulingpolicies")]


async def test_what_is_done_under_a_policy_is_told_every_ten_seconds_and_not_with_every_pod(
    server: Server, tmp_path: Path, clock: ManualClock
) -> None:
    async with scheduling(server, tmp_path, clock) as runtime:
        runtime.on_event("SchedulingPolicy", "ADDED", make_policy())
        await until(lambda: len(written(server)) == 1)
        runtime.on_event("Pod", "ADDED", make_pod("web"))
        runtime.on_event("Pod", "ADDED", make_pod("big", cpu=99))
        await until(lambda: len(pod_events(server)) == 2)
        assert len(written(server)) == 1
        await until(lambda: clock.sleeping == 2)
        await clock.advance(10)
        await until(lambda: len(written(server)) == 2)
        assert (written(server)[0]["placed"], written(server)[0]["pending"]) == (0, 0)
        assert (written(server)[1]["placed"], written(server)[1]["pending"]) == (1, 1)


async def test_nothing_is_said_of_a_policy_while_others_may_be_missing(server: Server, tmp_path: Path) -> None:
    path = write_kubeconfig(tmp_path, f"http://127.0.0.1:{server.port}")
    server.answer("GET", "/api/v1/nodes", listed("Node", make_node("a")))
    based, base = make_policy(base="common"), make_policy("common", schedulerName="common")
    server.answer("GET", POLICIES, listed("SchedulingPolicy", based, base))
    runtime = make_runtime(Options(kubeconfig=str(path), https_address="", standalone=True))
    await runtime.start()
    runtime.on_event("SchedulingPolicy", None, based)
    await runtime.components.policy_reports.report()
    runtime.on_event("SchedulingPolicy", None, base)
    assert runtime.components.statuses.statistics() == {"waiting": 0}
    runtime.on_event("Node", None, make_node("a"))
    await until(lambda: len(written(server)) == 2)
    await runtime.stop()
    accepted = [
        one["status"] for status in written(server) for one in status["conditions"] if one["type"] == "Accepted"
    ]
    assert accepted == ["True", "True"]


async def test_users_see_in_events_what_becomes_of_a_policy(server: Server, tmp_path: Path, clock: ManualClock) -> None:
    async with scheduling(server, tmp_path, clock) as runtime:
        runtime.on_event("SchedulingPolicy", "ADDED", make_policy())
        await until(lambda: len(policy_events(server)) == 1)
        runtime.on_event("SchedulingPolicy", "MODIFIED", make_policy(generation=2, tieBreak="Coin"))
        await until(lambda: len(policy_events(server)) == 2)
        assert policy_events(server) == ["batch: InForce", "batch: Refused"]


@pytest.mark.parametrize("base_first", [True, False])
async def test_a_start_reports_no_policy_as_refused_whose_base_is_read_later(
    server: Server, tmp_path: Path, base_first: bool, caplog: pytest.LogCaptureFixture
) -> None:
    path = write_kubeconfig(tmp_path, f"http://127.0.0.1:{server.port}")
    server.answer("GET", "/api/v1/nodes", listed("Node", make_node("a")))
    policies = [make_policy(base="common"), make_policy("common", schedulerName="common")]
    server.answer("GET", POLICIES, listed("SchedulingPolicy", *policies))
    server.answer("POST", "/apis/events.k8s.io/v1/namespaces/default/events", Answer(201))
    runtime = make_runtime(Options(kubeconfig=str(path), https_address="", standalone=True))
    await runtime.start()
    for policy in reversed(policies) if base_first else policies:
        runtime.on_event("SchedulingPolicy", None, policy)
        assert runtime.statistics()["policies"]["refused"] == 0
    runtime.on_event("Node", None, make_node("a"))
    await until(lambda: len(written(server)) == 2 and len(policy_events(server)) == 2)
    await runtime.stop()
    assert sorted(policy_events(server)) == ["batch: InForce", "common: InForce"]
    assert "is refused" not in caplog.text


async def test_the_last_seconds_before_the_end_are_told_too(server: Server, tmp_path: Path, clock: ManualClock) -> None:
    async with scheduling(server, tmp_path, clock) as runtime:
        runtime.on_event("SchedulingPolicy", "ADDED", make_policy())
        runtime.on_event("Pod", "ADDED", make_pod("web"))
        await until(lambda: len(pod_events(server)) == 1)
    assert written(server)[-1]["placed"] == 1


async def test_our_own_status_writes_are_no_work(server: Server, tmp_path: Path, clock: ManualClock) -> None:
    async with scheduling(server, tmp_path, clock) as runtime:
        runtime.on_event("SchedulingPolicy", "ADDED", make_policy())
        runtime.on_event("Pod", "ADDED", make_pod("big", cpu=99))
        await until(lambda: len(written(server)) == 1 and len(pod_events(server)) == 1)
        before = runtime.statistics()
        runtime.on_event("SchedulingPolicy", "MODIFIED", make_policy() | {"status": written(server)[0]})
        after = runtime.statistics()
        assert after["policies"] == before["policies"]
        assert after["scheduler"]["queue"] == before["scheduler"]["queue"]
        await until(lambda: runtime.components.statuses.statistics()["waiting"] == 0)
        assert len(written(server)) == 1


async def test_a_report_that_goes_wrong_is_not_the_last_one(
    server: Server, tmp_path: Path, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with scheduling(server, tmp_path, clock) as runtime:
        reports = iter([KeyError("surprise"), None, None])
        made = []

        def report() -> None:
            made.append(next(reports))
            if made[-1] is not None:
                raise made[-1]

        monkeypatch.setattr(runtime.components.policies, "report", report)
        for count in (1, 2):
            await until(lambda: clock.sleeping == 2)
            await clock.advance(10)
            await until(lambda count=count: len(made) == count)  # type: ignore[misc]
        assert runtime.statistics()["faults"] == {"reporting on": 1}


async def test_extenders_see_objects_in_full_while_a_policy_has_some(
    server: Server, tmp_path: Path, clock: ManualClock
) -> None:
    async with scheduling(server, tmp_path, clock) as runtime:
        extender = {"urlPrefix": "http://192.0.2.1:9", "filterVerb": "filter"}
        runtime.on_event("SchedulingPolicy", "ADDED", make_policy(schedulerName="extended", extenders=[extender]))
        runtime.on_event("Node", "MODIFIED", make_node("a"))
        runtime.on_event("Pod", "ADDED", make_pod("web", scheduler="extended", gates=["g"]))
        assert runtime.statistics()["bodies"] == {"pods": 1, "nodes": 1}
        runtime.on_event("Pod", "DELETED", make_pod("web", scheduler="extended", gates=["g"]))
        runtime.on_event("SchedulingPolicy", "DELETED", make_policy(schedulerName="extended", extenders=[extender]))
        assert runtime.statistics()["bodies"] == {"pods": 0, "nodes": 0}


async def test_nothing_is_told_of_policies_before_all_of_them_are_known(server: Server, tmp_path: Path) -> None:
    path = write_kubeconfig(tmp_path, f"http://127.0.0.1:{server.port}")
    server.answer("GET", "/api/v1/nodes", listed("Node", make_node("a")))
    policies = [make_policy(base="later"), make_policy("later", schedulerName="later")]
    server.answer("GET", "/apis/berth.dev/v1alpha1/schedulingpolicies", listed("SchedulingPolicy", *policies))
    for policy in policies:
        server.answer("PATCH", STATUS.replace("batch", policy["metadata"]["name"]), Answer())
    runtime = make_runtime(Options(kubeconfig=str(path), https_address="", standalone=True))
    await runtime.start()
    runtime.on_event("SchedulingPolicy", None, policies[0])
    assert runtime.components.statuses.statistics()["waiting"] == 0
    runtime.on_event("SchedulingPolicy", None, policies[1])
    runtime.on_event("Node", None, make_node("a"))
    await until(lambda: len(written(server)) == 2)
    await runtime.stop()
    accepted = [condition for status in written(server) for condition in status["conditions"][:2]]
    assert {(condition["type"], condition["status"]) for condition in accepted} == {
        ("Ready", "True"),
        ("Accepted", "True"),
    }


# --- what can be seen of it ------------------------------------------------------------------------------------------


async def test_what_is_served_is_told_apart_by_name(
    server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = write_kubeconfig(tmp_path, f"http://127.0.0.1:{server.port}")
    server.answer("GET", "/api/v1/nodes", listed("Node", make_node("a")))
    stuck: list[str] = []
    monkeypatch.setattr(Leader, "alarm", lambda _: stuck[0] if stuck else None)
    runtime = make_runtime(Options(kubeconfig=str(path), https_address="127.0.0.1:0", seed=7))
    await runtime.start()
    await until(lambda: runtime.components.api.last_answer_seconds is not None)
    assert runtime.components.serving.server is not None
    url = f"https://127.0.0.1:{runtime.components.serving.server.https_port}"
    with monkeypatch.context() as patch:  # the words are tested here, and not how busy the machine is
        patch.setattr(LoopWatchdog, "lag_seconds", 0.25)
        patch.setattr(Api, "last_answer_seconds", 0.5)
        _, text = await asyncio.to_thread(http_get, f"{url}/readyz?verbose", timeout_seconds=LIMIT_SECONDS)
    for line in ("[-]cache failed: ", "[-]scheduler failed: ", "[+]leadership ok: stands by"):
        assert line in text
    assert "[+]loop ok: at most 0.250 s late in the last half minute" in text
    assert "[+]api-server ok: it last answered 0.5 s ago" in text
    status, text = await asyncio.to_thread(http_get, f"{url}/livez?verbose", timeout_seconds=LIMIT_SECONDS)
    assert (status, text) == (200, "[+]loop ok\n[+]scheduler ok\n[+]leadership ok\nlivez check passed\n")
    stuck.append("it is held without being renewed")
    assert (await asyncio.to_thread(http_get, f"{url}/livez", timeout_seconds=LIMIT_SECONDS))[0] == 500
    statistics = runtime.statistics()
    assert statistics["loop_lag_seconds"] >= 0
    assert statistics["last_api_success_seconds"] >= 0
    served = {"connections": 3, "503": 1, "200": 1, "500": 1}
    await until(lambda: runtime.statistics()["serving"]["counts"] == served)  # counted once an answer has been sent
    await runtime.stop()


async def test_a_scheduling_loop_that_has_failed_is_not_alive(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def fail() -> None:
        raise KeyError("surprise")

    runtime = make_runtime(Options(kubeconfig=str(write_kubeconfig(tmp_path, "http://x:1")), https_address=""))
    monkeypatch.setattr(runtime.components.scheduler, "run", fail)
    assert runtime.components.health.alarms["scheduler"]() is None
    await runtime.components.decisions.run()
    await runtime.wait_failure()
    assert runtime.components.health.alarms["scheduler"]() == "the scheduling loop has ended with an error"


async def test_a_loop_that_lags_is_not_ready(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    runtime = make_runtime(Options(kubeconfig=str(write_kubeconfig(tmp_path, "http://x:1")), https_address=""))
    assert runtime.components.health.checks["loop"]().problem is None
    monkeypatch.setattr(LoopWatchdog, "lag_seconds", 5.5)
    assert runtime.components.health.checks["loop"]().problem == "it came round 5.5 s late in the last half minute"
