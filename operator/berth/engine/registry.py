"""The plugin registry: all plugins by name, and how an instance is made from its arguments.

`OWN_PLUGINS` have the names that kube-scheduler gives them. `PLUGINS` also has those of installed packages
(custom_plugins/entry_points.py), which are imported when they are looked up.
"""

from collections.abc import Iterator, Mapping
from copy import deepcopy
from typing import Any, Literal

from berth.engine.binding_points import takes_part
from berth.engine.custom_plugins.entry_points import InstalledPlugins, Unusable
from berth.engine.custom_plugins.plugin_validation import in_words
from berth.engine.legacy import OLD_PLUGINS
from berth.engine.legacy.aliases import ALIASES
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

OWN_PLUGINS: Mapping[str, type[Plugin]] = {plugin.name: plugin for plugin in (*_TODAYS, *OLD_PLUGINS)}


class _Plugins(Mapping[str, type[Plugin]]):
    """Berth's own plugins first: no other package can use their names or aliases."""

    def __init__(self) -> None:
        self._installed = InstalledPlugins(taken={*OWN_PLUGINS, *ALIASES["filter"], *ALIASES["score"]})

    def __getitem__(self, name: str) -> type[Plugin]:
        """Raises UnknownPlugin, or UnusablePlugin if the plugin of a package cannot be used."""
        own = OWN_PLUGINS.get(name)
        if own is not None:
            return own
        try:
            found = self._installed.find(name)
        except Unusable as error:
            raise UnusablePlugin(name, str(error)) from error
        if found is None:
            raise UnknownPlugin(name)
        return found

    def __contains__(self, name: object) -> bool:
        return name in OWN_PLUGINS or name in self._installed.names()

    def __iter__(self) -> Iterator[str]:
        yield from OWN_PLUGINS
        yield from self._installed.names()

    def __len__(self) -> int:
        return len(OWN_PLUGINS) + len(self._installed.names())


PLUGINS: Mapping[str, type[Plugin]] = _Plugins()


class UnknownPlugin(KeyError):
    """No plugin has this name. `problem` completes an error message about the field with the name."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.name = name
        self.problem = f'"{name}" is not a plugin'

    def __str__(self) -> str:
        return f"no plugin is called {self.name!r}; known are {', '.join(sorted(PLUGINS))}"


class UnusablePlugin(UnknownPlugin):
    """A package has the plugin, but it cannot be used."""

    def __init__(self, name: str, problem: str) -> None:
        super().__init__(name)
        self.problem = f'"{name}" cannot be used: {problem}'

    def __str__(self) -> str:
        return self.problem


def serves(kind: type[Plugin], point: Literal["filter", "score"]) -> bool:
    """Whether a policy may list the plugin there; plugins with only binding extension points count as filters."""
    return kind.filters or takes_part(kind) if point == "filter" else kind.scores


def make_plugin(
    name: str, args: Mapping[str, Any], point: Literal["filter", "score"], called: str | None = None
) -> Plugin:
    """Returns a new plugin; raises UnknownPlugin or BadArgument.

    `called` is the name of the instance, if a policy has several of one kind.
    """
    kind = PLUGINS[name]
    if not serves(kind, point):
        raise BadArgument("", f"{name} does not {point} nodes")
    plugin = kind(args) if name in OWN_PLUGINS else _made_with_care(kind, args)
    if called is not None:
        plugin.name = called
    return plugin


def _made_with_care(kind: type[Plugin], args: Mapping[str, Any]) -> Plugin:
    """Makes a plugin of another package, with a copy of the arguments, which it may keep and change."""
    try:
        return kind(deepcopy(dict(args)))
    except BadArgument:
        raise
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # third-party code may raise anything
        raise BadArgument("", f"{kind.name} cannot be made from these: {in_words(error)}") from error
