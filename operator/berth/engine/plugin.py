"""The plugin contract: columns in, column out.

A plugin judges one pod on many nodes at once. It is made from its arguments, keeps no state between decisions, changes
nothing that it is given, and answers alike when asked alike. It never raises for "does not fit".

    pre_filter(query, state)        before any node is looked at: nothing to say, no node at all, or only these nodes
    filter(query, state, rows)      a verdict for each row
    filter_with_nominated(...)      the same with each row's nominated pods there, for plugins that read pods
    pre_score(query, state)         False: nothing to say of this pod, every node scores 0
    score(query, state, rows)       a number for each row, any scale
    normalize(scores)               the same on 0..100, over the feasible nodes
    hint(query, state, change)      may the change have made it let a pod onto a node that it refused before?
    hint_marks(query, state)        what a change has to show for the hint to be True (marks.py)
    admits(query, state, node)      False: it refuses the pod on this node, whichever pods leave it
    node_marks(query, state)        what a node has to show for it to admit the pod

What its answers hang on decides how long they are kept:

    static_key    what of a pod they hang on, where besides it they hang on nothing but what `table.static_version`
                  counts (labels, taints, images, conditions and spec of nodes): kept for the next pod of this key
    node_local    the answer on a node hangs on nothing but that node and its pods (and objects that are neither):
                  leaving other nodes out does not change it
    basis         everything else that they hang on besides the pod's signature; answers given at an equal basis are
                  still right for the next pod of that signature, but for the nodes that changed (node_local), or
                  altogether (not node_local). None: they must be asked for anew. NOTHING_ELSE: there is nothing, and
                  will not be until an object that is neither pod nor node changes, or the terms that pods carry
    axes          what nodes have to be alike in to score alike, where that is little: the score is asked for once a
                  group of them (groups.py), for all nodes at once
    reach         how far a change on one node goes, where a filter is not node_local but nearly so
    reads_pods    pods that come to a node or leave it can change the verdict on it; where it is node_local, pods that
                  leave never make it refuse a node that it let the pod onto
    watched       the nodes with pods on them that can change the verdict on them, where the plugin knows
    local_events  the events of `wakes_on` by which a pod or a node changes its verdict on that one node only, so that
                  such a change helps no pod that another plugin still keeps away from there

What it may do about a pod after the decision, until it is bound, is another contract (stages.py).

Pods are moved tentatively (nominated pods, preemption) by moving them in the table and asking again, so a filter reads
the table anew each time; what it prepared for a decision belongs into `query.memo`, which is emptied by such a move.
"""

from collections.abc import Hashable, Mapping, Sequence
from typing import Any, ClassVar, Final

import numpy as np

from berth.engine.answer_cache.equivalence import Axis, EquivalenceGroups
from berth.engine.events import Change, Event
from berth.engine.queueing.marks import NODE, Mark, Marks
from berth.engine.state.node_table import NodeTable
from berth.engine.state.nominated_rows import NominatedRows
from berth.engine.state.state import State
from berth.engine.verdict import PROCEED, BoolColumn, Code, Int64Column, PreFilter, Rows, Verdicts
from berth.model import Node, Pod

MAX_SCORE = 100
NOTHING_ELSE: Final[Hashable] = object()


class BadArgument(ValueError):
    """An argument of a plugin that makes no sense; `field` is its path inside the arguments, "" for the whole."""

    def __init__(self, field: str, problem: str) -> None:
        super().__init__(f"{field}: {problem}" if field else problem)
        self.field = field
        self.problem = problem


class PluginFailed(Exception):
    """A plugin raised, or answered with something that is no answer; nothing is decided."""

    def __init__(self, plugin: str, problem: str) -> None:
        super().__init__(f"plugin {plugin} failed: {problem}")
        self.plugin = plugin
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
    local_events: frozenset[Event] = frozenset()

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
        """The rows whose verdicts may be others at the basis `now` than `before`, where pods came to or left `rows`.

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

    def filter_with_nominated(self, query: Query, state: State, nominated: NominatedRows) -> Verdicts | None:
        """Returns the verdicts on `nominated.rows`, each as if its own nominated pods, and no others, were on the node.

        For plugins that read pods. None: the pods are moved in the table, node by node, and `filter` is asked.
        """
        return None

    def minds_nominated(self, query: Query, nominated: NominatedRows) -> BoolColumn:
        """bool[nominated.rows]: where the nominated pods may change the verdict, so that they have to be moved."""
        return np.ones(len(nominated.rows), dtype=np.bool_)

    def hint(self, query: Query, state: State, change: Change) -> bool:
        """False: the change, one of those that it wakes on, lets the pod onto no node where the plugin refused it.

        Asked after the change, perhaps after others too: what it says of the cluster as it is now, or of the records
        before and after, is right whenever it is asked. What it looks at is what makes it let a pod pass; True where
        that takes longer than an attempt.
        """
        return True

    def hint_key(self, pod: Pod) -> Hashable:
        """What of a pod its hints hang on: pods of one key get one answer."""
        key = self.static_key(pod)
        whole = pod.signature if key is None else key
        return (whole, pod.priority, pod.preemption_policy) if self.reads_pods else whole

    def hint_marks(self, query: Query, state: State) -> Marks:
        """What changes have to show for `hint` to be True, for as long as the pod is unschedulable (marks.py).

        The hints of pods that wait are asked only about changes that show it. Another change that the plugin said True
        to in between ends what was said here: the pod is tried again then.
        """
        return Marks()

    def admits(self, query: Query, state: State, node: Node) -> bool:
        """False: the plugin refuses the pod on this node as it is now, and pods that leave the node do not change that.

        For a look at one node that costs next to nothing; True where that is not known.
        """
        return True

    def named_nodes(self, pod: Pod) -> frozenset[str] | None:
        """The only nodes that `admits` can be True for, by name; None: any node may be."""
        return None

    def node_marks(self, query: Query, state: State) -> frozenset[Mark] | None:
        """Marks of which a node has one that `admits` is True for; None: any node may be."""
        names = self.named_nodes(query.pod)
        return None if names is None else frozenset((NODE, name, "") for name in names)

    def needed_resources(self, pod: Pod) -> Mapping[str, int] | None:
        """By resource, what a node must have free, once weaker pods have left it, for the plugin to let the pod on it.

        None: it looks at no resources.
        """
        return None

    def fits_without(self, query: Query, state: State, row: int, pods: Sequence[Pod]) -> bool:
        """Whether it may let the pod onto the row, where it refuses it, once these pods are gone from there."""
        verdicts = self.filter(query, state, np.array([row], dtype=np.intp))
        return bool(verdicts.codes[0] == Code.UNSCHEDULABLE)

    def pre_score(self, query: Query, state: State) -> bool:
        return True

    def score(self, query: Query, state: State, rows: Rows) -> Int64Column:
        raise NotImplementedError(f"{self.name} does not score")

    def score_row(self, query: Query, state: State, row: int) -> int:
        """`score` of a single row."""
        return int(self.score(query, state, np.array([row], dtype=np.intp))[0])

    def axes(self, query: Query, state: State) -> Sequence[Axis] | None:
        """The same object as long as nothing but counts changes; None: nodes score each for itself, or not at all."""
        return None

    def score_groups(self, query: Query, state: State, groups: EquivalenceGroups) -> Int64Column:
        """int64[groups.shape]: `score` of the nodes of each group, by `axes`, over all nodes that fit."""
        raise NotImplementedError(f"{self.name} does not score by groups")

    def normalized_groups(self, query: Query, state: State, groups: EquivalenceGroups) -> Sequence[int]:
        """The normalised scores of the inhabited groups, in their order; for plugins that have them without columns.

        Asked after `axes`, of groups by what that said.
        """
        scores: Sequence[int] = self.normalize(
            self.score_groups(query, state, groups).take(list(groups.inhabited))
        ).tolist()
        return scores

    def bounds(self, scores: Int64Column) -> Hashable | None:
        """What of all the scores the normalised ones hang on; None: on each of them.

        A plugin that knows it overrides `scale` beside it, and gives a row the same score whichever rows are asked.
        """
        return None

    def scale(self, scores: Int64Column, bounds: Any) -> Int64Column:
        raise NotImplementedError(f"{self.name} has no bounds")

    def take_failures(self) -> tuple[int, str]:
        """How often it could not judge a node since it was last asked, and what was wrong the last time."""
        return 0, ""

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
