"""Lists and watches read in bulk: objects go from kopf's connection to the scheduler without kopf's machinery.

kopf discovers, logs in, lists, watches, resumes and starts again; for each object it also keeps a queue, a task and a
memory, which costs more than everything that the scheduler does with the object. The session that kopf gets at login
has a response class of ours, so every answer passes here first:

    list answer   {head, "items": [...]}     items --> Taker.on_list, many at a time     kopf gets the head, no items
    watch lines   ADDED MODIFIED DELETED     --> Taker.on_changes, a chunk at a time     kopf gets one BOOKMARK a chunk
                  BOOKMARK, ERROR, unknown                                               kopf gets the line as it is

The BOOKMARK has the version of the last change, so kopf resumes where we are. Objects are handed over in the order in
which the server sent them, before kopf gets to see anything that came after them. The event loop is given up after
each batch.

A list is read while it arrives: items are found by the key that they begin with, and each is decoded alone. That the
bytes up to the next such key are one item is proven by decoding them: a JSON object has one end.

What cannot be read here goes on to kopf untouched, and from there to the same function of the runtime: an answer that
is not a list of the kind, one with its fields in another order, a line that is no JSON for orjson.
"""

import asyncio
import json
from collections.abc import AsyncIterator, Collection, Iterator, Mapping, Sequence
from typing import Any, Protocol

import orjson

from berth.cluster.deep_json import DeepJsonResponse, cut, decode
from berth.cluster.listing import ListInProgress, WatchedResource

Json = dict[str, Any]
Change = tuple[str, Json]  # the type, and the object

CHANGES = frozenset({"ADDED", "MODIFIED", "DELETED"})
BATCH_ITEMS = 32
BATCH_BYTES = 128 * 1024
MOST_HEAD_BYTES = 64 * 1024

_ITEMS = b'"items":['
_DECODER = json.JSONDecoder()


class Taker(Protocol):
    """Whom objects are handed over to. None of these raises."""

    def begin_list(self, kind: str) -> ListInProgress:
        """A list of the kind begins."""
        ...

    def on_list(self, listed: ListInProgress, bodies: Sequence[Json]) -> None:
        """The next objects of the list."""
        ...

    def end_list(self, listed: ListInProgress) -> None:
        """There are no more: the list is complete."""
        ...

    def on_changes(self, kind: str, changes: Sequence[Change]) -> None:
        """What a watch says, in its order."""
        ...


class BulkIntake:
    """What the responses of one session share: which paths are read in bulk, and the lists whose pages are coming."""

    def __init__(self, resources: Mapping[str, WatchedResource], taker: Taker) -> None:
        """`resources` by the path of their lists on the server."""
        self._resources = resources
        self._taker = taker
        self._pages: dict[str, ListInProgress] = {}  # by kind, while another page is to come

    @property
    def paths(self) -> Collection[str]:
        """Of the lists that are read in bulk."""
        return self._resources.keys()

    def response_class(self) -> type[DeepJsonResponse]:
        """For a session of aiohttp."""
        intake = self

        class BulkResponse(DeepJsonResponse):
            """An answer whose objects are taken by us rather than by kopf."""

            async def start(self, connection: Any) -> "BulkResponse":
                await super().start(connection)
                resource = intake.resource_of(self, watch=True)
                if resource is not None:
                    self.content = BulkLines(self.content, resource.kind, intake._taker)  # type: ignore[assignment]
                return self

            async def json(self, **options: Any) -> Any:
                resource = intake.resource_of(self, watch=False)
                if resource is None:
                    return await super().json(**options)
                reader = ListReader(resource)
                head = await intake.take_page(self, reader)
                if head is None:
                    self._body = reader.take_rest()
                    return await super().json(**options)
                return {**head, "items": []}

        return BulkResponse

    def resource_of(self, response: DeepJsonResponse, *, watch: bool) -> WatchedResource | None:
        """The resource that the answer lists, or watches; None for any other answer."""
        url = response.url
        is_watch = url.query.get("watch") == "true"
        if response.method != "GET" or response.status != 200 or is_watch is not watch:
            return None
        if not watch and response.content_type != "application/json":
            return None
        return self._resources.get(url.path)

    async def take_page(self, response: DeepJsonResponse, reader: "ListReader") -> Json | None:
        """Hand a page over while it arrives; its head, or None if it is not ours to read."""
        kind, token = reader.resource.kind, response.url.query.get("continue", "")
        earlier = self._pages.pop(kind, None)
        listed: ListInProgress | None = None
        async for data in response.content.iter_any():
            reader.feed(data)
            if reader.head is None:
                continue
            if listed is None:
                is_next = earlier is not None and bool(token) and earlier.token == token
                listed = earlier if earlier is not None and is_next else self._taker.begin_list(kind)
                listed.begin_page(reader.head["metadata"], is_first=not token)
            await self._take(listed, reader.items())
        if listed is None:
            return None
        await self._take(listed, reader.last_items())
        if listed.token:
            self._pages[kind] = listed
        else:
            self._taker.end_list(listed)
        return reader.head

    async def _take(self, listed: ListInProgress, items: Iterator[tuple[int, Json]]) -> None:
        """In batches, with everybody else's turn after each."""
        batch: list[Json] = []
        size = 0
        for length, body in items:
            batch.append(body)
            size += length
            if len(batch) >= BATCH_ITEMS or size >= BATCH_BYTES:
                self._taker.on_list(listed, batch)
                batch, size = [], 0
                await asyncio.sleep(0)
        if batch:
            self._taker.on_list(listed, batch)
            await asyncio.sleep(0)


class ListReader:
    """Finds the items in a list answer that arrives in pieces."""

    def __init__(self, resource: WatchedResource) -> None:
        self.resource = resource
        self.head: Json | None = None
        """Everything but the items; None before it has arrived, and if this is no list of the kind."""
        self._rest = b""  # has arrived and is not read yet
        self._later: list[bytes] = []  # behind that, and not to be looked at before all of it is there
        self._waits_for_all = False
        self._separator = b""
        self._looked = 0  # where in the rest to go on looking for the end of the item

    def feed(self, data: bytes) -> None:
        if self._waits_for_all:
            self._later.append(data)
            return
        self._rest += data
        if self.head is None:
            self._read_head()

    def take_rest(self) -> bytes:
        """Everything that has arrived and was not read."""
        raw = b"".join([self._rest, *self._later])
        self._rest, self._later = b"", []
        return raw

    def _read_head(self) -> None:
        begin = self._rest.find(_ITEMS)
        if begin < 0:
            self._waits_for_all = len(self._rest) > MOST_HEAD_BYTES
            return
        self.head = _head_of(self._rest[:begin], self.resource)
        self._waits_for_all = self.head is None
        if self.head is not None:
            self._rest = self._rest[begin + len(_ITEMS) :]

    def items(self) -> Iterator[tuple[int, Json]]:
        """The items that have arrived in full and have another one behind them; each with its length in bytes."""
        if self._waits_for_all or not (self._separator or self._find_separator()):
            return
        rest, separator, begin, look = self._rest, self._separator, 0, self._looked
        while (end := rest.find(separator, look)) >= 0:
            body = _read_item(rest[begin : end + 1])
            if body is None:  # the key was inside the item
                found = self._read_odd(rest[begin:])
                if found is None:
                    break
                body, length = found
                end = begin + length - 1
            yield end + 1 - begin, body
            begin = look = end + 2
        self._rest = rest[begin:]
        # A part of the separator may have arrived.
        self._looked = max(len(self._rest) - len(separator), 0) if end < 0 else 0

    def _find_separator(self) -> bool:
        """The end of an item, a comma, and the first key of the first item."""
        if len(self._rest) > 1 and not self._rest.startswith(b'{"'):
            self._waits_for_all = True
            return False
        end = self._rest.find(b'"', 2)
        if end < 0:
            return False
        self._separator = b"}," + self._rest[: end + 1]
        return True

    def _read_odd(self, raw: bytes) -> tuple[Json, int] | None:
        """An item that has the separator in it, and its length; None if it has not arrived in full."""
        try:
            text = raw.decode(errors="ignore")  # the last character may have arrived in part
            body, end = _DECODER.raw_decode(text)
        except RecursionError:
            self._waits_for_all = True
        except ValueError:
            pass
        else:
            length = len(text[:end].encode())
            if raw[length : length + 1] == b",":
                return body, length
        return None

    def last_items(self) -> Iterator[tuple[int, Json]]:
        """The rest; JSONDecodeError if the answer does not end as a list does."""
        raw = self.take_rest().strip()
        if not raw.endswith(b"]}"):
            raise orjson.JSONDecodeError("the list has no end", "", 0)
        bodies = _decode_any(b"[" + raw[:-2] + b"]")
        for body in bodies:
            yield len(raw) // len(bodies), body


def _head_of(raw: bytes, resource: WatchedResource) -> Json | None:
    """The fields before the items, if they are those of a list of the kind."""
    try:
        head = orjson.loads(raw.rstrip().removesuffix(b",") + b"}")
    except orjson.JSONDecodeError:
        return None
    metadata = head.get("metadata")
    kind = head.get("kind"), head.get("apiVersion")
    is_list = kind == (f"{resource.kind}List", resource.api_version) and isinstance(metadata, dict)
    return head if is_list and isinstance(metadata.get("resourceVersion"), str) else None


def _read_item(raw: bytes) -> Json | None:
    """None where these bytes are not one object."""
    try:
        body = _decode_any(raw)
    except ValueError:
        return None
    return body if isinstance(body, dict) else None


def _decode_any(raw: bytes) -> Any:
    """As kopf would read it in the end, if it is too much for orjson: half a surrogate pair, numbers without end."""
    try:
        return decode(raw)
    except orjson.JSONDecodeError:
        return json.loads(cut(raw))


class BulkLines:
    """The stream of a watch: changes are taken, and the rest goes on to kopf."""

    def __init__(self, content: Any, kind: str, taker: Taker) -> None:
        """`content` has whole lines in its chunks."""
        self._content = content
        self._kind = kind
        self._taker = taker

    def __getattr__(self, name: str) -> Any:
        return getattr(self._content, name)

    async def iter_chunked(self, size: int) -> AsyncIterator[bytes]:
        async for lines in self._content.iter_chunked(size):
            batch: list[Change] = []
            taken = 0
            for line in lines.splitlines(keepends=True):
                change = _read_change(line)
                if change is None:
                    if batch:
                        yield self._hand_over(batch)
                        batch, taken = [], 0
                    yield line
                    continue
                batch.append(change)
                taken += len(line)
                if len(batch) >= BATCH_ITEMS or taken >= BATCH_BYTES:
                    yield self._hand_over(batch)
                    batch, taken = [], 0
                    await asyncio.sleep(0)
            if batch:
                yield self._hand_over(batch)
            await asyncio.sleep(0)

    def _hand_over(self, changes: list[Change]) -> bytes:
        """Hand the changes over; what kopf gets in their place."""
        self._taker.on_changes(self._kind, changes)
        return _bookmark(changes)


def _read_change(line: bytes) -> Change | None:
    """None where the line is for kopf to read."""
    try:
        event = orjson.loads(line)
    except orjson.JSONDecodeError:
        return None
    if not isinstance(event, dict) or event.get("type") not in CHANGES or not isinstance(event.get("object"), dict):
        return None
    return event["type"], event["object"]


def _bookmark(changes: Sequence[Change]) -> bytes:
    """A line that says how far the watch has come; kopf stays where it was if it names no version."""
    for _, body in reversed(changes):
        metadata = body.get("metadata")
        version = metadata.get("resourceVersion") if isinstance(metadata, dict) else None
        if isinstance(version, str):
            return orjson.dumps({"type": "BOOKMARK", "object": {"metadata": {"resourceVersion": version}}}) + b"\n"
    return b'{"type":"BOOKMARK","object":{"metadata":{}}}\n'
