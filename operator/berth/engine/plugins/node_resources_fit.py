"""NodeResourcesFit: a node must have enough free resources for the pod's requests; scores by how full the node is.

filter: rejects a node if, for any resource, requests > allocatable - used; unresolvable if requests > allocatable.
Every pod uses one of the node's `pods`. The cause is a bit set over the insufficient resources.
score: see engine/plugins/common/strategies.py; pods that request no cpu or memory count with 100m and 200Mi.

Arguments: ignoredResources, ignoredResourceGroups (extended resources that the filter ignores),
scoringStrategy (type, resources, requestedToCapacityRatio).
"""

from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from itertools import chain, compress
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from berth.engine.events import Change, Event
from berth.engine.plugin import (
    BadArgument,
    Dependencies,
    FilterPlugin,
    PodsRead,
    Query,
    ScorePlugin,
    nothing_else,
    refuse_unknown,
)
from berth.engine.plugins.common.allocation import CountedResource, counted, loads, require_list
from berth.engine.plugins.common.hints import fits_there
from berth.engine.plugins.common.strategies import parse_strategy
from berth.engine.state.amounts import Amounts, difference
from berth.engine.state.node_table import NOWHERE, PODS
from berth.engine.state.nominated_rows import NominatedRows
from berth.engine.state.state import State
from berth.engine.verdict import BoolColumn, Code, Int64Column, Rows, Verdicts, row_count
from berth.model import Node, Pod, is_extended_resource

TOO_MANY_PODS = "Too many pods"

_Column = Callable[[int], Amounts]


class NodeResourcesFit(FilterPlugin, ScorePlugin):
    name = "NodeResourcesFit"
    dependencies = Dependencies(node_local=True, pods=PodsRead.USAGE, version=nothing_else)
    retry_events = frozenset({Event.NODE_ADDED, Event.NODE_ALLOCATABLE, Event.POD_REMOVED, Event.POD_SHRUNK})
    local_events = retry_events

    def __init__(self, args: Mapping[str, Any]) -> None:
        refuse_unknown(args, "ignoredResources", "ignoredResourceGroups", "scoringStrategy")
        self._ignored = _names(args, "ignoredResources")
        self._ignored_groups = _names(args, "ignoredResourceGroups")
        for index, group in enumerate(args.get("ignoredResourceGroups") or ()):
            if "/" in group:
                raise BadArgument(f"ignoredResourceGroups[{index}]", "a group is what stands before the slash")
        self._resources, self._strategy = parse_strategy(args.get("scoringStrategy"))
        self._wanted_plan = f"NodeResourcesFit without {sorted(self._ignored)} {sorted(self._ignored_groups)}"
        self._counted_plan = f"NodeResourcesFit {self._resources}"

    def filter(self, query: Query, state: State, rows: Rows) -> Verdicts:
        free, allocatable = state.table.free, state.table.allocatable
        return self._judged(query, lambda index: free[index, rows], lambda index: allocatable[index, rows])

    def filter_with_free(self, query: Query, free: Amounts, allocatable: Amounts) -> Verdicts:
        return self._judged(query, free.__getitem__, allocatable.__getitem__)

    def filter_with_nominated(self, query: Query, state: State, nominated: NominatedRows) -> Verdicts:
        free, allocatable, rows = state.table.free, state.table.allocatable, nominated.rows
        return self._judged(
            query,
            lambda index: difference(free[index, rows], nominated.taking(index)),
            lambda index: allocatable[index, rows],
        )

    def _judged(self, query: Query, free: _Column, allocatable: _Column) -> Verdicts:
        """Returns one verdict per node; `free` and `allocatable` return a column by the index of the resource."""
        wanted = self._wanted(query)
        short, refused = [], None
        for index, amount, _ in wanted.somewhere:
            lacking = free(index) < amount
            short.append(lacking)
            refused = lacking if refused is None else refused | lacking
        codes = np.asarray(refused).astype(np.int8)
        if wanted.nowhere:
            codes[:] = Code.UNRESOLVABLE
            short.append(np.ones(len(codes), dtype=np.bool_))
        elif codes.any():
            for index, amount, _ in wanted.somewhere[1:]:
                codes[amount > allocatable(index)] = Code.UNRESOLVABLE
        return _explained(codes, short, wanted.reasons)

    def fits_row(self, query: Query, state: State, row: int) -> bool:
        free, wanted = state.table.cells.free, self._wanted(query)
        for index, amount, _ in wanted.somewhere:  # runs for every pod; a generator takes twice as long
            if amount > free[index, row]:
                return False
        return not wanted.nowhere

    def hint(self, query: Query, state: State, change: Change) -> bool:
        old, new = change.old, change.new
        if isinstance(old, Node) and isinstance(new, Node):
            grown = (new.allocatable.get(name, 0) > old.allocatable.get(name, 0) for name in self._wanted(query).names)
        elif isinstance(old, Pod) and isinstance(new, Pod):
            grown = (new.usage.get(name, 0) < old.usage.get(name, 0) for name in self._wanted(query).names)
        else:
            return fits_there(self, query, state, change)
        return any(grown) and fits_there(self, query, state, change)

    def hint_key(self, pod: Pod) -> Hashable:
        return tuple(sorted(pod.requests.items())), pod.priority, pod.preemption_policy

    def needed_resources(self, pod: Pod) -> Mapping[str, int]:
        return {"pods": 1, **{name: amount for name, amount in pod.requests.items() if not self._ignores(name)}}

    def fits_without(self, query: Query, state: State, row: int, pods: Sequence[Pod]) -> bool:
        free, wanted = state.table.exactly_free, self._wanted(query)
        if wanted.nowhere:
            return False
        return all(amount <= free(index, row) + _taken(name, pods) for index, amount, name in wanted.somewhere)

    def score(self, query: Query, state: State, rows: Rows) -> Int64Column:
        resources = loads(state.table, rows, self._counted(query, state), with_defaults=True)
        return self._strategy.columns(resources, row_count(rows))

    def score_row(self, query: Query, state: State, row: int) -> int:
        return self._strategy.single(state.table, row, self._counted(query, state))

    def _wanted(self, query: Query) -> "_Wanted":
        """Returns what the filter checks: one of `pods`, and the pod's requests."""
        wanted: _Wanted | None = query.plan.get(self._wanted_plan)
        if wanted is None:
            asked = [want for want in query.requests if not self._ignores(want[2])]
            wanted = query.plan[self._wanted_plan] = _Wanted(
                [(PODS, 1, "pods"), *(want for want in asked if want[0] != NOWHERE)],
                tuple(name for index, _, name in asked if index == NOWHERE),
            )
        return wanted

    def _counted(self, query: Query, state: State) -> tuple[CountedResource, ...]:
        resources: tuple[CountedResource, ...] | None = query.plan.get(self._counted_plan)
        if resources is None:
            resources = query.plan[self._counted_plan] = counted(
                query, state.table, self._resources, with_defaults=True
            )
        return resources

    def _ignores(self, name: str) -> bool:
        if name not in self._ignored and name.split("/")[0] not in self._ignored_groups:
            return False
        return is_extended_resource(name)


class _Wanted(NamedTuple):
    """The requests that the filter checks: (index, amount, name) if some node has the resource, else the name only.

    A tenant may request thousands of resources that no node has. They are insufficient on all nodes, so they share one
    column.
    """

    somewhere: list[tuple[int, int, str]]
    nowhere: tuple[str, ...]

    @property
    def names(self) -> Iterator[str]:
        yield from (name for _, _, name in self.somewhere)
        yield from self.nowhere

    def reasons(self) -> Iterator[tuple[str, ...]]:
        """Yields the reasons for each column of insufficient resources."""
        yield (TOO_MANY_PODS,)
        yield from ((f"Insufficient {name}",) for _, _, name in self.somewhere[1:])
        yield tuple(f"Insufficient {name}" for name in self.nowhere)


def _explained(
    codes: NDArray[np.int8], short: list[BoolColumn], reasons: Callable[[], Iterator[tuple[str, ...]]]
) -> Verdicts:
    """Returns verdicts whose cause has a bit per insufficient column; beyond 63 columns, the index of a combination."""
    if len(short) < 64:
        return Verdicts(
            codes,
            lambda: (np.int64(1) << np.arange(len(short), dtype=np.int64)) @ np.array(short, dtype=np.int64),
            lambda cause: tuple(chain(*(said for bit, said in enumerate(reasons()) if cause >> bit & 1))),
        )
    combinations, numbers = np.unique(np.array(short), axis=1, return_inverse=True)
    return Verdicts(
        codes,
        numbers.astype(np.int64),
        lambda cause: tuple(chain(*compress(reasons(), combinations[:, cause].tolist()))),
    )


def _taken(name: str, pods: Sequence[Pod]) -> int:
    return len(pods) if name == "pods" else sum(pod.usage.get(name, 0) for pod in pods)


def _names(args: Mapping[str, Any], field: str) -> frozenset[str]:
    names = require_list(args.get(field) or [], field)
    for index, name in enumerate(names):
        if not isinstance(name, str) or not name:
            raise BadArgument(f"{field}[{index}]", "must be the name of a resource")
    return frozenset(names)
