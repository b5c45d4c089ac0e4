"""The nodes that come closest among those that a reason rejects: rejected by the fewest plugins, lacking the least."""

from typing import Final

import numpy as np

from berth.engine.diagnosis import NO_NODES
from berth.engine.state.amounts import difference
from berth.engine.state.node_table import PODS
from berth.engine.verdict import Int64Column
from berth.explain.details import detail
from berth.explain.judgement import Judgement, Refusal
from berth.explain.quantities import quantity, rounded
from berth.explain.reasons import NO_NODES_CODE, code_of, resource_of
from berth.explain.records import NearMiss, Reason

MOST_NEAR: Final = 3


def reasons_of(judgement: Judgement) -> tuple[Reason, ...]:
    """Returns the reasons that kube-scheduler's message counts, the one that rejects most nodes first."""
    if judgement.survey is None:
        return (Reason(NO_NODES_CODE, "", NO_NODES, 0),)
    found = [_reason(judgement, refusal) for refusal in judgement.refusals()]
    return tuple(sorted(found, key=lambda reason: -reason.nodes))


def _reason(judgement: Judgement, refusal: Refusal) -> Reason:
    code = code_of(refusal.plugin, refusal.text, refusal.code)
    alone = judgement.alone.get(refusal.plugin.name)
    by_nothing_else = 0 if alone is None else int(np.count_nonzero(alone & refusal.where))
    near = near_misses(judgement, refusal, code)
    return Reason(code, refusal.plugin.name, refusal.text, refusal.nodes, by_nothing_else, near)


def near_misses(judgement: Judgement, refusal: Refusal, code: str) -> tuple[NearMiss, ...]:
    """Returns the closest nodes of one reason."""
    if judgement.survey is None or judgement.survey.stopped_by is not None:
        return ()
    resource = resource_of(refusal.text)
    positions = np.flatnonzero(refusal.where)
    requested = 1 if resource == "pods" else judgement.pod.requests.get(resource, 0)
    free = free_of(judgement, resource) if resource else np.zeros(len(judgement.rows), dtype=np.int64)
    order = np.lexsort((judgement.by_name[positions], -free[positions], judgement.refusing[positions]))[:MOST_NEAR]
    near = [(int(judgement.rows[at]), int(free[at])) for at in positions[order].tolist()]
    if resource:
        return tuple(_lacking(judgement, row, resource, requested, amount) for row, amount in near)
    return tuple(NearMiss(judgement.table.name(row), detail(code, judgement, row, refusal)) for row, _ in near)


def free_of(judgement: Judgement, resource: str) -> Int64Column:
    """Returns int64[positions]: what is free of a resource, once pods that are nominated there have come."""
    table, rows = judgement.table, judgement.rows
    index = PODS if resource == "pods" else table.known_resource(resource)
    free: Int64Column = table.free[index, rows].copy()
    nominated = judgement.state.nominated_pods.beside(judgement.pod, rows) if judgement.state.nominated else None
    if nominated is not None:
        positions = np.searchsorted(rows, nominated.rows)
        free[positions] = difference(free[positions], nominated.taking(index))
    return free


def _lacking(judgement: Judgement, row: int, resource: str, requested: int, free: int) -> NearMiss:
    name = judgement.table.name(row)
    if resource == "pods":
        most = int(judgement.table.allocatable[PODS, row])
        return NearMiss(name, f"has as many pods as it allows: {most}", "pods", 1, free)
    asked, there = quantity(resource, requested), quantity(resource, rounded(resource, free, up=False))
    short = quantity(resource, rounded(resource, requested - free, up=True))
    text = f"lacks {short} {resource}: {asked} asked for, {there} free"
    return NearMiss(name, text, resource, requested, free)
