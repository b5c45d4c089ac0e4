"""Predicates and priorities that Kubernetes has removed, under their old names; each is a plugin like the others.

They decide as kube-scheduler 1.17 did; those on node conditions, which were removed earlier, as 1.11 did. Where the
result depended on an unspecified order of objects, the first by name is taken. `aliases` has the old names of plugins
that still exist under new names.
"""

from berth.engine.legacy.check_node_label_presence import CheckNodeLabelPresence
from berth.engine.legacy.check_service_affinity import CheckServiceAffinity
from berth.engine.legacy.equal import EqualPriority
from berth.engine.legacy.label_preference import LabelPreference
from berth.engine.legacy.max_volume_count import (
    MaxAzureDiskVolumeCount,
    MaxCinderVolumeCount,
    MaxEBSVolumeCount,
    MaxGCEPDVolumeCount,
)
from berth.engine.legacy.no_execute_taints import PodToleratesNodeNoExecuteTaints
from berth.engine.legacy.node_conditions import (
    CheckNodeCondition,
    CheckNodeDiskPressure,
    CheckNodeMemoryPressure,
    CheckNodePIDPressure,
)
from berth.engine.legacy.node_prefer_avoid_pods import NodePreferAvoidPodsPriority
from berth.engine.legacy.resource_limits import ResourceLimitsPriority
from berth.engine.legacy.selector_spread import SelectorSpreadPriority, ServiceSpreadingPriority
from berth.engine.legacy.service_anti_affinity import ServiceAntiAffinity
from berth.engine.plugin import Plugin

OLD_PLUGINS: tuple[type[Plugin], ...] = (
    CheckNodeCondition,
    PodToleratesNodeNoExecuteTaints,
    CheckNodeLabelPresence,
    CheckServiceAffinity,
    MaxEBSVolumeCount,
    MaxGCEPDVolumeCount,
    MaxAzureDiskVolumeCount,
    MaxCinderVolumeCount,
    CheckNodeMemoryPressure,
    CheckNodePIDPressure,
    CheckNodeDiskPressure,
    SelectorSpreadPriority,
    ServiceSpreadingPriority,
    NodePreferAvoidPodsPriority,
    ResourceLimitsPriority,
    EqualPriority,
    ServiceAntiAffinity,
    LabelPreference,
)
