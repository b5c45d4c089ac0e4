"""Versions: what a watch goes on from.

There is no store behind these objects, so their versions are numbers that we give: each answer has a higher one than
the one before, also after a restart, because it begins with the time. Of the latest lists it is remembered what was in
them, as a fingerprint of each object. A watch that begins with such a version is told what has changed since. A version
that is not remembered has expired (410), and the client lists again.
"""

import hashlib
from collections import OrderedDict
from collections.abc import Callable

import orjson

from berth.explain_api.port import Body, Key

State = dict[Key, bytes]  # the fingerprints of a list

MOST_STATES = 64
MOST_FINGERPRINTS = 50_000


def fingerprint(body: Body) -> bytes:
    """Returns what is equal for two bodies that say the same."""
    return hashlib.blake2b(orjson.dumps(body, option=orjson.OPT_SORT_KEYS), digest_size=8).digest()


def key_of(body: Body) -> Key:
    metadata = body["metadata"]
    return metadata.get("namespace", ""), metadata["name"]


class Versions:
    """Gives versions, and remembers the latest states. Lives in the serving loop."""

    def __init__(self, wall: Callable[[], float]) -> None:
        self._wall = wall
        self._latest = 0
        self._states: OrderedDict[int, State] = OrderedDict()
        self._size = 0

    def next(self) -> int:
        self._latest = max(self._latest + 1, int(self._wall() * 1000))
        return self._latest

    def remember(self, version: int, state: State) -> None:
        """The list of this version has these objects; those of further pages are added to what is known of it."""
        before = self._states.pop(version, {})
        self._size -= len(before)
        self._states[version] = before | state
        self._size += len(self._states[version])
        while self._states and (len(self._states) > MOST_STATES or self._size > MOST_FINGERPRINTS):
            self._size -= len(self._states.popitem(last=False)[1])

    def recall(self, version: str) -> State | None:
        """Returns what was in the list of this version; None if that is not known any more."""
        if not (version.isascii() and version.isdigit()) or len(version) > 18:
            return None
        state = self._states.get(int(version))
        return None if state is None else dict(state)

    def forget(self, version: int) -> None:
        self._size -= len(self._states.pop(version, {}))

    def statistics(self) -> dict[str, int]:
        return {"states": len(self._states), "fingerprints": self._size}
