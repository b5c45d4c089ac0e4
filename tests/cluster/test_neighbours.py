"""Two installations with one peering name: their replicas say so."""

import logging
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from berth.cluster.leadership import Terms, write_record
from berth.cluster.neighbours import Neighbours, installation_of, make_identity
from berth.runtime import Options, make_runtime
from cluster.manual_clock import ManualClock
from cluster.server import write_kubeconfig

OURS, THEIRS = "blue/berth", "green/berth"


def errors(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.levelno >= logging.ERROR]


def test_an_identity_names_its_installation_if_it_has_one() -> None:
    assert installation_of(make_identity(OURS, "pod-1", "abcd")) == OURS
    assert make_identity("", "pod-1", "abcd") == "pod-1_abcd"
    assert installation_of("pod-1_abcd") == ""


def test_replicas_of_another_installation_are_reported_once_and_when_they_leave(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO)
    neighbours = Neighbours(OURS, "berth")
    neighbours.look([f"{OURS}/a_1", "unknown_2"])
    assert (neighbours.count, caplog.records) == (0, [])
    for _ in range(3):
        neighbours.look([f"{OURS}/a_1", f"{THEIRS}/b_1", f"{THEIRS}/b_2"])
    [said] = errors(caplog)
    assert neighbours.count == 2
    assert all(name in said for name in (OURS, THEIRS, "ClusterKopfPeering berth", "--peering-name"))
    neighbours.look([f"{OURS}/a_1"])
    assert neighbours.count == 0
    assert "any more" in caplog.records[-1].getMessage()


def test_a_replica_without_an_installation_compares_nothing(caplog: pytest.LogCaptureFixture) -> None:
    neighbours = Neighbours("", "berth")
    neighbours.look([f"{THEIRS}/b_1"])
    assert (neighbours.count, errors(caplog)) == (0, [])


def peering(clock: ManualClock, version: int, *identities: str) -> Mapping[str, Any]:
    records = {identity: write_record(1, Terms(10), clock.wall()) for identity in identities}
    return {"metadata": {"name": "berth", "uid": "u", "resourceVersion": str(version)}, "status": records}


async def test_a_replica_that_sees_a_record_of_another_release_says_so_and_counts_it(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    clock = ManualClock()
    path = write_kubeconfig(tmp_path, "http://127.0.0.1:1")
    runtime = make_runtime(Options(kubeconfig=str(path), https_address="", installation=OURS), clock=clock)
    assert runtime.leader is not None
    assert installation_of(runtime.leader.leadership.identity) == OURS
    runtime.on_peering("MODIFIED", peering(clock, 1, f"{OURS}/a_1"))
    assert (runtime.statistics()["foreign_replicas"], errors(caplog)) == (0, [])
    runtime.on_peering("MODIFIED", peering(clock, 2, f"{OURS}/a_1", f"{THEIRS}/b_1"))
    assert runtime.statistics()["foreign_replicas"] == 1
    assert THEIRS in errors(caplog)[0]
    await clock.advance(11)  # a record that nobody renews is no replica
    runtime.on_peering("MODIFIED", peering(clock, 3, f"{OURS}/a_1"))
    assert runtime.statistics()["foreign_replicas"] == 0
