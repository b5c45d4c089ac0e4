"""Fences: whether this replica may write now, asked right before each write.

The fence of one of several replicas is open while this replica leads, no other may lead before a request that is sent
now has ended (`Leadership`), and the watch confirms our binds: a leader that does not see what it did must not go on.
The answer is computed each time from the clock: a process that was stopped finds the fence closed when it goes on.

`Leader` says when this replica leads. The fence is a part of its own, so that everything that writes gets it by its
constructor. `Leader` cannot be passed to them: it needs the cache sync, which is built after them.
"""

import math
from collections.abc import Callable
from typing import Final, Protocol

from berth.cluster.leadership import Leadership
from berth.scheduler.ports import NotLeading


class Fence(Protocol):
    """What is asked before each write."""

    @property
    def request_seconds(self) -> float:
        """The longest that a request behind the fence may take."""
        ...

    @property
    def is_leading(self) -> bool:
        """Whether this replica leads, though the fence may be closed for a moment."""
        ...

    @property
    def is_open(self) -> bool:
        """Whether a request that is sent now ends before another replica may lead."""
        ...

    def check(self) -> None:
        """Raises NotLeading unless the fence is open."""
        ...


class OpenFence:
    """The fence of the only replica: it always leads."""

    request_seconds: Final = math.inf
    is_leading: Final = True
    is_open: Final = True

    def check(self) -> None:
        """Never raises."""


class LeadershipFence:
    """The fence of one of several replicas."""

    def __init__(self, leadership: Leadership, is_bind_unconfirmed: Callable[[float], bool]) -> None:
        """`is_bind_unconfirmed`: whether an acknowledged bind has not been shown by the watch for so many seconds."""
        self._leadership = leadership
        self._is_bind_unconfirmed = is_bind_unconfirmed
        self._is_leading = False

    def start_leading(self) -> None:
        self._is_leading = True

    def stop_leading(self) -> None:
        self._is_leading = False

    @property
    def request_seconds(self) -> float:
        return self._leadership.terms.request_seconds

    @property
    def is_leading(self) -> bool:
        return self._is_leading

    @property
    def is_open(self) -> bool:
        return self._is_leading and self._leadership.may_lead() and not self.is_blind()

    def is_blind(self) -> bool:
        """Whether the watch has not confirmed a bind for a lifetime: it may be dead."""
        return self._is_bind_unconfirmed(self._leadership.terms.lifetime_seconds)

    def check(self) -> None:
        if not self.is_open:
            raise NotLeading("another replica leads, or may do so soon")
