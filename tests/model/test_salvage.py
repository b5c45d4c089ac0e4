"""What can be read of pods that as a whole make no sense."""

from __future__ import annotations

import copy
from types import MappingProxyType
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from berth.model import HostPort, InvalidObject, Pod, parse_pod, salvage_pod
from support.builders import make_pod

Body = dict[str, Any]
SELECTED = [{"topologyKey": "zone", "labelSelector": {"matchLabels": {"app": "web"}}}]
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"


def salvaged(body: object) -> Pod:
    with pytest.raises(InvalidObject):
        parse_pod(body)
    pod = salvage_pod(body)
    assert pod is not None
    return pod


def test_a_pod_that_makes_sense_is_salvaged_whole() -> None:
    body = make_pod("web", cpu="1", node="a", labels={"app": "web"}, ports=[80])
    assert salvage_pod(body) == parse_pod(body)


def test_the_room_that_can_be_read_is_kept() -> None:
    pod = salvaged(
        make_pod("web", cpu="1x", memory="1Gi", requests={"example.com/gpu": 2}, node="a", ports=[80, 99999])
    )
    assert (pod.uid, pod.key, pod.node_name) == ("pod-default-web", "default/web", "a")
    assert pod.usage == {"memory": 1024**3, "example.com/gpu": 2}
    assert pod.host_ports == (HostPort("0.0.0.0", "TCP", 80),)


def test_a_resource_whose_name_has_dots_is_cut_alone() -> None:
    pod = salvaged(make_pod("web", cpu="1", requests={"example.com/gpu": "x", "example.com/gpu.big": 1}))
    assert pod.usage == {"cpu": 1000, "example.com/gpu.big": 1}


def test_a_direction_of_affinity_is_cut_whole() -> None:
    terms = [*SELECTED, {"labelSelector": {}}]
    pod = salvaged(
        make_pod("web", cpu="1", affinity={"podAffinity": {REQUIRED: SELECTED}, "podAntiAffinity": {REQUIRED: terms}})
    )
    assert len(pod.pod_affinity.required) == 1
    assert pod.pod_anti_affinity.required == ()
    assert pod.usage == {"cpu": 1000}


def test_a_list_where_an_object_is_due_costs_the_part_that_it_is_in() -> None:
    preferred = "preferredDuringSchedulingIgnoredDuringExecution"
    affinity = {"nodeAffinity": {preferred: [{"weight": 1, "preference": [{"a": 1}]}]}}
    assert salvaged(make_pod("web", cpu="1", affinity=affinity)).usage["cpu"] == 1000


def test_one_entry_of_a_list_is_cut_and_the_others_stay() -> None:
    volumes = [{"name": "a", "csi": {}}, {"name": "b", "gcePersistentDisk": {"pdName": "d"}}]
    pod = salvaged(make_pod("web", volumes=volumes, tolerations=[{"operator": "Is"}, {"operator": "Exists"}]))
    assert [volume.name for volume in pod.volumes] == ["b"]
    assert [toleration.operator for toleration in pod.tolerations] == ["Exists"]


@pytest.mark.parametrize(
    ("section", "field", "value"),
    [
        ("metadata", "labels", {"app": 1}),
        ("metadata", "ownerReferences", [{}]),
        ("metadata", "generation", -1),
        ("spec", "priority", "high"),
        ("spec", "overhead", {"cpu": "-1"}),
        ("spec", "resources", {"requests": {"cpu": "x"}}),
        ("spec", "initContainers", [1]),
        ("spec", "topologySpreadConstraints", "none"),
        ("status", "conditions", [{}]),
        ("status", "containerStatuses", [{"name": "main", "resources": {"requests": {"cpu": "x"}}}]),
        ("status", "phase", 5),
    ],
)
def test_whatever_else_is_wrong_does_not_cost_the_rest(section: str, field: str, value: Any) -> None:
    body = make_pod("web", cpu="1", node="a")
    body[section][field] = value
    pod = salvaged(body)
    assert (pod.node_name, pod.usage) == ("a", {"cpu": 1000})


def test_a_pod_without_a_spec_that_can_be_read_is_still_somebody() -> None:
    assert salvaged(make_pod("web") | {"spec": "none"}).key == "default/web"


@pytest.mark.parametrize("name", ["uid", "name", "namespace"])
def test_a_pod_without_identity_cannot_be_salvaged(name: str) -> None:
    for nothing in (None, "", 5):
        body = make_pod("web")
        body["metadata"][name] = nothing
        assert salvage_pod(body) is None


@pytest.mark.parametrize("body", [None, 5, [], {}, {"metadata": 1}])
def test_what_is_no_pod_at_all_cannot_be_salvaged(body: Any) -> None:
    assert salvage_pod(body) is None


def test_the_body_is_left_as_it_was() -> None:
    body = make_pod("web", cpu="1x", tolerations=[{"operator": "Is"}])
    before = copy.deepcopy(body)
    salvaged(MappingProxyType(body))
    assert body == before


def test_a_thousand_things_wrong_cost_a_bounded_number_of_attempts(monkeypatch: pytest.MonkeyPatch) -> None:
    calls = 0

    def counting(body: object) -> Pod:
        nonlocal calls
        calls += 1
        return parse_pod(body)

    monkeypatch.setattr("berth.model.salvage.parse_pod", counting)
    pod = salvaged(make_pod("web", cpu="1", tolerations=[{"operator": "Is"}] * 1000))
    assert (pod.tolerations, pod.usage) == ((), {"cpu": 1000})
    assert calls < 50


NONSENSE: st.SearchStrategy[Any] = st.sampled_from(
    [None, True, 5, -1, 2.5, "x", "", [], [1], {}, {"x": 1}, [{}], [{"name": 1}]]
)


def places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [path] * bool(path) + [place for key, item in inner for place in places(item, (*path, key))]


@given(st.data())
@settings(max_examples=200)
def test_a_pod_with_a_known_identity_is_always_salvaged(data: st.DataObject) -> None:
    body = make_pod(
        "web",
        cpu="1",
        node="a",
        labels={"app": "web"},
        ports=[80],
        tolerations=[{"operator": "Exists"}],
        affinity={"podAntiAffinity": {REQUIRED: copy.deepcopy(SELECTED)}},
        volumes=[{"name": "v", "csi": {"driver": "d"}}],
        status={"conditions": [{"type": "Ready"}]},
    )
    identity = body["metadata"]["uid"], body["metadata"]["name"], body["metadata"]["namespace"]
    for _ in range(data.draw(st.integers(1, 4))):
        *way, last = data.draw(st.sampled_from([place for place in places(body) if place != ("metadata",)]))
        owner: Any = body
        for step in way:
            owner = owner[step]
        owner[last] = copy.deepcopy(data.draw(NONSENSE))
    body["metadata"]["uid"], body["metadata"]["name"], body["metadata"]["namespace"] = identity
    pod = salvage_pod(body)
    assert pod is not None
    assert pod.uid == identity[0]
