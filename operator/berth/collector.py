"""The garbage collector in a process whose heap is large and lives long.

Left to itself, Python's collector now and then walks through everything that lives, between two decisions: a third of
a second for 50,000 pods. Records of pods and nodes hold no cycles, and are freed when the last reference to them
goes; the collector is needed for the little that does hold cycles, tasks and exceptions mostly, which dies young.

    young objects     collected often, a few thousand at a time: some milliseconds
    old objects       collected by `tend` while they are few, then frozen: the collector does not look at them again
    frozen objects    are freed as any others when nothing refers to them; what has become a cycle since stays

So that such cycles cannot pile up, everything is collected once more when twice as many objects are frozen as were
the last time. That is one long step; a cluster that has grown so much has had longer ones.
"""

import gc
import logging
import time

THRESHOLDS = (4_000, 2, 1_000_000)  # young objects, young collections, never
OLD_AT_ONCE = 1  # middle collections, of some 12,000 objects each, whose survivors are collected in one step
GROWTH = 2.0
LEAST_FROZEN = 200_000  # below that a full collection is short, and the growth is that of the start
LOOK_SECONDS = 600.0  # frozen objects are counted one by one

_log = logging.getLogger(__name__)


class Collector:
    """Takes the garbage collector of this process over, from `start` to `stop`."""

    def __init__(self) -> None:
        self._thresholds = gc.get_threshold()
        self._frozen = 0  # when that was last looked at, and nothing collected since
        self._looked_seconds = time.monotonic()

    def start(self) -> None:
        """Modules have been imported: they stay."""
        gc.freeze()
        gc.set_threshold(*THRESHOLDS)

    def settle(self) -> None:
        """The cluster has been read: it stays, too. Takes no time, as nothing is collected."""
        gc.freeze()

    def tend(self) -> None:
        """To be called now and then."""
        collections = gc.get_count()[2]
        if not collections:
            return
        if collections <= OLD_AT_ONCE:
            gc.collect()
        gc.freeze()
        if time.monotonic() - self._looked_seconds >= LOOK_SECONDS:
            self.look()

    def look(self) -> None:
        """Collect everything if much more is frozen than was the last time."""
        begun_seconds = self._looked_seconds = time.monotonic()
        frozen = max(gc.get_freeze_count(), LEAST_FROZEN)
        if self._frozen and frozen > GROWTH * self._frozen:
            gc.unfreeze()
            found = gc.collect()
            gc.freeze()
            frozen = max(gc.get_freeze_count(), LEAST_FROZEN)
            taken_seconds = time.monotonic() - begun_seconds
            _log.info("Collected %d objects in %.3f s: many more had been frozen", found, taken_seconds)
        if not self._frozen or frozen > self._frozen:
            self._frozen = frozen

    def stop(self) -> None:
        gc.set_threshold(*self._thresholds)
        gc.unfreeze()
