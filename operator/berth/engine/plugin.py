"""The plugin contract: columns in, column out.

A plugin judges one pod on many nodes at once. It is made from its arguments, keeps no state between decisions, changes
nothing that it is given, and answers alike when asked alike. It never raises for "does not fit".

    pre_filter(query, state)        before any node is looked at: nothing to say, no node at all, or only these nodes
    filter(query, state, rows)      a verdict for each row
    pre_score(query, state)         False: nothing to say of this pod, every node scores 0
    score(query, state, rows)       a number for each row, any scale
    normalize(scores)               the same on 0..100, over the feasible nodes

`static_key` names what of a pod its answers hang on, where they hang on nothing else but what `table.static_version`
counts (labels, taints, images and spec of nodes): they are kept for the next pod of the same key. `node_local` says
that the verdict on a node hangs on nothing but that node (and objects that are not nodes or pods): leaving other nodes
out does not change it.
"""

from collections.abc import Hashable, Mapping
from typing import Any, ClassVar

import numpy as np

from berth.engine.events import Event
from berth.engine.state import State
from berth.engine.table import NodeTable
from berth.engine.verdict import PROCEED, Int64Column, PreFilter, Rows, Verdicts
from berth.model import Pod

MAX_SCORE = 100


class BadArgument(ValueError):
    """An argument of a plugin that makes no sense; `field` is its path inside the arguments, "" for the whole."""

    def __init__(self, field: str, problem: str) -> None:
        super().__init__(f"{field}: {problem}" if field else problem)
        self.field = field
        self.problem = problem


class Query:
    """A pod as the columns see it; `requests` are (index of the resource, amount, name)."""

    __slots__ = ("pod", "requests")

    def __init__(self, pod: Pod, table: NodeTable) -> None:
        self.pod = pod
        self.requests: tuple[tuple[int, int, str], ...] = tuple(
            (table.resource(name), amount, name) for name, amount in pod.requests.items()
        )


class Plugin:
    name: ClassVar[str]
    filters: ClassVar[bool] = False
    scores: ClassVar[bool] = False
    node_local: ClassVar[bool] = True
    wakes_on: ClassVar[frozenset[Event]] = frozenset()

    def __init__(self, args: Mapping[str, Any]) -> None:
        """Reads the arguments, or raises BadArgument."""
        refuse_unknown(args)

    def static_key(self, pod: Pod) -> Hashable | None:
        """None: the answers hang on more."""
        return None

    def pre_filter(self, query: Query, state: State) -> PreFilter:
        return PROCEED

    def filter(self, query: Query, state: State, rows: Rows) -> Verdicts:
        raise NotImplementedError(f"{self.name} is not a filter")

    def pre_score(self, query: Query, state: State) -> bool:
        return True

    def score(self, query: Query, state: State, rows: Rows) -> Int64Column:
        raise NotImplementedError(f"{self.name} does not score")

    def normalize(self, scores: Int64Column) -> Int64Column:
        return scores


def refuse_unknown(args: Mapping[str, Any], *known: str) -> None:
    for field in args:
        if field not in known:
            allowed = f"known are {', '.join(sorted(known))}" if known else "the plugin takes none"
            raise BadArgument(field, f"unknown argument; {allowed}")


def scale_to_highest(scores: Int64Column, reverse: bool = False) -> Int64Column:
    """The highest becomes 100 and the others their share of it, cut to whole numbers; `reverse` turns it around."""
    highest = int(scores.max(initial=0))
    if highest == 0:
        return np.full_like(scores, MAX_SCORE) if reverse else scores
    scaled = MAX_SCORE * scores // highest
    return MAX_SCORE - scaled if reverse else scaled
