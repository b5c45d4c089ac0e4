"""The naive reference engine says what kube-scheduler says, so that it can stand in for it elsewhere."""

import pytest

from berth.model import parse_pod
from conformance.agreement import differences
from conformance.cases import theme, vectors
from reference.engine import Verdict, feasible, judge, preempt
from reference.profile import default_profile, profile_of
from reference.world import World
from support.builders import Body, make_node, make_pod

THEMES = sorted({theme(vector) for vector in vectors()})


def verdict(case: Body) -> Body:
    world = World.of(case["objects"])
    # The oracle registers nominations before it knows the pods, and so drops them: they do not count in the vectors.
    world = World(world.nodes, world.pods, (), world.objects)
    return judge(world, profile_of(case["config"]), parse_pod(case["pod"]))


@pytest.mark.parametrize("name", THEMES)
def test_every_vector_of_a_theme_agrees_with_the_oracle(name: str) -> None:
    found = {case["id"]: list(differences(case["expect"], verdict(case))) for case in vectors(name)}
    assert len(found) == 150
    assert {case: said for case, said in found.items() if said} == {}


# --- what the vectors leave out


def where(pod: Body, *bodies: Body) -> list[str]:
    return feasible(World.of(bodies), default_profile(), parse_pod(pod))


@pytest.mark.parametrize(("priority", "nodes"), [(4, ["a", "b"]), (5, ["b"]), (6, ["b"])])
def test_a_nominated_pod_takes_room_from_pods_that_are_not_more_important(priority: int, nodes: list[str]) -> None:
    nominated = make_pod("n", cpu="3", priority=priority, nominated="a")
    assert where(make_pod("p", cpu="2", priority=5), make_node("a"), make_node("b"), nominated) == nodes


def test_a_nominated_pod_is_no_company_for_a_pod_that_wants_some() -> None:
    term = {"labelSelector": {"matchLabels": {"app": "web"}}, "topologyKey": "zone"}
    pod = make_pod("p", affinity={"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}})
    company: Body = {"labels": {"app": "web"}, "priority": 5}
    node = make_node("a", labels={"zone": "z"})
    assert where(pod, node, make_pod("n", nominated="a", **company)) == []
    assert where(pod, node, make_pod("n", node="a", **company)) == ["a"]


def test_a_pod_waits_for_those_that_it_pushed_out_of_its_nominated_node() -> None:
    def victims(reason: str) -> Verdict:
        condition = {"type": "DisruptionTarget", "status": "True", "reason": reason}
        leaving = make_pod("l", node="a", cpu="3", priority=0, deleting=True, status={"conditions": [condition]})
        world = World.of([make_node("a"), make_node("b"), leaving, make_pod("o", node="b", cpu="3", priority=0)])
        return preempt(world, default_profile(), parse_pod(make_pod("p", cpu="2", priority=5, nominated="a")))

    assert victims("PreemptionByScheduler") == {"candidates": {}, "selected": []}
    assert set(victims("EvictionByEvictionAPI")["candidates"]) == {"a", "b"}


def test_a_pod_that_has_run_to_its_end_takes_no_room() -> None:
    assert where(make_pod("p", cpu="2"), make_node("a"), make_pod("d", node="a", cpu="3", phase="Succeeded")) == ["a"]
