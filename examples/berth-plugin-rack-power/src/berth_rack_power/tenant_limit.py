"""TenantLimit: pods of one tenant do not crowd a node.

fits: at most `most` pods of the tenant on a node.
points: 100 on a node without any, down to 0 where there is room for none.

A pod without the label has no tenant: every node fits, and is worth the same.

Arguments: most (required), label (example.com/tenant).
"""

from collections.abc import Mapping
from typing import Any

from berth.engine.per_node import NodeView, PerNode, Reads
from berth.engine.plugin import BadArgument, refuse_unknown
from berth.model import Pod


class TenantLimit(PerNode):
    reads = Reads.PODS

    def __init__(self, args: Mapping[str, Any]) -> None:
        refuse_unknown(args, "most", "label")
        self._most = args.get("most")
        if not isinstance(self._most, int) or isinstance(self._most, bool) or not 1 <= self._most <= 1000:
            raise BadArgument("most", f"{self._most!r} is not a number of pods from 1 to 1000")
        self._label = args.get("label", "example.com/tenant")
        if not isinstance(self._label, str) or not self._label:
            raise BadArgument("label", f"{self._label!r} is not the name of a label")

    def concerns(self, pod: Pod) -> bool:
        return self._label in pod.labels

    def fits(self, pod: Pod, node: NodeView) -> bool | str:
        return self._pods_of_tenant(pod, node) < self._most or "node(s) had too many pods of the tenant"

    def points(self, pod: Pod, node: NodeView) -> int:
        return 100 - 100 * min(self._pods_of_tenant(pod, node), self._most) // self._most

    def _pods_of_tenant(self, pod: Pod, node: NodeView) -> int:
        tenant = (pod.namespace, pod.labels[self._label])
        return sum((other.namespace, other.labels.get(self._label)) == tenant for other in node.pods)
