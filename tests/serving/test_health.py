"""Health: what is said, by which path, and that it is said while the scheduler's loop hangs."""

import asyncio
import logging
import threading

import pytest

from berth.serving import server as serving_server
from berth.serving.bridge import Bridge, BridgeTimeout
from berth.serving.health import Finding, Readiness, liveness, liveness_text
from berth.serving.loop_watchdog import BEAT_SECONDS, LoopWatchdog
from berth.serving.server import HANG_SECONDS, hang_alarm
from control_plane.process import http_get
from serving.harness import LIMIT_SECONDS, serving, until


def test_readiness_says_what_it_waits_for() -> None:
    waiting = Readiness({"Pod": "3 of 9 listed objects have not arrived yet", "Node": "ok"}, is_open=False)
    assert not waiting.is_ready
    text = waiting.text(verbose=False)
    assert "[-]Pod failed: 3 of 9 listed" in text
    assert "[-]cache failed: kinds not synced: 1 of 2" in text
    assert "[-]scheduler failed: makes no decisions yet" in text
    assert Readiness({"Pod": "ok"}, is_open=True).text(verbose=False) == "ok"
    assert "[+]Pod ok" in Readiness({"Pod": "ok"}, is_open=True).text(verbose=True)


def test_a_finding_that_is_no_problem_is_only_shown() -> None:
    readiness = Readiness({}, is_open=True, findings={"api-server": Finding(note="away"), "lead": Finding("stuck")})
    assert not readiness.is_ready
    assert "[+]api-server ok: away\n[-]lead failed: stuck\nreadyz check failed\n" in readiness.text(verbose=True)
    assert Readiness({}, is_open=True, findings={"api-server": Finding(note="away")}).is_ready


def test_liveness_lists_its_alarms() -> None:
    findings = liveness({"loop": lambda: None, "leadership": lambda: "held without renewing"})
    text = liveness_text("/livez", findings, verbose=False)
    assert text == "[+]loop ok\n[-]leadership failed: held without renewing\nlivez check failed\n"
    assert liveness_text("/livez", liveness({"loop": lambda: None}), verbose=False) == "ok"


def test_an_alarm_that_fails_itself_ends_nothing() -> None:
    def broken() -> str | None:
        raise KeyError("surprise")

    assert liveness({"x": broken}) == {"x": Finding(note="cannot be judged: KeyError('surprise')")}


async def test_the_paths_answer_anybody() -> None:
    ready, alive = [False], [True]
    async with serving(
        readiness=lambda: Readiness({"Pod": "ok"}, ready[0]), alarms={"x": lambda: None if alive[0] else "broken"}
    ) as running:
        for plain in (False, True):
            alive[0], ready[0] = True, False
            assert await running.get("/livez", plain=plain) == await running.get("/healthz", plain=plain) == (200, "ok")
            assert (await running.get("/readyz", plain=plain))[0] == 503
            ready[0] = True
            assert await running.get("/readyz", plain=plain) == (200, "ok")
            assert "readyz check passed" in (await running.get("/readyz?verbose", plain=plain))[1]
            assert await running.send("HEAD", "/readyz", plain=plain) == (200, "")
            assert (await running.send("POST", "/readyz", plain=plain))[0] == 405
            alive[0] = False
            for path in ("/livez", "/healthz"):
                assert (await running.get(path, plain=plain))[0] == 500
        assert not running.reviews.asked


class Time:
    """Moved by hand."""

    def __init__(self) -> None:
        self.seconds = 100.0

    def __call__(self) -> float:
        return self.seconds


async def test_liveness_fails_while_the_loop_hangs_and_is_answered_all_the_same(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(serving_server, "LOOK_SECONDS", 0.001)
    time = Time()
    told: list[str] = []
    watchdog = LoopWatchdog(time)
    async with serving(watchdog=watchdog, alarms={"loop": lambda: hang_alarm(watchdog)}) as running:
        watchdog.start()
        assert http_get(running.url("/livez"), timeout_seconds=LIMIT_SECONDS) == (200, "ok")
        time.seconds += HANG_SECONDS + BEAT_SECONDS
        # This coroutine does not give the loop back: it hangs in here, and asks from here.
        status, text = http_get(running.url("/livez"), timeout_seconds=LIMIT_SECONDS)
        assert (status, text) == (500, "[-]loop failed: the event loop has not turned for 15 s\nlivez check failed\n")
        while not told:
            told = [record.getMessage() for record in caplog.records if record.levelno == logging.CRITICAL]
        watchdog.beat()
        assert http_get(running.url("/livez"), timeout_seconds=LIMIT_SECONDS) == (200, "ok")
        await until(lambda: "The event loop turns again" in caplog.text)
        watchdog.stop()
    assert len(told) == 1
    assert "has not turned for 15 s; it is in:" in told[0]
    assert "test_liveness_fails_while_the_loop_hangs" in told[0]


async def test_the_lag_is_the_worst_of_the_last_half_minute() -> None:
    time = Time()
    watchdog = LoopWatchdog(time)
    watchdog.start()
    for lag in (0.0, 2.5, 0.25):
        time.seconds += BEAT_SECONDS + lag
        watchdog.beat()
    assert watchdog.lag_seconds == 2.5
    assert watchdog.silent_seconds == 0
    time.seconds += 29.5
    assert watchdog.lag_seconds == 0.25
    assert watchdog.silent_seconds == 29
    watchdog.stop()
    assert watchdog.silent_seconds == 0


async def test_a_loop_that_turns_beats_by_itself() -> None:
    time = Time()
    watchdog = LoopWatchdog(time)
    watchdog.start()
    time.seconds += 7
    await until(lambda: watchdog.lag_seconds > 0)
    watchdog.stop()
    assert watchdog.lag_seconds == 7 - BEAT_SECONDS


async def test_a_call_that_timed_out_is_not_done_later() -> None:
    done: list[str] = []
    here = asyncio.get_running_loop()

    async def ask() -> str:
        try:
            await Bridge(here, limit_seconds=0.01).call(lambda: done.append("late"))
        except BridgeTimeout:
            return "stuck"
        return "answered"

    answers: list[str] = []
    thread = threading.Thread(target=lambda: answers.append(asyncio.run(ask())))
    thread.start()
    thread.join()  # our own loop hangs here
    await asyncio.sleep(0)
    assert (answers, done) == (["stuck"], [])


async def test_readiness_is_refused_while_the_loop_is_stuck(monkeypatch: pytest.MonkeyPatch) -> None:
    async def stuck(self: Bridge, work: object) -> None:
        raise BridgeTimeout

    monkeypatch.setattr(Bridge, "call", stuck)
    async with serving() as running:
        status, text = await running.get("/readyz")
        assert (status, "[-]loop failed" in text) == (503, True)
        assert (await running.get("/metrics", "admin-token"))[0] == 503
