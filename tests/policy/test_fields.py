"""What the tables of fields say is what the readers of manifests check."""

from collections.abc import Iterator
from typing import Any

import pytest

from berth.policy import BUILT_IN, PolicyError, load_policy
from berth.policy.fields.spec_fields import SPEC
from berth.policy.fields.types import (
    AnyField,
    ChoiceField,
    FlagField,
    IntegerField,
    ListField,
    MapField,
    NumberField,
    ObjectField,
    PolicyField,
    TextField,
)
from policy.builders import make_policy

PLUGINS_OWN = "spec.defaultConstraints.constraints[]"  # PodTopologySpread checks them, and stops at the first problem
BESIDE = {"name": "own", "key": "tier", "operator": "In", "type": "List"}  # without these readers do not go on


def fields(field: PolicyField, path: str) -> Iterator[tuple[str, PolicyField]]:
    """The field and all inside it, by path; `spec.priorities[].name` is a path."""
    yield path, field
    if isinstance(field, ListField):
        yield from fields(field.items, f"{path}[]")
    elif isinstance(field, ObjectField):
        for name, inner in field.fields.items():
            yield from fields(inner, f"{path}.{name}")


def beyond(field: PolicyField) -> Iterator[Any]:
    """Values that the field does not take."""
    match field:
        case IntegerField() | NumberField():
            yield field.minimum - 1
            if field.maximum is not None:
                yield field.maximum + 1
            yield "1"
        case TextField():
            yield 5
            yield "a" * (field.max_length + 1)
            if field.min_length:
                yield ""
        case ChoiceField():
            yield "Nonsense"
        case FlagField():
            yield "true"
        case ListField():
            yield [{"name": f"own-{number}"} for number in range(field.max_items + 1)]
            yield {}
        case AnyField(max_properties=most) | MapField(max_properties=most):
            if most:
                yield {f"key{number}": "value" for number in range(most + 1)}
            yield []
        case ObjectField():
            yield []


def put(value: object, path: list[str]) -> dict[str, Any]:
    """An object with the value at the path, and one item in each list on the way."""
    name, *rest = path
    if name.endswith("[]"):
        inner: object = [put(value, rest) if rest else value]
    else:
        inner = put(value, rest) if rest else value
    return {**BESIDE, name.removesuffix("[]"): inner}


def problems(value: object, path: str) -> list[str]:
    body = put(value, path.split("."))["spec"]
    manifest = {**make_policy(), "spec": body}
    with pytest.raises(PolicyError) as caught:
        load_policy(manifest)
    return [problem.field for problem in caught.value.problems]


ALL = [(path, field) for path, field in fields(SPEC, "spec") if not path.startswith(PLUGINS_OWN)]


@pytest.mark.parametrize(("path", "field"), ALL, ids=lambda value: value if isinstance(value, str) else "")
def test_a_value_beyond_the_bounds_of_its_field_is_refused_by_name(path: str, field: PolicyField) -> None:
    for value in beyond(field):
        assert path.replace("[]", "[0]") in problems(value, path), value


@pytest.mark.parametrize("path", [path for path, field in ALL if isinstance(field, ObjectField)])
def test_a_field_that_is_not_in_the_table_is_refused_by_name(path: str) -> None:
    assert f"{path}.nonsense".replace("[]", "[0]") in problems(1, f"{path}.nonsense")


def test_the_texts_list_the_default_profile() -> None:
    for entry in BUILT_IN.predicates:
        assert entry.name in SPEC.fields["predicates"].description
    for priority in BUILT_IN.priorities:
        assert f"{priority.name} {priority.weight}" in SPEC.fields["priorities"].description
