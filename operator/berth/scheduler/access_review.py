"""The door between what Berth shows of itself and the cluster that says who may see it.

A port like those in `ports`, apart from them because no decision hangs on it: `berth.serving` asks, `berth.cluster`
answers with the API server's own reviews. There are three answers to either question: yes, no, and `ReviewFailed`,
which whoever asks takes for a no.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Protocol

NO_EXTRA: Mapping[str, tuple[str, ...]] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class User:
    """Whom a token belongs to, in the API server's words."""

    name: str
    uid: str = ""
    groups: tuple[str, ...] = ()
    extra: Mapping[str, tuple[str, ...]] = field(default_factory=lambda: NO_EXTRA)


class ReviewFailed(Exception):
    """Nobody could say: the API server is away, too slow, refuses to review, or answers nonsense; str() says which."""


class Reviews(Protocol):
    """Who somebody is, and what they may do."""

    async def identify(self, token: str) -> User | None:
        """Whose token it is; None for one that is not valid. Raises ReviewFailed."""
        ...

    async def allows(self, user: User, verb: str, path: str) -> bool:
        """Whether the user may do this with a path that is no Kubernetes resource. Raises ReviewFailed."""
        ...
