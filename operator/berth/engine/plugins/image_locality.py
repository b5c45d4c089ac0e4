"""ImageLocality: prefers nodes that have the pod's images already, above all large and widespread ones.

score: each image on the node counts size * (nodes that have it / all nodes), truncated to bytes; their sum is scaled
from 23 MiB (0) to 1000 MiB per container (100). An image used twice counts twice.
"""

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from berth.engine.plugin import MAX_SCORE, Dependencies, Query, ScorePlugin
from berth.engine.state.node_table import NodeTable
from berth.engine.state.state import State
from berth.engine.verdict import Int64Column, Rows

MEBIBYTE = 1024 * 1024
LOWEST_BYTES = 23 * MEBIBYTE
HIGHEST_BYTES_A_CONTAINER = 1000 * MEBIBYTE


class ImageLocality(ScorePlugin):
    name = "ImageLocality"
    dependencies = Dependencies(static_key=lambda pod: (pod.images, pod.container_count))

    def score(self, query: Query, state: State, rows: Rows) -> Int64Column:
        table, pod = state.table, query.pod
        highest = HIGHEST_BYTES_A_CONTAINER * pod.container_count
        scores = np.zeros(table.span, dtype=np.int64)
        if len(pod.images) == 1:  # the common case: one score for all nodes with the image in one size
            for holders, counted in _counts(pod.images[0], table):
                above = max(min(counted, highest) - LOWEST_BYTES, 0)
                scores[holders] = MAX_SCORE * above // (highest - LOWEST_BYTES)
            return scores[rows]
        for image in pod.images:
            for holders, counted in _counts(image, table):
                scores[holders] += counted
        above = np.maximum(np.minimum(scores[rows], highest) - LOWEST_BYTES, 0)
        weighed: Int64Column = MAX_SCORE * above // (highest - LOWEST_BYTES)
        return weighed


def _counts(image: str, table: NodeTable) -> Iterator[tuple[NDArray[np.intp], int]]:
    """Yields the rows that have the image in one size, and the bytes that it counts there."""
    held = table.images.holders(image)
    share = sum(len(holders) for _, holders in held) / max(len(table), 1)
    return ((holders, int(size * share)) for size, holders in held)
