"""How kube-scheduler makes the plugins of a profile out of its configuration, rule for rule.

Two steps, as in Kubernetes:

1. Defaults (apis/config/v1/default_plugins.go): at each extension point, and at `multiPoint`, the configured set is
   merged into the default one. A default that is disabled goes; one that is enabled again is replaced in place, weight
   included (so that enabling it without a weight loses its default weight); the rest of the enabled ones follow.
2. Expansion (framework/runtime/framework.go): a plugin of `multiPoint` serves at each point that it implements, unless
   it is disabled there. A point that disables "*" takes nothing from `multiPoint`. Order at a point: plugins that both
   name, in the point's order; then those of `multiPoint`; then the others of the point.

The weight of a score plugin is the one at `score` if it is listed there, else the one at `multiPoint`; 0 or none
means 1.

Works on sets that have been read and checked (`importing`): every enabled name exists and none is there twice.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from berth.policy.defaults import MULTI_POINT, POINTS

MULTI = "multiPoint"
ALL = "*"
EXTENSION_POINTS = (
    "preEnqueue",
    "queueSort",
    "preFilter",
    "filter",
    "postFilter",
    "preScore",
    "score",
    "reserve",
    "permit",
    "preBind",
    "bind",
    "postBind",
    "placementGenerate",
    "placementScore",
)


@dataclass(frozen=True, slots=True)
class Enabled:
    name: str
    weight: int = 0  # 0: none given
    origin: str = field(default="", compare=False)  # where the configuration says so; empty for a default


@dataclass(frozen=True, slots=True)
class PluginSet:
    enabled: tuple[Enabled, ...] = ()
    disabled: Mapping[str, str] = field(default_factory=dict)  # name -> where the configuration says so


NOTHING = PluginSet()
DEFAULTS: Mapping[str, PluginSet] = {
    MULTI: PluginSet(tuple(Enabled(name, weight or 0) for name, weight in MULTI_POINT))
}


@dataclass(frozen=True, slots=True)
class Expansion:
    """What runs: the plugins at each point, in order, and the weights of those that score."""

    plugins: Mapping[str, tuple[str, ...]]
    weights: Mapping[str, int]

    def runs(self, plugin: str, point: str) -> bool:
        return plugin in self.plugins[point]


def expand_profile(configured: Mapping[str, PluginSet]) -> Expansion:
    merged = {
        point: _merge(DEFAULTS.get(point, NOTHING), configured.get(point, NOTHING))
        for point in (MULTI, *EXTENSION_POINTS)
    }
    plugins = {point: _expand(point, merged[point], merged[MULTI]) for point in EXTENSION_POINTS}
    return Expansion(plugins, _weights(plugins["score"], merged))


def _merge(default: PluginSet, custom: PluginSet) -> PluginSet:
    disabled = {**default.disabled, **custom.disabled}
    again = {plugin.name: plugin for plugin in custom.enabled}
    kept = [] if ALL in disabled else [plugin for plugin in default.enabled if plugin.name not in disabled]
    names = {plugin.name for plugin in kept}
    return PluginSet(
        enabled=(
            *(again.get(plugin.name, plugin) for plugin in kept),
            *(plugin for plugin in custom.enabled if plugin.name not in names),
        ),
        disabled=disabled,
    )


def _expand(point: str, here: PluginSet, multi: PluginSet) -> tuple[str, ...]:
    listed = [plugin.name for plugin in here.enabled]
    if ALL in here.disabled:
        return tuple(listed)
    offered = [
        plugin.name for plugin in multi.enabled if point in POINTS[plugin.name] and plugin.name not in here.disabled
    ]
    overriding = [name for name in listed if name in offered]
    return (
        *overriding,
        *(name for name in offered if name not in listed),
        *(name for name in listed if name not in overriding),
    )


def _weights(scoring: tuple[str, ...], merged: Mapping[str, PluginSet]) -> dict[str, int]:
    given: dict[str, int] = {}
    for plugin in (*merged["score"].enabled, *merged[MULTI].enabled):
        given.setdefault(plugin.name, plugin.weight or 1)
    return {name: given[name] for name in scoring}
