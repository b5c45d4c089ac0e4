"""Patches on plain bodies: JSON, merge, strategic merge and apply."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from berth.sim.errors import StatusError
from berth.sim.store.patching import apply, built_in_keys, json_patch, merge, strategic

JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 9) | st.text("ab", max_size=2),
    lambda children: st.lists(children, max_size=3) | st.dictionaries(st.text("abc", max_size=1), children, max_size=3),
    max_leaves=12,
)
OBJECTS = st.dictionaries(st.text("abc", max_size=1), JSON, max_size=3)


def test_a_merge_patch_sets_removes_and_descends() -> None:
    body = {"a": {"x": 1, "y": 2}, "b": [1, 2], "c": 3}
    assert merge(body, {"a": {"x": None, "z": 3}, "b": [9], "d": {"e": None}}) == {
        "a": {"y": 2, "z": 3},
        "b": [9],
        "c": 3,
        "d": {},
    }


@given(body=OBJECTS, patch=OBJECTS)
def test_patches_never_change_what_they_are_given(body: dict[str, Any], patch: dict[str, Any]) -> None:
    before = copy.deepcopy((body, patch))
    merge(body, patch)
    strategic(body, patch)
    apply(body, patch, body, built_in_keys)
    assert (body, patch) == before


@given(body=OBJECTS, patch=OBJECTS)
def test_a_merge_patch_applied_twice_is_as_applied_once(body: dict[str, Any], patch: dict[str, Any]) -> None:
    once = merge(body, patch)
    assert merge(once, patch) == once


@pytest.mark.parametrize(
    ("operation", "result"),
    [
        ({"op": "add", "path": "/a/-", "value": 3}, {"a": [1, 2, 3], "b": {"x/y": 1}}),
        ({"op": "add", "path": "/a/0", "value": 3}, {"a": [3, 1, 2], "b": {"x/y": 1}}),
        ({"op": "replace", "path": "/b/x~1y", "value": 2}, {"a": [1, 2], "b": {"x/y": 2}}),
        ({"op": "remove", "path": "/a/1"}, {"a": [1], "b": {"x/y": 1}}),
        ({"op": "move", "from": "/a", "path": "/b/a"}, {"b": {"x/y": 1, "a": [1, 2]}}),
        ({"op": "copy", "from": "/a/0", "path": "/b/a"}, {"a": [1, 2], "b": {"x/y": 1, "a": 1}}),
        ({"op": "test", "path": "/a", "value": [1, 2]}, {"a": [1, 2], "b": {"x/y": 1}}),
    ],
)
def test_a_json_patch_operates(operation: dict[str, Any], result: dict[str, Any]) -> None:
    body = {"a": [1, 2], "b": {"x/y": 1}}
    assert json_patch(body, [operation]) == result
    assert body == {"a": [1, 2], "b": {"x/y": 1}}


@pytest.mark.parametrize(
    "operation",
    [
        {"op": "test", "path": "/a", "value": 9},
        {"op": "remove", "path": "/z"},
        {"op": "replace", "path": "/z/y", "value": 1},
        {"op": "add", "path": "/a/9", "value": 1},
        {"op": "add", "path": "no", "value": 1},
        {"op": "add", "path": 5, "value": 1},
        {"op": "zap", "path": "/a"},
        {"op": "add", "path": "/a/0"},
    ],
)
def test_a_json_patch_that_cannot_be_carried_out_is_refused(operation: dict[str, Any]) -> None:
    with pytest.raises(StatusError) as refused:
        json_patch({"a": [1]}, [operation])
    assert refused.value.code == 422
    assert refused.value.message == "the server rejected our request due to an error in our request"


def test_a_json_patch_is_a_list_of_operations() -> None:
    with pytest.raises(StatusError, match="error decoding patch") as refused:
        json_patch({}, {"op": "add"})
    assert refused.value.code == 400


# -- strategic merge ---------------------------------------------------------------------------------------------------


def test_containers_are_merged_by_name_and_tolerations_replaced() -> None:
    spec = {"containers": [{"name": "a", "image": "1"}, {"name": "b", "image": "1"}], "tolerations": [{"key": "x"}]}
    patch = {"containers": [{"name": "b", "image": "2"}], "tolerations": [{"key": "y"}]}
    assert strategic({"spec": spec}, {"spec": patch}) == {
        "spec": {
            "containers": [{"name": "a", "image": "1"}, {"name": "b", "image": "2"}],
            "tolerations": [{"key": "y"}],
        }
    }


def test_a_condition_that_is_new_comes_first_as_in_kubernetes() -> None:
    body = {"conditions": [{"type": "PodScheduled", "status": "False"}]}
    after = strategic(body, {"conditions": [{"type": "Ready", "status": "False"}]})
    assert [condition["type"] for condition in after["conditions"]] == ["Ready", "PodScheduled"]
    again = strategic(after, {"conditions": [{"type": "PodScheduled", "status": "True"}]})
    assert again["conditions"][1] == {"type": "PodScheduled", "status": "True"}


def test_directives_delete_replace_and_order() -> None:
    body = {"containers": [{"name": "a"}, {"name": "b"}, {"name": "c"}], "finalizers": ["x/a", "x/b"]}
    assert strategic(body, {"containers": [{"name": "b", "$patch": "delete"}]})["containers"] == [
        {"name": "a"},
        {"name": "c"},
    ]
    assert strategic(body, {"containers": [{"$patch": "replace"}, {"name": "z"}]})["containers"] == [{"name": "z"}]
    order = [{"name": "c"}, {"name": "a"}, {"name": "b"}]
    assert strategic(body, {"$setElementOrder/containers": order})["containers"] == order
    assert strategic(body, {"$deleteFromPrimitiveList/finalizers": ["x/a"]})["finalizers"] == ["x/b"]
    assert set(strategic(body, {"finalizers": ["x/c"]})["finalizers"]) == {"x/a", "x/b", "x/c"}
    assert strategic({"a": {"x": 1}}, {"a": {"$patch": "replace", "y": 2}}) == {"a": {"y": 2}}
    strategy = {"strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1}}}
    retained = {"strategy": {"$retainKeys": ["type"], "type": "Recreate"}}
    assert strategic(strategy, retained) == {"strategy": {"type": "Recreate"}}


def test_ports_are_told_apart_by_number_and_protocol() -> None:
    body = {"ports": [{"containerPort": 53, "protocol": "TCP"}, {"containerPort": 53, "protocol": "UDP"}]}
    after = strategic(body, {"ports": [{"containerPort": 53, "protocol": "UDP", "name": "dns"}]})
    assert [port.get("name") for port in after["ports"]] == [None, "dns"]


# -- apply -------------------------------------------------------------------------------------------------------------


def test_apply_removes_what_its_manager_no_longer_sends() -> None:
    first = {"spec": {"a": 1, "containers": [{"name": "x"}, {"name": "y", "image": "1"}]}}
    body = apply({"spec": {"other": 5, "containers": [{"name": "z"}]}}, first, None, built_in_keys)
    second = {"spec": {"containers": [{"name": "y"}]}}
    after = apply(body, second, first, built_in_keys)
    assert after["spec"]["other"] == 5
    assert "a" not in after["spec"]
    assert sorted(map(str, after["spec"]["containers"])) == ["{'name': 'y'}", "{'name': 'z'}"]
