"""For all tests: the same property examples in every run, so that a test that passed once does not fail by luck.

To look for new examples: `make test ARGS=--hypothesis-profile=explore`.
"""

import logging
from collections.abc import Iterator

import pytest
from hypothesis import settings

settings.register_profile("same", derandomize=True, deadline=None)
settings.register_profile("explore", max_examples=2000, deadline=None)
settings.load_profile("same")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--rounds",
        choices=("few", "full"),
        default="few",
        help="what replicas go through: a few faults with a short lifetime; or (full) 20 with that of the chart, "
        "and five minutes without an API server",
    )


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
