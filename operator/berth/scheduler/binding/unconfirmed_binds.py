"""Unconfirmed binds: the binds that were sent and that the watch has not confirmed yet, and since when.

It depends on the cache and the clock alone. So the fence, which every write passes, can ask whether confirmations are
missing, although the binds themselves are written through it.
"""

from berth.scheduler.cache.cache import Cache
from berth.scheduler.ports import Clock


class UnconfirmedBinds:
    """By UID, the oldest first. A pod that is no longer assumed is dropped at the next look."""

    def __init__(self, cache: Cache, clock: Clock) -> None:
        self._cache = cache
        self._clock = clock
        self._since: dict[str, float] = {}

    def expect(self, uid: str) -> None:
        """A bind was sent, or has just been acknowledged: wait for its confirmation from now on."""
        self._since.pop(uid, None)  # the oldest are the first
        self._since[uid] = self._clock.now()

    def late(self, seconds: float) -> list[str]:
        """The UIDs that have been unconfirmed for this many seconds."""
        assumed = self._cache.assumed()
        self._since = {uid: since for uid, since in self._since.items() if uid in assumed}
        latest = self._clock.now() - seconds
        return [uid for uid, since in self._since.items() if since <= latest]

    def has_late_acknowledged(self, seconds: float) -> bool:
        """Whether a bind that the API server has acknowledged has been unconfirmed for this many seconds."""
        latest = self._clock.now() - seconds
        for uid, since in self._since.items():  # few are that old: `late` drops confirmed ones
            if since > latest:
                return False
            held = self._cache.assumed().get(uid)
            if held is not None and held.acknowledged:
                return True
        return False
