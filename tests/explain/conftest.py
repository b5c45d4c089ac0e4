"""`pytest tests/explain --pods 500`: so many random infeasible pods, of a seed chosen at run time, or given."""

import secrets

import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--pods", type=int, default=60, help="how many random infeasible pods are explained")
    parser.addoption("--pods-seed", default=None, help="the seed of them; by default another one in every run")


@pytest.fixture(scope="session")
def pods(request: pytest.FixtureRequest) -> int:
    return int(request.config.getoption("--pods", 60))


@pytest.fixture(scope="session")
def seed(request: pytest.FixtureRequest) -> str:
    given = request.config.getoption("--pods-seed", None)
    return str(given or secrets.token_hex(4))
