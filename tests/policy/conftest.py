"""A policy book at a moment that the test chooses."""

import pytest

from berth.policy import PolicyBook
from policy.bookkeeping import Clock


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def book(clock: Clock) -> PolicyBook:
    return PolicyBook(clock)
