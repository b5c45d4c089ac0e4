"""Shared by the tests of extenders: a service that is asked, and a house that asks it."""

from collections.abc import AsyncIterator

import pytest

from scheduler.extender_service import ExtendedHouse, Service, running_extended, serving


@pytest.fixture
async def service() -> AsyncIterator[Service]:
    async with serving() as service:
        yield service


@pytest.fixture
async def house() -> AsyncIterator[ExtendedHouse]:
    async with running_extended() as house:
        yield house
