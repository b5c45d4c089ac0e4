"""SchedulingPolicies: the schema is enforced with words that name the field, status is apart, generations count."""

from __future__ import annotations

from typing import Any

import pytest

from contract.asking import refused
from control_plane.client import POLICIES, Client, Object

MINE = f"{POLICIES}/mine"
APPLY = "application/apply-patch+yaml"

pytestmark = pytest.mark.usefixtures("policies")


def policy(**spec: Any) -> Object:
    return {
        "apiVersion": "berth.dev/v1alpha1",
        "kind": "SchedulingPolicy",
        "metadata": {"name": "mine"},
        "spec": {"schedulerName": "mine", **spec},
    }


async def test_only_a_change_of_the_spec_is_a_new_generation(api: Client) -> None:
    made = await api.create(policy())
    assert made["metadata"]["generation"] == 1
    assert (await api.patch(MINE, {"metadata": {"labels": {"a": "1"}}}))["metadata"]["generation"] == 1
    status = {"status": {"observedGeneration": 1}}
    assert (await api.patch(f"{MINE}/status", status))["metadata"]["generation"] == 1
    assert (await api.patch(MINE, {"spec": {"tieBreak": "First"}}))["metadata"]["generation"] == 2


async def test_a_status_is_not_made_with_the_object_and_not_changed_with_the_spec(api: Client) -> None:
    made = await api.create({**policy(), "status": {"observedGeneration": 7}})
    assert "status" not in made
    await api.patch(f"{MINE}/status", {"status": {"observedGeneration": 1}, "spec": {"schedulerName": "other"}})
    after = await api.patch(MINE, {"status": {"observedGeneration": 9}})
    assert (after["status"]["observedGeneration"], after["spec"]["schedulerName"]) == (1, "mine")


async def test_a_wrong_value_is_refused_by_field_and_by_what_is_allowed(api: Client) -> None:
    said = await refused(api, 422, "POST", POLICIES, policy(tieBreak="Dice"))
    assert 'spec.tieBreak: Unsupported value: "Dice": supported values: ' in said


async def test_a_wrong_type_is_refused_by_field(api: Client) -> None:
    said = await refused(api, 422, "POST", POLICIES, policy(priorities=[{"name": "NodeResourcesFit", "weight": "x"}]))
    assert "spec.priorities[0].weight: Invalid value: " in said
    assert "must be of type integer" in said


async def test_what_is_missing_is_named_and_rules_wait_for_it(api: Client) -> None:
    body = policy()
    del body["spec"]["schedulerName"]
    said = await refused(api, 422, "POST", POLICIES, body)
    assert said == (
        'SchedulingPolicy.berth.dev "mine" is invalid: [spec.schedulerName: Required value, <nil>: Invalid value: '
        "null: some validation rules were not checked because the object was invalid; "
        "correct the existing errors to complete validation]"
    )


async def test_a_rule_that_does_not_hold_is_told_where_it_says(api: Client) -> None:
    entry = {"name": "rule", "expression": "true", "plugin": "NodeName"}
    said = await refused(api, 422, "POST", POLICIES, policy(base="mine", predicates=[entry]))
    assert said == (
        'SchedulingPolicy.berth.dev "mine" is invalid: [spec.base: Invalid value: a policy cannot be based on itself, '
        "spec.predicates[0].plugin: Invalid value: plugin does not go with an expression, leave one of the two out]"
    )


async def test_unknown_fields_are_dropped_unless_the_client_is_strict(api: Client) -> None:
    strict = {"fieldValidation": "Strict"}
    said = await refused(api, 400, "POST", POLICIES, policy(colour="red"), parameters=strict)
    assert said == (
        'SchedulingPolicy in version "v1alpha1" cannot be handled as a SchedulingPolicy: '
        'strict decoding error: unknown field "spec.colour"'
    )
    made = await api.create(policy(colour="red"))
    assert "colour" not in made["spec"]
    merge: dict[str, Any] = {"parameters": strict, "content_type": "application/merge-patch+json"}
    said = await refused(api, 422, "PATCH", MINE, {"spec": {"colour": "red"}}, **merge)
    assert said.startswith(' "" is invalid: patch: Invalid value: ')
    assert 'strict decoding error: unknown field "spec.colour"' in said
    await api.request("PATCH", MINE, {"spec": {"colour": None}}, **merge)


async def test_a_strategic_patch_is_not_for_custom_resources(api: Client) -> None:
    await api.create(policy())
    content_type = "application/strategic-merge-patch+json"
    said = await refused(api, 415, "PATCH", MINE, {"spec": {}}, content_type=content_type)
    assert "the body of the request was in an unknown format - accepted media types include:" in said


async def test_server_side_apply_makes_and_changes(api: Client) -> None:
    query = {"fieldManager": "test", "force": "true"}
    await api.request("PATCH", MINE, policy(tieBreak="First"), parameters=query, content_type=APPLY)
    after = await api.request("PATCH", MINE, policy(tieBreak="Random"), parameters=query, content_type=APPLY)
    assert after["spec"] == {**(await api.get(MINE))["spec"], "tieBreak": "Random"}
    assert after["metadata"]["generation"] == 2


async def test_server_side_apply_needs_a_manager(api: Client) -> None:
    said = await refused(api, 422, "PATCH", MINE, policy(), content_type=APPLY)
    assert "fieldManager: Required value: is required for apply patch" in said


async def test_its_table_has_the_printer_columns(api: Client) -> None:
    await api.create(policy())
    condition = {
        "type": "Active",
        "status": "True",
        "reason": "InForce",
        "message": "",
        "lastTransitionTime": "2026-01-01T00:00:00Z",
    }
    await api.patch(f"{MINE}/status", {"status": {"activeGeneration": 1, "conditions": [condition]}})
    headers = {"Accept": "application/json;as=Table;v=v1;g=meta.k8s.io"}
    async with api.session.get(POLICIES, headers=headers) as answer:
        table = await answer.json()
    shown = {
        column["name"]: cell for column, cell in zip(table["columnDefinitions"], table["rows"][0]["cells"], strict=True)
    }
    assert (shown["Name"], shown["Scheduler"], shown["Active"], shown["In force"]) == ("mine", "mine", "True", 1)
    assert shown["Accepted"] is None


async def test_it_is_discovered(api: Client) -> None:
    found = await api.get("/apis/berth.dev/v1alpha1")
    entries = {entry["name"]: entry for entry in found["resources"]}
    assert set(entries) == {"schedulingpolicies", "schedulingpolicies/status"}
    main = entries["schedulingpolicies"]
    assert (main["kind"], main["namespaced"], main["shortNames"]) == ("SchedulingPolicy", False, ["sp"])
    assert set(main["verbs"]) == {
        "delete",
        "deletecollection",
        "get",
        "list",
        "patch",
        "create",
        "update",
        "watch",
    }
    groups = await api.get("/apis")
    group = next(one for one in groups["groups"] if one["name"] == "berth.dev")
    assert group["preferredVersion"] == {"groupVersion": "berth.dev/v1alpha1", "version": "v1alpha1"}
