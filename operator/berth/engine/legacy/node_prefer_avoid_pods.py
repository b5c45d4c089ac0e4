"""NodePreferAvoidPodsPriority: scores nodes 0 if their annotation lists the pod's controller, and 100 otherwise.

The annotation scheduler.alpha.kubernetes.io/preferAvoidPods of a node lists controllers by kind and UID. Only
ReplicationControllers and ReplicaSets count; an invalid annotation is ignored. The weight is 10000 by default, so that
it outweighs all other priorities together.

Each distinct annotation is parsed once; the score is then looked up by row.
"""

import json
from collections.abc import Hashable
from functools import lru_cache

import numpy as np

from berth.engine.plugin import MAX_SCORE, Dependencies, Query, ScorePlugin
from berth.engine.state.node_table import PREFER_AVOID_PODS
from berth.engine.state.state import State
from berth.engine.verdict import Int64Column, Rows
from berth.model import Node, Pod

DEFAULT_WEIGHT = 10000
KINDS = ("ReplicationController", "ReplicaSet")


def _controller(pod: Pod) -> tuple[str, str] | None:
    controller = pod.controller
    return (controller.kind, controller.uid) if controller and controller.kind in KINDS else None


class NodePreferAvoidPodsPriority(ScorePlugin):
    name = "NodePreferAvoidPodsPriority"
    dependencies = Dependencies(static_key=_controller)

    def score(self, query: Query, state: State, rows: Rows) -> Int64Column:
        controller = _controller(query.pod)
        fact = state.table.fact(f"annotation {PREFER_AVOID_PODS}", _annotation)
        scores = [0 if controller and controller in avoided(value) else MAX_SCORE for value in fact.values]
        return np.array(scores, dtype=np.int64)[fact.ids[rows]]


def _annotation(node: Node) -> str | None:
    return node.annotations.get(PREFER_AVOID_PODS) or None


@lru_cache(maxsize=4096)
def avoided(annotation: Hashable) -> frozenset[tuple[str, str]]:
    """Returns (kind, UID) of the controllers that an annotation lists; None lists none."""
    if not isinstance(annotation, str):
        return frozenset()
    try:
        listed = json.loads(annotation)["preferAvoidPods"] or []
        controllers = [(item.get("podSignature") or {}).get("podController") or {} for item in listed]
        return frozenset((str(owner.get("kind", "")), str(owner.get("uid", ""))) for owner in controllers)
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
        return frozenset()
