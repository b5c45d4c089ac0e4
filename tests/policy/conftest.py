"""A policy store at a moment that the test chooses."""

import pytest

from berth.policy import PolicyStore
from policy.harness import Clock


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def store(clock: Clock) -> PolicyStore:
    return PolicyStore(clock)
