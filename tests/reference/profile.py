"""Which plugins decide, with what arguments and weights."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from .plugin import Plugin
from .registry import make

Args = Mapping[str, Any]
Entry = Mapping[str, Any]

# What kube-scheduler 1.36 runs without any configuration: name -> (weight, or 0 for none; where it serves), in order.
PREPARES, FILTERS, SCORES = "preFilter", "filter", "score"
DEFAULTS: Mapping[str, tuple[int, Sequence[str]]] = {
    "NodeUnschedulable": (0, (FILTERS,)),
    "NodeName": (0, (FILTERS,)),
    "TaintToleration": (3, (FILTERS, SCORES)),
    "NodeAffinity": (2, (PREPARES, FILTERS, SCORES)),
    "NodePorts": (0, (PREPARES, FILTERS)),
    "NodeResourcesFit": (1, (PREPARES, FILTERS, SCORES)),
    "VolumeRestrictions": (0, (PREPARES, FILTERS)),
    "NodeVolumeLimits": (0, (PREPARES, FILTERS)),
    "VolumeBinding": (0, (PREPARES, FILTERS, SCORES)),
    "VolumeZone": (0, (PREPARES, FILTERS)),
    "PodTopologySpread": (2, (PREPARES, FILTERS, SCORES)),
    "InterPodAffinity": (2, (PREPARES, FILTERS, SCORES)),
    "DynamicResources": (2, (PREPARES, FILTERS, SCORES)),
    "NodeResourcesBalancedAllocation": (1, (SCORES,)),
    "ImageLocality": (1, (SCORES,)),
    "NodeDeclaredFeatures": (0, (PREPARES, FILTERS)),
}


@dataclass(frozen=True)
class Profile:
    """The filters in their order, as (name, arguments), and the scores as (name, arguments, weight).

    `preparing` are plugins whose filter is switched off but not what comes before it (preFilter): they may still
    refuse a pod as a whole, or leave it only some nodes.
    """

    filters: tuple[tuple[str, Args], ...]
    scores: tuple[tuple[str, Args, int], ...]
    preparing: tuple[tuple[str, Args], ...] = ()

    @cached_property
    def filter_plugins(self) -> tuple[Plugin, ...]:
        return tuple(make(name, args) for name, args in self.filters)

    @cached_property
    def pre_filter_plugins(self) -> tuple[Plugin, ...]:
        return (*self.filter_plugins, *(make(name, args) for name, args in self.preparing))

    @cached_property
    def score_plugins(self) -> tuple[tuple[Plugin, int], ...]:
        return tuple((make(name, args), weight) for name, args, weight in self.scores)


def default_profile() -> Profile:
    return profile_of({})


def profile_of(config: Mapping[str, Any]) -> Profile:
    """The first profile of a KubeSchedulerConfiguration, or what a scheduler Policy of old names."""
    if config.get("kind") == "Policy":
        from .legacy_profile import profile_of_policy

        return profile_of_policy(config)
    body = (config.get("profiles") or [{}])[0]
    sets = body.get("plugins") or {}
    args = {entry["name"]: entry.get("args") or {} for entry in body.get("pluginConfig") or ()}
    everywhere = _everywhere(sets.get("multiPoint") or {})

    def serving(point: str) -> dict[str, int]:
        return _at(point, sets.get(point) or {}, everywhere)

    return Profile(
        tuple((name, args.get(name, {})) for name in serving(FILTERS)),
        tuple((name, args.get(name, {}), weight or 1) for name, weight in serving(SCORES).items()),
        tuple((name, args.get(name, {})) for name in serving(PREPARES) if name not in serving(FILTERS)),
    )


def profile_of_entries(predicates: Sequence[Any], priorities: Sequence[Any]) -> Profile:
    """What a resolved SchedulingPolicy names: entries with `name`, `args` and, of priorities, `weight`."""
    return Profile(
        tuple((predicate.name, predicate.args) for predicate in predicates),
        tuple((priority.name, priority.args, priority.weight) for priority in priorities),
    )


def _everywhere(changes: Mapping[str, Sequence[Entry]]) -> dict[str, int]:
    """The defaults with the changes of `multiPoint`: what is enabled again takes its place with the weight given."""
    enabled, disabled = _enabled(changes), _disabled(changes)
    kept = {name: weight for name, (weight, _) in DEFAULTS.items() if not {name, "*"} & disabled}
    return {**kept, **enabled}


def _at(point: str, changes: Mapping[str, Sequence[Entry]], everywhere: Mapping[str, int]) -> dict[str, int]:
    """Who serves at a point: those that it names and `multiPoint` too, then the others of each."""
    enabled, disabled = _enabled(changes), _disabled(changes)
    if "*" in disabled:
        return enabled
    offered = {
        name: weight
        for name, weight in everywhere.items()
        if name in DEFAULTS and point in DEFAULTS[name][1] and name not in disabled
    }
    both = {name: weight for name, weight in enabled.items() if name in offered}
    return {**both, **offered, **enabled}


def _enabled(changes: Mapping[str, Sequence[Entry]]) -> dict[str, int]:
    return {plugin["name"]: plugin.get("weight") or 0 for plugin in changes.get("enabled") or ()}


def _disabled(changes: Mapping[str, Sequence[Entry]]) -> set[str]:
    return {plugin["name"] for plugin in changes.get("disabled") or ()}
