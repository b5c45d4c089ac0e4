"""A small asyncio client for tests and benchmarks: plain dicts in and out, many requests at once.

    async with Client(control_plane.url, control_plane.token) as api:
        await api.create_many([make_node(f"node-{i}") for i in range(5000)])
        await api.wait_until(PODS, all_bound, timeout_seconds=60)

Collections are given by their path ("/api/v1/nodes", "/api/v1/namespaces/default/pods"); `collection_of` knows that of
an object. A request whose connection broke is sent again, as the connections of a server that closes them do break.
There is no caching and no schema: what the API server says is what comes back, and its refusals are ApiError.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from types import TracebackType
from typing import Any, Self

import aiohttp
import orjson

from berth.cluster.deep_json import decode
from control_plane.process import unverified_tls

Object = dict[str, Any]
Objects = list[Object]
Events = list[tuple[str, Object]]

NODES = "/api/v1/nodes"
PODS = "/api/v1/pods"
NAMESPACES = "/api/v1/namespaces"
POLICIES = "/apis/berth.dev/v1alpha1/schedulingpolicies"

SEND_ATTEMPTS = 5
BROKEN = (aiohttp.ClientConnectionError, aiohttp.ClientPayloadError)


class ApiError(Exception):
    """The API server refused; `status` is the HTTP status."""

    def __init__(self, status: int, method: str, path: str, message: str) -> None:
        super().__init__(f"{method} {path}: {status} {message}")
        self.status = status


class Client:
    """See the module's text. Use it as an async context manager, in one event loop."""

    def __init__(self, url: str, token: str, *, connections: int = 64) -> None:
        self._url = url
        self._headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}
        self._connections = connections
        self._session: aiohttp.ClientSession | None = None

    async def __aenter__(self) -> Self:
        self._session = aiohttp.ClientSession(
            self._url,
            connector=aiohttp.TCPConnector(limit=0, ssl=unverified_tls()),
            headers=self._headers,
            timeout=aiohttp.ClientTimeout(total=None, sock_connect=10, sock_read=120),
        )
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._session is not None:
            await self._session.close()
            self._session = None

    @property
    def session(self) -> aiohttp.ClientSession:
        if self._session is None:
            raise RuntimeError("use the client as an async context manager")
        return self._session

    # -- one object --------------------------------------------------------------------------------------------------

    async def request(
        self,
        method: str,
        path: str,
        body: Object | list[Object] | None = None,
        *,
        parameters: Mapping[str, str] | None = None,
        content_type: str = "application/json",
    ) -> Object:
        """Send one request; raises ApiError for any status from 400 up, and what aiohttp raises when nobody answers."""
        data = None if body is None else orjson.dumps(body)
        headers = {"Content-Type": content_type}
        async with self.session.request(method, path, data=data, params=parameters, headers=headers) as answer:
            text = await answer.read()
            if answer.status >= 400:
                raise ApiError(answer.status, method, path, _message(text))
            result: Object = decode(text)
            return result

    async def get(self, path: str) -> Object:
        return await self._persistently("GET", path)

    async def exists(self, path: str) -> bool:
        try:
            await self.get(path)
        except ApiError as error:
            if error.status == 404:
                return False
            raise
        return True

    async def create(self, body: Object) -> Object:
        """Create an object in its collection; already there after a broken connection means that it was made then."""
        path = collection_of(body)
        for attempt in range(SEND_ATTEMPTS):
            try:
                return await self.request("POST", path, body)
            except BROKEN:
                if attempt == SEND_ATTEMPTS - 1:
                    raise
            except ApiError as error:
                if error.status == 409 and attempt > 0:
                    return await self.get(f"{path}/{body['metadata']['name']}")
                raise
        raise AssertionError("unreachable: the last attempt returns or raises")

    async def patch(self, path: str, body: Object) -> Object:
        """A merge patch."""
        return await self._persistently("PATCH", path, body, content_type="application/merge-patch+json")

    async def apply(self, body: Object) -> Object:
        """Server-side apply: made or changed to be like this."""
        query = {"fieldManager": "tests", "force": "true"}
        return await self._persistently(
            "PATCH", path_of(body), body, parameters=query, content_type="application/apply-patch+yaml"
        )

    async def delete(self, path: str, *, grace_period_seconds: int = 0) -> None:
        """Delete an object, without grace by default, as no kubelet would end it; one that is gone already is fine."""
        try:
            await self._persistently("DELETE", path, {"gracePeriodSeconds": grace_period_seconds})
        except ApiError as error:
            if error.status != 404:
                raise

    # -- many --------------------------------------------------------------------------------------------------------

    async def create_many(
        self,
        bodies: Iterable[Object],
        *,
        concurrency: int | None = None,
        tell: Callable[[Object], None] | None = None,
    ) -> int:
        """Create all, `concurrency` at a time, and tell of each as it was made; returns how many.

        The first refusal ends it.
        """
        remaining = iter(bodies)
        made = 0

        async def work() -> None:
            nonlocal made
            for body in remaining:
                created = await self.create(body)
                made += 1
                if tell is not None:
                    tell(created)

        async with asyncio.TaskGroup() as workers:
            for _ in range(concurrency or self._connections):
                workers.create_task(work())
        return made

    async def list(self, path: str, **parameters: str) -> Objects:
        items, _ = await self.list_with_version(path, **parameters)
        return items

    async def list_with_version(self, path: str, **parameters: str) -> tuple[Objects, str]:
        """The objects of a collection, and the resourceVersion to watch it from."""
        answer = await self._persistently("GET", path, parameters=parameters)
        items: Objects = answer["items"]
        return items, str(answer["metadata"]["resourceVersion"])

    async def delete_collection(self, path: str, *, grace_period_seconds: int = 0) -> None:
        await self._persistently("DELETE", path, {"gracePeriodSeconds": grace_period_seconds})

    async def watch(self, path: str, resource_version: str, **parameters: str) -> AsyncIterator[Events]:
        """Events in batches, as they arrive; ends when the server ends it. An ERROR event is raised as ApiError."""
        query = {"watch": "true", "resourceVersion": resource_version, **parameters}
        timeout = aiohttp.ClientTimeout(total=None, sock_connect=10)
        async with self.session.get(path, params=query, timeout=timeout) as answer:
            if answer.status >= 400:
                raise ApiError(answer.status, "WATCH", path, _message(await answer.read()))
            rest = b""
            async for chunk in answer.content.iter_any():
                *lines, rest = (rest + chunk).split(b"\n")
                if lines:
                    yield [_event(path, line) for line in lines]

    async def follow(self, path: str, resource_version: str, **parameters: str) -> AsyncIterator[Events]:
        """A watch that goes on where it was when the server ends it, as it does with any watcher that it finds slow."""
        version = resource_version
        while True:
            with contextlib.suppress(*BROKEN):
                async for events in self.watch(path, version, **parameters):
                    version = str(events[-1][1]["metadata"]["resourceVersion"])
                    yield events
            await asyncio.sleep(0)  # even if every watch ends at once, others and a cancellation get their turn

    async def wait_until(
        self,
        path: str,
        predicate: Callable[[Mapping[str, Object]], bool],
        *,
        timeout_seconds: float,
        **parameters: str,
    ) -> dict[str, Object]:
        """Watch a collection until `predicate` holds for its objects (by "namespace/name" or "name"); returns them.

        Survives the API server going away and coming back. Raises TimeoutError with what there was at the end.
        """
        objects: dict[str, Object] = {}
        try:
            async with asyncio.timeout(timeout_seconds):
                while True:
                    try:
                        if await self._follow(path, predicate, objects, parameters):
                            return objects
                    except (*BROKEN, ApiError):
                        await asyncio.sleep(0.2)
        except TimeoutError as error:
            raise TimeoutError(f"{path}: not as expected after {timeout_seconds:.0f} s: {_outline(objects)}") from error

    async def _follow(
        self,
        path: str,
        predicate: Callable[[Mapping[str, Object]], bool],
        objects: dict[str, Object],
        parameters: Mapping[str, str],
    ) -> bool:
        """One list and one watch; true as soon as the predicate holds, false when the watch ends before."""
        items, version = await self.list_with_version(path, **parameters)
        objects.clear()
        objects.update((key_of(item), item) for item in items)
        if predicate(objects):
            return True
        async for events in self.watch(path, version, **parameters):
            for kind, body in events:
                if kind == "DELETED":
                    objects.pop(key_of(body), None)
                else:
                    objects[key_of(body)] = body
            if predicate(objects):
                return True
        return False

    async def _persistently(
        self,
        method: str,
        path: str,
        body: Object | None = None,
        *,
        parameters: Mapping[str, str] | None = None,
        content_type: str = "application/json",
    ) -> Object:
        """A request that may be sent twice without harm, sent again when its connection broke."""
        for _ in range(SEND_ATTEMPTS - 1):
            try:
                return await self.request(method, path, body, parameters=parameters, content_type=content_type)
            except BROKEN:
                await asyncio.sleep(0.1)
        return await self.request(method, path, body, parameters=parameters, content_type=content_type)


def key_of(body: Object) -> str:
    """ "namespace/name", or "name" for what lives in no namespace."""
    metadata = body["metadata"]
    namespace = metadata.get("namespace", "")
    return f"{namespace}/{metadata['name']}" if namespace else str(metadata["name"])


def collection_of(body: Object) -> str:
    """The path of the collection that an object belongs to, by its apiVersion, kind and namespace."""
    version, kind = str(body["apiVersion"]), str(body["kind"]).lower()
    base = f"/apis/{version}" if "/" in version else f"/api/{version}"
    namespace = body["metadata"].get("namespace", "")
    return f"{base}/namespaces/{namespace}/{_plural(kind)}" if namespace else f"{base}/{_plural(kind)}"


def path_of(body: Object) -> str:
    return f"{collection_of(body)}/{body['metadata']['name']}"


def _plural(kind: str) -> str:
    if kind.endswith(("s", "x", "ch")):
        return f"{kind}es"
    return f"{kind[:-1]}ies" if kind.endswith("y") else f"{kind}s"


def _event(path: str, line: bytes) -> tuple[str, Object]:
    event = decode(line)
    if event["type"] == "ERROR":
        status = event["object"]
        raise ApiError(int(status.get("code", 500)), "WATCH", path, str(status.get("message", status)))
    return str(event["type"]), event["object"]


def _message(text: bytes) -> str:
    try:
        return str(decode(text)["message"])
    except (orjson.JSONDecodeError, KeyError, TypeError):
        return text.decode(errors="replace")


def _outline(objects: Mapping[str, Object]) -> str:
    """A few of the objects, short enough for an error message."""
    shown = [
        f"\n  {key} {str({**body.get('spec', {}), **body.get('status', {})})[:300]}" for key, body in objects.items()
    ]
    return f"{len(objects)} objects" + "".join(shown[:5])
