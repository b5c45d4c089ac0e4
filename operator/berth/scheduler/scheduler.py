"""Scheduler: the entry point of the scheduling loop. It takes events, decides, and writes through the ports.

    watches --on_event--> EventIntake --> Cache, Queue, PolicyStore
                 |                           |
                 |  pop <--- Queue           v
                 |   |                     State
                 |   v                       |
                 | Cycle --- decide ---------+   (extenders are called first if the policy has any)
                 |   |--- no node: Preempting evicts victims, or the pod becomes unschedulable; report
                 |   |--- a node: BindingCycle (assume; plugins, VolumeBinder), BackgroundBinder --> Cluster port
                 |   +--- either: Shadows evaluate the pod later
                 +--> every other component that waits for events (`LoopComponents.listeners`)

Everything runs on one event loop. Only `run` and the tasks that it starts ever wait. `on_event` is a plain call that
never raises: an event that causes an error affects nothing but itself. How the components are built is in `wiring`.

What it does not do: decide when decisions may be made. The operator layer calls `open` once the cache is synced, and
`close` when it is not.
"""

import asyncio
from collections import Counter
from typing import Any

from berth.engine.events import Event
from berth.scheduler.object_events import ObjectEvent
from berth.scheduler.standing import Standing, standing_of
from berth.scheduler.wiring import LoopComponents

DRAIN_SECONDS = 25.0
COUNTED_AT_ONCE = 1000


class Scheduler:
    """The facade over cache, queue, scheduling cycle and binding cycle. It makes no decision before `open`."""

    def __init__(self, components: LoopComponents, *, drain_seconds: float = DRAIN_SECONDS) -> None:
        self.components = components
        self._listeners = components.listeners()
        self._queue = components.queue
        self._clock = components.clock
        self._errors = components.errors
        self._drain_seconds = drain_seconds
        self._stopping = asyncio.Event()
        self._queue.close()

    # --- events of the cluster -----------------------------------------------------------------------------------

    def on_event(self, event: ObjectEvent) -> None:
        """Handle an added, modified or removed object. Never raises: an error affects this event alone."""
        try:
            for listener in self._listeners:
                listener.on_event(event)
        except Exception as error:
            doing = "removing" if event.is_removal else "observing"
            self._errors.note(doing, f"{event.kind} {event.identity.key}", error, **_fields(event))

    # --- the loop ------------------------------------------------------------------------------------------------

    def open(self) -> None:
        """Allow decisions: the cache is synced."""
        if not self._stopping.is_set():
            self.components.nominator.start_leading()
            self._queue.open()
            self.components.intake.complain()
            self.components.unserved_names.check()

    def close(self) -> None:
        """Make no decision until `open` is called again; running binds continue."""
        self._queue.close()

    def stand_by(self) -> None:
        """Another replica leads from now on: stop deciding, abort binding cycles, drop nominations that are only in
        memory.

        Binds that were already sent run to their end; cache and queue stay up to date.
        """
        self._queue.close()
        self.components.binding_cycle.let_go()
        self.components.nominator.stand_by()

    def take_over(self) -> None:
        """This replica leads from now on: open, and try every pod as if it were new."""
        self.open()
        self._queue.wake({Event.POLICY})

    async def settle(self) -> None:
        """Wait after `stand_by` until the binds and evictions that were sent have ended or timed out."""
        binder, preempting = self.components.binder, self.components.preempting
        await asyncio.gather(binder.drain(self._drain_seconds), preempting.drain(self._drain_seconds))

    async def run(self) -> None:
        """Decide until stopped, then wait for running binds. An unexpected error ends the loop and is raised."""
        runs = self._decide_on_each(), self.components.confirmations.run(), self.components.shadows.run()
        work = [asyncio.ensure_future(run) for run in runs]
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
        if self.components.extenders is not None:
            await self.components.extenders.stop()
        await self.components.binding_cycle.stop()
        await self.settle()

    async def _decide_on_each(self) -> None:
        binder, cycle = self.components.binder, self.components.cycle
        while True:
            await binder.wait_slot()
            item = await self._queue.pop()
            cycle.attempt(item)
            # Watch events, responses to binds and all other tasks run between any two decisions.
            await self._clock.sleep(0)

    # --- statistics ----------------------------------------------------------------------------------------------

    async def count_pending(self) -> None:
        """Count the pending pods of each policy for its status, with those that wait on Permit or for volumes.

        The pods are counted in chunks, so that no decision is delayed.
        """
        counts: Counter[str] = Counter()
        waiting = [*self._queue.waiting(), *self.components.binding_cycle.pending]
        for begin in range(0, len(waiting), COUNTED_AT_ONCE):
            chosen = map(self.components.intake.policy_for, waiting[begin : begin + COUNTED_AT_ONCE])
            counts.update(active.policy.name for active in chosen if active is not None)
            await self._clock.sleep(0)
        self.components.policies.usage.pending_is(counts)

    @property
    def missing_confirmations(self) -> int:
        """The number of acknowledged binds that the watch has not confirmed in time."""
        return self.components.confirmations.missing

    def standing(self, uid: str) -> Standing | None:
        """Where the pod stands that is not bound yet; None if it is neither queued nor assumed."""
        parts = self.components
        return standing_of(uid, parts.queue, parts.cache, parts.binding_cycle, parts.clock)

    def statistics(self) -> dict[str, Any]:
        """Nested counts by topic: gauges of what exists, counters of what has happened."""
        of = self.components
        return {
            "queue": of.queue.statistics(),
            "hints": {} if of.queue.hints is None else dict(of.queue.hints.counts),
            "cache": of.cache.statistics(),
            "attempts": of.measures.results,
            "measures": of.measures.statistics(of.policies.scheduler_names()),
            "incoming": of.queue.counters.incoming(),
            "blamed": dict(of.queue.counters.blamed),
            "binds": {"running": len(of.binder), "waiting": of.binder.waiting, **of.binder.outcomes},
            "stages": {
                "running": len(of.binding_cycle),
                "waiting": len(of.binding_cycle.waiting),
                **of.binding_cycle.outcomes,
            },
            "volumes": {"waiting": len(of.volumes), **of.volumes.outcomes},
            "preemption": of.preempting.statistics(),
            "shadows": {"waiting": len(of.shadows)},
            "decision_memory": of.decision_memory.statistics(),
            "extenders": dict(of.extenders.statistics()) if of.extenders is not None else {},
            "echo_missing": of.confirmations.missing,
            "policies": of.policies.statistics(),
        }


def _fields(event: ObjectEvent) -> dict[str, str]:
    """The log fields that name the object of an event."""
    kind = event.kind
    return {"kind": kind, **({kind.lower(): event.identity.key} if kind in ("Pod", "Node") else {})}
