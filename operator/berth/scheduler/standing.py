"""Where a pod stands that is not bound yet: in the queue, or on its way from the decision to the bind."""

from dataclasses import dataclass

from berth.engine.events import Event
from berth.scheduler.binding.binding_cycle import BindingCycle, Stage
from berth.scheduler.cache.cache import Cache
from berth.scheduler.cache.changes import NOTHING
from berth.scheduler.ports import Clock
from berth.scheduler.queue.queue import Part, Queue, QueuedPod


@dataclass(frozen=True, slots=True)
class Standing:
    """`part` of the queue, or `stage` of an assumed pod; both None: its bind is running.

    `waited_seconds`: since the pod first wanted a node. `due_seconds`: in how long it is tried at the latest, None if
    that depends on others. `waits_for`: plugins of Permit, or claims.
    """

    part: Part | None = None
    stage: Stage | None = None
    node: str = ""
    waited_seconds: float | None = None
    due_seconds: float | None = None
    attempts: int | None = None
    place: int | None = None
    retried_on: frozenset[Event] = NOTHING
    waits_for: tuple[str, ...] = ()


def standing_of(uid: str, queue: Queue, cache: Cache, stages: BindingCycle, clock: Clock) -> Standing | None:
    """Returns where the pod stands; None if it is neither queued nor assumed."""
    item = queue.item(uid)
    if item is not None:
        return _queued(item, queue, clock.now())
    assumed = cache.assumed().get(uid)
    if assumed is None:
        return None
    stage, waits_for = stages.stage_of(uid) or (None, ())
    return Standing(stage=stage, node=assumed.node_name, waits_for=waits_for)


def _queued(item: QueuedPod, queue: Queue, now: float) -> Standing:
    due = None
    if item.part is Part.BACKOFF:
        due = item.ready - now
    elif item.part is Part.UNSCHEDULABLE:
        due = item.since + item.backoff.flush_seconds - now
    return Standing(
        part=item.part,
        waited_seconds=None if item.queued is None else now - item.queued,
        due_seconds=None if due is None else max(due, 0.0),
        attempts=item.attempts,
        place=queue.place_of(item),
        retried_on=item.retry_events if item.part is Part.UNSCHEDULABLE else NOTHING,
    )
