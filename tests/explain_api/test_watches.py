"""Watches: the current state, then what changes."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from berth.explain_api import watches
from explain_api.fakes import FakeExplanations, explanation
from explain_api.harness import NAME, TABLE, RunningApi, authority, running

SHOP = "namespaces/shop/explanations"
LIMIT_SECONDS = 60


@pytest.fixture(autouse=True)
def fast(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watches, "POLL_SECONDS", 0.01)


class Events:
    """The events of a watch as they come."""

    def __init__(self, lines: AsyncIterator[bytes]) -> None:
        self._lines = lines

    async def next(self) -> tuple[str, Any]:
        async with asyncio.timeout(LIMIT_SECONDS):
            event = json.loads(await anext(self._lines))
        return event["type"], event["object"]

    async def names(self, count: int) -> list[tuple[str, str]]:
        found = [await self.next() for _ in range(count)]
        return sorted((kind, body["metadata"]["name"]) for kind, body in found)


@asynccontextmanager
async def watching(api: RunningApi, path: str, accept: str = "") -> AsyncIterator[Events]:
    session = api.session(authority.write_client(api.folder, NAME))
    headers = {"X-Remote-User": "admin", "X-Remote-Group": "system:masters", **({"Accept": accept} if accept else {})}
    url = f"{api.url}/apis/explain.berth.dev/v1alpha1/{path}"
    async with session.get(url, headers=headers) as answer:
        assert answer.status == 200, await answer.text()
        yield Events(aiter(answer.content))


async def test_a_watch_begins_with_what_there_is_and_goes_on_with_changes(tmp_path: Path) -> None:
    port = FakeExplanations()
    port.put(explanation("web-1"), explanation("web-2"))
    async with running(tmp_path, port) as api, watching(api, f"{SHOP}?watch=true") as events:
        assert await events.names(2) == [("ADDED", "web-1"), ("ADDED", "web-2")]
        port.put(explanation("web-2", attempts=5))
        kind, body = await events.next()
        assert (kind, body["metadata"]["name"], body["status"]["attempts"]) == ("MODIFIED", "web-2", 5)
        del port.pods["shop", "web-1"]
        kind, body = await events.next()
        assert (kind, body["metadata"]["name"], body["status"]["state"]) == ("DELETED", "web-1", "Unschedulable")
        port.put(explanation("web-3"))
        assert await events.names(1) == [("ADDED", "web-3")]


async def test_a_watch_from_a_list_tells_only_what_has_changed_since(tmp_path: Path) -> None:
    port = FakeExplanations()
    port.put(*(explanation(f"web-{number}") for number in range(4)))
    async with running(tmp_path, port) as api:
        version = (await api.get(SHOP)).json["metadata"]["resourceVersion"]
        port.put(explanation("web-1", attempts=9), explanation("new"))
        del port.pods["shop", "web-2"]
        async with watching(api, f"{SHOP}?watch=true&resourceVersion={version}") as events:
            assert await events.names(3) == [("ADDED", "new"), ("DELETED", "web-2"), ("MODIFIED", "web-1")]


async def test_a_watch_goes_on_from_the_version_of_its_last_event(tmp_path: Path) -> None:
    port = FakeExplanations()
    port.put(explanation("web-1"))
    async with running(tmp_path, port) as api:
        async with watching(api, f"{SHOP}?watch=true") as events:
            _, body = await events.next()
        port.put(explanation("web-2"))
        version = body["metadata"]["resourceVersion"]
        async with watching(api, f"{SHOP}?watch=true&resourceVersion={version}") as events:
            assert await events.names(1) == [("ADDED", "web-2")]


@pytest.mark.parametrize("version", ["17", "nonsense", "9" * 30])
async def test_a_version_that_is_not_remembered_has_expired(tmp_path: Path, version: str) -> None:
    async with running(tmp_path) as api:
        answer = await api.get(f"{SHOP}?watch=true&resourceVersion={version}")
    assert (answer.status, answer.json["reason"]) == (410, "Expired")


async def test_a_watch_that_asks_for_initial_events_is_told_where_they_end(tmp_path: Path) -> None:
    """As clients with WatchList do."""
    port = FakeExplanations()
    port.put(explanation("web-1"))
    query = "watch=true&sendInitialEvents=true&allowWatchBookmarks=true&resourceVersionMatch=NotOlderThan"
    async with running(tmp_path, port) as api, watching(api, f"{SHOP}?{query}") as events:
        assert await events.names(1) == [("ADDED", "web-1")]
        kind, body = await events.next()
    assert kind == "BOOKMARK"
    assert body["metadata"]["annotations"] == {"k8s.io/initial-events-end": "true"}
    assert body["kind"] == "Explanation"


async def test_a_watch_of_one_name_sees_the_pod_being_bound(tmp_path: Path) -> None:
    """As `kubectl wait --for=jsonpath='{.status.state}'=Bound why/web-1` does."""
    port = FakeExplanations()
    port.put(explanation("web-1"), explanation("web-2"))
    path = f"{SHOP}?watch=true&fieldSelector=metadata.name%3Dweb-1"
    async with running(tmp_path, port) as api, watching(api, path) as events:
        assert await events.names(1) == [("ADDED", "web-1")]
        port.put(explanation("web-1", state="Bound", nodeName="n1"))
        kind, body = await events.next()
    assert (kind, body["status"]["state"]) == ("MODIFIED", "Bound")


async def test_tables_of_a_watch_say_what_their_columns_are_once(tmp_path: Path) -> None:
    port = FakeExplanations()
    port.put(explanation("web-1"))
    async with running(tmp_path, port) as api, watching(api, f"{SHOP}?watch=1", TABLE) as events:
        _, first = await events.next()
        port.put(explanation("web-1", attempts=5))
        _, second = await events.next()
        del port.pods["shop", "web-1"]
        kind, last = await events.next()
    assert first["kind"] == second["kind"] == "Table"
    assert first["columnDefinitions"]
    assert second["columnDefinitions"] == []
    assert [table["rows"][0]["cells"][4] for table in (first, second, last)] == [4, 5, 5]
    assert kind == "DELETED"


async def test_an_object_that_is_gone_before_the_watch_has_seen_it_is_named(tmp_path: Path) -> None:
    port = FakeExplanations()
    port.put(explanation("web-1"))
    async with running(tmp_path, port) as api:
        version = (await api.get(SHOP)).json["metadata"]["resourceVersion"]
        port.pods.clear()
        async with watching(api, f"{SHOP}?watch=1&resourceVersion={version}", TABLE) as events:
            kind, table = await events.next()
    assert (kind, table["rows"][0]["cells"][0]) == ("DELETED", "web-1")


async def test_a_watch_ends_after_the_time_that_was_asked_for(tmp_path: Path) -> None:
    async with running(tmp_path) as api:
        answer = await asyncio.wait_for(api.get(f"{SHOP}?watch=true&timeoutSeconds=1"), LIMIT_SECONDS)
    assert (answer.status, answer.text) == (200, "")


async def test_a_scheduler_that_does_not_answer_for_a_while_ends_no_watch(tmp_path: Path) -> None:
    port = FakeExplanations()
    async with running(tmp_path, port) as api, watching(api, f"{SHOP}?watch=true") as events:
        port.gate = asyncio.Event()
        port.put(explanation("web-1"))
        await asyncio.sleep(0)
        port.gate.set()
        assert await events.names(1) == [("ADDED", "web-1")]
