"""Namespaces, services, owners of replicas and disruption budgets."""

from __future__ import annotations

from typing import Any

import pytest

from berth.model import (
    InvalidObject,
    parse_disruption_budget,
    parse_namespace,
    parse_replica_set,
    parse_replication_controller,
    parse_service,
    parse_stateful_set,
)
from berth.model.selectors import selector_from_labels
from support.builders import make_object


def test_a_namespace_has_labels() -> None:
    assert parse_namespace(make_object("Namespace", "a", metadata={"labels": {"team": "x"}})).labels == {"team": "x"}


def test_a_service_without_a_selector_selects_nothing() -> None:
    def service(**spec: Any) -> Any:
        return parse_service(make_object("Service", "s", namespace="default", spec=spec)).selector

    assert service(selector={"app": "web"}) == {"app": "web"}
    assert service() == service(selector=None) == {}


@pytest.mark.parametrize(("kind", "parse"), [("ReplicaSet", parse_replica_set), ("StatefulSet", parse_stateful_set)])
def test_owners_select_pods_by_labels(kind: str, parse: Any) -> None:
    owner = parse(make_object(kind, "o", namespace="default", spec={"selector": {"matchLabels": {"app": "web"}}}))
    assert (owner.kind, owner.namespace, owner.name) == (kind, "default", "o")
    assert owner.selector == selector_from_labels({"app": "web"})
    assert parse(make_object(kind, "o", namespace="default")).selector is None


def test_a_replication_controller_has_a_plain_map_of_labels() -> None:
    body = make_object("ReplicationController", "o", namespace="default", spec={"selector": {"app": "web"}})
    assert parse_replication_controller(body).selector == selector_from_labels({"app": "web"})
    body["spec"] = {"selector": {}}
    assert parse_replication_controller(body).selector is None


def test_a_disruption_budget_is_read() -> None:
    body = make_object("PodDisruptionBudget", "b", namespace="default", spec={"selector": {"matchLabels": {"a": "b"}}})
    assert parse_disruption_budget(body).disruptions_allowed == 0
    body["status"] = {"disruptionsAllowed": 2, "disruptedPods": {"p1": "2026-01-01T00:00:00Z"}}
    budget = parse_disruption_budget(body)
    assert (budget.disruptions_allowed, budget.disrupted_pods) == (2, frozenset({"p1"}))
    assert budget.selector == selector_from_labels({"a": "b"})


@pytest.mark.parametrize(
    ("parse", "body", "path"),
    [
        (parse_namespace, {"metadata": {"name": "a"}}, "metadata.uid"),
        (parse_service, make_object("Service", "s"), "metadata.namespace"),
        (parse_service, make_object("Service", "s", namespace="a", spec={"selector": "x"}), "spec.selector"),
        (
            parse_replica_set,
            make_object("ReplicaSet", "s", namespace="a", spec={"selector": {"matchLabels": {"a": 1}}}),
            "spec.selector.matchLabels.a",
        ),
        (
            parse_disruption_budget,
            make_object("PodDisruptionBudget", "b", namespace="a", status={"disruptionsAllowed": "1"}),
            "status.disruptionsAllowed",
        ),
    ],
)
def test_a_field_that_makes_no_sense_is_named(parse: Any, body: dict[str, Any], path: str) -> None:
    with pytest.raises(InvalidObject) as refused:
        parse(body)
    assert refused.value.field == path
