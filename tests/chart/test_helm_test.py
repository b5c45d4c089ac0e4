"""What the chart has for its surroundings: the pod of `helm test`, values for kind, annotations of Artifact Hub."""

from __future__ import annotations

from typing import Any

import pytest
import yaml

from berth import __version__
from berth.policy.compile import load_policy
from chart.rendering import CHART, ROOT, Manifest, Values, helm, render
from chart.value_sets import EVERYTHING, VALUE_SETS

ANNOTATIONS: dict[str, str] = yaml.safe_load((CHART / "Chart.yaml").read_text())["annotations"]
NOT_BUILT_IN = {"config": {"builtInPolicy": False}}


def placed(values: Values) -> Manifest | None:
    """The pod of `helm test`."""
    pods = render(values).all("Pod")
    return pods[0] if pods else None


@pytest.mark.parametrize("values", VALUE_SETS.values(), ids=VALUE_SETS)
def test_the_pod_of_the_test_runs_the_image_once_as_an_unprivileged_user_that_may_do_nothing(values: Values) -> None:
    pod = placed(values)
    if pod is None:
        return
    spec, [container] = pod["spec"], pod["spec"]["containers"]
    assert pod["metadata"]["annotations"]["helm.sh/hook"] == "test"
    assert "hook-succeeded" in pod["metadata"]["annotations"]["helm.sh/hook-delete-policy"]
    assert container["image"] == render(values).container["image"]
    assert container["args"] == ["version"]
    assert (spec["restartPolicy"], spec["automountServiceAccountToken"]) == ("Never", False)
    assert spec["securityContext"]["runAsNonRoot"] is True
    assert container["securityContext"]["capabilities"] == {"drop": ["ALL"]}
    selector = render(values).one("Deployment")["spec"]["selector"]["matchLabels"]
    assert not selector.items() <= pod["metadata"]["labels"].items(), "Service and budget would count it"


@pytest.mark.parametrize(
    ("values", "scheduler"),
    [
        ({}, "berth"),
        ({**NOT_BUILT_IN, "policies": {"a": {"schedulerName": "berth-a"}}}, "berth-a"),
        ({**NOT_BUILT_IN, "defaultPolicy": {"enabled": True, "schedulerName": "mine"}}, "mine"),
        ({**NOT_BUILT_IN, "policies": {"a": {"schedulerName": "s", "mode": "Shadow"}}}, None),
        ({**NOT_BUILT_IN, "policies": {"a": {"schedulerName": "s", "podSelector": {"matchLabels": {"a": "b"}}}}}, None),
        (NOT_BUILT_IN, None),
    ],
)
def test_the_pod_names_a_scheduler_that_berth_serves_with_these_values(values: Values, scheduler: str | None) -> None:
    pod = placed(values)
    assert (None if pod is None else pod["spec"]["schedulerName"]) == scheduler


def test_the_test_can_be_left_out_of_manifests() -> None:
    assert render(EVERYTHING, "--skip-tests").all("Pod") == []
    assert "--skip-tests" in (ROOT / "docs" / "install.md").read_text()


def test_the_values_for_kind_take_the_image_that_make_builds_and_never_pull_it() -> None:
    path = str(CHART / "values-kind.yaml")
    helm("lint", "--strict", str(CHART), "-f", path)
    chart = render({}, "-f", path)
    assert chart.container["image"] == f"localhost/berth:{__version__}"
    assert chart.container["imagePullPolicy"] == "Never"
    assert chart.one("Deployment")["spec"]["replicas"] == 2


def test_the_kinds_that_artifact_hub_shows_are_those_of_the_chart() -> None:
    listed: list[dict[str, Any]] = yaml.safe_load(ANNOTATIONS["artifacthub.io/crds"])
    definition = yaml.safe_load((CHART / "files" / "schedulingpolicies.berth.dev.yaml").read_text())
    [shown] = listed
    assert shown["name"] == definition["metadata"]["name"]
    assert shown["kind"] == definition["spec"]["names"]["kind"]
    assert shown["version"] in [version["name"] for version in definition["spec"]["versions"]]


def test_the_examples_that_artifact_hub_shows_are_valid_policies() -> None:
    for example in yaml.safe_load(ANNOTATIONS["artifacthub.io/crdsExamples"]):
        load_policy(example)  # raises PolicyError


def test_artifact_hub_links_to_pages_that_are_there() -> None:
    for link in yaml.safe_load(ANNOTATIONS["artifacthub.io/links"]):
        assert (ROOT / link["url"].rpartition("/blob/main/")[2]).is_file()
