"""Predicates on node conditions, as in kube-scheduler 1.11, before taints replaced them.

CheckNodeCondition        rejects nodes whose Ready is not True, whose OutOfDisk or NetworkUnavailable is not False, or
                          which are cordoned, with all reasons that apply; a missing condition is accepted
CheckNodeMemoryPressure   rejects nodes whose MemoryPressure is True, for best-effort pods
CheckNodeDiskPressure     rejects nodes whose DiskPressure is True
CheckNodePIDPressure      rejects nodes whose PIDPressure is True

Neither tolerations nor preemption help. Each distinct value of a condition is evaluated once; the verdict is then
looked up by row.
"""

from collections.abc import Callable, Hashable
from itertools import compress
from typing import ClassVar

import numpy as np

from berth.engine.events import Change, Event
from berth.engine.plugin import Dependencies, FilterPlugin, Query
from berth.engine.plugins.common.hints import lets_now
from berth.engine.state.state import State
from berth.engine.verdict import PROCEED, SKIP, BoolColumn, Code, PreFilter, Rows, Verdicts, refuse_where
from berth.model import Node, Pod

REASON_NOT_READY = "node(s) were not ready"
REASON_OUT_OF_DISK = "node(s) were out of disk space"
REASON_NETWORK = "node(s) had unavailable network"
REASON_CORDONED = "node(s) were unschedulable"
REASON_MEMORY = "node(s) had memory pressure"
REASON_DISK = "node(s) had disk pressure"
REASON_PID = "node(s) had pid pressure"
_REASONS = (REASON_NOT_READY, REASON_OUT_OF_DISK, REASON_NETWORK, REASON_CORDONED)


class CheckNodeCondition(FilterPlugin):
    name = "CheckNodeCondition"
    dependencies = Dependencies(static_key=lambda pod: ())
    retry_events = frozenset({Event.NODE_ADDED, Event.NODE_OTHER, Event.NODE_TAINTS})
    local_events = retry_events

    def filter(self, query: Query, state: State, rows: Rows) -> Verdicts:
        wrong = (
            _where(state, rows, "Ready", lambda status: status != "True"),
            _where(state, rows, "OutOfDisk", lambda status: status != "False"),
            _where(state, rows, "NetworkUnavailable", lambda status: status != "False"),
            state.table.unschedulable[rows],
        )
        causes = np.zeros(len(wrong[0]), dtype=np.int64)
        for bit, column in enumerate(wrong):
            causes |= column.astype(np.int64) << bit
        codes = (causes > 0).astype(np.int8) * np.int8(Code.UNRESOLVABLE)
        return Verdicts(codes, causes, _describe)

    def hint(self, query: Query, state: State, change: Change) -> bool:
        return lets_now(change, _is_in_order)

    def admits(self, query: Query, state: State, node: Node) -> bool:
        return _is_in_order(node)


def _is_in_order(node: Node) -> bool:
    reported = node.conditions
    return not node.unschedulable and (
        reported.get("Ready", "True") == "True"
        and reported.get("OutOfDisk", "False") == "False"
        and reported.get("NetworkUnavailable", "False") == "False"
    )


def _describe(cause: int) -> tuple[str, ...]:
    return tuple(compress(_REASONS, (cause >> bit & 1 for bit in range(len(_REASONS)))))


class _CheckPressure(FilterPlugin):
    """Rejects nodes that report a condition as True."""

    condition: ClassVar[str]
    reason: ClassVar[str]
    dependencies = Dependencies(static_key=lambda pod: ())
    retry_events = frozenset({Event.NODE_ADDED, Event.NODE_OTHER})
    local_events = retry_events

    def filter(self, query: Query, state: State, rows: Rows) -> Verdicts:
        under_pressure = _where(state, rows, self.condition, lambda status: status == "True")
        return refuse_where(under_pressure, Code.UNRESOLVABLE, self.reason)

    def hint(self, query: Query, state: State, change: Change) -> bool:
        return lets_now(change, lambda node: self.admits(query, state, node))

    def admits(self, query: Query, state: State, node: Node) -> bool:
        return node.conditions.get(self.condition) != "True"


class CheckNodeMemoryPressure(_CheckPressure):
    name = "CheckNodeMemoryPressure"
    condition = "MemoryPressure"
    reason = REASON_MEMORY

    def concerns(self, pod: Pod) -> bool:
        return pod.best_effort

    def pre_filter(self, query: Query, state: State) -> PreFilter:
        return PROCEED if query.pod.best_effort else SKIP


class CheckNodeDiskPressure(_CheckPressure):
    name = "CheckNodeDiskPressure"
    condition = "DiskPressure"
    reason = REASON_DISK


class CheckNodePIDPressure(_CheckPressure):
    name = "CheckNodePIDPressure"
    condition = "PIDPressure"
    reason = REASON_PID


def _where(state: State, rows: Rows, condition: str, holds: Callable[[Hashable], bool]) -> BoolColumn:
    """Returns bool[rows]: the nodes that report the condition with a status for which `holds` is True."""

    def read(node: Node) -> str | None:
        return node.conditions.get(condition)

    fact = state.table.fact(f"condition {condition}", read)
    wrong = [value is not None and holds(value) for value in fact.values]
    return np.array(wrong, dtype=np.bool_)[fact.ids[rows]]
