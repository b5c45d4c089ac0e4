"""What a running scheduler adds to an explanation: where the pod stands, since when, and when it is tried next."""

from collections.abc import Iterator
from datetime import datetime
from pathlib import Path

import pytest

from berth.engine.binding_points import Permit
from berth.explain import Explainer, Explanation, PodState, find_subject, finish
from berth.explain.live import LiveKnowledge
from berth.explain.records import Choice, Evidence
from engine.storage import make_claim, make_class, pod_with
from scheduler.harness import Harness, running
from scheduler.staged_plugins import Script, installed
from scheduler.test_stages import acting
from support.builders import make_node, make_pod


@pytest.fixture
def script(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Script]:
    with installed(tmp_path, monkeypatch) as found:
        yield found


def explain(harness: Harness, name: str, choice: Choice | None = None) -> Explanation:
    knowledge = LiveKnowledge(harness.scheduler, harness.clock.wall, lambda uid: choice)
    subject = find_subject(harness.cache, "default", name)
    assert subject is not None
    return finish(Explainer(harness.cache.state, harness.policies, knowledge).explain(subject))


async def test_an_unschedulable_pod_says_how_often_it_was_tried_and_when_it_is_tried_at_the_latest() -> None:
    async with running() as harness:
        harness.write(make_node("a", cpu=1), make_pod("web", cpu=2))
        await harness.go()
        await harness.clock.advance(10)
        said = explain(harness, "web")
        assert (said.state, said.attempts) == (PodState.UNSCHEDULABLE, 1)
        now = harness.clock.wall()
        assert said.since < said.next_try
        assert (_parse(said.next_try) - now).total_seconds() == pytest.approx(290, abs=1)
        assert (now - _parse(said.since)).total_seconds() == pytest.approx(10, abs=1)
        assert said.retried_on == ("AssignedPodDelete", "AssignedPodShrunk", "NodeAdd", "NodeAllocatable")


def _parse(moment: str) -> datetime:
    return datetime.fromisoformat(moment)


async def test_active_pods_have_a_place_in_the_queue() -> None:
    harness = Harness()
    harness.write(make_node("a"), make_pod("first"), make_pod("second"), make_pod("urgent", priority=5))
    assert [explain(harness, name).place_in_queue for name in ("first", "second", "urgent")] == [2, 3, 1]
    said = explain(harness, "second")
    assert said.state is PodState.PENDING
    assert said.message == "1/1 nodes are available; it is tried in its turn."


async def test_the_place_is_left_out_if_there_are_too_many_to_count(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("berth.scheduler.queue.queue.MOST_COUNTED", 1)
    harness = Harness()
    harness.write(make_node("a"), make_pod("first"), make_pod("second"))
    assert explain(harness, "second").place_in_queue is None


async def test_a_pod_in_backoff_is_said_to_be() -> None:
    async with running() as harness:
        harness.write(make_node("a", cpu=1), make_pod("web", cpu=2))
        await harness.go()
        harness.scheduler.close()
        harness.write(make_node("b", cpu=4))
        await harness.go()
        said = explain(harness, "web")
        assert said.state is PodState.BACKOFF
        assert said.message == "1/2 nodes are available; it is tried when its backoff is over."


async def test_a_pod_that_waits_for_a_permit_names_the_plugins(script: Script) -> None:
    async with running() as harness:
        script.says("one", "permit", Permit.wait(60))
        harness.write(acting("one", "two"), make_node("a", cpu=1), make_pod("web", cpu=1))
        await harness.go()
        said = explain(harness, "web")
        assert (said.state, said.node, said.waits_for) == (PodState.WAITING_FOR_PERMIT, "a", ("one",))
        assert said.message == "a is chosen, and it waits for plugins to permit it."


async def test_a_pod_that_waits_for_its_volumes_names_the_claims() -> None:
    async with running() as harness:
        harness.write(
            make_class("later", provisioner="csi.example.com"),
            make_claim("data", storage_class="later"),
            make_node("a"),
            pod_with("data"),
        )
        await harness.go()
        name = next(iter(harness.cache.assumed().values())).pod.name
        said = explain(harness, name)
        assert (said.state, said.node, said.waits_for) == (PodState.WAITING_FOR_VOLUMES, "a", ("data",))


async def test_a_recorded_decision_is_told_as_it_was() -> None:
    async with running() as harness:
        harness.write(make_node("a"), make_node("b"), make_pod("web"))
        await harness.go()
        recorded = Choice("a", Evidence.RECORDED, "a had the most points.")
        said = explain(harness, "web", recorded)
        assert (said.state, said.choice) == (PodState.BOUND, recorded)
        again = explain(harness, "web").choice
        assert again is not None
        assert again.evidence is Evidence.JUDGED_AGAIN
