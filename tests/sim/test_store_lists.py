"""Lists: order, namespaces, selectors, pages, versions."""

from __future__ import annotations

import pytest

from berth.sim.errors import StatusError
from berth.sim.resources import EVENTS, EVENTS_V1, NAMESPACES, NODES, PODS
from sim.world import World, names


@pytest.fixture
def world() -> World:
    world = World()
    for namespace in ("shop", "shop-b"):
        world.store.create(NAMESPACES, {"metadata": {"name": namespace}})
    for number, namespace in enumerate(("default", "shop", "shop-b", "shop", "default")):
        world.add_pod(f"p{number}", namespace=namespace, labels={"n": str(number)})
    return world


def test_a_list_is_in_the_order_of_namespace_and_name(world: World) -> None:
    page = world.store.list(PODS)
    assert names(page.items) == ["p0", "p4", "p2", "p1", "p3"]  # "shop-b/" sorts before "shop/", as in etcd
    assert page.resource_version == str(world.store.revision)
    assert names(world.store.list(PODS, "shop").items) == ["p1", "p3"]


@pytest.mark.parametrize(
    ("selector", "found"),
    [
        ("n in (1,2)", ["p2", "p1"]),
        ("n notin (1, 2)", ["p0", "p4", "p3"]),
        ("n", ["p0", "p4", "p2", "p1", "p3"]),
        ("!n", []),
        ("n>2", ["p4", "p3"]),
        ("n<1", ["p0"]),
        ("n!=0,n!=4", ["p2", "p1", "p3"]),
        ("n==3", ["p3"]),
        ("n=", []),
        ("n in ()", []),
        ("m notin (1)", ["p0", "p4", "p2", "p1", "p3"]),
    ],
)
def test_label_selectors_choose(world: World, selector: str, found: list[str]) -> None:
    assert names(world.store.list(PODS, label_selector=selector).items) == found


@pytest.mark.parametrize(
    ("selector", "words"),
    [
        ("n=(", "unable to parse requirement: found '(', expected: identifier"),
        ("a b", "unable to parse requirement: found 'b', expected: in, notin, =, ==, !=, gt, lt"),
        ("n in (1", "unable to parse requirement: found '', expected: ',' or ')'"),
        ("x=!!", "unable to parse requirement: found '!', expected: identifier"),
        ("-x=1", 'unable to parse requirement: <nil>: Invalid value: "-x": name part must consist of'),
    ],
)
def test_a_label_selector_that_cannot_be_parsed_is_refused(world: World, selector: str, words: str) -> None:
    with pytest.raises(StatusError) as refused:
        world.store.list(PODS, label_selector=selector)
    assert refused.value.code == 400
    assert refused.value.message.startswith(words)


@pytest.mark.parametrize(
    ("selector", "found"),
    [
        ("spec.nodeName=", ["p0", "p4", "p2", "p1", "p3"]),
        ("spec.nodeName!=", []),
        ("status.phase=Pending,metadata.namespace=shop", ["p1", "p3"]),
        ("status.phase!=Succeeded,status.phase!=Failed", ["p0", "p4", "p2", "p1", "p3"]),
        ("metadata.name=p2", ["p2"]),
        ("spec.schedulerName=berth", []),
        ("spec.hostNetwork=false,status.podIP=", ["p0", "p4", "p2", "p1", "p3"]),
    ],
)
def test_field_selectors_choose(world: World, selector: str, found: list[str]) -> None:
    assert names(world.store.list(PODS, field_selector=selector).items) == found


@pytest.mark.parametrize(
    ("selector", "words"),
    [
        ("spec.priority=0", "field label not supported: spec.priority"),
        ("metadata.labels.n=1", "field label not supported: metadata.labels.n"),
        ("spec.nodeName", "invalid selector: 'spec.nodeName'; can't understand 'spec.nodeName'"),
        ("spec.nodeName=b=c", "invalid field selector: unescaped character in value: 61"),
    ],
)
def test_a_field_selector_that_is_not_offered_is_refused(world: World, selector: str, words: str) -> None:
    with pytest.raises(StatusError) as refused:
        world.store.list(PODS, field_selector=selector)
    assert (refused.value.code, refused.value.message) == (400, words)


def test_nodes_are_selected_by_whether_they_are_schedulable(world: World) -> None:
    world.add_node("a")
    world.store.create(NODES, {"metadata": {"name": "b"}, "spec": {"unschedulable": True}})
    assert names(world.store.list(NODES, field_selector="spec.unschedulable=false").items) == ["a"]
    with pytest.raises(StatusError, match=r"field label not supported: spec\.podCIDR"):
        world.store.list(NODES, field_selector="spec.podCIDR=x")


def test_events_are_one_collection_with_two_faces(world: World) -> None:
    about = {"kind": "Pod", "name": "p0", "namespace": "default"}
    old = {
        "metadata": {"name": "old"},
        "involvedObject": about,
        "message": "m",
        "count": 2,
        "source": {"component": "c"},
    }
    new = {
        "metadata": {"name": "new"},
        "regarding": about,
        "note": "n",
        "type": "Normal",
        "reportingController": "berth",
        "eventTime": "2026-01-01T00:00:00.000000Z",
    }
    world.store.create(EVENTS, old, namespace="default")
    world.store.create(EVENTS_V1, new, namespace="default")
    served = world.store.get(EVENTS_V1, "default", "old")
    assert (served["apiVersion"], served["regarding"], served["note"]) == ("events.k8s.io/v1", about, "m")
    assert (served["deprecatedCount"], served["deprecatedSource"]) == (2, {"component": "c"})
    assert world.store.get(EVENTS, "default", "new")["reportingComponent"] == "berth"
    selector = "involvedObject.name=p0"
    assert names(world.store.list(EVENTS, field_selector=selector).items) == ["new", "old"]
    selector = "regarding.name=p0,reportingController=berth"
    assert names(world.store.list(EVENTS_V1, field_selector=selector).items) == ["new"]


def test_events_of_the_newer_kind_need_a_time_and_a_type(world: World) -> None:
    body = {"metadata": {"name": "e"}, "regarding": {"kind": "Pod", "name": "p0", "namespace": "default"}}
    with pytest.raises(StatusError) as refused:
        world.store.create(EVENTS_V1, body, namespace="default")
    assert refused.value.message == (
        'Event "e" is invalid: [eventTime: Required value, type: Invalid value: "": has invalid value: ]'
    )


# -- pages -------------------------------------------------------------------------------------------------------------


def test_pages_show_one_version_whatever_happens_between_them(world: World) -> None:
    first = world.store.list(PODS, limit=2)
    assert (names(first.items), first.remaining) == (["p0", "p4"], 3)
    world.store.delete(PODS, "shop", "p3")
    world.add_pod("p9", namespace="shop")
    world.store.patch(PODS, "shop", "p1", {"metadata": {"labels": {"n": "x"}}}, "merge")
    second = world.store.list(PODS, limit=2, continue_=first.continue_)
    third = world.store.list(PODS, limit=2, continue_=second.continue_)
    assert names(second.items + third.items) == ["p2", "p1", "p3"]
    assert second.items[1]["metadata"]["labels"] == {"n": "1"}
    assert third.resource_version == first.resource_version
    assert (third.continue_, third.remaining) == ("", None)


def test_pages_of_a_namespace_and_a_selection(world: World) -> None:
    first = world.store.list(PODS, "shop", limit=1, label_selector="n")
    assert first.remaining is None
    second = world.store.list(PODS, "shop", limit=1, label_selector="n", continue_=first.continue_)
    assert (names(second.items), second.continue_) == (["p3"], "")


def test_a_page_of_a_forgotten_version_is_gone_but_can_go_on_at_the_latest(world: World) -> None:
    first = world.store.list(PODS, limit=2)
    world.store.delete(PODS, "shop", "p3")
    world.store.compact()
    with pytest.raises(StatusError) as refused:
        world.store.list(PODS, limit=2, continue_=first.continue_)
    assert (refused.value.code, refused.value.reason) == (410, "Expired")
    assert refused.value.message.startswith("The provided continue parameter is too old")
    token = refused.value.to_status()["metadata"]["continue"]
    assert names(world.store.list(PODS, continue_=token).items) == ["p2", "p1"]


def test_a_continue_token_that_is_none_is_refused(world: World) -> None:
    for token in ("abc", "e30", "!!!"):
        with pytest.raises(StatusError, match="invalid continue token") as refused:
            world.store.list(PODS, continue_=token)
        assert refused.value.code == 400
    token = world.store.list(PODS, limit=1).continue_
    with pytest.raises(StatusError, match="specifying resource version is not allowed when using continue"):
        world.store.list(PODS, continue_=token, resource_version="5")


def test_a_list_can_be_of_an_older_version(world: World) -> None:
    version = str(world.store.revision)
    world.store.delete(PODS, "shop", "p1")
    assert "p1" in names(world.store.list(PODS, resource_version=version, match="Exact").items)
    assert "p1" not in names(world.store.list(PODS, resource_version=version, match="NotOlderThan").items)
    assert "p1" not in names(world.store.list(PODS, resource_version="0").items)
    world.store.compact()
    with pytest.raises(StatusError) as refused:
        world.store.list(PODS, resource_version=version, match="Exact")
    assert refused.value.code == 410


@pytest.mark.parametrize(
    ("version", "match", "code", "words"),
    [
        ("999999", "", 504, "Timeout: Too large resource version: 999999, current: "),
        ("abc", "", 400, 'invalid resource version: resourceVersion: Invalid value: "abc"'),
        ("", "Exact", 422, "resourceVersionMatch is forbidden unless resourceVersion is provided"),
        ("5", "Foo", 422, 'resourceVersionMatch: Unsupported value: "Foo"'),
        ("0", "Exact", 422, 'resourceVersionMatch "exact" is forbidden for resourceVersion "0"'),
    ],
)
def test_an_invalid_version_is_refused(world: World, version: str, match: str, code: int, words: str) -> None:
    with pytest.raises(StatusError) as refused:
        world.store.list(PODS, resource_version=version, match=match)
    assert refused.value.code == code
    assert words in refused.value.message
