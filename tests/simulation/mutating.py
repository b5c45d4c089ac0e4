"""Run mutations, each in a process of its own, until a seed fails; and say which did."""

from __future__ import annotations

import multiprocessing
import time
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass

from simulation.scenario import run_seed


@dataclass(frozen=True)
class Caught:
    """`seed` None: no seed noticed it."""

    mutation: str
    aims_at: str
    seed: int | None
    violation: str
    seconds: float


def hunt(order: tuple[str, int]) -> Caught:
    """Apply the mutation and run seeds until one fails. For a process that does nothing else."""
    from simulation.mutations import MUTATIONS

    name, seeds = order
    mutation, began = MUTATIONS[name], time.monotonic()
    mutation.apply()
    for seed in in_order(mutation.likely, seeds):
        try:
            violation = run_seed(seed).violation
        except Exception as error:  # a check that breaks on what it finds has noticed it
            violation = f"{type(error).__name__}: {error}"
        if violation:
            return Caught(name, mutation.aims_at, seed, violation, time.monotonic() - began)
    return Caught(name, mutation.aims_at, None, "", time.monotonic() - began)


def in_order(likely: Callable[[int], bool], seeds: int) -> list[int]:
    """The seeds 0 up to so many; first those that have what the mutation is about."""
    return sorted(range(seeds), key=lambda seed: (not likely(seed), seed))


def hunt_all(seeds: int, jobs: int, only: str = "", names: Collection[str] | None = None) -> Iterator[Caught]:
    """In the order in which they are noticed; `names`: these only."""
    from simulation.mutations import MUTATIONS

    orders = [(name, seeds) for name in MUTATIONS if only in name and (names is None or name in names)]
    with multiprocessing.get_context("spawn").Pool(jobs, maxtasksperchild=1) as pool:
        yield from pool.imap_unordered(hunt, orders, chunksize=1)


def show_mutations(seeds: int, jobs: int, only: str = "") -> int:
    """Print a table; 1 if one of them was not noticed."""
    found = []
    for caught in hunt_all(seeds, jobs, only):
        found.append(caught)
        where = "NOT NOTICED" if caught.seed is None else f"seed {caught.seed}"
        row = f"{caught.mutation:58} {caught.aims_at:14} {where:12} {caught.seconds:6.1f} s  {caught.violation[:90]}"
        print(row, flush=True)
    missed = [caught for caught in found if caught.seed is None]
    aims = {caught.aims_at for caught in found}
    print(
        f"{len(found) - len(missed)} of {len(found)} mutations noticed, of {len(aims)} invariants, within {seeds} seeds"
    )
    return 1 if missed else 0
