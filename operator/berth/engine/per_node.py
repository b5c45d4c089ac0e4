"""PerNode: base class of plugins that are called for one node at a time, for authors who prefer that to columns.

    class QuietNodes(PerNode):
        def fits(self, pod, node):          True, or False or the reason why not
            return node.labels.get("noise") != "loud" or "node(s) were loud"

        def points(self, pod, node):        0 to 100
            return 100 - node.used["pods"] * 100 // node.allocatable["pods"]

It is a predicate if it has `fits`, a priority if it has `points`, or both. `reads` declares what its answers depend on,
besides the pod's signature and the plugin's arguments. That decides how often it is called:

    ANYTHING    anything: called for every node, at every decision
    PODS        the node without its annotations: for every node once per signature, then for nodes that changed
    LABELS      the node's name, labels, taints, conditions and images: for every node, when one of these changes

A NodeView raises an error for attributes that `reads` does not cover, so no answer stays cached for too long.
"""

from collections.abc import Callable, Iterator, Mapping
from enum import Enum
from types import MappingProxyType
from typing import Any, ClassVar

import numpy as np

from berth.engine.plugin import MAX_SCORE, Dependencies, FilterPlugin, Query, ScorePlugin
from berth.engine.state.columns import grown
from berth.engine.state.node_table import NodeTable
from berth.engine.state.state import State
from berth.engine.verdict import Code, Int64Column, Rows, Verdicts, row_numbers
from berth.model import Pod, Taint


class Reads(Enum):
    """The attributes of a node that the answers of a PerNode depend on."""

    ANYTHING = "anything"
    PODS = "pods"
    LABELS = "labels"


class NodeView:
    """Read-only view of one node. Amounts are millicores of cpu, bytes of memory and ephemeral-storage, else units."""

    __slots__ = ("_node", "_reads", "_row", "_table", "name")

    def __init__(self, table: NodeTable, row: int, reads: Reads = Reads.ANYTHING) -> None:
        self.name = table.name(row)
        node = table.node(self.name)
        assert node is not None, f"row {row} has no node"
        self._node, self._table, self._row, self._reads = node, table, row, reads

    @property
    def labels(self) -> Mapping[str, str]:
        return MappingProxyType(self._node.labels)

    @property
    def taints(self) -> tuple[Taint, ...]:
        return self._node.taints

    @property
    def unschedulable(self) -> bool:
        return self._node.unschedulable

    @property
    def conditions(self) -> Mapping[str, str]:
        """The status of each type of condition: "True", "False" or "Unknown"."""
        return MappingProxyType(self._node.conditions)

    @property
    def images(self) -> Mapping[str, int]:
        """The size of each image on the node in bytes, under each of its names."""
        return MappingProxyType(self._node.images)

    @property
    def annotations(self) -> Mapping[str, str]:
        self._need("annotations", Reads.ANYTHING)
        return MappingProxyType(self._node.annotations)

    @property
    def allocatable(self) -> Mapping[str, int]:
        self._need("allocatable", Reads.PODS, Reads.ANYTHING)
        return Amounts(self._table, self._allocatable)

    @property
    def used(self) -> Mapping[str, int]:
        """What the pods on the node request; "pods" is their number."""
        self._need("used", Reads.PODS, Reads.ANYTHING)
        return Amounts(self._table, self._used)

    @property
    def free(self) -> Mapping[str, int]:
        """What is allocatable and not used; below zero if the node is overcommitted."""
        self._need("free", Reads.PODS, Reads.ANYTHING)
        return Amounts(self._table, lambda name: self._allocatable(name) - self._used(name))

    @property
    def pods(self) -> tuple[Pod, ...]:
        self._need("pods", Reads.PODS, Reads.ANYTHING)
        return tuple(self._table.pods_on(self.name).values())

    def _allocatable(self, name: str) -> int:
        return self._node.allocatable.get(name, 0)

    def _used(self, name: str) -> int:
        return self._table.used_of(name, self._row)

    def _need(self, what: str, *covering: Reads) -> None:
        if self._reads not in covering:
            raise AttributeError(
                f"node.{what} is not to be read by a plugin with reads = {self._reads.name}: "
                f"answers would stay cached that {what} can change; reads = {covering[0].name} covers it"
            )


class Amounts(Mapping[str, int]):
    """Amounts by resource name; 0 for a resource that the node does not have. Iterates over those that any node has."""

    __slots__ = ("_index", "_of")

    def __init__(self, table: NodeTable, of: Callable[[str], int]) -> None:
        self._index, self._of = table.resource_index, of

    def __getitem__(self, name: str) -> int:
        return self._of(name)

    def __contains__(self, name: object) -> bool:
        return bool(name) and name in self._index

    def __iter__(self) -> Iterator[str]:
        return filter(None, self._index)

    def __len__(self) -> int:
        return len(self._index) - 1  # without "", the column for what no node has


_DEPENDENCIES = {
    Reads.PODS: Dependencies(
        version=lambda query, state: state.table.mark,
        affected_rows=lambda query, state, before, now, rows: rows,
    ),
    Reads.LABELS: Dependencies(static_key=lambda pod: pod.signature),
}


class PerNode(FilterPlugin, ScorePlugin):
    reads: ClassVar[Reads] = Reads.ANYTHING
    refusal: ClassVar[str] = ""
    """The reason if `fits` returns just False."""

    def __init_subclass__(cls, **more: Any) -> None:
        super().__init_subclass__(**more)
        cls.filters = cls.fits is not PerNode.fits
        cls.scores = cls.points is not PerNode.points
        if "reads" in vars(cls):
            cls.dependencies = _DEPENDENCIES.get(cls.reads, Dependencies())

    def fits(self, pod: Pod, node: NodeView) -> bool | str:
        """Returns True, or the reason why not."""
        raise NotImplementedError

    def points(self, pod: Pod, node: NodeView) -> int:
        """Returns the score, 0 to 100."""
        raise NotImplementedError

    # --- as columns --------------------------------------------------------------------------------------------------

    def filter(self, query: Query, state: State, rows: Rows) -> Verdicts:
        numbers: dict[str, int] = {"": 0}
        views = self._views(state.table, rows)
        column = np.array([self._cause(self.fits(query.pod, view), view, numbers) for view in views], dtype=np.int64)
        reasons = list(numbers)
        # If the verdict does not depend on pods, preemption cannot help.
        code = Code.UNRESOLVABLE if self.reads is Reads.LABELS else Code.UNSCHEDULABLE
        return Verdicts((column != 0) * np.int8(code), column, lambda cause: (reasons[cause],))

    def _cause(self, answer: object, view: NodeView, numbers: dict[str, int]) -> int:
        """Returns the number of the reason, 0 if the pod fits."""
        if isinstance(answer, bool | np.bool_):
            if answer:
                return 0
            answer = self.refusal or f"node(s) were refused by {self.name}"
        if not isinstance(answer, str) or not answer:
            raise TypeError(f"fits() gave {answer!r} for node {view.name}, not True, False or a reason")
        return numbers.setdefault(answer, len(numbers))

    def score(self, query: Query, state: State, rows: Rows) -> Int64Column:
        if self.reads is not Reads.PODS:
            return self._points(query, state, rows)
        kept = self._kept(query, state)
        numbers = row_numbers(rows)
        unknown = numbers[kept[numbers] < 0]
        kept[unknown] = self._points(query, state, unknown)
        return np.asarray(kept[numbers])

    def _points(self, query: Query, state: State, rows: Rows) -> Int64Column:
        points = [self._checked(self.points(query.pod, view), view) for view in self._views(state.table, rows)]
        return np.array(points, dtype=np.int64)

    def _kept(self, query: Query, state: State) -> Int64Column:
        """Returns int64[all rows]: the cached points of nodes that have not changed since; -1 for other nodes."""
        table, key = state.table, f"{self.name} {id(self)}"
        static, mark, column = query.plan.get(key, (-1, 0, None))
        changed = table.changes_since(mark) if static == table.static_version else None
        if changed is None:
            column = np.full(table.capacity, -1, dtype=np.int64)
        else:
            if len(column) < table.capacity:
                column = grown(column, table.capacity, -1)
            column[changed] = -1
        query.plan[key] = (table.static_version, table.mark, column)
        kept: Int64Column = column
        return kept

    def _checked(self, points: object, view: NodeView) -> int:
        if not isinstance(points, int | np.integer) or isinstance(points, bool) or not 0 <= points <= MAX_SCORE:
            raise TypeError(f"points() gave {points!r} for node {view.name}, not a whole number from 0 to {MAX_SCORE}")
        return int(points)

    def _views(self, table: NodeTable, rows: Rows) -> list[NodeView]:
        reads = self.reads
        return [NodeView(table, row, reads) for row in row_numbers(rows).tolist()]
