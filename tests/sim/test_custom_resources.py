"""Custom resources: schemas enforced in the real server's words, versions, status, and the end of a definition."""

from __future__ import annotations

from typing import Any

import pytest

from berth.sim.custom_resources.schema import NOT_CHECKED, Schema
from berth.sim.errors import StatusError
from berth.sim.resources import CRDS, Resource
from sim.world import World, definition, names, told


@pytest.fixture
def policies(world: World) -> Resource:
    return world.add_policy_crd()


def policy(spec: Any, name: str = "p") -> dict[str, Any]:
    return {"metadata": {"name": name}, "spec": spec}


def test_a_definition_is_established_at_once(world: World, policies: Resource) -> None:
    stored = world.store.get(CRDS, "", "schedulingpolicies.berth.dev")
    assert {c["type"]: c["status"] for c in stored["status"]["conditions"]} == {
        "NamesAccepted": "True",
        "Established": "True",
    }
    assert (policies.kind, policies.short_names, policies.subresources) == ("SchedulingPolicy", ("sp",), ("status",))
    assert policies in world.store.resources()
    assert world.store.definition(policies) is stored


def test_unknown_fields_are_dropped_and_defaults_filled_in(world: World, policies: Resource) -> None:
    predicates = [{"name": "X", "args": {"a": {"b": 1}}, "zz": 1}]
    body = {**policy({"schedulerName": "a", "zork": 1, "predicates": predicates}), "status": {"observedGeneration": 3}}
    assert world.store.unknown_fields(policies, body) == ["spec.predicates[0].zz", "spec.zork"]
    made = world.store.create(policies, body)
    assert made["spec"] == {
        "schedulerName": "a",
        "mode": "Active",
        "base": "KubernetesDefault",
        "predicates": [{"name": "X", "args": {"a": {"b": 1}}, "enabled": True}],
    }
    assert "status" not in made


SPEC = "spec.schedulerName"
WEIGHT = "spec.priorities[0].weight"


@pytest.mark.parametrize(
    ("spec", "words"),
    [
        ({}, f"{SPEC}: Required value"),
        (None, "spec: Required value"),
        ([], 'spec: Invalid value: "array": spec in body must be of type object: "array"'),
        ({"schedulerName": None}, f"{SPEC}: Required value"),
        ({"schedulerName": ""}, f'{SPEC}: Invalid value: "": {SPEC} in body should be at least 1 chars long'),
        ({"schedulerName": 5}, f'{SPEC}: Invalid value: "integer": {SPEC} in body must be of type string: "integer"'),
        ({"schedulerName": "x" * 254}, f"{SPEC}: Too long: may not be more than 253 bytes"),
        (
            {"schedulerName": "a", "tieBreak": "x"},
            'spec.tieBreak: Unsupported value: "x": supported values: "Random", "RoundRobin", "First"',
        ),
        ({"schedulerName": "a", "predicates": [{}]}, "spec.predicates[0].name: Required value"),
        (
            {"schedulerName": "a", "predicates": [{"name": "a"}, {"name": "a"}]},
            'spec.predicates[1]: Duplicate value: {"name":"a"}',
        ),
        (
            {"schedulerName": "a", "priorities": [{"name": "a", "weight": 0}]},
            f"{WEIGHT}: Invalid value: 0: {WEIGHT} in body should be greater than or equal to 1",
        ),
        (
            {"schedulerName": "a", "priorities": [{"name": "a", "weight": 2147483648}]},
            f"{WEIGHT}: Invalid value: 2147483648: {WEIGHT} in body should be less than or equal to 2147483647",
        ),
        (
            {"schedulerName": "a", "priorities": [{"name": "a", "weight": 1.5}]},
            f'[{WEIGHT}: Invalid value: "float64": {WEIGHT} in body must be of type int64: "float64", '
            f'<nil>: Invalid value: "": Checked value must be of type integer with format int64 in {WEIGHT}]',
        ),
        (
            {"schedulerName": "a", "priorities": [{"name": f"a{number}"} for number in range(65)]},
            "spec.priorities: Too many: 65: must have at most 64 items",
        ),
        (
            {"schedulerName": "a", "priorities": [5]},
            '[spec.priorities[0]: Invalid value: "integer": spec.priorities[0] in body must be of type object: '
            '"integer", '
            "spec.priorities[0]: Invalid value: 5: must be an object for an array of list-type map]",
        ),
        (
            {"schedulerName": "", "tieBreak": "x"},
            f'[{SPEC}: Invalid value: "": {SPEC} in body should be at least 1 chars long, '
            'spec.tieBreak: Unsupported value: "x": supported values: "Random", "RoundRobin", "First"]',
        ),
    ],
)
def test_a_body_that_breaks_the_schema_is_refused(world: World, policies: Resource, spec: Any, words: str) -> None:
    with pytest.raises(StatusError) as refused:
        world.store.create(policies, policy(spec))
    assert refused.value.code == 422
    judged = not any(
        word in words for word in ("Required", "must be of type", "Too ", "Unsupported")
    )  # by the schema's rules, too
    listed = words if judged else f"[{words.removeprefix('[').removesuffix(']')}, {NOT_CHECKED}]"
    assert refused.value.message == f'SchedulingPolicy.berth.dev "p" is invalid: {listed}'


def test_status_and_spec_are_written_apart(world: World, policies: Resource) -> None:
    made = world.store.create(policies, policy({"schedulerName": "a"}))
    with pytest.raises(StatusError, match=r"metadata\.resourceVersion: Invalid value: 0: must be specified"):
        world.store.replace(policies, "", "p", policy({"schedulerName": "b"}))
    changed = {**made, "spec": {"schedulerName": "b"}, "status": {"observedGeneration": 9}}
    after = world.store.replace(policies, "", "p", changed)
    assert (after["metadata"]["generation"], "status" in after) == (2, False)
    patch = {
        "spec": {"schedulerName": "c"},
        "metadata": {"labels": {"x": "y"}},
        "status": {"observedGeneration": 2, "z": 1},
    }
    after, _ = world.store.patch(policies, "", "p", patch, "merge", subresource="status")
    assert after["spec"]["schedulerName"] == "b"
    assert after["status"] == {"observedGeneration": 2}
    assert "labels" not in after["metadata"]
    assert after["metadata"]["generation"] == 2


def test_a_status_is_checked_with_paths_below_itself_in_the_words(world: World, policies: Resource) -> None:
    world.store.create(policies, policy({"schedulerName": "a"}))
    patch = {"status": {"observedGeneration": -1}}
    with pytest.raises(StatusError) as refused:
        world.store.patch(policies, "", "p", patch, "merge", subresource="status")
    assert refused.value.message.endswith(
        "status.observedGeneration: Invalid value: -1: observedGeneration in body should be greater than or equal to 0"
    )


def test_a_strategic_patch_is_not_for_custom_resources(world: World, policies: Resource) -> None:
    world.store.create(policies, policy({"schedulerName": "a"}))
    with pytest.raises(StatusError, match="accepted media types include") as refused:
        world.store.patch(policies, "", "p", {}, "strategic")
    assert refused.value.code == 415


def test_apply_merges_lists_by_the_keys_of_the_schema(world: World, policies: Resource) -> None:
    def applied(manager: str, *priorities: dict[str, Any]) -> list[dict[str, Any]]:
        body = policy({"schedulerName": "a", "priorities": list(priorities)})
        after, _ = world.store.patch(policies, "", "p", body, "apply", field_manager=manager)
        return list(after["spec"]["priorities"])

    applied("one", {"name": "A", "weight": 1})
    both = applied("two", {"name": "B", "weight": 2})
    assert {entry["name"]: entry["weight"] for entry in both} == {"A": 1, "B": 2}
    assert [entry["name"] for entry in applied("one", {"name": "C"})].count("A") == 0


def test_only_name_and_selectable_fields_are_offered(world: World) -> None:
    things = world.add_crd(definition({"size": {"type": "string"}}, selectableFields=[{"jsonPath": ".spec.size"}]))
    for size in ("small", "large"):
        world.store.create(things, {"metadata": {"name": size}, "spec": {"size": size}})
    assert names(world.store.list(things, field_selector="spec.size=large").items) == ["large"]
    assert names(world.store.list(things, field_selector="metadata.name=small").items) == ["small"]
    with pytest.raises(StatusError, match=r"field label not supported: spec\.color"):
        world.store.list(things, field_selector="spec.color=red")


def test_versions_share_their_objects(world: World) -> None:
    body = definition({"size": {"type": "string"}}, namespaced=True)
    first = body["spec"]["versions"][0]
    body["spec"]["versions"].append({**first, "name": "v2", "storage": False})
    v1 = world.add_crd(body)
    v2 = world.store.find("example.com", "v2", "things")
    assert v2 is not None
    world.store.create(v2, {"metadata": {"name": "t"}, "spec": {"size": "x"}}, namespace="default")
    assert world.store.get(v1, "default", "t")["apiVersion"] == "example.com/v1"
    assert world.store.get(v2, "default", "t")["apiVersion"] == "example.com/v2"


def test_a_definition_takes_its_objects_with_it(world: World, policies: Resource) -> None:
    world.store.create(policies, policy({"schedulerName": "a"}))
    watch = world.store.watch(policies, resource_version=str(world.store.revision))
    world.store.delete(CRDS, "", "schedulingpolicies.berth.dev")
    assert told(watch) == [("DELETED", "p")]
    assert watch.closed
    assert world.store.find("berth.dev", "v1alpha1", "schedulingpolicies") is None
    assert world.store.list(world.add_policy_crd()).items == []


def test_a_changed_definition_takes_effect(world: World) -> None:
    body = definition({"size": {"type": "string"}})
    world.add_crd(body)
    changed = definition({"size": {"type": "integer"}})
    stored = world.store.get(CRDS, "", "things.example.com")
    changed["metadata"]["resourceVersion"] = stored["metadata"]["resourceVersion"]
    after = world.store.replace(CRDS, "", "things.example.com", changed)
    assert after["metadata"]["generation"] == 2
    things = world.store.find("example.com", "v1", "things")
    assert things is not None
    with pytest.raises(StatusError, match='must be of type integer: "string"'):
        world.store.create(things, {"metadata": {"name": "t"}, "spec": {"size": "x"}})


def test_a_definition_that_is_wrong_is_refused(world: World) -> None:
    body = definition({})
    body["metadata"]["name"] = "foo.bar"
    with pytest.raises(StatusError, match=r"must be spec\.names\.plural") as refused:
        world.store.create(CRDS, body)
    assert refused.value.code == 422
    with pytest.raises(StatusError, match=r"spec\.group: Required value"):
        world.store.create(CRDS, {"metadata": {"name": "foo.bar"}, "spec": {}})


@pytest.mark.parametrize("keyword", ["anyOf", "not"])
def test_rules_that_are_not_enforced_are_refused(world: World, keyword: str) -> None:
    body = definition({"size": {"type": "string", keyword: [{"rule": "self != ''"}]}})
    with pytest.raises(StatusError) as refused:
        world.store.create(CRDS, body)
    assert refused.value.code == 501
    assert f"does not enforce {keyword} (openAPIV3Schema.properties[spec].properties[size].{keyword})" in (
        refused.value.message
    )


def test_a_rule_that_does_not_hold_is_told_where_it_says(world: World) -> None:
    both = {"rule": "self.low <= self.high", "fieldPath": ".low", "message": "low cannot be more than high"}
    number = {"type": "number", "x-kubernetes-validations": [{"rule": "self >= 0.1"}]}
    bounds = {"type": "object", "properties": {"low": number, "high": number}, "x-kubernetes-validations": [both]}
    world.store.create(CRDS, definition({"bounds": bounds}))
    things = world.store.find("example.com", "v1", "things")
    assert things is not None
    world.store.create(things, {"metadata": {"name": "good"}, "spec": {"bounds": {"low": 1, "high": 1.5}}})
    with pytest.raises(StatusError) as refused:
        world.store.create(things, {"metadata": {"name": "bad"}, "spec": {"bounds": {"low": 1, "high": 0}}})
    assert refused.value.code == 422
    assert "spec.bounds.low: Invalid value: low cannot be more than high" in refused.value.message
    assert "spec.bounds.high: Invalid value: 0: failed rule: self >= 0.1" in refused.value.message


@pytest.mark.parametrize(
    ("rule", "words"),
    [
        ({"rule": "self == oldSelf"}, "knows no oldSelf"),
        ({"rule": "true", "messageExpression": "'x'"}, "does not enforce"),
        ({"rule": "self +"}, r"x-kubernetes-validations\[0\]\.rule"),
    ],
)
def test_a_rule_that_cannot_be_enforced_is_refused(world: World, rule: dict[str, str], words: str) -> None:
    body = definition({"size": {"type": "string", "x-kubernetes-validations": [rule]}})
    with pytest.raises(StatusError, match=words) as refused:
        world.store.create(CRDS, body)
    assert refused.value.code == 501


# -- what our own kind does not use ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("schema", "value", "problem"),
    [
        ({"type": "string", "pattern": "^a$"}, "b", "Invalid value: \"b\": f in body should match '^a$'"),
        ({"type": "array", "minItems": 1}, [], "Invalid value: 0: f in body should have at least 1 items"),
        ({"type": "array", "x-kubernetes-list-type": "set"}, ["a", "a"], 'Duplicate value: "a"'),
        (
            {"type": "object", "maxProperties": 0, "additionalProperties": True},
            {"a": 1},
            "Too many: 1: must have at most 0",
        ),
        ({"type": "object", "minProperties": 1}, {}, "Invalid value: 0: f in body should have at least 1 properties"),
        ({"type": "number", "minimum": 1, "exclusiveMinimum": True}, 1, "f in body should be greater than 1"),
        ({"type": "integer", "multipleOf": 2}, 3, "f in body should be a multiple of 2"),
        ({"x-kubernetes-int-or-string": True}, True, 'must be of type integer,string: "boolean"'),
        ({"type": "string", "format": "date-time"}, "x", 'f in body must be of type date-time: "x"'),
        (
            {"type": "object", "additionalProperties": {"type": "string"}},
            {"a": 1},
            "f.a in body must be of type string",
        ),
    ],
)
def test_other_keywords_are_enforced(schema: dict[str, Any], value: Any, problem: str) -> None:
    checked = Schema({"type": "object", "properties": {"f": schema}})
    assert any(problem in cause.problem for cause in checked.problems({"f": value}))


@pytest.mark.parametrize(
    ("schema", "value"),
    [
        ({"type": "string", "nullable": True}, None),
        ({"x-kubernetes-int-or-string": True}, "5%"),
        ({"type": "number"}, 1),
        ({"type": "integer"}, 2.0),
        ({"type": "string", "format": "date-time"}, "2026-01-01T00:00:00.000001Z"),
        ({"type": "object", "x-kubernetes-preserve-unknown-fields": True}, {"a": [{"b": None}]}),
    ],
)
def test_what_fits_is_kept_as_it_is(schema: dict[str, Any], value: Any) -> None:
    checked = Schema({"type": "object", "properties": {"f": schema}})
    assert checked.complete({"f": value}) == {"f": value}
    assert checked.problems({"f": value}) == []


def test_defaults_are_filled_in_below_defaults() -> None:
    inner = {"type": "object", "default": {}, "properties": {"b": {"type": "integer", "default": 1}}}
    schema = Schema({"type": "object", "properties": {"a": inner}})
    assert schema.complete({}) == {"a": {"b": 1}}
    assert schema.complete({"a": {"b": None}}) == {"a": {"b": 1}}
