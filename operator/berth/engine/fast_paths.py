"""Optional methods of plugins: each returns what the required methods return, only faster.

A plugin overrides one where that pays. The versions here are the slow ones, which every override must agree with; the
contract suite (testing.py) compares them.

    FilterFastPaths
        fits_row                   `filter` of a single row: cached answers are refreshed with it
        filter_with_free           `filter` as if the nodes had other amounts free, for preemption
        filter_with_nominated      `filter` with each row's nominated pods there
        affected_by_nominated      the rows where nominated pods may change the verdict
        fits_without               whether a rejected node may fit once some of its pods are gone
        hint_key                   the part of the pod that hints depend on
        hint_marks                 the marks that a change must have for the hint to be True (queueing/marks.py)
        admits                     False: it rejects the pod on this node, whichever pods leave the node
        named_nodes, node_marks    the nodes for which `admits` can be True
        needed_resources           what must be free on a node for the pod to fit
    ScoreFastPaths
        score_row                  `score` of a single row
        bounds, scale              `normalize` in two steps, so that scores of nodes that did not change stay cached
        score_groups               `score` of groups of nodes that are equal in `dependencies.score_axes`
        normalized_groups          `score_groups`, normalised
"""

from collections.abc import Hashable, Mapping, Sequence
from typing import Any

import numpy as np

from berth.engine.answer_cache.equivalence import EquivalenceGroups
from berth.engine.dependencies import Dependencies
from berth.engine.query import Query
from berth.engine.queueing.marks import NODE, Mark, Marks
from berth.engine.state.amounts import Amounts
from berth.engine.state.nominated_rows import NominatedRows
from berth.engine.state.state import State
from berth.engine.verdict import BoolColumn, Code, Int64Column, Rows, Verdicts
from berth.model import Node, Pod


class FilterFastPaths:
    name: str
    dependencies: Dependencies

    def filter(self, query: Query, state: State, rows: Rows) -> Verdicts:
        raise NotImplementedError(f"{self.name} has no filter()")

    def fits_row(self, query: Query, state: State, row: int) -> bool:
        return bool(self.filter(query, state, np.array([row], dtype=np.intp)).codes[0] == 0)

    def filter_with_free(self, query: Query, free: Amounts, allocatable: Amounts) -> Verdicts:
        """Returns one verdict per node, as if the nodes had this much free: int64[resources, nodes] both.

        Required of plugins that depend on `PodsRead.USAGE`. Preemption calls it for nodes without some of their pods.
        """
        raise NotImplementedError(f"{self.name} reads more of pods than what they use")

    def filter_with_nominated(self, query: Query, state: State, nominated: NominatedRows) -> Verdicts | None:
        """Returns the verdicts on `nominated.rows`, each as if its own nominated pods, and no others, were on the node.

        For plugins that read pods. None: the pods are added to the table, node by node, and `filter` is called.
        """
        return None

    def affected_by_nominated(self, query: Query, nominated: NominatedRows) -> BoolColumn:
        """Returns bool[nominated.rows]: where nominated pods may change the verdict and must be added to the table."""
        return np.ones(len(nominated.rows), dtype=np.bool_)

    def fits_without(self, query: Query, state: State, row: int, pods: Sequence[Pod]) -> bool:
        """Whether the plugin, which rejects the pod on the row, may accept it there once these pods are gone."""
        verdicts = self.filter(query, state, np.array([row], dtype=np.intp))
        return bool(verdicts.codes[0] == Code.UNSCHEDULABLE)

    def hint_key(self, pod: Pod) -> Hashable:
        """Returns the part of the pod that hints depend on: pods with equal keys share one answer."""
        static_key = self.dependencies.static_key
        key = pod.signature if static_key is None else static_key(pod)
        return (key, pod.priority, pod.preemption_policy) if self.dependencies.reads_pods else key

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


class ScoreFastPaths:
    name: str
    dependencies: Dependencies

    def score(self, query: Query, state: State, rows: Rows) -> Int64Column:
        raise NotImplementedError(f"{self.name} has no score()")

    def normalize(self, scores: Int64Column) -> Int64Column:
        raise NotImplementedError

    def score_row(self, query: Query, state: State, row: int) -> int:
        return int(self.score(query, state, np.array([row], dtype=np.intp))[0])

    def bounds(self, scores: Int64Column) -> Hashable | None:
        """Returns what normalisation needs to know of all scores, such as the highest. None: each of them.

        A plugin that overrides it also overrides `scale`, and its score of a row does not depend on the other rows.
        """
        return None

    def scale(self, scores: Int64Column, bounds: Any) -> Int64Column:
        raise NotImplementedError(f"{self.name} has no bounds")

    def score_groups(self, query: Query, state: State, groups: EquivalenceGroups) -> Int64Column:
        """Returns int64[groups.shape]: the `score` of the nodes of each group, where all nodes that fit are scored.

        Required of plugins with `score_axes`, unless they have `normalized_groups`.
        """
        raise NotImplementedError(f"{self.name} does not score by groups")

    def normalized_groups(self, query: Query, state: State, groups: EquivalenceGroups) -> Sequence[int]:
        """Returns the normalised scores of the groups with feasible nodes, in the order of `groups.inhabited`.

        It is called after `score_axes`, with groups made of those.
        """
        scores: Sequence[int] = self.normalize(
            self.score_groups(query, state, groups).take(list(groups.inhabited))
        ).tolist()
        return scores
