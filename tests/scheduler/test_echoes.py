"""What happens when the watch does not show what was bound."""

import pytest

from berth.model import Pod
from scheduler.harness import running
from scheduler.memory_cluster import Hang
from support.builders import make_node, make_pod


async def test_a_bind_without_an_echo_is_read_after_thirty_seconds_and_shows_in_the_statistics() -> None:
    async with running() as harness:
        harness.write(make_node("a"), make_pod("web"))
        await harness.clock.advance(29)
        assert harness.cluster.reads == []
        assert harness.scheduler.statistics()["cache"]["pods"]["echo_pending"] == 1
        assert harness.scheduler.statistics()["echo_missing"] == 0
        await harness.clock.advance(6)
        assert harness.cluster.reads == ["web"]
        assert harness.scheduler.statistics()["cache"]["pods"]["bound"] == 1
        assert harness.scheduler.statistics()["echo_missing"] == 1


async def test_the_echo_is_missing_until_the_watch_speaks_again() -> None:
    async with running() as harness:
        harness.write(make_node("a"), make_pod("web"))
        await harness.clock.advance(60)
        assert harness.scheduler.statistics()["echo_missing"] == 1
        harness.tell()
        assert harness.scheduler.statistics()["echo_missing"] == 0


async def test_the_echo_of_a_pod_that_has_a_successor_is_not_missing() -> None:
    async with running() as harness:
        harness.write(make_node("a"), make_pod("web"))
        await harness.clock.advance(60)
        assert harness.scheduler.statistics()["echo_missing"] == 1
        harness.cluster.delete("Pod", "default/web")
        harness.cluster.feed.clear()
        harness.write(make_pod("web", uid="successor"))
        await harness.pass_time(10)
        assert harness.scheduler.statistics()["echo_missing"] == 0


async def test_an_echo_in_time_is_never_missing() -> None:
    async with running() as harness:
        harness.write(make_node("a"), make_pod("web"))
        await harness.pass_time(60)
        assert harness.cluster.reads == []
        assert harness.scheduler.statistics()["echo_missing"] == 0


async def test_an_assumed_pod_that_is_gone_frees_its_room_although_the_watch_is_silent() -> None:
    async with running() as harness:
        harness.write(make_node("a", cpu="1"), make_pod("web", cpu="1"))
        await harness.clock.advance(1)
        harness.cluster.delete("Pod", "default/web")
        await harness.clock.advance(40)
        assert not harness.cache.assumed()
        assert len(harness.cache.state.table.pods_on("a")) == 0


async def test_an_acknowledged_bind_whose_pod_a_read_denies_wrongly_is_found_out(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with running() as harness:

        async def read_nothing(pod: Pod) -> None:
            harness.cluster.reads.append(pod.name)

        harness.write(make_node("a", cpu="1"), make_pod("web", cpu="1"))
        with monkeypatch.context() as patched:
            patched.setattr(harness.cluster, "read_pod", read_nothing)
            await harness.clock.advance(30)
        assert harness.cluster.reads == ["web"]
        assert harness.queue.part_of("pod-default-web") == "backoff"
        await harness.clock.advance(1)  # the bind is refused, as the pod is bound, and a read tells where
        assert len(harness.cache.state.table.pods_on("a")) == 1
        assert harness.cluster.bound == [("pod-default-web", "a")]
        assert sum(harness.scheduler.statistics()["queue"].values()) == 0


async def test_an_assumed_pod_never_expires_while_it_cannot_be_read() -> None:
    async with running() as harness:
        harness.cluster.reads_fail = True
        harness.write(make_node("a", cpu="1"), make_pod("web", cpu="1"))
        await harness.clock.advance(600)
        assert len(harness.cache.assumed()) == 1
        harness.cluster.reads_fail = False
        await harness.clock.advance(5)
        assert harness.scheduler.statistics()["cache"]["pods"]["bound"] == 1


async def test_a_bind_that_is_still_under_way_is_left_to_its_end() -> None:
    async with running() as harness:
        hang = harness.cluster.faults["web"] = Hang()
        harness.write(make_node("a", cpu="1"), make_pod("web", cpu="1"))
        await harness.clock.advance(100)
        assert len(harness.cache.assumed()) == 1
        assert harness.cluster.attempts == [("web", "a")]
        assert harness.scheduler.statistics()["echo_missing"] == 0
        hang.released.set()
        await harness.clock.advance(20)  # the time for the echo begins with the answer
        assert harness.scheduler.statistics()["cache"]["pods"]["echo_pending"] == 1
        assert harness.scheduler.statistics()["echo_missing"] == 0


async def test_a_bind_that_a_restored_server_has_forgotten_is_made_again() -> None:
    async with running() as harness:
        harness.write(make_node("a", cpu="1"), make_pod("web", cpu="1"))
        await harness.clock.advance(1)
        harness.cluster.objects["Pod"]["default/web"]["spec"].pop("nodeName")
        harness.cluster.feed.clear()
        await harness.pass_time(40)
        assert harness.cluster.node_of("web") == "a"
        assert harness.cluster.attempts == [("web", "a"), ("web", "a")]


async def test_what_was_settled_while_the_pod_was_read_is_not_undone(monkeypatch: pytest.MonkeyPatch) -> None:
    async with running() as harness:
        harness.write(make_node("a", cpu="1"), make_node("b", cpu="1"), make_pod("web", cpu="1"))
        await harness.clock.advance(1)

        async def read_slowly(pod: Pod) -> None:
            harness.cache.forget(pod.uid)
            harness.cache.assume(harness.cache.pending[pod.uid], "b")

        monkeypatch.setattr(harness.cluster, "read_pod", read_slowly)
        await harness.clock.advance(34)
        assert harness.cache.assumed()["pod-default-web"].node_name == "b"
        monkeypatch.undo()
