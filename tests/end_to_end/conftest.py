"""Fixtures of the end-to-end tests: a cluster for the session, emptied after each test.

Each test runs twice, unchanged: on the embedded cluster in `make test`, and, carrying the marker `cluster`, on a real
etcd and kube-apiserver in `make cluster-test`. Those that need the real one ask for it (`only_real`).

    control_plane   a Plane, started once
    crds            defines Berth's custom resources in it (berth_process does so by itself)
    kubeconfig      the path of its administrator's kubeconfig
    api             an asyncio client for it, for this test
    berth_process   call it to start Berth and wait until it is ready; stopped after the test, with exit status 0

A module with `BOTH_INTAKES = True` runs on the embedded cluster with the feature gate BulkIntake on, and once more with
it off. With TEST_KOPF_READS=1 in the environment it is off everywhere.

Every test leaves an empty cluster behind. When one fails, the ends of the logs of Berth and of the control plane are
shown with it.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Generator, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from control_plane.berth_process import WITHOUT_BULK_INTAKE, BerthProcess
from control_plane.cleaning import remove_everything
from control_plane.client import Client
from control_plane.embedded import EmbeddedPlane
from control_plane.launcher import ControlPlane
from control_plane.programs import MissingPrograms, find_programs
from end_to_end.watching import Plane, StartBerth

CRDS = Path(__file__).resolve().parents[2] / "crds"

_control_plane = pytest.StashKey[Plane]()
_berths = pytest.StashKey[list[BerthProcess]]()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    if report.failed:
        for berth in item.stash.get(_berths, []):
            report.sections.append(("berth", berth.process.tail(200)))
        if (plane := item.session.stash.get(_control_plane, None)) is not None:
            report.sections.append(("control plane", plane.tails()))
    return report


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "berth_process" in metafunc.fixturenames and getattr(metafunc.module, "BOTH_INTAKES", False):
        metafunc.parametrize("intake", ["bulk", "kopf"], indirect=True)


@pytest.fixture
def intake(request: pytest.FixtureRequest) -> str:
    """Who reads lists and watches: we in bulk, or kopf."""
    return str(getattr(request, "param", "bulk"))


@pytest.fixture(scope="session", params=["embedded", pytest.param("real", marks=pytest.mark.cluster)])
def control_plane(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Plane]:
    with _plane(request.param, tmp_path_factory) as plane:
        request.session.stash[_control_plane] = plane
        yield plane
        del request.session.stash[_control_plane]


def _plane(kind: str, folders: pytest.TempPathFactory) -> Plane:
    if kind == "embedded":
        return EmbeddedPlane(folders.mktemp("embedded"))
    try:
        return ControlPlane(find_programs(), logs=folders.mktemp("control-plane"), audit=True)
    except MissingPrograms as error:
        pytest.exit(f"control plane: {error}", returncode=2)


@pytest.fixture(scope="session")
def crds(control_plane: Plane) -> None:
    """Berth's custom resources are defined from here on, and stay."""
    control_plane.apply_crds(CRDS)


@pytest.fixture
def kubeconfig(control_plane: Plane) -> Path:
    return control_plane.kubeconfig


@pytest.fixture
async def api(control_plane: Plane) -> AsyncIterator[Client]:
    async with Client(control_plane.url, control_plane.token) as client:
        yield client


@pytest.fixture(autouse=True)
async def empty_cluster(api: Client) -> AsyncIterator[None]:
    """Set up before `berth_process`, so that Berth is gone when the cluster is emptied."""
    yield
    await remove_everything(api)


@pytest.fixture
def berth_process(
    request: pytest.FixtureRequest,
    control_plane: Plane,
    kubeconfig: Path,
    crds: None,
    empty_cluster: None,
    intake: str,
    tmp_path: Path,
) -> Iterator[StartBerth]:
    if intake == "kopf" and isinstance(control_plane, ControlPlane):
        pytest.skip("on the embedded cluster")
    gates = [WITHOUT_BULK_INTAKE] if intake == "kopf" else []
    started: list[BerthProcess] = []
    request.node.stash[_berths] = started

    def start(*arguments: str) -> BerthProcess:
        log = tmp_path / f"berth-{len(started)}.log"
        berth = BerthProcess(kubeconfig, *gates, *arguments, log=log, token=control_plane.token)
        started.append(berth)
        return berth.start()

    yield start
    with ExitStack() as ends:  # all of them, even if one fails
        for berth in started:
            ends.callback(berth.finish)
