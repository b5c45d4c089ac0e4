"""Who may see what Berth shows of itself: the API server's TokenReview and SubjectAccessReview.

Both are questions in the form of objects that are never stored. Berth keeps no list of users of its own, and a right is
given as any other is: by a ClusterRole on nonResourceURLs, or on resources of explain.berth.dev. An answer counts only
if it is one: a status that does not say yes in so many words is a no, and no status at all is a failure.
"""

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from berth.cluster.api import Api
from berth.cluster.errors import ApiError, Unreachable
from berth.scheduler.access_review import ResourceAccess, ReviewFailed, User

LIMIT_SECONDS = 5.0
AUTHENTICATION, TOKENS = "authentication.k8s.io/v1", "tokenreviews"
AUTHORIZATION, ACCESS = "authorization.k8s.io/v1", "subjectaccessreviews"


class KubernetesReviews:
    """Implements `Reviews` and `ResourceReviews` of `berth.scheduler.access_review`."""

    def __init__(self, api: Api, *, limit_seconds: float = LIMIT_SECONDS) -> None:
        self._api = api
        self._limit_seconds = limit_seconds

    async def identify(self, token: str) -> User | None:
        status = await self._review(AUTHENTICATION, TOKENS, "TokenReview", {"token": token})
        if status.get("authenticated") is not True:
            return None
        return _read_user(status.get("user"))

    async def allows(self, user: User, verb: str, path: str) -> bool:
        return await self._is_allowed(user, {"nonResourceAttributes": {"path": path, "verb": verb}})

    async def allows_resource(self, user: User, access: ResourceAccess) -> bool:
        asked = {name: value for name, value in asdict(access).items() if value}
        return await self._is_allowed(user, {"resourceAttributes": asked})

    async def _is_allowed(self, user: User, asked: Mapping[str, Any]) -> bool:
        spec = {
            "user": user.name,
            "uid": user.uid,
            "groups": list(user.groups),
            "extra": {key: list(values) for key, values in user.extra.items()},
            **asked,
        }
        status = await self._review(AUTHORIZATION, ACCESS, "SubjectAccessReview", spec)
        return status.get("allowed") is True and status.get("denied") is not True

    async def _review(self, version: str, plural: str, kind: str, spec: Mapping[str, Any]) -> Mapping[str, Any]:
        body = {"apiVersion": version, "kind": kind, "spec": spec}
        try:
            _, answer = await self._api.request(
                "POST", f"/apis/{version}/{plural}", body=body, timeout_seconds=self._limit_seconds
            )
        except (ApiError, Unreachable) as error:
            raise ReviewFailed(f"{kind}: {error}") from error
        status = answer.get("status")
        if not isinstance(status, Mapping):
            raise ReviewFailed(f"{kind}: the answer has no status")
        return status


def _read_user(user: object) -> User:
    if not isinstance(user, Mapping) or not isinstance(user.get("username"), str) or not user["username"]:
        raise ReviewFailed("TokenReview: the answer names nobody")
    groups, extra = user.get("groups"), user.get("extra")
    return User(
        user["username"],
        str(user.get("uid") or ""),
        _texts(groups),
        {str(key): _texts(values) for key, values in extra.items()} if isinstance(extra, Mapping) else {},
    )


def _texts(values: object) -> tuple[str, ...]:
    return tuple(str(value) for value in values) if isinstance(values, list) else ()
