"""The kinds of the group: one table, from which discovery, schemas, routes and tables are made."""

from dataclasses import dataclass
from typing import Final

GROUP: Final = "explain.berth.dev"
VERSION: Final = "v1alpha1"
API_VERSION: Final = f"{GROUP}/{VERSION}"
VERBS: Final = ("get", "list", "watch")
CURRENT: Final = "current"  # the name of the only ClusterView


@dataclass(frozen=True, slots=True)
class ApiResource:
    """One kind. `fields`: what a field selector may name, as a path in the body."""

    plural: str
    singular: str
    kind: str
    namespaced: bool
    text: str
    short_names: tuple[str, ...] = ()
    fields: tuple[str, ...] = ()

    @property
    def list_kind(self) -> str:
        return f"{self.kind}List"


_NAME: Final = ("metadata.name",)
_NAMESPACED: Final = ("metadata.name", "metadata.namespace")

EXPLANATIONS: Final = ApiResource(
    "explanations",
    "explanation",
    "Explanation",
    True,
    "Why a pod is pending, why it is on its node, and what would help. Named like the pod. A list holds the pending "
    "pods, without what has to be computed for each; one that is read by its name says everything.",
    ("why",),
    (*_NAMESPACED, "status.state", "status.reason", "status.schedulerName", "status.nodeName"),
)
NODE_VIEWS: Final = ApiResource(
    "nodeviews",
    "nodeview",
    "NodeView",
    False,
    "A node as the scheduler sees it: room, pods by policy, and the pending pods that it rejects.",
    (),
    (*_NAME, "status.zone"),
)
CLUSTER_VIEWS: Final = ApiResource(
    "clusterviews",
    "clusterview",
    "ClusterView",
    False,
    f"The cluster as the scheduler sees it: counts, utilisation, queue, rates and policies. The only one is {CURRENT}.",
    (),
    _NAME,
)
DECISIONS: Final = ApiResource(
    "decisions",
    "decision",
    "Decision",
    True,
    "A placement that this replica has decided lately, with what it was chosen from. The oldest are forgotten.",
    (),
    (*_NAMESPACED, "status.podName", "status.nodeName", "status.schedulerName"),
)
RESOURCES: Final = (EXPLANATIONS, NODE_VIEWS, CLUSTER_VIEWS, DECISIONS)
BY_PLURAL: Final = {resource.plural: resource for resource in RESOURCES}
