"""What is compared: each starts a scheduler as a process of its own, ready to decide when the block is entered."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from bench import bind_only
from control_plane.berth_process import BerthProcess
from control_plane.launcher import ControlPlane
from control_plane.process import Process

REPOSITORY = Path(__file__).resolve().parents[1]
RESULTS = REPOSITORY / "bench" / "results"
LOGS = RESULTS / "logs"
CRDS = REPOSITORY / "crds"
READY_SECONDS = 300.0


@dataclass(frozen=True, slots=True)
class Settings:
    """More words for `berth run`, and feature gates of kube-scheduler."""

    berth_arguments: Sequence[str] = ()
    gates: Mapping[str, bool] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Contestant:
    """`scheduler_name` is what its pods ask for; `running` yields its process, ready. Berth needs its CRDs."""

    name: str
    scheduler_name: str
    running: Callable[[ControlPlane, Settings], AbstractContextManager[Process]]


@contextmanager
def _berth(control_plane: ControlPlane, settings: Settings) -> Iterator[Process]:
    log = control_plane.logs / "berth.log"
    berth = BerthProcess(control_plane.kubeconfig, *settings.berth_arguments, log=log)
    berth.start(timeout_seconds=READY_SECONDS)
    try:
        yield berth.process
    finally:
        berth.finish()


@contextmanager
def _kube_scheduler(control_plane: ControlPlane, settings: Settings) -> Iterator[Process]:
    try:
        yield control_plane.start_scheduler(gates=settings.gates)
    finally:
        control_plane.stop_scheduler()


@contextmanager
def _bind_only(control_plane: ControlPlane, settings: Settings) -> Iterator[Process]:
    command = [sys.executable, "-m", "bench.bind_only", str(control_plane.kubeconfig)]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(str(REPOSITORY / part) for part in ("", "tests"))}
    process = Process("bind-only", command, control_plane.logs / "bind-only.log", environment=environment)
    started_at = len(process.log_text())
    process.start()
    try:
        process.wait_ready(lambda: "ready" in process.log_text()[started_at:], READY_SECONDS)
        yield process
    finally:
        process.stop()


CONTESTANTS: Mapping[str, Contestant] = {
    contestant.name: contestant
    for contestant in (
        Contestant("kube-scheduler", "default-scheduler", _kube_scheduler),
        Contestant("berth", "berth", _berth),
        Contestant(bind_only.NAME, bind_only.NAME, _bind_only),
    )
}
