"""Lists and watches that are read in bulk: what is handed over, and what kopf gets to see of it."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Sequence
from typing import Any

import aiohttp
import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from berth.cluster import bulk
from berth.cluster.bulk import BulkIntake, BulkLines, Change, ListReader
from berth.cluster.deep_json import LEVELS, ShallowLines
from berth.cluster.listing import ListInProgress
from berth.cluster.resources import RESOURCES
from cluster.server import Answer, Server, listed
from cluster.test_deep_json import depth_of, nested
from support.builders import make_pod

PATH = "/api/v1/pods"
JSON = {"Content-Type": "application/json"}
PODS = next(resource for resource in RESOURCES if resource.kind == "Pod")
Json = dict[str, Any]


class Taker:
    """Remembers what it was handed, one entry a call."""

    def __init__(self) -> None:
        self.lists: list[ListInProgress] = []
        self.complete: list[ListInProgress] = []
        self.items: list[Json] = []
        self.batches: list[list[Change]] = []

    def begin_list(self, kind: str) -> ListInProgress:
        self.lists.append(ListInProgress(kind, {}, 0))
        return self.lists[-1]

    def on_list(self, listed: ListInProgress, bodies: Sequence[Json]) -> None:
        assert listed is self.lists[-1]
        self.items += bodies

    def end_list(self, listed: ListInProgress) -> None:
        self.complete.append(listed)

    def on_changes(self, kind: str, changes: Sequence[Change]) -> None:
        assert kind == "Pod"
        self.batches.append(list(changes))

    @property
    def changes(self) -> list[str]:
        return [f"{type_} {body['metadata']['name']}" for batch in self.batches for type_, body in batch]


def compact(answer: Answer) -> Answer:
    """As an API server writes it, without spaces."""
    return Answer(answer.status, orjson.dumps(answer.body).decode(), JSON)


def pod(name: str, version: str = "1", **more: Any) -> Json:
    body = make_pod(name)
    return {"metadata": {**body["metadata"], "resourceVersion": version, **more}, "spec": body["spec"]}


def line(type_: str, body: Any) -> str:
    return orjson.dumps({"type": type_, "object": body}).decode()


def bookmark(version: str) -> Json:
    return {"type": "BOOKMARK", "object": {"metadata": {"resourceVersion": version}}}


@pytest.fixture
def taker() -> Taker:
    return Taker()


@pytest.fixture
async def session(server: Server, taker: Taker) -> AsyncIterator[aiohttp.ClientSession]:
    kind = BulkIntake({PATH: PODS}, taker).response_class()
    async with aiohttp.ClientSession(f"http://127.0.0.1:{server.port}", response_class=kind) as session:
        yield session


async def read_list(session: aiohttp.ClientSession, path: str = PATH, **query: str) -> Any:
    async with session.get(path, params=query) as response:
        return await response.json()


async def read_watch(session: aiohttp.ClientSession) -> list[Json]:
    async with session.get(PATH, params={"watch": "true"}) as response:
        raw = b"".join([chunk async for chunk in response.content.iter_chunked(2**20)])
    return [json.loads(line) for line in raw.decode().splitlines()]


# --- lists -----------------------------------------------------------------------------------------------------------


async def test_the_items_of_a_list_are_handed_over_and_kopf_gets_the_rest(
    server: Server, session: aiohttp.ClientSession, taker: Taker
) -> None:
    page = listed("Pod", pod("a"), pod("b"), version="7")
    server.answer("GET", PATH, compact(page))
    assert await read_list(session) == {**page.body, "items": []}
    assert taker.items == page.body["items"]
    (complete,) = taker.complete
    assert (complete.version, complete.is_sound) == ("7", True)


async def test_pages_are_one_list(server: Server, session: aiohttp.ClientSession, taker: Taker) -> None:
    pages = [listed("Pod", pod("a"), token="next"), listed("Pod", pod("b"))]
    server.answer("GET", PATH, *map(compact, pages))
    assert (await read_list(session))["metadata"]["continue"] == "next"
    assert taker.complete == []
    await read_list(session, **{"continue": "next"})
    assert [item["metadata"]["name"] for item in taker.items] == ["a", "b"]
    (complete,) = taker.complete
    assert complete is taker.lists[0]
    assert complete.is_sound


@pytest.mark.parametrize("token", ["other", ""])
async def test_pages_that_do_not_belong_together_are_no_list(
    server: Server, session: aiohttp.ClientSession, taker: Taker, token: str
) -> None:
    server.answer("GET", PATH, compact(listed("Pod", pod("a"), token="next")), compact(listed("Pod", pod("b"))))
    await read_list(session)
    await read_list(session, **{"continue": token} if token else {})
    assert [complete.is_sound for complete in taker.complete] == [not token]
    assert taker.complete != taker.lists[:1]


async def test_pages_of_different_versions_are_no_list(
    server: Server, session: aiohttp.ClientSession, taker: Taker
) -> None:
    first, second = listed("Pod", pod("a"), token="next"), listed("Pod", pod("b"), version="1001")
    server.answer("GET", PATH, compact(first), compact(second))
    await read_list(session)
    await read_list(session, **{"continue": "next"})
    assert [complete.is_sound for complete in taker.complete] == [False]


@pytest.mark.parametrize(
    "answer",
    [
        Answer(200, {}),
        Answer(200, {"items": []}),
        listed("Node", {"metadata": {"name": "n", "uid": "n"}}),
        compact(listed("Node", {"metadata": {"name": "n", "uid": "n"}})),
        compact(Answer(200, {"kind": "PodList", "apiVersion": "v1", "items": [], "metadata": {}})),
        compact(Answer(200, {"kind": "PodList", "apiVersion": "v1", "metadata": {}, "items": [pod("a")]})),
        listed("Pod", pod("a")),  # with spaces
    ],
)
async def test_what_is_not_a_list_in_its_usual_form_goes_on_to_kopf_untouched(
    server: Server, session: aiohttp.ClientSession, taker: Taker, answer: Answer
) -> None:
    server.answer("GET", PATH, answer)
    body = json.loads(answer.body) if isinstance(answer.body, str) else answer.body
    assert await read_list(session) == body
    assert taker.lists == []


async def test_answers_about_anything_else_go_on_to_kopf_untouched(
    server: Server, session: aiohttp.ClientSession, taker: Taker
) -> None:
    page = compact(listed("SchedulingPolicy", {"metadata": {"name": "p", "uid": "p"}}))
    server.answer("GET", "/apis/berth.dev/v1alpha1/schedulingpolicies", page)
    server.answer("GET", PATH, Answer(403, orjson.dumps({"kind": "Status", "items": []}).decode(), JSON))
    assert (await read_list(session, "/apis/berth.dev/v1alpha1/schedulingpolicies"))["items"]
    assert (await read_list(session))["kind"] == "Status"
    assert taker.lists == []


async def test_a_page_of_a_proxy_is_refused_as_before(
    server: Server, session: aiohttp.ClientSession, taker: Taker
) -> None:
    server.answer("GET", PATH, Answer(200, "<html></html>", {"Content-Type": "text/html"}))
    with pytest.raises(aiohttp.ContentTypeError):
        await read_list(session)


async def test_a_list_without_an_end_is_no_list(server: Server, session: aiohttp.ClientSession, taker: Taker) -> None:
    whole = str(compact(listed("Pod", pod("a"), pod("b"))).body)
    server.answer("GET", PATH, Answer(200, whole[:-30], JSON))
    with pytest.raises(json.JSONDecodeError):
        await read_list(session)
    assert taker.complete == []


async def test_an_object_that_is_nested_too_deep_is_cut_and_the_others_are_not(
    server: Server, session: aiohttp.ClientSession, taker: Taker
) -> None:
    deep = f'{{"metadata":{{"name":"deep","uid":"d","managedFields":[{nested(5000)}]}},"spec":{{"x":1}}}}'
    whole = str(compact(listed("Pod", pod("a"), pod("b"))).body)
    server.answer("GET", PATH, Answer(200, whole.replace('"items":[', f'"items":[{deep},'), JSON))
    await read_list(session)
    assert [item["metadata"]["name"] for item in taker.items] == ["deep", "a", "b"]
    assert taker.items[0]["spec"] == {"x": 1}
    assert depth_of(taker.items[0]) <= LEVELS


async def test_everybody_gets_a_turn_while_a_list_is_read(
    server: Server, session: aiohttp.ClientSession, taker: Taker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bulk, "BATCH_ITEMS", 2)
    server.answer("GET", PATH, compact(listed("Pod", *(pod(f"p{number}") for number in range(9)))))
    seen: set[int] = set()

    async def look() -> None:
        while True:
            seen.add(len(taker.items))
            await asyncio.sleep(0)

    looking = asyncio.create_task(look())
    await read_list(session)
    looking.cancel()
    assert seen >= {2, 4, 6, 8}


values = st.recursive(
    st.none() | st.integers(-5, 5) | st.text(alphabet='a"\\{}[],:\u2603', max_size=6),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["metadata", "a", '},{"']), inner, max_size=2)
    ),
    max_leaves=8,
)
bodies = st.fixed_dictionaries({"metadata": values}, optional={"a": values, "items": values})


def read_in_pieces(raw: bytes, size: int) -> list[Json]:
    reader, found = ListReader(PODS), []
    for begin in range(0, len(raw), size):
        reader.feed(raw[begin : begin + size])
        found += [body for _, body in reader.items()]
    assert reader.head is not None
    return found + [body for _, body in reader.last_items()]


@given(st.lists(bodies, max_size=5), st.integers(1, 400))
def test_whatever_items_hold_and_wherever_pieces_end_they_are_read_as_they_are(items: list[Json], size: int) -> None:
    raw = orjson.dumps(listed("Pod", *items).body)
    assert read_in_pieces(raw, size) == items


@pytest.mark.parametrize("odd", ['{"n":1e999}', '{"s":"\\ud800"}', '{"n":' + "1" * 400 + "}"])
@pytest.mark.parametrize("size", [1, 50, 5000])
def test_what_orjson_does_not_read_is_read_all_the_same(odd: str, size: int) -> None:
    whole = orjson.dumps(listed("Pod", pod("a"), pod("b")).body).decode()
    raw = whole.replace('"items":[', f'"items":[{odd},').encode()
    assert [item.get("metadata", {}).get("name") for item in read_in_pieces(raw, size)] == [None, "a", "b"]


def test_an_item_that_holds_many_beginnings_of_items_costs_no_more_than_its_length() -> None:
    odd = {"metadata": {"name": "odd"}, "spec": [{"metadata": {}}] * 20_000}
    items = [pod("a"), odd, pod("b"), odd, pod("c")]
    raw = orjson.dumps(listed("Pod", *items).body)
    assert read_in_pieces(raw, 64 * 1024) == items


# --- watches ---------------------------------------------------------------------------------------------------------


async def test_changes_are_handed_over_and_kopf_gets_a_bookmark(
    server: Server, session: aiohttp.ClientSession, taker: Taker
) -> None:
    lines = [line("ADDED", pod("a", "11")), line("MODIFIED", pod("a", "12")), line("DELETED", pod("b", "13"))]
    server.answer("GET", PATH, Answer(200, "\n".join(lines) + "\n", JSON))
    assert await read_watch(session) == [bookmark("13")]
    assert taker.changes == ["ADDED a", "MODIFIED a", "DELETED b"]


async def test_bookmarks_errors_and_unknown_lines_go_on_to_kopf_after_what_came_before_them(
    server: Server, session: aiohttp.ClientSession, taker: Taker
) -> None:
    others = [bookmark("12"), {"type": "STRANGE", "object": {}}, {"type": "ERROR", "object": {"code": 410}}]
    lines = [line("ADDED", pod("a", "11")), *map(json.dumps, others[:2]), line("ADDED", pod("b", "13"))]
    server.answer("GET", PATH, Answer(200, "\n".join([*lines, json.dumps(others[2])]) + "\n", JSON))
    assert await read_watch(session) == [bookmark("11"), *others[:2], bookmark("13"), others[2]]
    assert [len(batch) for batch in taker.batches] == [1, 1]


@pytest.mark.parametrize(
    "odd", ["[]", "{}", '{"type":"ADDED"}', '{"type":"ADDED","object":[]}', '{"type":"ADDED","object":{"s":"\\ud800"}}']
)
async def test_a_line_that_is_no_change_is_left_to_kopf(
    server: Server, session: aiohttp.ClientSession, taker: Taker, odd: str
) -> None:
    server.answer("GET", PATH, Answer(200, f"{line('ADDED', pod('a', '11'))}\n{odd}\n", JSON))
    assert await read_watch(session) == [bookmark("11"), json.loads(odd)]


async def test_a_line_that_is_no_json_ends_the_watch_as_before_and_nothing_before_it_is_lost(
    server: Server, session: aiohttp.ClientSession, taker: Taker
) -> None:
    server.answer("GET", PATH, Answer(200, f"{line('ADDED', pod('a', '11'))}\nnonsense\n", JSON))
    with pytest.raises(json.JSONDecodeError):
        await read_watch(session)
    assert taker.changes == ["ADDED a"]


async def test_a_change_without_a_version_leaves_kopf_where_it_was(
    server: Server, session: aiohttp.ClientSession, taker: Taker
) -> None:
    server.answer("GET", PATH, Answer(200, line("ADDED", {"metadata": 5}) + "\n", JSON))
    assert await read_watch(session) == [{"type": "BOOKMARK", "object": {"metadata": {}}}]
    assert taker.batches == [[("ADDED", {"metadata": 5})]]


async def test_a_change_that_is_nested_too_deep_is_handed_over_without_what_is_too_deep(
    server: Server, session: aiohttp.ClientSession, taker: Taker
) -> None:
    deep = f'{{"type":"ADDED","object":{{"metadata":{{"name":"deep","x":{nested(5000)}}}}}}}'
    server.answer("GET", PATH, Answer(200, f"{line('ADDED', pod('a'))}\n{deep}\n{line('ADDED', pod('b'))}\n", JSON))
    await read_watch(session)
    assert taker.changes == ["ADDED a", "ADDED deep", "ADDED b"]


class Chunks:
    """A stream that is cut where a test wants it to be."""

    def __init__(self, *chunks: bytes, error: Exception | None = None) -> None:
        self._chunks = chunks
        self._error = error

    async def iter_chunked(self, _: int) -> AsyncIterator[bytes]:
        for chunk in self._chunks:
            yield chunk
        if self._error is not None:
            raise self._error


async def read_lines(content: Any, taker: Taker, got: list[Json]) -> None:
    """`got`: what kopf gets."""
    async for chunk in BulkLines(ShallowLines(content), "Pod", taker).iter_chunked(2**20):
        got += [json.loads(line) for line in chunk.splitlines()]


@pytest.mark.parametrize("size", [1, 2, 3, 50, 1000])
async def test_chunks_may_end_anywhere_even_inside_a_character(taker: Taker, size: int) -> None:
    raw = "".join(line("ADDED", pod("a", str(version), labels={"x": "\u2603"})) + "\n" for version in (11, 12)).encode()
    chunks = [raw[begin : begin + size] for begin in range(0, len(raw), size)]
    got: list[Json] = []
    await read_lines(Chunks(*chunks), taker, got)
    assert got[-1] == bookmark("12")
    bodies = [body for batch in taker.batches for _, body in batch]
    assert [body["metadata"]["labels"] for body in bodies] == [{"x": "\u2603"}] * 2


async def test_a_line_that_was_cut_is_not_handed_over_and_kopf_resumes_before_it(taker: Taker) -> None:
    whole, half = line("ADDED", pod("a", "11")) + "\n", line("ADDED", pod("b", "12"))[:-20]
    content = Chunks((whole + half).encode(), error=aiohttp.ClientPayloadError("cut"))
    got: list[Json] = []
    with pytest.raises(aiohttp.ClientPayloadError):
        await read_lines(content, taker, got)
    assert got == [bookmark("11")]
    assert taker.changes == ["ADDED a"]


async def test_many_changes_of_one_chunk_are_handed_over_in_turns(taker: Taker) -> None:
    raw = "".join(line("ADDED", pod(f"p{number}", str(number))) + "\n" for number in range(100)).encode()
    got: list[Json] = []
    await read_lines(Chunks(raw), taker, got)
    assert got == [bookmark(version) for version in ("31", "63", "95", "99")]
    assert len(taker.changes) == 100
