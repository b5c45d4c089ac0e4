"""Many pods wait, and something happens: those are tried that it can help, as many as it can help, and no others.

Counts of attempts, not times: `make bench-storms` has those.
"""

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from berth.scheduler.queue.queue import ASKED_AT_ONCE, QueuedPod
from policy.builders import make_policy
from scheduler.harness import Harness, running
from scheduler.memory_cluster import Body
from scheduler.test_waking import even, near
from support.builders import make_node, make_pod
from support.floods import HOSTNAME, POD_FLOODS

NEAR = {"affinity": near("db")}
EVEN = {"topologySpreadConstraints": [even()]}


def pinned(node: str) -> Body:
    """A DaemonSet's pod for the node."""
    term = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": [node]}]}
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}}
    return make_pod(f"ds-{node}", cpu=1, affinity={"nodeAffinity": required})


@contextmanager
def attempts(harness: Harness) -> Iterator[list[str]]:
    """The names of the pods that are tried in the block."""
    tried: list[str] = []
    cycle = harness.components.cycle
    attempt = cycle.attempt

    def counted(item: QueuedPod) -> None:
        tried.append(item.pod.name)
        attempt(item)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(cycle, "attempt", counted)
        yield tried


async def waiting(harness: Harness, *bodies: Body) -> None:
    """These are there, every pod has been tried, and every backoff is over."""
    harness.write(*bodies)
    await harness.go()
    await harness.pass_time(20, step=20)


async def test_a_pod_that_leaves_too_little_for_any_of_200_kinds_leads_to_no_attempt() -> None:
    async with running() as harness:
        pods = [make_pod(f"p-{number}", cpu=f"{3000 + number}m") for number in range(200)]
        full = [make_pod(name, node="n", cpu=2) for name in "ab"]
        await waiting(harness, make_node("n", cpu=4), *full, *pods)
        with attempts(harness) as tried:
            harness.cluster.delete("Pod", "default/a")
            await harness.go()
        assert not tried


async def test_of_200_kinds_the_one_is_tried_that_has_room_now() -> None:
    async with running() as harness:
        pods = [make_pod(f"p-{number}", cpu=f"{3000 - 10 * number}m") for number in range(200)]
        full = [make_pod("a", node="n", cpu="1015m"), make_pod("b", node="n", cpu="2985m")]
        await waiting(harness, make_node("n", cpu=4), *full, *pods)
        with attempts(harness) as tried:
            harness.cluster.delete("Pod", "default/a")
            await harness.go()
        assert tried == ["p-199"]
        assert harness.cluster.node_of("p-199") == "n"


async def test_of_pods_that_are_each_bound_to_a_node_only_the_one_of_the_node_with_room_is_tried() -> None:
    names = [f"n-{number}" for number in range(150)]
    async with running() as harness:
        nodes = [make_node(name, cpu=1) for name in names]
        full = [make_pod(f"full-{name}", node=name, cpu=1) for name in names]
        await waiting(harness, *nodes, *full, *map(pinned, names))
        reported = len(harness.cluster.events)
        with attempts(harness) as tried:
            harness.cluster.delete("Pod", "default/full-n-7")
            await harness.go()
        assert tried == ["ds-n-7"]
        assert harness.cluster.node_of("ds-n-7") == "n-7"
        assert len(harness.cluster.events) == reported + 1


async def test_room_on_a_node_that_a_pod_may_not_go_to_for_another_reason_leads_to_no_attempt() -> None:
    async with running() as harness:
        nodes = [make_node(zone, cpu=1, labels={"zone": zone}) for zone in ("z1", "z2")]
        full = [make_pod(f"full-{zone}", node=zone, cpu=1) for zone in ("z1", "z2")]
        await waiting(harness, *nodes, *full, make_pod("choosy", cpu=1, node_selector={"zone": "z1"}))
        with attempts(harness) as tried:
            harness.cluster.delete("Pod", "default/full-z2")
            await harness.go()
            assert not tried
            harness.cluster.change("Node", "z2", lambda node: node["metadata"]["labels"].update(zone="z1"))
            await harness.go()
        assert tried == ["choosy"]
        assert harness.cluster.node_of("choosy") == "z2"


@pytest.mark.parametrize("rules", [NEAR, EVEN], ids=["affinity", "spreading"])
async def test_room_on_a_node_without_the_label_of_a_rule_leads_to_no_attempt(rules: dict[str, Any]) -> None:
    async with running() as harness:
        nodes = [make_node("a", cpu=1, labels={"zone": "z1"}), make_node("b", cpu=1)]
        full = [make_pod("full-a", node="a", cpu=1, labels={"app": "db"}), make_pod("full-b", node="b", cpu=1)]
        roomy = make_node("c", cpu=9, labels={"zone": "z2"})
        there = [make_pod(name, node="c", cpu=1, labels={"app": "web"}) for name in ("one", "two")]
        await waiting(harness, *nodes, *full, roomy, *there, make_pod("web", cpu=1, labels={"app": "web"}, **rules))
        with attempts(harness) as tried:
            harness.cluster.delete("Pod", "default/full-b")
            await harness.go()
            assert not tried
            harness.cluster.change("Node", "b", lambda node: node["metadata"].update(labels={"zone": "z1"}))
            await harness.go()
        assert tried == ["web"]
        assert harness.cluster.node_of("web") == "b"


@pytest.mark.parametrize("name", ["node selector", "hard constraints", "claims", "ephemeral volumes"])
async def test_what_others_do_is_no_question_to_pods_that_it_cannot_help_however_many(name: str) -> None:
    flood = next(flood for flood in POD_FLOODS if flood.name == name)
    async with running() as harness:
        nodes = [make_node("a", labels={"zone": "z1"}), make_node("b")]
        await waiting(harness, *nodes, *flood.many(50))
        assert harness.queue.statistics()["unschedulable"] == 50
        asked = Counter(harness.queue.hints.counts) if harness.queue.hints is not None else Counter[str]()
        harness.write(make_pod("other", node="a", labels={"app": "web"}))
        harness.cluster.change("Node", "a", lambda node: node["metadata"].update(labels={"zone": "z2"}))
        harness.cluster.delete("Pod", "default/other")
        await harness.go()
        assert harness.queue.hints is not None
        assert harness.queue.hints.counts == asked


async def test_a_change_that_concerns_very_many_asks_a_few_of_them_at_once() -> None:
    flood = next(flood for flood in POD_FLOODS if flood.name == "anti-affinity")
    async with running() as harness:
        here = make_node("a", labels={HOSTNAME: "a"})
        placed = [make_pod(name, node="a", labels={"app": "web"}) for name in ("one", "two")]
        await waiting(harness, here, *placed, *flood.many(50))
        assert harness.queue.hints is not None
        before = harness.queue.hints.counts.total()
        harness.cluster.delete("Pod", "default/one")
        harness.tell()
        assert harness.queue.hints.counts.total() == before + ASKED_AT_ONCE
        with attempts(harness) as tried:
            await harness.go()
        assert harness.queue.hints.counts.total() == before + 50
        assert not tried


async def test_a_node_that_joins_is_tried_for_as_many_pods_as_it_takes() -> None:
    async with running() as harness:
        pods = [make_pod(f"p-{number}", cpu=1) for number in range(300)]
        await waiting(harness, make_node("full", cpu=1), make_pod("a", node="full", cpu=1), *pods)
        with attempts(harness) as tried:
            harness.write(make_node("new", cpu=4))
            await harness.go()
        assert tried == ["p-0", "p-1", "p-2", "p-3"]
        assert harness.queue.statistics()["unschedulable"] == 296


async def test_room_that_the_first_pods_cannot_use_is_offered_to_the_next() -> None:
    async with running() as harness:
        choosy = [make_pod(f"choosy-{number}", cpu=1, node_selector={"zone": "z1"}) for number in range(3)]
        full = [make_node("full", cpu=1, labels={"zone": "z1"}), make_pod("a", node="full", cpu=1)]
        await waiting(harness, *full, *choosy, *(make_pod(f"p-{number}", cpu=1) for number in range(3)))
        with attempts(harness) as tried:
            harness.write(make_node("new", cpu=1, labels={"zone": "z2"}))
            await harness.go()
        assert tried == ["choosy-0", "choosy-1", "choosy-2", "p-0"]
        assert harness.cluster.node_of("p-0") == "new"


async def test_rooms_that_come_one_after_the_other_are_not_counted_twice() -> None:
    async with running() as harness:
        full = [make_pod(f"full-{number}", node="n", cpu=1) for number in range(4)]
        pods = [make_pod(f"p-{number}", cpu=1) for number in range(50)]
        await waiting(harness, make_node("n", cpu=4), *full, *pods)
        with attempts(harness) as tried:
            for number in range(4):
                harness.cluster.delete("Pod", f"default/full-{number}")
            await harness.go()
        assert tried == ["p-0", "p-1", "p-2", "p-3"]


async def test_the_higher_priority_is_tried_first_for_room_that_came() -> None:
    async with running() as harness:
        pods = [make_pod(f"p-{number}", cpu=1, priority=number) for number in range(10)]
        await waiting(harness, make_node("full", cpu=1), make_pod("a", node="full", cpu=1, priority=99), *pods)
        with attempts(harness) as tried:
            harness.write(make_node("new", cpu=2))
            await harness.go()
        assert tried == ["p-9", "p-8"]


async def test_a_preemptor_is_tried_where_weaker_pods_hold_the_room() -> None:
    async with running() as harness:
        strong = [make_pod(f"p-{number}", cpu=2, priority=7) for number in range(150)]
        await waiting(harness, make_node("full", cpu=2), make_pod("a", node="full", cpu=2, priority=9), *strong)
        weak = make_pod("weak", node="full", cpu=2, priority=1)
        with attempts(harness) as tried:
            harness.write(weak)
            harness.cluster.delete("Pod", "default/a")
            await harness.go()
        assert tried[0] == "p-0"
        assert harness.cluster.evictions == ["weak"]


# --- policies --------------------------------------------------------------------------------------------------------


def team(name: str, generation: int = 1, **spec: Any) -> Body:
    weight = [{"name": "NodeResourcesFit", "weight": generation}]
    return make_policy(name, generation=generation, **{"schedulerName": name, "priorities": weight, **spec})


async def teams(harness: Harness, each: int = 2, count: int = 3) -> None:
    names = [(f"t{number}-{pod}", f"team-{number}") for pod in range(each) for number in range(count)]
    pods = [make_pod(name, cpu=2, scheduler=scheduler) for name, scheduler in names]
    await waiting(harness, make_node("n", cpu=1), *(team(f"team-{number}") for number in range(count)), *pods)


async def test_only_the_pods_of_the_policy_that_is_edited_are_tried_again() -> None:
    async with running() as harness:
        await teams(harness)
        with attempts(harness) as tried:
            harness.write(team("team-1", 2))
            await harness.go()
        assert tried == ["t1-0", "t1-1"]


@pytest.mark.parametrize(
    "policy",
    [team("shadow", mode="Shadow", schedulerName="team-1"), team("elsewhere"), team("team-1")],
    ids=["in Shadow mode", "for a name that no pod has", "as it was"],
)
async def test_a_policy_that_decides_for_none_of_the_pods_brings_nobody_back(policy: Body) -> None:
    async with running() as harness:
        await teams(harness)
        with attempts(harness) as tried:
            harness.write(policy)
            await harness.go()
        assert not tried


async def test_of_one_scheduler_name_those_are_tried_whom_the_new_policy_selects() -> None:
    async with running() as harness:
        pods = [make_pod(name, cpu=2, labels={"team": name}) for name in ("red", "blue")]
        await waiting(harness, make_node("n", cpu=1), team("all", schedulerName="berth"), *pods)
        with attempts(harness) as tried:
            harness.write(team("red", schedulerName="berth", podSelector={"matchLabels": {"team": "red"}}))
            await harness.go()
            assert tried == ["red"]
            harness.cluster.delete("SchedulingPolicy", "red")
            await harness.go()
        assert tried == ["red", "red"]


async def test_pods_of_a_policy_that_is_based_on_the_one_that_is_edited_are_tried_again() -> None:
    async with running() as harness:
        await teams(harness)
        harness.write(team("team-2", 2, base="team-1"))
        await harness.go()
        with attempts(harness) as tried:
            harness.write(team("team-1", 2, parameters={"limit": 1}))
            await harness.go()
        assert sorted(tried) == ["t1-0", "t1-1", "t2-0", "t2-1"]


async def test_a_new_pod_of_another_team_does_not_wait_for_the_pods_of_an_edited_policy() -> None:
    async with running() as harness:
        harness.write(make_pod("high", cpu=2, scheduler="team-0", priority=5))
        await teams(harness, each=400, count=1)
        with attempts(harness) as tried:
            harness.write(team("team-0", 2), *(make_pod(f"new-{number}", cpu=2) for number in range(3)))
            await harness.go()
        assert tried[0] == "high"
        assert tried.index("new-2") <= 2 * 3
        assert len(tried) == 404


async def test_all_pods_of_an_edited_policy_are_tried_although_new_ones_never_end() -> None:
    async with running() as harness:
        await teams(harness, each=20, count=1)
        with attempts(harness) as tried:
            harness.write(team("team-0", 2), *(make_pod(f"new-{number}", cpu=2) for number in range(100)))
            await harness.go()
        assert {f"t0-{pod}" for pod in range(20)} <= set(tried[:41])


async def test_an_edit_during_an_edit_is_not_missed() -> None:
    async with running() as harness:
        await teams(harness, each=400, count=2)
        with attempts(harness) as tried:
            harness.write(team("team-0", 2))
            harness.write(team("team-1", 2))
            harness.write(team("team-0", 3))
            await harness.go()
        assert set(tried) == {f"t{number}-{pod}" for number in range(2) for pod in range(400)}


async def test_a_replica_that_takes_over_tries_every_pod() -> None:
    async with running() as harness:
        await teams(harness, each=200, count=2)
        with attempts(harness) as tried:
            harness.scheduler.take_over()
            await harness.go()
        assert len(tried) == 400
