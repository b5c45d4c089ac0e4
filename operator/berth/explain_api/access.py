"""What a caller may do: the API server's SubjectAccessReview, with the user that the front proxy has named.

The API server has checked the same rights before it passed the request on. They are checked again, as other aggregated
APIs do: nothing here depends on how the API server is set up. Members of system:masters may do everything, in the API
server as here, without a review: it is as them that the API server asks whether we are there.
"""

from collections import Counter
from collections.abc import Callable

from berth.explain_api.requests import Target
from berth.explain_api.resources import GROUP, VERSION
from berth.explain_api.statuses import forbidden, unavailable
from berth.scheduler.access_review import ResourceAccess, ResourceReviews, ReviewFailed, User
from berth.serving.bridge import Bridge
from berth.serving.review_cache import ReviewCache, ask_over, digest

MASTERS = "system:masters"
RETRY_SECONDS = 1


class Access:
    """Reviews requests. Lives in the serving loop; `reviews` are called over the bridge."""

    def __init__(self, reviews: ResourceReviews, bridge: Bridge, now: Callable[[], float]) -> None:
        self._reviews = reviews
        self._bridge = bridge
        self._rights: ReviewCache[bool] = ReviewCache(now)
        self.counts: Counter[str] = Counter()

    async def check(self, user: User, target: Target) -> None:
        """Raises ApiRefusal: 403 if the user may not, 503 if that cannot be found out."""
        if MASTERS in user.groups:
            return
        try:
            is_allowed = await self._rights.get(_key(user, target), lambda: self._review(user, target))
        except ReviewFailed as error:
            self.counts["failed"] += 1
            raise unavailable(f"the right could not be reviewed: {error}", RETRY_SECONDS) from error
        self.counts["allowed" if is_allowed else "denied"] += 1
        if not is_allowed:
            raise forbidden(_words(user, target), target.plural, target.name)

    async def _review(self, user: User, target: Target) -> bool:
        if not target.plural:
            return await ask_over(self._bridge, lambda: self._reviews.allows(user, target.verb, target.path))
        access = ResourceAccess(
            target.verb, GROUP, VERSION, target.plural, target.subresource, target.namespace, target.name
        )
        return await ask_over(self._bridge, lambda: self._reviews.allows_resource(user, access))


def _key(user: User, target: Target) -> bytes:
    extra = [text for key, values in sorted(user.extra.items()) for text in (key, str(len(values)), *values)]
    asked = (target.verb, target.path if not target.plural else "", target.plural, target.subresource)
    place = (target.namespace, target.name)
    return digest(user.name, user.uid, str(len(user.groups)), *user.groups, *extra, *asked, *place)


def _words(user: User, target: Target) -> str:
    """As the API server says it."""
    if not target.plural:
        return f'forbidden: User "{user.name}" cannot {target.verb} path "{target.path}"'
    what = f'{target.plural}.{GROUP} "{target.name}"' if target.name else f"{target.plural}.{GROUP}"
    where = f' in the namespace "{target.namespace}"' if target.namespace else " at the cluster scope"
    return (
        f'{what} is forbidden: User "{user.name}" cannot {target.verb} resource "{target.plural}" '
        f'in API group "{GROUP}"{where}'
    )
