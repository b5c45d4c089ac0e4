"""Pods on a real API server: all that fit are bound, all others say why."""

from __future__ import annotations

from control_plane.client import NAMESPACES, NODES, PODS, Client
from end_to_end.watching import (
    EVENTS,
    StartBerth,
    are_bound,
    bound,
    bound_twice,
    names,
    only_real,
    overfull_nodes,
    pending,
    refusal,
)
from support.builders import make_node, make_pod

BOTH_INTAKES = True
DEFAULT = f"{NAMESPACES}/default/pods"


async def test_a_pod_is_bound_and_an_event_and_its_condition_say_so(api: Client, berth_process: StartBerth) -> None:
    await api.create(make_node("only"))
    berth_process()
    await api.create(make_pod("web", cpu="100m"))

    pods = await api.wait_until(PODS, are_bound(1), timeout_seconds=30)
    events = await api.wait_until(EVENTS, lambda found: len(found) == 1, timeout_seconds=30)

    [pod], [event] = pods.values(), events.values()
    assert pod["spec"]["nodeName"] == "only"
    assert {"type": "PodScheduled", "status": "True"}.items() <= pod["status"]["conditions"][0].items()
    assert (event["reason"], event["note"]) == ("Scheduled", "Successfully assigned default/web to only")
    assert event["reportingController"] == "berth"


async def test_kopf_leaves_no_mark_on_anything(api: Client, berth_process: StartBerth) -> None:
    berth_process()
    await api.create(make_node("n"))
    await api.create(make_pod("p"))
    await api.wait_until(PODS, are_bound(1), timeout_seconds=30)

    for path in (PODS, NODES):
        for body in await api.list(path):
            assert "finalizers" not in body["metadata"]
            assert not any("kopf" in key for key in body["metadata"].get("annotations", {}))


async def test_pods_of_other_schedulers_and_gated_pods_are_left_alone(api: Client, berth_process: StartBerth) -> None:
    await api.create(make_node("n"))
    berth_process()
    await api.create(make_pod("theirs", scheduler="default-scheduler"))
    await api.create(make_pod("gated", gates=["example.com/wait"]))
    await api.create(make_pod("ours"))

    pods = await api.wait_until(PODS, are_bound(1), timeout_seconds=30)
    assert names(bound(pods)) == {"ours"}

    await api.patch(f"{DEFAULT}/gated", {"spec": {"schedulingGates": None}})
    pods = await api.wait_until(PODS, are_bound(2), timeout_seconds=30)
    assert names(pending(pods)) == {"theirs"}


async def test_a_pod_with_a_claim_waits_until_the_claim_is_bound(api: Client, berth_process: StartBerth) -> None:
    await api.create_many([make_node("here", labels={"zone": "a"}), make_node("there", labels={"zone": "b"})])
    zone = {"matchExpressions": [{"key": "zone", "operator": "In", "values": ["b"]}]}
    modes = {"accessModes": ["ReadWriteOnce"], "storageClassName": "by-hand"}
    size = {"storage": "1Gi"}
    await api.create(
        {
            "apiVersion": "v1",
            "kind": "PersistentVolume",
            "metadata": {"name": "disk"},
            "spec": {
                **modes,
                "capacity": size,
                "local": {"path": "/mnt"},
                "nodeAffinity": {"required": {"nodeSelectorTerms": [zone]}},
            },
        }
    )
    berth_process()
    await api.create(make_pod("db", volumes=[{"name": "v", "persistentVolumeClaim": {"claimName": "data"}}]))
    waits = await api.wait_until(PODS, lambda pods: all(map(refusal, pods.values())), timeout_seconds=30)
    assert 'persistentvolumeclaim "data" not found' in (refusal(waits["default/db"]) or ("", ""))[1]

    claim = {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": "data", "namespace": "default"}}
    await api.create({**claim, "spec": {**modes, "volumeName": "disk", "resources": {"requests": size}}})
    await api.wait_until(
        PODS, lambda pods: "unbound" in (refusal(pods["default/db"]) or ("", ""))[1], timeout_seconds=30
    )
    bound = {"metadata": {"annotations": {"pv.kubernetes.io/bind-completed": "yes"}}}
    await api.patch(f"{NAMESPACES}/default/persistentvolumeclaims/data", bound)
    pods = await api.wait_until(PODS, are_bound(1), timeout_seconds=30)
    assert pods["default/db"]["spec"]["nodeName"] == "there"


@only_real
async def test_three_thousand_plain_pods_on_five_thousand_nodes_are_all_bound(
    api: Client, berth_process: StartBerth
) -> None:
    await api.create_many(make_node(f"node-{i:04}", cpu="4", memory="16Gi") for i in range(5000))
    berth = berth_process()
    await api.create_many(make_pod(f"pod-{i:04}", cpu="100m", memory="128Mi") for i in range(3000))

    pods = await api.wait_until(PODS, are_bound(3000), timeout_seconds=180)

    assert len(pods) == 3000
    assert pending(pods) == []
    assert await overfull_nodes(api) == []
    assert berth.stop() == 0
    assert await bound_twice(api) == []


async def test_what_does_not_fit_says_why_and_is_placed_when_there_is_room(
    api: Client, berth_process: StartBerth
) -> None:
    room = 100 * 8
    await api.create_many(make_node(f"node-{i:03}", cpu="2") for i in range(100))
    berth_process()
    await api.create_many(make_pod(f"pod-{i:03}", cpu="250m") for i in range(room + 50))

    pods = await api.wait_until(
        PODS,
        lambda pods: len(bound(pods)) == room and len([p for p in pending(pods) if refusal(p)]) == 50,
        timeout_seconds=90,
    )
    assert len(pods) == room + 50
    assert {refusal(pod) for pod in pending(pods)} == {
        (
            "Unschedulable",
            "0/100 nodes are available: 100 Insufficient cpu. preemption: 0/100 nodes are available: "
            "100 No preemption victims found for incoming pod.",
        )
    }
    assert await overfull_nodes(api) == []

    await api.create_many(make_node(f"more-{i}", cpu="2") for i in range(10))
    pods = await api.wait_until(PODS, are_bound(room + 50), timeout_seconds=60)
    assert len(pods) == room + 50
    assert await overfull_nodes(api) == []
    assert await bound_twice(api) == []


async def test_room_that_a_deleted_pod_leaves_is_taken_by_one_that_waits(
    api: Client, berth_process: StartBerth
) -> None:
    await api.create(make_node("n", cpu="1"))
    berth_process()
    await api.create(make_pod("first", cpu="1"))
    await api.wait_until(PODS, are_bound(1), timeout_seconds=30)
    await api.create(make_pod("second", cpu="1"))
    await api.wait_until(PODS, lambda pods: refusal(pods["default/second"]) is not None, timeout_seconds=30)

    await api.delete(f"{DEFAULT}/first")

    pods = await api.wait_until(PODS, lambda pods: len(pods) == len(bound(pods)) == 1, timeout_seconds=30)
    assert names(bound(pods)) == {"second"}
