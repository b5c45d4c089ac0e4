"""What can go wrong between us and an API server, in four words: refused, unreachable, malformed, misconfigured.

Nothing else leaves this package: exceptions of aiohttp and of kubernetes_asyncio are translated where they arise,
because a kept-alive connection does break now and then, and an exception that nobody expects there costs a pod.

403 is not among what passes by itself: a namespace that is being deleted answers it to every event until it is gone.
"""

from collections.abc import Mapping
from typing import Any

UID_PRECONDITION = "UID in precondition"
UID_CHANGED = "metadata.uid: Invalid value"


class ApiError(Exception):
    """The API server answered, and the answer is an HTTP status of 300 or more."""

    def __init__(
        self,
        status: int,
        reason: str,
        message: str,
        details: Mapping[str, Any] | None = None,
        *,
        retry_after_seconds: float = 0.0,
        is_status: bool = True,
    ) -> None:
        super().__init__(f"{status} {reason}: {message}")
        self.status = status
        self.reason = reason
        self.message = message
        self.details: Mapping[str, Any] = details or {}
        self.retry_after_seconds = retry_after_seconds
        """How long the server wants to be left alone; 0 when it does not say."""
        self.is_status = is_status
        """Whether the answer was a Status object; a proxy and a path that is not served answer with plain text."""

    @property
    def is_overload(self) -> bool:
        """Whether the server had no time for the request, or failed at it: it says nothing about the request."""
        return self.status == 429 or self.status >= 500

    @property
    def is_transient(self) -> bool:
        """Whether the same request may succeed later without a change to it or to its object."""
        return self.status in (401, 408) or self.is_overload

    @property
    def names_missing_object(self) -> bool:
        """Whether the API server itself says that the object which the request named does not exist.

        A kind that is not served is a 404 without a name, and a proxy's 404 is no Status.
        """
        return self.status == 404 and self.is_status and self.reason == "NotFound" and bool(self.details.get("name"))

    @property
    def object_is_gone(self) -> bool:
        """Whether no object of the UID that the request named exists: not found, or a namesake has its place."""
        namesake = (self.status == 409 and UID_PRECONDITION in self.message) or (
            self.status == 422 and UID_CHANGED in self.message  # what a patch with the UID of a predecessor gets
        )
        return self.status == 404 or namesake


class Unreachable(Exception):
    """No answer, or half of one: the request may or may not have been carried out.

    `is_misconfigured`: waiting will not help, such as a host that has no address or a certificate that is not trusted.
    """

    def __init__(self, reason: str, *, is_misconfigured: bool = False) -> None:
        super().__init__(reason)
        self.reason = reason
        self.is_misconfigured = is_misconfigured


class Malformed(Unreachable):
    """An answer came, and it is not what was asked for: a page of a proxy, half a list. It proves nothing.

    The reason is put together from our own words and names no server.
    """


class OtherCluster(Malformed):
    """An answer came from another cluster than the one that this process began with."""


class CredentialsError(Exception):
    """We cannot even try: no kubeconfig, no such context, a file that cannot be read."""
