"""The resources that are watched: every kind that decisions read, and the policies."""

from typing import Final

from berth.cluster.listing import WatchedResource
from berth.model import KINDS

POLICY: Final = "SchedulingPolicy"
NAMESPACE: Final = "Namespace"
BUDGET: Final = "PodDisruptionBudget"

# Finished pods take no room, and clusters keep thousands of them.
POD_FIELDS: Final = "status.phase!=Succeeded,status.phase!=Failed"

RESOURCES: Final = (
    *(
        WatchedResource(
            kind.name, kind.group, kind.version, kind.plural, kind.namespaced, POD_FIELDS if kind.name == "Pod" else ""
        )
        for kind in KINDS
    ),
    WatchedResource(POLICY, "berth.dev", "v1alpha1", "schedulingpolicies", namespaced=False),
)
