"""The chart as a whole: helm's own checks, versions, the kinds that it defines, and values that are all explained."""

from __future__ import annotations

import json
import re
import tomllib
from copy import deepcopy
from typing import Any

import pytest
import yaml

from berth import __version__
from chart.rendering import CHART, ROOT, Values, helm, parse, template, values_file
from chart.value_sets import VALUE_SETS

VALUES_TEXT = (CHART / "values.yaml").read_text()
VALUES: dict[str, Any] = yaml.safe_load(VALUES_TEXT)
SCHEMA: dict[str, Any] = json.loads((CHART / "values.schema.json").read_text())
# What is in them is Kubernetes' or the user's own, and not for the chart to name.
FREE = {"seed", "featureGates", "policies", "labels", "annotations", "requests", "limits"}


@pytest.mark.parametrize("values", VALUE_SETS.values(), ids=VALUE_SETS)
def test_helm_has_nothing_to_complain_of(values: Values) -> None:
    with values_file(values) as path:
        helm("lint", "--strict", str(CHART), "-f", path)


def test_chart_and_program_have_one_version() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    chart = yaml.safe_load((CHART / "Chart.yaml").read_text())

    assert (chart["version"], chart["appVersion"]) == (__version__, __version__)
    assert chart["description"] == project["description"]


@pytest.mark.parametrize(
    ("name", "copy"),
    [
        ("schedulingpolicies.berth.dev.yaml", "files/schedulingpolicies.berth.dev.yaml"),
        ("clusterkopfpeerings.kopf.dev.yaml", "crds/clusterkopfpeerings.kopf.dev.yaml"),
    ],
)
def test_the_kinds_are_those_of_the_project(name: str, copy: str) -> None:
    assert (CHART / copy).read_text() == (ROOT / "crds" / name).read_text(), "run `make chart`"


def test_no_kind_of_the_project_is_missing() -> None:
    in_chart = {path.name for folder in ("files", "crds") for path in (CHART / folder).glob("*.dev.yaml")}
    assert in_chart == {path.name for path in (ROOT / "crds").glob("*.yaml")}


def test_a_definition_in_the_templates_differs_from_the_file_in_its_labels_and_annotations_only() -> None:
    rendered = deepcopy(parse(template()).one("CustomResourceDefinition"))
    annotations = rendered["metadata"].pop("annotations")
    rendered["metadata"].pop("labels")

    assert rendered == yaml.safe_load((ROOT / "crds" / "schedulingpolicies.berth.dev.yaml").read_text())
    assert annotations == {
        "meta.helm.sh/release-name": "berth",
        "meta.helm.sh/release-namespace": "berth-system",
        "helm.sh/resource-policy": "keep",
    }


def test_helm_brings_the_kind_of_the_peering_before_everything_else() -> None:
    """In crds/, where helm leaves alone what another operator has defined already."""
    assert "clusterkopfpeerings.kopf.dev" not in template().partition("kind: ClusterRole")[0]
    assert "name: clusterkopfpeerings.kopf.dev" in template({}, "--include-crds")


def test_every_value_has_a_comment() -> None:
    explained: list[bool] = []  # of each value that the line is within
    lines = [line for line in VALUES_TEXT.splitlines() if line]
    for before, line, after in zip(["", *lines], lines, [*lines[1:], ""], strict=False):
        if found := re.match(r"( *)[A-Za-z]+:", line):
            depth = len(found[1]) // 2
            explained[depth:] = [before.lstrip().startswith("#")]
            has_parts = len(after) - len(after.lstrip()) > len(found[1])
            assert has_parts or any(explained), f"values.yaml: {line}"


def test_the_schema_knows_every_value_and_no_other() -> None:
    assert _schema_keys(SCHEMA) - {("global",)} == _value_keys(VALUES)


def _value_keys(values: dict[str, Any], path: tuple[str, ...] = ()) -> set[tuple[str, ...]]:
    keys: set[tuple[str, ...]] = set()
    for name, value in values.items():
        keys.add((*path, name))
        if isinstance(value, dict) and name not in FREE:
            keys |= _value_keys(value, (*path, name))
    return keys


def _schema_keys(schema: dict[str, Any], path: tuple[str, ...] = ()) -> set[tuple[str, ...]]:
    keys: set[tuple[str, ...]] = set()
    for name, inner in schema.get("properties", {}).items():
        keys.add((*path, name))
        if name not in FREE and (*path, name) != ("affinity",):
            keys |= _schema_keys(inner, (*path, name))
    return keys


def test_nothing_is_let_through_that_the_schema_does_not_name() -> None:
    for path in _value_keys(VALUES):
        schema: dict[str, Any] = SCHEMA
        for name in path:
            schema = schema["properties"][name]
        if "properties" in schema:
            assert schema["additionalProperties"] is False, path
