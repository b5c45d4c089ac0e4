"""Many seeds, over several processes."""

from __future__ import annotations

import multiprocessing
from collections.abc import Callable, Iterator, Sequence

from simulation.scenario import Result, run_seed


def run_seeds(
    seeds: Sequence[int], jobs: int, show: Callable[[str], None] | None = None, *, hints: bool = True
) -> Iterator[Result]:
    """In the order in which they end; `show` is given every line of a seed that is run alone."""
    if len(seeds) == 1 or jobs == 1:
        for seed in seeds:
            yield run_seed(seed, show, hints=hints)
        return
    with multiprocessing.get_context("spawn").Pool(jobs) as pool:
        yield from pool.imap_unordered(_run, [(seed, hints) for seed in seeds])


def _run(order: tuple[int, bool]) -> Result:
    seed, hints = order
    return run_seed(seed, hints=hints)
