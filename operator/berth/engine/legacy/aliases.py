"""Aliases: names of predicates and priorities from v1.9 to v1.17, and the current plugins that replace them.

An alias means exactly the same as the new name: current arithmetic, current reasons, and scores from 0 to 100. If one
plugin replaces several, the alias also has the arguments (`args`): MostRequestedPriority is NodeResourcesFit with the
strategy MostAllocated.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Final, Literal

Point = Literal["filter", "score"]


@dataclass(frozen=True, slots=True)
class Alias:
    """The plugins that replace an old name, in the order in which they run, and the arguments that it implies."""

    plugins: tuple[str, ...]
    args: Mapping[str, Any] = field(default_factory=lambda: MappingProxyType({}))


def _scoring(strategy: str, **more: Any) -> Alias:
    return Alias(("NodeResourcesFit",), MappingProxyType({"scoringStrategy": {"type": strategy, **more}}))


PREDICATES: Final[Mapping[str, Alias]] = {
    "GeneralPredicates": Alias(("NodeName", "NodePorts", "NodeAffinity", "NodeResourcesFit")),
    "PodFitsResources": Alias(("NodeResourcesFit",)),
    "HostName": Alias(("NodeName",)),
    "PodFitsHostPorts": Alias(("NodePorts",)),
    "PodFitsPorts": Alias(("NodePorts",)),
    "MatchNodeSelector": Alias(("NodeAffinity",)),
    "NoDiskConflict": Alias(("VolumeRestrictions",)),
    "NoVolumeZoneConflict": Alias(("VolumeZone",)),
    "MaxCSIVolumeCountPred": Alias(("NodeVolumeLimits",)),
    "CheckVolumeBinding": Alias(("VolumeBinding",)),
    "MatchInterPodAffinity": Alias(("InterPodAffinity",)),
    "PodToleratesNodeTaints": Alias(("TaintToleration",)),
    "CheckNodeUnschedulable": Alias(("NodeUnschedulable",)),
    "EvenPodsSpread": Alias(("PodTopologySpread",)),
}

PRIORITIES: Final[Mapping[str, Alias]] = {
    "LeastRequestedPriority": _scoring("LeastAllocated"),
    "MostRequestedPriority": _scoring("MostAllocated"),
    "RequestedToCapacityRatioPriority": _scoring(
        "RequestedToCapacityRatio",
        requestedToCapacityRatio={"shape": [{"utilization": 0, "score": 10}, {"utilization": 100, "score": 0}]},
    ),
    "BalancedResourceAllocation": Alias(("NodeResourcesBalancedAllocation",)),
    "InterPodAffinityPriority": Alias(("InterPodAffinity",)),
    "NodeAffinityPriority": Alias(("NodeAffinity",)),
    "TaintTolerationPriority": Alias(("TaintToleration",)),
    "ImageLocalityPriority": Alias(("ImageLocality",)),
    "EvenPodsSpreadPriority": Alias(("PodTopologySpread",)),
}

ALIASES: Final[Mapping[Point, Mapping[str, Alias]]] = {"filter": PREDICATES, "score": PRIORITIES}
