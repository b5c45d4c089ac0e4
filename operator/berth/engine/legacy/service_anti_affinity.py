"""ServiceAntiAffinity: spread the pods of a service over the values of a node label, such as racks.

Over the feasible nodes, with n the pods of the service and v those on nodes with the same value of the label:

    score = 100 * (n - v) / n        100 if the service has no pods there; 0 for a node without the label

The service is the first by name that selects the pod; terminating pods do not count.

Arguments: label (its key).
"""

from collections.abc import Hashable, Mapping
from typing import Any

import numpy as np

from berth.engine.legacy.arguments import require_label
from berth.engine.legacy.belonging import count_pods, service_matches
from berth.engine.plugin import MAX_SCORE, Dependencies, Query, ScorePlugin, refuse_unknown
from berth.engine.state.pod_counts import RowCounts
from berth.engine.state.state import State
from berth.engine.verdict import Int64Column, Rows
from berth.model import Pod


def _version(query: Query, state: State) -> Hashable:
    alike = _alike(query.pod, state)
    return () if alike is None else (alike, alike.version)


class ServiceAntiAffinity(ScorePlugin):
    name = "ServiceAntiAffinity"
    dependencies = Dependencies(version=_version)

    def __init__(self, args: Mapping[str, Any]) -> None:
        refuse_unknown(args, "label")
        self._label = require_label(args, "label")

    def score(self, query: Query, state: State, rows: Rows) -> Int64Column:
        column, values = state.table.label(self._label)
        ids = column[rows]
        labelled = ids >= 0
        alike = _alike(query.pod, state)
        counts = np.zeros_like(ids) if alike is None else alike.column()[rows]
        total = int(counts.sum())
        if not total:
            return labelled * np.int64(MAX_SCORE)
        in_group = np.bincount(ids[labelled], weights=counts[labelled], minlength=len(values.ids) + 1)[ids]
        # Floats in kube-scheduler's order of operations, so that truncation gives the same result.
        scores = float(MAX_SCORE) * ((total - in_group) / float(total))
        return np.where(labelled, scores, 0.0).astype(np.int64)


def _alike(pod: Pod, state: State) -> RowCounts | None:
    """Returns the counts of pods of the first service that selects the pod; None if none does."""
    matches = service_matches(pod, state)[:1]
    return count_pods(matches, state) if matches else None
