"""ImageLocality: likes nodes that have the pod's images already, big and widespread ones most.

score: each image on the node counts size * (nodes that have it / all nodes), cut to bytes; their sum is put between
23 MiB (0) and 1000 MiB for each container (100). An image used twice counts twice.
"""

from collections.abc import Hashable

import numpy as np

from berth.engine.plugin import MAX_SCORE, Plugin, Query
from berth.engine.state import State
from berth.engine.verdict import Int64Column, Rows
from berth.model import Pod

MEBIBYTE = 1024 * 1024
LOWEST_BYTES = 23 * MEBIBYTE
HIGHEST_BYTES_A_CONTAINER = 1000 * MEBIBYTE


class ImageLocality(Plugin):
    name = "ImageLocality"
    scores = True
    node_local = False

    def static_key(self, pod: Pod) -> Hashable:
        return pod.images, pod.container_count

    def score(self, query: Query, state: State, rows: Rows) -> Int64Column:
        table, pod = state.table, query.pod
        scores = np.zeros(table.capacity, dtype=np.int64)
        found = [held for image in pod.images if len((held := table.images.holders(image))[0])]
        for holders, sizes in found:
            scores[holders] += (sizes * (len(holders) / max(len(table), 1))).astype(np.int64)
        if found:
            holders = found[0][0] if len(found) == 1 else np.unique(np.concatenate([rows for rows, _ in found]))
            highest = HIGHEST_BYTES_A_CONTAINER * pod.container_count
            above = np.minimum(np.maximum(scores[holders], LOWEST_BYTES), highest) - LOWEST_BYTES
            scores[holders] = MAX_SCORE * above // (highest - LOWEST_BYTES)
        return scores[rows]
