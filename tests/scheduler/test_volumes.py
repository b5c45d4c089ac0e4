"""Pods whose claims wait for them: volumes are kept or made before the pod is bound, and never twice."""

from typing import Any

import pytest

from engine.storage import make_claim, make_class, make_volume, pod_with
from scheduler.harness import Harness, running
from scheduler.memory_cluster import Body
from support.builders import make_node

LOCAL = make_class(provisioner="kubernetes.io/no-provisioner")
MADE = make_class()
SELECTED = "volume.kubernetes.io/selected-node"
HERE = make_node("here", labels={"zone": "z1"})
THERE = make_node("there", labels={"zone": "z2"})


def bind_claim(harness: Harness, claim: str, volume: str) -> None:
    """What the volume controller does at its end."""

    def bind(body: Body) -> None:
        body["spec"]["volumeName"] = volume
        body["metadata"].setdefault("annotations", {})["pv.kubernetes.io/bind-completed"] = "yes"
        body["status"] = {"phase": "Bound"}

    harness.cluster.change("PersistentVolumeClaim", f"default/{claim}", bind)
    harness.tell()


def provision(harness: Harness, claim: str, zone: str | None = None) -> None:
    """What a provisioner does: make a volume, and have it bound."""
    harness.write(make_volume(f"made-{claim}", zone, claim=claim, phase="Bound"))
    bind_claim(harness, claim, f"made-{claim}")


def annotations(harness: Harness, claim: str) -> dict[str, str]:
    found: dict[str, str] = harness.cluster.objects["PersistentVolumeClaim"][f"default/{claim}"]["metadata"].get(
        "annotations", {}
    )
    return found


def condition(harness: Harness, name: str) -> tuple[str, str]:
    return harness.cluster.conditions.get(f"pod-default-{name}", ("", ""))


def volumes(harness: Harness) -> dict[str, int]:
    found: dict[str, int] = harness.scheduler.statistics()["volumes"]
    return found


def is_clean(harness: Harness) -> bool:
    return not harness.cache.state.volumes.reservations.plans and volumes(harness)["waiting"] == 0


async def test_a_volume_is_kept_for_the_claim_before_the_pod_is_bound() -> None:
    async with running() as harness:
        harness.write(HERE, THERE, LOCAL, make_claim("data"), make_volume("disk", "z2"), pod_with("data", name="db"))
        await harness.go()
        assert harness.cluster.volume_writes == [("disk", "data")]
        assert harness.cluster.node_of("db") == ""
        bind_claim(harness, "data", "disk")
        await harness.go()
        assert harness.cluster.node_of("db") == "there"
        assert harness.cluster.objects["PersistentVolume"]["disk"]["spec"]["claimRef"]["uid"] == "claim-data"
        assert is_clean(harness)


async def test_a_claim_is_given_the_node_and_the_pod_waits_for_the_provisioner() -> None:
    async with running() as harness:
        harness.write(HERE, MADE, make_claim("data"), pod_with("data", name="db"))
        await harness.pass_time(300, step=60)
        assert annotations(harness, "data")[SELECTED] == "here"
        assert harness.cluster.node_of("db") == ""
        assert volumes(harness) == {"waiting": 1}
        provision(harness, "data", "z1")
        await harness.go()
        assert harness.cluster.node_of("db") == "here"
        assert volumes(harness) == {"waiting": 0, "bound": 1}


async def test_two_pods_that_race_for_one_volume_get_it_one_after_the_other() -> None:
    async with running() as harness:
        harness.write(
            HERE,
            LOCAL,
            make_claim("one"),
            make_claim("two"),
            make_volume("disk"),
            pod_with("one", name="first", priority=1),
            pod_with("two", name="second"),
        )
        await harness.go()
        assert harness.cluster.volume_writes == [("disk", "one")]
        assert "didn't find available persistent volumes to bind" in condition(harness, "second")[1]
        bind_claim(harness, "one", "disk")
        await harness.go()
        assert (harness.cluster.node_of("first"), harness.cluster.node_of("second")) == ("here", "")
        harness.write(make_volume("another"))
        await harness.pass_time(20)
        bind_claim(harness, "two", "another")
        await harness.go()
        assert harness.cluster.node_of("second") == "here"
        assert harness.cluster.volume_writes == [("disk", "one"), ("another", "two")]


async def test_pods_that_share_a_claim_go_to_the_node_that_it_was_given() -> None:
    async with running() as harness:
        harness.write(HERE, THERE, MADE, make_claim("data"), *(pod_with("data", name=f"p{i}") for i in range(4)))
        await harness.go()
        provision(harness, "data", {"here": "z1", "there": "z2"}[annotations(harness, "data")[SELECTED]])
        await harness.pass_time(20)
        assert len({harness.cluster.node_of(f"p{i}") for i in range(4)}) == 1
        assert is_clean(harness)


async def test_a_pod_whose_volumes_wait_holds_none_of_the_places_for_binds() -> None:
    async with running(bind_limit=1) as harness:
        harness.write(HERE, MADE, *(make_claim(f"c{i}") for i in range(3)))
        harness.write(*(pod_with(f"c{i}", name=f"slow{i}", priority=1) for i in range(3)), pod_with(name="plain"))
        await harness.go()
        assert volumes(harness)["waiting"] == 3
        assert harness.cluster.node_of("plain") == "here"


async def test_a_claim_that_is_deleted_while_a_pod_waits_for_it_is_told_and_tried_again() -> None:
    async with running() as harness:
        harness.write(HERE, MADE, make_claim("data"), pod_with("data", name="db"))
        await harness.go()
        harness.cluster.delete("PersistentVolumeClaim", "default/data")
        await harness.go()
        reason, message = condition(harness, "db")
        assert reason == "SchedulerError"
        assert message == (
            'running PreBind plugin "VolumeBinding": binding volumes: failed to check provisioning pvc: '
            'persistentvolumeclaim "data" not found'
        )
        assert is_clean(harness)
        await harness.pass_time(20)
        assert condition(harness, "db")[1].startswith(
            '0/1 nodes are available: persistentvolumeclaim "data" not found. '
        )
        harness.write(make_claim("data") | {"metadata": {"name": "data", "namespace": "default", "uid": "again"}})
        await harness.pass_time(20)
        provision(harness, "data")
        await harness.go()
        assert harness.cluster.node_of("db") == "here"


async def test_volumes_that_are_not_bound_in_time_are_given_back_and_the_pod_says_so() -> None:
    policy: dict[str, Any] = {
        "kind": "SchedulingPolicy",
        "metadata": {"name": "hasty", "uid": "hasty"},
        "spec": {
            "schedulerName": "berth",
            "predicates": [{"name": "VolumeBinding", "args": {"bindTimeoutSeconds": 5}}],
        },
    }
    async with running() as harness:
        harness.write(policy, HERE, LOCAL, make_claim("data"), make_volume("disk"), pod_with("data", name="db"))
        await harness.pass_time(6)
        assert condition(harness, "db") == (
            "SchedulerError",
            'running PreBind plugin "VolumeBinding": binding volumes: timed out after 5 s: '
            'persistentvolumeclaim "data" is not bound to persistentvolume "disk"',
        )
        await harness.pass_time(3)
        bind_claim(harness, "data", "disk")  # the volume is still kept for it: nobody has to write again
        await harness.pass_time(20)
        assert harness.cluster.node_of("db") == "here"
        assert harness.cluster.volume_writes == [("disk", "data")]


async def test_a_provisioner_that_gives_up_has_another_node_looked_for() -> None:
    async with running() as harness:
        harness.write(HERE, MADE, make_claim("data"), pod_with("data", name="db"))
        await harness.go()
        harness.write(make_node("there"))
        harness.cluster.change("Node", "here", lambda body: body["spec"].update(unschedulable=True))
        harness.cluster.change(
            "PersistentVolumeClaim", "default/data", lambda body: body["metadata"]["annotations"].pop(SELECTED)
        )
        await harness.go()
        assert 'provisioning failed for PVC "data"' in condition(harness, "db")[1]
        await harness.pass_time(5)
        assert annotations(harness, "data")[SELECTED] == "there"


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda harness: harness.cluster.delete("PersistentVolume", "disk"), 'persistentvolume "disk" not found'),
        (lambda harness: harness.cluster.delete("Node", "here"), 'node "here" not found'),
        (
            lambda harness: harness.cluster.change(
                "PersistentVolume", "disk", lambda body: body["spec"].pop("claimRef")
            ),
            'ClaimRef got reset for pv "disk"',
        ),
        (
            lambda harness: harness.cluster.change("Node", "here", lambda body: body["metadata"].update(labels={})),
            'pv "disk" node affinity doesn\'t match node "here"',
        ),
    ],
)
async def test_what_breaks_while_volumes_are_bound_is_told(change: Any, words: str) -> None:
    async with running() as harness:
        harness.write(HERE, LOCAL, make_claim("data"), make_volume("disk", "z1"), pod_with("data", name="db"))
        await harness.go()
        change(harness)
        harness.tell()
        await harness.go()
        assert any(words in note for note in harness.notes("db"))
        assert is_clean(harness)


async def test_a_write_that_fails_is_tried_again_after_a_backoff() -> None:
    async with running() as harness:
        harness.cluster.volume_writes_fail = True
        harness.write(HERE, LOCAL, make_claim("data"), make_volume("disk"), pod_with("data", name="db"))
        await harness.go()
        assert condition(harness, "db")[1] == 'running PreBind plugin "VolumeBinding": connection reset'
        assert harness.scheduler.statistics()["queue"]["backoff"] == 1
        harness.cluster.volume_writes_fail = False
        await harness.pass_time(2)
        bind_claim(harness, "data", "disk")
        await harness.go()
        assert harness.cluster.node_of("db") == "here"


async def test_a_volume_that_somebody_else_took_first_is_not_taken_from_them() -> None:
    async with running() as harness:
        harness.write(HERE, LOCAL, make_claim("data"), make_volume("disk"))
        harness.cluster.change(
            "PersistentVolume", "disk", lambda body: body["spec"].update(claimRef={"namespace": "x", "name": "theirs"})
        )
        report = harness.cluster.feed.pop()  # the watch is behind
        harness.write(pod_with("data", name="db"))
        await harness.go()
        assert harness.cluster.volume_writes == []
        assert "the object has been modified" in condition(harness, "db")[1]
        harness.cluster.hand_over(harness.scheduler, report)
        await harness.pass_time(20)
        assert "didn't find available persistent volumes to bind" in condition(harness, "db")[1]


async def test_a_pod_that_is_deleted_while_it_waits_gives_its_volumes_back() -> None:
    async with running() as harness:
        harness.write(HERE, LOCAL, make_claim("one"), make_claim("two"), make_volume("disk"))
        harness.cluster.volume_writes_fail = True  # so that the volume stays free
        harness.write(pod_with("one", name="first", priority=1))
        await harness.go()
        harness.cluster.volume_writes_fail = False
        harness.cluster.delete("Pod", "default/first")
        harness.tell()
        harness.write(pod_with("two", name="second"))
        await harness.pass_time(20)
        assert harness.cluster.volume_writes == [("disk", "two")]


async def test_a_pod_that_goes_while_a_provisioner_works_leaves_nothing_behind() -> None:
    async with running() as harness:
        harness.write(HERE, MADE, make_claim("data"), pod_with("data", name="db"))
        await harness.go()
        harness.cluster.delete("Pod", "default/db")
        await harness.go()
        assert is_clean(harness)
        assert volumes(harness)["gone"] == 1
        assert harness.notes("db") == ["Node here is chosen; waiting for volumes of data"]


async def test_a_claim_that_was_given_its_node_before_a_restart_is_waited_for_again() -> None:
    async with running() as harness:
        harness.write(
            HERE, THERE, MADE, make_claim("data", annotations={SELECTED: "there"}), pod_with("data", name="db")
        )
        await harness.go()
        assert harness.cluster.volume_writes == []
        provision(harness, "data", "z2")
        await harness.go()
        assert harness.cluster.node_of("db") == "there"


async def test_stopping_lets_go_of_pods_that_wait_for_volumes() -> None:
    async with running() as harness:
        harness.write(HERE, MADE, make_claim("data"), pod_with("data", name="db"))
        await harness.go()
        await harness.scheduler.stop()
        assert is_clean(harness)
        assert harness.cluster.bound == []
