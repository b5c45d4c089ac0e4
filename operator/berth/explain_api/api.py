"""The way of a request: who sends it, how much he may, what he asks for, whether he may, and the answer.

    401 no front proxy --> 429 too much --> 403 no right --> 404, 405, 406, 400 --> the answer

Nobody learns which paths there are without a right to them. Every error is a Status.
"""

import hashlib
import logging
import time
from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any

import orjson
from aiohttp import web

from berth.explain_api import discovery, openapi
from berth.explain_api.access import Access
from berth.explain_api.front_proxy import Authentication
from berth.explain_api.limits import Limits
from berth.explain_api.negotiation import DISCOVERY_GROUP, Form, discovery_form
from berth.explain_api.page_files import UI, PageFiles
from berth.explain_api.paging import token
from berth.explain_api.port import Explanations
from berth.explain_api.reader import Reader
from berth.explain_api.rendering import Renderer
from berth.explain_api.requests import NODE, READING, Question, Target, find_target, is_true, read_question
from berth.explain_api.resources import API_VERSION, GROUP
from berth.explain_api.statuses import JSON, ApiRefusal, not_allowed, not_found, nothing_here, unavailable
from berth.explain_api.versions import Versions, fingerprint, key_of
from berth.explain_api.watches import Watches
from berth.scheduler.access_review import ResourceReviews, User
from berth.serving.bridge import Bridge, BridgeTimeout
from berth.serving.responses import raw

RETRY_SECONDS = 1

_log = logging.getLogger(__name__)


class ExplainApi:
    """Answers requests. Lives in the serving loop; one for each listener."""

    def __init__(
        self,
        port: Explanations,
        authentication: Authentication,
        reviews: ResourceReviews,
        bridge: Bridge,
        *,
        now: Callable[[], float] = time.monotonic,
        wall: Callable[[], float] = time.time,
    ) -> None:
        self._authentication = authentication
        self._access = Access(reviews, bridge, now)
        self._limits = Limits(now)
        self._versions = Versions(wall)
        self._reader = Reader(port, bridge, self._limits)
        self._watches = Watches(self._reader, self._versions, wall)
        self._wall = wall
        self._documents = _documents()
        self._page = PageFiles()
        self.counts: Counter[str] = Counter()

    async def answer(self, request: web.BaseRequest) -> web.StreamResponse:
        """Returns the response, whatever happens."""
        try:
            response = await self._answer(request)
        except ApiRefusal as refusal:
            response = refusal.response()
        except BridgeTimeout:
            response = unavailable("the scheduler's event loop does not answer", RETRY_SECONDS).response()
        except ConnectionError:
            raise
        except Exception:
            _log.exception("A request for %.200r could not be answered", request.path)
            response = ApiRefusal(500, "InternalError", "an error inside; the log says more").response()
        self.counts[str(response.status)] += 1
        return response

    async def _answer(self, request: web.BaseRequest) -> web.StreamResponse:
        user = self._authentication.identify(request)
        watching = is_true(request.query.get("watch"))
        target = find_target(request.method, request.rel_url.raw_path, watching=watching)
        with self._limits.request(user.name):
            question = await self._ask(request, user, target)
            if not isinstance(question, Question):
                return question
            if not question.watching:
                return await (self._list(question) if not target.name else self._get(question))
        with self._limits.watch():
            return await self._watches.serve(request, question)

    async def _ask(self, request: web.BaseRequest, user: User, target: Target) -> Question | web.Response:
        """Returns what is asked for, or the answer if that is no object."""
        await self._access.check(user, target)
        if not target.plural:
            return self._document(request, target)
        if target.plural == UI:
            return self._page.answer(request, target)
        accept, nodes = request.headers.get("Accept", ""), request.query.getall(NODE, [])
        return read_question(target, request.method, request.query, nodes, accept)

    async def _get(self, question: Question) -> web.Response:
        body = await self._reader.one(question)
        if body is None:
            raise not_found(question.resource.plural, question.name)
        return raw(Renderer(question, self._wall).object(body, self._versions.next()), JSON)

    async def _list(self, question: Question) -> web.Response:
        found = await self._reader.page(question)
        version = question.version or self._versions.next()
        self._versions.remember(version, {key_of(body): fingerprint(body) for body in found.items})
        after = token(version, key_of(found.items[-1])) if found.rest and found.items else ""
        rest = None if question.wanted.selects else found.rest
        return raw(Renderer(question, self._wall).list(found.items, version, after, rest), JSON)

    # --- documents ---------------------------------------------------------------------------------------------------

    def _document(self, request: web.BaseRequest, target: Target) -> web.Response:
        path = target.path.rstrip("/") or "/"
        if path not in self._documents:
            raise nothing_here()
        if request.method not in READING:
            raise not_allowed(READING)
        content_type, body, etag = self._documents[path]
        if path == "/apis":
            accepted = discovery_form(request.headers.get("Accept", ""))
            if accepted.form is Form.DISCOVERY:
                content_type, body, etag = self._documents[f"/apis {accepted.version}"]
        headers = {"ETag": etag, "Vary": "Accept"}
        if request.headers.get("If-None-Match") == etag:
            return raw(b"", content_type, 304, headers)
        return raw(body, content_type, headers=headers)

    def statistics(self) -> dict[str, Any]:
        """Returns requests by outcome and what is going on; may be called from any thread."""
        return {
            "answers": dict(self.counts),
            "access": dict(self._access.counts),
            **self._limits.statistics(),
            **self._versions.statistics(),
        }


def _documents() -> dict[str, tuple[str, bytes, str]]:
    """Returns everything that is the same for all clients, by path: content type, body and ETag."""
    found = {
        "/apis": _encoded(discovery.group_list()),
        f"/apis/{GROUP}": _encoded(discovery.group()),
        f"/apis/{API_VERSION}": _encoded(discovery.resource_list()),
        "/openapi/v2": _encoded(openapi.version_2()),
        f"/openapi/v3/apis/{API_VERSION}": _encoded(openapi.version_3()),
    }
    found["/openapi/v3"] = _encoded(openapi.index(found[f"/openapi/v3/apis/{API_VERSION}"][2].strip('"')))
    for version in ("v2", "v2beta1"):
        content_type = f"{JSON};g={DISCOVERY_GROUP};v={version};as=APIGroupDiscoveryList"
        found[f"/apis {version}"] = _encoded(discovery.aggregated(version), content_type)
    return found


def _encoded(document: Mapping[str, Any], content_type: str = JSON) -> tuple[str, bytes, str]:
    body = orjson.dumps(document)
    return content_type, body, f'"{hashlib.sha256(body).hexdigest()[:32].upper()}"'
