"""Fixtures of the end-to-end tests: one real control plane for the session, emptied after each test.

    control_plane   ControlPlane, started once
    crds            defines Berth's custom resources in it (berth_process does so by itself)
    kubeconfig      the path of its administrator's kubeconfig
    api             an asyncio client for it, for this test
    berth_process   call it to start Berth and wait until it is ready; stopped after the test, with exit status 0

Every test here carries the marker `cluster` and leaves an empty cluster behind. When one fails, the ends of the logs
of Berth and of the control plane are shown with it.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Generator, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from control_plane.berth_process import BerthProcess
from control_plane.cleaning import remove_everything
from control_plane.client import Client
from control_plane.launcher import ControlPlane
from control_plane.programs import MissingPrograms, find_programs

FOLDER = Path(__file__).parent
CRDS = FOLDER.parents[1] / "crds"

StartBerth = Callable[..., BerthProcess]

_control_plane = pytest.StashKey[ControlPlane]()
_berths = pytest.StashKey[list[BerthProcess]]()


@pytest.hookimpl(tryfirst=True)  # before pytest chooses by marker
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if FOLDER in item.path.parents:
            item.add_marker(pytest.mark.cluster)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    if report.failed:
        for berth in item.stash.get(_berths, []):
            report.sections.append(("berth", berth.process.tail(200)))
        if (plane := item.session.stash.get(_control_plane, None)) is not None:
            report.sections.append(("control plane", plane.tails()))
    return report


@pytest.fixture(scope="session")
def control_plane(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    try:
        programs = find_programs()
    except MissingPrograms as error:
        pytest.exit(f"control plane: {error}", returncode=2)
    with ControlPlane(programs, logs=tmp_path_factory.mktemp("control-plane")) as plane:
        request.session.stash[_control_plane] = plane
        yield plane
        del request.session.stash[_control_plane]


@pytest.fixture(scope="session")
def crds(control_plane: ControlPlane) -> None:
    """Berth's custom resources are defined from here on, and stay."""
    control_plane.apply_crds(CRDS)


@pytest.fixture
def kubeconfig(control_plane: ControlPlane) -> Path:
    return control_plane.kubeconfig


@pytest.fixture
async def api(control_plane: ControlPlane) -> AsyncIterator[Client]:
    async with Client(control_plane.url, control_plane.token) as client:
        yield client


@pytest.fixture(autouse=True)
async def empty_cluster(api: Client) -> AsyncIterator[None]:
    """Set up before `berth_process`, so that Berth is gone when the cluster is emptied."""
    yield
    await remove_everything(api)


@pytest.fixture
def berth_process(
    request: pytest.FixtureRequest, kubeconfig: Path, crds: None, empty_cluster: None, tmp_path: Path
) -> Iterator[StartBerth]:
    started: list[BerthProcess] = []
    request.node.stash[_berths] = started

    def start(*arguments: str) -> BerthProcess:
        berth = BerthProcess(kubeconfig, *arguments, log=tmp_path / f"berth-{len(started)}.log")
        started.append(berth)
        return berth.start()

    yield start
    with ExitStack() as ends:  # all of them, even if one fails
        for berth in started:
            ends.callback(berth.finish)
