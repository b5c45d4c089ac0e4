"""Volumes while everything happens at once: late watches, lost writes, pods and claims that go."""

import random
from collections.abc import Mapping
from functools import partial

import pytest

from berth.model import Pod
from engine.storage import make_claim, make_class, make_volume, pod_with
from scheduler.harness import Harness, running
from scheduler.memory_cluster import Body
from support.builders import make_node

SELECTED = "volume.kubernetes.io/selected-node"
BIND_COMPLETED = "pv.kubernetes.io/bind-completed"
ZONES = ("z1", "z2", "z3")
THEIRS = {"namespace": "elsewhere", "name": "theirs", "uid": "theirs"}


def claims_of(body: Body) -> list[str]:
    return [f"default/{v['persistentVolumeClaim']['claimName']}" for v in body["spec"].get("volumes", [])]


class World:
    """A harness with actors that do, one step at a time, what the volume controller and a provisioner would do."""

    def __init__(self, harness: Harness, seed: int) -> None:
        self.harness = harness
        self.random = random.Random(seed)
        self.claims = harness.cluster.objects["PersistentVolumeClaim"]
        self.volumes = harness.cluster.objects["PersistentVolume"]
        self.theirs: list[str] = []

    def populate(self) -> None:
        write = self.harness.cluster.write
        for zone in ZONES:
            write("Node", make_node(f"node-{zone}", labels={"zone": zone}))
        write("StorageClass", make_class("local", provisioner="kubernetes.io/no-provisioner"))
        write("StorageClass", make_class("made"))
        for number in range(8):
            size, reached = f"{self.random.randint(1, 3)}Gi", self.random.choice([*ZONES, None])
            write("PersistentVolume", make_volume(f"disk{number}", reached, storage_class="local", size=size))
            claim = make_claim(f"c{number}", storage_class=self.random.choice(["local", "made"]))
            write("PersistentVolumeClaim", claim)
        for number in range(8):
            names = self.random.sample(range(8), self.random.randint(1, 2))
            write("Pod", pod_with(*(f"c{name}" for name in names), name=f"p{number}"))

    async def step(self) -> None:
        acts = (self.deliver, self.deliver, self.deliver, self.control, self.control, self.provision, self.disturb)
        self.random.choice(acts)()
        await self.harness.clock.advance(self.random.choice([0, 0, 0.5, 2]))

    def deliver(self) -> None:
        """The watch tells some of what it has to say, one object's news in order."""
        for _ in range(self.random.randint(1, 6)):
            if self.harness.cluster.feed:
                self.harness.cluster.hand_over(self.harness.scheduler, self.harness.cluster.feed.pop(0))

    def control(self) -> None:
        """One volume that names its claim is bound to it."""
        for name, volume in self.volumes.items():
            reference = volume["spec"].get("claimRef")
            key = f"default/{reference['name']}" if reference else ""
            claim = self.claims.get(key)
            if (
                claim is not None
                and reference["uid"] == claim["metadata"]["uid"]
                and not claim["spec"].get("volumeName")
            ):
                self.harness.cluster.change("PersistentVolumeClaim", key, partial(_bind, volume=name))
                return

    def provision(self) -> None:
        """One claim that has its node gets a volume, or its node taken away."""
        for key, claim in self.claims.items():
            node = claim["metadata"].get("annotations", {}).get(SELECTED)
            if node and not claim["spec"].get("volumeName"):
                if self.random.random() < 0.3:
                    self.harness.cluster.change("PersistentVolumeClaim", key, _give_up)
                else:
                    made = make_volume(f"made-{claim['metadata']['uid']}", node.removeprefix("node-"), phase="Bound")
                    made["spec"]["claimRef"] = {**claim["metadata"], "annotations": None}
                    self.harness.cluster.write("PersistentVolume", made)
                return

    def disturb(self) -> None:
        self.harness.cluster.volume_writes_fail = self.random.random() < 0.3
        unbound = [key for key, body in self.harness.cluster.objects["Pod"].items() if not body["spec"].get("nodeName")]
        if unbound and self.random.random() < 0.1:
            self.harness.cluster.delete("Pod", self.random.choice(unbound))
        if self.random.random() < 0.1:
            key = self.random.choice(sorted(self.claims))
            if not self.claims[key]["spec"].get("volumeName"):
                self.harness.cluster.delete("PersistentVolumeClaim", key)
                again = make_claim(key.partition("/")[2], storage_class="made")
                again["metadata"]["uid"] = f"again-{self.random.random()}"
                self.harness.cluster.write("PersistentVolumeClaim", again)
        free = [name for name, body in self.volumes.items() if not body["spec"].get("claimRef")]
        if free and self.random.random() < 0.1:
            self.theirs.append(self.random.choice(free))
            self.harness.cluster.change(
                "PersistentVolume", self.theirs[-1], lambda body: body["spec"].update(claimRef=THEIRS)
            )

    async def calm_down(self) -> None:
        self.harness.cluster.volume_writes_fail = False
        for _ in range(40):
            self.control()
            self.provision()
            await self.harness.pass_time(10, step=5)


def _give_up(body: Body) -> None:
    del body["metadata"]["annotations"][SELECTED]


def _bind(body: Body, volume: str) -> None:
    body["spec"]["volumeName"] = volume
    body["metadata"].setdefault("annotations", {})[BIND_COMPLETED] = "yes"


@pytest.mark.parametrize("seed", range(25))
async def test_whatever_happens_no_volume_is_given_away_twice_and_no_pod_is_bound_before_its_volumes(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with running() as harness:
        world = World(harness, seed)
        carry_out = harness.cluster.carry_out

        def check(pod: Pod, node_name: str, annotations: Mapping[str, str]) -> None:
            for key in claims_of(harness.cluster.objects["Pod"].get(pod.key, {"spec": {}})):
                assert BIND_COMPLETED in world.claims[key]["metadata"]["annotations"], f"{pod.key} before {key}"
            carry_out(pod, node_name, annotations)

        monkeypatch.setattr(harness.cluster, "carry_out", check)
        world.populate()
        for _ in range(120):
            await world.step()
            reserved = [
                v.name for plan in harness.cache.state.volumes.reservations.plans.values() for _, v in plan.bindings
            ]
            holders = [
                (claim.name, volume.name)
                for plan in harness.cache.state.volumes.reservations.plans.values()
                for claim, volume in plan.bindings
            ]
            assert len(set(reserved)) == len(set(holders))  # one claim for a volume, though pods may share the claim
        await world.calm_down()

        taken = [claim["spec"]["volumeName"] for claim in world.claims.values() if claim["spec"].get("volumeName")]
        assert len(taken) == len(set(taken))
        assert all(world.volumes[name]["spec"]["claimRef"] == THEIRS for name in world.theirs)
        assert not harness.cache.state.volumes.reservations.plans
        assert harness.errors.counts == {}
        pods = harness.cluster.objects["Pod"].values()
        bound = [pod for pod in pods if pod["spec"].get("nodeName")]
        assert bound
        for pod in pods:
            if not pod["spec"].get("nodeName"):
                assert harness.notes(pod["metadata"]["name"]), "a pod that has no node says why"
