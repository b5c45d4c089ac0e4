"""The mirror against a scripted API server: lists and watches that end in every way they can."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any

import pytest

from berth.sim.actors import Mirror, Refused, ServerUnreachable
from berth.sim.actors.mirror import PODS
from scheduler.virtual_clock import VirtualClock, settle

Body = dict[str, Any]
Script = list[Body | Exception | float]  # an event, an end, or silence for so many seconds


def pod(name: str, version: int, *, uid: str = "") -> Body:
    return {"metadata": {"name": name, "namespace": "d", "uid": uid or name, "resourceVersion": str(version)}}


def page(version: int, *pods: Body) -> Body:
    return {"metadata": {"resourceVersion": str(version)}, "items": list(pods)}


def event(kind: str, body: Body) -> Body:
    return {"type": kind, "object": body}


GONE = event("ERROR", {"code": 410, "reason": "Expired", "message": "too old"})


class ScriptedApi:
    """Answers lists and watches from scripts; a watch without one waits for ever."""

    def __init__(self, clock: VirtualClock, lists: Script, watches: list[Script]) -> None:
        self.clock = clock
        self.lists = lists
        self.watches = watches
        self.watched_from: list[str] = []

    async def request(self, method: str, path: str, **_: Any) -> tuple[int, Body]:
        answer = self.lists.pop(0)
        if isinstance(answer, Exception):
            raise answer
        assert isinstance(answer, dict)
        return 200, answer

    @asynccontextmanager
    async def stream(self, path: str, query: Mapping[str, str]) -> AsyncGenerator[AsyncIterator[Body], None]:
        self.watched_from.append(query["resourceVersion"])
        if not self.watches:
            await asyncio.Event().wait()
        script = self.watches.pop(0)
        if script and isinstance(script[0], Refused):
            raise script[0]
        yield self._play(script)

    async def _play(self, script: Script) -> AsyncIterator[Body]:
        for step in script:
            if isinstance(step, Exception):
                raise step
            if isinstance(step, float):
                await self.clock.sleep(step)
            else:
                yield step


Changes = list[tuple[str, str, str]]


@pytest.fixture
async def mirrored() -> AsyncIterator[Callable[..., Any]]:
    tasks = []

    async def run(lists: Script, watches: list[Script], seconds: float = 60.0) -> tuple[Changes, Mirror, ScriptedApi]:
        changes: Changes = []
        clock = VirtualClock()
        api = ScriptedApi(clock, lists, watches)
        mirror = Mirror(
            api,
            clock,
            PODS,
            lambda kind, body: changes.append((kind, body["metadata"]["uid"], body["metadata"]["resourceVersion"])),
            relist_seconds=1000.0,
        )
        tasks.append(asyncio.create_task(mirror.run()))
        await settle()
        await clock.advance(seconds)
        return changes, mirror, api

    yield run
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


async def test_what_is_listed_and_then_watched_is_told_once_each(mirrored: Callable[..., Any]) -> None:
    changes, mirror, api = await mirrored(
        [page(5, pod("a", 3))],
        [[event("ADDED", pod("b", 6)), event("MODIFIED", pod("a", 7)), event("DELETED", pod("b", 8))]],
    )

    assert changes == [("ADDED", "a", "3"), ("ADDED", "b", "6"), ("MODIFIED", "a", "7"), ("DELETED", "b", "6")]
    assert list(mirror.objects) == ["d/a"]
    assert api.watched_from[:2] == ["5", "8"]


async def test_doubled_and_late_events_change_nothing(mirrored: Callable[..., Any]) -> None:
    changes, mirror, _ = await mirrored(
        [page(5, pod("a", 3))],
        [
            [event("MODIFIED", pod("a", 6)), event("MODIFIED", pod("a", 6)), event("ADDED", pod("a", 3))],
            [event("DELETED", pod("a", 7)), event("MODIFIED", pod("a", 6)), event("DELETED", pod("a", 7))],
        ],
    )

    assert changes == [("ADDED", "a", "3"), ("MODIFIED", "a", "6"), ("DELETED", "a", "6")]
    assert not mirror.objects


async def test_a_cut_watch_goes_on_where_it_was(mirrored: Callable[..., Any]) -> None:
    _, mirror, api = await mirrored(
        [page(5)],
        [
            [event("ADDED", pod("a", 6)), ServerUnreachable("cut")],
            [Refused(500, "", "")],
            [event("BOOKMARK", pod("", 9))],
        ],
    )

    assert api.watched_from == ["5", "6", "6", "9"]
    assert mirror.lists == 1


@pytest.mark.parametrize("end", [[GONE], [Refused(410, "Expired", "too old")]])
async def test_after_a_410_what_was_deleted_in_the_gap_is_reported(mirrored: Callable[..., Any], end: Script) -> None:
    changes, mirror, _ = await mirrored(
        [page(5, pod("a", 1), pod("b", 2)), page(20, pod("b", 12), pod("c", 15))], [end]
    )

    assert changes == [
        ("ADDED", "a", "1"),
        ("ADDED", "b", "2"),
        ("DELETED", "a", "1"),
        ("MODIFIED", "b", "12"),
        ("ADDED", "c", "15"),
    ]
    assert set(mirror.objects) == {"d/b", "d/c"}


async def test_a_namesake_is_told_as_an_end_and_a_beginning(mirrored: Callable[..., Any]) -> None:
    changes, _, _ = await mirrored([page(5, pod("a", 1, uid="old"))], [[event("ADDED", pod("a", 9, uid="new"))]])

    assert changes == [("ADDED", "old", "1"), ("DELETED", "old", "1"), ("ADDED", "new", "9")]


async def test_lists_that_fail_are_asked_for_again(mirrored: Callable[..., Any]) -> None:
    changes, mirror, _ = await mirrored([ServerUnreachable("cut"), Refused(500, "", ""), page(5, pod("a", 1))], [])

    assert changes == [("ADDED", "a", "1")]
    assert mirror.synced.is_set()


async def test_what_no_watch_told_is_found_by_the_next_regular_list(mirrored: Callable[..., Any]) -> None:
    long_silence: list[Script] = [[600.0], [600.0]]
    changes, mirror, _ = await mirrored([page(5, pod("a", 1)), page(9)], long_silence, 1300.0)

    assert changes == [("ADDED", "a", "1"), ("DELETED", "a", "1")]
    assert mirror.lists == 2
