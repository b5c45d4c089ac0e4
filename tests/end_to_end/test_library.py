"""The policies of policies/, each on the cluster of its scene: pods get the places that it promises."""

from __future__ import annotations

import zlib
from collections.abc import Mapping

import pytest

from control_plane.client import POLICIES, Client, Object
from control_plane.launcher import ControlPlane
from end_to_end.policing import NAME, apply, condition, decided, in_namespace, node_of, wait_for_policies, wait_judged
from end_to_end.watching import Plane, StartBerth, only_real
from support.library import FOLDER, SCENES, Scene, names, read_policies, sign_of

MANIFESTS = {name: read_policies(name) for name in names()}


async def build(api: Client, scene: Scene) -> None:
    for name, labels in scene.namespaces.items():
        await api.create(in_namespace(name, **labels))
    await api.create_many(scene.nodes)
    for body in scene.there:
        await api.create(body)


def of(scene: Scene, pod: Object) -> Object:
    return {**pod, "spec": {**pod["spec"], "schedulerName": scene.scheduler_name}}


@pytest.mark.parametrize("name", names())
async def test_a_policy_of_the_library_keeps_its_promise_and_proves_its_use(
    control_plane: Plane, api: Client, berth_process: StartBerth, name: str
) -> None:
    scene, manifests = SCENES[name], MANIFESTS[name]
    await build(api, scene)
    await apply(control_plane, api, *manifests)
    berth = berth_process()
    pods = [await decided(api, of(scene, pod)) for pod in scene.pods]
    assert scene.promise([(sign_of(pod), node_of(pod)) for pod in pods])

    sample = [pod for pod in pods if zlib.crc32(pod["metadata"]["uid"].encode()) % 100 < 50]
    if name == "shadow-canary":
        await wait_judged(berth, len(sample), name)
    assert berth.stop() == 0  # the last counts are written
    statuses = {found["metadata"]["name"]: found["status"] for found in await api.list(POLICIES)}
    assert statuses.keys() == {manifest["metadata"]["name"] for manifest in manifests}
    if name == "shadow-canary":
        shadow = statuses[name]["shadow"]
        assert shadow["judged"] + shadow["skipped"] == len(sample)
        assert statuses[name]["placed"] == 0
        return
    placed = [pod for pod in pods if node_of(pod)]
    assert sum(status["placed"] for status in statuses.values()) == len(placed)
    assert sum(status["pending"] for status in statuses.values()) == len(pods) - len(placed)
    assert all(status["lastDecisionTime"] >= status["activeSince"] for status in statuses.values())


async def test_pods_of_teams_carry_the_name_of_the_policy_that_placed_them(
    control_plane: Plane, api: Client, berth_process: StartBerth
) -> None:
    scene = SCENES["team-namespaces"]
    await build(api, scene)
    await apply(control_plane, api, *MANIFESTS["team-namespaces"])
    berth_process()
    chosen = {"b": "team-batch", "d": "team-default", "u": "team-batch-urgent"}
    for sign, expected in chosen.items():
        pod = await decided(api, of(scene, next(pod for pod in scene.pods if sign_of(pod) == sign)))
        assert pod["metadata"]["annotations"][NAME] == expected


@only_real
async def test_kubectl_applies_the_whole_library_and_shows_it(
    control_plane: ControlPlane, api: Client, berth_process: StartBerth
) -> None:
    berth_process()
    control_plane.kubectl("apply", "-f", str(FOLDER))
    expected = {
        manifest["metadata"]["name"]: manifest["spec"]["schedulerName"]
        for manifests in MANIFESTS.values()
        for manifest in manifests
    }

    def taken(found: Mapping[str, Object]) -> bool:
        accepted = [name for name, policy in found.items() if condition(policy, "Accepted") == ("True", "Valid")]
        return sorted(accepted) == sorted(expected)

    await wait_for_policies(api, taken)
    [head, *lines] = control_plane.kubectl("get", "schedulingpolicies").stdout.splitlines()
    assert " ".join(head.split()) == "NAME SCHEDULER MODE READY ACTIVE ACCEPTED IN FORCE PLACED PENDING AGE"
    shown = {line.split()[0]: line.split()[1:6] for line in lines}
    for name, scheduler in expected.items():
        mode, active = ("Shadow", "False") if name == "shadow-canary" else ("Active", "True")
        assert shown[name] == [scheduler, mode, "True", active, "True"]
    assert "weight" in control_plane.kubectl("explain", "sp.spec.priorities").stdout
