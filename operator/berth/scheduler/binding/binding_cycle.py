"""Pods that have been given a node, until they are handed to the Binder: what plugins and volumes do about them first.

    assumed --> volumes reserved --> reserve --> permit --> waiting --> volumes bound --> pre_bind --> place --> Binder
                                        |          |           |             |               |           |
                                        +----------+-----------+-------------+---------------+-----------+
                                        |
            unreserve, in reverse order; volumes released; room given back
                |--- a plugin said no: parked, with this plugin as who turned it away
                |--- something failed, was too late, or another pod needs the room: back through backoff
                +--- the watch has taken the pod from us, gone or bound by somebody else: that was it

All up to the permits happens in the step of the decision, so that no later decision takes what is reserved. A pod whose
policy has no such plugins and whose volumes are all bound goes to the Binder in that step, if it has a place for it:
so many binds run at once and no more, whether pods come from here, from extenders or right from the queue.

A pod that waits keeps its room and takes none of the places for running binds. That it is expected on its node is
written into the API (`expect`), unless it waits for nothing but a place; when it does not get the node, that is
withdrawn (`drop`). It stays with the generation of its policy, whatever becomes of that. Others can see it, allow it
and reject it (`berth.engine.binding_points.WaitingPods`); what they say is carried out by the
pod's own task, never in the middle of somebody else's step.

Each of these ends is one step that is taken once: whoever comes later finds the pod not here any more.
"""

import asyncio
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial

from berth.engine.binding_points import BindingPlugin, WaitingPod, is_reason
from berth.engine.state.volume_reservations import VolumePlan
from berth.model import Pod
from berth.policy.usage import Usage
from berth.scheduler.binding.binding import Assignment, BackgroundBinder
from berth.scheduler.binding.binding_plugins import BindingPlugins, Stopped
from berth.scheduler.binding.volumes import NotBound, VolumeBinder
from berth.scheduler.cache.cache import Cache
from berth.scheduler.error_log import ErrorLog
from berth.scheduler.event_intake import EventIntake
from berth.scheduler.measures import UNSCHEDULABLE, WAIT, Measures, outcome, timed
from berth.scheduler.ports import Clock
from berth.scheduler.queue.queue import Queue
from berth.scheduler.reporting import Reporter


@dataclass(slots=True, eq=False)
class _Way:
    """A pod on its way to the Binder."""

    assignment: Assignment
    course: BindingPlugins
    prepares: bool = False  # volumes or plugins have something to do before the bind
    is_prepared: bool = False  # nothing is missing but a place
    task: asyncio.Task[None] | None = None

    @property
    def uid(self) -> str:
        return self.assignment.pod.uid

    def permit_status(self, error: BaseException | None) -> str:
        return WAIT if error is None and self.course.is_waiting else _status(error)


def _status(error: BaseException | None) -> str:
    is_refusal = isinstance(error, Stopped) and not error.error
    return UNSCHEDULABLE if is_refusal else outcome(error)


class BindingCycle:
    """The pods between a decision and their bind.

    `expect` nominates a pod that has its node and will be bound later. `withdraw` takes back what a pod is nominated
    to, `drop` does so with one that was assumed.
    """

    def __init__(
        self,
        *,
        cache: Cache,
        queue: Queue,
        intake: EventIntake,
        volumes: VolumeBinder,
        binder: BackgroundBinder,
        clock: Clock,
        reporter: Reporter,
        usage: Usage,
        faults: ErrorLog,
        measures: Measures,
    ) -> None:
        self._cache = cache
        self._queue = queue
        self._intake = intake
        self._volumes = volumes
        self._binder = binder
        self._clock = clock
        self._reporter = reporter
        self._usage = usage
        self._faults = faults
        self._measures = measures
        self._ways: dict[str, _Way] = {}
        self._uids: dict[str, str] = {}  # by namespace and name: a successor of that name may show that a pod is gone
        self._tasks: dict[asyncio.Task[None], None] = {}  # in the order in which they began
        self.withdraw: Callable[[Pod], None] = lambda pod: None
        self.drop: Callable[[Pod], None] = lambda pod: None
        self.expect: Callable[[Pod, str], None] = lambda pod, node_name: None
        self.outcomes: Counter[str] = Counter()

    def __len__(self) -> int:
        return len(self._ways)

    @property
    def waiting(self) -> list[WaitingPod]:
        """Those that wait to be allowed."""
        return [way.course.seen() for way in self._ways.values() if way.course.is_waiting]

    # --- from the decision on ----------------------------------------------------------------------------------------

    def start(self, assignment: Assignment, planned: tuple[VolumePlan, float] | None) -> str | None:
        """Hold the room and go through the stages, `planned` being what is to be done about volumes; returns at once,
        with the result of the attempt if it has come to its end.
        """
        pod, node_name, active = assignment.pod, assignment.node_name, assignment.active
        if planned is None and not active.stages:
            self._intake.assume(pod, node_name)
            if self._binder.take_place(assignment):
                self._binder.start(assignment)
            else:
                self._queue_up(_Way(assignment, self._course(assignment)))
            return None
        self._introduce(active.stages)
        course = self._course(assignment)
        way = _Way(replace(assignment, course=course), course)
        try:
            self._intake.assume(pod, node_name, partial(self._begin, way, planned))
        except Stopped as stop:
            return self._refuse_at_once(assignment, stop)
        way.prepares = planned is not None or course.prepares
        if way.prepares or course.is_waiting:
            self.expect(pod, node_name)
        if way.prepares or course.is_waiting or not self._binder.take_place(way.assignment):
            self._set_out(way)
        elif not self._hand_over(way):
            self._binder.give_place_back(way.assignment)
        return None

    def _course(self, assignment: Assignment) -> BindingPlugins:
        pod, node_name, active = assignment.pod, assignment.node_name, assignment.active
        return BindingPlugins(pod, node_name, active, clock=self._clock, usage=self._usage, faults=self._faults)

    def _queue_up(self, way: _Way) -> None:
        """An assumed pod that waits for nothing but a place."""
        self._enter(way)
        self._set_out(way)

    def _set_out(self, way: _Way) -> None:
        way.task = asyncio.get_running_loop().create_task(self._run(way))
        self._tasks[way.task] = None
        way.task.add_done_callback(self._tasks.pop)

    def _enter(self, way: _Way) -> None:
        self._ways[way.uid], self._uids[way.assignment.pod.key] = way, way.uid

    def _begin(self, way: _Way, planned: tuple[VolumePlan, float] | None) -> None:
        """Reserve and permit; raises Stopped, with everything undone."""
        self._enter(way)
        try:
            self._reserve(way, planned)
            with timed(way.assignment.item.stopwatch, "Permit", way.permit_status):
                way.course.permit()
        except BaseException as error:
            is_refusal = isinstance(error, Stopped) and not error.error
            self._end(way, "rejected" if is_refusal else "failed", seen=False)
            raise
        if way.course.is_waiting:
            self._queue.lend(way.assignment.item)

    def _reserve(self, way: _Way, planned: tuple[VolumePlan, float] | None) -> None:
        with timed(way.assignment.item.stopwatch, "Reserve", _status):
            if planned is not None:
                self._volumes.reserve(way.assignment.pod, *planned)
            way.course.reserve()

    def _refuse_at_once(self, assignment: Assignment, stop: Stopped) -> str:
        item, pace = assignment.item, assignment.active.policy.pace
        if stop.rejecter is not None:
            self._queue.park(item, stop.rejecter.wakes_on, pace, blamed=(stop.rejecter.name,))
        else:
            self._queue.fail(item, pace)
        self._report(assignment.pod, stop, self.withdraw)
        return "error" if stop.error else "unschedulable"

    def _introduce(self, plugins: Sequence[BindingPlugin]) -> None:
        for plugin in plugins:
            if "waiting" not in vars(plugin):
                plugin.waiting = _Handle(self, plugin)

    async def _run(self, way: _Way) -> None:
        pod = way.assignment.pod
        try:
            await self._prepare(way)
            await self._binder.wait_place(way.assignment)
        except Stopped as stop:
            self._turn_away(way, stop)
        except NotBound as problem:
            self._turn_away(way, Stopped(f'running PreBind plugin "VolumeBinding": {problem}', error=True))
        except Exception as error:
            self._faults.note("preparing the bind of", pod, error)
            self._turn_away(way, Stopped(f"the scheduler failed: {type(error).__name__}: {error}", error=True))
        else:
            if not self._hand_over(way):
                self._binder.give_place_back(way.assignment)

    async def _prepare(self, way: _Way) -> None:
        """Until nothing is missing but a place; raises Stopped or NotBound."""
        await way.course.wait()
        self._queue.write_off(way.uid)
        if way.prepares:
            with timed(way.assignment.item.stopwatch, "PreBind"):
                await self._volumes.bind(way.uid)
                await way.course.pre_bind()
        way.is_prepared = True

    def _hand_over(self, way: _Way) -> bool:
        """Whether the pod is the Binder's now, with the place that was taken for it; else it has met its end here."""
        node_name = way.assignment.node_name
        if way.uid not in self._cache.assumed():
            self._cut_off(way, "gone")
        elif way.task is not None and self._cache.state.table.node(node_name) is None:  # it has gone since the decision
            self._turn_away(way, Stopped(f'node "{node_name}" not found', error=True))
        elif self._leave(way, "passed"):
            self._queue.write_off(way.uid)
            self._binder.start(way.assignment)
            return True
        return False

    # --- ends --------------------------------------------------------------------------------------------------------

    def heard(self, key: str) -> None:
        """The watch spoke of the pod of this name: if it does not want the node any more, it does not wait for it."""
        way = self._ways.get(self._uids.get(key, ""))
        if way is None:
            return
        held = self._cache.assumed().get(way.uid)
        if held is None or held.pod.deleting:
            self._cut_off(way, "gone")

    def give_up(self, uid: str, reason: str = "preempted") -> bool:
        """Another pod needs the room: if the pod is not being bound yet, its room is free when this returns, and it is
        tried again after its backoff. False: it has no room, or may be bound at any moment.
        """
        way = self._ways.get(uid)
        if way is None:
            return False
        if way.course.is_waiting:
            doing = "waiting on permit for pod"
        elif way.is_prepared:
            doing = "waiting for other binds to end"
        else:
            doing = 'running PreBind plugin "VolumeBinding"' if uid in self._volumes else "running PreBind plugins"
        self._turn_away(way, Stopped(f"{doing}: {reason}", error=True), "preempted")
        self._cancel(way)
        return True

    async def stop(self) -> None:
        """As `let_go`; returns when nothing runs any more."""
        tasks = list(self._tasks)
        self.let_go()
        await asyncio.gather(*tasks, return_exceptions=True)

    def let_go(self) -> None:
        """Let go of every pod that is not being bound yet; whoever schedules next begins anew with it."""
        for way in list(self._ways.values()):
            self._cut_off(way, "cut_off")

    def _turn_away(self, way: _Way, stop: Stopped, outcome: str = "") -> None:
        item, pace = way.assignment.item, way.assignment.active.policy.pace
        if stop.rejecter is not None:
            self._queue.recall(item, stop.rejecter.wakes_on)
        if not self._end(way, outcome or ("failed" if stop.error else "rejected")):
            return
        result = "error" if stop.error else "unschedulable"
        self._measures.ended(way.assignment.pod.scheduler_name, result, item.tried)
        if stop.rejecter is not None:
            self._intake.turn_away(item, stop.rejecter.wakes_on, pace, (stop.rejecter.name,))
        else:
            self._give_back(way)
        self._report(way.assignment.pod, stop, self.drop)

    def _report(self, pod: Pod, stop: Stopped, give_up: Callable[[Pod], None]) -> None:
        """It waits again, and not for a node that it may be refused a second time."""
        self._reporter.rejected(pod, str(stop), error=stop.error)
        again = self._intake.wanted(pod.uid)
        if again is not None:
            give_up(again)

    def _cut_off(self, way: _Way, outcome: str) -> None:
        if self._end(way, outcome):
            self._give_back(way)
            self._cancel(way)

    def _give_back(self, way: _Way) -> None:
        self._queue.write_off(way.uid)
        self._intake.give_back(way.uid, way.assignment.item.attempts, way.assignment.item.queued)

    def _cancel(self, way: _Way) -> None:
        if way.task is not None:
            way.task.cancel()

    def _end(self, way: _Way, outcome: str, *, seen: bool = True) -> bool:
        """Undo what was reserved; False where that has been done."""
        if not self._leave(way, outcome):
            return False
        way.course.end(bound=False)
        self._volumes.release(way.uid, outcome, seen=seen)
        return True

    def _leave(self, way: _Way, outcome: str) -> bool:
        if self._ways.get(way.uid) is not way:
            return False
        del self._ways[way.uid]
        if self._uids.get(way.assignment.pod.key) == way.uid:
            del self._uids[way.assignment.pod.key]
        self.outcomes[outcome] += 1
        return True

    # --- what others say ---------------------------------------------------------------------------------------------

    def allow(self, uid: str, plugin: str) -> bool:
        """The plugin of this name lets the pod go on; False where the pod does not wait for it."""
        way = self._ways.get(uid)
        return way is not None and way.course.allow(plugin)

    def reject(self, uid: str, plugin: BindingPlugin, reason: str) -> bool:
        """The plugin says that the pod is unschedulable; False where the pod does not wait."""
        if not is_reason(reason):
            raise ValueError(f"a rejection has a reason, not {reason!r}")
        way = self._ways.get(uid)
        return way is not None and way.course.reject(plugin, reason)


class _Handle:
    """Implements `berth.engine.binding_points.WaitingPods` for one plugin."""

    def __init__(self, stages: BindingCycle, plugin: BindingPlugin) -> None:
        self._stages = stages
        self._plugin = plugin

    def pods(self) -> Sequence[WaitingPod]:
        return self._stages.waiting

    def allow(self, uid: str) -> bool:
        return self._stages.allow(uid, self._plugin.name)

    def reject(self, uid: str, reason: str) -> bool:
        return self._stages.reject(uid, self._plugin, reason)
