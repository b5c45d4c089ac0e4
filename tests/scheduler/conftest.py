"""Shared by the tests of extenders: a service that is asked, and a harness that asks it."""

from collections.abc import AsyncIterator

import pytest

from scheduler.extender_service import ExtendedHarness, Service, running_extended, serving


@pytest.fixture
async def service() -> AsyncIterator[Service]:
    async with serving() as service:
        yield service


@pytest.fixture
async def harness() -> AsyncIterator[ExtendedHarness]:
    async with running_extended() as harness:
        yield harness
