"""`pytest tests/faults --seeds 20`: the storm at full length, with as many seeds.

Without the option, as in `make test`, there is one seed, and the pods arrive faster. Either way every test runs twice,
with the feature gate BulkIntake on and off.
"""

from __future__ import annotations

import pytest

SHORT_SECONDS = 10.0
# Longer than the 30 s in which every kind is told 410 once.
FULL_SECONDS = 35.0


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--seeds", type=int, default=None, help="run the storm at full length, with so many seeds")
    parser.addoption("--first-seed", type=int, default=0, help="the first of them")


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "seed" in metafunc.fixturenames:
        seeds = metafunc.config.getoption("--seeds", None)
        first = metafunc.config.getoption("--first-seed", 0)
        metafunc.parametrize("seed", range(first, first + (seeds or 1)))


@pytest.fixture(params=[True, False], ids=["bulk", "kopf"])
def bulk(request: pytest.FixtureRequest) -> bool:
    """Whether lists and watches are read in bulk, or by kopf."""
    return bool(request.param)


@pytest.fixture
def arrival_seconds(request: pytest.FixtureRequest) -> float:
    """Over how long the pods arrive."""
    return SHORT_SECONDS if request.config.getoption("--seeds", None) is None else FULL_SECONDS
