"""One fault at a time, on the binds of the real operator: what became of each is found out before anything else."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import pytest

from berth.sim.faults import Action, CutAfter, CutBefore, Delay, Fail, Faults, Late, Rule
from berth.sim.resources import NODES
from faults.test_storm import create
from faults.world import operating
from support.builders import make_node

PODS = 12
LIMIT_SECONDS = 60.0
BINDS: dict[str, Any] = {"kinds": frozenset({"Pod"}), "subresources": frozenset({"binding"})}


@pytest.fixture(autouse=True)
def quiet(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.CRITICAL)


async def outcomes_of(folder: Path, *rules: Rule) -> dict[str, int]:
    """Have a few pods scheduled under these rules; what the operator counted of its binds."""
    async with operating(folder, Faults(rules)) as world:
        for i in range(3):
            world.store.create(NODES, make_node(f"n{i}", cpu="1"))
        for i in range(PODS):
            create(world.store, f"p{i}", "250m")
        # The watch may show a pod bound before its bind has found that out: how binds ended counts when all have.
        await world.until(
            lambda: not world.store.pending() and not world.differences() and not world.running_binds(),
            LIMIT_SECONDS,
            lambda: f"{world.store.pending()}; {world.differences()}; {world.running_binds()} binds are running",
        )
        assert len(world.store.binds) == PODS
        assert world.store.bound_twice() == world.store.overfull_nodes() == []
        outcomes: dict[str, int] = world.runtime.statistics()["scheduler"]["binds"]
        return outcomes


@pytest.mark.parametrize("read_seconds", [0.0, 1.0], ids=["read-at-once", "read-after-the-watch-has-shown-it"])
async def test_a_bind_whose_answer_was_cut_off_is_found_bound_and_not_done_again(
    tmp_path: Path, read_seconds: float
) -> None:
    late = Rule(Delay(read_seconds), kinds=frozenset({"Pod"}), verbs=frozenset({"get"}))

    outcomes = await outcomes_of(tmp_path, Rule(CutAfter(), **BINDS), late)

    assert outcomes["found_bound"] == PODS
    assert "found_unbound" not in outcomes


@pytest.mark.parametrize("fault", [CutBefore(), Fail(500), Fail(503, retry_after=1)])
async def test_a_bind_that_was_not_carried_out_is_found_unbound_and_done_again(tmp_path: Path, fault: Action) -> None:
    outcomes = await outcomes_of(tmp_path, Rule(fault, **BINDS, limit=5))

    assert outcomes["found_unbound"] == 5
    assert outcomes["bound"] == PODS


async def test_nodes_are_not_overfilled_while_the_watch_is_late(tmp_path: Path) -> None:
    outcomes = await outcomes_of(tmp_path, Rule(Late(0.5, 1.0), kinds=frozenset({"Pod"})))

    assert outcomes["bound"] == PODS
