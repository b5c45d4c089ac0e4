"""Incidents: two answers of the API server after which this process cannot go on as usual, and what follows at once.

    another cluster answers      nothing is decided, written or taken any more, the replica is not ready
    the store has gone back in   decisions stop; everything starts over from fresh lists
    time (a restored backup)

They are noticed by `cluster/identity.py` and `cluster/cache_sync.py`. What takes longer is done by `Recovery`, which
waits for the events here. It is a component of its own because it stops and starts the cache sync, which reports here.
"""

import asyncio
import logging

from berth.cluster.api import Api
from berth.cluster.identity import SeenCluster
from berth.cluster.leadership import Leadership
from berth.runtime.decisions import Decisions
from berth.runtime.watch_control import WatchControl

_log = logging.getLogger(__name__)


class Incidents:
    """Reacts in the same step in which an incident is noticed."""

    def __init__(
        self,
        decisions: Decisions,
        watch_control: WatchControl,
        api: Api,
        leadership: Leadership | None,
        seen_cluster: SeenCluster,
    ) -> None:
        self._decisions = decisions
        self._watch_control = watch_control
        self._api = api
        self._leadership = leadership
        self._seen_cluster = seen_cluster
        self.other_cluster = asyncio.Event()
        """Set for good when another cluster has answered."""
        self.rewound = asyncio.Event()
        """Set while everything starts over, because the store has gone back in time."""

    def on_other_cluster(self, problem: str) -> None:
        """Another cluster answers. What is known stays as it is, and nothing is decided or written any more."""
        _log.critical(
            "%s. Nothing is decided, written or removed any more. See that the address and the kubeconfig are those of "
            "the right cluster, then start Berth again",
            problem[0].upper() + problem[1:],
            extra={"was": self._seen_cluster.uid},
        )
        self._watch_control.ignore_events()
        self._api.stop_writing("another cluster answers")
        if self._leadership is not None:
            self._leadership.fall_silent()
        self._decisions.close()
        self.other_cluster.set()

    def on_rewound(self, words: str) -> None:
        """The store has gone back in time: start over, once for all who notice."""
        if self.other_cluster.is_set() or self.rewound.is_set():
            return
        _log.error(
            "The API server's store has gone back in time, as after a restore from a backup (%s): decisions stop until "
            "everything has been listed again",
            words,
        )
        self._decisions.suspend()
        self.rewound.set()
