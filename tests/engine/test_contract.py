"""Every plugin of the registry keeps the contract, on small clusters of every theme; and the suite finds violations."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from berth.engine import contract
from berth.engine.contract import CHECKS, ContractCase, check_cached_answers, check_growing_table
from berth.engine.events import Event
from berth.engine.legacy.max_volume_count import MaxEBSVolumeCount
from berth.engine.plugin import Plugin, PodsRead, nothing_else
from berth.engine.plugins.inter_pod_affinity import InterPodAffinity
from berth.engine.plugins.node_affinity import NodeAffinity
from berth.engine.plugins.node_name import NodeName
from berth.engine.plugins.node_ports import NodePorts
from berth.engine.plugins.node_resources_balanced_allocation import NodeResourcesBalancedAllocation
from berth.engine.plugins.node_resources_fit import NodeResourcesFit
from berth.engine.plugins.pod_topology_spread import PodTopologySpread
from berth.engine.plugins.taint_toleration import TaintToleration
from berth.engine.plugins.volume_restrictions import VolumeRestrictions
from berth.engine.registry import PLUGINS
from berth.engine.state.state import State
from berth.model import Node, parse_pod
from engine.worlds import World, arguments, state_of, worlds
from support.builders import make_node, make_pod

Check = Callable[[ContractCase], None]

# They compare decisions after each of many changes, so each tries fewer clusters.
LONG = (check_cached_answers, check_growing_table)
SHORT = [check for check in CHECKS if check not in LONG]


def case_of(kind: type[Plugin], world: World) -> ContractCase:
    return ContractCase(lambda given: kind(dict(given)), arguments(kind, world), cluster_of(world), [world.pod])


def cluster_of(world: World) -> Callable[..., State]:
    def cluster(reverse: bool = False, nodes: int | None = None) -> State:
        chosen = [body for body in world.objects if body["kind"] == "Node"][:nodes]
        rest = [body for body in world.objects if body["kind"] != "Node"]
        state = state_of(reversed([*chosen, *rest]) if reverse else [*chosen, *rest])
        if reverse:  # and with slots that were used before
            first: Sequence[Node] = list(state.table.nodes())[:2]
            for node in first:
                state.table.remove_node(node.name)
                state.table.set_node(replace(node, name=f"gone-{node.name}"))
                state.table.set_node(node)
                state.table.remove_node(f"gone-{node.name}")
        return state

    return cluster


@pytest.mark.parametrize("check", SHORT, ids=lambda check: check.__name__)
@pytest.mark.parametrize("name", sorted(PLUGINS))
def test_a_plugin_passes_the_check_on_every_cluster(name: str, check: Check) -> None:
    for world in worlds():
        try:
            check(case_of(PLUGINS[name], world))
        except AssertionError as violation:
            raise AssertionError(f"{name} on {world.id}: {violation}") from violation


@pytest.mark.parametrize("check", LONG, ids=lambda check: check.__name__)
@pytest.mark.parametrize("name", sorted(PLUGINS))
def test_decisions_with_cached_answers_are_those_without(name: str, check: Check) -> None:
    some = worlds()[::6]
    for world, other in zip(some, [*some[1:], some[0]], strict=True):
        case = case_of(PLUGINS[name], world)
        check(replace(case, pods=[world.pod, other.pod, world.pod]))


@pytest.mark.parametrize("name", sorted(PLUGINS))
def test_a_plugin_has_its_name_and_known_events(name: str) -> None:
    plugin = PLUGINS[name]
    assert plugin.name == name
    assert plugin.filters or plugin.scores
    assert all(isinstance(event, Event) for event in plugin.retry_events)


# --- the suite finds violations --------------------------------------------------------------------------------------


def lying(kind: type[Plugin], **fields: Any) -> type[Plugin]:
    """The plugin with some of its dependencies declared otherwise."""

    class Lying(kind):  # type: ignore[valid-type, misc]
        def __init__(self, args: Any) -> None:
            super().__init__(args)
            self.dependencies = replace(kind(args).dependencies, **fields)

    return Lying


def wrong(kind: type[Plugin], **methods: Any) -> type[Plugin]:
    return type("Wrong", (kind,), methods)


def never_true(*given: Any) -> bool:
    return False


STATIC = {"static_key": lambda pod: ()}
NO_ROWS = {"rows_with_pods": lambda query, state: np.zeros(state.table.capacity, dtype=np.bool_)}

LIES = {
    "a static filter reads pods": lying(NodeResourcesFit, **STATIC),
    "a static score reads pods": lying(NodeResourcesBalancedAllocation, **STATIC),
    "a static score reads pods of other nodes": lying(PodTopologySpread, **STATIC),
    "a part of the pod is missing in the key": lying(TaintToleration, **STATIC),
    "another part of the pod is missing": lying(NodeAffinity, static_key=lambda pod: pod.required_node_affinity),
    "no pods are read": lying(NodePorts, pods=PodsRead.NONE),
    "verdicts depend on other nodes": lying(InterPodAffinity, node_local=True),
    "verdicts depend on counters": lying(InterPodAffinity, filter_version=nothing_else),
    "scores depend on counters": lying(InterPodAffinity, score_version=nothing_else),
    "spreading depends on counters": lying(PodTopologySpread, filter_version=nothing_else, score_version=nothing_else),
    "verdicts of more rows change": lying(InterPodAffinity, affected_rows=lambda *given: []),
    "pods of a node matter": lying(InterPodAffinity, **NO_ROWS),
    "disks of a node matter": lying(MaxEBSVolumeCount, **NO_ROWS),
    "fits_row accepts less": wrong(NodeResourcesFit, fits_row=never_true),
    "score_row gives less": wrong(NodeResourcesFit, score_row=lambda *given: 0),
    "filter_with_free accepts more": wrong(
        NodeResourcesFit,
        filter_with_free=lambda self, query, free, allocatable: NodeResourcesFit.filter_with_free(
            self, query, free + 10**12, allocatable
        ),
    ),
    "filter_with_nominated overlooks them": wrong(
        NodeResourcesFit,
        filter_with_nominated=lambda self, query, state, nominated: self.filter(query, state, nominated.rows),
    ),
    "affected_by_nominated overlooks them": wrong(
        VolumeRestrictions,
        affected_by_nominated=lambda self, query, nominated: np.zeros(len(nominated.rows), dtype=np.bool_),
    ),
    "normalized_groups gives less": wrong(
        PodTopologySpread, normalized_groups=lambda self, query, state, groups: [0] * len(groups.inhabited)
    ),
    "scale gives less": wrong(TaintToleration, scale=lambda self, scores, bounds: scores - 1),
    "bounds are those of other scores": wrong(
        TaintToleration, normalize=lambda self, scores: np.zeros(len(scores), dtype=np.int64)
    ),
    "admits rejects more": wrong(TaintToleration, admits=never_true),
    "named_nodes has fewer": wrong(NodeName, named_nodes=lambda self, pod: frozenset()),
    "node_marks has fewer": wrong(NodeAffinity, node_marks=lambda self, query, state: frozenset({("x", "y", "z")})),
    "fits_without overlooks nodes": wrong(NodeResourcesFit, fits_without=never_true),
    "needed_resources has more": wrong(NodeResourcesFit, needed_resources=lambda self, pod: {"cpu": 10**12}),
    "events are local of another plugin": wrong(TaintToleration, local_events=frozenset({Event.CLAIM})),
    "an unknown argument is taken": wrong(TaintToleration, __init__=lambda self, args: None),
}


@pytest.mark.parametrize("lie", LIES)
def test_a_violation_of_the_contract_is_found(lie: str) -> None:
    assert violations(LIES[lie])


EBS = {"awsElasticBlockStore": {"volumeID": "one"}}
RARE = [  # what the clusters of all themes hardly have
    [make_pod("new", node="a")],
    [make_pod("new", nodeSelector={"disk": "ssd"}), make_pod("other", nodeSelector={"disk": "hdd"}), make_pod("any")],
    [make_pod("new", volumes=[{"name": "v", **EBS}], cpu="1")],
]


def rare_worlds() -> list[World]:
    nodes = [make_node(name, labels={"disk": disk}) for name, disk in (("a", "ssd"), ("b", "hdd"), ("c", "ssd"))]
    full = {f"v{number}": {"awsElasticBlockStore": {"volumeID": f"disk-{number}"}} for number in range(40)}
    disks = [{"name": name, **source} for name, source in full.items()]
    placed = make_pod("old", uid="old", node="a", volumes=disks)
    return [World(f"rare {pods[0]}", (*nodes, placed), parse_pod(pods[0]), {}) for pods in RARE]


def violations(kind: type[Plugin]) -> bool:
    """Whether a check finds something, on some cluster; pods of several clusters are decided in turn."""
    rare = [parse_pod(body) for pods in RARE for body in pods]
    known = [*worlds(), *rare_worlds()]
    for number, world in enumerate(known):
        others = [known[(number + step) % len(known)].pod for step in (1, 2)]
        if number >= len(worlds()):
            others = [replace(pod, node_name="") for pod in rare]
        case = replace(case_of(kind, world), pods=[world.pod, *others])
        try:
            for check in CHECKS:
                check(case)
        except (AssertionError, RuntimeWarning):  # a division by zero: static scores are asked for rows without nodes
            return True
    return False


def test_every_check_is_in_the_suite() -> None:
    written = {check for name, check in vars(contract).items() if name.startswith("check_")}
    assert written == set(CHECKS)
