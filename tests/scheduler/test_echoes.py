"""What happens when the watch does not show what was bound."""

import pytest

from berth.model import Pod
from scheduler.house import running
from scheduler.memory_cluster import Hang
from support.builders import make_node, make_pod


async def test_a_bind_without_an_echo_is_read_after_thirty_seconds_and_shows_in_the_statistics() -> None:
    async with running() as house:
        house.write(make_node("a"), make_pod("web"))
        await house.clock.advance(29)
        assert house.cluster.reads == []
        assert house.scheduler.statistics()["cache"]["pods"]["echo_pending"] == 1
        assert house.scheduler.statistics()["echo_missing"] == 0
        await house.clock.advance(6)
        assert house.cluster.reads == ["web"]
        assert house.scheduler.statistics()["cache"]["pods"]["bound"] == 1
        assert house.scheduler.statistics()["echo_missing"] == 1


async def test_the_echo_is_missing_until_the_watch_speaks_again() -> None:
    async with running() as house:
        house.write(make_node("a"), make_pod("web"))
        await house.clock.advance(60)
        assert house.scheduler.statistics()["echo_missing"] == 1
        house.tell()
        assert house.scheduler.statistics()["echo_missing"] == 0


async def test_the_echo_of_a_pod_that_has_a_successor_is_not_missing() -> None:
    async with running() as house:
        house.write(make_node("a"), make_pod("web"))
        await house.clock.advance(60)
        assert house.scheduler.statistics()["echo_missing"] == 1
        house.cluster.delete("Pod", "default/web")
        house.cluster.feed.clear()
        house.write(make_pod("web", uid="successor"))
        await house.pass_time(10)
        assert house.scheduler.statistics()["echo_missing"] == 0


async def test_an_echo_in_time_is_never_missing() -> None:
    async with running() as house:
        house.write(make_node("a"), make_pod("web"))
        await house.pass_time(60)
        assert house.cluster.reads == []
        assert house.scheduler.statistics()["echo_missing"] == 0


async def test_an_assumed_pod_that_is_gone_frees_its_room_although_the_watch_is_silent() -> None:
    async with running() as house:
        house.write(make_node("a", cpu="1"), make_pod("web", cpu="1"))
        await house.clock.advance(1)
        house.cluster.delete("Pod", "default/web")
        await house.clock.advance(40)
        assert not house.cache.assumed()
        assert len(house.cache.state.table.pods_on("a")) == 0


async def test_an_acknowledged_bind_whose_pod_a_read_denies_wrongly_is_found_out(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with running() as house:

        async def read_nothing(pod: Pod) -> None:
            house.cluster.reads.append(pod.name)

        house.write(make_node("a", cpu="1"), make_pod("web", cpu="1"))
        with monkeypatch.context() as patched:
            patched.setattr(house.cluster, "read_pod", read_nothing)
            await house.clock.advance(30)
        assert house.cluster.reads == ["web"]
        assert house.queue.part_of("pod-default-web") == "backoff"
        await house.clock.advance(1)  # the bind is refused, as the pod is bound, and a read tells where
        assert len(house.cache.state.table.pods_on("a")) == 1
        assert house.cluster.bound == [("pod-default-web", "a")]
        assert sum(house.scheduler.statistics()["queue"].values()) == 0


async def test_an_assumed_pod_never_expires_while_it_cannot_be_read() -> None:
    async with running() as house:
        house.cluster.reads_fail = True
        house.write(make_node("a", cpu="1"), make_pod("web", cpu="1"))
        await house.clock.advance(600)
        assert len(house.cache.assumed()) == 1
        house.cluster.reads_fail = False
        await house.clock.advance(5)
        assert house.scheduler.statistics()["cache"]["pods"]["bound"] == 1


async def test_a_bind_that_is_still_under_way_is_left_to_its_end() -> None:
    async with running() as house:
        hang = house.cluster.faults["web"] = Hang()
        house.write(make_node("a", cpu="1"), make_pod("web", cpu="1"))
        await house.clock.advance(100)
        assert len(house.cache.assumed()) == 1
        assert house.cluster.attempts == [("web", "a")]
        assert house.scheduler.statistics()["echo_missing"] == 0
        hang.released.set()
        await house.clock.advance(20)  # the time for the echo begins with the answer
        assert house.scheduler.statistics()["cache"]["pods"]["echo_pending"] == 1
        assert house.scheduler.statistics()["echo_missing"] == 0


async def test_a_bind_that_a_restored_server_has_forgotten_is_made_again() -> None:
    async with running() as house:
        house.write(make_node("a", cpu="1"), make_pod("web", cpu="1"))
        await house.clock.advance(1)
        house.cluster.objects["Pod"]["default/web"]["spec"].pop("nodeName")
        house.cluster.feed.clear()
        await house.pass_time(40)
        assert house.cluster.node_of("web") == "a"
        assert house.cluster.attempts == [("web", "a"), ("web", "a")]


async def test_what_was_settled_while_the_pod_was_read_is_not_undone(monkeypatch: pytest.MonkeyPatch) -> None:
    async with running() as house:
        house.write(make_node("a", cpu="1"), make_node("b", cpu="1"), make_pod("web", cpu="1"))
        await house.clock.advance(1)

        async def read_slowly(pod: Pod) -> None:
            house.cache.forget(pod.uid)
            house.cache.assume(house.cache.pending[pod.uid], "b")

        monkeypatch.setattr(house.cluster, "read_pod", read_slowly)
        await house.clock.advance(34)
        assert house.cache.assumed()["pod-default-web"].node_name == "b"
        monkeypatch.undo()
