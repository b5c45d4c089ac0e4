"""For all tests: the same property examples in every run, so that a test that passed once does not fail by luck.

The longest of them try fewer examples unless the profile is `full`, as in `make test-all` (support/examples.py).
To look for new examples: `make test-all ARGS=--hypothesis-profile=explore`.
"""

import logging
import secrets
import signal
from collections.abc import Generator, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings
from xdist.scheduler import LoadScopeScheduling  # type: ignore[import-untyped]

from support.examples import FEW
from support.patience import longest_test_seconds

settings.register_profile(FEW, derandomize=True, deadline=None)
settings.register_profile("full", derandomize=True, deadline=None)
settings.register_profile("explore", max_examples=2000, deadline=None)
settings.load_profile(FEW)

ALONE = ("test_replicas.py",)  # takes about as long as the rest of its folder


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--rounds",
        choices=("few", "full"),
        default="few",
        help="what replicas go through: a few faults with a short lifetime; or (full) 20 with that of the chart, "
        "and five minutes without an API server",
    )
    parser.addoption("--pods", type=int, help="how many random infeasible pods are explained (tests/explain: 60)")
    parser.addoption("--pods-seed", help="the seed of them; with --pods another one in every run, which is printed")


@pytest.fixture(scope="session")
def pods_seed(request: pytest.FixtureRequest) -> str:
    chosen = "0" if request.config.getoption("--pods") is None else secrets.token_hex(4)
    return str(request.config.getoption("--pods-seed") or chosen)


class FolderScheduling(LoadScopeScheduling):  # type: ignore[misc]  # which has no types
    """Keeps the tests of a folder in one process, because they share a control plane."""

    def _split_scope(self, nodeid: str) -> str:
        path = Path(nodeid.partition("::")[0])
        return path.stem if path.name in ALONE else str(path.parent)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> FolderScheduling | None:
    """What `--dist loadscope` means here (`make cluster-test`)."""
    return FolderScheduling(config, log) if config.getoption("dist") == "loadscope" else None


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """On a cluster what takes longest begins first, so that the other process has enough left to do."""
    if config.getoption("markexpr") == "cluster":
        items.sort(key=lambda item: (item.path.name not in ALONE, item.path.parent.name != "end_to_end"))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None]:
    """With a planted bug a test may wait for ever, on a clock that nobody moves any more."""
    seconds = longest_test_seconds()
    if seconds is None:
        return (yield)

    def give_up(*_: object) -> None:
        raise TimeoutError(f"{item.name} takes longer than {seconds:g} s")

    before = signal.signal(signal.SIGALRM, give_up)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        return (yield)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


@pytest.fixture(autouse=True)
def logging_as_it_was() -> Iterator[None]:
    """A test that sets the process's logging up leaves a handler on a standard error that is closed after it."""
    names = ("", "kopf", "kopf.objects", "kubernetes_asyncio")
    levels = {name: logging.getLogger(name).level for name in names}
    yield
    root = logging.getLogger()
    for handler in [handler for handler in root.handlers if type(handler) is logging.StreamHandler]:
        root.removeHandler(handler)
    for name, level in levels.items():
        logging.getLogger(name).setLevel(level)
