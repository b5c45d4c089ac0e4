"""Watches: the current state, then what changes.

Nothing tells us of a change of an explanation: it depends on everything in the cluster. So a watch reads its objects
once a second and compares fingerprints. That makes `kubectl get -w` and `kubectl wait` work, and costs at most what the
limits allow to questions.
"""

import asyncio
from collections.abc import Callable, Iterator, Sequence

from aiohttp import web

from berth.explain_api.port import Body, Key
from berth.explain_api.reader import Reader
from berth.explain_api.rendering import Renderer
from berth.explain_api.requests import Question
from berth.explain_api.resources import API_VERSION
from berth.explain_api.statuses import JSON, ApiRefusal, expired
from berth.explain_api.versions import State, Versions, fingerprint, key_of
from berth.serving.bridge import BridgeTimeout
from berth.serving.responses import HEADERS

POLL_SECONDS = 1.0
LONGEST_SECONDS = 1800
MOST_BODIES = 2000  # whose last state is kept, to be shown when they are gone

Event = tuple[str, Body]


class Watches:
    """Serves watches. Lives in the serving loop."""

    def __init__(self, reader: Reader, versions: Versions, wall: Callable[[], float]) -> None:
        self._reader = reader
        self._versions = versions
        self._wall = wall

    async def serve(self, request: web.BaseRequest, question: Question) -> web.StreamResponse:
        """Answers until the time is over or the client has gone. Raises ApiRefusal (410) before the first event."""
        state = self._begin(question)
        watch = _Watch(question, state, self._reader, self._versions, Renderer(question, self._wall))
        first = await watch.poll()
        response = web.StreamResponse(headers={**HEADERS, "Content-Type": JSON})
        await response.prepare(request)
        try:
            async with asyncio.timeout(min(question.timeout_seconds or LONGEST_SECONDS, LONGEST_SECONDS)):
                await response.write(first + watch.end_of_initial_events())
                while True:
                    await asyncio.sleep(POLL_SECONDS)
                    lines = await watch.poll_again()
                    if lines:
                        await response.write(lines)
        except TimeoutError:
            await response.write_eof()
        return response

    def _begin(self, question: Question) -> State:
        if question.initial_events or question.since in ("", "0"):
            return {}
        state = self._versions.recall(question.since)
        if state is None:
            raise expired(f"too old resource version: {question.since[:40]}")
        return state


class _Watch:
    """One watch: what its client knows, and how to find out what that lacks."""

    def __init__(
        self, question: Question, state: State, reader: Reader, versions: Versions, renderer: Renderer
    ) -> None:
        self._question = question
        self._state = state
        self._bodies: dict[Key, Body] = {}
        self._reader = reader
        self._versions = versions
        self._renderer = renderer
        self._version = 0

    async def poll(self) -> bytes:
        """Returns the lines for what has changed."""
        bodies = await self._reader.everything(self._question)
        version = self._versions.next()
        events = list(self._changes(bodies))
        if events or not self._version:
            self._versions.forget(self._version)
            self._version = version
            self._versions.remember(version, dict(self._state))
        return b"".join(self._renderer.event(kind, body, version) for kind, body in events)

    async def poll_again(self) -> bytes:
        """The same; nothing if the scheduler is too busy to answer now."""
        try:
            return await self.poll()
        except (BridgeTimeout, ApiRefusal):
            return b""

    def end_of_initial_events(self) -> bytes:
        question = self._question
        if not (question.initial_events and question.bookmarks):
            return b""
        return self._renderer.bookmark(self._version, ends_initial_events=True)

    def _changes(self, bodies: Sequence[Body]) -> Iterator[Event]:
        """Yields what the client does not know, and notes it."""
        seen: set[Key] = set()
        for body in bodies:
            key, now = key_of(body), fingerprint(body)
            seen.add(key)
            before = self._state.get(key)
            if before != now:
                self._state[key] = now
                yield ("ADDED" if before is None else "MODIFIED"), body
        for key in self._state.keys() - seen:
            del self._state[key]
            yield "DELETED", self._bodies.get(key) or self._nameplate(key)
        self._bodies = {key_of(body): body for body in bodies[:MOST_BODIES]}

    def _nameplate(self, key: Key) -> Body:
        """Returns what is left to say of an object that is gone."""
        namespace, name = key
        metadata = {"name": name, **({"namespace": namespace} if namespace else {})}
        return {"apiVersion": API_VERSION, "kind": self._question.resource.kind, "metadata": metadata, "status": {}}
