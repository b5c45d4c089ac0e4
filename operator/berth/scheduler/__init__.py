"""The scheduling loop on injected ports. Nothing here depends on kopf, HTTP or the machine's clock.

scheduler       Scheduler, the entry point: takes events, decides, and writes through the `Cluster` port
wiring          builds the components of the loop, each by its constructor
object_events   an object was added, modified or removed, and how components hear of it
event_intake    the one place where cache and queue are updated together
cache/          the cluster as the watches report it, plus assumed pods
queue/          pods that wait for a node: active, backing off, unschedulable
cycle           the scheduling cycle: one attempt to place one pod
extenders/      calls to extenders during an attempt
binding/        the binding cycle: from an assumed pod to a bound one, and the confirmation by the watch
preemption/     evicts victims, nominates preemptors
shadow          policies in Shadow mode
reporting       Events and the PodScheduled condition
measures, dump, log_fields, error_log     metrics, state dump and logging
ports, access_review                      interfaces that the operator layer implements
waiting         waits on the injected clock
"""

from typing import TYPE_CHECKING

from berth.later import names_of
from berth.scheduler.ports import (
    BindRefused,
    Clock,
    Cluster,
    NotEvicted,
    NotLeading,
    NotWritten,
    OutcomeUnknown,
    PodEvent,
    Random,
    Unavailable,
)

if TYPE_CHECKING:
    from berth.scheduler.cache.cache import Cache
    from berth.scheduler.queue.queue import Queue
    from berth.scheduler.scheduler import Scheduler
else:  # a client of the API server needs the ports only: do not import the engine for it
    __getattr__ = names_of(
        __name__, {"cache.cache": ("Cache",), "queue.queue": ("Queue",), "scheduler": ("Scheduler",)}
    )

__all__ = [
    "BindRefused",
    "Cache",
    "Clock",
    "Cluster",
    "NotEvicted",
    "NotLeading",
    "NotWritten",
    "OutcomeUnknown",
    "PodEvent",
    "Queue",
    "Random",
    "Scheduler",
    "Unavailable",
]
