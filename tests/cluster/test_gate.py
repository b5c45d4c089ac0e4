"""Who may write: binds first, then nominations and evictions, then conditions, then events, each within its time."""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from berth.cluster.api import Api
from berth.cluster.clock import RealClock
from berth.cluster.fence import OpenFence
from berth.cluster.gate import BIND, CONDITION, EVENT, RANKS, STEP_SECONDS, URGENT, Rank, WriteGate
from berth.cluster.port import KubernetesCluster
from berth.model import Pod, parse_pod
from berth.scheduler.error_log import ErrorLog
from berth.scheduler.ports import PodEvent
from cluster.manual_clock import ManualClock
from cluster.server import Answer, Seen, Server, until
from support.builders import make_pod

EVENTS = "/apis/events.k8s.io/v1/namespaces/default/events"


class Harness:
    """Writes that are submitted, and those that have begun, by name."""

    def __init__(self, gate: WriteGate) -> None:
        self.gate = gate
        self.begun: list[str] = []

    def submit(self, rank: Rank, *names: str) -> None:
        for name in names:
            self.gate.submit(rank, lambda name=name: self._begin(name))  # type: ignore[misc]

    def _begin(self, name: str) -> bool:
        self.begun.append(name)
        return True


@pytest.fixture
def harness(gate: WriteGate) -> Harness:
    return Harness(gate)


async def test_everything_goes_at_once_while_nothing_is_under_way(harness: Harness) -> None:
    harness.submit(EVENT, "event")
    assert harness.begun == ["event"]


@pytest.mark.parametrize("rank", [CONDITION, EVENT])
async def test_conditions_and_events_wait_while_a_bind_is_under_way(harness: Harness, rank: Rank) -> None:
    harness.gate.begin(BIND)
    harness.gate.begin(BIND)
    harness.submit(rank, "first", "second")
    harness.gate.end(BIND)
    assert harness.begun == []
    harness.gate.end(BIND)
    assert harness.begun == ["first", "second"]


async def test_who_waits_goes_in_the_order_of_ranks(harness: Harness) -> None:
    for _ in range(URGENT.beside + 1):
        harness.gate.begin(BIND)
    harness.submit(EVENT, "event")
    harness.submit(CONDITION, "condition")
    harness.submit(URGENT, "nomination")
    assert harness.begun == []
    harness.gate.end(BIND)
    assert harness.begun == ["nomination"]
    for _ in range(URGENT.beside):
        harness.gate.end(BIND)
    assert harness.begun == ["nomination"]  # which is under way
    harness.gate.end(URGENT)
    assert harness.begun == ["nomination", "condition"]
    harness.gate.end(CONDITION)
    assert harness.begun == ["nomination", "condition", "event"]


async def test_urgent_writes_go_beside_some_binds(harness: Harness) -> None:
    for _ in range(URGENT.beside):
        harness.gate.begin(BIND)
    harness.submit(URGENT, "eviction")
    assert harness.begun == ["eviction"]


@pytest.mark.parametrize("rank", [URGENT, CONDITION, EVENT])
async def test_a_write_that_has_waited_for_its_time_goes_whatever_is_under_way(
    harness: Harness, clock: ManualClock, rank: Rank
) -> None:
    for _ in range(64):
        harness.gate.begin(BIND)
    harness.submit(rank, "first")
    await until(lambda: clock.sleeping == 1)
    await clock.advance(rank.patience_seconds - 0.5)
    harness.submit(rank, "second")
    assert harness.begun == []
    await clock.advance(0.5)
    assert harness.begun == ["first"]
    assert harness.gate.statistics()["late"][rank.name] == 1
    assert harness.gate.statistics()["waiting"][rank.name] == 1
    await clock.advance(rank.patience_seconds - 0.5)
    assert harness.begun == ["first", "second"]


def test_an_event_is_written_within_five_seconds() -> None:
    assert max(CONDITION.patience_seconds, EVENT.patience_seconds) <= 4.0  # and a second for the request


async def test_an_urgent_write_that_comes_later_but_has_less_time_is_not_forgotten(
    harness: Harness, clock: ManualClock
) -> None:
    for _ in range(64):
        harness.gate.begin(BIND)
    harness.submit(EVENT, "event")
    await until(lambda: clock.sleeping == 1)
    harness.submit(URGENT, "eviction")
    await until(lambda: clock.sleeping == 1)
    for _ in range(10):
        await asyncio.sleep(0)
    await clock.advance(URGENT.patience_seconds)
    assert harness.begun == ["eviction"]


async def test_late_writes_are_few_at_once_and_the_next_go_when_these_have_ended(
    harness: Harness, clock: ManualClock
) -> None:
    harness.gate.begin(BIND)
    harness.submit(EVENT, *(str(number) for number in range(EVENT.at_once + 2)))
    await until(lambda: clock.sleeping == 1)
    await clock.advance(EVENT.patience_seconds)
    assert len(harness.begun) == EVENT.at_once
    harness.gate.end(EVENT)
    assert len(harness.begun) == EVENT.at_once + 1


async def test_who_has_nothing_to_write_when_it_is_its_turn_holds_up_nobody(harness: Harness) -> None:
    harness.gate.begin(BIND)
    for _ in range(5000):
        harness.gate.submit(CONDITION, lambda: False)
    harness.submit(EVENT, "event")
    harness.gate.end(BIND)
    assert harness.begun == ["event"]


async def test_who_had_nothing_to_write_is_not_counted_as_late(harness: Harness, clock: ManualClock) -> None:
    harness.gate.begin(BIND)
    harness.gate.submit(EVENT, lambda: False)
    await until(lambda: clock.sleeping == 1)
    await clock.advance(EVENT.patience_seconds)
    assert harness.gate.statistics() == {
        "waiting": {"urgent": 0, "condition": 0, "event": 0},
        "late": {"urgent": 0, "condition": 0, "event": 0},
    }


async def test_nothing_goes_before_the_start_and_after_the_stop(clock: ManualClock) -> None:
    gate = WriteGate(clock)
    harness = Harness(gate)
    harness.submit(EVENT, "early")
    assert harness.begun == []
    gate.start()
    await until(lambda: harness.begun == ["early"])
    await gate.stop()
    harness.submit(EVENT, "late")
    assert harness.begun == ["early"]


async def test_who_is_cancelled_while_he_waits_takes_no_place(gate: WriteGate) -> None:
    for _ in range(64):
        gate.begin(BIND)
    early, late = asyncio.create_task(gate.wait(URGENT)), asyncio.create_task(gate.wait(URGENT))
    await asyncio.sleep(0)
    early.cancel()
    await asyncio.sleep(0)
    for _ in range(64):
        gate.end(BIND)
    late.cancel()  # it is its turn, and it does not know yet
    await asyncio.gather(early, late, return_exceptions=True)
    harness = Harness(gate)
    harness.submit(EVENT, "event")
    assert harness.begun == ["event"]


class Watched:
    """A gate beside which every rule of its table is checked, at each write that begins."""

    def __init__(self, clock: ManualClock) -> None:
        self.clock = clock
        self.gate = WriteGate(clock)
        self.under_way = dict.fromkeys(RANKS, 0)
        self.waiting: dict[Rank, list[float]] = {rank: [] for rank in RANKS}

    def submit(self, rank: Rank) -> None:
        since = self.clock.now()
        self.waiting[rank].append(since)
        self.gate.submit(rank, lambda: self._begin(rank, since))

    def _begin(self, rank: Rank, since: float) -> bool:
        assert self.waiting[rank].pop(0) == since, "the first of its rank goes first"
        above = sum(self.under_way[other] for other in RANKS[: rank.order])
        assert above <= rank.beside or self.clock.now() - since >= rank.patience_seconds
        self.under_way[rank] += 1
        assert self.under_way[rank] <= rank.at_once
        return True

    def begin_bind(self) -> None:
        self.under_way[BIND] += 1
        self.gate.begin(BIND)

    def end(self, rank: Rank) -> None:
        if self.under_way[rank]:
            self.under_way[rank] -= 1
            self.gate.end(rank)

    def check_nobody_waits_for_nothing(self) -> None:
        above = 0
        for rank in RANKS:
            if self.waiting[rank] and self.under_way[rank] < rank.at_once:
                assert above > rank.beside
                assert self.clock.now() - self.waiting[rank][0] < rank.patience_seconds + STEP_SECONDS
            above += self.under_way[rank]


steps = st.one_of(
    st.just(("bind", BIND)),
    st.tuples(st.just("end"), st.sampled_from(RANKS)),
    st.tuples(st.just("submit"), st.sampled_from(RANKS[1:])),
    st.tuples(st.just("wait"), st.just(BIND)),
)


@settings(max_examples=60, deadline=None)
@given(st.lists(steps, max_size=60))
def test_whatever_happens_the_order_is_kept_and_nobody_waits_for_nothing(taken: list[tuple[str, Rank]]) -> None:
    async def play() -> None:
        watched = Watched(ManualClock())
        watched.gate.start()
        for what, rank in taken:
            if what == "bind":
                watched.begin_bind()
            elif what == "end":
                watched.end(rank)
            elif what == "submit":
                watched.submit(rank)
            else:
                await watched.clock.advance(0)
                await watched.clock.advance(0.7)
                await watched.clock.advance(STEP_SECONDS)
            if what != "wait":
                await asyncio.sleep(0)
            watched.check_nobody_waits_for_nothing()
        await watched.gate.stop()

    asyncio.run(play())


# --- as the scheduler's port uses it ---------------------------------------------------------------------------------


class Scene:
    """A cluster whose binds are answered when the test says so."""

    def __init__(self, cluster: KubernetesCluster, server: Server) -> None:
        self.cluster = cluster
        self.server = server
        self.order: list[str] = []

    def note(self, name: str, answer: Answer) -> Callable[[Seen], Answer]:
        def react(_: Seen) -> Answer:
            self.order.append(name)
            return answer

        return react


def pod(name: str) -> Pod:
    return parse_pod(make_pod(name))


def path(name: str, subresource: str) -> str:
    return f"/api/v1/namespaces/default/pods/{name}/{subresource}"


@pytest.fixture
def cluster(api: Api, clock: ManualClock) -> KubernetesCluster:
    return KubernetesCluster(api, clock, "us", ErrorLog(), OpenFence())


async def test_the_conditions_and_events_of_a_burst_are_written_after_its_binds(
    server: Server, cluster: KubernetesCluster
) -> None:
    scene = Scene(cluster, server)
    server.answer("POST", EVENTS, scene.note("event", Answer(201)))
    server.answer("PATCH", path("stuck", "status"), scene.note("condition", Answer()))
    binds: list[Awaitable[None]] = []
    cluster.start()
    for number in range(5):
        server.answer("POST", path(f"web-{number}", "binding"), scene.note("bind", Answer(201)))
        binds.append(asyncio.ensure_future(cluster.bind(pod(f"web-{number}"), "n")))
    await asyncio.sleep(0)
    cluster.record_event(pod("stuck"), PodEvent("Warning", "FailedScheduling", "Scheduling", "no"))
    cluster.report_condition(pod("stuck"), "Unschedulable", "no")
    await asyncio.gather(*binds)
    await until(lambda: len(scene.order) == 7)
    assert scene.order == ["bind"] * 5 + ["condition", "event"]
    await cluster.stop()


async def test_a_nomination_does_not_wait_for_the_conditions_before_it(
    server: Server, cluster: KubernetesCluster
) -> None:
    scene = Scene(cluster, server)
    written: list[str] = []
    server.answer("PATCH", path("high", "status"), scene.note("nomination", Answer(200, {"metadata": {}})))
    server.answer("PATCH", path("stuck", "status"), scene.note("condition", Answer()))
    cluster.start()
    cluster.gate.begin(BIND)
    cluster.report_condition(pod("stuck"), "Unschedulable", "no")
    cluster.report_condition(pod("high"), "Unschedulable", "no")
    cluster.nominate(pod("high"), "n", written.append)
    await until(lambda: written == [""])
    assert scene.order == ["nomination"]
    cluster.gate.end(BIND)
    await until(lambda: cluster.statistics()["conditions"]["waiting"] == 0)
    assert scene.order == ["nomination", "condition"]  # what was said of the nominated pod went with the nomination
    await cluster.stop()


async def test_a_bind_does_not_wait_for_a_condition_that_waits_for_binds(
    server: Server, cluster: KubernetesCluster
) -> None:
    server.answer("POST", path("web", "binding"), Answer(201))
    cluster.start()
    cluster.gate.begin(BIND)
    cluster.report_condition(pod("web"), "Unschedulable", "no")
    await cluster.bind(pod("web"), "n")
    cluster.gate.end(BIND)
    await until(lambda: cluster.statistics()["conditions"]["waiting"] == 0)
    assert [request.method for request in server.requests] == ["POST"]
    await cluster.stop()


async def test_events_that_wait_for_binds_are_written_at_the_exit(server: Server, api: Api, tmp_path: Path) -> None:
    server.answer("POST", EVENTS, Answer(201))
    cluster = KubernetesCluster(api, RealClock(), "us", ErrorLog(), OpenFence())
    cluster.start()
    cluster.gate.begin(BIND)
    cluster.record_event(pod("web"), PodEvent("Normal", "Scheduled", "Binding", "yes"))
    cluster.gate.end(BIND)
    await cluster.stop()
    assert len(server.seen("POST", EVENTS)) == 1


async def test_evictions_give_way_to_a_crowd_of_binds(
    server: Server, cluster: KubernetesCluster, clock: ManualClock
) -> None:
    server.answer("PATCH", path("low", "status"), Answer())
    server.answer("DELETE", "/api/v1/namespaces/default/pods/low", Answer())
    cluster.start()
    for _ in range(64):
        cluster.gate.begin(BIND)
    evicting = asyncio.create_task(cluster.evict(pod("low"), pod("high"), lambda: True))
    await until(lambda: clock.sleeping == 1)
    assert server.requests == []
    await clock.advance(URGENT.patience_seconds)
    assert await evicting
    assert cluster.gate.statistics()["late"] == {"urgent": 1, "condition": 0, "event": 0}
    await cluster.stop()
