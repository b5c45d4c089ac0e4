"""Port for authentication and authorization of requests to Berth's own endpoints.

It is a port like those in `ports`, in a module of its own because no scheduling decision depends on it. `berth.serving`
calls it, `berth.cluster` implements it with TokenReview and SubjectAccessReview. Each review has three outcomes: yes,
no, and `ReviewFailed`, which callers treat as no.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Protocol

NO_EXTRA: Mapping[str, tuple[str, ...]] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class User:
    """The user of a token, as in a TokenReview."""

    name: str
    uid: str = ""
    groups: tuple[str, ...] = ()
    extra: Mapping[str, tuple[str, ...]] = field(default_factory=lambda: NO_EXTRA)


@dataclass(frozen=True, slots=True)
class ResourceAccess:
    """What a user wants to do with a resource; `namespace` is "" for all of them, `name` for all objects."""

    verb: str
    group: str
    version: str
    resource: str
    subresource: str = ""
    namespace: str = ""
    name: str = ""


class ReviewFailed(Exception):
    """The API server is unreachable, too slow, refuses the review or answers with invalid data; str() says which."""


class Reviews(Protocol):
    """Authentication and authorization by the API server."""

    async def identify(self, token: str) -> User | None:
        """The user of the token; None if the token is invalid. Raises ReviewFailed."""
        ...

    async def allows(self, user: User, verb: str, path: str) -> bool:
        """Whether the user may use this verb on a non-resource path. Raises ReviewFailed."""
        ...


class ResourceReviews(Protocol):
    """Authorization by the API server of users who are known already."""

    async def allows(self, user: User, verb: str, path: str) -> bool:
        """Whether the user may use this verb on a non-resource path. Raises ReviewFailed."""
        ...

    async def allows_resource(self, user: User, access: ResourceAccess) -> bool:
        """Whether the user may do this with a resource. Raises ReviewFailed."""
        ...
