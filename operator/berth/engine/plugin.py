"""The plugin contract: columns in, column out.

A plugin judges one pod on many nodes at once. It is made from its arguments, keeps no state between decisions, changes
nothing that it is given, and answers alike when asked alike. It never raises for "does not fit".

    pre_filter(query, state)        before any node is looked at: nothing to say, no node at all, or only these nodes
    filter(query, state, rows)      a verdict for each row
    pre_score(query, state)         False: nothing to say of this pod, every node scores 0
    score(query, state, rows)       a number for each row, any scale
    normalize(scores)               the same on 0..100, over the feasible nodes

What its answers hang on decides how long they are kept:

    static_key    what of a pod they hang on, where besides it they hang on nothing but what `table.static_version`
                  counts (labels, taints, images, conditions and spec of nodes): kept for the next pod of this key
    node_local    the answer on a node hangs on nothing but that node and its pods (and objects that are neither):
                  leaving other nodes out does not change it
    basis         everything else that they hang on besides the pod's signature; answers given at an equal basis are
                  still right for the next pod of that signature, but for the nodes that changed (node_local), or
                  altogether (not node_local). None: they must be asked for anew
    reach         how far a change on one node goes, where a plugin is not node_local but nearly so
    reads_pods    pods that come to a node or leave it can change the verdict on it; where it is node_local, pods that
                  leave never make it refuse a node that it let the pod onto
    watched       the nodes with pods on them that can change the verdict on them, where the plugin knows

Pods are moved tentatively (nominated pods, preemption) by moving them in the table and asking again, so a filter reads
the table anew each time; what it prepared for a decision belongs into `query.memo`, which is emptied by such a move.
"""

from collections.abc import Hashable, Mapping, Sequence
from typing import Any, ClassVar

import numpy as np

from berth.engine.events import Event
from berth.engine.state import State
from berth.engine.table import NodeTable
from berth.engine.verdict import PROCEED, BoolColumn, Int64Column, PreFilter, Rows, Verdicts
from berth.model import Pod

MAX_SCORE = 100


class BadArgument(ValueError):
    """An argument of a plugin that makes no sense; `field` is its path inside the arguments, "" for the whole."""

    def __init__(self, field: str, problem: str) -> None:
        super().__init__(f"{field}: {problem}" if field else problem)
        self.field = field
        self.problem = problem


class Query:
    """A pod as the columns see it; `requests` are (index of the resource, amount, name).

    Plugins keep under their names what they prepare: in `memo` what they find in the state for this one decision, in
    `plan` what outlives it, with whatever says how long it is right where that is not the pod alone.
    """

    __slots__ = ("memo", "plan", "pod", "requests")

    def __init__(self, pod: Pod, table: NodeTable) -> None:
        self.pod = pod
        self.plan: dict[str, Any] = {}
        self.memo: dict[str, Any] = {}
        self.requests: tuple[tuple[int, int, str], ...] = tuple(
            (table.known_resource(name), amount, name) for name, amount in pod.requests.items()
        )


class Plugin:
    name: str
    filters: ClassVar[bool] = False
    scores: ClassVar[bool] = False
    node_local: ClassVar[bool] = True
    reads_pods: ClassVar[bool] = False
    wakes_on: frozenset[Event] = frozenset()

    def __init__(self, args: Mapping[str, Any]) -> None:
        """Reads the arguments, or raises BadArgument."""
        refuse_unknown(args)

    def concerns(self, pod: Pod) -> bool:
        """False: whatever happens, the plugin has nothing to say of a pod like this, and need not be asked."""
        return True

    def static_key(self, pod: Pod) -> Hashable | None:
        """None: the answers hang on more."""
        return None

    def basis(self, query: Query, state: State) -> Hashable | None:
        return None

    def filter_basis(self, query: Query, state: State) -> Hashable | None:
        """The basis of the verdicts alone, for plugins whose verdicts and scores hang on different things."""
        return self.basis(query, state)

    def score_basis(self, query: Query, state: State) -> Hashable | None:
        """The basis of the scores alone."""
        return self.basis(query, state)

    def watched(self, query: Query, state: State) -> BoolColumn | None:
        """bool[all rows]; other nodes get the same verdict however many of their pods leave. None: it may be any."""
        return None

    def reach(
        self, query: Query, state: State, before: Hashable, now: Hashable, rows: Sequence[int]
    ) -> Sequence[int] | None:
        """The rows whose answers may be others at the basis `now` than `before`, where pods came to or left `rows`.

        For plugins that are not node_local; None: any row's.
        """
        return None

    def pre_filter(self, query: Query, state: State) -> PreFilter:
        return PROCEED

    def filter(self, query: Query, state: State, rows: Rows) -> Verdicts:
        raise NotImplementedError(f"{self.name} is not a filter")

    def fits_row(self, query: Query, state: State, row: int) -> bool:
        """`filter` of a single row, for plugins that are asked again and again about a row that changed."""
        return bool(self.filter(query, state, np.array([row], dtype=np.intp)).codes[0] == 0)

    def pre_score(self, query: Query, state: State) -> bool:
        return True

    def score(self, query: Query, state: State, rows: Rows) -> Int64Column:
        raise NotImplementedError(f"{self.name} does not score")

    def score_row(self, query: Query, state: State, row: int) -> int:
        """`score` of a single row."""
        return int(self.score(query, state, np.array([row], dtype=np.intp))[0])

    def bounds(self, scores: Int64Column) -> Hashable | None:
        """What of all the scores the normalised ones hang on; None: on each of them.

        A plugin that knows it overrides `scale` beside it, and gives a row the same score whichever rows are asked.
        """
        return None

    def scale(self, scores: Int64Column, bounds: Any) -> Int64Column:
        raise NotImplementedError(f"{self.name} has no bounds")

    def normalize(self, scores: Int64Column) -> Int64Column:
        bounds = self.bounds(scores)
        return scores if bounds is None else self.scale(scores, bounds)


def refuse_unknown(args: Mapping[str, Any], *known: str) -> None:
    for field in args:
        if field not in known:
            allowed = f"known are {', '.join(sorted(known))}" if known else "the plugin takes none"
            raise BadArgument(field, f"unknown argument; {allowed}")


def scale_to_highest(scores: Int64Column, highest: int, reverse: bool = False) -> Int64Column:
    """The highest becomes 100 and the others their share of it, cut to whole numbers; `reverse` turns it around."""
    if highest == 0:
        return np.full_like(scores, MAX_SCORE) if reverse else scores
    scaled = MAX_SCORE * scores // highest
    return MAX_SCORE - scaled if reverse else scaled
