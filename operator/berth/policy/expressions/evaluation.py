"""Answers of an expression for all nodes, evaluated once a distinct input.

    reads of a node              evaluated                                       cached
    nothing                      once a pod's input
    labels, taints, conditions   once a group of nodes alike in them             until `static_version` moves
    resources                    once a node's group and amounts                 for rows whose pods did not change

An answer is an int64: the result of the expression (true is 1), or -1 - n for the n-th of `failures`. Results are also
cached by input, so that only new inputs cost an evaluation.

Inputs beyond a budget are not evaluated but fail: the bound on the cost of each is added up in the order of the groups
(or of the rows, where resources are read), which depends only on the nodes. So the answer for a node is the same
whichever rows are evaluated and whatever was evaluated before.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable, Iterable
from typing import Any, Final

import numpy as np

from berth.engine.state.amounts import total
from berth.engine.state.node_table import NodeTable
from berth.engine.state.nominated_rows import NominatedRows
from berth.engine.verdict import BoolColumn, Int64Column, Rows, row_count, row_numbers
from berth.model import Pod
from berth.policy.expressions.fields import FIELDS, LONGEST_ANNOTATION, FieldKind, pairs, read_pod, records
from berth.policy.expressions.inputs import NodeGroups, annotation_lengths, node_parts, reads_resources
from berth.policy.expressions.language import MAX_COST, EvaluationFailed, Program
from berth.policy.expressions.reads import PARAMETERS

BUDGET: Final = 5_000_000
"""What one expression may cost in one decision, about half a second."""

LASTING_BUDGET: Final = 10_000_000
"""The same for one that reads neither the pod nor resources: what it gives is remembered for all pods."""

OVER_BUDGET: Final = "not evaluated: there are too many different nodes for an expression as costly as this one"
TOO_LARGE: Final = "not evaluated: the node or the pod has too many entries for an expression as costly as this one"
_MOST_REMEMBERED: Final = 100_000
_CHARS_PER_REMEMBERED: Final = 256  # of annotations: long ones count for more
_MOST_FAILURES: Final = 500
_KEPT_COLUMNS: Final = 16
_FEW_ROWS: Final = 24

Sizes = tuple[tuple[str, int], ...]
"""The entries of fields that are read whole."""


class Evaluation:
    def __init__(self, program: Program, highest: int) -> None:
        """`highest`: integers are cut to 0..highest."""
        self._program, self._highest = program, highest
        self._pod_fields = program.reads.of("pod")
        whole = program.reads.whole.intersection(self._pod_fields)
        self._sized = sorted(f for f in whole if FIELDS[f].kind not in (FieldKind.TEXT, FieldKind.INTEGER))
        self._has_sizes = not program.reads.whole <= {PARAMETERS}
        self._constant_for: Pod | None = None
        self._constant: dict[str, Any] = {}
        self._parts = node_parts(program.reads)
        self.by_row = reads_resources(program.reads)
        self.failures: list[str] = []
        self._groups: NodeGroups | None = None
        self._columns: OrderedDict[Hashable, tuple[Int64Column, int]] = OrderedDict()
        self._budgets: dict[Hashable, BoolColumn | None] = {}
        self._costs: dict[Hashable, int] = {}
        self._remembered: dict[Hashable, dict[Hashable, Any]] = {}
        self._count = 0
        self._failed, self._last_failure = 0, ""

    def pod_key(self, pod: Pod) -> Hashable:
        """What the expression reads of the pod."""
        return tuple(self._pod_part(pod, field) for field in self._pod_fields)

    def answers(self, pod: Pod, table: NodeTable, rows: Rows) -> Int64Column:
        groups = self._grouped(table)
        if self.by_row:
            few = row_count(rows) <= _FEW_ROWS
            said = self._of_each(pod, groups, rows) if few else self._by_row(pod, groups)[rows].copy()
        else:
            said = self._by_group(pod, groups)[groups.of_row[rows]]
        self._note(said, table, rows)
        return said

    def answers_with(self, pod: Pod, table: NodeTable, nominated: NominatedRows) -> Int64Column:
        """Returns `answers` on the rows of nominated pods, with these counted as placed; not cached by row."""
        rows, used = nominated.rows, table.used
        raised = used.copy()
        for amount in self._grouped(table).amounts:
            raised[amount.index, rows] = total(used[amount.index, rows], nominated.taking(amount.index))
        try:
            table.used = raised
            said = self._of_each(pod, self._grouped(table), rows)
        finally:
            table.used = used
        self._note(said, table, rows)
        return said

    def answer(self, pod: Pod, table: NodeTable, row: int) -> int:
        groups = self._grouped(table)
        if not self.by_row:
            return int(self._by_group(pod, groups)[groups.of_row[row]])
        return self._of_row(pod, groups, row, self.pod_key(pod))

    def statistics(self) -> dict[str, int]:
        return {"remembered": sum(map(len, self._remembered.values()))}

    def take_failures(self) -> tuple[int, str]:
        taken = self._failed, self._last_failure
        self._failed = 0
        return taken

    def take_kept_failures(self, pods: Iterable[Pod]) -> tuple[int, str]:
        """Returns the same for the cached answers for these pods, which may not have been evaluated again.

        Evaluates only a handful of nodes: an answer that is not cached was evaluated, and its failure counted then.
        """
        groups = self._groups
        if groups is None or not groups.is_of(groups.table):
            return 0, ""  # the nodes changed: the next decision evaluates again
        rows = groups.table.rows
        for key, pod in {self.pod_key(pod): pod for pod in pods}.items():
            said = self._kept(key, pod, groups, rows)
            if said is not None:
                self._note(said, groups.table, rows)
        return self.take_failures()

    # --- columns

    def _grouped(self, table: NodeTable) -> NodeGroups:
        groups = self._groups
        if groups is None or not groups.is_of(table):
            before, groups = groups, NodeGroups(table, self._parts, self._program.reads)
            if before is not None and before.resource_names != groups.resource_names:
                self._remembered.clear()  # the amounts that inputs are remembered by are of other resources now
                self._count = 0
            self._groups = groups
            self._columns.clear()
            self._budgets.clear()
        return groups

    def _by_group(self, pod: Pod, groups: NodeGroups) -> Int64Column:
        """int64[groups + 1]: the last is that of rows without a node."""
        key = self.pod_key(pod)
        cached = self._columns.get(key)
        if cached is None:
            allowed, seen = self._allowed(pod, groups), self._remembered.setdefault(key, {})
            said = [
                self._resolve(pod, groups, group, group_key, (), seen, allowed is None or bool(allowed[group]))
                for group, group_key in enumerate(groups.keys)
            ]
            cached = self._keep(key, np.array([*said, 0], dtype=np.int64), 0)
        return cached[0]

    def _by_row(self, pod: Pod, groups: NodeGroups) -> Int64Column:
        """Returns int64[rows], recomputed where pods or allocatable resources changed."""
        key, table = self.pod_key(pod), groups.table
        cached = self._columns.get(key)
        changed = None if cached is None else table.changes_since(cached[1])
        if cached is None or changed is None or len(changed) > row_count(table.rows) // 4 + _FEW_ROWS:
            column = np.zeros(groups.capacity, dtype=np.int64)
            rows = row_numbers(table.rows)
            of_row, amounts = groups.of_row[rows].tolist(), groups.resources(rows)
            seen = [self._inner(key, group_key) for group_key in groups.keys]
            self._count += len(seen)
            allowed = self._allowed(pod, groups)
            may = [True] * len(rows) if allowed is None else allowed[rows].tolist()
            column[rows] = [
                self._resolve(pod, groups, group, amount, amount, seen[group], allows)
                for group, amount, allows in zip(of_row, amounts, may, strict=True)
            ]
        else:
            column = cached[0]
            for row in set(changed):
                column[row] = self._of_row(pod, groups, row, key)
        return self._keep(key, column, table.mark)[0]

    def _kept(self, key: Hashable, pod: Pod, groups: NodeGroups, rows: Rows) -> Int64Column | None:
        """Returns the cached answers on these rows; None if there are none."""
        if self.by_row and row_count(rows) <= _FEW_ROWS:
            return self._of_each(pod, groups, rows)
        cached = self._columns.get(key)
        return None if cached is None else cached[0][rows if self.by_row else groups.of_row[rows]]

    def _of_each(self, pod: Pod, groups: NodeGroups, rows: Rows) -> Int64Column:
        key = self.pod_key(pod)
        said = [self._of_row(pod, groups, row, key) for row in row_numbers(rows).tolist()]
        return np.array(said, dtype=np.int64)

    def _keep(self, key: Hashable, column: Int64Column, mark: int) -> tuple[Int64Column, int]:
        self._columns[key] = column, mark
        self._columns.move_to_end(key)
        if len(self._columns) > _KEPT_COLUMNS:
            self._columns.popitem(last=False)
        return column, mark

    # --- single inputs

    def _of_row(self, pod: Pod, groups: NodeGroups, row: int, key: Hashable) -> int:
        group = int(groups.of_row[row])
        if group < 0:
            return 0
        seen, amounts = self._inner(key, groups.keys[group]), groups.resources_of(row)
        allowed = self._allowed(pod, groups)
        return self._resolve(pod, groups, group, amounts, amounts, seen, allowed is None or bool(allowed[row]))

    def _resolve(
        self,
        pod: Pod,
        groups: NodeGroups,
        group: int,
        key: tuple[Any, ...],
        amounts: tuple[int, ...],
        seen: dict[Hashable, Any],
        allowed: bool,
    ) -> int:
        """Returns the cached answer for an input (in `seen`, by its key), or evaluates it."""
        if not allowed:
            return self._failure(OVER_BUDGET)
        said: int | None = seen.get(key)
        if said is None:
            said = seen[key] = self._evaluate(pod, groups, group, amounts)
        return said

    def _inner(self, key: Hashable, group_key: Hashable) -> dict[Hashable, Any]:
        inner: dict[Hashable, Any] = self._remembered.setdefault(key, {}).setdefault(group_key, {})
        return inner

    def _evaluate(self, pod: Pod, groups: NodeGroups, group: int, amounts: tuple[int, ...]) -> int:
        self._count += 1
        if self._count > _MOST_REMEMBERED:
            self._remembered.clear()
            self._count = 0
        if self._has_sizes and self._cost(groups, group, self._pod_sizes(pod)) > MAX_COST:
            return self._failure(TOO_LARGE)
        data = {**self._constant_data(pod), **groups.data(group), **groups.resource_data(amounts)}
        texts = annotation_lengths(data)
        self._count += sum(texts) // _CHARS_PER_REMEMBERED
        if max(texts, default=0) > LONGEST_ANNOTATION:
            return self._failure(f"an annotation that it reads has more than {LONGEST_ANNOTATION} characters")
        try:
            return min(max(self._program.evaluate(data), 0), self._highest)
        except EvaluationFailed as failure:
            return self._failure(str(failure))

    # --- cost

    def _allowed(self, pod: Pod, groups: NodeGroups) -> BoolColumn | None:
        """bool[groups], or bool[rows] where resources are read: what is within the budget; None: all of it."""
        sizes = self._pod_sizes(pod)
        if sizes not in self._budgets:
            count = len(groups.keys)
            told_apart = range(count) if groups.sized else range(min(count, 1))
            costs = np.array([self._cost(groups, group, sizes) for group in told_apart], dtype=np.float64)
            costs = np.append(np.broadcast_to(costs, count), 0.0)  # the last for rows without a node
            budget = BUDGET if self._pod_fields or self.by_row else LASTING_BUDGET
            total = np.cumsum(costs[groups.of_row] if self.by_row else costs)
            self._budgets[sizes] = None if total[-1] <= budget else total <= budget
        return self._budgets[sizes]

    def _cost(self, groups: NodeGroups, group: int, pod_sizes: Sizes) -> int:
        key = groups.sizes(group) + pod_sizes
        if key not in self._costs:
            self._costs[key] = self._program.cost(dict(key))
        return self._costs[key]

    # --- the pod

    def _pod_part(self, pod: Pod, field: str) -> Hashable:
        value, named = read_pod(pod, field), None
        match FIELDS[field].kind:
            case FieldKind.TEXTS | FieldKind.AMOUNTS:
                named = self._program.reads.named(field)
                part: Hashable = pairs(value) if named is None else tuple(value.get(name) for name in named)
                return part
        hashable: Hashable = value
        return hashable

    def _constant_data(self, pod: Pod) -> dict[str, Any]:
        """What is the same for all nodes."""
        if self._constant_for is not pod:
            self._constant = {field: self._pod_field(pod, field) for field in self._pod_fields}
            if PARAMETERS in self._program.reads.fields:
                self._constant[PARAMETERS] = self._program.parameters
            self._constant_for = pod
        return self._constant

    def _pod_field(self, pod: Pod, field: str) -> Any:
        value, kind, reads = read_pod(pod, field), FIELDS[field].kind, self._program.reads
        if kind is FieldKind.RECORDS:
            return records(value, FIELDS[field].keys)
        if not kind.has_keys:
            return list(value) if kind is FieldKind.LIST else value
        named = reads.named(field)
        if named is None:
            return dict(value)
        found = {name: value[name] for name in named if name in value}
        if kind is FieldKind.AMOUNTS:
            found |= {name: 0 for name in named if name not in value and (field, name) not in reads.asked}
        return found

    def _pod_sizes(self, pod: Pod) -> Sizes:
        return tuple((field, len(read_pod(pod, field))) for field in self._sized)

    # --- failures

    def _failure(self, text: str) -> int:
        """The answer that stands for it."""
        if text not in self.failures:
            if len(self.failures) >= _MOST_FAILURES:
                text = "evaluation failed"
            if text not in self.failures:
                self.failures.append(text)
        return -1 - self.failures.index(text)

    def _note(self, said: Int64Column, table: NodeTable, rows: Rows) -> None:
        failed = said < 0
        if failed.any():
            first = int(failed.argmax())
            row = int(row_numbers(rows)[first])
            self._failed += int(np.count_nonzero(failed))
            self._last_failure = f"node {table.name(row)}: {self.failures[-1 - int(said[first])]}"
