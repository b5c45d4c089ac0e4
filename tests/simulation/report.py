"""What a run says: the counts of everything that was done to Berth, or why a seed has failed."""

from __future__ import annotations

from collections import Counter
from typing import Any

from simulation.scenario import Result


class Totals:
    """Of all seeds together."""

    def __init__(self) -> None:
        self.seeds = 0
        self.failed = 0
        self.steps = 0
        self.decisions = 0
        self.attempts = 0
        self.virtual_seconds = 0.0
        self.faults: Counter[str] = Counter()
        self.acts: Counter[str] = Counter()
        self.checks: Counter[str] = Counter()

    def add(self, result: Result) -> None:
        self.seeds += 1
        self.failed += bool(result.violation)
        self.steps += result.steps
        self.decisions += result.decisions
        self.attempts += result.attempts
        self.virtual_seconds += result.virtual_seconds
        self.faults += result.faults
        self.acts += result.acts
        self.checks += result.checks

    def to_dict(self) -> dict[str, Any]:
        return {
            "seeds": self.seeds,
            "failed_seeds": self.failed,
            "steps": self.steps,
            "decisions": self.decisions,
            "attempts": self.attempts,
            "virtual_seconds": self.virtual_seconds,
            "faults": dict(self.faults),
            "acts": dict(self.acts),
            "checks": dict(self.checks),
        }


def table(totals: Totals, seconds: float) -> str:
    head = (
        f"{totals.seeds} seeds, {totals.failed} failed, in {seconds:.0f} s: {totals.decisions:,} pods placed in "
        f"{totals.attempts:,} attempts, "
        f"{totals.steps:,} steps, {totals.virtual_seconds / 3600:.1f} hours of virtual time"
    )
    parts = {"injected": totals.faults, "done by others": totals.acts, "looked at": totals.checks}
    return "\n".join([head, *(line for name, counts in parts.items() for line in ("", name, *_rows(counts)))])


def _rows(counts: Counter[str]) -> list[str]:
    return [f"  {count:>9,}  {what}" for what, count in sorted(counts.items(), key=lambda row: (-row[1], row[0]))]


def explain(result: Result) -> str:
    return "\n".join(
        [
            f"seed {result.seed} fails after {result.steps:,} steps, {result.virtual_seconds:.3f} s: "
            f"{result.violation}",
            *result.lines,
            f"again: python -m simulation --seed {result.seed} [--steps]     trace {result.digest}",
            "",
        ]
    )
