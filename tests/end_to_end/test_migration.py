"""The way from kube-scheduler to Berth and back, by the commands of docs/guides/from-kube-scheduler.md."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

import pytest
import yaml

from control_plane.client import PODS, Client, Object
from control_plane.launcher import ControlPlane
from control_plane.programs import find_programs
from end_to_end.pages import ROOT, Page
from end_to_end.watching import StartBerth, are_bound, only_real, pending
from support.builders import make_node, make_pod

POLICIES = "/apis/berth.dev/v1alpha1/schedulingpolicies"
CONFIGURATION = yaml.safe_load((ROOT / "examples/migration/scheduler.yaml").read_text())
NAMES = ("default-scheduler", "batch")


@pytest.fixture
def page(control_plane: ControlPlane, kubeconfig: Path, tmp_path: Path) -> Page:
    return Page("docs/guides/from-kube-scheduler.md", tmp_path, find_programs().kubectl, kubeconfig)


@only_real
async def test_a_cluster_moves_from_kube_scheduler_to_berth_and_back_as_the_page_says(
    control_plane: ControlPlane, api: Client, berth_process: StartBerth, page: Page
) -> None:
    await api.create_many(make_node(f"node-{number}", cpu="16") for number in range(4))
    control_plane.start_scheduler({"profiles": CONFIGURATION["profiles"]})
    try:
        page.run("1. Convert", skip=needs_helm)
        beside = berth_process()
        page.run("2. Watch in shadow", skip=needs_helm)
        await api.create_many(pods("before"))
        await api.wait_until(PODS, are_bound(20), timeout_seconds=60)
        shadows = await api.wait_until(POLICIES, have_judged(10), timeout_seconds=60)
        assert {body["status"]["shadow"]["unplaced"] for body in shadows.values()} == {0}

        beside.stop()
        berth_process("--trusted-policies", "default-scheduler")
        control_plane.stop_scheduler()
        control_plane.start_scheduler(page.yaml_of("3. Switch over"))
        await api.create_many(pods("between"))
        assert len(pending({pod["metadata"]["name"]: pod for pod in await api.list(PODS)})) == 20
        page.run("3. Switch over", skip=needs_helm)
        await api.wait_until(PODS, are_bound(40), timeout_seconds=60)
        await api.wait_until(POLICIES, have_placed(10), timeout_seconds=60)

        page.run("4. Go back", skip=needs_helm)
        await api.create_many(pods("after"))
        control_plane.stop_scheduler()
        control_plane.start_scheduler({"profiles": CONFIGURATION["profiles"]})
        await api.wait_until(PODS, are_bound(60), timeout_seconds=60)
    finally:
        control_plane.stop_scheduler()


def needs_helm(command: str) -> bool:
    """The test starts Berth itself, where the page installs the chart or waits for it."""
    return command.startswith("helm ") or "deployment/berth" in command


def pods(prefix: str) -> list[Object]:
    """Ten pods of each scheduler name."""
    made = [make_pod(f"{prefix}-{name}-{number}", scheduler=name) for name in NAMES for number in range(10)]
    for body in made:
        del body["metadata"]["uid"], body["status"]
    return made


def have_judged(count: int) -> Callable[[Mapping[str, Object]], bool]:
    def judged(policies: Mapping[str, Object]) -> bool:
        return all(body["status"].get("shadow", {}).get("judged") == count for body in policies.values())

    return judged


def have_placed(count: int) -> Callable[[Mapping[str, Object]], bool]:
    return lambda policies: all(body["status"].get("placed") == count for body in policies.values())
