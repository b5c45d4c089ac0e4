"""ImageLocality: likes nodes that have the pod's images already, big and widespread ones most.

score: each image on the node counts size * (nodes that have it / all nodes), cut to bytes; their sum is put between
23 MiB (0) and 1000 MiB for each container (100). An image used twice counts twice.
"""

from collections.abc import Hashable, Sequence

import numpy as np
from numpy.typing import NDArray

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
        scores = np.zeros(table.span, dtype=np.int64)
        held = [found for image in pod.images if len((found := table.images.holders(image))[0])]
        counts = [(sizes * (len(holders) / max(len(table), 1))).astype(np.int64) for holders, sizes in held]
        if held:
            holders, sums = (held[0][0], counts[0]) if len(held) == 1 else _together([at for at, _ in held], counts)
            highest = HIGHEST_BYTES_A_CONTAINER * pod.container_count
            above = np.minimum(np.maximum(sums, LOWEST_BYTES), highest) - LOWEST_BYTES
            scores[holders] = MAX_SCORE * above // (highest - LOWEST_BYTES)
        return scores[rows]


def _together(held: Sequence[NDArray[np.intp]], counts: Sequence[Int64Column]) -> tuple[NDArray[np.intp], Int64Column]:
    """The rows that hold any of the images, each once, and what those on it count."""
    holders, index = np.unique(np.concatenate(held), return_inverse=True)
    sums = np.zeros(len(holders), dtype=np.int64)
    np.add.at(sums, index, np.concatenate(counts))
    return holders, sums
