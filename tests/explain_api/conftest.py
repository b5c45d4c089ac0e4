"""`pytest tests/explain_api --requests-seed N`: the seed of malformed requests, another one in every run by default."""

import secrets

import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--requests-seed", type=int, default=None, help="the seed of malformed requests")


@pytest.fixture
def requests_seed(request: pytest.FixtureRequest) -> int:
    given = request.config.getoption("--requests-seed", None)
    return secrets.randbelow(1_000_000) if given is None else int(given)
