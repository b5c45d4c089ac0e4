"""Nodes and the kinds that are only looked up."""

import copy
from collections.abc import Callable
from typing import Any

import pytest

from berth.engine.events import Event
from berth.model import KINDS, parse_node
from berth.scheduler.cache.changes import EVENT_OF_KIND
from scheduler.event_cache import EventCache as Cache
from support.builders import make_node, make_pod

Body = dict[str, Any]
NO_NEWS: frozenset[Event] = frozenset()


def namespace(labels: dict[str, str]) -> Body:
    return {"kind": "Namespace", "metadata": {"name": "shop", "uid": "ns", "labels": labels}}


def test_a_new_node_is_news() -> None:
    cache = Cache()
    assert cache.observe("Node", make_node("a")) == {Event.NODE_ADDED}
    assert cache.state.table.node("a") is not None


@pytest.mark.parametrize(
    ("change", "news"),
    [
        (lambda node: node["status"]["allocatable"].update(cpu="8"), {Event.NODE_ALLOCATABLE}),
        (lambda node: node["status"]["allocatable"].update({"example.com/gpu": "1"}), {Event.NODE_ALLOCATABLE}),
        (lambda node: node["status"]["allocatable"].update(cpu="1"), set()),
        (lambda node: node["status"]["allocatable"].pop("memory"), {Event.NODE_ALLOCATABLE}),
        (lambda node: node["metadata"].setdefault("labels", {}).update(zone="x"), {Event.NODE_LABELS}),
        (lambda node: node["spec"].update(unschedulable=True), {Event.NODE_TAINTS}),
        (lambda node: node["spec"].update(taints=[{"key": "k", "effect": "NoSchedule"}]), {Event.NODE_TAINTS}),
        (lambda node: node["metadata"].setdefault("annotations", {}).update(note="x"), {Event.NODE_OTHER}),
        (lambda node: node["status"].update(conditions=[{"type": "Ready", "status": "False"}]), {Event.NODE_OTHER}),
        (lambda node: node["metadata"].update(resourceVersion="7"), set()),
    ],
)
def test_an_update_of_a_node_is_news_of_what_changed(change: Callable[[Body], object], news: set[Event]) -> None:
    cache = Cache()
    node = make_node("a", cpu="4")
    node.setdefault("spec", {})
    cache.observe("Node", node)
    changed = copy.deepcopy(node)
    change(changed)
    assert cache.observe("Node", changed) == news


@pytest.mark.parametrize(
    "changed",
    [
        make_node("a", labels={"zone": "x"}),
        make_node("a", annotations={"note": "x"}),
        make_node("a", taints=[("k", "v", "NoSchedule")]),
        make_node("a", unschedulable=True),
        make_node("a", cpu="1"),
        make_node("a", images={"registry.example/app:v1": 1}),
        make_node("a", ready=False),
        make_node("a", declared_features=["Feature"]),
    ],
    ids=[
        "labels",
        "annotations",
        "taints",
        "unschedulable",
        "allocatable",
        "images",
        "conditions",
        "declared_features",
    ],
)
def test_whatever_decisions_read_of_a_node_is_kept_up(changed: Body) -> None:
    cache = Cache()
    cache.observe("Node", make_node("a"))
    cache.observe("Node", changed)
    assert cache.state.table.node("a") == parse_node(changed) != parse_node(make_node("a"))


def test_less_allocatable_is_in_the_table_although_it_is_no_news() -> None:
    cache = Cache()
    cache.observe("Node", make_node("a", cpu="4"))
    cache.observe("Node", make_node("a", cpu="2"))
    known = cache.state.table.node("a")
    assert known is not None
    assert known.allocatable["cpu"] == 2000


def test_a_node_that_was_not_ready_when_added_is_news_when_it_is() -> None:
    cache = Cache()
    taint = {"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"}
    cache.observe("Node", make_node("a", taints=[taint]))
    assert Event.NODE_TAINTS in cache.observe("Node", make_node("a"))


def test_a_node_may_come_after_its_pods() -> None:
    cache = Cache()
    cache.observe("Pod", make_pod("web", node="a", cpu="1"))
    assert len(cache.state.table) == 0
    cache.observe("Node", make_node("a"))
    assert len(cache.state.table.pods_on("a")) == 1


def test_a_node_may_go_before_its_pods_and_come_back() -> None:
    cache = Cache()
    cache.observe("Node", make_node("a"))
    cache.observe("Pod", make_pod("web", node="a", cpu="1"))
    assert cache.remove("Node", make_node("a")) == {Event.NODE_REMOVED}
    assert len(cache.state.table) == 0
    again = make_node("a")
    again["metadata"]["uid"] = "another"
    assert cache.observe("Node", again) == {Event.NODE_ADDED}
    assert len(cache.state.table.pods_on("a")) == 1
    assert cache.remove("Pod", make_pod("web")) == {Event.POD_REMOVED}
    assert len(cache.state.table.pods_on("a")) == 0


def test_a_node_made_again_without_a_word_of_its_removal_is_a_new_node() -> None:
    cache = Cache()
    cache.observe("Node", make_node("a", labels={"zone": "x"}))
    again = make_node("a")
    again["metadata"]["uid"] = "another"
    assert cache.observe("Node", again) == {Event.NODE_REMOVED, Event.NODE_ADDED}
    assert cache.remove("Node", make_node("a")) == NO_NEWS
    assert len(cache.state.table) == 1


def test_a_node_that_makes_no_sense_any_more_is_unavailable_until_it_does() -> None:
    cache = Cache()
    cache.observe("Node", make_node("a"))
    assert cache.observe("Node", make_node("a", cpu="4x")) == {Event.NODE_REMOVED}
    assert len(cache.state.table) == 0
    assert cache.statistics()["invalid"] == {"Node": 1}
    assert cache.observe("Node", make_node("a")) == {Event.NODE_ADDED}
    assert cache.statistics()["invalid"] == {}


def test_removing_what_was_never_known_does_nothing() -> None:
    cache = Cache()
    for kind in KINDS:
        assert cache.remove(kind.name, make_node("a")) == NO_NEWS


def test_every_kind_has_an_event() -> None:
    assert set(EVENT_OF_KIND) | {"Pod", "Node"} == {kind.name for kind in KINDS}


def test_an_object_is_kept_under_its_key_and_its_changes_are_news() -> None:
    cache = Cache()
    assert cache.observe("Namespace", namespace({"team": "a"})) == {Event.NAMESPACE}
    assert cache.observe("Namespace", namespace({"team": "a"})) == NO_NEWS
    assert cache.observe("Namespace", namespace({"team": "b"})) == {Event.NAMESPACE}
    assert cache.state.objects["Namespace"]["shop"].labels == {"team": "b"}
    assert cache.remove("Namespace", namespace({})) == {Event.NAMESPACE}
    assert cache.state.objects["Namespace"] == {}


def test_a_status_update_of_an_owner_is_no_news() -> None:
    cache = Cache()
    owner: Body = {
        "metadata": {"name": "web", "namespace": "default", "uid": "rs", "resourceVersion": "1"},
        "spec": {"selector": {"matchLabels": {"app": "web"}}},
    }
    assert cache.observe("ReplicaSet", owner) == {Event.OWNER}
    owner["metadata"]["resourceVersion"] = "2"
    assert cache.observe("ReplicaSet", owner | {"status": {"replicas": 3}}) == NO_NEWS
