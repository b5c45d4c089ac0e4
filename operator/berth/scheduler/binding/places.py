"""A limited number of places, given out in the order of the requests.

A free place goes to the first waiter, so that later callers do not overtake it. A waiter that is cancelled takes no
place, even if it was given one in the same step.

What it does not do: track which caller has which place. The caller that took a place gives it back, once.
"""

import asyncio
from collections import deque


class Places:
    """A fair semaphore."""

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self._taken = 0
        self._waiting: deque[asyncio.Future[None]] = deque()

    @property
    def is_full(self) -> bool:
        """Whether a caller would have to wait now."""
        return self._taken >= self.limit

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
        """Take a place; waits in order until one is free."""
        if self.take():
            return
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append(turn)
        try:
            await turn
        except asyncio.CancelledError:
            if turn in self._waiting:
                self._waiting.remove(turn)
            elif not turn.cancelled():  # it was given a place that it will not use
                self.give_back()
            raise

    def give_back(self) -> None:
        """Give a place back: it goes to the first waiter."""
        while self._waiting:
            turn = self._waiting.popleft()
            if not turn.done():
                turn.set_result(None)
                return
        self._taken -= 1
