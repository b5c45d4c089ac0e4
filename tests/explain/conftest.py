"""`pytest tests/explain --pods 500`: so many random infeasible pods, of a seed chosen at run time, or given."""

import pytest

FEW = 60


@pytest.fixture(scope="session")
def pods(request: pytest.FixtureRequest) -> int:
    return int(request.config.getoption("--pods") or FEW)
