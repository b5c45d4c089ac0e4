"""A pod that fits nowhere pushes pods of lower priority out, and gets their place."""

from typing import Any

from berth.scheduler.queue.queue import Part
from scheduler.harness import Harness, running
from scheduler.memory_cluster import Body
from support.builders import make_node, make_pod

NO_ROOM = "0/1 nodes are available: 1 Insufficient cpu."
NOT_HELPFUL = "preemption: 0/1 nodes are available: 1 No preemption victims found for incoming pod."


def policy(**spec: Any) -> Body:
    metadata = {"name": "p", "uid": "p", "generation": 1}
    return {"kind": "SchedulingPolicy", "metadata": metadata, "spec": {"schedulerName": "berth", **spec}}


def low(name: str = "low", node: str = "n", priority: int = 1, cpu: str = "4", **fields: Any) -> Body:
    return make_pod(name, node=node, cpu=cpu, priority=priority, **fields)


def high(name: str = "high", priority: int = 9, cpu: str = "4", **fields: Any) -> Body:
    return make_pod(name, cpu=cpu, priority=priority, **fields)


def uid(name: str) -> str:
    return f"pod-default-{name}"


def nominated(harness: Harness) -> dict[str, set[str]]:
    """The names of the pods that are as good as there, by node."""
    return {node: {pod.name for pod in pods.values()} for node, pods in harness.cache.state.nominated.items()}


async def test_a_pod_pushes_one_of_lower_priority_out_and_takes_its_place() -> None:
    async with running() as harness:
        harness.write(make_node("n", cpu="4"), low(), high())
        await harness.go()
        victim = harness.cluster.objects["Pod"]["default/low"]
        assert victim["metadata"]["deletionTimestamp"]
        assert victim["status"]["conditions"] == [
            {
                "type": "DisruptionTarget",
                "status": "True",
                "reason": "PreemptionByScheduler",
                "message": "berth: preempting to accommodate a higher priority pod",
            }
        ]
        assert harness.cluster.nominated("high") == "n"
        assert nominated(harness) == {"n": {"high"}}
        assert harness.queue.part_of(uid("high")) is Part.UNSCHEDULABLE
        harness.cluster.finish("low")
        await harness.pass_time(1)
        assert harness.cluster.node_of("high") == "n"
        assert harness.cluster.evictions == ["low"]
        assert nominated(harness) == {}


async def test_victim_and_preemptor_are_told_in_kube_schedulers_words() -> None:
    async with running() as harness:
        harness.write(make_node("n", cpu="4"), low(scheduler="other"), high())
        await harness.go()
        ((_, event),) = [(name, event) for name, event in harness.cluster.events if name == "low"]
        assert (event.type, event.reason, event.action) == ("Normal", "Preempted", "Preempting")
        assert event.note == f"Preempted by pod {uid('high')} on node n"
        assert event.related is not None
        assert event.related.name == "high"
        assert harness.notes("high") == [NO_ROOM]
        assert harness.cluster.conditions[uid("high")] == ("Unschedulable", NO_ROOM)


async def test_what_the_engine_says_against_preemption_is_part_of_the_message() -> None:
    async with running() as harness:
        harness.write(make_node("n", cpu="4"), low(priority=9), high())
        await harness.go()
        assert harness.notes("high") == [f"{NO_ROOM} {NOT_HELPFUL}"]
        assert harness.cluster.evictions == []


async def test_only_as_many_go_as_have_to_and_none_of_equal_or_higher_priority() -> None:
    async with running() as harness:
        harness.write(
            make_node("n", cpu="4"),
            low("a", priority=1, cpu="1"),
            low("b", priority=2, cpu="1"),
            low("c", priority=9, cpu="1"),
            low("d", priority=10, cpu="1"),
            high(cpu="1"),
        )
        await harness.go()
        assert harness.cluster.evictions == ["a"]


async def test_a_pod_that_must_never_preempt_does_not() -> None:
    async with running() as harness:
        harness.write(make_node("n", cpu="4"), low(), high(preemptionPolicy="Never"))
        await harness.go()
        assert harness.cluster.evictions == []
        assert harness.notes("high") == [f"{NO_ROOM} preemption: not eligible due to preemptionPolicy=Never."]


async def test_nobody_is_pushed_out_under_a_policy_without_preemption() -> None:
    async with running(built_in=False) as harness:
        harness.write(policy(preemption={"enabled": False}), make_node("n", cpu="4"), low(), high())
        await harness.go()
        assert harness.cluster.evictions == []
        assert harness.notes("high") == [NO_ROOM]
        assert harness.scheduler.statistics()["preemption"]["attempts"] == 0


async def test_a_policy_that_switches_it_on_lets_the_waiting_pod_preempt() -> None:
    async with running(built_in=False) as harness:
        harness.write(policy(preemption={"enabled": False}), make_node("n", cpu="4"), low(), high())
        await harness.go()
        changed = policy(preemption={"enabled": True})
        changed["metadata"]["generation"] = 2
        harness.write(changed)
        await harness.pass_time(2)
        assert harness.cluster.evictions == ["low"]


async def test_what_was_done_is_counted() -> None:
    async with running(built_in=False) as harness:
        harness.write(policy(), make_node("n", cpu="4"), *(low(f"low-{i}", cpu="1") for i in range(4)), high(cpu="3"))
        await harness.go()
        counted = harness.scheduler.statistics()["preemption"]
        assert (counted["attempts"], counted["running"], counted["outcomes"]) == (1, 0, {"evicted": 3})
        assert counted["victims"]["buckets"] == {1: 0, 2: 0, 4: 1, 8: 1, 16: 1, 32: 1, 64: 1}
        assert (counted["victims"]["count"], counted["victims"]["sum"]) == (1, 3)
        assert harness.policies.usage.statistics()["p"]["preempted"] == 3


# --- nominations ------------------------------------------------------------------------------------------------------


async def test_the_room_that_comes_free_is_for_the_preemptor_alone() -> None:
    async with running() as harness:
        harness.write(make_node("n", cpu="4"), low(), high())
        await harness.go()
        harness.cluster.finish("low")
        harness.cluster.write("Pod", make_pod("smaller", cpu="1", priority=9))
        harness.tell()
        await harness.pass_time(1)
        assert harness.cluster.node_of("high") == "n"
        assert harness.cluster.node_of("smaller") == ""


async def test_an_older_report_does_not_take_the_nomination_back() -> None:
    async with running() as harness:
        harness.write(make_node("n", cpu="4"), low(), high())
        harness.cluster.nominations_fail = True
        await harness.go()
        assert harness.cluster.nominated("high") == ""
        harness.cluster.change("Pod", "default/high", lambda body: body["metadata"].update(annotations={"a": "b"}))
        await harness.go()
        assert nominated(harness) == {"n": {"high"}}


async def test_a_nomination_that_was_given_up_does_not_come_back() -> None:
    async with running() as harness:
        harness.write(make_node("n", cpu="4"), low(priority=9), high(nominated="n"))
        await harness.go()
        assert harness.notes("high")[0] == f"{NO_ROOM} {NOT_HELPFUL}"
        assert harness.cluster.nominated("high") == ""
        assert nominated(harness) == {}
        harness.cluster.nominations_fail = True
        harness.cluster.change("Pod", "default/high", lambda body: body["metadata"].update(annotations={"a": "b"}))
        await harness.go()
        assert nominated(harness) == {}


async def test_what_others_write_after_us_counts() -> None:
    async with running() as harness:
        harness.write(make_node("n", cpu="4"), low(), high())
        await harness.go()
        harness.cluster.change("Pod", "default/high", lambda body: body["status"].pop("nominatedNodeName"))
        harness.tell()
        assert nominated(harness) == {}


async def test_a_higher_preemptor_takes_the_node_over_and_the_lower_one_looks_for_another() -> None:
    async with running() as harness:
        harness.write(make_node("n", cpu="4"), low(), high("mid", priority=5))
        await harness.go()
        assert nominated(harness) == {"n": {"mid"}}
        harness.write(high("top", priority=9))
        await harness.go()
        assert nominated(harness) == {"n": {"top"}}
        assert (harness.cluster.nominated("mid"), harness.cluster.nominated("top")) == ("", "n")
        harness.cluster.finish("low")
        harness.write(make_node("m", cpu="4"))
        await harness.pass_time(12)
        assert (harness.cluster.node_of("top"), harness.cluster.node_of("mid")) == ("n", "m")
        assert harness.cluster.evictions == ["low"]


async def test_nominations_of_other_schedulers_pods_are_theirs() -> None:
    async with running() as harness:
        harness.write(make_node("n", cpu="4"), low(), high("theirs", priority=5, scheduler="other", nominated="n"))
        harness.write(high())
        await harness.go()
        assert nominated(harness) == {"n": {"theirs", "high"}}
        assert harness.cluster.nominated("theirs") == "n"


async def test_a_pod_does_not_take_what_another_scheduler_makes_free_for_its_own() -> None:
    """Else each would push out for itself what the other has just placed (#130429)."""
    async with running() as harness:
        harness.write(make_node("n", cpu="4"), make_node("m", cpu="4"), low("other", node="m", priority=5))
        harness.write(low(deleting=True), high("theirs", scheduler="other", nominated="n"), high())
        await harness.go()
        harness.cluster.finish("low")
        await harness.pass_time(2)
        assert harness.cluster.node_of("high") == ""
        assert harness.cluster.evictions == ["other"]
        assert harness.cluster.nominated("high") == "m"


async def test_two_preemptors_do_not_count_on_the_same_room() -> None:
    async with running() as harness:
        harness.write(make_node("n", cpu="4"), low("a", cpu="2"), low("b", cpu="2"))
        harness.cluster.write("Pod", high("one", cpu="2"))
        harness.cluster.write("Pod", high("two", cpu="2"))
        harness.tell()
        await harness.go()
        assert sorted(harness.cluster.evictions) == ["a", "b"]
        for name in ("a", "b"):
            harness.cluster.finish(name)
        await harness.pass_time(2)
        assert (harness.cluster.node_of("one"), harness.cluster.node_of("two")) == ("n", "n")


async def test_a_third_of_the_same_priority_waits_when_all_room_is_promised() -> None:
    async with running() as harness:
        harness.write(make_node("n", cpu="4"), low("a", cpu="2"), low("b", cpu="2"))
        harness.write(high("one", cpu="2"), high("two", cpu="2"), high("three", cpu="2"))
        await harness.go()
        assert sorted(harness.cluster.evictions) == ["a", "b"]
        assert len(nominated(harness)["n"]) == 2


async def test_a_nominated_pod_that_is_deleted_leaves_its_room_to_others() -> None:
    async with running() as harness:
        harness.write(make_node("n", cpu="4"), low(), high(), high("next", priority=9))
        await harness.go()
        assert nominated(harness) == {"n": {"high"}}
        harness.cluster.delete("Pod", "default/high")
        harness.cluster.finish("low")
        await harness.pass_time(12)
        assert harness.cluster.node_of("next") == "n"
        assert nominated(harness) == {}


async def test_a_nominated_pod_that_ends_slowly_keeps_its_node_until_it_is_gone() -> None:
    async with running() as harness:
        harness.write(make_node("n", cpu="4"), low(), high())
        await harness.go()
        stamp = {"deletionTimestamp": "2026-01-01T00:00:30Z", "finalizers": ["x/y"]}
        harness.cluster.change("Pod", "default/high", lambda body: body["metadata"].update(stamp))
        await harness.go()
        assert nominated(harness) == {"n": {"high"}}
        harness.cluster.delete("Pod", "default/high")
        await harness.go()
        assert nominated(harness) == {}


async def test_when_the_node_goes_the_pod_looks_for_another() -> None:
    async with running() as harness:
        harness.write(make_node("n", cpu="4"), low(), high())
        await harness.go()
        harness.write(make_node("other", cpu="4"), low("low-2", node="other"))
        harness.cluster.delete("Node", "n")
        await harness.pass_time(12)
        assert harness.cluster.nominated("high") == "other"
        assert harness.cluster.evictions == ["low", "low-2"]


async def test_a_restart_goes_on_with_the_nomination_that_is_there() -> None:
    condition = {"type": "DisruptionTarget", "status": "True", "reason": "PreemptionByScheduler"}
    async with running() as harness:
        harness.write(make_node("n", cpu="4"), make_node("m", cpu="4"), low("other", node="m"))
        harness.write(low(deleting=True, status={"conditions": [condition]}), high(nominated="n"))
        await harness.go()
        assert harness.cluster.evictions == []
        assert "not eligible due to a terminating pod on the nominated node." in harness.notes("high")[0]
        harness.cluster.finish("low")
        await harness.pass_time(2)
        assert harness.cluster.node_of("high") == "n"


async def test_a_restart_makes_room_anew_where_nobody_leaves() -> None:
    async with running() as harness:
        harness.write(make_node("n", cpu="4"), low(), high(nominated="n"))
        await harness.go()
        assert harness.cluster.evictions == ["low"]


async def test_a_pod_that_finds_room_elsewhere_gives_the_node_up() -> None:
    async with running() as harness:
        harness.write(make_node("n", cpu="4"), low(), high())
        await harness.go()
        harness.write(make_node("free", cpu="4"))
        await harness.pass_time(2)
        assert harness.cluster.node_of("high") == "free"
        assert nominated(harness) == {}


async def test_while_the_victims_leave_nobody_else_is_pushed_out() -> None:
    async with running() as harness:
        harness.write(make_node("n", cpu="4"), low(), high())
        await harness.go()
        harness.write(make_node("m", cpu="4"), low("other", node="m", priority=0))
        await harness.pass_time(30)
        assert harness.cluster.evictions == ["low"]
        assert "not eligible due to a terminating pod on the nominated node." in harness.notes("high")[-1]


async def test_a_nomination_that_moves_to_another_node_leaves_its_room_to_others() -> None:
    async with running() as harness:
        harness.write(make_node("a", cpu="4"), make_node("b", cpu="500m"))
        harness.write(high(nominated="a", gates=["wait"]), make_pod("small", cpu="1", priority=1))
        await harness.go()
        assert harness.queue.part_of(uid("small")) is Part.UNSCHEDULABLE
        harness.components.nominator.nominate(harness.cache.pending[uid("high")], "b")
        await harness.pass_time(2)
        assert harness.cluster.node_of("small") == "a"
