"""The shape of a plugin: one pod, one node, one answer.

    pre_filter(pod, world)              once, before any node: go on, nothing to say, no node at all, or only these
    filter(pod, node, world)            why the pod may not go there; None if it may
    score(pod, feasible, world)         0..100 by node name, normalised over these nodes; None if nothing to say

A plugin keeps nothing but its arguments. Every answer is worked out from the world that it is asked about: pods that
are only imagined to be there, or to be gone, make another world. `world.once` keeps what one world needs only once.
`filter` may be asked of a world that `pre_filter` was not asked of.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from berth.model import Node, Pod

from .world import World

SUCCESS = "Success"
SKIP = "Skip"
UNSCHEDULABLE = "Unschedulable"
UNRESOLVABLE = "UnschedulableAndUnresolvable"

MAX_SCORE = 100


@dataclass(frozen=True)
class Refusal:
    """Why not: Unschedulable where removing pods may help, UnschedulableAndUnresolvable where it cannot."""

    code: str
    reasons: tuple[str, ...]


@dataclass(frozen=True)
class PreFilter:
    """What is known before any node is looked at; `nodes` are the only ones left to look at, None for all."""

    code: str = SUCCESS
    reasons: tuple[str, ...] = ()
    nodes: frozenset[str] | None = None

    @property
    def refuses(self) -> bool:
        return self.code not in (SUCCESS, SKIP)


PROCEED = PreFilter()
NOTHING_TO_SAY = PreFilter(SKIP)


def unschedulable(*reasons: str) -> Refusal:
    return Refusal(UNSCHEDULABLE, reasons)


def unresolvable(*reasons: str) -> Refusal:
    return Refusal(UNRESOLVABLE, reasons)


class Plugin:
    name: ClassVar[str]

    def __init__(self, args: Mapping[str, Any]) -> None:
        self.args = args

    def pre_filter(self, pod: Pod, world: World) -> PreFilter:
        return PROCEED

    def filter(self, pod: Pod, node: Node, world: World) -> Refusal | None:
        return None

    def score(self, pod: Pod, feasible: Sequence[Node], world: World) -> dict[str, int] | None:
        return None


def scaled_to_highest(scores: Mapping[str, int], reverse: bool = False) -> dict[str, int]:
    """The highest becomes 100 and the others their share of it, cut to whole numbers; `reverse` turns it around."""
    highest = max(scores.values(), default=0)
    if highest == 0:
        return dict.fromkeys(scores, MAX_SCORE) if reverse else dict(scores)
    shares = {name: MAX_SCORE * score // highest for name, score in scores.items()}
    return {name: MAX_SCORE - share for name, share in shares.items()} if reverse else shares
