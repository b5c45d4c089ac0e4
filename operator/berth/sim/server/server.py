"""The embedded API server: HTTP on a store, for kopf, our own client, kubectl and the tests.

    server = SimServer(Store(clock))
    await server.start()
    server.write_kubeconfig(path)            # berth run --kubeconfig path, kubectl --kubeconfig path
    ...
    await server.stop()                      # start() again: same port, same objects, as after an outage

It serves what those clients send (tests/contract/recorded_requests.json); anything else is answered 501 with a message.
A request goes this way: `routes` finds the resource and the verb, `faults` may interfere, `operations` carries it out
on the store, and the response has the form that `negotiation` chose: JSON, a Table, or metadata only. Watches are
streams (`streaming`).

Requests for the group and version of an APIService are passed on to it (`aggregation`).

It speaks plain HTTP on loopback. With `token` it insists on that bearer token; kubectl sends none over plain HTTP, so
for kubectl leave it out. There are no access rules and no admission; `accounts` are whom reviews know (`reviews`).
"""

from __future__ import annotations

import asyncio
import json
import logging
import socket
from collections import Counter
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import orjson
from aiohttp import web

from berth.sim.errors import Cause, StatusError, expired, invalid, not_implemented
from berth.sim.faults import Action, CutAfter, CutBefore, Delay, Fail, FaultRequest, Faults, StaleList
from berth.sim.resources import API_SERVICES, Resource
from berth.sim.server import discovery, openapi
from berth.sim.server.aggregation import Aggregation, sender
from berth.sim.server.encoding import Encoder, envelope, metadata_list, metadata_only
from berth.sim.server.negotiation import DISCOVERY_FORMS, OBJECT_FORMS, Form, choose_form, decode_body
from berth.sim.server.operations import ApiCall, OperationResult, carry_out, number
from berth.sim.server.printers.tables import Tables
from berth.sim.server.responses import cut, error_event, injected, json_answer, refusal, warning
from berth.sim.server.reviews import ANYBODY, PATHS, Account, review
from berth.sim.server.routes import Target, find_target
from berth.sim.server.streaming import EventStream, expired_words
from berth.sim.server.tokens import issue_token
from berth.sim.store import Backup, Object, Store

LARGEST_BODY_BYTES = 3 * 1024 * 1024
WATCH_SECONDS = 45 * 60.0
STOP_SECONDS = 1.0
BACKLOG = 1024
HEALTH = ("/healthz", "/livez", "/readyz")
TRUE = ("true", "1")

_log = logging.getLogger(__name__)


def utc_now() -> datetime:
    return datetime.now(UTC)


class _Cut(Exception):
    """The connection is to be cut without an answer."""


class SimServer:
    """See the module's text. Lives in one event loop, which is the store's, too."""

    def __init__(
        self,
        store: Store,
        *,
        host: str = "127.0.0.1",
        port: int = 0,
        faults: Faults | None = None,
        token: str | None = None,
        accounts: Mapping[str, Account] | None = None,
        clock: Callable[[], datetime] = utc_now,
    ) -> None:
        self.store = store
        self.faults = faults
        self.accounts: dict[str, Account] = dict(accounts or {})
        """The accounts by token, for reviews; may be changed at any time."""
        self._host = host
        self._port = port
        self._token = token
        self._clock = clock
        self._encoder = Encoder()
        self._aggregation = Aggregation(store, clock)
        self._runner: web.ServerRunner | None = None
        self._listener: socket.socket | None = None
        self._watches: set[Any] = set()
        self._requests: Counter[str] = Counter()

    # -- life --------------------------------------------------------------------------------------------------------

    async def start(self) -> None:
        self._encoder = Encoder()  # a store that was restored gives versions a second time
        server = web.Server(self.handle, request_factory=_request, handler_cancellation=True, access_log=None)
        runner = web.ServerRunner(server, shutdown_timeout=STOP_SECONDS)
        await runner.setup()
        try:
            listener = socket.create_server((self._host, self._port), backlog=BACKLOG)
            await web.SockSite(runner, listener, backlog=BACKLOG).start()
        except BaseException:
            await runner.cleanup()
            raise
        self._port = int(runner.addresses[0][1])
        self._runner, self._listener = runner, listener
        self._aggregation.look()

    async def stop(self) -> None:
        """End all watches in order and close the port."""
        runner, self._runner = self._runner, None
        listener, self._listener = self._listener, None
        await self._aggregation.stop()
        for watch in list(self._watches):
            watch.close()
        if runner is None or listener is None:
            return
        # Python 3.11 leaves a connection open for good that is accepted in the turn of the loop in which the server
        # closes: accept no more, and let those that were accepted be made first.
        asyncio.get_running_loop().remove_reader(listener)
        await asyncio.sleep(0)
        await runner.cleanup()

    async def restore(self, backup: Backup) -> None:
        """Go away, have the store go back to a backup, and come again: as an etcd is restored."""
        await self.stop()
        self.store.restore(backup)
        await self.start()

    @property
    def url(self) -> str:
        return f"http://{self._host}:{self._port}"

    def write_kubeconfig(self, path: Path) -> None:
        """A file with which berth, kopf and kubectl find the server."""
        user = {"token": self._token} if self._token else {}
        configuration = {
            "apiVersion": "v1",
            "kind": "Config",
            "current-context": "berth-sim",
            "clusters": [{"name": "berth-sim", "cluster": {"server": self.url}}],
            "users": [{"name": "anybody", "user": user}],
            "contexts": [
                {"name": "berth-sim", "context": {"cluster": "berth-sim", "user": "anybody", "namespace": "default"}}
            ],
        }
        path.touch(mode=0o600)
        path.write_text(json.dumps(configuration, indent=2) + "\n")  # JSON is YAML

    def statistics(self) -> dict[str, int]:
        """Requests by verb, open watches, and what encoding was saved."""
        encoded = {f"objects_{name}": value for name, value in self._encoder.statistics().items()}
        return {**self._requests, "watches": len(self._watches), **encoded}

    # -- a request ---------------------------------------------------------------------------------------------------

    async def handle(self, request: web.BaseRequest) -> web.StreamResponse:
        """The answer to any request."""
        try:
            self._check_token(request)
            if request.path in PATHS:
                return await self._review(request)
            if (api_service := self._aggregation.find(request.path)) is not None:
                return await self._pass_on(request, api_service)
            if request.path.startswith(("/api/", "/apis/")) and (target := self._target(request)) is not None:
                return await self._handle_objects(request, target)
            return await self._handle_rest(request)
        except StatusError as error:
            return refusal(error)
        except _Cut:
            return cut(request)
        except web.HTTPRequestEntityTooLarge:
            limit = f"the body is larger than {LARGEST_BODY_BYTES} bytes"
            return refusal(StatusError(413, "RequestEntityTooLarge", limit))
        except Exception as error:
            _log.exception("%s %s failed", request.method, request.path)
            return refusal(StatusError(500, "InternalError", f"Internal error occurred: {error!r}"))

    async def _pass_on(self, request: web.BaseRequest, api_service: Object) -> web.StreamResponse:
        self._requests["passed_on"] += 1
        return await self._aggregation.pass_on(request, api_service, sender(request, self.accounts))

    async def _review(self, request: web.BaseRequest) -> web.Response:
        self._requests["review"] += 1
        if isinstance(await self._interfere(None), CutAfter):
            raise _Cut
        raw = await request.read() if request.body_exists else b""
        body = decode_body(raw, request.headers.get("Content-Type", "")) if raw else None
        token = request.headers.get("Authorization", "").removeprefix("Bearer ")
        asker = self.accounts.get(token, ANYBODY)
        return json_answer(orjson.dumps(review(self.accounts, request.path, request.method, body, asker)), 201)

    def _check_token(self, request: web.BaseRequest) -> None:
        if self._token is not None and request.headers.get("Authorization") != f"Bearer {self._token}":
            raise StatusError(401, "Unauthorized", "Unauthorized")

    def _target(self, request: web.BaseRequest) -> Target | None:
        """What objects the request is about; None if it asks for discovery."""
        depth = request.path.strip("/").count("/")
        if depth <= (1 if request.path.startswith("/api/") else 2):
            return None
        watching = request.query.get("watch") in TRUE
        return find_target(request.method, request.path, watching=watching, store=self.store)

    async def _handle_objects(self, request: web.BaseRequest, target: Target) -> web.StreamResponse:
        self._requests[target.verb] += 1
        form, _ = choose_form(request.headers.get("Accept", ""), OBJECT_FORMS)
        action = await self._interfere(target)
        if target.verb == "watch":
            return await self._watch(request, target, form)
        raw = await request.read() if request.body_exists else b""
        stale = action if isinstance(action, StaleList) else None
        call = ApiCall(target, request.query, raw, request.headers.get("Content-Type", ""), stale)
        self._check_expiry(call)
        outcome = self._issue_token(call) if target.subresource == "token" else carry_out(self.store, call)
        if target.resource is API_SERVICES:
            self._aggregation.look()
        if isinstance(action, CutAfter):
            raise _Cut
        return self._answer(call, outcome, form)

    def _issue_token(self, call: ApiCall) -> OperationResult:
        target = call.target
        account = self.store.get(target.resource, target.namespace, target.name)
        issued = issue_token(account, call.body(), self._clock())
        if not call.dry_run:
            self.accounts[issued.token] = issued.account
        return OperationResult(201, issued.answer)

    async def _interfere(self, target: Target | None) -> Action | None:
        """Do what the faults want done before a request; what is to be done later is returned."""
        if self.faults is None:
            return None
        action = self.faults.before(_fault_request(target))
        if isinstance(action, CutBefore) or (isinstance(action, CutAfter) and target and target.verb == "watch"):
            raise _Cut
        if isinstance(action, Fail):
            raise injected(action)
        if isinstance(action, Delay):
            await asyncio.sleep(action.seconds)
        return action

    def _check_expiry(self, call: ApiCall) -> None:
        if self.faults is None or not call.query.get("continue"):
            return
        if self.faults.expire(call.target.resource.kind, asyncio.get_running_loop().time()):
            raise expired("The provided continue parameter is too old to display a consistent list result.")

    # -- answers -----------------------------------------------------------------------------------------------------

    def _answer(self, call: ApiCall, outcome: OperationResult, form: Form) -> web.Response:
        headers = warning(outcome.warning) if outcome.warning else None
        return json_answer(self._encode_outcome(call, outcome, form), outcome.status, headers)

    def _encode_outcome(self, call: ApiCall, outcome: OperationResult, form: Form) -> bytes:
        resource = call.target.resource
        if outcome.page is not None:
            if form is Form.TABLE:
                return orjson.dumps(self._tables(call.target, call.query).of_page(outcome.page, self._clock()))
            return metadata_list(outcome.page) if form is Form.METADATA else self._encoder.list(resource, outcome.page)
        body = outcome.body or {}
        if body.get("kind") != resource.kind or body.get("apiVersion") != resource.api_version:
            return orjson.dumps(body)  # a Status, a Scale
        if form is Form.TABLE:
            return orjson.dumps(self._tables(call.target, call.query).of_object(body, self._clock()))
        if form is Form.METADATA:
            return orjson.dumps(metadata_only(body))
        return self._encoder.object(body) if outcome.is_stored else orjson.dumps(body)

    def _tables(self, target: Target, query: Mapping[str, str]) -> Tables:
        return Tables(target.resource, self.store.definition(target.resource), query.get("includeObject", ""))

    # -- watches -----------------------------------------------------------------------------------------------------

    async def _watch(self, request: web.BaseRequest, target: Target, form: Form) -> web.StreamResponse:
        query = request.query
        encode = self._event_encoder(target, query, form)
        lifetime = float(number(query, "timeoutSeconds")) or WATCH_SECONDS
        response = web.StreamResponse(
            headers={"Content-Type": "application/json", "Cache-Control": "no-cache, private"}
        )
        try:
            watch = self._open_watch(target, query)
        except StatusError as error:
            if error.code != 410:
                raise
            await response.prepare(request)
            await response.write(error_event(error))
            return response
        self._watches.add(watch)
        try:
            await response.prepare(request)
            now = asyncio.get_running_loop().time
            stream = EventStream(
                watch, encode, kind=target.resource.kind, now=now, lifetime_seconds=lifetime, faults=self.faults
            )
            await _pump(stream, response)
            if stream.cut:
                return cut(request, response)
        except ConnectionError:
            return response  # the client has gone
        finally:
            self._watches.discard(watch)
            watch.close()
        return response

    def _open_watch(self, target: Target, query: Mapping[str, str]) -> Any:
        _check_initial_events(query)
        version = query.get("resourceVersion", "")
        kind = target.resource.kind
        if (
            self.faults is not None
            and version not in ("", "0")
            and self.faults.expire(kind, asyncio.get_running_loop().time())
        ):
            raise expired_words(version, self.store.revision)
        return self.store.watch(
            target.resource,
            target.namespace,
            label_selector=query.get("labelSelector", ""),
            field_selector=_watched_fields(target, query),
            resource_version=version,
            send_initial_events=query.get("sendInitialEvents") in TRUE,
            bookmarks=query.get("allowWatchBookmarks") in TRUE,
        )

    def _event_encoder(self, target: Target, query: Mapping[str, str], form: Form) -> Callable[[str, Object], bytes]:
        if form is Form.TABLE:
            return _TableEvents(self._tables(target, query), self._clock)
        if form is Form.METADATA:
            return lambda event_type, body: envelope(event_type, orjson.dumps(metadata_only(body)))
        return self._encoder.event

    # -- what is not about objects -----------------------------------------------------------------------------------

    async def _handle_rest(self, request: web.BaseRequest) -> web.StreamResponse:
        self._requests["other"] += 1
        path = request.path.rstrip("/")
        if path.startswith(HEALTH):
            return web.Response(text="ok")
        if isinstance(await self._interfere(None), CutAfter):
            raise _Cut
        if request.method != "GET":
            raise not_implemented(f"the embedded API server does not serve {request.method} {request.path}")
        if path.startswith("/api"):
            return self._discover(path, request.headers.get("Accept", ""))
        choose_form(request.headers.get("Accept", ""), frozenset({Form.WHOLE}))
        if path == "/version":
            return json_answer(orjson.dumps(discovery.VERSION))
        if path.startswith("/openapi/v3"):
            document = path.removeprefix("/openapi/v3").strip("/")
            api_service = self._aggregation.find_document(document)
            return self._describe(document) if api_service is None else await self._pass_on(request, api_service)
        raise not_implemented(f"the embedded API server does not serve {request.path}")

    def _discover(self, path: str, accept: str) -> web.Response:
        resources = self._discovered()
        parts = path.strip("/").split("/")
        if len(parts) == 1:
            form, version = choose_form(accept, DISCOVERY_FORMS)
            if form is Form.DISCOVERY:
                answer = discovery.aggregated(resources, core=parts[0] == "api", version=version)
                kind = f"application/json;g=apidiscovery.k8s.io;v={version};as=APIGroupDiscoveryList"
                return json_answer(orjson.dumps(answer), headers={"Content-Type": kind})
            core = parts[0] == "api"
            return json_answer(orjson.dumps(discovery.core_versions() if core else discovery.group_list(resources)))
        if parts[0] == "api":
            return json_answer(orjson.dumps(discovery.resource_list(resources, "", parts[1])))
        if len(parts) == 2:
            return json_answer(orjson.dumps(discovery.group(resources, parts[1])))
        return json_answer(orjson.dumps(discovery.resource_list(resources, parts[1], parts[2])))

    def _discovered(self) -> tuple[Resource, ...]:
        return (*self.store.resources(), *self._aggregation.resources())

    def _describe(self, path: str) -> web.Response:
        resources, definitions = self.store.resources(), self.store.definition
        if not path:
            index = openapi.index(resources, definitions)
            return json_answer(orjson.dumps({"paths": {**index["paths"], **self._aggregation.documents()}}))
        root, _, rest = path.partition("/")
        group, _, version = rest.rpartition("/")
        if root not in ("api", "apis"):
            raise discovery.PageNotFound
        return json_answer(openapi.document(resources, definitions, group, version))


class _TableEvents:
    """Encodes a watch's events as tables; the columns come with the first one only."""

    def __init__(self, tables: Tables, clock: Callable[[], datetime]) -> None:
        self._tables = tables
        self._clock = clock
        self._is_first = True

    def __call__(self, event_type: str, body: Object) -> bytes:
        if event_type == "BOOKMARK":
            return envelope(event_type, orjson.dumps(self._tables.of_bookmark(body)))
        table = self._tables.of_object(body, self._clock(), with_columns=self._is_first)
        self._is_first = False
        return envelope(event_type, orjson.dumps(table))


async def _pump(stream: EventStream, response: web.StreamResponse) -> None:
    try:
        while (chunk := await stream.next_chunk()) is not None:
            await response.write(chunk)
    except StatusError as error:
        await response.write(error_event(error))


def _check_initial_events(query: Mapping[str, str]) -> None:
    if "sendInitialEvents" in query and query.get("resourceVersionMatch") != "NotOlderThan":
        problem = "Forbidden: sendInitialEvents requires setting resourceVersionMatch to NotOlderThan"
        raise invalid("meta.k8s.io", "ListOptions", "", [Cause("resourceVersionMatch", "FieldValueForbidden", problem)])


def _watched_fields(target: Target, query: Mapping[str, str]) -> str:
    """A watch of one object by its path is a watch of its collection with its name."""
    selector = query.get("fieldSelector", "")
    return ",".join(part for part in (selector, f"metadata.name={target.name}" if target.name else "") if part)


def _fault_request(target: Target | None) -> FaultRequest:
    if target is None:
        return FaultRequest("get", "")
    return FaultRequest(target.verb, target.resource.kind, target.name, target.subresource, target.namespace)


def _request(message: Any, payload: Any, protocol: Any, writer: Any, task: Any) -> web.BaseRequest:
    loop = asyncio.get_running_loop()
    return web.BaseRequest(message, payload, protocol, writer, task, loop, client_max_size=LARGEST_BODY_BYTES)
