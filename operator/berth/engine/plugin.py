"""The plugin contract: one call answers for many nodes, with a column of verdicts or scores.

A plugin is constructed from its arguments. It keeps no state between decisions, changes nothing that it is given, and
returns equal answers for equal input. It never raises for "does not fit".

    pre_filter(query, state)        PreFilter: skip Filter, reject the pod on all nodes, or name the only nodes
    filter(query, state, rows)      Filter: a verdict for each row
    filter_with_free(...)           the same with other amounts free, for plugins with `reads_only_usage`
    filter_with_nominated(...)      the same with each row's nominated pods there, for plugins that read pods
    pre_score(query, state)         PreScore; False: skip Score, every node scores 0
    score(query, state, rows)       Score: a number for each row, any scale
    normalize(scores)               NormalizeScore: the same on 0..100, over the feasible nodes
    hint(query, state, change)      queueing hint: can the change make the pod fit on a node that the plugin rejected?
    hint_marks(query, state)        the marks that a change must have for the hint to be True (queueing/marks.py)
    admits(query, state, node)      False: it rejects the pod on this node, whichever pods leave the node
    node_marks(query, state)        the marks that a node must have for `admits` to be True

What its answers depend on decides how long they stay cached (answer_cache/cache.py):

    static_key    the part of the pod that the answers depend on, if all else that they depend on is counted by
                  `table.static_version` (labels, taints, images, conditions and spec of nodes). The next pod with an
                  equal key gets the cached answers
    node_local    the answer for a node depends only on that node and its pods (and on objects that are neither pods
                  nor nodes). Other nodes do not matter
    basis         a value for everything else that the answers depend on, besides the pod's signature. While it stays
                  equal, cached answers are valid for the next pod of that signature: all of them, or, if node_local,
                  those for nodes that did not change. None: never reuse. NOTHING_ELSE: they depend on nothing else
                  until an object that is neither pod nor node changes, or the affinity terms of placed pods do
    axes          the few properties (label values, pod counts) that decide a node's score. Nodes that are equal in
                  them are scored once, as one group (answer_cache/equivalence.py)
    reach         the rows whose verdicts a change on other rows affects, for filters that are not node_local
    reads_pods    the verdict on a node depends on pods. If the plugin is also node_local, a pod that leaves a node
                  never makes it reject a node that it accepted
    reads_only_usage    of the pods on a node the verdict depends only on the resources that they use; then there is
                  `filter_with_free`, and preemption needs no trial moves for it
    watched       the nodes whose own pods can change the verdict on them, if the plugin knows
    local_events  the events of `wakes_on` that change the verdict on the node of the event only. Such an event makes
                  no pod schedulable that another plugin still rejects on that node

`wakes_on` are the events that can make a rejected pod schedulable (kube-scheduler's EventsToRegister).

Reserve, Permit, PreBind and PostBind are another contract (binding_points.py).

For nominated pods and preemption, pods are moved tentatively in the table and filters are called again. So a filter
reads the table in every call. What it prepares for one decision belongs in `query.memo`, which such a move clears.
"""

from collections.abc import Hashable, Mapping, Sequence
from typing import Any, ClassVar, Final

import numpy as np

from berth.engine.answer_cache.equivalence import Axis, EquivalenceGroups
from berth.engine.events import Change, Event
from berth.engine.queueing.marks import NODE, Mark, Marks
from berth.engine.state.amounts import Amounts
from berth.engine.state.node_table import NodeTable
from berth.engine.state.nominated_rows import NominatedRows
from berth.engine.state.state import State
from berth.engine.verdict import PROCEED, BoolColumn, Code, Int64Column, PreFilter, Rows, Verdicts
from berth.model import Node, Pod

MAX_SCORE = 100
NOTHING_ELSE: Final[Hashable] = object()


class BadArgument(ValueError):
    """An argument of a plugin is invalid; `field` is its path inside the arguments, "" for all of them."""

    def __init__(self, field: str, problem: str) -> None:
        super().__init__(f"{field}: {problem}" if field else problem)
        self.field = field
        self.problem = problem


class PluginFailed(Exception):
    """A plugin raised or returned something invalid. The attempt ends without a decision."""

    def __init__(self, plugin: str, problem: str) -> None:
        super().__init__(f"plugin {plugin} failed: {problem}")
        self.plugin = plugin
        self.problem = problem


class Query:
    """A pod in the terms of the node table; `requests` are (index of the resource, amount, name).

    Plugins store under their names what they prepare. `memo` is for one decision: what they computed from the state.
    `plan` lives as long as the query: what they computed from the pod, or from more, together with the versions that
    tell whether it is still valid.
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
    reads_only_usage: ClassVar[bool] = False
    wakes_on: frozenset[Event] = frozenset()
    local_events: frozenset[Event] = frozenset()

    def __init__(self, args: Mapping[str, Any]) -> None:
        """Reads the arguments, or raises BadArgument."""
        refuse_unknown(args)

    def concerns(self, pod: Pod) -> bool:
        """False: the plugin never rejects or scores a pod like this, whatever the state is, and is not called."""
        return True

    def static_key(self, pod: Pod) -> Hashable | None:
        """Returns the part of the pod that the answers depend on. None: they depend on more than nodes and the pod."""
        return None

    def basis(self, query: Query, state: State) -> Hashable | None:
        """Returns a value that stays equal while cached answers are valid (see above). None: never reuse them."""
        return None

    def filter_basis(self, query: Query, state: State) -> Hashable | None:
        """`basis` of the verdicts alone, for plugins whose verdicts and scores depend on different things."""
        return self.basis(query, state)

    def score_basis(self, query: Query, state: State) -> Hashable | None:
        """`basis` of the scores alone."""
        return self.basis(query, state)

    def watched(self, query: Query, state: State) -> BoolColumn | None:
        """Returns bool[all rows]. Other nodes keep their verdict whichever of their pods leave. None: not known."""
        return None

    def reach(
        self, query: Query, state: State, before: Hashable, now: Hashable, rows: Sequence[int]
    ) -> Sequence[int] | None:
        """Returns the rows whose verdicts may differ between the bases `before` and `now`. None: any row.

        Pods were added to or removed from `rows` in between. For plugins that are not node_local.
        """
        return None

    def pre_filter(self, query: Query, state: State) -> PreFilter:
        return PROCEED

    def filter(self, query: Query, state: State, rows: Rows) -> Verdicts:
        raise NotImplementedError(f"{self.name} is not a filter")

    def fits_row(self, query: Query, state: State, row: int) -> bool:
        """`filter` for a single row. Plugins override it where that is faster: cached answers are refreshed with it."""
        return bool(self.filter(query, state, np.array([row], dtype=np.intp)).codes[0] == 0)

    def filter_with_free(self, query: Query, free: Amounts, allocatable: Amounts) -> Verdicts:
        """Returns one verdict per node, as if the nodes had this much free: int64[resources, nodes] both.

        For plugins with `reads_only_usage`. Preemption calls it for nodes without some of their pods.
        """
        raise NotImplementedError(f"{self.name} reads more of pods than what they use")

    def filter_with_nominated(self, query: Query, state: State, nominated: NominatedRows) -> Verdicts | None:
        """Returns the verdicts on `nominated.rows`, each as if its own nominated pods, and no others, were on the node.

        For plugins that read pods. None: the pods are added to the table, node by node, and `filter` is called.
        """
        return None

    def minds_nominated(self, query: Query, nominated: NominatedRows) -> BoolColumn:
        """Returns bool[nominated.rows]: where nominated pods may change the verdict and must be added to the table."""
        return np.ones(len(nominated.rows), dtype=np.bool_)

    def hint(self, query: Query, state: State, change: Change) -> bool:
        """Queueing hint. False: the change makes the pod fit on no node that the plugin rejected.

        The change is one of `wakes_on`. The call comes after it, and possibly after later changes. So the hint may
        read the state as it is now, and the object before and after the change. If the check would cost more than a
        scheduling attempt, it returns True.
        """
        return True

    def hint_key(self, pod: Pod) -> Hashable:
        """Returns the part of the pod that hints depend on: pods with equal keys share one answer."""
        key = self.static_key(pod)
        whole = pod.signature if key is None else key
        return (whole, pod.priority, pod.preemption_policy) if self.reads_pods else whole

    def hint_marks(self, query: Query, state: State) -> Marks:
        """Returns the marks that a change must have for `hint` to be True (queueing/marks.py).

        They hold while the pod is unschedulable: `hint` is called only for changes with one of the marks. When a hint
        returns True, the pod is tried again, and after that attempt its marks are computed anew.
        """
        return Marks()

    def admits(self, query: Query, state: State, node: Node) -> bool:
        """False: the plugin rejects the pod on this node, and pods that leave the node do not change that.

        It must be very cheap; True if the answer is not known.
        """
        return True

    def named_nodes(self, pod: Pod) -> frozenset[str] | None:
        """Returns the names of the only nodes for which `admits` can be True. None: any node."""
        return None

    def node_marks(self, query: Query, state: State) -> frozenset[Mark] | None:
        """Returns marks: a node for which `admits` is True has one of them. None: any node."""
        names = self.named_nodes(query.pod)
        return None if names is None else frozenset((NODE, name, "") for name in names)

    def needed_resources(self, pod: Pod) -> Mapping[str, int] | None:
        """Returns, by resource, what must be free on a node without its pods of lower priority for the pod to fit.

        None: the plugin does not look at resources.
        """
        return None

    def fits_without(self, query: Query, state: State, row: int, pods: Sequence[Pod]) -> bool:
        """Whether the plugin, which rejects the pod on the row, may accept it there once these pods are gone."""
        verdicts = self.filter(query, state, np.array([row], dtype=np.intp))
        return bool(verdicts.codes[0] == Code.UNSCHEDULABLE)

    def pre_score(self, query: Query, state: State) -> bool:
        return True

    def score(self, query: Query, state: State, rows: Rows) -> Int64Column:
        raise NotImplementedError(f"{self.name} does not score")

    def score_row(self, query: Query, state: State, row: int) -> int:
        """`score` for a single row."""
        return int(self.score(query, state, np.array([row], dtype=np.intp))[0])

    def axes(self, query: Query, state: State) -> Sequence[Axis] | None:
        """Returns the properties that decide a node's score. None: they are too many, or the plugin skips the pod.

        Returns the same object while nothing but pod counts changes: the cache compares by identity.
        """
        return None

    def score_groups(self, query: Query, state: State, groups: EquivalenceGroups) -> Int64Column:
        """Returns int64[groups.shape]: the `score` of the nodes of each group, where all nodes that fit are scored."""
        raise NotImplementedError(f"{self.name} does not score by groups")

    def normalized_groups(self, query: Query, state: State, groups: EquivalenceGroups) -> Sequence[int]:
        """Returns the normalised scores of the groups with feasible nodes, in the order of `groups.inhabited`.

        Plugins override it where that is faster without columns. It is called after `axes`, with groups made of those.
        """
        scores: Sequence[int] = self.normalize(
            self.score_groups(query, state, groups).take(list(groups.inhabited))
        ).tolist()
        return scores

    def bounds(self, scores: Int64Column) -> Hashable | None:
        """Returns what normalisation needs to know of all scores, such as the highest. None: each of them.

        A plugin that overrides it also overrides `scale`, and its score of a row does not depend on the other rows.
        """
        return None

    def scale(self, scores: Int64Column, bounds: Any) -> Int64Column:
        raise NotImplementedError(f"{self.name} has no bounds")

    def take_failures(self) -> tuple[int, str]:
        """Returns how often the plugin could not judge a node since the last call, and the last error."""
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
    """Scales scores to 0..100 as kube-scheduler's DefaultNormalizeScore does: integer division by the highest."""
    if highest == 0:
        return np.full_like(scores, MAX_SCORE) if reverse else scores
    scaled = MAX_SCORE * scores // highest
    return MAX_SCORE - scaled if reverse else scaled
