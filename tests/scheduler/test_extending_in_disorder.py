"""Extenders that hang, fail and refuse while nodes, pods and policies come and go: every pod gets its node."""

import random
from collections import Counter
from collections.abc import Mapping
from typing import Any

import pytest

from berth.policy.records import Extender
from berth.scheduler.extenders.extender_protocol import ExtenderFailed
from berth.scheduler.queue.queued_pod import DEFAULT_BACKOFF
from scheduler.extender_service import Body, ExtendedHarness, policy_with, running_extended
from scheduler.virtual_clock import VirtualClock
from support.builders import make_node, make_pod

STEPS = 120
NODES = 6


class Moody:
    """An extender as bad as its mood: it takes its time, fails, refuses nodes. In a good mood it lets all through."""

    clock: VirtualClock

    def __init__(self, random: random.Random) -> None:
        self._random = random
        self.mood = 0.5

    async def ask(self, extender: Extender, verb: str, body: Mapping[str, Any]) -> object:
        await self.clock.sleep(self._random.choice((0, 0, 0.5, 3)))
        if self._random.random() < self.mood / 2:
            raise ExtenderFailed("in a bad mood")
        names = body["NodeNames"]
        if verb == "prioritize":
            return [{"Host": name, "Score": self._random.randrange(11)} for name in names]
        return {"NodeNames": [name for name in names if self._random.random() > self.mood]}

    async def close(self) -> None:
        pass


def extender(number: int, **fields: Any) -> Body:
    verbs = {"filterVerb": "filter", "prioritizeVerb": "prioritize", "nodeCacheCapable": True}
    return {"urlPrefix": f"http://extender-{number}", **verbs, **fields}


POLICIES = [
    (extender(1),),
    (extender(1), extender(2, ignorable=True)),
    (extender(2, managedResources=[{"name": "example.com/fpga"}]),),
    (),
]


def turn(harness: ExtendedHarness, chance: random.Random, number: int) -> None:
    """One thing that happens."""
    scheduler = chance.choice(("one", "two"))
    what = chance.randrange(10)
    pending = [key for key, pod in harness.cluster.objects["Pod"].items() if not pod["spec"].get("nodeName")]
    if what < 5:
        fpga = {"example.com/fpga": 0} if chance.random() < 0.3 else None
        priority = chance.randrange(3)
        harness.write(make_pod(f"pod-{number}", cpu="100m", scheduler=scheduler, priority=priority, requests=fpga))
    elif what == 5 and pending:
        harness.cluster.delete("Pod", chance.choice(pending))
    elif what == 6 and pending:
        toleration = {"key": f"k{number}", "operator": "Exists"}
        harness.cluster.change(
            "Pod", chance.choice(pending), lambda body: body["spec"].setdefault("tolerations", []).append(toleration)
        )
    elif what == 7:
        name = f"node-{chance.randrange(NODES)}"
        harness.cluster.delete("Node", name)
        harness.write(make_node(name, uid=f"{name}-{number}", cpu="64"))
    elif what == 8:
        harness.write(policy_with(*chance.choice(POLICIES), name=scheduler, scheduler=scheduler, generation=number + 2))
    else:
        harness.scheduler.close()
        harness.scheduler.open()
    harness.tell()


@pytest.mark.parametrize("seed", range(8))
async def test_every_pod_gets_a_node_once(seed: int) -> None:
    chance = random.Random(seed)
    moody = Moody(chance)
    async with running_extended(places=3, asker=moody) as harness:
        moody.clock = harness.clock
        harness.write(*(make_node(f"node-{number}", uid=f"node-{number}-0", cpu="64") for number in range(NODES)))
        for name in ("one", "two"):
            harness.write(policy_with(*chance.choice(POLICIES), name=name, scheduler=name))
        for number in range(STEPS):
            turn(harness, chance, number)
            await harness.pass_time(chance.choice((0.0, 0.1, 1.0)))
        moody.mood = 0.0
        await harness.pass_time(DEFAULT_BACKOFF.flush_seconds + 60)

        pods = harness.cluster.objects["Pod"].values()
        assert [pod["metadata"]["name"] for pod in pods if not pod["spec"].get("nodeName")] == []
        assert Counter(uid for uid, _ in harness.cluster.bound).most_common(1)[0][1] == 1
        assert sum(harness.queue.statistics().values()) == 0
        assert harness.extending.statistics() == {"waiting": 0, "held": 0}
        assert harness.errors.counts == {}
