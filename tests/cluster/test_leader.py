"""A replica from standby to leader and back: what it decides, what it writes, and what it does not."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from berth.cluster.clock import RealClock
from berth.cluster.leadership import OUTSIDE, write_record
from berth.cluster.peering import LEADER, PATH
from berth.runtime import Options, Runtime, make_runtime
from cluster.server import Answer, Seen, Server, listed, refusal, until, write_kubeconfig
from policy.builders import make_policy
from support.builders import make_node, make_object, make_pod

BERTH = f"{PATH}/berth"
POLICIES = "/apis/berth.dev/v1alpha1/schedulingpolicies"
SENIOR = 2**60


class Clock:
    """Real time, and as much more as a test adds to it."""

    def __init__(self) -> None:
        self._real = RealClock()
        self.added = 0.0

    def now(self) -> float:
        return self._real.now() + self.added

    def wall(self) -> Any:
        return self._real.wall() + timedelta(seconds=self.added)

    async def sleep(self, seconds: float) -> None:
        await self._real.sleep(min(seconds, 0.02))


class Harness:
    """A runtime, and the peering object that it and others write to."""

    def __init__(self, server: Server, runtime: Runtime, clock: Clock) -> None:
        self.server, self.runtime, self.clock = server, runtime, clock
        self.status: dict[str, Any] = {}
        self.annotations: dict[str, Any] = {}
        self.version = 1
        assert runtime.leader is not None
        self.lead = runtime.leader
        self.us = self.lead.leadership.identity
        server.answer("GET", BERTH, lambda _: Answer(200, self.body()))
        server.answer("PATCH", BERTH, self.patch)
        self.pods: dict[str, Any] = {}
        server.answer("GET", "/api/v1/pods", lambda _: listed("Pod", *self.pods.values()))

    def add(self, pod: dict[str, Any], *, seen: bool = True) -> None:
        """A pod exists, and the watch shows it."""
        self.pods[pod["metadata"]["name"]] = pod
        if seen:
            self.runtime.on_event("Pod", "ADDED", pod)

    def body(self) -> dict[str, Any]:
        metadata = {"name": "berth", "resourceVersion": str(self.version), "annotations": dict(self.annotations)}
        return {"metadata": metadata, "status": dict(self.status)}

    def patch(self, request: Seen) -> Answer:
        self.version += 1
        if isinstance(request.body, list):
            self.annotations.clear()
        else:
            self.annotations |= request.body.get("metadata", {}).get("annotations", {})
            self.status |= request.body.get("status", {})
        self.runtime.on_peering("MODIFIED", self.body())
        return Answer(200, self.body())

    def show(self) -> None:
        """The watch shows the object as it is."""
        self.version += 1
        self.runtime.on_peering("MODIFIED", self.body())

    def renew(self) -> None:
        """As the elector does it."""
        record = write_record(self.lead.leadership.renew(), self.lead.leadership.terms, self.clock.wall())
        self.status[self.us] = {**self.status.get(self.us, {}), **record}
        self.show()

    def other(self, priority: int) -> None:
        stamp = self.clock.wall().isoformat()
        self.status["them"] = {"priority": priority, "lifetime": 10, "lastseen": stamp}
        self.show()

    def binds(self) -> list[str]:
        return [request.path for request in self.server.seen("POST", "binding")]

    def writes(self) -> list[Seen]:
        """But for those about the replicas."""
        found = [*self.server.seen("POST"), *self.server.seen("PATCH"), *self.server.seen("DELETE")]
        return [request for request in found if PATH not in request.path]


@pytest.fixture
async def harness(server: Server, tmp_path: Path) -> AsyncIterator[Harness]:
    async with replica(server, tmp_path) as harness:
        yield harness


@asynccontextmanager
async def replica(server: Server, tmp_path: Path) -> AsyncIterator[Harness]:
    """Synced, and on a cluster of one node; nobody leads yet."""
    path = write_kubeconfig(tmp_path, f"http://127.0.0.1:{server.port}")
    items = [make_node("a")]
    server.answer("GET", "/api/v1/nodes", listed("Node", *items))
    server.answer("POST", "/apis/events.k8s.io/v1/namespaces/default/events", Answer(201))
    for name in ("web", "two", "big"):
        server.answer("POST", f"/api/v1/namespaces/default/pods/{name}/binding", Answer(201))
        server.answer("PATCH", f"/api/v1/namespaces/default/pods/{name}/status", Answer(200))
    clock = Clock()
    runtime = make_runtime(Options(kubeconfig=str(path), https_address=""), clock=clock)
    harness = Harness(server, runtime, clock)
    await runtime.start()
    runtime.on_event("Node", None, items[0])
    await until(lambda: runtime.readiness().is_ready)
    yield harness
    await runtime.stop()


async def looks(harness: Harness, times: int = 5) -> None:
    """So many looks at who leads later."""
    for _ in range(times):
        before = harness.lead.beat_seconds
        await until(lambda before=before: harness.lead.beat_seconds != before)  # type: ignore[misc]


async def take_lead(harness: Harness) -> None:
    """Leads, and has said so: no renewal of ours is under way."""
    harness.renew()
    await until(lambda: harness.lead.is_leading and bool(harness.status[harness.us].get("leadingSince")))


async def test_a_standby_is_ready_and_writes_nothing(harness: Harness) -> None:
    harness.other(SENIOR)
    harness.renew()
    harness.add(make_pod("web"))
    harness.add(make_pod("big", cpu=99))
    harness.server.answer("GET", POLICIES, listed("SchedulingPolicy", make_policy()))
    harness.runtime.on_event("SchedulingPolicy", "ADDED", make_policy())
    await harness.runtime.components.policy_reports.report()
    await looks(harness)
    assert harness.writes() == []
    assert harness.runtime.readiness().is_ready
    text = harness.runtime.readiness().text(verbose=True)
    assert "[+]leadership ok: stands by behind 1\n" in text
    assert harness.us not in text
    assert harness.runtime.statistics()["leadership"]["leading"] == 0


async def test_a_leader_claims_the_lead_before_it_opens_and_binds_what_has_waited(harness: Harness) -> None:
    harness.add(make_pod("web"))
    await take_lead(harness)
    await until(lambda: len(harness.binds()) == 1)
    order = [request.path for request in harness.server.requests if request.method in ("PATCH", "POST")]
    assert order.index(BERTH) < order.index("/api/v1/namespaces/default/pods/web/binding")
    assert harness.annotations[LEADER] == f"{harness.us} 10"
    await until(lambda: bool(harness.status[harness.us].get("leadingSince")))
    text = harness.runtime.readiness().text(verbose=True)
    assert "[+]leadership ok: leads, the fence is open\n" in text
    assert harness.us not in text
    binding = harness.server.seen("POST", "binding")[0]
    assert binding.query == {"timeout": "2s"}


async def test_a_senior_that_appears_stops_all_writes_and_the_standby_goes_on_listening(harness: Harness) -> None:
    await take_lead(harness)
    harness.other(SENIOR)
    harness.add(make_pod("web"))
    await until(lambda: not harness.lead.is_leading)
    harness.add(make_pod("two"))
    await looks(harness)
    assert harness.writes() == []
    harness.other(1)  # it has lowered itself
    harness.renew()
    await until(lambda: len(harness.binds()) == 2)
    assert harness.runtime.statistics()["leadership"]["changes"] == 3


async def test_the_fence_closes_by_the_clock_alone_and_opens_with_the_next_renewal(
    harness: Harness, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    await take_lead(harness)
    harness.clock.added += 8  # nothing was heard of meanwhile
    assert not harness.lead.is_open
    harness.add(make_pod("web"))
    await until(lambda: any("The fence is closed" in record.message for record in caplog.records))
    assert harness.binds() == []
    harness.renew()
    await until(lambda: len(harness.binds()) == 1)
    assert harness.lead.is_leading
    assert harness.runtime.statistics()["leadership"]["closings"] == 1


async def test_a_process_that_was_stopped_for_longer_than_a_lifetime_is_the_youngest(
    harness: Harness, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    await take_lead(harness)
    before = harness.status[harness.us]["priority"]
    harness.clock.added += 15
    await until(lambda: not harness.lead.is_leading)
    harness.other(7)
    await until(lambda: harness.status[harness.us]["priority"] < 7)
    assert before > 7
    (closed,) = [record.message for record in caplog.records if "The fence is closed" in record.message]
    moment = datetime.fromisoformat(closed.removeprefix("The fence is closed at ").partition("Z")[0] + "+00:00")
    assert harness.clock.wall() - moment > timedelta(seconds=7)  # when it closed, not when that was noticed


async def test_a_process_that_was_stopped_reads_who_is_there_before_it_enters_again(harness: Harness) -> None:
    await take_lead(harness)
    reads = len(harness.server.seen("GET", BERTH))
    harness.clock.added += 15
    harness.renew()  # kopf is the first to wake
    assert harness.status[harness.us]["priority"] == OUTSIDE
    stamp = harness.clock.wall().isoformat()
    harness.status["them"] = {"priority": 7, "lifetime": 10, "lastseen": stamp}  # and no watch has shown it yet
    harness.version += 1
    await until(lambda: harness.status[harness.us]["priority"] != OUTSIDE)
    assert len(harness.server.seen("GET", BERTH)) == reads + 1
    assert harness.status[harness.us]["priority"] < 7
    assert harness.lead.leadership.seniors() == ["them"]


async def test_a_peering_object_that_was_deleted_is_made_again(harness: Harness) -> None:
    await take_lead(harness)
    gone = refusal(404, "NotFound", "not found")
    harness.server.answer("GET", BERTH, gone)
    harness.server.answer("PATCH", BERTH, gone)

    def make(_: Seen) -> Answer:
        harness.server.answer("GET", BERTH, lambda _: Answer(200, harness.body()))
        harness.server.answer("PATCH", BERTH, harness.patch)
        return Answer(201)

    harness.server.answer("POST", PATH, make)
    harness.status.clear()
    harness.version += 1
    harness.runtime.on_peering("DELETED", harness.body())
    await until(lambda: not harness.lead.is_leading)
    harness.clock.added += 15
    await until(lambda: bool(harness.server.seen("POST", PATH)))
    assert harness.server.seen("POST", PATH)[0].body["metadata"]["name"] == "berth"
    harness.renew()
    await until(lambda: harness.lead.is_leading)


async def test_that_nobody_can_lead_without_the_object_is_said_once(
    harness: Harness, caplog: pytest.LogCaptureFixture
) -> None:
    await take_lead(harness)
    gone = refusal(404, "NotFound", "not found")
    harness.server.answer("GET", BERTH, gone)
    harness.server.answer("PATCH", BERTH, gone)
    harness.server.answer("POST", PATH, refusal(403, "Forbidden", "may not create"))
    for times in range(3):
        harness.clock.added += 15
        await until(lambda times=times: len(harness.server.seen("POST", PATH)) > times)  # type: ignore[misc]
    assert sum("No replica can lead" in message for message in caplog.messages) == 1
    assert not harness.runtime.statistics()["faults"]


async def test_a_restored_store_has_whatever_watches_the_records_begin_anew(harness: Harness) -> None:
    harness.version = 100
    harness.show()
    harness.runtime.components.incidents.on_rewound("in a test")
    await until(lambda: harness.lead.leadership.beginnings == 1)
    assert harness.lead.leadership.version == -1


async def test_where_another_cluster_answers_no_record_is_to_be_written(harness: Harness) -> None:
    await take_lead(harness)
    harness.runtime.on_event("Namespace", None, make_object("Namespace", "kube-system", uid="first"))
    assert not harness.lead.leadership.is_silent
    harness.runtime.on_event("Namespace", "MODIFIED", make_object("Namespace", "kube-system", uid="other"))
    assert harness.lead.leadership.is_silent


async def test_a_leader_removes_a_record_that_nobody_renews_and_no_other(harness: Harness) -> None:
    await take_lead(harness)
    harness.other(1)
    kept = harness.status["them"]["lastseen"]

    async def pass_time(seconds: int) -> None:
        for _ in range(seconds):
            harness.clock.added += 1
            harness.renew()
            await looks(harness, 2)

    await pass_time(15)
    assert removals(harness) == []
    harness.other(1)
    renewed = harness.status["them"]["lastseen"]
    await pass_time(15)
    assert removals(harness) == []  # it has been silent for less than two lifetimes
    await pass_time(25)
    assert {removed[0]["value"] for removed in removals(harness)} == {renewed} != {kept}
    assert removals(harness)[0] == [
        {"op": "test", "path": "/status/them/lastseen", "value": renewed},
        {"op": "remove", "path": "/status/them"},
    ]


def removals(harness: Harness) -> list[Any]:
    found = [request.body for request in harness.server.seen("PATCH", BERTH) if isinstance(request.body, list)]
    return [steps for steps in found if "/status/" in steps[0]["path"]]


async def test_a_list_that_the_watch_has_not_shown_keeps_a_replica_from_leading(harness: Harness) -> None:
    harness.add(make_pod("unseen", node="a"), seen=False)
    harness.renew()
    await looks(harness)
    assert not harness.lead.is_leading
    harness.add(make_pod("unseen", node="a"))
    await until(lambda: harness.lead.is_leading)


async def test_a_replica_that_cannot_claim_the_lead_does_not_lead(harness: Harness) -> None:
    harness.server.answer("PATCH", BERTH, Answer(500))
    harness.renew()
    await looks(harness)
    assert not harness.lead.is_leading
    harness.server.answer("PATCH", BERTH, harness.patch)
    await until(lambda: harness.lead.is_leading)


async def test_a_comparison_from_before_a_lapse_opens_nothing(
    harness: Harness, monkeypatch: pytest.MonkeyPatch
) -> None:
    lists = [asyncio.Event(), asyncio.Event()]
    asked: list[asyncio.Event] = []

    async def confirm(_: float) -> bool:
        asked.append(lists[len(asked)])
        await asked[-1].wait()
        return True

    monkeypatch.setattr(harness.runtime.components.cache_sync, "confirm", confirm)
    harness.renew()
    await until(lambda: len(asked) == 1)
    harness.clock.added += 20  # frozen, and another may have led
    await until(harness.lead.leadership.may_lead)
    lists[0].set()
    await until(lambda: len(asked) == 2)
    assert not harness.lead.is_leading
    assert harness.lead.counts["changes"] == 0
    harness.renew()
    lists[1].set()
    await until(lambda: harness.lead.is_leading)


async def test_an_announcement_that_fails_is_made_again(harness: Harness) -> None:
    harness.renew()
    harness.server.answer("PATCH", BERTH, harness.patch, Answer(500), harness.patch)
    await until(lambda: harness.lead.is_leading)
    await until(lambda: bool(harness.status[harness.us].get("leadingSince")))


async def test_a_bind_whose_echo_is_missing_closes_the_fence_and_in_the_end_the_lead_is_given_up(
    harness: Harness,
) -> None:
    harness.add(make_pod("web"))
    await take_lead(harness)
    await until(lambda: len(harness.binds()) == 1)
    first = harness.status[harness.us]["priority"]

    async def pass_time(done: Callable[[], bool]) -> None:
        for _ in range(40):
            harness.clock.added += 1
            harness.renew()
            await looks(harness, 2)
            if done():
                return
        raise AssertionError("nothing has happened")

    await pass_time(lambda: not harness.lead.is_open)
    assert harness.lead.is_leading
    await pass_time(lambda: not harness.lead.is_leading)
    await pass_time(lambda: harness.status[harness.us]["priority"] < first)


async def test_a_clean_end_gives_the_lead_up_in_words(server: Server, tmp_path: Path) -> None:
    async with replica(server, tmp_path) as harness:
        await take_lead(harness)
        first = harness.status[harness.us]["priority"]
    assert harness.status[harness.us]["priority"] < first
    assert harness.status[harness.us]["leadingSince"] is None
    assert harness.annotations == {}


async def test_what_is_counted_under_a_policy_goes_on_from_what_the_last_leader_wrote(harness: Harness) -> None:
    policy = make_policy()
    server = harness.server
    server.answer("PATCH", f"{POLICIES}/batch/status", Answer(200))
    told = {**policy, "metadata": {**policy["metadata"], "resourceVersion": "77"}, "status": {"placed": 41}}
    server.answer("GET", POLICIES, listed("SchedulingPolicy", told))
    harness.other(SENIOR)
    harness.renew()
    harness.runtime.on_event("SchedulingPolicy", "ADDED", policy)
    harness.runtime.on_event("SchedulingPolicy", "MODIFIED", told)
    harness.other(1)
    harness.renew()
    await until(lambda: bool(server.seen("PATCH", "schedulingpolicies")))
    assert server.seen("PATCH", "schedulingpolicies")[-1].body["status"]["placed"] == 41


async def test_peering_objects_that_make_no_sense_raise_nothing(harness: Harness) -> None:
    for body in ({}, {"metadata": None}, {"metadata": {"name": "berth"}, "status": 5}, {"metadata": {"name": "x"}}):
        harness.runtime.on_peering("ADDED", body)
        harness.runtime.on_peering("DELETED", body)
