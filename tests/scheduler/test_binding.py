"""Every way in which a bind can end, and what the watch may say meanwhile."""

import pytest

from berth.model import Pod
from scheduler.harness import Harness, running
from scheduler.memory_cluster import Fault, Hang, Refusal
from support.builders import make_node, make_pod


def used_millicores(harness: Harness, node: str) -> int:
    return sum(pod.usage.get("cpu", 0) for pod in harness.cache.state.table.pods_on(node).values())


def outcomes(harness: Harness) -> dict[str, int]:
    binds: dict[str, int] = harness.scheduler.statistics()["binds"]
    return {outcome: count for outcome, count in binds.items() if outcome not in ("running", "waiting")}


async def test_a_refused_bind_frees_the_room_and_tries_again_after_a_backoff() -> None:
    async with running() as harness:
        harness.cluster.faults["web"] = Refusal(403, 'pods "web" is forbidden: no permission')
        harness.write(make_node("a", cpu="1"), make_pod("web", cpu="1"))
        await harness.go()
        assert used_millicores(harness, "a") == 0
        assert harness.notes("web") == ['binding rejected: pods "web" is forbidden: no permission']
        assert [(event.type, event.reason, event.action) for _, event in harness.cluster.events] == [
            ("Warning", "FailedScheduling", "Scheduling")
        ]
        assert harness.cluster.conditions["pod-default-web"][0] == "SchedulerError"
        assert harness.scheduler.statistics()["queue"]["backoff"] == 1
        del harness.cluster.faults["web"]
        await harness.pass_time(1)
        assert harness.cluster.node_of("web") == "a"
        assert outcomes(harness) == {"refused": 1, "bound": 1}


async def test_the_room_of_a_refused_bind_is_news_for_others() -> None:
    async with running() as harness:
        harness.cluster.faults["first"] = Refusal(403, "no permission")
        harness.write(make_node("a", cpu="1"), make_pod("first", cpu="1", priority=1), make_pod("second", cpu="1"))
        await harness.go()
        assert harness.cluster.node_of("second") == "a"


async def test_a_pod_that_the_api_server_does_not_have_is_tried_with_growing_pauses_until_the_watch_tells() -> None:
    async with running() as harness:
        harness.write(make_node("a", cpu="1"), make_pod("web", cpu="1"))
        body = harness.cluster.objects["Pod"].pop("default/web")
        await harness.pass_time(20)
        assert outcomes(harness) == {"gone": 5}  # at 0, 1, 3, 7 and 15 s
        assert used_millicores(harness, "a") == 0
        assert harness.notes("web") == []
        harness.remove("Pod", body)
        await harness.pass_time(60)
        assert outcomes(harness) == {"gone": 5}
        assert sum(harness.scheduler.statistics()["queue"].values()) == 0


@pytest.mark.parametrize(
    "refusal",
    [
        Refusal(404, "404 page not found"),
        Refusal(409, "Precondition failed: UID in precondition: pod-default-web, UID in object meta: "),
    ],
)
async def test_a_pod_that_the_answer_to_a_bind_denies_wrongly_is_bound_later(refusal: Refusal) -> None:
    async with running() as harness:
        harness.cluster.faults["web"] = refusal
        harness.write(make_node("a", cpu="1"), make_pod("web", cpu="1"))
        await harness.go()
        assert harness.scheduler.statistics()["queue"]["backoff"] == 1
        del harness.cluster.faults["web"]
        await harness.pass_time(1)
        assert harness.cluster.node_of("web") == "a"
        assert outcomes(harness) == {"gone": 1, "bound": 1}


async def test_a_pod_that_a_read_denies_wrongly_is_bound_later(monkeypatch: pytest.MonkeyPatch) -> None:
    async with running() as harness:

        async def read_nothing(pod: Pod) -> None:
            harness.cluster.reads.append(pod.name)

        monkeypatch.setattr(harness.cluster, "read_pod", read_nothing)
        harness.cluster.faults["web"] = Fault.CUT_BEFORE
        harness.write(make_node("a", cpu="1"), make_pod("web", cpu="1"))
        await harness.go()
        assert harness.cluster.reads == ["web"]
        del harness.cluster.faults["web"]
        await harness.pass_time(1)
        assert harness.cluster.node_of("web") == "a"
        assert outcomes(harness) == {"unknown": 1, "gone": 1, "bound": 1}


async def test_a_namesake_is_not_bound_in_the_place_of_a_deleted_pod() -> None:
    async with running() as harness:
        hang = harness.cluster.faults["web"] = Hang()
        harness.write(make_node("a", cpu="1"), make_pod("web", cpu="1", uid="old"))
        await harness.go()
        harness.cluster.delete("Pod", "default/web")
        harness.cluster.write("Pod", make_pod("web", cpu="1", uid="new"))
        del harness.cluster.faults["web"]
        hang.released.set()
        await harness.pass_time(3)
        assert harness.cluster.bound == [("new", "a")]
        assert used_millicores(harness, "a") == 1000


async def test_a_pod_that_was_taken_for_gone_is_not_bound_beside_its_first_bind() -> None:
    """A list did not have it, and then it is shown again."""
    async with running() as harness:
        hang = harness.cluster.faults["web"] = Hang()
        harness.write(make_node("a", cpu="1"), make_node("b", cpu="1"), make_pod("web", cpu="1"))
        await harness.go()
        body = harness.cluster.objects["Pod"]["default/web"]
        harness.remove("Pod", body, reported_by_watch=False)
        harness.observe("Pod", body)
        await harness.pass_time(3)
        assert len(harness.cluster.attempts) == 1
        hang.released.set()
        await harness.go()
        assert harness.cluster.reads == ["web"]
        ((_, node_name),) = harness.cluster.bound
        assert harness.cluster.attempts == [("web", node_name)]
        assert used_millicores(harness, node_name) == 1000
        assert used_millicores(harness, "b" if node_name == "a" else "a") == 0


async def test_a_pod_bound_by_another_scheduler_first_is_accounted_where_it_is() -> None:
    async with running() as harness:
        harness.write(make_node("a", cpu="1"), make_pod("web", cpu="1"))
        harness.cluster.write("Pod", make_pod("web", cpu="1", node="b"))
        await harness.pass_time(10)
        assert (used_millicores(harness, "a"), used_millicores(harness, "b")) == (0, 1000)
        assert "pod-default-web" not in harness.cluster.conditions
        assert sum(harness.scheduler.statistics()["queue"].values()) == 0


@pytest.mark.parametrize("fault", [Fault.CUT_BEFORE, Fault.BROKEN])
async def test_a_bind_that_never_arrived_is_found_out_and_done_again(fault: Fault) -> None:
    async with running() as harness:
        harness.cluster.faults["web"] = fault
        harness.write(make_node("a", cpu="1"), make_pod("web", cpu="1"))
        await harness.go()
        assert harness.cluster.reads == ["web"]
        assert used_millicores(harness, "a") == 0
        del harness.cluster.faults["web"]
        await harness.pass_time(1)
        assert harness.cluster.node_of("web") == "a"
        assert outcomes(harness) == {"unknown": 1, "found_unbound": 1, "bound": 1}


async def test_a_bind_that_timed_out_but_succeeded_is_a_success() -> None:
    async with running() as harness:
        harness.cluster.faults["web"] = Fault.CUT_AFTER
        harness.write(make_node("a", cpu="1"), make_pod("web", cpu="1"))
        await harness.pass_time(40)
        assert harness.cluster.attempts == [("web", "a")]
        assert harness.notes("web") == ["Successfully assigned default/web to a"]
        assert used_millicores(harness, "a") == 1000
        assert outcomes(harness) == {"unknown": 1, "found_bound": 1}


async def test_the_room_stays_taken_while_the_outcome_is_unknown_and_the_server_away() -> None:
    async with running() as harness:
        harness.cluster.faults["web"] = Fault.CUT_AFTER
        harness.cluster.reads_fail = True
        harness.write(make_node("a", cpu="1"), make_pod("web", cpu="1"))
        await harness.clock.advance(120)  # the watch is silent as well
        harness.observe("Pod", make_pod("other", cpu="1"))
        await harness.clock.advance(10)
        assert harness.cluster.attempts == [("web", "a")]
        assert used_millicores(harness, "a") == 1000
        harness.cluster.reads_fail = False
        await harness.clock.advance(10)
        assert outcomes(harness) == {"unknown": 1, "found_bound": 1}


async def test_reads_that_fail_are_repeated_with_growing_pauses() -> None:
    async with running() as harness:
        harness.cluster.faults["web"] = Fault.CUT_BEFORE
        harness.cluster.reads_fail = True
        harness.write(make_node("a"), make_pod("web"))
        read_at = []
        for _ in range(80):
            seen = len(harness.cluster.reads)
            await harness.clock.advance(0.25)
            read_at += [harness.clock.now()] * (len(harness.cluster.reads) - seen)
        assert read_at[:5] == [0.25, 0.5, 1.5, 3.5, 7.5]  # the first one at once, then after 0.5, 1, 2, 4 s
        harness.cluster.reads_fail = False


async def test_a_bind_that_lands_after_everybody_gave_it_up_is_not_booked_twice() -> None:
    async with running() as harness:
        harness.cluster.faults["web"] = Fault.LATE
        harness.write(make_node("a", cpu="1"), make_pod("web", cpu="1"))
        await harness.go()
        assert used_millicores(harness, "a") == 0
        del harness.cluster.faults["web"]
        harness.cluster.land_late_binds()
        await harness.clock.advance(1)  # tried again before the watch tells
        await harness.pass_time(5)
        assert harness.cluster.bound == [("pod-default-web", "a")]
        assert used_millicores(harness, "a") == 1000
        assert sum(harness.scheduler.statistics()["queue"].values()) == 0


async def test_a_conflict_with_our_own_late_bind_is_found_to_be_a_success() -> None:
    async with running() as harness:
        harness.cluster.faults["web"] = Fault.LATE
        harness.write(make_node("a", cpu="1"), make_pod("web", cpu="1"))
        await harness.clock.advance(0)
        del harness.cluster.faults["web"]
        harness.cluster.land_late_binds()
        await harness.clock.advance(1)  # the watch is silent
        assert outcomes(harness) == {"unknown": 1, "found_unbound": 1, "conflict": 1, "found_bound": 1}
        assert used_millicores(harness, "a") == 1000
        assert harness.notes("web")[-1] == "Successfully assigned default/web to a"


async def test_a_late_bind_to_another_node_ends_the_second_assumption() -> None:
    async with running() as harness:
        harness.cluster.faults["web"] = Fault.LATE
        harness.write(make_node("a", cpu="1"), make_pod("web", cpu="1"))
        await harness.go()
        harness.cluster.delete("Node", "a")
        harness.write(make_node("b", cpu="1"))
        harness.cluster.faults["web"] = hang = Hang()
        await harness.pass_time(2)
        assert used_millicores(harness, "b") == 1000
        harness.cluster.land_late_binds()
        await harness.go()
        assert (used_millicores(harness, "a"), used_millicores(harness, "b")) == (1000, 0)
        hang.released.set()
        await harness.pass_time(5)
        assert (used_millicores(harness, "a"), used_millicores(harness, "b")) == (1000, 0)
        assert harness.cluster.bound == [("pod-default-web", "a")]


async def test_a_pod_deleted_while_binding_frees_its_space_at_once() -> None:
    async with running() as harness:
        hang = harness.cluster.faults["web"] = Hang()
        harness.write(make_node("a", cpu="1"), make_pod("web", cpu="1"))
        await harness.go()
        harness.cluster.delete("Pod", "default/web")
        harness.write(make_pod("next", cpu="1"))
        await harness.go()
        assert harness.cluster.node_of("next") == "a"
        hang.released.set()
        await harness.pass_time(5)
        assert used_millicores(harness, "a") == 1000
        assert sum(harness.scheduler.statistics()["queue"].values()) == 0


@pytest.mark.parametrize("fault", [Fault.CUT_BEFORE, Fault.CUT_AFTER])
async def test_a_pod_deleted_while_its_bind_is_unknown_is_gone_for_good(fault: Fault) -> None:
    async with running() as harness:
        harness.cluster.faults["web"] = fault
        harness.cluster.reads_fail = True
        harness.write(make_node("a", cpu="1"), make_pod("web", cpu="1"))
        await harness.go()
        harness.cluster.delete("Pod", "default/web")
        await harness.go()
        assert used_millicores(harness, "a") == 0
        harness.cluster.reads_fail = False
        await harness.pass_time(30)
        assert used_millicores(harness, "a") == 0
        assert sum(harness.scheduler.statistics()["queue"].values()) == 0
        assert outcomes(harness) == {"unknown": 1, "gone": 1}


async def test_a_watch_that_is_faster_than_the_answer_does_not_book_twice() -> None:
    async with running() as harness:
        hang = harness.cluster.faults["web"] = Hang()
        harness.write(make_node("a", cpu="1"), make_pod("web", cpu="1"))
        await harness.go()
        harness.observe("Pod", make_pod("web", cpu="1", node="a") | {})
        assert not harness.cache.assumed()
        hang.released.set()
        await harness.go()
        assert used_millicores(harness, "a") == 1000
        assert harness.cache.statistics()["pods"]["bound"] == 1


async def test_a_policy_that_goes_and_comes_back_during_a_bind_does_not_try_the_pod_twice() -> None:
    async with running() as harness:
        policy = {
            "kind": "SchedulingPolicy",
            "apiVersion": "berth.dev/v1alpha1",
            "metadata": {"name": "batch", "uid": "1", "generation": 1},
            "spec": {"schedulerName": "batch"},
        }
        hang = harness.cluster.faults["web"] = Hang()
        harness.write(policy, make_node("a"), make_pod("web", scheduler="batch"))
        await harness.go()
        harness.cluster.delete("SchedulingPolicy", "batch")
        await harness.go()
        harness.write(policy)
        await harness.pass_time(5)
        assert harness.cluster.attempts == [("web", "a")]
        hang.released.set()
        await harness.go()
        assert harness.cluster.node_of("web") == "a"


async def test_no_more_binds_run_at_once_than_allowed() -> None:
    async with running(bind_limit=3) as harness:
        hangs = [Hang() for _ in range(10)]
        harness.cluster.faults.update({f"p{number}": hang for number, hang in enumerate(hangs)})
        harness.write(make_node("a", cpu="100"), *[make_pod(f"p{number}") for number in range(10)])
        await harness.go()
        assert harness.cluster.running_binds == 3
        assert harness.scheduler.statistics()["queue"]["active"] == 7
        for hang in hangs:
            hang.released.set()
        await harness.go()
        assert len(harness.cluster.bound) == 10
        assert harness.cluster.most_running_binds == 3


async def test_many_binds_run_at_once() -> None:
    async with running() as harness:
        hangs = [Hang() for _ in range(20)]
        harness.cluster.faults.update({f"p{number}": hang for number, hang in enumerate(hangs)})
        harness.write(make_node("a", cpu="100"), *[make_pod(f"p{number}") for number in range(20)])
        await harness.go()
        assert harness.cluster.running_binds == 20
        for hang in hangs:
            hang.released.set()
