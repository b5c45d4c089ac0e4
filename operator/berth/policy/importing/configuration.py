"""The parts of a KubeSchedulerConfiguration that a policy is made of: plugin sets and arguments, read and checked.

Each reader takes what it can use, notes the rest as a problem with its path, and goes on: one pass finds everything.
What comes out is safe to expand (`profiles`): enabled names exist, serve at their point and are there once.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Literal

from berth.engine.plugins.common.strategies import TYPES
from berth.engine.preemption.preemption import Preemption
from berth.engine.registry import UnknownPlugin, make_plugin
from berth.policy.defaults import KUBERNETES_VERSION, POINTS
from berth.policy.entries import Point
from berth.policy.fields.entry_fields import WEIGHT_MAX
from berth.policy.fields.setting_fields import LONGEST_SECONDS
from berth.policy.importing.expansion import ALL, EXTENSION_POINTS, MULTI, Enabled, Expansion, PluginSet
from berth.policy.reading import refuse_unknown
from berth.policy.refusals import find_refusals
from berth.policy.wording import show

Severity = Literal["error", "warning"]

GROUP = "kubescheduler.config.k8s.io"
VERSIONS = (f"{GROUP}/v1", f"{GROUP}/v1beta3")

# Counted the volumes of one cloud each; gone since v1, their work is done by NodeVolumeLimits.
RETIRED_PLUGINS = frozenset({"AzureDiskLimits", "CinderLimits", "EBSLimits", "GCEPDLimits"})

PLUGIN_FIELDS, CONFIG_FIELDS = ("name", "weight"), ("name", "args")
PREEMPTION = "DefaultPreemption"
BIND_TIMEOUT = "bindTimeoutSeconds"
_DEFAULT_RESOURCES = [{"name": "cpu", "weight": 1}, {"name": "memory", "weight": 1}]
# Plugins that take arguments, and the default of each argument: a default is not written into the policy.
DEFAULT_ARGS: Mapping[str, Mapping[str, object]] = {
    PREEMPTION: {"minCandidateNodesPercentage": 10, "minCandidateNodesAbsolute": 100},
    "DynamicResources": {"filterTimeout": "10s", "bindingTimeout": "10m0s"},
    "InterPodAffinity": {"hardPodAffinityWeight": 1, "ignorePreferredTermsOfExistingPods": False},
    "NodeAffinity": {},
    "NodeResourcesBalancedAllocation": {"resources": _DEFAULT_RESOURCES},
    "NodeResourcesFit": {
        "ignoredResources": [],
        "ignoredResourceGroups": [],
        "scoringStrategy": {"type": "LeastAllocated", "resources": _DEFAULT_RESOURCES},
    },
    "PodTopologySpread": {"defaultConstraints": [], "defaultingType": "System"},
    "VolumeBinding": {"bindTimeoutSeconds": 600},
}


@dataclass(frozen=True, slots=True)
class ImportProblem:
    """A part of a configuration that the manifests do not carry over."""

    field: str
    message: str
    severity: Severity

    def __str__(self) -> str:
        return f"{self.severity}: {self.field}: {self.message}"


@dataclass(slots=True)
class Notes:
    """Collects problems, each once."""

    problems: dict[ImportProblem, None] = field(default_factory=dict)

    def error(self, where: str, message: str) -> None:
        self.problems[ImportProblem(where, message, "error")] = None

    def warn(self, where: str, message: str) -> None:
        self.problems[ImportProblem(where, message, "warning")] = None

    def all(self) -> tuple[ImportProblem, ...]:
        return tuple(self.problems)


@dataclass(frozen=True, slots=True)
class ImportedProfile:
    body: Mapping[str, object]
    where: str
    retired_allowed: bool
    notes: Notes


# --- plugins


def read_plugin_sets(profile: ImportedProfile) -> dict[str, PluginSet]:
    where = f"{profile.where}.plugins"
    plugins = read_mapping(profile.body.get("plugins") or {}, where, profile.notes)
    sets = {}
    for point, body in plugins.items():
        if point != MULTI and point not in EXTENSION_POINTS:
            profile.notes.error(f"{where}.{point}", "is not an extension point")
        elif body is not None:
            sets[point] = _read_plugin_set(profile, point, read_mapping(body, f"{where}.{point}", profile.notes))
    return sets


def _read_plugin_set(profile: ImportedProfile, point: str, body: Mapping[str, object]) -> PluginSet:
    where, notes = f"{profile.where}.plugins.{point}", profile.notes
    for key in body:
        if key not in ("enabled", "disabled"):
            notes.error(f"{where}.{key}", "unknown field of a plugin set")
    enabled: dict[str, Enabled] = {}
    for origin, item in read_items(body.get("enabled"), f"{where}.enabled", notes):
        plugin = _read_enabled(profile, point, origin, item)
        if plugin is None:
            continue
        if plugin.name in enabled:
            notes.error(origin, f"{plugin.name} is enabled here already, at {enabled[plugin.name].origin}")
        else:
            enabled[plugin.name] = plugin
    disabled = {}
    for origin, item in read_items(body.get("disabled"), f"{where}.disabled", notes):
        name = _plugin_name(item, origin, PLUGIN_FIELDS, notes)
        if name not in (None, ALL, *POINTS, *RETIRED_PLUGINS):
            notes.warn(origin, f"{show(name)} is not a plugin of Kubernetes {KUBERNETES_VERSION}: nothing to disable")
        elif name is not None:
            disabled[name] = origin
    return PluginSet(tuple(enabled.values()), disabled)


def _read_enabled(profile: ImportedProfile, point: str, origin: str, item: object) -> Enabled | None:
    name, notes = _plugin_name(item, origin, PLUGIN_FIELDS, profile.notes), profile.notes
    if name is None:
        return None
    if name in RETIRED_PLUGINS and profile.retired_allowed:
        notes.warn(origin, f"{name} is gone from Kubernetes {KUBERNETES_VERSION}: NodeVolumeLimits does its work")
    elif name not in POINTS:
        notes.error(origin, f"{show(name)} is not a plugin of Kubernetes {KUBERNETES_VERSION}")
    elif point != MULTI and point not in POINTS[name]:
        notes.error(origin, f"{name} does not serve at {point}; it does at {', '.join(sorted(POINTS[name]))}")
    else:
        return Enabled(name, _read_weight(item, origin, notes), origin)
    return None


def _plugin_name(item: object, origin: str, known: tuple[str, ...], notes: Notes) -> str | None:
    """The name in an item of a list that is about plugins; `known` are the fields that such items have."""
    body = read_mapping(item, origin, notes)
    refuse_unknown(body, known, origin, notes.error)
    name = body.get("name")
    if isinstance(name, str) and name:
        return name
    if isinstance(item, Mapping):
        notes.error(f"{origin}.name", "is required" if name is None else f"{show(name)} is not a plugin name")
    return None


def _read_weight(item: object, origin: str, notes: Notes) -> int:
    """0 where none is given, which is how kube-scheduler means 1."""
    weight = item.get("weight") if isinstance(item, Mapping) else None
    if weight is None:
        return 0
    if not isinstance(weight, int) or isinstance(weight, bool):
        notes.error(f"{origin}.weight", f"{show(weight)} is not a whole number")
    elif weight > WEIGHT_MAX:
        notes.error(f"{origin}.weight", f"{show(weight)} is more than {WEIGHT_MAX}")
    elif weight < 0:
        notes.error(f"{origin}.weight", f"{show(weight)} has no counterpart: a policy's weights are 1 or more")
    else:
        return weight
    return 0


# --- arguments


def read_plugin_config(profile: ImportedProfile, expansion: Expansion) -> dict[str, Mapping[str, object]]:
    """Plugin -> the arguments that differ from its defaults, for plugins that filter, score or preempt."""
    found: dict[str, Mapping[str, object]] = {}
    seen: dict[str, str] = {}
    for origin, item in read_items(profile.body.get("pluginConfig"), f"{profile.where}.pluginConfig", profile.notes):
        name = _plugin_name(item, origin, CONFIG_FIELDS, profile.notes)
        if name is None:
            continue
        if name in seen:
            profile.notes.error(origin, f"{name} is configured already, at {seen[name]}")
            continue
        seen[name] = origin
        args = _read_args(profile, name, origin, item.get("args") if isinstance(item, Mapping) else None)
        if args and _accept_args(profile, name, origin, args, expansion):
            found[name] = args
    return found


def _read_args(profile: ImportedProfile, name: str, origin: str, value: object) -> Mapping[str, object]:
    where, notes = f"{origin}.args", profile.notes
    if name in RETIRED_PLUGINS and profile.retired_allowed:
        return {}
    if name not in POINTS:
        notes.error(f"{origin}.name", f"{show(name)} is not a plugin of Kubernetes {KUBERNETES_VERSION}")
        return {}
    args = dict(read_mapping(value if value is not None else {}, where, notes))
    version, kind = args.pop("apiVersion", None), args.pop("kind", None)
    if name not in DEFAULT_ARGS:
        if args:
            notes.warn(where, f"{name} takes no arguments: kube-scheduler ignores them")
        return {}
    if kind is not None and kind != f"{name}Args":
        notes.error(f"{where}.kind", f"{show(kind)} is not {name}Args")
    if version is not None and version not in VERSIONS:
        notes.error(f"{where}.apiVersion", f"{show(version)} is not one of {', '.join(VERSIONS)}")
    given = _without_nulls(args, depth=0)
    assert isinstance(given, dict)
    if BIND_TIMEOUT in given and name == "VolumeBinding":
        given[BIND_TIMEOUT] = cut_seconds(given[BIND_TIMEOUT], f"{where}.{BIND_TIMEOUT}", notes)
    _require_strategy_type(given.get("scoringStrategy"), f"{where}.scoringStrategy", notes)
    return {key: value for key, value in given.items() if not _is_default(name, key, value)}


def _require_strategy_type(strategy: object, where: str, notes: Notes) -> None:
    """A policy may leave it out and means LeastAllocated; kube-scheduler does not start without it."""
    if isinstance(strategy, Mapping) and not strategy.get("type"):
        notes.error(f"{where}.type", f"is required: one of {', '.join(TYPES)}")


def _is_default(name: str, key: str, value: object) -> bool:
    defaults = DEFAULT_ARGS[name]
    return key in defaults and asks_nothing(value, (defaults[key],))


def _accept_args(
    profile: ImportedProfile, name: str, origin: str, args: Mapping[str, object], expansion: Expansion
) -> bool:
    """Lets the plugin look at them wherever it is used; a plugin that is nowhere used has none."""
    points: list[Point] = [point for point in _POLICY_POINTS if expansion.runs(name, point)]
    makers: list[Callable[[Mapping[str, object]], object]] = [partial(_make, name, point) for point in points]
    if name == PREEMPTION and expansion.runs(name, "postFilter"):
        makers.append(Preemption)
    for make in makers:
        try:
            for field, problem in find_refusals(args, make):
                profile.notes.error(f"{origin}.args.{field}" if field else f"{origin}.args", problem)
        except UnknownPlugin:
            profile.notes.error(f"{origin}.name", f"{name} is not a plugin of Berth")
    return bool(makers)


def _make(name: str, point: Point, args: Mapping[str, object]) -> object:
    return make_plugin(name, args, point)


_POLICY_POINTS: tuple[Point, Point] = ("filter", "score")
_ARGS_MAX_DEPTH = 64


def _without_nulls(value: object, depth: int) -> object:
    """JSON without the fields that are null: kube-scheduler reads them as not given."""
    if depth > _ARGS_MAX_DEPTH:
        return value  # no plugin takes anything so deep: it is for the plugin to refuse
    if isinstance(value, Mapping):
        return {str(key): _without_nulls(item, depth + 1) for key, item in value.items() if item is not None}
    if isinstance(value, list | tuple):
        return [_without_nulls(item, depth + 1) for item in value]
    return value


# --- small readers


def read_mapping(value: object, where: str, notes: Notes) -> Mapping[str, object]:
    if isinstance(value, Mapping):
        return value
    notes.error(where, "is required" if value is None else f"{show(value)} is not a mapping")
    return {}


def read_items(value: object, where: str, notes: Notes) -> list[tuple[str, object]]:
    """The items of a list, each with its path."""
    if value is None:
        return []
    if not isinstance(value, list | tuple):
        notes.error(where, f"{show(value)} is not a list")
        return []
    return [(f"{where}[{index}]", item) for index, item in enumerate(value)]


def cut_seconds(value: object, where: str, notes: Notes) -> object:
    """At most what a policy may say, which is told; kube-scheduler has no such bound."""
    if not isinstance(value, int) or value <= LONGEST_SECONDS:
        return value
    notes.warn(where, f"is more than the {LONGEST_SECONDS} seconds that a policy may say, and is written so")
    return LONGEST_SECONDS


def asks_nothing(value: object, defaults: Sequence[object]) -> bool:
    return any(value == default and type(value) is type(default) for default in defaults)
