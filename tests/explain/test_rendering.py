"""An explanation as an API object and as lines: both say the same, and leave out what is not known."""

import json
from typing import Any

import pytest

from berth.explain import comparison_object, comparison_sentences, sentences, to_object
from berth.explain.quantities import quantity, rounded
from berth.explain.reading import from_object
from berth.explain.records import (
    Advice,
    Explanation,
    FieldChange,
    NearMiss,
    NodeComparison,
    NodeSide,
    Outlook,
    PluginComparison,
    PluginVerdict,
    PodState,
    PolicyReference,
    PreemptionCode,
    PreemptionNote,
    Prospect,
    Reason,
)
from explain.clusters import World
from policy.builders import make_policy
from support.builders import make_node, make_pod

WEB: dict[str, Any] = {
    "name": "web",
    "namespace": "shop",
    "uid": "u1",
    "created": "2026-01-01T00:00:00Z",
    "labels": {"app": "web"},
}
PENDING = Explanation(
    **WEB,
    scheduler_name="berth",
    priority=10,
    state=PodState.UNSCHEDULABLE,
    message="0/2 nodes are available: 2 Insufficient cpu.",
    scheduler_message="0/2 nodes are available: 2 Insufficient cpu.",
    policy=PolicyReference("berth", 3),
    attempts=1,
    nodes=2,
    reasons=(
        Reason(
            "InsufficientResource",
            "NodeResourcesFit",
            "Insufficient cpu",
            2,
            2,
            (NearMiss("n1", "lacks 240m cpu: 1200m asked for, 960m free", "cpu", 1200, 960),),
        ),
    ),
    prospect=Prospect(Outlook.NOT_NOW, "Not now: n1 could take it if pods left.", 1, ("n1",)),
    preemption=PreemptionNote(PreemptionCode.NO_LOWER_PRIORITY, "no pod there has a lower priority than 10."),
    advice=(
        Advice(
            "ReduceRequest",
            "Pod",
            "web",
            "Request 960m cpu instead of 1200m: it fits on n1.",
            (FieldChange("spec.containers[*].resources.requests.cpu", "1200m", "960m"),),
            "n1",
        ),
    ),
    retried_on=("NodeAdd",),
)


def test_an_explanation_is_an_api_object_with_the_metadata_of_the_pod() -> None:
    body = to_object(PENDING)
    assert (body["apiVersion"], body["kind"]) == ("explain.berth.dev/v1alpha1", "Explanation")
    assert body["metadata"] == {
        "name": "web",
        "namespace": "shop",
        "uid": "u1",
        "creationTimestamp": "2026-01-01T00:00:00Z",
        "labels": {"app": "web"},
    }
    status = body["status"]
    assert status["state"] == "Unschedulable"
    assert status["reason"] == "InsufficientResource"
    assert status["reasons"][0]["nearestMisses"] == [
        {
            "node": "n1",
            "message": "lacks 240m cpu: 1200m asked for, 960m free",
            "resource": "cpu",
            "requested": "1200m",
            "free": "960m",
            "lacking": "240m",
        }
    ]
    assert status["prospect"] == {
        "outlook": "NotNow",
        "message": "Not now: n1 could take it if pods left.",
        "nodes": 1,
        "examples": ["n1"],
    }
    assert status["preemption"]["helps"] is False
    assert status["advice"][0]["changes"][0]["after"] == "960m"


def test_what_is_not_known_is_left_out_of_the_object() -> None:
    plain = Explanation(
        **WEB, scheduler_name="other", priority=0, state=PodState.OTHER_SCHEDULER, message="it is not ours"
    )
    assert to_object(plain)["status"] == {
        "state": "OtherScheduler",
        "message": "it is not ours",
        "schedulerName": "other",
        "priority": 0,
    }


def test_an_explanation_reads_as_lines() -> None:
    assert sentences(PENDING) == [
        "Pod shop/web is Unschedulable: 0/2 nodes are available: 2 Insufficient cpu.",
        "  SchedulingPolicy berth, generation 3, priority 10, 1 attempt",
        "2 nodes: Insufficient cpu (InsufficientResource, plugin NodeResourcesFit, 2 nodes by nothing else)",
        "  n1 lacks 240m cpu: 1200m asked for, 960m free",
        "Not now: n1 could take it if pods left.",
        "Preemption does not help: no pod there has a lower priority than 10.",
        "What would help, each tried:",
        "  1. Request 960m cpu instead of 1200m: it fits on n1.",
        "It is tried again on these events: NodeAdd.",
    ]


@pytest.mark.parametrize("name", ["web", "there", "gated", "other", "slip"])
def test_an_object_is_read_as_what_it_was(name: str) -> None:
    world = World(
        make_policy("calm", schedulerName="calm"),
        make_node("n1", cpu="1"),
        make_node("n2", memory="1Gi"),
        make_pod("web", cpu="2", memory="2Gi", created="2026-01-01T00:00:00Z"),
        make_pod("there", node="n1"),
        make_pod("gated", gates=["quota"]),
        make_pod("other", scheduler="other"),
        make_pod("slip", scheduler="cakm"),
    )
    said = world.explain(name, every_node=name != "other")
    body = to_object(said)
    assert from_object(json.loads(json.dumps(body))) == said


def test_a_comparison_says_what_each_plugin_gives_to_both_nodes() -> None:
    comparison = NodeComparison(
        "web",
        "shop",
        PolicyReference("berth", 3),
        NodeSide("n1", True, 120),
        NodeSide("n2", False, None, (PluginVerdict("NodeName", "Unschedulable", (), ("node(s) didn't match",)),)),
        (PluginComparison("ImageLocality", 2, (60, None)),),
        "n1 fits, n2 does not.",
    )
    body = comparison_object(comparison)
    assert [side["nodeName"] for side in body["status"]["nodes"]] == ["n1", "n2"]
    assert body["status"]["plugins"] == [
        {"plugin": "ImageLocality", "weight": 2, "scores": [60, None], "difference": 120}
    ]
    assert comparison_sentences(comparison) == [
        "n1 fits, n2 does not.",
        "  n2: NodeName: node(s) didn't match",
        "  ImageLocality x 2: 60 and -, +120 points",
    ]


def test_amounts_are_exact_quantities() -> None:
    assert [quantity("cpu", amount) for amount in (0, 250, 2000)] == ["0", "250m", "2"]
    assert [quantity("memory", amount) for amount in (0, 1000, 3 * 2**30)] == ["0", "1000", "3Gi"]
    assert quantity("example.com/gpu", 1024) == "1024"


def test_amounts_for_people_are_rounded_to_the_safe_side() -> None:
    assert rounded("memory", 10 * 2**20 + 1, up=True) == 11 * 2**20
    assert rounded("memory", 11 * 2**20 - 1, up=False) == 10 * 2**20
    assert rounded("memory", 1000, up=True) == 1000
    assert rounded("cpu", 12345678901, up=True) == 12345678901
