"""Images: a node that has more of what the pod runs, by size, is liked more."""

from __future__ import annotations

from collections.abc import Sequence

from berth.model import Node, Pod

from ..plugin import MAX_SCORE, Plugin
from ..world import World

MEBIBYTE = 1024 * 1024
LEAST = 23 * MEBIBYTE
MOST_FOR_A_CONTAINER = 1000 * MEBIBYTE


class ImageLocality(Plugin):
    """An image counts with its size times the share of nodes that have it, so that pods do not all follow one node."""

    name = "ImageLocality"

    def score(self, pod: Pod, feasible: Sequence[Node], world: World) -> dict[str, int]:
        most = MOST_FOR_A_CONTAINER * pod.container_count
        scores = {}
        for node in feasible:
            total = 0
            for image in pod.images:
                if image in node.images:
                    holders = sum(image in other.images for other in world.nodes.values())
                    total += int(node.images[image] * (holders / len(world.nodes)))
            scores[node.name] = MAX_SCORE * (min(max(total, LEAST), most) - LEAST) // (most - LEAST)
        return scores


PLUGINS = (ImageLocality,)
