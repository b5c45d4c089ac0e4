"""A leader that is frozen for longer than its record lives, and goes on: the one that leads by then never notices.

Three shipped replicas with kopf's own peering code, on virtual time and in calm weather. What waited for the frozen
process (views of the records, a renewal that it was about to send) reaches it when it goes on, in an order that the
seed draws.
"""

from __future__ import annotations

import asyncio

import pytest

from simulation.berth_process import LIFETIME_SECONDS, BerthProcess
from simulation.report import explain
from simulation.scenario import Scenario

SEEDS = range(8)
SETTLING_SECONDS = 3 * LIFETIME_SECONDS
LOOK_SECONDS = 0.1


class Thawing(Scenario):
    """The leader is frozen, and goes on when another one leads."""

    def __init__(self, seed: int) -> None:
        super().__init__(seed, replicas=3)
        self.weather.calm = True

    async def _play(self) -> None:
        self._start_berths()
        await self._be_led()
        await asyncio.sleep(SETTLING_SECONDS + self.random.uniform(0.0, LIFETIME_SECONDS))
        frozen = self._open()
        frozen.pause()
        await asyncio.sleep(self.random.choice((1.5, 2.5, 4.0)) * LIFETIME_SECONDS)
        leader = self._open()
        assert leader is not frozen
        frozen.go_on()
        await self._stay_led_by(leader)
        await self._end()

    def _open(self) -> BerthProcess:
        (found,) = [berth for berth in self.replicas if berth.is_open and not berth.process.is_paused]
        return found

    async def _stay_led_by(self, leader: BerthProcess) -> None:
        end = self.loop.time() + SETTLING_SECONDS
        while self.loop.time() < end:
            await asyncio.sleep(LOOK_SECONDS)
            if not leader.is_open:
                self.trace.violate("20 seats", f"{leader.name} leads no more, and nothing has happened to it")
            self._raise()


@pytest.mark.parametrize("seed", SEEDS)
def test_a_replica_that_goes_on_after_a_freeze_does_not_unseat_the_leader(seed: int) -> None:
    result = Thawing(seed).run()
    assert not result.violation, explain(result)
