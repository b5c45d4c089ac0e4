"""The binding cycle up to the bind: assumed pods until `BackgroundBinder` takes them over.

    assumed --> volumes reserved --> reserve --> permit --> waiting --> volumes bound --> pre_bind --> place --> bind
                                        |          |           |             |               |           |
                                        +----------+-----------+-------------+---------------+-----------+
                                        |
            unreserve, in reverse order; volumes released; pod forgotten
                |--- a plugin rejected the pod: unschedulable, with this plugin as the reason
                |--- an error, a timeout, or the pod is preempted: backoff
                +--- the watch shows the pod as gone, or bound by another scheduler: nothing more to do

Everything up to Permit happens in the same step as the decision, so that no later decision uses what is reserved. If
the policy has no binding plugins and all volumes of the pod are bound, the bind starts in that step too, if a place is
free. The number of concurrent binds is limited, whether pods come from here, from extenders or straight from the queue.

A waiting pod stays assumed and takes none of the places for running binds. Its node is written as its nomination
(`Nominator.expect`), unless it waits for nothing but a place. If it does not get the node, the nomination is withdrawn.
The pod stays with its generation of the policy, even if the policy changes. Plugins can list, allow and reject waiting
pods (`berth.engine.binding_points.WaitingPods`). Their answers are carried out by the pod's own task, never inside a
step of another pod.

Each of the ends above is taken once: a later caller finds that the pod is no longer here.
"""

import asyncio
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
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
from berth.scheduler.object_events import ObjectEvent
from berth.scheduler.ports import Clock
from berth.scheduler.preemption.nominating import Nominator
from berth.scheduler.queue.queue import Queue
from berth.scheduler.reporting import Reporter


class Stage(StrEnum):
    """What an assumed pod waits for."""

    PERMIT = "permit"
    VOLUMES = "volumes"
    PRE_BIND = "pre_bind"
    PLACE = "place"  # other binds have to end first


@dataclass(slots=True, eq=False)
class _AssumedPod:
    """An assumed pod whose bind has not started yet."""

    assignment: Assignment
    plugins: BindingPlugins
    prepares: bool = False  # volumes or plugins have something to do before the bind
    is_prepared: bool = False  # it waits for a place only
    task: asyncio.Task[None] | None = None

    @property
    def uid(self) -> str:
        return self.assignment.pod.uid

    def permit_status(self, error: BaseException | None) -> str:
        return WAIT if error is None and self.plugins.is_waiting else _status(error)


def _status(error: BaseException | None) -> str:
    is_refusal = isinstance(error, Stopped) and not error.error
    return UNSCHEDULABLE if is_refusal else outcome(error)


class BindingCycle:
    """The pods between the decision and their bind."""

    def __init__(
        self,
        *,
        cache: Cache,
        queue: Queue,
        intake: EventIntake,
        volumes: VolumeBinder,
        binder: BackgroundBinder,
        nominator: Nominator,
        clock: Clock,
        reporter: Reporter,
        usage: Usage,
        errors: ErrorLog,
        measures: Measures,
    ) -> None:
        self._cache = cache
        self._queue = queue
        self._intake = intake
        self._volumes = volumes
        self._binder = binder
        self._nominator = nominator
        self._clock = clock
        self._reporter = reporter
        self._usage = usage
        self._errors = errors
        self._measures = measures
        self._entries: dict[str, _AssumedPod] = {}
        self._uids: dict[str, str] = {}  # by namespace/name: a new pod of that name shows that this one is gone
        self._tasks: dict[asyncio.Task[None], None] = {}  # in the order in which they began
        self.outcomes: Counter[str] = Counter()

    def __len__(self) -> int:
        return len(self._entries)

    def __contains__(self, uid: object) -> bool:
        return uid in self._entries

    @property
    def waiting(self) -> list[WaitingPod]:
        """The pods that wait on Permit."""
        return [entry.plugins.seen() for entry in self._entries.values() if entry.plugins.is_waiting]

    @property
    def pending(self) -> list[Pod]:
        """The pods that wait on Permit or for their volumes: they have a node, and are pending all the same."""
        waiting = (entry for entry in self._entries.values() if entry.plugins.is_waiting or entry.uid in self._volumes)
        return [entry.assignment.pod for entry in waiting]

    def stage_of(self, uid: str) -> tuple[Stage, tuple[str, ...]] | None:
        """What an assumed pod waits for before its bind starts: the plugins of Permit, or the claims without a volume.

        None if its bind has started, or if it is not assumed.
        """
        entry = self._entries.get(uid)
        if entry is None:
            return None
        if entry.plugins.is_waiting:
            return Stage.PERMIT, entry.plugins.seen().plugins
        if uid in self._volumes:
            return Stage.VOLUMES, self._volumes.claims_of(uid)
        return (Stage.PLACE if entry.is_prepared else Stage.PRE_BIND), ()

    # --- from the decision on ----------------------------------------------------------------------------------------

    def start(self, assignment: Assignment, planned: tuple[VolumePlan, float] | None) -> str | None:
        """Assume the pod and run the binding plugins; `planned` is how its volumes are bound. Returns at once: with the
        result of the attempt if it has already ended, else None.
        """
        pod, node_name, active = assignment.pod, assignment.node_name, assignment.active
        if planned is None and not active.stages:
            self._intake.assume(pod, node_name)
            if self._binder.take_place(assignment):
                self._binder.start(assignment)
            else:
                self._wait_for_place(_AssumedPod(assignment, self._plugins_for(assignment)))
            return None
        self._attach_handles(active.stages)
        plugins = self._plugins_for(assignment)
        entry = _AssumedPod(replace(assignment, plugins=plugins), plugins)
        try:
            self._intake.assume(pod, node_name, partial(self._begin, entry, planned))
        except Stopped as stop:
            return self._fail_at_once(assignment, stop)
        entry.prepares = planned is not None or plugins.prepares
        if entry.prepares or plugins.is_waiting:
            self._nominator.expect(pod, node_name)
        if plugins.is_waiting:
            self._reporter.waits_on_permit(pod, node_name, plugins.seen().plugins)
        if entry.prepares or plugins.is_waiting or not self._binder.take_place(entry.assignment):
            self._start_task(entry)
        elif not self._hand_over(entry):
            self._binder.give_place_back(entry.assignment)
        return None

    def _plugins_for(self, assignment: Assignment) -> BindingPlugins:
        pod, node_name, active = assignment.pod, assignment.node_name, assignment.active
        return BindingPlugins(pod, node_name, active, clock=self._clock, usage=self._usage, errors=self._errors)

    def _wait_for_place(self, entry: _AssumedPod) -> None:
        """An assumed pod that waits for nothing but a place."""
        self._enter(entry)
        self._start_task(entry)

    def _start_task(self, entry: _AssumedPod) -> None:
        entry.task = asyncio.get_running_loop().create_task(self._run(entry))
        self._tasks[entry.task] = None
        entry.task.add_done_callback(self._tasks.pop)

    def _enter(self, entry: _AssumedPod) -> None:
        self._entries[entry.uid], self._uids[entry.assignment.pod.key] = entry, entry.uid

    def _begin(self, entry: _AssumedPod, planned: tuple[VolumePlan, float] | None) -> None:
        """Run Reserve and Permit; raises Stopped, with everything undone."""
        self._enter(entry)
        try:
            self._reserve(entry, planned)
            with timed(entry.assignment.item.stopwatch, "Permit", entry.permit_status):
                entry.plugins.permit()
        except BaseException as error:
            is_refusal = isinstance(error, Stopped) and not error.error
            self._end(entry, "rejected" if is_refusal else "failed", seen=False)
            raise
        if entry.plugins.is_waiting:
            self._queue.lend(entry.assignment.item)

    def _reserve(self, entry: _AssumedPod, planned: tuple[VolumePlan, float] | None) -> None:
        with timed(entry.assignment.item.stopwatch, "Reserve", _status):
            if planned is not None:
                self._volumes.reserve(entry.assignment.pod, *planned)
            entry.plugins.reserve()

    def _fail_at_once(self, assignment: Assignment, stop: Stopped) -> str:
        item, backoff = assignment.item, assignment.active.policy.backoff
        if stop.rejecter is not None:
            self._queue.add_unschedulable(item, stop.rejecter.retry_events, backoff, blamed=(stop.rejecter.name,))
        else:
            self._queue.fail(item, backoff)
        self._report(assignment.pod, stop, self._nominator.withdraw)
        return "error" if stop.error else "unschedulable"

    def _attach_handles(self, plugins: Sequence[BindingPlugin]) -> None:
        for plugin in plugins:
            if "waiting" not in vars(plugin):
                plugin.waiting = _Handle(self, plugin)

    async def _run(self, entry: _AssumedPod) -> None:
        pod = entry.assignment.pod
        try:
            await self._prepare(entry)
            await self._binder.wait_place(entry.assignment)
        except Stopped as stop:
            self._fail(entry, stop)
        except NotBound as problem:
            self._fail(entry, Stopped(f'running PreBind plugin "VolumeBinding": {problem}', error=True))
        except Exception as error:
            self._errors.note("preparing the bind of", pod, error)
            self._fail(entry, Stopped(f"the scheduler failed: {type(error).__name__}: {error}", error=True))
        else:
            if not self._hand_over(entry):
                self._binder.give_place_back(entry.assignment)

    async def _prepare(self, entry: _AssumedPod) -> None:
        """Run everything that precedes the wait for a place; raises Stopped or NotBound."""
        await entry.plugins.wait()
        self._queue.write_off(entry.uid)
        if entry.uid in self._volumes:
            claims = self._volumes.claims_of(entry.uid)
            self._reporter.waits_for_volumes(entry.assignment.pod, entry.assignment.node_name, claims)
        if entry.prepares:
            with timed(entry.assignment.item.stopwatch, "PreBind"):
                await self._volumes.bind(entry.uid)
                await entry.plugins.pre_bind()
        entry.is_prepared = True

    def _hand_over(self, entry: _AssumedPod) -> bool:
        """Whether the bind has started, with the place that was taken for it; else the pod has ended here."""
        node_name = entry.assignment.node_name
        if entry.uid not in self._cache.assumed():
            self._abort(entry, "gone")
        elif entry.task is not None and self._cache.state.table.node(node_name) is None:  # removed since the decision
            self._fail(entry, Stopped(f'node "{node_name}" not found', error=True))
        elif self._leave(entry, "passed"):
            self._queue.write_off(entry.uid)
            self._binder.start(entry.assignment)
            return True
        return False

    # --- ends --------------------------------------------------------------------------------------------------------

    def on_event(self, event: ObjectEvent) -> None:
        """The pod of this name has changed: end its binding cycle if it no longer wants the node."""
        if event.kind != "Pod":
            return
        entry = self._entries.get(self._uids.get(event.identity.key, ""))
        if entry is None:
            return
        held = self._cache.assumed().get(entry.uid)
        if held is None or held.pod.deleting:
            self._abort(entry, "gone")

    def give_up(self, uid: str, reason: str = "preempted") -> bool:
        """Preempt an assumed pod: if its bind has not started, it is forgotten when this returns, and tried again after
        its backoff. Returns False if it is not assumed, or may be bound at any moment.
        """
        entry = self._entries.get(uid)
        if entry is None:
            return False
        if entry.plugins.is_waiting:
            doing = "waiting on permit for pod"
        elif entry.is_prepared:
            doing = "waiting for other binds to end"
        else:
            doing = 'running PreBind plugin "VolumeBinding"' if uid in self._volumes else "running PreBind plugins"
        self._fail(entry, Stopped(f"{doing}: {reason}", error=True), "preempted")
        self._cancel(entry)
        return True

    async def stop(self) -> None:
        """As `let_go`; returns when no task runs any more."""
        tasks = list(self._tasks)
        self.let_go()
        await asyncio.gather(*tasks, return_exceptions=True)

    def let_go(self) -> None:
        """Forget every pod whose bind has not started; the next leader begins again with it."""
        for entry in list(self._entries.values()):
            self._abort(entry, "cut_off")

    def _fail(self, entry: _AssumedPod, stop: Stopped, outcome: str = "") -> None:
        item, backoff = entry.assignment.item, entry.assignment.active.policy.backoff
        if stop.rejecter is not None:
            self._queue.recall(item, stop.rejecter.retry_events)
        if not self._end(entry, outcome or ("failed" if stop.error else "rejected")):
            return
        result = "error" if stop.error else "unschedulable"
        self._measures.ended(entry.assignment.pod.scheduler_name, result, item.tried)
        if stop.rejecter is not None:
            self._intake.make_unschedulable(item, stop.rejecter.retry_events, backoff, (stop.rejecter.name,))
        else:
            self._give_back(entry)
        self._report(entry.assignment.pod, stop, self._nominator.drop)

    def _report(self, pod: Pod, stop: Stopped, withdraw: Callable[[Pod], None]) -> None:
        """Report the failure, and withdraw the nomination: the node may reject the pod again."""
        self._reporter.rejected(pod, str(stop), error=stop.error)
        again = self._intake.wanted(pod.uid)
        if again is not None:
            withdraw(again)

    def _abort(self, entry: _AssumedPod, outcome: str) -> None:
        if self._end(entry, outcome):
            self._give_back(entry)
            self._cancel(entry)

    def _give_back(self, entry: _AssumedPod) -> None:
        self._queue.write_off(entry.uid)
        self._intake.give_back(entry.uid, entry.assignment.item.attempts, entry.assignment.item.queued)

    def _cancel(self, entry: _AssumedPod) -> None:
        if entry.task is not None:
            entry.task.cancel()

    def _end(self, entry: _AssumedPod, outcome: str, *, seen: bool = True) -> bool:
        """Undo all reservations; False if that has been done before."""
        if not self._leave(entry, outcome):
            return False
        entry.plugins.end(bound=False)
        self._volumes.release(entry.uid, outcome, seen=seen)
        return True

    def _leave(self, entry: _AssumedPod, outcome: str) -> bool:
        if self._entries.get(entry.uid) is not entry:
            return False
        del self._entries[entry.uid]
        if self._uids.get(entry.assignment.pod.key) == entry.uid:
            del self._uids[entry.assignment.pod.key]
        self.outcomes[outcome] += 1
        return True

    # --- answers of plugins to waiting pods --------------------------------------------------------------------------

    def allow(self, uid: str, plugin: str) -> bool:
        """The plugin of this name allows the pod; False if the pod does not wait for it."""
        entry = self._entries.get(uid)
        return entry is not None and entry.plugins.allow(plugin)

    def reject(self, uid: str, plugin: BindingPlugin, reason: str) -> bool:
        """The plugin rejects the pod; False if the pod does not wait."""
        if not is_reason(reason):
            raise ValueError(f"a rejection has a reason, not {reason!r}")
        entry = self._entries.get(uid)
        return entry is not None and entry.plugins.reject(plugin, reason)


class _Handle:
    """Implements `berth.engine.binding_points.WaitingPods` for one plugin."""

    def __init__(self, binding_cycle: BindingCycle, plugin: BindingPlugin) -> None:
        self._binding_cycle = binding_cycle
        self._plugin = plugin

    def pods(self) -> Sequence[WaitingPod]:
        return self._binding_cycle.waiting

    def allow(self, uid: str) -> bool:
        return self._binding_cycle.allow(uid, self._plugin.name)

    def reject(self, uid: str, reason: str) -> bool:
        return self._binding_cycle.reject(uid, self._plugin, reason)
