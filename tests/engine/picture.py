"""Everything that a state says of known nodes, by their names instead of their rows: two states that decide alike are
equal in it, whatever way each has come to be.
"""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

from berth.engine.state.pod_counts import PodMatch
from berth.engine.state.state import State
from berth.model import Pod

Question = tuple[tuple[PodMatch, ...], bool, bool]  # as `PodCounts.of` is asked


def picture(
    state: State, questions: Iterable[Question], label_keys: Iterable[str], probes: Sequence[Pod]
) -> dict[str, Any]:
    """`probes` are pods that ask which terms select them."""
    table = state.table
    counts = [(table.counts.of(*question).column(), number) for number, question in enumerate(questions)]
    labels = {key: table.label(key) for key in label_keys}
    said: dict[str, Any] = {}
    for node in table.nodes():
        row = table.row(node.name)
        assert row is not None
        values = {key: [v for v, i in words.ids.items() if i == ids[row]] for key, (ids, words) in labels.items()}
        amounts = {
            r: (int(table.allocatable[i, row]), int(table.used[i, row])) for r, i in table.resource_index.items()
        }
        used = {name for pod in table.pods_on(node.name).values() for name in pod.usage}
        said[node.name] = {
            "used": {name: table.used_of(name, row) for name in sorted(used)},
            "resources": {resource: pair for resource, pair in amounts.items() if any(pair)},
            "nonzero": table.nonzero[:, row].tolist(),
            "taints": table.taints_of[int(table.taint_sets[row])],
            "unschedulable": bool(table.unschedulable[row]),
            "labels": values,
            "ports": table.ports.held_on(row),
            "counts": {number: int(column[row]) for column, number in counts},
            "pods": sorted(table.pods_on(node.name)),
        }
    said["terms"] = [_terms(state, probe) for probe in probes]
    said["pod columns"] = sorted(
        (pod.uid, int(columns.priority[slot]), columns.usage[:4, slot].tolist(), table.name(int(columns.row[slot])))
        for columns in (table.pods,)
        for slot in (columns.row >= 0).nonzero()[0].tolist()
        for pod in (columns.record(slot),)
    )
    said["nominated"] = {node: sorted(pods) for node, pods in state.nominated.items()}
    waiting = {pod.priority: pod for pods in state.nominated.values() for pod in pods.values()}
    said["promised"] = {priority: _promised(state, replace(pod, uid="")) for priority, pod in waiting.items()}
    return said


def _terms(state: State, probe: Pod) -> list[Any]:
    table = state.table
    rows = [row for node in table.nodes() if (row := table.row(node.name)) is not None]
    return sorted(
        (
            carried.role,
            carried.term.topology_key,
            carried.weight,
            str(carried.term.selector),
            sorted((table.name(row), count) for row in rows if (count := carried.rows.at(row))),
        )
        for carried in table.terms.matching(probe)
    )


def _promised(state: State, pod: Pod) -> dict[str, dict[str, int]]:
    found = state.nominated_pods.usage_beside(pod)
    if found is None:
        return {}
    named = {index: resource for resource, index in state.table.resource_index.items()}
    return {
        state.table.name(int(row)): {named[i]: int(amount) for i, amount in enumerate(amounts) if amount}
        for row, amounts in zip(found.rows, found.amounts.T, strict=True)
    }
