"""Events for pods that wait without being unschedulable: on Permit, for volumes, or with an unserved scheduler name."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from berth.engine.binding_points import Permit
from engine.storage import make_claim, make_class, pod_with
from policy.builders import make_policy
from scheduler.harness import running
from scheduler.staged_plugins import Script, installed
from scheduler.test_stages import acting
from support.builders import make_node, make_pod

BINPACK = make_policy("binpack", schedulerName="berth-binpack")
NOTE = "Berth does not serve the scheduler name berth-binpak: did you mean berth-binpack?"


@pytest.fixture
def script(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Script]:
    with installed(tmp_path, monkeypatch) as found:
        yield found


async def test_a_pod_that_waits_on_permit_gets_an_event_that_names_the_plugins(script: Script) -> None:
    async with running() as harness:
        script.says("one", "permit", Permit.wait(60))
        script.says("two", "permit", Permit.wait(60))
        harness.write(acting("one", "two"), make_node("a"), make_pod("web"))
        await harness.go()
        assert harness.notes("web") == ["Node a is chosen; waiting for a permit of one, two"]


async def test_a_pod_that_waits_counts_as_pending_in_the_status_of_its_policy(script: Script) -> None:
    async with running() as harness:
        script.says("one", "permit", Permit.wait(60))
        policy = acting("one", "two")
        harness.write(policy, make_node("a"), make_pod("web"))
        await harness.go()
        await harness.scheduler.count_pending()
        name, uid = policy["metadata"]["name"], policy["metadata"]["uid"]
        assert harness.policies.usage.counts(name, uid).pending == 1


async def test_a_pod_that_waits_for_its_volumes_gets_an_event_that_names_the_claims() -> None:
    async with running() as harness:
        harness.write(make_class("later", provisioner="csi.example.com"), make_claim("data", storage_class="later"))
        harness.write(make_node("a"), pod_with("data"))
        await harness.go()
        assert harness.notes("p") == ["Node a is chosen; waiting for volumes of data"]
        await harness.scheduler.count_pending()
        assert [pod.name for pod in harness.scheduler.components.binding_cycle.pending] == ["p"]


async def test_a_pod_with_a_slip_in_its_scheduler_name_gets_one_event() -> None:
    async with running() as harness:
        harness.write(BINPACK, make_pod("web", scheduler="berth-binpak"))
        await harness.go()
        harness.write(make_pod("web", scheduler="berth-binpak", labels={"touched": "yes"}))
        await harness.go()
        assert harness.notes("web") == [NOTE]
        ((_, event),) = harness.cluster.events
        assert (event.type, event.reason, event.controller) == ("Warning", "SchedulerNameNotServed", "berth-binpack")


@pytest.mark.parametrize("scheduler", ["default-scheduler", "volcano", "berth-binpack"])
async def test_other_names_get_none(scheduler: str) -> None:
    async with running() as harness:
        harness.write(BINPACK, make_pod("web", scheduler=scheduler))
        await harness.go()
        assert [note for note in harness.notes("web") if "did you mean" in note] == []


async def test_a_policy_that_comes_later_is_what_was_meant() -> None:
    async with running() as harness:
        harness.write(make_pod("web", scheduler="berth-binpak"))
        await harness.go()
        assert harness.notes("web") == []
        harness.write(BINPACK)
        await harness.go()
        assert harness.notes("web") == [NOTE]


async def test_nothing_is_said_while_another_replica_decides() -> None:
    async with running() as harness:
        harness.scheduler.stand_by()
        harness.write(BINPACK, make_pod("web", scheduler="berth-binpak"))
        await harness.go()
        assert harness.notes("web") == []
        harness.scheduler.take_over()
        await harness.go()
        assert harness.notes("web") == [NOTE]


async def test_many_such_pods_get_few_events() -> None:
    async with running() as harness:
        harness.write(BINPACK, *(make_pod(f"web-{n}", scheduler="berth-binpak") for n in range(50)))
        await harness.go()
        assert len(harness.cluster.events) == 10
        await harness.clock.advance(61)
        harness.write(make_pod("late", scheduler="berth-binpak"))
        await harness.go()
        assert harness.notes("late") == [NOTE]


async def test_a_pod_that_is_gone_is_forgotten() -> None:
    async with running() as harness:
        harness.write(BINPACK, make_pod("web", scheduler="berth-binpak"))
        await harness.go()
        assert len(harness.scheduler.components.unserved_names) == 1
        harness.cluster.delete("Pod", "default/web")
        await harness.go()
        assert len(harness.scheduler.components.unserved_names) == 0
