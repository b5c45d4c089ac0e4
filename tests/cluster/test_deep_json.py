"""JSON that nests too deep for Python: cut where it can be read, in our own requests and in kopf's."""

import json
from typing import Any

import aiohttp
import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from berth.cluster import deep_json as shallow
from berth.cluster.api import Api
from berth.cluster.deep_json import LEVELS, DeepJsonResponse, cut, decode, is_deep
from cluster.server import Answer, Server

DEEP = 5000


def nested(depth: int, inner: str = "1") -> str:
    return '{"f:a":' * depth + inner + "}" * depth


def depth_of(value: Any) -> int:
    depth, level = 0, [value]
    while level:
        level = [
            item
            for each in level
            if isinstance(each, dict | list)
            for item in (each.values() if isinstance(each, dict) else each)
        ]
        depth += 1
    return depth - 1


def test_everything_but_what_lies_too_deep_is_kept() -> None:
    raw = f'{{"a": "b", "deep": {nested(DEEP)}, "list": {"[" * DEEP}{"]" * DEEP}, "z": [1, {{"x": null}}]}}'.encode()
    assert is_deep(raw)
    read = decode(raw)
    assert (read["a"], read["z"]) == ("b", [1, {"x": None}])
    assert depth_of(read) == LEVELS


@pytest.mark.parametrize("depth", [1, LEVELS - 1, LEVELS])
def test_what_is_not_too_deep_is_left_alone(depth: int) -> None:
    raw = nested(depth).encode()
    assert not is_deep(raw)
    assert cut(raw) == raw


def test_brackets_in_texts_are_texts() -> None:
    raw = json.dumps({"a": "{[" * DEEP, 'b"{': '\\"{' * DEEP, "c": nested(LEVELS + 5)}).encode()
    assert not is_deep(raw)
    assert decode(raw) == json.loads(raw)


@pytest.mark.parametrize("raw", [b"", b"{", b"[" * DEEP, b"]" * DEEP, b'"' * 999, b"{]" * DEEP, b'{"a":' * DEEP])
def test_what_is_no_json_is_none_after_it_either(raw: bytes) -> None:
    with pytest.raises(orjson.JSONDecodeError):
        decode(raw)


values = st.recursive(
    st.none() | st.integers(-5, 5) | st.text(alphabet='a"\\{}[],: ', max_size=4),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(alphabet='b"{', max_size=2), inner, max_size=3),
    max_leaves=20,
)


def naive(value: Any, levels: int) -> Any:
    if not isinstance(value, dict | list):
        return value
    if levels == 0:
        return None
    if isinstance(value, dict):
        return {key: naive(item, levels - 1) for key, item in value.items()}
    return [naive(item, levels - 1) for item in value]


@given(values, st.integers(1, 4), st.booleans())
def test_cutting_text_is_cutting_the_tree(value: Any, levels: int, spaced: bool) -> None:
    raw = json.dumps(value, separators=None if spaced else (",", ":")).encode()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(shallow, "LEVELS", levels)
        assert json.loads(cut(raw)) == naive(value, levels)
        assert is_deep(raw) is (naive(value, levels) != value)


async def test_our_requests_are_answered_all_the_same(server: Server, api: Api) -> None:
    server.answer("GET", "/api/v1/pods", Answer(200, f'{{"items": [{nested(DEEP)}], "kind": "PodList"}}'))
    _, answer = await api.request("GET", "/api/v1/pods")
    assert answer["kind"] == "PodList"


async def test_kopf_reads_lists_and_watches_all_the_same(server: Server) -> None:
    deep = f'{{"type": "ADDED", "object": {nested(DEEP)}}}'
    lines = ['{"type": "BOOKMARK"}', deep, '{"type": "DELETED", "object": {"x": "\u2603"}}']
    server.answer("GET", "/list", Answer(200, deep, {"Content-Type": "application/json"}))
    server.answer("GET", "/watch", Answer(200, "\n".join(lines)))
    async with aiohttp.ClientSession(f"http://127.0.0.1:{server.port}", response_class=DeepJsonResponse) as session:
        async with session.get("/list") as response:
            assert (await response.json(content_type=None))["type"] == "ADDED"
        for size in (1, 7, 2**20):
            async with session.get("/watch") as response:
                raw = b"".join([chunk async for chunk in response.content.iter_chunked(size)])
            read = [json.loads(line) for line in raw.decode().splitlines()]
            assert [event["type"] for event in read] == ["BOOKMARK", "ADDED", "DELETED"]
            assert read[2]["object"] == {"x": "\u2603"}
