"""Query: the pod of one decision, in the terms of the node table."""

from typing import Any

from berth.engine.state.node_table import NodeTable
from berth.model import Pod


class Query:
    """A pod in the terms of the node table; `requests` are (index of the resource, amount, name).

    Plugins store under their names what they prepare. `memo` is for one decision: what they computed from the state.
    `plan` lives as long as the query: what they computed from the pod, or from more, together with the versions that
    tell whether it is still valid.
    """

    __slots__ = ("memo", "plan", "pod", "requests")

    def __init__(self, pod: Pod, table: NodeTable) -> None:
        self.pod = pod
        self.plan: dict[str, Any] = {}
        self.memo: dict[str, Any] = {}
        self.requests: tuple[tuple[int, int, str], ...] = tuple(
            (table.known_resource(name), amount, name) for name, amount in pod.requests.items()
        )
