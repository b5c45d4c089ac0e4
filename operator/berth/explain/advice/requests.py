"""Requests that a node could satisfy: the largest that fit there."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Final

import numpy as np

from berth.engine.verdict import Int64Column
from berth.explain.advice.edits import PodChange, Rank
from berth.explain.judgement import Judgement
from berth.explain.near_misses import free_of
from berth.explain.quantities import quantity, rounded
from berth.explain.records import FieldChange
from berth.model import Pod

LARGE_PART: Final = 0.5  # a request that is cut by more than that is hardly the same pod


def needed(judgement: Judgement) -> dict[str, int]:
    """Returns what the filters on resources compare with what is free, by resource."""
    found: dict[str, int] = {}
    for opinion in judgement.opinions:
        found |= opinion.plugin.needed_resources(judgement.pod) or {}
    return found


def lacking(judgement: Judgement, position: int) -> dict[str, tuple[int, int]]:
    """Returns what is requested and what is free of each resource of which the node has too little."""
    short = {}
    for resource, amount in needed(judgement).items():
        free = int(free_of(judgement, resource)[position])
        if free < amount:
            short[resource] = amount, free
    return short


def closest(judgement: Judgement, positions: "np.typing.NDArray[np.intp]") -> list[int]:
    """Returns the positions where the largest part of all requests is free: with one resource short, and with any."""
    short: Int64Column = np.zeros(len(positions), dtype=np.int64)
    part = np.ones(len(positions), dtype=np.float64)
    for resource, amount in needed(judgement).items():
        free = free_of(judgement, resource)[positions]
        short += free < amount
        np.minimum(part, free / max(amount, 1), out=part)
    by_name = judgement.by_name[positions]
    chosen = [np.lexsort((by_name, -part, short > 1)), np.lexsort((by_name, -part))]
    return list(dict.fromkeys(int(positions[order[0]]) for order in chosen if len(order)))


def reduced(judgement: Judgement, position: int) -> Iterator[PodChange]:
    """Yields the pod with the largest requests that the node has free."""
    if position < 0:
        return
    short = lacking(judgement, position)
    if not short or "pods" in short:
        return
    left = {resource: rounded(resource, max(free, 0), up=False) for resource, (_, free) in short.items()}
    part = min(left[resource] / requested for resource, (requested, _) in short.items())
    yield PodChange(
        "ReduceRequest",
        " and ".join(_instruction(name, left[name], requested) for name, (requested, _) in short.items()),
        tuple(
            FieldChange(f"spec.containers[*].resources.requests.{name}", quantity(name, asked), quantity(name, amount))
            for (name, (asked, _)), amount in zip(short.items(), left.values(), strict=True)
        ),
        lambda pod: with_requests(pod, left),
        Rank.SLIGHT if part >= LARGE_PART else Rank.DRASTIC if part <= 0 else Rank.LARGE,
        2 * (1 - part),
    )


def _instruction(resource: str, amount: int, requested: int) -> str:
    if not amount:
        return f"Request no {resource} instead of {quantity(resource, requested)}"
    return f"Request {quantity(resource, amount)} {resource} in all instead of {quantity(resource, requested)}"


def with_requests(pod: Pod, amounts: dict[str, int]) -> Pod:
    """Returns the pod with these requests; a request of 0 is none."""

    def changed(before: dict[str, int]) -> dict[str, int]:
        now = {name: min(amount, amounts.get(name, amount)) for name, amount in before.items()}
        return {name: amount for name, amount in now.items() if amount}

    return replace(
        pod,
        requests=changed(dict(pod.requests)),
        usage=changed(dict(pod.usage)),
        scored=changed(dict(pod.scored)),
    )
