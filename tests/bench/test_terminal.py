"""What is said at the terminal, and what a process has used."""

from __future__ import annotations

import io
import os
from collections.abc import Iterator

import pytest

from bench import usage
from bench.terminal import Progress


class Screen(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture(autouse=True)
def a_usual_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.delenv("NO_COLOR", raising=False)


def told(stream: io.StringIO) -> str:
    progress = Progress(stream)
    progress.heading("Basic")
    progress.note("fewer pods")
    progress.step("creating nodes")
    progress.result("100 pods/s")
    progress.failure("failed")
    return stream.getvalue()


def test_a_file_gets_plain_lines() -> None:
    assert told(io.StringIO()) == "Basic\n  fewer pods\n  creating nodes\n  100 pods/s\n  failed\n"


def test_a_terminal_gets_colours_and_steps_that_are_written_over() -> None:
    shown = told(Screen())
    assert "\x1b[32m" in shown
    assert shown.count("\n") == 4


def test_nobody_gets_colours_who_does_not_want_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    assert "\x1b" not in told(Screen())


def test_what_a_process_has_used_is_read_from_the_kernel() -> None:
    assert 0 < usage.cpu_seconds(os.getpid()) <= usage.machine_cpu_seconds()
    assert 1 < usage.memory_mb(os.getpid()) <= usage.peak_memory_mb(os.getpid())


def test_a_process_is_quiet_when_it_takes_no_more_processor_time(monkeypatch: pytest.MonkeyPatch) -> None:
    readings: Iterator[float] = iter([1.0, 1.2, 1.4, 1.4])
    naps: list[float] = []
    monkeypatch.setattr(usage, "cpu_seconds", lambda pid: next(readings))
    monkeypatch.setattr("bench.usage.time.sleep", naps.append)
    usage.wait_quiet(1, timeout_seconds=60)
    assert len(naps) == 3
    assert list(readings) == []
