"""The default profile of kube-scheduler 1.36: the base of a policy that names no other.

Kubernetes lists its default plugins once, for all extension points, in an order and with weights
(pkg/scheduler/apis/config/v1/default_plugins.go). `MULTI_POINT` is that list, with the plugins whose feature gates
are on by default in 1.36 where the gates put them: DynamicResources before DefaultPreemption, NodeDeclaredFeatures at
the end. What Berth makes of it is derived: the plugins that filter, in that order, and the plugins that score, with
their weights. A weight of None means 1, as everywhere in a kube-scheduler configuration.

`POINTS` says at which extension points each plugin of kube-scheduler serves. It also knows plugins that are off by
default and those that neither filter nor score, because the import of configurations has to tell "nothing to do for
us" from "no such plugin".

`PREDICATE_ORDER` is the order in which predicates run, whichever of them a policy has.
"""

from collections.abc import Mapping
from dataclasses import replace
from types import MappingProxyType

from berth.engine.legacy.node_prefer_avoid_pods import DEFAULT_WEIGHT
from berth.policy.records import Policy, Predicate, Priority

KUBERNETES_VERSION = "1.36"
BUILT_IN_SCHEDULER_NAME = "berth"

POINTS: Mapping[str, frozenset[str]] = MappingProxyType(
    {
        name: frozenset(points.split())
        for name, points in {
            "SchedulingGates": "preEnqueue",
            "PrioritySort": "queueSort",
            "NodeUnschedulable": "filter",
            "NodeName": "filter",
            "TaintToleration": "filter preScore score",
            "NodeAffinity": "preFilter filter preScore score",
            "NodePorts": "preFilter filter",
            "NodeResourcesFit": "preFilter filter preScore score placementScore",
            "VolumeRestrictions": "preFilter filter",
            "NodeVolumeLimits": "preFilter filter",
            "VolumeBinding": "preFilter filter preScore score reserve preBind",
            "VolumeZone": "preFilter filter",
            "PodTopologySpread": "preFilter filter preScore score",
            "InterPodAffinity": "preFilter filter preScore score",
            "DynamicResources": "preEnqueue preFilter filter postFilter score reserve preBind",
            "DefaultPreemption": "preEnqueue postFilter",
            "NodeResourcesBalancedAllocation": "preScore score",
            "ImageLocality": "score",
            "DefaultBinder": "bind",
            "NodeDeclaredFeatures": "preFilter filter",
            "GangScheduling": "preEnqueue permit",
            "TopologyPlacementGenerator": "placementGenerate",
            "PodGroupPodsCount": "placementScore",
        }.items()
    }
)

MULTI_POINT: tuple[tuple[str, int | None], ...] = (
    ("SchedulingGates", None),
    ("PrioritySort", None),
    ("NodeUnschedulable", None),
    ("NodeName", None),
    ("TaintToleration", 3),
    ("NodeAffinity", 2),
    ("NodePorts", None),
    ("NodeResourcesFit", 1),
    ("VolumeRestrictions", None),
    ("NodeVolumeLimits", None),
    ("VolumeBinding", None),
    ("VolumeZone", None),
    ("PodTopologySpread", 2),
    ("InterPodAffinity", 2),
    ("DynamicResources", 2),
    ("DefaultPreemption", None),
    ("NodeResourcesBalancedAllocation", 1),
    ("ImageLocality", 1),
    ("DefaultBinder", None),
    ("NodeDeclaredFeatures", None),
)

DEFAULT_PREDICATES: tuple[Predicate, ...] = tuple(
    Predicate(name) for name, _ in MULTI_POINT if "filter" in POINTS[name]
)
DEFAULT_PRIORITIES: tuple[Priority, ...] = tuple(
    Priority(name, weight or 1) for name, weight in MULTI_POINT if "score" in POINTS[name]
)

# Today's plugins in today's order; those that Kubernetes has dropped where v1.17 ran them (v1.11 those on node
# conditions), next to the neighbours that are still there.
PREDICATE_ORDER: tuple[str, ...] = (
    "CheckNodeCondition",
    "NodeUnschedulable",
    "NodeName",
    "TaintToleration",
    "NodeAffinity",
    "NodePorts",
    "NodeResourcesFit",
    "VolumeRestrictions",
    "PodToleratesNodeNoExecuteTaints",
    "CheckNodeLabelPresence",
    "CheckServiceAffinity",
    "MaxEBSVolumeCount",
    "MaxGCEPDVolumeCount",
    "NodeVolumeLimits",
    "MaxAzureDiskVolumeCount",
    "MaxCinderVolumeCount",
    "VolumeBinding",
    "VolumeZone",
    "CheckNodeMemoryPressure",
    "CheckNodePIDPressure",
    "CheckNodeDiskPressure",
    "PodTopologySpread",
    "InterPodAffinity",
    "DynamicResources",
    "NodeDeclaredFeatures",
)

# What priorities weigh that are not in the default profile; any other weighs 1.
OWN_WEIGHTS: Mapping[str, int] = MappingProxyType({"NodePreferAvoidPodsPriority": DEFAULT_WEIGHT})

# What decides for schedulerName "berth" while no policy claims that name.
BUILT_IN = Policy(
    name="(built-in)",  # which no object can have
    uid="",
    generation=0,
    scheduler_name=BUILT_IN_SCHEDULER_NAME,
    predicates=DEFAULT_PREDICATES,
    priorities=DEFAULT_PRIORITIES,
)

# What a policy may be based on besides another policy, whose name has no capitals.
KUBERNETES_DEFAULT = "KubernetesDefault"
OWN_BASES: Mapping[str, Policy] = MappingProxyType(
    {KUBERNETES_DEFAULT: BUILT_IN, "Empty": replace(BUILT_IN, predicates=(), priorities=())}
)
