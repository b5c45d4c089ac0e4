"""Nodes: every field that scheduling looks at."""

from __future__ import annotations

from typing import Any

import pytest

from berth.model import InvalidObject, Node, parse_node
from support.builders import make_node

Gi = 1024**3


def test_a_node_with_nothing_but_a_name_offers_nothing() -> None:
    assert parse_node({"metadata": {"name": "n", "uid": "u"}}) == Node("n", "u", "", {}, {}, (), False, {}, {}, {}, ())


def test_what_a_node_offers_is_in_the_units_of_the_scheduler() -> None:
    extended: dict[str, str | int] = {
        "example.com/gpu": 2,
        "hugepages-2Mi": "4Mi",
        "ephemeral-storage": "10Gi",
        "unknown": "5",
    }
    node = parse_node(make_node("n", cpu="3920m", memory="1.5Gi", pods=30, extended=extended))
    assert node.allocatable == {
        "cpu": 3920,
        "memory": 3 * Gi // 2,
        "pods": 30,
        "example.com/gpu": 2,
        "hugepages-2Mi": 4 * 1024**2,
        "ephemeral-storage": 10 * Gi,
    }


def test_plain_fields_are_read() -> None:
    body = make_node("n", labels={"zone": "z1"}, annotations={"a": "b"}, unschedulable=True, declared_features=["F"])
    node = parse_node(body)
    assert (node.name, node.uid, node.labels, node.annotations) == ("n", "node-n", {"zone": "z1"}, {"a": "b"})
    assert (node.unschedulable, node.declared_features, node.conditions) == (True, ("F",), {"Ready": "True"})


def test_an_image_has_its_size_under_every_name_and_the_first_one_counts() -> None:
    body = make_node("n")
    body["status"]["images"] = [
        {"names": ["a:v1", "a@sha256:0"], "sizeBytes": 5},
        {"names": ["a:v1", "b:v1"], "sizeBytes": 7},
        {"names": None, "sizeBytes": 9},
    ]
    assert parse_node(body).images == {"a:v1": 5, "a@sha256:0": 5, "b:v1": 7}


def test_what_the_api_server_does_not_look_at_does_not_cost_the_node() -> None:
    body = make_node("n", images={"a:v1": -5})
    body["status"]["conditions"].append({"status": "True"})
    node = parse_node(body)
    assert (node.images, node.conditions["Ready"]) == ({"a:v1": 0}, "True")


@pytest.mark.parametrize(
    ("section", "field", "value", "path"),
    [
        ("metadata", "name", "", "metadata.name"),
        ("metadata", "uid", None, "metadata.uid"),
        ("metadata", "annotations", {"a": 1}, "metadata.annotations.a"),
        ("spec", "unschedulable", "true", "spec.unschedulable"),
        ("spec", "taints", {}, "spec.taints"),
        ("status", "allocatable", {"cpu": "many"}, "status.allocatable.cpu"),
        ("status", "allocatable", {"pods": "-1"}, "status.allocatable.pods"),
        ("status", "images", [{"names": ["a"], "sizeBytes": "5"}], "status.images[0].sizeBytes"),
        ("status", "images", [{"names": [1]}], "status.images[0].names[0]"),
        ("status", "conditions", [{"type": 1}], "status.conditions[0].type"),
        ("status", "declaredFeatures", "F", "status.declaredFeatures"),
    ],
)
def test_a_field_that_makes_no_sense_is_named(section: str, field: str, value: Any, path: str) -> None:
    body = make_node("n")
    body[section][field] = value
    with pytest.raises(InvalidObject) as refused:
        parse_node(body)
    assert (refused.value.kind, refused.value.field) == ("Node", path)
