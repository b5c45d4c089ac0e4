"""NodeTable: one row per node, with its resources, labels, taints, ports and images as columns.

    allocatable   int64[resources, rows]   cpu in millicores, memory and ephemeral-storage in bytes, the rest in units
    used          int64[resources, rows]   what the pods on the row take; row PODS counts the pods themselves
    free          int64[resources, rows]   allocatable - used
    nonzero       int64[2, rows]           cpu and memory of the pods, with kube-scheduler's scoring defaults (100m,
                                           200Mi) for pods that request none
    floats        some of these as floats, which divide several times faster; valid while `exact` is True
    cells         memoryviews of the same arrays: for a single number, twice as fast as numpy indexing
    taint_sets    int64[rows]              id of the node's set of taints, see `taints_of`
    unschedulable bool[rows]
    counts        how many pods that match a selector are on each row (pod_counts.py)
    terms         the pod affinity terms of the placed pods (affinity_terms.py)
    pods          the placed pods as columns (placed_pods.py)

Invariants:
 1. A row belongs to one node name from its first pod or node until it has neither; then the row is reused.
 2. `used`, `nonzero`, ports, counts and terms are the sums over the pods of the row, whether or not its node is
    known: a pod may be observed before its node, and may outlive it.
 3. Only rows of known nodes are in `rows`; no other row is ever filtered or scored.
 4. `static_version` moves whenever something about nodes changes that is not their pods or allocatable resources, and
    whenever `numbering` does: when a resource gets a column, and when a column is freed.
 5. `changes_since` returns every row whose pods or allocatable resources changed.
 6. A sum above MOST is stored as MOST in its column (amounts.py). `_beyond` has the true sum, so that it is right again
    when pods leave.
 7. While `exact` is True, no amount in a row has ever reached EXACT. So amounts times 100 are exact as floats.
 8. A resource has a column while some node has any of it, up to a maximum number of columns (resources.py). What pods
    use of other resources is in `used_of` only.

Two counters tell caches what changed. `static_version` covers all that rarely changes: caches drop everything then. The
journal of rows (`mark`, `changes_since`) covers pods and allocatable resources: caches recompute those rows only.

One event loop writes the table, and decisions read it without yielding to that loop. So it needs neither locks nor
snapshots.
"""

from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Hashable, Iterator, Mapping, Set
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from berth.engine.state.affinity_terms import CarriedTerms
from berth.engine.state.amounts import MOST
from berth.engine.state.columns import LazyColumns, Stacked, Vocabulary, grown
from berth.engine.state.domains import DomainIndex, Domains
from berth.engine.state.host_ports import PortIndex
from berth.engine.state.images import ImageIndex
from berth.engine.state.node_attributes import Attribute, NodeAttributes, ReadFact
from berth.engine.state.placed_pods import PlacedPods
from berth.engine.state.pod_counts import NamespaceLabels, PodCounts
from berth.engine.state.resources import FIRST_RESOURCES, Renumbering, ResourceNumbers, SparseUsage
from berth.engine.state.taints import TaintSets
from berth.engine.verdict import Int64Column, Rows
from berth.model import Node, Pod, Taint, Toleration

CPU, MEMORY, EPHEMERAL_STORAGE, PODS, NOWHERE = range(5)
EXACT = 2**46
_FIRST_ROWS = 64
_SPARE_VALUES = 64
_JOURNAL = 4096
_KEPT_DERIVED = 16

PREFER_AVOID_PODS = "scheduler.alpha.kubernetes.io/preferAvoidPods"  # the one annotation that a plugin reads


class PodWatcher(Protocol):
    """An index that is updated with every placed pod that has volumes."""

    def add(self, pod: Pod, row: int) -> None: ...

    def discard(self, pod: Pod, row: int) -> None: ...


@dataclass(slots=True)
class Floats:
    """float64 copies of columns of the table, for scores."""

    allocatable: NDArray[np.float64]
    used: NDArray[np.float64]
    nonzero: NDArray[np.float64]


class Cells(NamedTuple):
    """Memoryviews of the columns of these names, indexed by (resource, row)."""

    allocatable: memoryview
    used: memoryview
    free: memoryview
    nonzero: memoryview
    used_float: memoryview
    nonzero_float: memoryview


class _Stacks:
    """The memory of the columns by resource, and of `nonzero`."""

    def __init__(self, resources: int, rows: int) -> None:
        self.allocatable, self.used, self.free = (Stacked(resources, rows) for _ in range(3))
        self.allocatable_float, self.used_float = (Stacked(resources, rows, np.float64) for _ in range(2))
        self.nonzero, self.nonzero_float = Stacked(2, rows), Stacked(2, rows, np.float64)

    def renumber(self, numbering: Renumbering) -> None:
        for stack in (self.allocatable, self.used, self.free, self.allocatable_float, self.used_float):
            stack.drop(numbering.holes, numbering.movers, numbering.left)
            stack.add(len(numbering.added))

    def widen(self, rows: int) -> None:
        for stack in vars(self).values():
            stack.widen(rows)


@dataclass(slots=True)
class _Row:
    """The contents of a row that are not columns."""

    name: str
    node: Node | None = None
    pods: dict[str, Pod] = field(default_factory=dict)


class NodeTable:
    def __init__(
        self, namespace_labels: NamespaceLabels = lambda name: None, volumes: PodWatcher | None = None
    ) -> None:
        self._numbers = ResourceNumbers()
        self.resource_index: Mapping[str, int] = self._numbers.index
        self.numbering = 0
        self._sparse = SparseUsage()
        self._stacks = _Stacks(len(FIRST_RESOURCES), _FIRST_ROWS)
        self._beyond: dict[tuple[str, int, int], int] = {}  # (column, resource, row) -> true sum above MOST
        self._show_columns()
        self.exact = True
        self.taint_sets = np.zeros(_FIRST_ROWS, dtype=np.int64)
        self.unschedulable = np.zeros(_FIRST_ROWS, dtype=np.bool_)
        self.static_version = 0
        self.ports = PortIndex()
        self.counts = PodCounts(self, namespace_labels)
        self.terms = CarriedTerms(self, namespace_labels, self.has_label)
        self.pods = PlacedPods(len(FIRST_RESOURCES))
        self.tried: list[tuple[Pod, int, int]] = []  # tentative moves: pod, row, added (1) or removed (-1)
        self._trials = 0
        self._volumes = volumes
        self._everywhere: dict[int, bool] = {}
        self._derived: dict[Hashable, tuple[Int64Column, int]] = {}
        self._journal: list[int] = []
        self._journal_begins = 0
        self._slots: list[_Row | None] = []
        self._free: list[int] = []
        self._row_of: dict[str, int] = {}
        self._row_of_pod: dict[str, int] = {}
        self._known_rows: set[int] = set()
        self._taints = TaintSets()
        self.keys_version = 0  # moves when the first node gets a label with some key, and when the last one loses it
        self._labelled: Counter[str] = Counter()  # how many nodes have a label of each key
        self._unlabelled = Domains(np.full(_FIRST_ROWS, -1, dtype=np.int64), Vocabulary())
        self._vocabularies: dict[str, Vocabulary] = {}
        self._labels: LazyColumns[str] = LazyColumns(
            self._label_id, on_forget=lambda key: self._vocabularies.pop(key, None)
        )
        self.images = ImageIndex()
        self._facts = NodeAttributes()
        self._domains = DomainIndex(self.label)
        self._rows: Rows | None = None
        self._sorted_names: list[str] | None = None
        self._rows_by_name: NDArray[np.intp] | None = None
        self._name_order: tuple[NDArray[np.intp], NDArray[np.intp]] | None = None

    # --- nodes -------------------------------------------------------------------------------------------------------

    def set_node(self, node: Node) -> None:
        """Adds a node, or replaces it by a new version."""
        row = self._claim(node.name)
        slot = self._slot(row)
        before, slot.node = slot.node, node
        if before is None:
            self._known_rows.add(row)
            self._forget_row_order()
            self._insert_name(node.name, row)
        if before is None or before.allocatable != node.allocatable:
            self._set_allocatable(row, {} if before is None else before.allocatable, node.allocatable)
        self._set_static(row, before, node)
        if self._facts.set_row(row, node):
            self.static_version += 1

    def remove_node(self, name: str) -> None:
        row = self._row_of.get(name)
        node = None if row is None else self._slot(row).node
        if row is None or node is None:
            return
        self._slot(row).node = None
        self.images.replace(row, node.images, {})
        self._known_rows.discard(row)
        self._forget_row_order()
        self._remove_name(name)
        self._set_allocatable(row, node.allocatable, {})
        self._taints.release(int(self.taint_sets[row]))
        self.taint_sets[row] = 0
        self.unschedulable[row] = False
        self._relabel(row, node.labels, {})
        self._labels.set_row(row, None)
        self._facts.set_row(row, None)
        self.static_version += 1
        self._release_if_empty(row)

    def node(self, name: str) -> Node | None:
        row = self._row_of.get(name)
        return None if row is None else self._slot(row).node

    def nodes(self) -> Iterator[Node]:
        return (node for _, node in self._numbered_nodes())

    def __len__(self) -> int:
        return len(self._known_rows)

    # --- pods --------------------------------------------------------------------------------------------------------

    def add_pod(self, pod: Pod, node_name: str) -> None:
        """Adds a pod to a node, which need not be known yet."""
        if pod.uid in self._row_of_pod:
            raise ValueError(f"pod {pod.namespace}/{pod.name} ({pod.uid}) is in the table already")
        row = self._claim(node_name)
        self._slot(row).pods[pod.uid] = pod
        self._row_of_pod[pod.uid] = row
        self._account(pod, row, 1)
        if self._trials:
            self.tried.append((pod, row, 1))

    def remove_pod(self, uid: str) -> None:
        """Removes a pod and frees what it used; no error if it is not in the table."""
        row = self._row_of_pod.pop(uid, None)
        if row is not None:
            pods = self._slot(row).pods
            pod = pods.pop(uid)
            if not pods:
                pods.clear()  # frees the memory of the dict, which only grows otherwise
            self._account(pod, row, -1)
            if self._trials:
                self.tried.append((pod, row, -1))
            else:
                self._sparse.trim()
                if self.pods.are_mostly_gone:
                    self.compact()
            self._release_if_empty(row)

    @contextmanager
    def trying(self) -> Iterator[None]:
        """Records pods that are added or removed in the block in `tried`. The caller must restore them itself."""
        self._trials += 1
        try:
            yield
        finally:
            self._trials -= 1
            if not self._trials:
                self.tried.clear()

    def names(self) -> list[str]:
        """Returns the names of known nodes, and of unknown ones that have pods."""
        return list(self._row_of)

    def placed(self, uid: str) -> tuple[Pod, str] | None:
        """Returns the pod of this UID and the name of its node; None if it is on none."""
        row = self._row_of_pod.get(uid)
        if row is None:
            return None
        slot = self._slot(row)
        return slot.pods[uid], slot.name

    def pods_on(self, name: str) -> Mapping[str, Pod]:
        row = self._row_of.get(name)
        return {} if row is None else self._slot(row).pods

    # --- columns -----------------------------------------------------------------------------------------------------

    @property
    def rows(self) -> Rows:
        """The rows of all known nodes, ascending; a slice if there are no gaps, as slicing does not copy columns."""
        if self._rows is None:
            count = len(self._known_rows)
            dense = count == len(self._slots)
            self._rows = slice(0, count) if dense else np.fromiter(sorted(self._known_rows), np.intp, count)
        return self._rows

    @property
    def rows_by_name(self) -> NDArray[np.intp]:
        """intp[nodes]: the rows of all known nodes sorted by name, so that the order does not depend on history."""
        if self._rows_by_name is None:
            names = self.sorted_names
            self._rows_by_name = np.fromiter((self._row_of[name] for name in names), np.intp, len(names))
        return self._rows_by_name

    @property
    def sorted_names(self) -> list[str]:
        """The names of all known nodes, sorted; parallel to `rows_by_name`."""
        if self._sorted_names is None:
            self._sorted_names = sorted(self._slot(row).name for row in self._known_rows)
        return self._sorted_names

    @property
    def name_order(self) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
        """The positions in `rows` sorted by node name, and the inverse: for each position, its index in that order."""
        if self._name_order is None:
            by_name, rows = self.rows_by_name, self.rows
            order = by_name if isinstance(rows, slice) else np.searchsorted(rows, by_name)
            place = np.empty_like(order)
            place[order] = np.arange(len(order))
            self._name_order = order, place
        return self._name_order

    @property
    def capacity(self) -> int:
        """The length of the columns."""
        return len(self.taint_sets)

    @property
    def span(self) -> int:
        """The number of rows that have ever been in use; no row beyond is."""
        return len(self._slots)

    def row(self, name: str) -> int | None:
        """Returns the row of a known node; None if the node is not known."""
        row = self._row_of.get(name)
        return row if row in self._known_rows else None

    def name(self, row: int) -> str:
        return self._slot(row).name

    def known_resource(self, name: str) -> int:
        """Returns the index of a resource in `allocatable` and `used`; NOWHERE, a column of zeros, if no node has any.

        It is valid until `numbering` moves, which never happens during a decision.
        """
        return self.resource_index.get(name, NOWHERE)

    @property
    def saturated_rows(self) -> NDArray[np.intp]:
        """The rows whose pods use more of some resource than MOST, in no particular order."""
        rows = {row for column, _, row in self._beyond if column == "used"}
        return np.fromiter(rows, np.intp, len(rows))

    def exactly_free(self, resource: int, row: int) -> int:
        """Returns `free`, computed from the true sum if `used` is cut off at MOST."""
        beyond = self._beyond.get(("used", resource, row))
        if beyond is None:
            return self.cells.free[resource, row]
        return self.cells.allocatable[resource, row] - beyond

    def used_of(self, name: str, row: int) -> int:
        """Returns what the pods on the row use of a resource, whether or not it has a column."""
        index = self.resource_index.get(name)
        return self._sparse.of(name).get(row, 0) if index is None else self.used.item(index, row)

    def used_column(self, name: str) -> Int64Column:
        """Returns int64[all rows]: the same for all rows; read-only."""
        index = self.resource_index.get(name)
        if index is not None:
            column: Int64Column = self.used[index]
            return column
        column = np.zeros(self.capacity, dtype=np.int64)
        for row, total in self._sparse.of(name).items():
            column[row] = min(total, MOST)
        return column

    @property
    def resources_left_out(self) -> int:
        """The number of nodes' resources without a column, because of the limit. They count as if no node had them."""
        return len(self._numbers.left_out)

    def is_everywhere(self, resource: int) -> bool:
        """Whether every known node has some of the resource with this index."""
        if resource not in self._everywhere:
            self._everywhere[resource] = bool(self.allocatable[resource, self.rows].min(initial=1) > 0)
        return self._everywhere[resource]

    def label(self, key: str) -> tuple[Int64Column, Vocabulary]:
        """Returns int64[all rows]: the ids of the nodes' values of a label (-1: no such label), and their vocabulary.

        Keys that no node has share one column, because pods may name any number of them.
        """
        if key not in self._labelled:
            return self._unlabelled.ids, self._unlabelled.vocabulary
        vocabulary = self._vocabularies.get(key)
        if vocabulary is None or len(vocabulary.ids) > 2 * len(self) + _SPARE_VALUES:
            self._labels.forget(key)  # new, or mostly values that only removed nodes had
            vocabulary = self._vocabularies[key] = Vocabulary()
        return self._labels.column(key, self._numbered_nodes(), self.capacity), vocabulary

    def domains(self, key: str) -> Domains:
        """Returns the topology domains of a label (domains.py)."""
        if key not in self._labelled:
            return self._unlabelled
        return self._domains.of(key, (self.static_version, self.capacity))

    def is_label(self, key: str) -> bool:
        """Whether any node has a label with this key."""
        return key in self._labelled

    def has_label(self, row: int, key: str) -> bool:
        """Whether the row has a known node, and the node has a label with this key."""
        node = self._slot(row).node
        return node is not None and key in node.labels

    def fact(self, name: str, read: ReadFact) -> Attribute:
        """Returns the column of an attribute: `read(node)` for every node. A name always has the same function."""
        return self._facts.fact(name, read, self._numbered_nodes(), self.capacity)

    @property
    def taints_of(self) -> list[tuple[Taint, ...]]:
        """The distinct sets of taints by id; an unused id has no taints."""
        return self._taints.values

    def untolerated(self, tolerations: tuple[Toleration, ...], effects: tuple[str, ...]) -> Int64Column:
        """Returns int64[taint sets]: the number of taints with these effects that no toleration tolerates."""
        return self._taints.untolerated(tolerations, effects)

    def derived(
        self, key: Hashable, compute: Callable[[Rows], Int64Column], compute_row: Callable[[int], int]
    ) -> Int64Column:
        """Returns int64[all rows]: what `compute` computes from each row's resources and pods.

        The column is cached under the key; `compute_row` refreshes the rows that changed since.
        """
        cached = self._derived.get(key)
        changed = None if cached is None or len(cached[0]) < self.capacity else self.changes_since(cached[1])
        if cached is None or changed is None:
            column = compute(slice(0, self.capacity))
            while len(self._derived) >= _KEPT_DERIVED:
                del self._derived[next(iter(self._derived))]
        else:
            column = cached[0]
            for row in set(changed):
                column[row] = compute_row(row)
        self._derived[key] = (column, self.mark)
        return column

    @property
    def mark(self) -> int:
        """The current end of the journal of changed rows, for `changes_since`."""
        return self._journal_begins + len(self._journal)

    def changes_since(self, mark: int) -> list[int] | None:
        """Returns the rows whose pods or allocatable resources changed since `mark`, with repetitions.

        None: the journal no longer reaches back that far.
        """
        return None if mark < self._journal_begins else self._journal[mark - self._journal_begins :]

    def statistics(self) -> dict[str, int]:
        return {
            "nodes": len(self),
            "pods": len(self._row_of_pod),
            "slots": len(self._slots),
            "resources": len(self.resource_index),
            "resources_without_column": len(self._sparse),
            "resources_left_out": self.resources_left_out,
            "saturated_sums": len(self._beyond),
            "label_columns": len(self._labels),
            "label_keys": len(self._labelled),
            "images": len(self.images),
            "taint_sets": len(self._taints),
            "facts": len(self._facts),
            **self.counts.statistics(),
            **self.terms.statistics(),
        }

    # --- internals ---------------------------------------------------------------------------------------------------

    def _slot(self, row: int) -> _Row:
        slot = self._slots[row]
        assert slot is not None, f"row {row} is not in use"
        return slot

    def _numbered_nodes(self) -> Iterator[tuple[int, Node]]:
        for row, slot in enumerate(self._slots):
            if slot is not None and slot.node is not None:
                yield row, slot.node

    def _claim(self, name: str) -> int:
        row = self._row_of.get(name)
        if row is None:
            row = self._free.pop() if self._free else self._new_slot()
            self._slots[row] = _Row(name)
            self._row_of[name] = row
        return row

    def _new_slot(self) -> int:
        self._slots.append(None)
        self._rows = None
        if len(self._slots) > self.capacity:
            self._grow(self.capacity * 2)
        return len(self._slots) - 1

    def _grow(self, rows: int) -> None:
        self._stacks.widen(rows)
        self._show_columns()
        self.taint_sets = grown(self.taint_sets, rows)
        self.unschedulable = np.concatenate([self.unschedulable, np.zeros(rows - len(self.unschedulable), np.bool_)])
        self._labels.grow(rows)
        self._unlabelled = Domains(grown(self._unlabelled.ids, rows, -1), self._unlabelled.vocabulary)
        self._facts.grow(rows)

    def _release_if_empty(self, row: int) -> None:
        slot = self._slot(row)
        if slot.node is None and not slot.pods:
            del self._row_of[slot.name]
            if row == len(self._slots) - 1:  # without a gap at the end rows stay a slice
                self._slots.pop()
            else:
                self._slots[row] = None
                self._free.append(row)
            self._rows = None

    def compact(self) -> None:
        """Frees the memory of removed pods: dicts and columns do not shrink by themselves."""
        self.pods.compact()
        self.counts.compact()
        self.terms.compact()
        self._row_of_pod = dict(self._row_of_pod)

    def _forget_row_order(self) -> None:
        self._rows = self._name_order = None

    def _insert_name(self, name: str, row: int) -> None:
        """Updates the order of names, if it is known: sorting all names again takes milliseconds at 5,000 nodes."""
        if self._sorted_names is None:
            return
        names = self._sorted_names
        place = bisect_left(names, name)
        self._sorted_names = [*names[:place], name, *names[place:]]  # others may be reading the old list
        if self._rows_by_name is not None:
            self._rows_by_name = np.insert(self._rows_by_name, place, row)

    def _remove_name(self, name: str) -> None:
        if self._sorted_names is None:
            return
        names = self._sorted_names
        place = bisect_left(names, name)
        self._sorted_names = [*names[:place], *names[place + 1 :]]
        if self._rows_by_name is not None:
            self._rows_by_name = np.delete(self._rows_by_name, place)

    def _set_allocatable(self, row: int, before: Mapping[str, int], amounts: Mapping[str, int]) -> None:
        numbering = self._numbers.replace(before, amounts)
        if numbering is not None:
            self._renumber(numbering)
        self._everywhere.clear()
        self.allocatable[:, row] = 0
        for name, amount in amounts.items():
            self._set_amount(name, row, amount)
        self.floats.allocatable[:, row] = self.allocatable[:, row]
        self.free[:, row] = self.allocatable[:, row] - self.used[:, row]
        self._note(row)

    def _set_amount(self, name: str, row: int, amount: int) -> None:
        index = self.resource_index.get(name)
        if index is not None:
            self.allocatable[index, row] = amount
            self.exact &= amount < EXACT

    def _renumber(self, numbering: Renumbering) -> None:
        """Frees and adds columns of resources. Pods' usage moves to `_sparse` from freed ones, back for new ones."""
        for name, index in numbering.dropped.items():
            self._sparse.put(name, self._sums(index))
        self._move_beyond(numbering)
        self._stacks.renumber(numbering)
        self._show_columns()
        holding: set[int] = set()
        for index, name in enumerate(numbering.added, numbering.left):
            holding |= self._fill(index, self._sparse.take(name))
        self._sparse.trim()
        self.pods.renumber(numbering, (pod for row in holding for pod in self._slot(row).pods.values()))
        self._fill_allocatable(set(numbering.late))
        self._everywhere.clear()
        self._derived.clear()
        self.numbering += 1
        self.static_version += 1

    def _sums(self, index: int) -> dict[int, int]:
        """Returns what pods use of a resource, by row; true sums, also above MOST."""
        rows = np.flatnonzero(self.used[index])
        sums = dict(zip(rows.tolist(), self.used[index, rows].tolist(), strict=True))
        return {row: self._beyond.get(("used", index, row), total) for row, total in sums.items()} if sums else sums

    def _move_beyond(self, numbering: Renumbering) -> None:
        if not self._beyond or not numbering.dropped:
            return
        gone, now = set(numbering.dropped.values()), dict(zip(numbering.movers, numbering.holes, strict=True))
        self._beyond = {
            (column, now.get(index, index) if column == "used" else index, row): total
            for (column, index, row), total in self._beyond.items()
            if column != "used" or index not in gone
        }

    def _fill(self, index: int, sums: Mapping[int, int]) -> set[int]:
        """Writes the usage of pods into a new column, and returns the rows that have any."""
        for row, total in sums.items():
            at, shown = (index, row), self._confine("used", index, row, total, 0)
            self.used[at] = self.floats.used[at] = shown
            self.free[at] = -shown
        return set(sums)

    def _fill_allocatable(self, names: Set[str]) -> None:
        """Fills in resources that nodes have had for longer, but for which there was no free column before."""
        for row, node in self._numbered_nodes() if names else ():
            for name in node.allocatable.keys() & names:
                at = self.resource_index[name], row
                self._set_amount(name, row, node.allocatable[name])
                self.floats.allocatable[at] = self.allocatable[at]
                self.free[at] = self.allocatable[at] - self.used[at]

    def _show_columns(self) -> None:
        """Renews the views of the columns, after arrays were reallocated or columns added or freed."""
        stacks = self._stacks
        self.allocatable: NDArray[np.int64] = stacks.allocatable.shown
        self.used: NDArray[np.int64] = stacks.used.shown
        self.free: NDArray[np.int64] = stacks.free.shown
        self.nonzero: NDArray[np.int64] = stacks.nonzero.shown
        self.floats = Floats(stacks.allocatable_float.shown, stacks.used_float.shown, stacks.nonzero_float.shown)
        columns = (self.allocatable, self.used, self.free, self.nonzero, self.floats.used, self.floats.nonzero)
        self.cells = Cells(*(column.data for column in columns))

    def _set_static(self, row: int, before: Node | None, node: Node) -> None:
        if before is not None and _same_static(before, node):
            return
        self.static_version += 1
        self.unschedulable[row] = node.unschedulable
        if before is None or before.taints != node.taints:
            self._taints.release(int(self.taint_sets[row]))
            self.taint_sets[row] = self._taints.use(node.taints)
        if before is None or before.labels != node.labels:
            self._relabel(row, {} if before is None else before.labels, node.labels)
            self._labels.set_row(row, node)
        if before is None or before.images != node.images:
            self.images.replace(row, before.images if before is not None else {}, node.images)

    def _relabel(self, row: int, before: Mapping[str, str], after: Mapping[str, str]) -> None:
        """Updates everything that depends on which label keys the row's node has; {} for a node that is not known."""
        gained, lost = after.keys() - before.keys(), before.keys() - after.keys()
        known = len(self._labelled)
        self._labelled.update(gained)
        self.keys_version += len(self._labelled) - known
        for key in lost:
            self._labelled[key] -= 1
            if not self._labelled[key]:
                del self._labelled[key]
                self._labels.forget(key)
                self.keys_version += 1
        self.terms.relabel(row, self._slot(row).pods.values(), gained, lost)

    def _label_id(self, node: Node, key: str) -> int:
        value = node.labels.get(key)
        return -1 if value is None else self._vocabularies[key].intern(value)

    def _account(self, pod: Pod, row: int, sign: int) -> None:
        """Adds (1) or subtracts (-1) a pod in all columns and indexes. It is the hottest write path: it uses cells."""
        usage, numbers = {PODS: 1}, self.resource_index
        for name, amount in pod.usage.items():
            number = numbers.get(name)
            if number is not None:
                usage[number] = amount
        if len(usage) <= len(pod.usage):
            self._sparse.move(pod.usage, numbers, row, sign)
        allocatable, used, free, nonzero, used_float, nonzero_float = self.cells
        beyond = self._beyond
        for index, amount in usage.items():
            at = index, row
            total = used[at] + sign * amount
            if total >= EXACT or beyond:
                total = self._confine("used", index, row, total, sign * amount)
            used[at] = used_float[at] = total
            free[at] = allocatable[at] - total
        for index, amount in enumerate(pod.usage_nonzero):
            at = index, row
            total = nonzero[at] + sign * amount
            if total >= EXACT or beyond:
                total = self._confine("nonzero", index, row, total, sign * amount)
            nonzero[at] = nonzero_float[at] = total
        if sign > 0:
            self.pods.add(pod, row, usage)
            self.counts.add(pod, row)
        else:
            self.pods.remove(pod.uid)
            self.counts.discard(pod, row)
        for port in pod.host_ports:
            (self.ports.add if sign > 0 else self.ports.discard)(port, row)
        self.terms.move(pod, row, sign)
        if pod.volumes and self._volumes is not None:
            (self._volumes.add if sign > 0 else self._volumes.discard)(pod, row)
        self._note(row)

    def _confine(self, column: str, index: int, row: int, total: int, change: int) -> int:
        """Returns the value for the column: the sum, or MOST if it is larger. The true sum goes to `_beyond` then.

        A few pods that each request the maximum are enough to overflow 64 bits.
        """
        key = (column, index, row)
        if key in self._beyond:
            total = self._beyond.pop(key) + change
        if total >= EXACT:
            self.exact = False
        if total <= MOST:
            return total
        self._beyond[key] = total
        return MOST

    def _note(self, row: int) -> None:
        self._journal.append(row)
        if len(self._journal) > _JOURNAL:
            self._journal_begins += _JOURNAL // 2
            del self._journal[: _JOURNAL // 2]


def _same_static(a: Node, b: Node) -> bool:
    return (
        a.labels == b.labels
        and a.taints == b.taints
        and a.unschedulable == b.unschedulable
        and a.images == b.images
        and a.declared_features == b.declared_features
        and a.conditions == b.conditions
        and a.annotations.get(PREFER_AVOID_PODS) == b.annotations.get(PREFER_AVOID_PODS)
    )
