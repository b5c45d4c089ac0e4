"""Limits: what is over them is refused, and the rest is answered."""

import asyncio
from pathlib import Path

import pytest

from berth.explain_api import limits, versions
from berth.explain_api.collecting import REST, SLICE_SECONDS, Collection, Slices
from berth.explain_api.limits import Limits
from berth.explain_api.port import Body, Wanted
from berth.explain_api.statuses import ApiRefusal
from berth.explain_api.versions import Versions
from explain_api.fakes import FakeExplanations, explanation
from explain_api.harness import running
from serving.harness import until


async def test_requests_over_the_limit_at_once_are_refused_and_the_others_answered(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "AT_ONCE", 5)
    port = FakeExplanations(gate=asyncio.Event())
    async with running(tmp_path, port) as api:
        asked = [asyncio.create_task(api.get("nodeviews", user=f"user-{number}")) for number in range(5)]
        await until(lambda: api.endpoint.statistics()["requests"] == 5)
        refused = await api.get("nodeviews")
        assert len(port.asked) == 1, "one question at a time"
        assert port.gate is not None
        port.gate.set()
        assert {answer.status for answer in await asyncio.gather(*asked)} == {200}
        assert (await api.get("nodeviews")).status == 200
    assert (refused.status, refused.json["reason"], refused.headers["Retry-After"]) == (429, "TooManyRequests", "1")
    assert refused.json["details"] == {"retryAfterSeconds": 1}


def test_a_user_who_asks_too_often_is_refused_until_a_moment_later() -> None:
    now = 0.0
    counted = Limits(lambda: now)

    def ask(user: str) -> bool:
        try:
            with counted.request(user):
                return True
        except ApiRefusal:
            return False

    assert [ask("bob") for _ in range(int(limits.BURST) + 5)] == [True] * int(limits.BURST) + [False] * 5
    assert ask("eve")
    now = 0.1
    assert [ask("bob") for _ in range(5)] == [True] * int(limits.A_SECOND * 0.1) + [False] * 3


def test_few_users_are_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "MOST_USERS", 3)
    monkeypatch.setattr(limits, "BURST", 1.0)
    counted = Limits(lambda: 0.0)
    for number in range(4):
        with counted.request(f"user-{number}"):
            pass
    for remembered in (1, 2, 3):
        with pytest.raises(ApiRefusal), counted.request(f"user-{remembered}"):
            pass
    with counted.request("user-0"):  # forgotten, and so a new one
        pass


async def test_watches_over_the_limit_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "WATCHES", 0)
    async with running(tmp_path) as api:
        assert (await api.get("nodeviews?watch=true")).status == 429
        assert (await api.get("nodeviews")).status == 200


async def test_a_pause_follows_each_question(monkeypatch: pytest.MonkeyPatch) -> None:
    now, slept = 0.0, []

    async def sleep(seconds: float) -> None:
        slept.append(seconds)

    monkeypatch.setattr("berth.explain_api.limits.asyncio.sleep", sleep)
    counted = Limits(lambda: now)
    for duration in (0.1, 10.0, 0.0):
        async with counted.turn():
            now += duration
    assert slept == pytest.approx([0.0, limits.REST * 0.1, limits.LONGEST_REST_SECONDS])


# --- long lists ------------------------------------------------------------------------------------------------------


class SteppingClock:
    """Each look at it takes a tenth of a millisecond."""

    def __init__(self) -> None:
        self.seconds = 0.0
        self.pauses: list[float] = []
        self.slices: list[float] = []
        self._began = 0.0

    def now(self) -> float:
        self.seconds += 0.0001
        return self.seconds

    async def sleep(self, seconds: float) -> None:
        self.slices.append(self.seconds - self._began)
        self.pauses.append(seconds)
        self._began = self.seconds


async def test_a_long_list_is_collected_in_short_steps_with_pauses() -> None:
    clock = SteppingClock()
    bodies = {f"pod-{number:05}": explanation(f"pod-{number:05}") for number in range(5000)}

    def make(name: str) -> Body:
        clock.seconds += 0.00002
        return bodies[name]

    listed = Collection(list(bodies), lambda name: ("shop", name), lambda name: {}, make)
    found = await listed.page(Wanted(limit=500), Slices(clock))  # type: ignore[arg-type]
    assert [body["metadata"]["name"] for body in found.items] == sorted(bodies)[:500]
    assert found.rest == 4500
    assert max(clock.slices) < 2 * SLICE_SECONDS
    assert min(clock.pauses) >= REST * SLICE_SECONDS


async def test_what_has_gone_while_a_list_is_collected_is_left_out() -> None:
    listed = Collection(
        "abc", lambda name: ("", name), lambda name: {}, lambda name: None if name == "b" else {"n": name}
    )
    found = await listed.page(Wanted(), Slices(SteppingClock()))  # type: ignore[arg-type]
    assert (found.items, found.rest) == ([{"n": "a"}, {"n": "c"}], 0)


# --- versions --------------------------------------------------------------------------------------------------------


def test_versions_grow_even_if_the_clock_does_not() -> None:
    numbers = Versions(lambda: 1000.0)
    assert [numbers.next() for _ in range(3)] == [1_000_000, 1_000_001, 1_000_002]


def test_only_the_latest_states_are_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(versions, "MOST_FINGERPRINTS", 10)
    numbers = Versions(lambda: 0.0)
    for version in range(1, 5):
        numbers.remember(version, {("", f"{version}-{number}"): b"x" for number in range(4)})
    assert numbers.recall("1") is numbers.recall("2") is None
    assert numbers.recall("4") is not None
    assert numbers.statistics() == {"states": 2, "fingerprints": 8}
    numbers.forget(3)
    assert numbers.statistics() == {"states": 1, "fingerprints": 4}


def test_pages_of_a_list_are_remembered_together() -> None:
    numbers = Versions(lambda: 0.0)
    numbers.remember(7, {("", "a"): b"1"})
    numbers.remember(7, {("", "b"): b"2"})
    assert numbers.recall("7") == {("", "a"): b"1", ("", "b"): b"2"}
