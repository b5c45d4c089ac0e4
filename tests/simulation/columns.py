"""What a state that lived through everything says otherwise than one that was made anew."""

from __future__ import annotations

from collections.abc import Iterator
from typing import cast

from berth.engine.state.pod_counts import RowCounts
from berth.engine.state.state import State
from engine.picture import Question, picture
from simulation.actors import HOST, ZONE
from simulation.policies import REFUSING_LABEL

LABEL_KEYS = (HOST, ZONE, "retiring", REFUSING_LABEL)

Difference = tuple[str, object, object]


def differences(ours: State, true: State) -> Iterator[Difference]:
    """What, as ours has it, and as it is. The counters that are looked at are those that decisions have asked for."""
    questions = cast("list[Question]", list(ours.table.counts.questions()))
    probes = [pod for name in true.table.names() for pod in true.table.pods_on(name).values()]
    mine, other = (picture(state, questions, LABEL_KEYS, probes) for state in (ours, true))
    yield from _between("", mine, other)
    for key, counts in ours.table.counts.questions().items():
        yield from _sums(str(key), counts)


def _between(where: str, mine: object, other: object) -> Iterator[Difference]:
    """The innermost parts that differ."""
    if isinstance(mine, dict) and isinstance(other, dict):
        for name in sorted({*mine, *other}, key=str):
            if mine.get(name) != other.get(name):
                yield from _between(f"{where} {name}".strip(), mine.get(name), other.get(name))
    else:
        yield where, mine, other


def _sums(name: str, counts: RowCounts) -> Iterator[Difference]:
    """The sums by domain that are moved along with a counter."""
    for domains, sums in counts.cached_sums():
        true = [0] * len(sums)
        for row, count in zip(*counts.counted(), strict=True):
            if row < len(domains) and domains[row] >= 0:
                true[int(domains[row])] += int(count)
        if sums.tolist() != true:
            yield f"sums of {name}", sums.tolist(), true
