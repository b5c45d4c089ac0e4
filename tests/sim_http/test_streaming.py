"""Event streams on a clock that stands still unless it is moved: order, lateness, doubles, cuts and bookmarks."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Sequence
from typing import Any

from berth.sim.faults import Copy, DropWatch, Faults, Late, Rule
from berth.sim.server.streaming import EventStream
from berth.sim.store import Object


class FakeWatch:
    """A store's watch: what is put in comes out; a bookmark is an event like others."""

    def __init__(self) -> None:
        self.closed = False
        self._ready: deque[tuple[str, Object]] = deque()

    def put(self, *names: str) -> None:
        self._ready.extend(("ADDED", {"name": name}) for name in names)

    def take_ready(self) -> list[tuple[str, Object]]:
        ready = list(self._ready)
        self._ready.clear()
        return ready

    def bookmark(self) -> None:
        self._ready.append(("BOOKMARK", {"name": "bookmark"}))

    def close(self) -> None:
        self.closed = True

    async def __anext__(self) -> tuple[str, Object]:
        if self.closed:
            raise StopAsyncIteration
        await asyncio.Event().wait()
        raise AssertionError("unreachable")


class Scripted(Faults):
    """Faults with an answer for each event by its name."""

    def __init__(self, copies: dict[str, Sequence[Copy]]) -> None:
        super().__init__()
        self._copies = copies

    def on_event(self, kind: str, event_type: str, body: Any) -> Sequence[Copy]:
        return self._copies.get(body["name"], (Copy(0.0),))


class Harness:
    """A stream whose time is moved by hand."""

    def __init__(self, faults: Faults | None = None, *, lifetime_seconds: float = 1000.0) -> None:
        self.watch = FakeWatch()
        self.time = 0.0
        self.stream = EventStream(
            self.watch,  # type: ignore[arg-type]
            lambda event_type, body: f"{body['name']} ".encode(),
            kind="Pod",
            now=lambda: self.time,
            lifetime_seconds=lifetime_seconds,
            faults=faults,
        )

    async def at(self, seconds: float) -> str | None:
        """What is written when it is so late; "" for nothing, None for the end."""
        self.time = seconds
        try:
            async with asyncio.timeout(0.01):
                chunk = await self.stream.next_chunk()
        except TimeoutError:
            return ""
        return None if chunk is None else chunk.decode().strip()


async def test_what_is_ready_goes_out_in_one_piece() -> None:
    harness = Harness()
    harness.watch.put("a", "b", "c")
    assert await harness.at(0) == "a b c"
    assert await harness.at(1) == ""


async def test_a_bookmark_comes_every_20_seconds_and_at_the_end() -> None:
    harness = Harness(lifetime_seconds=30)
    assert await harness.at(19) == ""
    assert await harness.at(20) == "bookmark"
    assert await harness.at(29) == ""
    harness.watch.put("a")
    assert await harness.at(30) == "a bookmark"
    assert await harness.at(30) is None
    assert not harness.stream.cut


async def test_all_behind_a_late_event_waits_and_keeps_its_order() -> None:
    harness = Harness(Scripted({"late": (Copy(5.0),)}))
    harness.watch.put("a", "late", "b")
    assert await harness.at(0) == "a"
    harness.watch.put("c")
    assert await harness.at(4) == ""
    assert await harness.at(5) == "late b c"


async def test_no_bookmark_promises_what_is_still_held_back() -> None:
    harness = Harness(Scripted({"late": (Copy(60.0),)}), lifetime_seconds=40)
    harness.watch.put("late")
    assert await harness.at(20) == ""
    assert await harness.at(40) is None


async def test_a_repeat_comes_by_itself() -> None:
    harness = Harness(Scripted({"twice": (Copy(0.0), Copy(3.0))}))
    harness.watch.put("twice", "b")
    assert await harness.at(0) == "twice b"
    assert await harness.at(2) == ""
    assert await harness.at(3) == "twice"


async def test_a_repeat_does_not_overtake_its_first_copy_that_waits_behind_a_late_event() -> None:
    harness = Harness(Scripted({"late": (Copy(5.0),), "twice": (Copy(0.0), Copy(1.0))}))
    harness.watch.put("late", "twice")
    assert await harness.at(0) == ""
    assert await harness.at(5) == "late twice twice"


async def test_a_missed_event_never_comes() -> None:
    harness = Harness(Scripted({"missed": ()}))
    harness.watch.put("a", "missed", "b")
    assert await harness.at(0) == "a b"


async def test_a_dropped_connection_ends_right_after_the_event() -> None:
    harness = Harness(Scripted({"last": (Copy(0.0, drop=True),)}))
    harness.watch.put("a", "last", "b")
    assert await harness.at(0) == "a last"
    assert await harness.at(0) is None
    assert harness.stream.cut


async def test_a_watch_lives_no_longer_than_the_rule_says() -> None:
    harness = Harness(Faults([Rule(DropWatch(2.0, 2.0))]))
    assert await harness.at(1.9) == ""
    assert await harness.at(2.0) is None
    assert harness.stream.cut


async def test_a_late_rule_holds_up_real_events() -> None:
    harness = Harness(Faults([Rule(Late(1.0, 1.0), every=2)]))
    harness.watch.put("a", "b", "c")
    assert await harness.at(0) == "a"
    assert await harness.at(1) == "b c"


async def test_a_closed_watch_ends_in_order() -> None:
    harness = Harness()
    harness.watch.put("a")
    harness.watch.close()
    assert await harness.at(0) == "a"
    assert await harness.at(0) is None
    assert not harness.stream.cut
