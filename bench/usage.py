"""What a process has taken of the machine, as the kernel counts it (Linux)."""

from __future__ import annotations

import os
import time
from pathlib import Path

TICKS_PER_SECOND = os.sysconf("SC_CLK_TCK")
QUIET_SHARE = 0.05
LOOK_SECONDS = 0.25


def cpu_seconds(pid: int) -> float:
    """Processor time of all threads of the process since its start."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICKS_PER_SECOND


def machine_cpu_seconds() -> float:
    """Processor time that the whole machine has spent on something, since it was started."""
    fields = Path("/proc/stat").read_text().splitlines()[0].split()[1:9]
    user, nice, system, _idle, _waiting, *interrupts = (int(field) for field in fields)
    return (user + nice + system + sum(interrupts)) / TICKS_PER_SECOND


def memory_mb(pid: int) -> float:
    """Resident memory now."""
    return _status_mb(pid, "VmRSS")


def peak_memory_mb(pid: int) -> float:
    """The most resident memory that the process ever had."""
    return _status_mb(pid, "VmHWM")


def wait_quiet(pid: int, timeout_seconds: float) -> None:
    """Until the process takes next to no processor time: what it had put off is done. Blocks."""
    deadline = time.monotonic() + timeout_seconds
    before = cpu_seconds(pid)
    while time.monotonic() < deadline:
        time.sleep(LOOK_SECONDS)
        now = cpu_seconds(pid)
        if now - before <= QUIET_SHARE * LOOK_SECONDS:
            return
        before = now


def _status_mb(pid: int, field: str) -> float:
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith(f"{field}:"):
            return int(line.split()[1]) / 1024
    raise ValueError(f"/proc/{pid}/status has no {field}")
