"""A few seeds of the simulation, which `make simulate` runs by the thousand."""

import pytest

from simulation.listing import LIST_FAULTS
from simulation.report import Totals, explain, table
from simulation.scenario import Result, has_replicas, run_seed
from simulation.weather import EVENT_FAULTS, REQUEST_FAULTS, STAGE_FAULTS, WATCH_LIST_FAULTS, WATCH_RATES, Weather

SEEDS = range(6)


@pytest.mark.parametrize("seed", SEEDS)
def test_a_seed_ends_with_every_invariant_kept(seed: int) -> None:
    result = run_seed(seed)
    assert not result.violation, explain(result)


ALONE, MANY = 2, 28  # of the second: replicas, one of which is frozen, volumes, and lists that fail


@pytest.mark.parametrize("seed", [ALONE, MANY])
def test_the_same_seed_gives_the_same_trace(seed: int) -> None:
    first, again = run_seed(seed), run_seed(seed)
    assert (first.digest, first.steps, first.faults, first.acts) == (
        again.digest,
        again.steps,
        again.faults,
        again.acts,
    )
    if seed == MANY:
        assert has_replicas(seed)
        assert first.faults["freeze"]
        assert first.acts["delete claim"]
        assert sum(fault.startswith("list:") for fault in first.faults) >= 3


def test_another_seed_gives_another_trace() -> None:
    assert run_seed(2).digest != run_seed(3).digest


def test_pods_are_decided_on_while_there_are_faults() -> None:
    assert run_seed(1).decisions_among_faults >= 10


def test_a_run_shows_every_line_when_asked_to() -> None:
    lines: list[str] = []
    result = run_seed(2, lines.append)
    assert any("decides:" in line for line in lines)
    assert not result.lines


def test_a_seed_that_fails_shows_how_to_repeat_it() -> None:
    result = Result(17, "1 room: node-0 is over", ["     1.000  a line"], "abc", steps=5, virtual_seconds=1.0)
    shown = explain(result)
    assert "1 room: node-0 is over" in shown
    assert "--seed 17" in shown
    assert "a line" in shown


def test_the_counts_of_all_seeds_are_added_up() -> None:
    totals = Totals()
    for seed in (2, 3):
        totals.add(run_seed(seed))
    shown = table(totals, 2.0)
    assert "2 seeds, 0 failed" in shown
    assert "create pod" in shown


def test_over_some_seeds_every_kind_of_fault_happens() -> None:
    possible = set().union(*(Weather(seed).rates for seed in range(30)))
    named = {*REQUEST_FAULTS, *EVENT_FAULTS, *STAGE_FAULTS, *WATCH_RATES, *LIST_FAULTS, *WATCH_LIST_FAULTS}
    assert named <= possible


def test_calm_weather_has_no_faults() -> None:
    weather = Weather(1)
    weather.calm = True
    assert not any(weather.on_request("POST", is_bind=True) for _ in range(1000))
