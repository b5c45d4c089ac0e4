"""The pictures of docs/policies.md: the shipped policies at work, drawn from what the engine decides.

    cd tests && python -m docs.pictures        prints them all, to be put into the page

Each has the nodes of a scene of the library as bars, a sign for each unit that a pod takes, once with the default
profile and once with the policy. Of equally good nodes the first by name is taken, so that a picture stays as it is.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any

from berth.model import parse_quantity
from scheduler.harness import running
from support.builders import Body
from support.library import SCENES, SERVED, Places, Scene, make_store, play, read_policies, sign_of

FREE = "."
WAITING = "waiting"
GAP = 3
STEADY = {"tieBreak": "First"}
DEFAULT = {**read_policies("default")[0], "spec": {"schedulerName": SERVED, **STEADY}}


def draw(name: str) -> str:
    """The picture of a policy of the library."""
    scene = SCENES[name]
    if name == "shadow-canary":
        return _draw_shadow(scene)
    columns = {"the default profile": play(scene, make_store([DEFAULT]), SERVED)}
    if name != "default":
        columns[name] = play(scene, make_store(read_policies(name), **STEADY), scene.scheduler_name)
    return _draw(scene, columns)


def _draw(scene: Scene, columns: Mapping[str, Places]) -> str:
    there = [pod for pod in scene.there if pod["kind"] == "Pod"]
    grid = {"before": _bars(scene, there, [pod["spec"]["nodeName"] for pod in there])} if there else {}
    grid |= {title: _bars(scene, scene.pods, [node for _, node in places]) for title, places in columns.items()}
    names = [node["metadata"]["name"] for node in scene.nodes]
    if any(bars.get("") for bars in grid.values()):
        names.append("")
    rows = [["", *grid], *([name or WAITING, *(bars[name] for bars in grid.values())] for name in names)]
    widths = [max(map(len, column)) + GAP for column in zip(*rows, strict=True)]
    lines = ["".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]
    return "\n".join([f"{scene.title}:", "", *lines])


def _bars(scene: Scene, pods: Sequence[Body], places: Sequence[str]) -> dict[str, str]:
    """The bar of each node, with what was there before; "" has the pods that wait."""
    signs: dict[str, str] = {node["metadata"]["name"]: "" for node in scene.nodes} | {"": ""}
    there = [(pod, pod["spec"]["nodeName"]) for pod in scene.there if pod["kind"] == "Pod" and pod not in pods]
    for pod, node in (*there, *zip(pods, places, strict=True)):
        signs[node] += sign_of(pod) * _units(scene, pod["spec"]["containers"][0]["resources"]["requests"])
    for node in scene.nodes:
        name, size = node["metadata"]["name"], _units(scene, node["status"]["allocatable"])
        signs[name] = signs[name].ljust(size, FREE)
    return signs


def _units(scene: Scene, amounts: Mapping[str, object]) -> int:
    resource, unit = scene.bar
    return int(parse_quantity(str(amounts[resource])) / parse_quantity(unit))


# --- a shadow: what was decided, and what it says of that ------------------------------------------------------------


def _draw_shadow(scene: Scene) -> str:
    """Every pod is judged, not only a sample: that depends on UIDs."""
    [shadow] = read_policies(scene.policy)
    shadow = {**shadow, "spec": {**shadow["spec"], "shadow": {"samplePercent": 100}, **STEADY}}
    places, status = asyncio.run(_watch(scene, shadow))
    counts = "  ".join(f"{key}: {value}" for key, value in status.items() if isinstance(value, int))
    examples = [
        f"  {found['pod']}: on {found['active']}, would be on {found['shadow']}" for found in status["examples"]
    ]
    return "\n".join([_draw(scene, {"the default profile": places}), "", f"status.shadow   {counts}", *examples])


async def _watch(scene: Scene, shadow: Body) -> tuple[Places, Mapping[str, Any]]:
    async with running() as harness:
        for manifest in (DEFAULT, shadow):
            metadata = {**manifest["metadata"], "uid": f"uid-{manifest['metadata']['name']}", "generation": 1}
            harness.policies.observe({**manifest, "metadata": metadata})
        harness.write(*scene.nodes)
        for pod in scene.pods:
            harness.write(pod)
            await harness.go()
        places = [(sign_of(pod), harness.cluster.node_of(pod["metadata"]["name"])) for pod in scene.pods]
        harness.policies.report()
        status: Any = harness.policies.statuses()[scene.policy]["shadow"]
        return places, status


if __name__ == "__main__":
    print("\n\n".join(f"### {name}\n\n```\n{draw(name)}\n```" for name in SCENES))
