"""The shipped policies do what they promise, by decisions; end_to_end/test_library.py has the same on a cluster."""

from collections import Counter
from dataclasses import replace
from random import Random
from typing import Any

import pytest

from berth.engine.diagnosis import Diagnosis
from berth.engine.pipeline import TieBreak
from berth.engine.testing import cluster
from berth.model import parse_pod
from berth.policy import BUILT_IN, load_policy
from berth.policy.fingerprint import fingerprint
from support import library
from support.builders import make_node, make_pod

LARGE = {"cpu": "100", "memory": "400Gi", "pods": "110"}


@pytest.mark.parametrize("name", library.names())
def test_each_file_has_policies_that_are_valid_and_sound_like_the_file(name: str) -> None:
    store = library.make_store(library.read_policies(name))
    statuses: dict[str, Any] = store.statuses()
    assert statuses
    for policy, status in statuses.items():
        assert status["activeGeneration"] == 1
        assert {*policy.split("-")} & {*name.split("-")}


def test_all_of_them_can_be_applied_together_and_none_is_in_the_way_of_another() -> None:
    policies = [manifest for name in library.names() for manifest in library.read_policies(name)]
    statuses: dict[str, Any] = library.make_store(policies).statuses()
    assert len(statuses) == len(policies)
    for status in statuses.values():
        conditions = {entry["type"]: (entry["status"], entry["reason"]) for entry in status["conditions"]}
        assert conditions["Active"] in (("True", "InForce"), ("False", "Shadow"))
        assert conditions["Contested"][0] == "False"


@pytest.mark.parametrize("name", library.names())
def test_each_places_pods_as_it_promises_whichever_way_ties_fall(name: str) -> None:
    scene = library.SCENES[name]
    store = library.make_store(library.read_policies(name))
    for seed in range(10):
        places = library.play(scene, store, scene.scheduler_name, seed)
        assert scene.promise(places), places


@pytest.mark.parametrize("name", sorted({*library.names()} - {"default", "shadow-canary"}))
def test_the_default_profile_does_not_do_what_the_others_promise(name: str) -> None:
    scene = library.SCENES[name]
    assert not scene.promise(library.play(scene, library.make_store([]), library.SERVED))


def test_the_default_policy_is_exactly_the_built_in() -> None:
    [manifest] = library.read_policies("default")
    policy = load_policy(manifest).policy
    assert policy.name == "default"
    assert fingerprint(policy) == fingerprint(BUILT_IN)


def test_the_default_policy_spells_everything_out_in_order() -> None:
    spec = library.read_policies("default")[0]["spec"]
    assert [entry["name"] for entry in spec["predicates"]] == [entry.name for entry in BUILT_IN.predicates]
    assert [(entry["name"], entry["weight"]) for entry in spec["priorities"]] == [
        (entry.name, entry.weight) for entry in BUILT_IN.priorities
    ]


@pytest.mark.parametrize(
    ("name", "first", "others"),
    [
        ("binpack", "NodeResourcesFit", 13),
        ("spread-zones", "over-zones", 23),
        ("cost-saver", "spot-first", 38),
        ("gpu-dense", "NodeResourcesFit", 13),
        ("memory-tiered", "right-tier", 16),
    ],
)
def test_what_matters_most_outweighs_everything_else_as_the_comment_says(name: str, first: str, others: int) -> None:
    weights = {entry.name: entry.weight for entry in load_policy(library.read_policies(name)[0]).policy.priorities}
    assert weights.pop(first) > sum(weights.values()) == others
    assert f"sum up to {others}" in (library.FOLDER / f"{name}.yaml").read_text()


def test_spread_zones_keeps_zones_even_to_the_last_pod_against_every_other_wish() -> None:
    scene = library.SCENES["spread-zones"]
    many = [{**pod, "metadata": {**pod["metadata"], "name": f"p-{n}", "uid": f"p-{n}"}} for n, pod in _again(scene, 90)]
    nodes = [{**node, "status": {**node["status"], "allocatable": LARGE}} for node in scene.nodes]
    large = replace(scene, nodes=nodes, pods=many)
    places = library.play(large, library.make_store(library.read_policies("spread-zones")), scene.scheduler_name)
    assert Counter(node[0] for _, node in places) == Counter(a=30, b=30, c=30)
    assert {Counter(node for _, node in places)[name] for name in ("a-1", "a-2", "a-3")} == {10}


def test_cost_saver_gives_a_node_without_a_price_no_points_and_counts_one_that_is_no_number() -> None:
    nodes = [
        make_node("priced", labels={"example.com/price": "99"}),
        make_node("unpriced"),
        make_node("wrong", labels={"example.com/price": "dear"}),
    ]
    scene = replace(library.SCENES["cost-saver"], nodes=nodes, pods=[make_pod("p")])
    store = library.make_store(library.read_policies("cost-saver"))
    assert library.play(scene, store, scene.scheduler_name) == [("p", "priced")]
    store.report()
    errors: Any = store.statuses()["cost-saver"]["errors"]
    assert [error["source"] for error in errors] == ["priority cheap-first"]


def test_what_cost_saver_keeps_off_spot_nodes_is_told_why() -> None:
    pod = parse_pod(make_pod("p", labels={"example.com/interruptible": "false"}))
    active = load_policy(library.read_policies("cost-saver")[0])
    state = cluster([make_node("spot", labels={"example.com/capacity": "spot"})])
    diagnosis = active.pipeline.decide(pod, state, Random(0))
    assert isinstance(diagnosis, Diagnosis)
    assert diagnosis.message == (
        "0/1 nodes are available: 1 node(s) may be taken away, and the pod must not be interrupted."
    )


def test_gpu_dense_lets_no_pod_without_gpus_onto_gpu_nodes_even_where_no_other_is() -> None:
    active = load_policy(library.read_policies("gpu-dense")[0])
    state = cluster([make_node("gpu", extended={library.GPU: 1}), make_node("full", cpu=1)])
    diagnosis = active.pipeline.decide(parse_pod(make_pod("p", cpu=2)), state, Random(0))
    assert isinstance(diagnosis, Diagnosis)
    assert "1 node(s) are kept for pods that ask for GPUs" in diagnosis.message


def test_memory_tiered_uses_the_other_tier_where_one_is_full() -> None:
    scene = library.SCENES["memory-tiered"]
    nodes = [node for node in scene.nodes if node["metadata"]["name"] != "high-1"]
    few = replace(scene, nodes=nodes, pods=scene.pods[:-1])
    places = library.play(few, library.make_store(library.read_policies("memory-tiered")), scene.scheduler_name)
    assert all(node.startswith("usual-") for _, node in places)


def test_legacy_has_the_twelve_predicates_and_seven_priorities_of_then() -> None:
    [manifest] = library.read_policies("legacy-1.9")
    spec = manifest["spec"]
    assert (len(spec["predicates"]), len(spec["priorities"])) == (12, 7)
    policy = load_policy(manifest).policy
    assert len(policy.predicates) == 12 + 3  # GeneralPredicates stands for four
    assert len(policy.priorities) == 7
    assert (policy.tie_break, policy.check_all, policy.preemption.enabled) == (TieBreak.ROUND_ROBIN, True, False)


def test_of_the_team_policies_the_most_specific_one_decides() -> None:
    store = library.make_store(library.read_policies("team-namespaces"))
    for namespace, labels, expected in (
        ({}, {}, "team-default"),
        ({}, {"urgent": "true"}, "team-default"),
        ({"team": "batch"}, {}, "team-batch"),
        ({"team": "batch"}, {"urgent": "true"}, "team-batch-urgent"),
    ):
        active = store.for_pod(parse_pod(make_pod("p", labels=labels, scheduler="berth-teams")), namespace)
        assert active is not None
        assert active.policy.name == expected
        assert active.policy.annotates


def test_the_shadow_decides_nothing_and_judges_half() -> None:
    store = library.make_store(library.read_policies("shadow-canary"))
    pod = parse_pod(make_pod("p"))
    active = store.for_pod(pod, {})
    assert active is not None
    assert active.policy.name == BUILT_IN.name
    [shadow] = store.shadows(pod, {})
    assert (shadow.policy.name, shadow.policy.shadow_percentage) == ("shadow-canary", 50)


def _again(scene: library.Scene, count: int) -> list[tuple[int, Any]]:
    return [(number, scene.pods[number % len(scene.pods)]) for number in range(count)]
