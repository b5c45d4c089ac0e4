"""A limited number of places, given out in the order in which they were asked for.

A place that becomes free goes to the first who waits, so nobody who comes later overtakes. Who is cancelled while it
waits takes no place, also where it was given one in the same moment.

What it does not do: know who has which place. The caller that took one gives it back, once.
"""

import asyncio
from collections import deque


class Places:
    """So many things may go on at once."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._taken = 0
        self._waiting: deque[asyncio.Future[None]] = deque()

    @property
    def is_full(self) -> bool:
        """Whether a caller has to wait now."""
        return self._taken >= self._limit

    @property
    def is_idle(self) -> bool:
        return not self._taken

    def take(self) -> bool:
        """Take a place if one is free."""
        if self.is_full:
            return False
        self._taken += 1
        return True

    async def wait(self) -> None:
        """Take a place, in turn."""
        if self.take():
            return
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append(turn)
        try:
            await turn
        except asyncio.CancelledError:
            if turn in self._waiting:
                self._waiting.remove(turn)
            elif not turn.cancelled():  # it was our turn, and nobody is left to make use of it
                self.give_back()
            raise

    def give_back(self) -> None:
        """A place is free: for the first who waits."""
        while self._waiting:
            turn = self._waiting.popleft()
            if not turn.done():
                turn.set_result(None)
                return
        self._taken -= 1
