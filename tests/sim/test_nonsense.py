"""Whatever is sent, the answer is an object or a refusal in words, and what is stored stays readable."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from berth.sim.builtin_kinds.type_checks import METADATA, TYPES
from berth.sim.errors import StatusError
from berth.sim.resources import BUILT_IN, NODES, PODS, Resource
from berth.sim.store import PatchKind
from sim.world import World, pod


def field_names(types: Any) -> set[str]:
    """Every name of a field that has a types."""
    if isinstance(types, list):
        return field_names(types[0])
    return (
        {name for key, inner in types.items() for name in (key, *field_names(inner))}
        if isinstance(types, dict)
        else set()
    )


FIELDS = st.sampled_from(
    sorted({"metadata", "type", "key", "x", "hostNetwork"}.union(*map(field_names, TYPES.values()), METADATA))
)
SCALARS = (
    st.none() | st.booleans() | st.integers(-1, 3) | st.sampled_from(("", "a", "1x", "default", "x/y")) | st.just(0.5)
)
NONSENSE = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(FIELDS, inner, max_size=4),
    max_leaves=25,
)
BODIES = st.dictionaries(FIELDS, NONSENSE, max_size=4)
OPERATIONS = st.lists(
    st.fixed_dictionaries(
        {
            "op": st.sampled_from(("add", "remove", "replace", "test", "move", "copy", "zap")),
            "path": st.lists(FIELDS | st.just("0"), max_size=3).map(
                lambda parts: "".join(f"/{part}" for part in parts)
            ),
            "from": st.just("/metadata"),
            "value": NONSENSE,
        }
    ),
    max_size=3,
)


@settings(max_examples=300)
@given(resource=st.sampled_from(BUILT_IN), body=BODIES, metadata=BODIES)
def test_creating_nonsense_is_answered(resource: Resource, body: dict[str, Any], metadata: dict[str, Any]) -> None:
    world = World()
    sent = {**body, "kind": resource.kind, "metadata": {"name": "a", **metadata}}
    try:
        world.store.create(resource, sent, namespace="default" if resource.namespaced else "")
    except StatusError as error:
        expect_words(error)
    readable(world, resource)


@settings(max_examples=300)
@given(
    patch=BODIES | OPERATIONS,
    kind=st.sampled_from(("json", "merge", "strategic", "apply")),
    subresource=st.sampled_from(("", "status")),
    resource=st.sampled_from((PODS, NODES)),
)
def test_patching_with_nonsense_is_answered(patch: Any, kind: PatchKind, subresource: str, resource: Resource) -> None:
    world = World()
    world.add_pod("a")
    world.add_node("a")
    try:
        world.store.patch(resource, "default", "a", patch, kind, subresource=subresource, field_manager="m")
    except StatusError as error:
        expect_words(error)
    readable(world, resource)


@settings(max_examples=200)
@given(body=BODIES)
def test_binding_and_evicting_with_nonsense_is_answered(body: dict[str, Any]) -> None:
    world = World()
    world.add_pod("a")
    for ask in (world.store.bind, world.store.evict):
        try:
            ask("default", "a", body)
        except StatusError as error:
            expect_words(error)
    readable(world, PODS)


def expect_words(error: StatusError) -> None:
    status = error.to_status()
    assert status["code"] >= 400
    assert status["message"]


def readable(world: World, resource: Resource) -> None:
    """What is stored can be listed with selectors, watched and deleted."""
    found = world.store.list(resource, label_selector="!no", field_selector="metadata.name!=no").items
    assert len(world.store.watch(resource).take_ready()) == len(found)
    for body in found:
        metadata = body["metadata"]
        if metadata["name"] == "a":
            world.store.delete(resource, metadata.get("namespace", ""), "a")


@pytest.mark.parametrize(
    ("field", "value", "words"),
    [
        ("containers", "x", "json: cannot unmarshal string into field spec.containers of type array"),
        ("containers", [5], "json: cannot unmarshal number into field spec.containers[0] of type object"),
        ("nodeName", {}, "json: cannot unmarshal object into field spec.nodeName of type string"),
        ("priority", True, "json: cannot unmarshal bool into field spec.priority of type integer"),
    ],
)
def test_a_field_of_the_wrong_shape_is_named(world: World, field: str, value: Any, words: str) -> None:
    with pytest.raises(StatusError) as refused:
        world.store.create(PODS, pod("a", **{field: value}), namespace="default")
    assert refused.value.code == 400
    assert refused.value.message == f'Pod in version "v1" cannot be handled as a Pod: {words}'


def test_labels_may_be_called_anything(world: World) -> None:
    made = world.add_pod("a", labels={"template": "x", "ports": "y"}, nodeSelector={"containers": "z"})
    assert made["metadata"]["labels"] == {"template": "x", "ports": "y"}
