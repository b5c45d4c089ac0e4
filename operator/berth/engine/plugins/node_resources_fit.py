"""NodeResourcesFit: a node must have room for what the pod asks for, and how full it is makes it more or less liked.

filter: for each resource, requests > allocatable - used refuses the node; it is beyond help where requests >
allocatable. Every pod takes one of the node's `pods`. The cause is a bit set over the resources that are short.
score: see engine/strategies.py; pods that name no cpu or memory count as 100m and 200Mi.

Arguments: ignoredResources, ignoredResourceGroups (extended resources that the filter does not look at),
scoringStrategy (type, resources, requestedToCapacityRatio).
"""

from collections import Counter
from collections.abc import Callable, Hashable, Mapping, Sequence
from itertools import compress
from typing import Any

import numpy as np
from numpy.typing import NDArray

from berth.engine.allocation import Counted, counted, loads, require_list
from berth.engine.amounts import Amounts, difference
from berth.engine.events import Change, Event
from berth.engine.hints import fits_there
from berth.engine.nominated import Nominated
from berth.engine.plugin import NOTHING_ELSE, BadArgument, Plugin, Query, refuse_unknown
from berth.engine.state import State
from berth.engine.strategies import parse_strategy
from berth.engine.table import PODS, NodeTable
from berth.engine.verdict import BoolColumn, Code, Int64Column, Rows, Verdicts, row_count
from berth.model import Node, Pod, is_extended_resource

TOO_MANY_PODS = "Too many pods"


class NodeResourcesFit(Plugin):
    name = "NodeResourcesFit"
    filters = True
    scores = True
    reads_pods = True
    wakes_on = frozenset({Event.NODE_ADDED, Event.NODE_ALLOCATABLE, Event.POD_REMOVED, Event.POD_SHRUNK})

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

    def basis(self, query: Query, state: State) -> Hashable:
        return NOTHING_ELSE

    def filter(self, query: Query, state: State, rows: Rows) -> Verdicts:
        free = state.table.free
        return self._judged(query, state.table, rows, lambda index: free[index, rows])

    def filter_with_nominated(self, query: Query, state: State, nominated: Nominated) -> Verdicts:
        free, rows = state.table.free, nominated.rows
        return self._judged(
            query, state.table, rows, lambda index: difference(free[index, rows], nominated.taking(index))
        )

    def _judged(self, query: Query, table: NodeTable, rows: Rows, free: Callable[[int], Amounts]) -> Verdicts:
        """The verdicts with so much free on these rows, by the number of the resource."""
        wanted = self._wanted(query)
        short, refused = [], None
        for index, amount, _ in wanted:
            lacking = free(index) < amount
            short.append(lacking)
            refused = lacking if refused is None else refused | lacking
        codes = np.asarray(refused).astype(np.int8)
        if codes.any():
            for index, amount, _ in wanted[1:]:
                codes[amount > table.allocatable[index, rows]] = Code.UNRESOLVABLE
        return _explained(codes, short, wanted)

    def fits_row(self, query: Query, state: State, row: int) -> bool:
        free = state.table.cells.free
        for index, amount, _ in self._wanted(query):  # noqa: SIM110 - of every repeat; a generator takes twice the time
            if amount > free[index, row]:
                return False
        return True

    def hint(self, query: Query, state: State, change: Change) -> bool:
        old, new = change.old, change.new
        if isinstance(old, Node) and isinstance(new, Node):
            grown = (new.allocatable.get(name, 0) > old.allocatable.get(name, 0) for _, _, name in self._wanted(query))
        elif isinstance(old, Pod) and isinstance(new, Pod):
            grown = (new.usage.get(name, 0) < old.usage.get(name, 0) for _, _, name in self._wanted(query))
        else:
            return fits_there(self, query, state, change)
        return any(grown) and fits_there(self, query, state, change)

    def hint_key(self, pod: Pod) -> Hashable:
        return tuple(sorted(pod.requests.items())), pod.priority, pod.preemption_policy

    def fits_without(self, query: Query, state: State, row: int, pods: Sequence[Pod]) -> bool:
        free = state.table.exactly_free
        gone = Counter[str]({"pods": len(pods)})
        for pod in pods:
            gone.update(pod.usage)
        return all(amount <= free(index, row) + gone[name] for index, amount, name in self._wanted(query))

    def score(self, query: Query, state: State, rows: Rows) -> Int64Column:
        resources = loads(state.table, rows, self._counted(query, state), with_defaults=True)
        return self._strategy.columns(resources, row_count(rows))

    def score_row(self, query: Query, state: State, row: int) -> int:
        return self._strategy.single(state.table, row, self._counted(query, state))

    def _wanted(self, query: Query) -> list[tuple[int, int, str]]:
        """What the filter looks at: a place for the pod, and what it asks for."""
        wanted: list[tuple[int, int, str]] | None = query.plan.get(self._wanted_plan)
        if wanted is None:
            asked = (want for want in query.requests if not self._ignores(want[2]))
            wanted = query.plan[self._wanted_plan] = [(PODS, 1, "pods"), *asked]
        return wanted

    def _counted(self, query: Query, state: State) -> tuple[Counted, ...]:
        resources: tuple[Counted, ...] | None = query.plan.get(self._counted_plan)
        if resources is None:
            resources = query.plan[self._counted_plan] = counted(
                query, state.table, self._resources, with_defaults=True
            )
        return resources

    def _ignores(self, name: str) -> bool:
        if not is_extended_resource(name):
            return False
        return name in self._ignored or name.split("/")[0] in self._ignored_groups


def _explained(codes: NDArray[np.int8], short: list[BoolColumn], wanted: Sequence[tuple[int, int, str]]) -> Verdicts:
    """With a bit for each resource as the cause; beyond 63 resources, the number of the combination."""
    if len(short) < 64:
        return Verdicts(
            codes,
            lambda: (np.int64(1) << np.arange(len(short), dtype=np.int64)) @ np.array(short, dtype=np.int64),
            lambda cause: tuple(_reason(want) for bit, want in enumerate(wanted) if cause >> bit & 1),
        )
    combinations, numbers = np.unique(np.array(short), axis=1, return_inverse=True)
    return Verdicts(
        codes,
        numbers.astype(np.int64),
        lambda cause: tuple(map(_reason, compress(wanted, combinations[:, cause].tolist()))),
    )


def _reason(wanted: tuple[int, int, str]) -> str:
    return TOO_MANY_PODS if wanted[0] == PODS else f"Insufficient {wanted[2]}"


def _names(args: Mapping[str, Any], field: str) -> frozenset[str]:
    names = require_list(args.get(field) or [], field)
    for index, name in enumerate(names):
        if not isinstance(name, str) or not name:
            raise BadArgument(f"{field}[{index}]", "must be the name of a resource")
    return frozenset(names)
