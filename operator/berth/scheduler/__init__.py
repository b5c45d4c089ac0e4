"""The scheduling loop: cache, queue, cycle and binding, on injected ports.

`Scheduler` is the door: the edge tells it what the cluster says, it decides, and it asks the `Cluster` port to write.
Nothing here knows kopf, HTTP or the time of day of the machine.
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
    from berth.scheduler.cache import Cache
    from berth.scheduler.queue import Queue
    from berth.scheduler.scheduler import Scheduler
else:  # a request needs the ports, and not the engine that is behind these
    __getattr__ = names_of(__name__, {"cache": ("Cache",), "queue": ("Queue",), "scheduler": ("Scheduler",)})

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
