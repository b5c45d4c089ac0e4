"""Every plugin by the name that kube-scheduler gives it, and how one is made from its arguments."""

from collections.abc import Mapping
from typing import Any, Literal

from berth.engine.plugin import BadArgument, Plugin
from berth.engine.plugins.image_locality import ImageLocality
from berth.engine.plugins.node_affinity import NodeAffinity
from berth.engine.plugins.node_name import NodeName
from berth.engine.plugins.node_ports import NodePorts
from berth.engine.plugins.node_resources_balanced_allocation import NodeResourcesBalancedAllocation
from berth.engine.plugins.node_resources_fit import NodeResourcesFit
from berth.engine.plugins.node_unschedulable import NodeUnschedulable
from berth.engine.plugins.taint_toleration import TaintToleration
from berth.engine.plugins.unsupported import (
    DynamicResources,
    InterPodAffinity,
    NodeDeclaredFeatures,
    NodeVolumeLimits,
    PodTopologySpread,
    VolumeRestrictions,
    VolumeZone,
)
from berth.engine.plugins.volume_binding import VolumeBinding

PLUGINS: Mapping[str, type[Plugin]] = {
    plugin.name: plugin
    for plugin in (
        NodeUnschedulable,
        NodeName,
        TaintToleration,
        NodeAffinity,
        NodePorts,
        NodeResourcesFit,
        VolumeRestrictions,
        NodeVolumeLimits,
        VolumeBinding,
        VolumeZone,
        PodTopologySpread,
        InterPodAffinity,
        DynamicResources,
        NodeResourcesBalancedAllocation,
        ImageLocality,
        NodeDeclaredFeatures,
    )
}


class UnknownPlugin(KeyError):
    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.name = name

    def __str__(self) -> str:
        return f"no plugin is called {self.name!r}; known are {', '.join(sorted(PLUGINS))}"


def make_plugin(name: str, args: Mapping[str, Any], point: Literal["filter", "score"]) -> Plugin:
    """The plugin of that name; UnknownPlugin or BadArgument where there is none like it."""
    kind = PLUGINS.get(name)
    if kind is None:
        raise UnknownPlugin(name)
    if not (kind.filters if point == "filter" else kind.scores):
        raise BadArgument("", f"{name} does not {point} nodes")
    return kind(args)
