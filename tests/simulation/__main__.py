"""Run seeds, and show what fails.

python -m simulation --seeds 200              seeds 0 to 199, over all cores
python -m simulation --seed 17                one seed; again and again the same
python -m simulation --seed 17 --steps        ... with everything that happens, as it happens
python -m simulation --mutations              each mutation of the shipped code has to be noticed
python -m simulation --compare-hints          each seed with hints and without: the same pods have to be bound
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict

from simulation.report import Totals, explain, table
from simulation.running import run_seeds
from simulation.scenario import Result


def main(arguments: Sequence[str] | None = None) -> int:
    options = _options(arguments)
    _fix_hashes()
    if options.mutations:
        from simulation.mutating import show_mutations

        return show_mutations(options.seeds or 200, options.jobs, options.only)
    if options.seed is not None:
        seeds: Sequence[int] = [options.seed]
    else:
        seeds = range(options.first, options.first + (options.seeds or 20))
    if options.compare_hints:
        from simulation.comparing import show_comparison

        return show_comparison(seeds, options.jobs)
    return _run(seeds, options)


def _options(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="simulation", description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--seeds", type=int, help="how many seeds (20; 200 for mutations)")
    parser.add_argument("--first", type=int, default=0, help="the first of them (0)")
    parser.add_argument("--seed", type=int, help="this one only")
    parser.add_argument("--steps", action="store_true", help="show everything that happens; with --seed")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="how many processes")
    parser.add_argument("--without-hints", action="store_true", help="wake unschedulable pods by kinds of events alone")
    parser.add_argument(
        "--compare-hints", action="store_true", help="every seed with and without hints, fates compared"
    )
    parser.add_argument("--keep-going", action="store_true", help="do not end at the first seed that fails")
    parser.add_argument("--mutations", action="store_true", help="check that mutations are noticed")
    parser.add_argument("--only", default="", help="the mutation of this name only")
    parser.add_argument("-o", dest="output", choices=("text", "json"), default="text")
    return parser.parse_args(arguments)


def _fix_hashes() -> None:
    """Sets of texts are gone through in the order of their hashes, which Python draws anew for every process."""
    if os.environ.get("PYTHONHASHSEED") != "0":
        os.environ["PYTHONHASHSEED"] = "0"
        os.execv(sys.executable, [sys.executable, "-m", "simulation", *sys.argv[1:]])


def _run(seeds: Sequence[int], options: argparse.Namespace) -> int:
    totals, began = Totals(), time.monotonic()
    failed: list[Result] = []
    show = print if options.steps else None
    for result in run_seeds(seeds, options.jobs, show, hints=not options.without_hints):
        totals.add(result)
        _show_progress(totals, len(seeds))
        if result.violation:
            failed.append(result)
            if options.output == "text":
                print(explain(result), flush=True)
            if not options.keep_going:
                break
    seconds = time.monotonic() - began
    if options.output == "json":
        print(json.dumps({**totals.to_dict(), "seconds": seconds, "failed": [asdict(one) for one in failed]}))
        return 1 if failed else 0
    print(table(totals, seconds))
    return 1 if failed else 0


def _show_progress(totals: Totals, count: int) -> None:
    if sys.stderr.isatty():
        print(f"\r{totals.seeds} of {count} seeds", end="" if totals.seeds < count else "\n", file=sys.stderr)


if __name__ == "__main__":
    sys.exit(main())
