"""Scheduler names that are nearly right: "berth-binpak: did you mean berth-binpack?"."""

from collections.abc import Iterable
from typing import Final

from berth.model.pod import DEFAULT_SCHEDULER

MOST_SLIPS: Final = 2
LETTERS_A_SLIP: Final = 4  # a short name with two other letters is another name
LONGEST: Final = 253  # of a scheduler name in the API


def nearest_name(name: str, known: Iterable[str]) -> str:
    """Returns the known name that differs from this one by a slip or two; "" if none does, or if it is known itself.

    A slip is a missing, added or other letter, or two letters that changed places. The name of Kubernetes' own
    scheduler is never a slip.
    """
    names = set(known)
    if name in names or name == DEFAULT_SCHEDULER or len(name) > LONGEST:
        return ""
    slips = ((_slips(name.lower(), other.lower()), other) for other in sorted(names) if _is_alike(name, other))
    best = min(slips, default=(MOST_SLIPS + 1, ""))
    return best[1] if best[0] <= min(MOST_SLIPS, len(name) // LETTERS_A_SLIP) else ""


def _is_alike(name: str, other: str) -> bool:
    return abs(len(name) - len(other)) <= MOST_SLIPS


def _slips(name: str, other: str) -> int:
    """Returns the number of slips between two words (optimal string alignment distance)."""
    before: list[int] = []
    last = list(range(len(other) + 1))
    for i, letter in enumerate(name, 1):
        row = [i]
        for j, wanted in enumerate(other, 1):
            best = min(last[j] + 1, row[j - 1] + 1, last[j - 1] + (letter != wanted))
            if i > 1 and j > 1 and letter == other[j - 2] and name[i - 2] == wanted:
                best = min(best, before[j - 2] + 1)
            row.append(best)
        before, last = last, row
    return last[-1]
