"""Which cluster answers, and whether it is still in the time in which it was.

The UID of namespace kube-system tells clusters apart: each has one, none shares it, none ever changes it. The first one
that is seen is remembered. Another one means that requests reach another cluster (a kubeconfig that was replaced, an
address that was given away, a cluster that was made anew under its old name): what is known is about the first, so this
process must not act on the second. `on_other` is called once, and nothing is believed any more.

The same list of one namespace carries the version that the whole store has come to. Where it falls, the store was
restored from a backup. It is requested a second time, since one answer alone may come from anywhere, then `on_rewound`
is called.

A cluster without the namespace cannot be distinguished from others; nothing follows from that.
"""

import logging
from collections.abc import Callable

from berth.cluster.api import Api
from berth.cluster.errors import ApiError, Malformed, OtherCluster, Unreachable
from berth.cluster.listing import Listing, WatchedResource, list_metadata

ASK_SECONDS = 5.0
SYSTEM = "kube-system"
NAMESPACE = WatchedResource(
    "Namespace", "", "v1", "namespaces", namespaced=False, field_selector=f"metadata.name={SYSTEM}"
)

_log = logging.getLogger(__name__)


class SeenCluster:
    """The cluster that this process began with. The first contact and the runtime share it: what either sees counts."""

    def __init__(self) -> None:
        self.uid = ""
        """Of kube-system as it was first seen; empty before that."""
        self.newest = 0
        """The greatest version that the store has come to."""

    def note_uid(self, uid: str) -> None:
        """The first one counts."""
        self.uid = self.uid or uid

    def note_version(self, version: int) -> None:
        self.newest = max(self.newest, version)

    def start_over(self) -> None:
        """The store has gone back in time: versions count from where they are now."""
        self.newest = 0


def _ignore(_: str) -> None:
    """At the first contact: what is seen first is neither another cluster nor an older one."""


class ClusterIdentity:
    """Asked before a list that removes much is believed, and now and then."""

    def __init__(
        self,
        api: Api,
        seen: SeenCluster,
        *,
        on_other: Callable[[str], None] = _ignore,
        on_rewound: Callable[[str], None] = _ignore,
    ) -> None:
        self._api = api
        self._seen = seen
        self._on_other = on_other
        self._on_rewound = on_rewound
        self.problem = ""
        """That another cluster has answered, once one has."""

    async def ask(self, timeout_seconds: float = ASK_SECONDS) -> None:
        """Raises OtherCluster; ApiError, Unreachable or Malformed where the server does not say."""
        listing = await self._list(timeout_seconds)
        seen = self._seen
        if 0 < listing.number < seen.newest:
            listing = await self._list(timeout_seconds)
        if 0 < listing.number < seen.newest:
            self._on_rewound(f"the API server is at version {listing.number}, after {seen.newest}")
        else:
            seen.note_version(listing.number)

    async def probe(self, timeout_seconds: float = ASK_SECONDS) -> Unreachable | None:
        """Why the API server gives no answer; None when it gives one. ApiError: it does not know us (401)."""
        try:
            await self.ask(timeout_seconds)
        except ApiError as error:
            if error.status == 401:
                raise
        except Malformed as error:
            _log.debug("Which cluster answers is unknown: %s", error)
        except Unreachable as error:
            return error
        return None

    async def _list(self, timeout_seconds: float) -> Listing:
        listing = await list_metadata(self._api, NAMESPACE, timeout_seconds=timeout_seconds)
        self.check(listing)
        return listing

    def check(self, listing: Listing) -> None:
        """That a list of namespaces is of this cluster; raises OtherCluster, or Malformed if kube-system is missing."""
        for uid, name in listing.objects.items():
            if name == SYSTEM:
                self.note(uid)
        if self._seen.uid and self._seen.uid not in listing.objects:
            raise Malformed(f"the list of namespaces lacks {SYSTEM}")

    def note(self, uid: str) -> None:
        """Namespace kube-system has this UID where the answer comes from. Raises OtherCluster."""
        seen = self._seen
        seen.note_uid(uid)
        if uid != seen.uid and not self.problem:
            self.problem = f"another cluster answers: namespace {SYSTEM} has UID {uid}, and had {seen.uid}"
            self._on_other(self.problem)
        if self.problem:
            raise OtherCluster("another cluster answers")

    def start_over(self) -> None:
        """Versions count from where they are now."""
        self._seen.start_over()
