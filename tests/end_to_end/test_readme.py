"""The questions of README, asked on an API server."""

from __future__ import annotations

import shutil
from pathlib import Path

from control_plane.client import PODS, Client
from control_plane.programs import find_programs
from end_to_end.pages import ROOT, Page
from end_to_end.watching import Plane, StartBerth, are_bound, only_real
from support.builders import make_node

DECISIONS_CHANGE = 1  # exit code of `berth policy diff`


@only_real
async def test_the_commands_of_the_readme_work_as_pasted(
    control_plane: Plane, api: Client, kubeconfig: Path, berth_process: StartBerth, tmp_path: Path
) -> None:
    await api.create_many(make_node(f"node-{number}") for number in range(3))
    berth_process()
    for name, policy in (("binpack", "binpack"), ("new", "spread-zones")):
        shutil.copy(ROOT / "policies" / f"{policy}.yaml", tmp_path / f"{name}.yaml")
    page = Page("README.md", tmp_path, find_programs().kubectl, kubeconfig)
    page.run("Install", skip=lambda command: command.startswith(("helm ", "make ")))
    await api.wait_until(PODS, are_bound(1), timeout_seconds=60)
    page.run("Ask it", allowed=(0, DECISIONS_CHANGE))
