"""Every way in which a bind can end, and what the watch may say meanwhile."""

import pytest

from berth.model import Pod
from scheduler.house import House, running
from scheduler.memory_cluster import Fault, Hang, Refusal
from support.builders import make_node, make_pod


def used_millicores(house: House, node: str) -> int:
    return sum(pod.usage.get("cpu", 0) for pod in house.cache.state.table.pods_on(node).values())


def outcomes(house: House) -> dict[str, int]:
    binds: dict[str, int] = house.scheduler.statistics()["binds"]
    return {outcome: count for outcome, count in binds.items() if outcome not in ("running", "waiting")}


async def test_a_refused_bind_frees_the_room_and_tries_again_after_a_backoff() -> None:
    async with running() as house:
        house.cluster.faults["web"] = Refusal(403, 'pods "web" is forbidden: no permission')
        house.write(make_node("a", cpu="1"), make_pod("web", cpu="1"))
        await house.go()
        assert used_millicores(house, "a") == 0
        assert house.notes("web") == ['binding rejected: pods "web" is forbidden: no permission']
        assert [(event.type, event.reason, event.action) for _, event in house.cluster.events] == [
            ("Warning", "FailedScheduling", "Scheduling")
        ]
        assert house.cluster.conditions["pod-default-web"][0] == "SchedulerError"
        assert house.scheduler.statistics()["queue"]["backoff"] == 1
        del house.cluster.faults["web"]
        await house.pass_time(1)
        assert house.cluster.node_of("web") == "a"
        assert outcomes(house) == {"refused": 1, "bound": 1}


async def test_the_room_of_a_refused_bind_is_news_for_others() -> None:
    async with running() as house:
        house.cluster.faults["first"] = Refusal(403, "no permission")
        house.write(make_node("a", cpu="1"), make_pod("first", cpu="1", priority=1), make_pod("second", cpu="1"))
        await house.go()
        assert house.cluster.node_of("second") == "a"


async def test_a_pod_that_the_api_server_does_not_have_is_tried_with_growing_pauses_until_the_watch_tells() -> None:
    async with running() as house:
        house.write(make_node("a", cpu="1"), make_pod("web", cpu="1"))
        body = house.cluster.objects["Pod"].pop("default/web")
        await house.pass_time(20)
        assert outcomes(house) == {"gone": 5}  # at 0, 1, 3, 7 and 15 s
        assert used_millicores(house, "a") == 0
        assert house.notes("web") == []
        house.scheduler.remove("Pod", body)
        await house.pass_time(60)
        assert outcomes(house) == {"gone": 5}
        assert sum(house.scheduler.statistics()["queue"].values()) == 0


@pytest.mark.parametrize(
    "refusal",
    [
        Refusal(404, "404 page not found"),
        Refusal(409, "Precondition failed: UID in precondition: pod-default-web, UID in object meta: "),
    ],
)
async def test_a_pod_that_the_answer_to_a_bind_denies_wrongly_is_bound_later(refusal: Refusal) -> None:
    async with running() as house:
        house.cluster.faults["web"] = refusal
        house.write(make_node("a", cpu="1"), make_pod("web", cpu="1"))
        await house.go()
        assert house.scheduler.statistics()["queue"]["backoff"] == 1
        del house.cluster.faults["web"]
        await house.pass_time(1)
        assert house.cluster.node_of("web") == "a"
        assert outcomes(house) == {"gone": 1, "bound": 1}


async def test_a_pod_that_a_read_denies_wrongly_is_bound_later(monkeypatch: pytest.MonkeyPatch) -> None:
    async with running() as house:

        async def read_nothing(pod: Pod) -> None:
            house.cluster.reads.append(pod.name)

        monkeypatch.setattr(house.cluster, "read_pod", read_nothing)
        house.cluster.faults["web"] = Fault.CUT_BEFORE
        house.write(make_node("a", cpu="1"), make_pod("web", cpu="1"))
        await house.go()
        assert house.cluster.reads == ["web"]
        del house.cluster.faults["web"]
        await house.pass_time(1)
        assert house.cluster.node_of("web") == "a"
        assert outcomes(house) == {"unknown": 1, "gone": 1, "bound": 1}


async def test_a_namesake_is_not_bound_in_the_place_of_a_deleted_pod() -> None:
    async with running() as house:
        hang = house.cluster.faults["web"] = Hang()
        house.write(make_node("a", cpu="1"), make_pod("web", cpu="1", uid="old"))
        await house.go()
        house.cluster.delete("Pod", "default/web")
        house.cluster.write("Pod", make_pod("web", cpu="1", uid="new"))
        del house.cluster.faults["web"]
        hang.released.set()
        await house.pass_time(3)
        assert house.cluster.bound == [("new", "a")]
        assert used_millicores(house, "a") == 1000


async def test_a_pod_that_was_taken_for_gone_is_not_bound_beside_its_first_bind() -> None:
    """A list did not have it, and then it is shown again."""
    async with running() as house:
        hang = house.cluster.faults["web"] = Hang()
        house.write(make_node("a", cpu="1"), make_node("b", cpu="1"), make_pod("web", cpu="1"))
        await house.go()
        body = house.cluster.objects["Pod"]["default/web"]
        house.scheduler.remove("Pod", body, told=False)
        house.scheduler.observe("Pod", body)
        await house.pass_time(3)
        assert len(house.cluster.attempts) == 1
        hang.released.set()
        await house.go()
        assert house.cluster.reads == ["web"]
        ((_, node_name),) = house.cluster.bound
        assert house.cluster.attempts == [("web", node_name)]
        assert used_millicores(house, node_name) == 1000
        assert used_millicores(house, "b" if node_name == "a" else "a") == 0


async def test_a_pod_bound_by_another_scheduler_first_is_accounted_where_it_is() -> None:
    async with running() as house:
        house.write(make_node("a", cpu="1"), make_pod("web", cpu="1"))
        house.cluster.write("Pod", make_pod("web", cpu="1", node="b"))
        await house.pass_time(10)
        assert (used_millicores(house, "a"), used_millicores(house, "b")) == (0, 1000)
        assert "pod-default-web" not in house.cluster.conditions
        assert sum(house.scheduler.statistics()["queue"].values()) == 0


@pytest.mark.parametrize("fault", [Fault.CUT_BEFORE, Fault.BROKEN])
async def test_a_bind_that_never_arrived_is_found_out_and_done_again(fault: Fault) -> None:
    async with running() as house:
        house.cluster.faults["web"] = fault
        house.write(make_node("a", cpu="1"), make_pod("web", cpu="1"))
        await house.go()
        assert house.cluster.reads == ["web"]
        assert used_millicores(house, "a") == 0
        del house.cluster.faults["web"]
        await house.pass_time(1)
        assert house.cluster.node_of("web") == "a"
        assert outcomes(house) == {"unknown": 1, "found_unbound": 1, "bound": 1}


async def test_a_bind_that_timed_out_but_succeeded_is_a_success() -> None:
    async with running() as house:
        house.cluster.faults["web"] = Fault.CUT_AFTER
        house.write(make_node("a", cpu="1"), make_pod("web", cpu="1"))
        await house.pass_time(40)
        assert house.cluster.attempts == [("web", "a")]
        assert house.notes("web") == ["Successfully assigned default/web to a"]
        assert used_millicores(house, "a") == 1000
        assert outcomes(house) == {"unknown": 1, "found_bound": 1}


async def test_the_room_stays_taken_while_the_outcome_is_unknown_and_the_server_away() -> None:
    async with running() as house:
        house.cluster.faults["web"] = Fault.CUT_AFTER
        house.cluster.reads_fail = True
        house.write(make_node("a", cpu="1"), make_pod("web", cpu="1"))
        await house.clock.advance(120)  # the watch is silent as well
        house.scheduler.observe("Pod", make_pod("other", cpu="1"))
        await house.clock.advance(10)
        assert house.cluster.attempts == [("web", "a")]
        assert used_millicores(house, "a") == 1000
        house.cluster.reads_fail = False
        await house.clock.advance(10)
        assert outcomes(house) == {"unknown": 1, "found_bound": 1}


async def test_reads_that_fail_are_repeated_with_growing_pauses() -> None:
    async with running() as house:
        house.cluster.faults["web"] = Fault.CUT_BEFORE
        house.cluster.reads_fail = True
        house.write(make_node("a"), make_pod("web"))
        read_at = []
        for _ in range(80):
            seen = len(house.cluster.reads)
            await house.clock.advance(0.25)
            read_at += [house.clock.now()] * (len(house.cluster.reads) - seen)
        assert read_at[:5] == [0.25, 0.5, 1.5, 3.5, 7.5]  # the first one at once, then after 0.5, 1, 2, 4 s
        house.cluster.reads_fail = False


async def test_a_bind_that_lands_after_everybody_gave_it_up_is_not_booked_twice() -> None:
    async with running() as house:
        house.cluster.faults["web"] = Fault.LATE
        house.write(make_node("a", cpu="1"), make_pod("web", cpu="1"))
        await house.go()
        assert used_millicores(house, "a") == 0
        del house.cluster.faults["web"]
        house.cluster.land_late_binds()
        await house.clock.advance(1)  # tried again before the watch tells
        await house.pass_time(5)
        assert house.cluster.bound == [("pod-default-web", "a")]
        assert used_millicores(house, "a") == 1000
        assert sum(house.scheduler.statistics()["queue"].values()) == 0


async def test_a_conflict_with_our_own_late_bind_is_found_to_be_a_success() -> None:
    async with running() as house:
        house.cluster.faults["web"] = Fault.LATE
        house.write(make_node("a", cpu="1"), make_pod("web", cpu="1"))
        await house.clock.advance(0)
        del house.cluster.faults["web"]
        house.cluster.land_late_binds()
        await house.clock.advance(1)  # the watch is silent
        assert outcomes(house) == {"unknown": 1, "found_unbound": 1, "conflict": 1, "found_bound": 1}
        assert used_millicores(house, "a") == 1000
        assert house.notes("web")[-1] == "Successfully assigned default/web to a"


async def test_a_late_bind_to_another_node_ends_the_second_assumption() -> None:
    async with running() as house:
        house.cluster.faults["web"] = Fault.LATE
        house.write(make_node("a", cpu="1"), make_pod("web", cpu="1"))
        await house.go()
        house.cluster.delete("Node", "a")
        house.write(make_node("b", cpu="1"))
        house.cluster.faults["web"] = hang = Hang()
        await house.pass_time(2)
        assert used_millicores(house, "b") == 1000
        house.cluster.land_late_binds()
        await house.go()
        assert (used_millicores(house, "a"), used_millicores(house, "b")) == (1000, 0)
        hang.released.set()
        await house.pass_time(5)
        assert (used_millicores(house, "a"), used_millicores(house, "b")) == (1000, 0)
        assert house.cluster.bound == [("pod-default-web", "a")]


async def test_a_pod_deleted_while_binding_frees_its_space_at_once() -> None:
    async with running() as house:
        hang = house.cluster.faults["web"] = Hang()
        house.write(make_node("a", cpu="1"), make_pod("web", cpu="1"))
        await house.go()
        house.cluster.delete("Pod", "default/web")
        house.write(make_pod("next", cpu="1"))
        await house.go()
        assert house.cluster.node_of("next") == "a"
        hang.released.set()
        await house.pass_time(5)
        assert used_millicores(house, "a") == 1000
        assert sum(house.scheduler.statistics()["queue"].values()) == 0


@pytest.mark.parametrize("fault", [Fault.CUT_BEFORE, Fault.CUT_AFTER])
async def test_a_pod_deleted_while_its_bind_is_unknown_is_gone_for_good(fault: Fault) -> None:
    async with running() as house:
        house.cluster.faults["web"] = fault
        house.cluster.reads_fail = True
        house.write(make_node("a", cpu="1"), make_pod("web", cpu="1"))
        await house.go()
        house.cluster.delete("Pod", "default/web")
        await house.go()
        assert used_millicores(house, "a") == 0
        house.cluster.reads_fail = False
        await house.pass_time(30)
        assert used_millicores(house, "a") == 0
        assert sum(house.scheduler.statistics()["queue"].values()) == 0
        assert outcomes(house) == {"unknown": 1, "gone": 1}


async def test_a_watch_that_is_faster_than_the_answer_does_not_book_twice() -> None:
    async with running() as house:
        hang = house.cluster.faults["web"] = Hang()
        house.write(make_node("a", cpu="1"), make_pod("web", cpu="1"))
        await house.go()
        house.scheduler.observe("Pod", make_pod("web", cpu="1", node="a") | {})
        assert not house.cache.assumed()
        hang.released.set()
        await house.go()
        assert used_millicores(house, "a") == 1000
        assert house.cache.statistics()["pods"]["bound"] == 1


async def test_a_policy_that_goes_and_comes_back_during_a_bind_does_not_try_the_pod_twice() -> None:
    async with running() as house:
        policy = {
            "kind": "SchedulingPolicy",
            "apiVersion": "berth.dev/v1alpha1",
            "metadata": {"name": "batch", "uid": "1", "generation": 1},
            "spec": {"schedulerName": "batch"},
        }
        hang = house.cluster.faults["web"] = Hang()
        house.write(policy, make_node("a"), make_pod("web", scheduler="batch"))
        await house.go()
        house.cluster.delete("SchedulingPolicy", "batch")
        await house.go()
        house.write(policy)
        await house.pass_time(5)
        assert house.cluster.attempts == [("web", "a")]
        hang.released.set()
        await house.go()
        assert house.cluster.node_of("web") == "a"


async def test_no_more_binds_run_at_once_than_allowed() -> None:
    async with running(bind_limit=3) as house:
        hangs = [Hang() for _ in range(10)]
        house.cluster.faults.update({f"p{number}": hang for number, hang in enumerate(hangs)})
        house.write(make_node("a", cpu="100"), *[make_pod(f"p{number}") for number in range(10)])
        await house.go()
        assert house.cluster.running_binds == 3
        assert house.scheduler.statistics()["queue"]["active"] == 7
        for hang in hangs:
            hang.released.set()
        await house.go()
        assert len(house.cluster.bound) == 10
        assert house.cluster.most_running_binds == 3


async def test_many_binds_run_at_once() -> None:
    async with running() as house:
        hangs = [Hang() for _ in range(20)]
        house.cluster.faults.update({f"p{number}": hang for number, hang in enumerate(hangs)})
        house.write(make_node("a", cpu="100"), *[make_pod(f"p{number}") for number in range(20)])
        await house.go()
        assert house.cluster.running_binds == 20
        for hang in hangs:
            hang.released.set()
