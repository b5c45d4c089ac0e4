"""Every seed with hints and without: hints may delay, never lose.

A storm with hints is another storm than one without: who is tried when decides who gets which room, and what befalls
whom. So two things are compared. Each storm by itself, where every pod that fits has to be bound in the end, both ways.
And a course of events in which it does not matter who comes first (`fates`): there every pod comes to the same end both
ways, the one that it is meant to come to.
"""

from __future__ import annotations

import multiprocessing
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from simulation.fates import Course
from simulation.report import explain
from simulation.scenario import Result, run_seed

WITH, WITHOUT = "with hints", "without hints"


@dataclass
class Comparison:
    """Of one seed; `differences` are what pods came to otherwise than they should have. Attempts: by WITH, WITHOUT."""

    seed: int
    failed: list[Result] = field(default_factory=list)
    differences: list[str] = field(default_factory=list)
    pods: int = 0
    attempts: Counter[str] = field(default_factory=Counter)


def compare_seed(seed: int) -> Comparison:
    said, fates = Comparison(seed), dict[str, dict[str, str]]()
    for how in (WITH, WITHOUT):
        course = Course(seed, hints=how == WITH)
        for result in (run_seed(seed, hints=how == WITH), course.run()):
            said.attempts[how] += result.attempts
            said.failed += [result] if result.violation else []
        fates[how] = course.fates
        said.pods = len(course.meant)
        meant = course.meant.items()
        said.differences += [
            f"{key} {course.fates.get(key, 'is gone')} {how}, and is meant to come to: {fate}"
            for key, fate in meant
            if course.fates.get(key) != fate
        ]
    said.differences += [
        f"{key} {fate} {WITHOUT}, and {WITH} {fates[WITH].get(key)}"
        for key, fate in fates[WITHOUT].items()
        if fates[WITH].get(key) != fate
    ]
    return said


def compare_seeds(seeds: Sequence[int], jobs: int) -> Iterator[Comparison]:
    if len(seeds) == 1 or jobs == 1:
        yield from map(compare_seed, seeds)
        return
    with multiprocessing.get_context("spawn").Pool(jobs) as pool:
        yield from pool.imap(compare_seed, seeds)


def problems(said: Iterable[Comparison]) -> list[str]:
    """What goes against it, of all these seeds together."""
    found, attempts = list[str](), Counter[str]()
    for one in said:
        found += [explain(result) for result in one.failed]
        found += [f"seed {one.seed}: {difference}" for difference in one.differences]
        attempts += one.attempts
    if attempts[WITH] >= attempts[WITHOUT]:
        found.append(f"hints spare nothing: {attempts[WITH]:,} attempts {WITH}, {attempts[WITHOUT]:,} {WITHOUT}")
    return found


def show_comparison(seeds: Sequence[int], jobs: int) -> int:
    """A line for each seed; 1 if hints lose a pod, or spare nothing."""
    all_said = []
    for said in compare_seeds(seeds, jobs):
        all_said.append(said)
        same = "the same" if not said.differences else f"{len(said.differences)} not the same"
        tried = f"{said.attempts[WITH]:6,} attempts {WITH}, {said.attempts[WITHOUT]:6,} {WITHOUT}"
        print(f"seed {said.seed:5}  {tried}; fates of {said.pods:2} pods: {same}", flush=True)
    found = problems(all_said)
    for problem in found:
        print(problem)
    total = sum((said.attempts for said in all_said), Counter[str]())
    pods = sum(said.pods for said in all_said)
    print(
        f"{len(all_said)} seeds, {len(found)} problems: {total[WITH]:,} attempts {WITH}, {total[WITHOUT]:,} {WITHOUT}; "
        f"the fates of {pods:,} pods compared"
    )
    return 1 if found else 0
