"""Scheduler: the entry point of the scheduling loop. It takes watch events, decides, and writes through the ports.

    watches --observe/remove--> EventIntake --> Cache, Queue, PolicyStore
                                                   |
                    pop <--- Queue                 v
                     |                           State
                     v                             |
                   Cycle --- decide ---------------+   (extenders are called first if the policy has any)
                     |--- no node: Preempting evicts victims, or the pod becomes unschedulable; report
                     |--- a node: BindingCycle (assume; plugins, VolumeBinder), BackgroundBinder --> Cluster port
                     +--- either: Shadows evaluate the pod later
                                   BindConfirmations: has the watch confirmed what was bound?

Everything runs on one event loop. Only `run` and the tasks that it starts ever wait. `observe` and `remove` are plain
calls that never raise: an event that causes an error affects nothing but itself.

What it does not do: decide when decisions may be made. The operator layer calls `open` once the cache is synced, and
`close` when it is not.
"""

import asyncio
from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any

from berth.engine.events import Event
from berth.policy.policy_store import PolicyStore
from berth.scheduler.binding.bind_confirmations import BindConfirmations
from berth.scheduler.binding.binding import BackgroundBinder
from berth.scheduler.binding.binding_cycle import BindingCycle
from berth.scheduler.binding.volumes import VolumeBinder
from berth.scheduler.cache.cache import Cache
from berth.scheduler.cycle import Cycle
from berth.scheduler.error_log import ErrorLog
from berth.scheduler.event_intake import EventIntake
from berth.scheduler.measures import Measures
from berth.scheduler.ports import Attempts, Clock, Cluster, ExtenderPort, Random
from berth.scheduler.preemption.preempting import Preempting
from berth.scheduler.queue.queue import Queue
from berth.scheduler.queue.queueing_hints import QueueingHints
from berth.scheduler.reporting import Reporter
from berth.scheduler.shadow import Shadows

DRAIN_SECONDS = 25.0
COUNTED_AT_ONCE = 1000


class Scheduler:
    """The facade over cache, queue, scheduling cycle and binding cycle."""

    def __init__(
        self,
        *,
        cache: Cache,
        queue: Queue,
        policies: PolicyStore,
        cluster: Cluster,
        clock: Clock,
        random: Random,
        extenders: Callable[[Attempts], ExtenderPort] | None = None,
        bind_limit: int = 64,
        drain_seconds: float = DRAIN_SECONDS,
        hints: bool = True,
        expectation: bool = True,
    ) -> None:
        """`hints`: queueing hints are on. An event moves an unschedulable pod back to the active queue only if the
        plugins that rejected it say that the event may help.

        `expectation`: while a pod waits for Permit or for its volumes, `status.nominatedNodeName` names its node.
        """
        self._cache = cache
        self._queue = queue
        self._policies = policies
        self._clock = clock
        self._drain_seconds = drain_seconds
        self._stopping = asyncio.Event()
        self._faults = ErrorLog()
        self._measures = Measures(clock)
        self._hints = queue.hints = QueueingHints(cache.state, self._faults) if hints else None
        reporter = Reporter(cluster, self._faults)
        self._intake = EventIntake(cache, queue, policies, reporter)
        self._echoes = BindConfirmations(cache, self._intake, cluster, clock, self._faults)
        self._binder = BackgroundBinder(
            cache=cache,
            intake=self._intake,
            echoes=self._echoes,
            cluster=cluster,
            clock=clock,
            reporter=reporter,
            usage=policies.usage,
            faults=self._faults,
            measures=self._measures,
            limit=bind_limit,
        )
        self._volumes = VolumeBinder(
            cache=cache,
            queue=queue,
            cluster=cluster,
            clock=clock,
        )
        self._stages = BindingCycle(
            cache=cache,
            queue=queue,
            intake=self._intake,
            volumes=self._volumes,
            binder=self._binder,
            clock=clock,
            reporter=reporter,
            usage=policies.usage,
            faults=self._faults,
            measures=self._measures,
        )
        self._preempting = Preempting(
            cache=cache,
            queue=queue,
            policies=policies,
            intake=self._intake,
            cluster=cluster,
            clock=clock,
            random=random,
            reporter=reporter,
            faults=self._faults,
            give_up=self._stages.give_up,
        )
        self._shadows = Shadows(policies=policies, cache=cache, clock=clock, faults=self._faults)
        self._cycle = Cycle(
            cache=cache,
            queue=queue,
            policies=policies,
            intake=self._intake,
            stages=self._stages,
            preempting=self._preempting,
            shadows=self._shadows,
            reporter=reporter,
            faults=self._faults,
            measures=self._measures,
            clock=clock,
            random=random,
        )
        self._extenders = self._cycle.extenders = extenders(self._cycle) if extenders is not None else None
        self._preempting.extenders = self._extenders
        self._stages.withdraw = self._preempting.withdraw
        self._stages.drop = self._binder.drop = self._preempting.drop
        if expectation:
            self._stages.expect = self._preempting.expect
        queue.close()
        policies.on_deciders(self._intake.follow_policies)

    # --- events of the cluster -----------------------------------------------------------------------------------

    def observe(self, kind: str, body: Mapping[str, Any]) -> None:
        """Handle an added or modified object of the watch. Never raises."""
        try:
            self._intake.observe(kind, body)
            self._hear_of(kind, body)
            self._volumes.heard(kind, body)
        except Exception as error:
            self._faults.note("observing", f"{kind} {_name(body)}", error, **_fields(kind, body))

    def remove(self, kind: str, body: Mapping[str, Any], *, told: bool = True) -> None:
        """Handle the deletion of the object with this UID. Never raises.

        `told`: the watch reported the deletion. False: a list does not contain the object.
        """
        try:
            uid = self._cache.uid_of(kind, body) if kind == "Pod" else ""
            self._intake.remove(kind, body, told=told)
            self._hear_of(kind, body, uid)
            self._volumes.heard(kind, body)
        except Exception as error:
            self._faults.note("removing", f"{kind} {_name(body)}", error, **_fields(kind, body))

    def _hear_of(self, kind: str, body: Mapping[str, Any], uid: str = "") -> None:
        """Notify the parts that wait for events of certain objects.

        `uid` is the UID of a removed pod: the cache no longer knows it.
        """
        if kind == "Pod":
            uid = uid or self._cache.uid_of(kind, body)
            self._stages.heard(self._cache.key_of(kind, body))
            self._echoes.heard(uid)
            self._preempting.look(uid)
            if self._extenders is not None:
                self._extenders.look(uid)
        elif kind == "Node":
            self._preempting.look_at_node(self._cache.key_of(kind, body))

    # --- the loop ------------------------------------------------------------------------------------------------

    def open(self) -> None:
        """Allow decisions: the cache is synced."""
        if not self._stopping.is_set():
            self._preempting.lead()
            self._queue.open()
            self._intake.complain()

    def close(self) -> None:
        """Make no decision until `open` is called again; running binds continue."""
        self._queue.close()

    def stand_by(self) -> None:
        """Another replica leads from now on: stop deciding, abort binding cycles, drop nominations that are only in
        memory.

        Binds that were already sent run to their end; cache and queue stay up to date.
        """
        self._queue.close()
        self._stages.let_go()
        self._preempting.stand_by()

    def take_over(self) -> None:
        """This replica leads from now on: open, and try every pod as if it were new."""
        self.open()
        self._queue.wake({Event.POLICY})

    async def settle(self) -> None:
        """Wait after `stand_by` until the binds and evictions that were sent have ended or timed out."""
        await asyncio.gather(self._binder.drain(self._drain_seconds), self._preempting.drain(self._drain_seconds))

    def echo_is_missing(self, seconds: float) -> bool:
        """Whether an acknowledged bind has not been confirmed by the watch for this many seconds."""
        return self._echoes.is_missing(seconds)

    async def run(self) -> None:
        """Decide until stopped, then wait for running binds. An unexpected error ends the loop and is raised."""
        work = [asyncio.ensure_future(run) for run in (self._decide_on_each(), self._echoes.run(), self._shadows.run())]
        stop = asyncio.ensure_future(self._stopping.wait())
        try:
            done, _ = await asyncio.wait([*work, stop], return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                task.result()
        finally:
            for task in (*work, stop):
                task.cancel()
            await asyncio.gather(*work, stop, return_exceptions=True)
            await self._drain()

    async def stop(self) -> None:
        """Make no new decision; return when the running binds have ended or timed out."""
        self._queue.close()
        self._stopping.set()
        await self._drain()

    async def _drain(self) -> None:
        if self._extenders is not None:
            await self._extenders.stop()
        await self._stages.stop()
        await asyncio.gather(self._binder.drain(self._drain_seconds), self._preempting.drain(self._drain_seconds))

    async def _decide_on_each(self) -> None:
        while True:
            await self._binder.wait_slot()
            self._cycle.attempt(await self._queue.pop())
            # Watch events, responses to binds and all other tasks run between any two decisions.
            await self._clock.sleep(0)

    # --- statistics ----------------------------------------------------------------------------------------------

    async def count_pending(self) -> None:
        """Count the pending pods of each policy for its status.

        The pods are counted in chunks, so that no decision is delayed.
        """
        counts: Counter[str] = Counter()
        waiting = self._queue.waiting()
        for begin in range(0, len(waiting), COUNTED_AT_ONCE):
            chosen = map(self._intake.policy_for, waiting[begin : begin + COUNTED_AT_ONCE])
            counts.update(active.policy.name for active in chosen if active is not None)
            await self._clock.sleep(0)
        self._policies.usage.pending_is(counts)

    def statistics(self) -> dict[str, Any]:
        """Nested counts by topic: gauges of what exists, counters of what has happened."""
        return {
            "queue": self._queue.statistics(),
            "hints": {} if self._hints is None else dict(self._hints.counts),
            "cache": self._cache.statistics(),
            "attempts": self._measures.results,
            "measures": self._measures.statistics(self._policies.scheduler_names()),
            "incoming": self._queue.tally.incoming(),
            "blamed": dict(self._queue.tally.blamed),
            "binds": {"running": len(self._binder), "waiting": self._binder.waiting, **self._binder.outcomes},
            "stages": {"running": len(self._stages), "waiting": len(self._stages.waiting), **self._stages.outcomes},
            "volumes": {"waiting": len(self._volumes), **self._volumes.outcomes},
            "preemption": self._preempting.statistics(),
            "shadows": {"waiting": len(self._shadows)},
            "extenders": dict(self._extenders.statistics()) if self._extenders is not None else {},
            "echo_missing": self._echoes.missing,
            "policies": self._policies.statistics(),
            "faults": dict(self._faults.counts),
        }


def _name(body: object) -> str:
    metadata = body.get("metadata") if isinstance(body, Mapping) else None
    if not isinstance(metadata, Mapping):
        return "without a name"
    return "/".join(str(metadata[part]) for part in ("namespace", "name") if metadata.get(part))


def _fields(kind: str, body: object) -> dict[str, str]:
    """The log fields that name the object of an event."""
    return {"kind": kind, **({kind.lower(): _name(body)} if kind in ("Pod", "Node") else {})}
