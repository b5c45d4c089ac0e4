"""Every plugin by the name that kube-scheduler gives it, and how one is made from its arguments."""

from collections.abc import Mapping
from typing import Any, Literal

from berth.engine.legacy import OLD_PLUGINS
from berth.engine.plugin import BadArgument, Plugin
from berth.engine.plugins.dynamic_resources import DynamicResources
from berth.engine.plugins.image_locality import ImageLocality
from berth.engine.plugins.inter_pod_affinity import InterPodAffinity
from berth.engine.plugins.node_affinity import NodeAffinity
from berth.engine.plugins.node_declared_features import NodeDeclaredFeatures
from berth.engine.plugins.node_name import NodeName
from berth.engine.plugins.node_ports import NodePorts
from berth.engine.plugins.node_resources_balanced_allocation import NodeResourcesBalancedAllocation
from berth.engine.plugins.node_resources_fit import NodeResourcesFit
from berth.engine.plugins.node_unschedulable import NodeUnschedulable
from berth.engine.plugins.node_volume_limits import NodeVolumeLimits
from berth.engine.plugins.pod_topology_spread import PodTopologySpread
from berth.engine.plugins.taint_toleration import TaintToleration
from berth.engine.plugins.volume_binding import VolumeBinding
from berth.engine.plugins.volume_restrictions import VolumeRestrictions
from berth.engine.plugins.volume_zone import VolumeZone

_TODAYS: tuple[type[Plugin], ...] = (
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

PLUGINS: Mapping[str, type[Plugin]] = {plugin.name: plugin for plugin in (*_TODAYS, *OLD_PLUGINS)}


class UnknownPlugin(KeyError):
    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.name = name

    def __str__(self) -> str:
        return f"no plugin is called {self.name!r}; known are {', '.join(sorted(PLUGINS))}"


def make_plugin(
    name: str, args: Mapping[str, Any], point: Literal["filter", "score"], called: str | None = None
) -> Plugin:
    """The plugin of that name; UnknownPlugin or BadArgument where there is none like it.

    `called` is the name that it answers to, where a policy has several of one kind.
    """
    kind = PLUGINS.get(name)
    if kind is None:
        raise UnknownPlugin(name)
    if not (kind.filters if point == "filter" else kind.scores):
        raise BadArgument("", f"{name} does not {point} nodes")
    plugin = kind(args)
    if called is not None:
        plugin.name = called
    return plugin
