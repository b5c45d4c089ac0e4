"""The scheduling loop on injected ports. Nothing here knows kopf, HTTP or the time of day of the machine.

scheduler       Scheduler, the entry point: is told what the cluster says, decides, and has the `Cluster` port write
event_intake    the one place where cache and queue are kept in step with events
cache/          the cluster as the watches tell it, plus assumed pods
queue/          pods that wait for a node: active, backing off, unschedulable
cycle           one attempt to place one pod
extenders/      what extenders are asked during an attempt
binding/        from an assumed pod to a bound one: plugins, volumes, the bind itself, its confirmation
preemption/     victims are evicted, preemptors are nominated
shadow          policies in Shadow mode
reporting       Events and the PodScheduled condition
measures, dump, log_fields, error_log     what can be seen of all that
ports, access_review                      interfaces that the edge implements
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
else:  # a request needs the ports, and not the engine that is behind these
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
