"""`make mutations`: apply planted bugs one at a time, and print which of them the tests notice."""

from __future__ import annotations

import argparse
import os
import random
import sys
import time
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor

from mutations.catalogue import MUTATIONS
from mutations.running import Mutation, Outcome, run_unchanged, test
from simulation.mutating import hunt_all
from simulation.mutations import MUTATIONS as SIMULATED

SIMULATED_SEEDS = 500  # some bugs need a rare course of events


def main() -> int:
    options = _options()
    seed = options.seed if options.seed is not None else random.SystemRandom().randrange(10**6)
    chosen, simulated = choose(options.only, options.sample, seed)
    if not chosen and not simulated:
        print(f"no mutation has {options.only!r} in its name or file", file=sys.stderr)
        return 2
    every = f"of {len(MUTATIONS) + len(SIMULATED)} mutations"
    drawn = f", drawn by seed {seed}" if options.sample else ""
    print(f"{len(chosen) + len(simulated)} {every}{drawn}", flush=True)
    began = time.monotonic()
    problem = run_unchanged(tuple(sorted({name for mutation in chosen for name in mutation.tests}))) if chosen else ""
    if problem:
        print(problem, file=sys.stderr)
        return 2
    missed = [name for name, caught in _run(chosen, simulated, options.jobs) if not caught]
    total = len(chosen) + len(simulated)
    print(f"{total - len(missed)} of {total} mutations caught in {time.monotonic() - began:.0f} s")
    for name in missed:
        print(f"NOT CAUGHT: {name}")
    return 1 if missed else 0


def choose(only: str, sample: int, seed: int) -> tuple[list[Mutation], list[str]]:
    """The mutations to run: those of the catalogue, and the names of the simulation's."""
    chosen = [mutation for mutation in MUTATIONS if only in mutation.name or only in mutation.file]
    simulated = [name for name in SIMULATED if only in name]
    if not sample or sample >= len(chosen) + len(simulated):
        return chosen, simulated
    drawn = set(random.Random(seed).sample([mutation.name for mutation in chosen] + simulated, sample))
    return [mutation for mutation in chosen if mutation.name in drawn], [name for name in simulated if name in drawn]


def _run(chosen: list[Mutation], simulated: list[str], jobs: int) -> Iterator[tuple[str, bool]]:
    yield from _report(_test_each(chosen, jobs))
    for caught in hunt_all(SIMULATED_SEEDS, jobs, names=simulated) if simulated else ():
        where = f"seed {caught.seed}" if caught.seed is not None else "SURVIVED"
        print(f"  {where:12} {caught.seconds:6.1f} s  simulation: {caught.mutation}", flush=True)
        yield caught.mutation, caught.seed is not None


def _test_each(chosen: list[Mutation], jobs: int) -> Iterator[Outcome]:
    with ThreadPoolExecutor(jobs) as pool:
        yield from pool.map(test, chosen)


def _report(outcomes: Iterable[Outcome]) -> Iterator[tuple[str, bool]]:
    for outcome in outcomes:
        print(f"  {outcome.problem or 'caught':12} {outcome.seconds:6.1f} s  {outcome.name}", flush=True)
        yield outcome.name, not outcome.problem


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="make mutations", description=__doc__)
    parser.add_argument("--sample", type=int, default=0, metavar="N", help="only so many, drawn by the seed")
    parser.add_argument("--seed", type=int, help="which ones are drawn; without it one is chosen and printed")
    parser.add_argument("--only", default="", metavar="TEXT", help="those with this text in their name or file")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, metavar="N", help="how many at once")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
