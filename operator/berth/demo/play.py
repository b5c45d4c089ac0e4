"""The story, told once from its beginning to its end.

    the cluster is made -> the operator takes up the policy -> act one, spreading -> the policy is changed
                                                            -> act two, packing   -> done

Whatever waits goes through `_until`, which looks at the cluster and shows it ten times a second, and ends the story
on request or when the environment has failed. The environment is the embedded cluster, or what a test puts in its
place. The story only records what it saw; `verdict` checks it.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Protocol

from berth.demo.drawing import Scene
from berth.demo.picture import Picture
from berth.demo.scenario import GIANT, NAMESPACE, PACKING, POLICY, ZONES, Plan, Wave
from berth.demo.verdict import DemoRecord
from berth.demo.views import DemoView
from berth.scheduler.ports import Clock

TICK_SECONDS = 0.1
START_LIMIT_SECONDS = 60.0
ACT_LIMIT_SECONDS = 60.0
PODS_A_SECOND_AT_LEAST = 20
CHANGE_LIMIT_SECONDS = 30.0

WatchEvent = tuple[str, str, Mapping[str, Any]]
"""Kind, type and object."""


class Interrupted(Exception):
    """The user ends the demo."""


class Trouble(Exception):
    """The story cannot go on; the text says why."""


class Environment(Protocol):
    """What the story needs of a cluster. The coroutines raise Trouble."""

    async def make_cluster(self, plan: Plan) -> None:
        """Everything up to an operator that is about to begin."""
        ...

    async def play(self, wave: Wave) -> None: ...

    async def change_policy(self, patch: Mapping[str, Any]) -> None: ...

    def events(self) -> Iterable[WatchEvent]:
        """Returns the changes since the last call, without waiting."""
        ...

    def problem(self) -> str | None:
        """Returns what has failed; None if nothing has."""
        ...


class Play:
    """One performance. `wanted` is called again and again: whether it should go on."""

    def __init__(
        self, plan: Plan, environment: Environment, view: DemoView, clock: Clock, wanted: Callable[[], bool]
    ) -> None:
        self._plan = plan
        self._environment = environment
        self._view = view
        self._clock = clock
        self._wanted = wanted
        self._begin_seconds = clock.now()
        self._headline = ""
        self._placed_so_far = 0
        self._told_giant = False
        self.picture = Picture()
        self.record = DemoRecord()

    @property
    def now_seconds(self) -> float:
        """Since the beginning."""
        return self._clock.now() - self._begin_seconds

    async def perform(self) -> None:
        """Raises Interrupted. Trouble ends up in the record."""
        try:
            await self._story()
        except Trouble as trouble:
            self.record = replace(self.record, trouble=str(trouble))

    async def _story(self) -> None:
        plan = self._plan
        self._tell(f"starting a cluster of {len(plan.machines)} nodes in {len(ZONES)} zones and the operator beside it")
        await self._environment.make_cluster(plan)
        if not await self._until(self._policy_in_force, START_LIMIT_SECONDS):
            raise Trouble(f"the operator did not take up the policy within {START_LIMIT_SECONDS:g} s")
        self._tell(f'the operator is there; policy "{POLICY}" spreads: emptier nodes are better')
        await self._act(plan.spreading)
        self.record = replace(self.record, before=self.picture.fullness())
        await self._change()
        await self._act(plan.packing)
        self.record = replace(self.record, after=self.picture.fullness())

    async def _change(self) -> None:
        began_seconds = self.now_seconds
        await self._environment.change_policy(PACKING)
        if not await self._until(self._packing_in_force, CHANGE_LIMIT_SECONDS):
            raise Trouble(f"the operator did not take up the changed policy within {CHANGE_LIMIT_SECONDS:g} s")
        self.record = replace(self.record, change_seconds=self.now_seconds - began_seconds)
        self._tell(f'policy "{POLICY}" has been changed, nothing restarted: now it packs, fuller nodes are better')

    async def _act(self, waves: Sequence[Wave]) -> None:
        began_seconds = self.now_seconds
        for wave in waves:
            await self._until_time(began_seconds + wave.at_seconds)
            self._tell(_announcement(wave))
            await self._environment.play(wave)
            self._placed_so_far += wave.pods
        limit_seconds = ACT_LIMIT_SECONDS + sum(wave.pods for wave in waves) / PODS_A_SECOND_AT_LEAST
        staying = sum(workload.replicas for wave in waves for workload in wave.arrive if not workload.is_job)
        if not await self._until(lambda: self._has_settled(staying), limit_seconds):
            raise Trouble(f"the cluster did not come to rest within {limit_seconds:.0f} s")
        await self._until_time(self.now_seconds + self._plan.timing.hold_seconds)

    # --- conditions --------------------------------------------------------------------------------------------------

    def _policy_in_force(self) -> bool:
        return self.picture.policy is not None and self.picture.policy.in_force

    def _packing_in_force(self) -> bool:
        policy = self.picture.policy
        return policy is not None and policy.is_packing and policy.in_force

    def _has_settled(self, staying: int) -> bool:
        """Everything that fits has a node, what does not has said so, and what should leave has left."""
        picture = self.picture
        return (
            picture.placed >= self._placed_so_far
            and picture.on_nodes == staying
            and all(pod.refusal for pod in picture.waiting())
        )

    # --- looking -----------------------------------------------------------------------------------------------------

    async def _until(self, condition: Callable[[], bool], limit_seconds: float = float("inf")) -> bool:
        """Look on until the condition holds; False if it does not within the limit."""
        end_seconds = self.now_seconds + limit_seconds
        while True:
            self._look()
            if condition():
                return True
            if self.now_seconds >= end_seconds:
                return False
            await self._clock.sleep(TICK_SECONDS)

    async def _until_time(self, at_seconds: float) -> None:
        await self._until(lambda: self.now_seconds >= at_seconds)

    def _look(self) -> None:
        if not self._wanted():
            raise Interrupted
        problem = self._environment.problem()
        if problem is not None:
            raise Trouble(problem)
        now_seconds = self.now_seconds
        for kind, type_, body in self._environment.events():
            self.picture.observe(kind, type_, body, now_seconds)
        self.picture.note_waiting(now_seconds)
        self._tell_of_giant()
        self._view.show(self.scene())

    def _tell_of_giant(self) -> None:
        if self._told_giant:
            return
        for pod in self.picture.waiting():
            if pod.key == f"{NAMESPACE}/{GIANT}" and pod.refusal:
                self._told_giant = True
                self._tell(f"pod {pod.key} is pending and says why: {pod.refusal}")

    def _tell(self, headline: str) -> None:
        self._headline = headline
        self._view.tell(self.now_seconds, headline)
        self._view.show(self.scene())

    def scene(self) -> Scene:
        """What there is to see now."""
        title = f"{len(self._plan.machines)} nodes in {len(ZONES)} zones"
        return Scene(self.picture, self.now_seconds, title, self._headline, self._plan.pods, self.record.before)


def _announcement(wave: Wave) -> str:
    parts = [
        f"{', '.join(wave.leave)} leave" if wave.leave else "",
        f"{wave.pods} pods arrive: {wave.title}" if wave.arrive else "",
        f"and a pod that fits nowhere, {GIANT}" if wave.giant else "",
    ]
    return "; ".join(part for part in parts if part)
