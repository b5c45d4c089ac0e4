import pytest

from sim.world import World


@pytest.fixture
def world() -> World:
    return World()
