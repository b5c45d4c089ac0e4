"""Stages in disorder: whatever happens, what was reserved ends once, in the right order, and nothing is lost."""

from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any

import pytest

from berth.engine.binding_points import Permit, WaitingPods
from policy.builders import make_policy
from scheduler.harness import Harness, running
from scheduler.memory_cluster import Fault, Hang, Refusal
from scheduler.staged_plugins import Script, installed
from support.builders import make_node, make_pod

PLUGINS = ("one", "two", "three")
FAULTS = (Fault.CUT_BEFORE, Fault.CUT_AFTER, Fault.LATE, Fault.BROKEN, Refusal(403, "no"), Refusal(404, "where?"))


@pytest.fixture
def script(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Script]:
    with installed(tmp_path, monkeypatch) as found:
        yield found


class World:
    """Pods come and go, plugins are moody, binds go wrong, others interfere."""

    def __init__(self, harness: Harness, script: Script, seed: int) -> None:
        self.harness, self.script, self.random = harness, script, Random(seed)
        self.count = 0
        self.is_calm = False
        self.hangs: list[Hang] = []
        for plugin in PLUGINS:
            script.says(plugin, "reserve", lambda *_: self.one_of(*[None] * 9, "full"))
            script.says(plugin, "permit", self.permit)
            script.says(plugin, "pre_bind", self.pre_bind)
            script.says(plugin, "bind", lambda *_: self.one_of(False, False, False, 7))

    def one_of(self, *answers: Any) -> Any:
        if self.is_calm:
            return answers[0]
        answer = self.random.choice(answers)
        if self.random.random() < 0.03:
            raise LookupError("moody")
        return answer

    def permit(self, *_: Any) -> Permit:
        wait, reject = Permit.wait(self.random.uniform(1, 20)), Permit.reject("no")
        answer: Permit = self.one_of(Permit.allow(), Permit.allow(), wait, wait, reject)
        return answer

    def pre_bind(self, *_: Any) -> Any:
        answer = self.one_of(None, None, None, self.hang, "not ready")
        return answer() if callable(answer) else answer

    async def hang(self) -> None:
        hang = Hang()
        self.hangs.append(hang)
        await hang.released.wait()

    async def step(self) -> None:
        what = self.random.choice([self.arrive, self.arrive, self.go, self.steal, self.allow, self.reject, self.fault])
        what()
        if self.random.random() < 0.3:
            self.harness.cluster.land_late_binds()
            for hang in self.hangs:
                hang.released.set()
        if self.random.random() < 0.05:
            self.harness.write(make_policy("p", generation=self.count + 2, predicates=entries()))
        if self.random.random() < 0.7:
            self.harness.tell()
        await self.harness.clock.advance(self.random.choice([0, 0, 0.5, 3]))

    def arrive(self) -> None:
        self.count += 1
        priority = self.random.choice([0, 0, 5])
        self.harness.cluster.write("Pod", make_pod(f"p{self.count}", cpu=1, priority=priority))

    def go(self) -> None:
        names = sorted(self.harness.cluster.objects["Pod"])
        if len(names) > 5:
            self.harness.cluster.delete("Pod", self.random.choice(names))

    def steal(self) -> None:
        free = [key for key, body in self.harness.cluster.objects["Pod"].items() if not body["spec"].get("nodeName")]
        if free and self.random.random() < 0.3:
            self.harness.cluster.change(
                "Pod", self.random.choice(free), lambda body: body["spec"].update(nodeName="n0")
            )

    def _waiting(self) -> tuple[WaitingPods, str] | None:
        if not self.script.made:
            return None
        plugin = self.random.choice([made[-1] for made in self.script.made.values()])
        pods = plugin.waiting.pods()
        return (plugin.waiting, self.random.choice(pods).pod.uid) if pods else None

    def allow(self) -> None:
        found = self._waiting()
        if found is not None:
            found[0].allow(found[1])

    def reject(self) -> None:
        found = self._waiting()
        if found is not None:
            found[0].reject(found[1], "somebody is against it")

    def fault(self) -> None:
        name = f"p{self.random.randint(1, self.count + 1)}"
        self.harness.cluster.faults[name] = self.random.choice(FAULTS)

    async def calm_down(self) -> None:
        self.is_calm = True
        self.harness.cluster.faults.clear()
        self.harness.cluster.land_late_binds()
        for hang in self.hangs:
            hang.released.set()
        self.harness.write(*(make_node(f"spare{i}", cpu=50) for i in range(3)))
        await self.harness.pass_time(360, step=10)


def entries() -> list[dict[str, str]]:
    return [{"name": name, "plugin": "Actor"} for name in PLUGINS]


def check_ends(script: Script) -> None:
    """Of each pod: attempts one after the other, each ended by every plugin once, in the order that it should be."""
    for pod in {subject for _, _, subject in script.calls}:
        ends, begun = [""], False
        for call in script.of(pod):
            plugin, stage = call.split()
            if stage == "reserve" and plugin == PLUGINS[0]:
                assert ends[-1] == "", f"{pod} begins before it has ended: {script.of(pod)}"
                begun = True
            elif stage in ("unreserve", "post_bind"):
                order = PLUGINS if stage == "post_bind" else PLUGINS[::-1]
                assert begun, f"{pod} ends twice: {script.of(pod)}"
                assert ends[-1] in ("", stage)
                ends.append(stage)
                assert plugin == order[len(ends) - 2], f"{pod} ends in the wrong order: {script.of(pod)}"
                if len(ends) == len(PLUGINS) + 1:
                    ends, begun = [""], False
        assert not begun, f"{pod} has not ended: {script.of(pod)}"


@pytest.mark.parametrize("seed", range(12))
async def test_whatever_happens_every_attempt_ends_once_for_every_plugin_and_no_pod_is_lost(
    script: Script, seed: int
) -> None:
    async with running() as harness:
        harness.write(make_policy("p", predicates=entries()), *(make_node(f"n{i}", cpu=4) for i in range(3)))
        world = World(harness, script, seed)
        for _ in range(150):
            await world.step()
        await world.calm_down()
        check_ends(script)
        assert all(body["spec"].get("nodeName") for body in harness.cluster.objects["Pod"].values())
        assert len({uid for uid, _ in harness.cluster.bound}) == len(harness.cluster.bound)
        statistics = harness.scheduler.statistics()
        assert (statistics["stages"]["running"], statistics["stages"]["waiting"]) == (0, 0)
        assert dict(harness.cache.assumed()) == {}
        sizes = harness.queue.sizes()
    assert (sizes["lent"], sizes["changes in flight"]) == (0, 0)
