"""The API as Berth has it: requests travel to the store and answers travel back, both on virtual time.

The way there, the carrying out and the way back are separate moments outside of the process that asks. So a process can
be killed or give up while its request is on its way, and what it asked for may be done all the same; a bind carries the
time after which the server does not begin it any more.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable, Mapping, Sequence
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any

import orjson

from berth.cluster.api import JSON, Api
from berth.cluster.credentials import Credentials, Source
from berth.cluster.errors import ApiError, Unreachable
from berth.cluster.fence import Fence
from berth.sim.errors import StatusError
from berth.sim.loop import SeededLoop
from berth.sim.resources import NODES, PODS
from berth.sim.server import discovery
from berth.sim.server.encoding import list_metadata, metadata_only
from berth.sim.server.operations import ApiCall, OperationResult, carry_out
from berth.sim.server.routes import Target, find_target
from berth.sim.store import Store
from simulation.listing import LIST_FAULTS, wrong_list
from simulation.weather import Weather

INJECTED = {
    "answer 409": (409, "Conflict"),
    "answer 429": (429, "TooManyRequests"),
    "answer 500": (500, "InternalError"),
    "answer 503": (503, "ServiceUnavailable"),
}
LOST = ("timeout, not done", "timeout, done")
NOT_DONE = ("cut before", "timeout, not done", *INJECTED)


decided_seconds: ContextVar[float] = ContextVar("decided", default=0.0)
"""When it was decided what a request asks for that is sent again and again; 0.0: just now."""


def _nothing(*_: object) -> None:
    """Nobody is told."""


@dataclass(eq=False)
class Request:
    """One request on its way."""

    method: str
    path: str
    raw: bytes
    content_type: str
    accept: str
    query: Mapping[str, str]
    answer: asyncio.Future[tuple[int, dict[str, Any]]]
    fault: str = ""
    sent: float = 0.0
    decided: float = 0.0  # when it was sent for the first time
    delivery_seconds: float | None = None
    """What is sent behind a fence is delivered within so long or not at all: the connection is given up then."""

    @property
    def is_bind(self) -> bool:
        return self.path.endswith("/binding")

    @property
    def is_list(self) -> bool:
        """Only who lists says how many he wants."""
        return self.method == "GET" and "limit" in self.query

    def answer_with(self, result: tuple[int, dict[str, Any]] | Exception) -> None:
        if self.answer.done():
            return
        if isinstance(result, Exception):
            self.answer.set_exception(result)
        else:
            self.answer.set_result(result)


class Link:
    """The way of one process to the API server and back; while it is cut, nothing gets through."""

    def __init__(self, now: Callable[[], float]) -> None:
        self._now = now
        self._cut_until = 0.0

    @property
    def is_cut(self) -> bool:
        return self._now() < self._cut_until

    def cut(self, seconds: float) -> None:
        self._cut_until = self._now() + seconds

    def join(self) -> None:
        self._cut_until = 0.0


class SimApi(Api):
    """Implements what Berth uses of `berth.cluster.api.Api`.

    `on_bind(moment, request)` and `on_delete(moment, request, uid of the pod)` are told when it is "sent" and when it
    has "landed", `on_event(request)` when an Event is sent, and `on_answer(request, error)` of every answer that has
    arrived; `on_landed(request)` of everything that is about to be carried out.
    """

    def __init__(
        self,
        loop: SeededLoop,
        store: Store,
        weather: Weather,
        link: Link,
        *,
        on_bind: Callable[[str, Request], None] = _nothing,
        on_delete: Callable[[str, Request, str], None] = _nothing,
        on_event: Callable[[Request], None] = _nothing,
        on_answer: Callable[[Request, ApiError | None], None] = _nothing,
        on_landed: Callable[[Request], None] = _nothing,
        note: Callable[..., None] = _nothing,
    ) -> None:
        super().__init__(Credentials(Source()))  # neither loaded nor asked for
        self._loop = loop
        self._store = store
        self._weather = weather
        self._link = link
        self._on_bind = on_bind
        self._on_delete = on_delete
        self._on_event = on_event
        self._on_answer = on_answer
        self._on_landed = on_landed
        self._note = note
        self.requests = 0
        self.under_way: dict[Request, None] = {}

    async def open(self) -> None:
        """Nothing has to be opened."""

    async def close(self) -> None:
        """Nothing is left open."""

    async def request(
        self,
        method: str,
        path: str,
        *,
        body: Mapping[str, Any] | Sequence[Any] | None = None,
        content_type: str = JSON,
        accept: str = JSON,
        query: Mapping[str, str] | None = None,
        timeout_seconds: float = 30.0,
        fence: Fence | None = None,
    ) -> tuple[int, dict[str, Any]]:
        if fence is not None:
            fence.check()
            timeout_seconds = min(timeout_seconds, fence.request_seconds)
        raw = b"" if body is None else orjson.dumps(body)
        request = Request(method, path, raw, content_type, accept, query or {}, self._loop.create_future())
        has_peers = fence is not None and math.isfinite(fence.request_seconds)
        request.delivery_seconds = timeout_seconds if has_peers else None
        request.fault = self._weather.on_request(method, is_bind=request.is_bind)
        if request.is_list:
            request.fault = request.fault or self._weather.on_list(is_later_page="continue" in request.query)
        request.sent = self._loop.time()
        request.decided = decided_seconds.get() or request.sent
        self.requests += 1
        self.under_way[request] = None
        if request.is_bind:
            self._on_bind("sent", request)
        elif method == "DELETE":
            self._on_delete("sent", request, _only_uid(body))
        elif "/events" in path:
            self._on_event(request)
        self._tell(request)
        self._send(request)
        silence = Unreachable(f"{method} {path}: no answer within {timeout_seconds:g} s")
        limit = self._loop.call_later(timeout_seconds, request.answer_with, silence, context=self._loop.outside)
        try:
            answer = await request.answer
        except Unreachable:
            self.note_reachable(False)
            raise
        except ApiError as error:
            self._on_answer(request, error)
            self.note_reachable(True)
            raise
        finally:
            limit.cancel()
            del self.under_way[request]
        self._on_answer(request, None)
        self.note_reachable(True)
        return answer

    def _tell(self, request: Request) -> None:
        """What is done to a list, or to a request about one pod; for binds and deletes others say it."""
        parts = request.path.split("/")
        if request.fault in LIST_FAULTS:
            self._note(f"the list of {parts[-1]} is answered by {request.fault.removeprefix('list: ')}")
        fault = request.fault or ("the API server is away" if self._loop.time() < self._weather.outage_until else "")
        if fault and len(parts) >= 7 and parts[5] == "pods" and not request.is_bind and request.method != "DELETE":
            key = f"{parts[4]}/{parts[6]}"
            self._note(f"{request.method} {key} {' '.join(parts[7:])}: {fault}", key)

    def _send(self, request: Request) -> None:
        weather = self._weather
        seconds = weather.latency_seconds()
        if self._link.is_cut:
            weather.counts["request in a cut"] += 1
            return
        if self._loop.time() < weather.outage_until:
            weather.counts["request in an outage"] += 1
            self._loop.call_outside(seconds, request.answer_with, Unreachable("the API server is away"))
            return
        if request.fault == "slow request":
            seconds += weather.between(0.5, 14.0)
        self._loop.call_outside(seconds, self._arrive, request)

    def _arrive(self, request: Request) -> None:
        """The request has reached the server."""
        fault = request.fault
        if request.delivery_seconds is not None and self._loop.time() - request.sent > request.delivery_seconds:
            return
        if fault in INJECTED:
            self._reply(request, self._injected(fault))
            return
        result: tuple[int, dict[str, Any]] | Exception
        if fault in NOT_DONE or self._is_too_late(request):
            result = ApiError(504, "Timeout", "the server was not able to complete the request in time")
        else:
            result = self._carry_out(request)
        if fault in ("cut before", "cut after"):
            result = Unreachable("the connection was cut")
        if fault not in LOST:
            self._reply(request, result)

    def _injected(self, fault: str) -> ApiError:
        code, reason = INJECTED[fault]
        pause = float(self._weather.random.randint(1, 4)) if code == 429 else 0.0
        return ApiError(code, reason, "this failure is injected", retry_after_seconds=pause)

    def _reply(self, request: Request, result: tuple[int, dict[str, Any]] | Exception) -> None:
        self._loop.call_outside(self._weather.latency_seconds(), request.answer_with, result)

    def _is_too_late(self, request: Request) -> bool:
        limit = request.query.get("timeout")
        return limit is not None and self._loop.time() - request.sent > float(limit.removesuffix("s"))

    def _carry_out(self, request: Request) -> tuple[int, dict[str, Any]] | Exception:
        if request.path == "/version":
            return 200, {}
        if (told := _discovery(self._store, request.path)) is not None:
            return 200, told
        try:
            target = find_target(request.method, request.path, watching=False, store=self._store)
            query = self._weather.in_pages(request.query) if request.is_list else request.query
            self._on_landed(request)
            outcome = carry_out(self._store, ApiCall(target, query, request.raw, request.content_type))
        except StatusError as error:
            return ApiError(error.code, error.reason, error.message, error.details)
        if request.is_bind:
            self._on_bind("landed", request)
        elif request.method == "DELETE" and outcome.body:
            self._on_delete("landed", request, outcome.body["metadata"].get("uid", ""))
        body = _body(target, outcome, request.accept)
        if request.fault in LIST_FAULTS:
            return wrong_list(request.fault, body, self._list_of_another_kind(target))
        return outcome.status, body

    def _list_of_another_kind(self, target: Target) -> dict[str, Any]:
        other = PODS if target.resource is NODES else NODES
        return _body(Target(other, "list"), OperationResult(200, page=self._store.list(other)), "")


def _discovery(store: Store, path: str) -> dict[str, Any] | None:
    """What is said of groups, versions and the resources that they have; None where it is not asked for."""
    match path.strip("/").split("/"):
        case ["apis"]:
            return discovery.group_list(store.resources())
        case ["api", version]:
            return discovery.resource_list(store.resources(), "", version)
        case ["apis", group, version]:
            return discovery.resource_list(store.resources(), group, version)
    return None


def _only_uid(options: object) -> str:
    """The object that a DELETE is for alone, where it says so."""
    preconditions = options.get("preconditions") if isinstance(options, Mapping) else None
    return str((preconditions or {}).get("uid", ""))


def _body(target: Target, outcome: OperationResult, accept: str) -> dict[str, Any]:
    if outcome.page is None:
        return outcome.body or {}
    head: dict[str, Any] = {"kind": target.resource.list_kind, "apiVersion": target.resource.api_version}
    items = outcome.page.items
    if "as=Partial" in accept:
        head = {"kind": "PartialObjectMetadataList", "apiVersion": "meta.k8s.io/v1"}
        items = [metadata_only(item) for item in items]
    return {**head, "metadata": list_metadata(outcome.page), "items": list(items)}
