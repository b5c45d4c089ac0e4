"""What a profile of kube-scheduler may say and a SchedulingPolicy cannot: a warning for each, with the field.

In a policy a plugin filters or not, and scores or not; what prepares its filter (preFilter) and what follows from it
(reserve, preBind) comes with it. A profile may separate these, or switch off what Berth always does. A policy has no
field for that, so the import warns.
"""

from collections.abc import Mapping

from berth.policy.defaults import POINTS
from berth.policy.importing.configuration import ImportedProfile
from berth.policy.importing.expansion import ALL, EXTENSION_POINTS, MULTI, Expansion, PluginSet

# What a plugin does at these points goes with its filter or its score, and cannot be had without; but for what these
# say before any node is looked at.
_WITH_FILTER = ("preFilter", "reserve", "preBind")
TELLING_BEFORE = ("NodeAffinity", "VolumeRestrictions", "VolumeBinding", "VolumeZone", "DynamicResources")
_ALWAYS = {
    ("SchedulingGates", "preEnqueue"): "Berth always holds back pods with scheduling gates",
    ("DynamicResources", "postFilter"): "a SchedulingPolicy says nothing about it",
}


def check_counterparts(profile: ImportedProfile, sets: Mapping[str, PluginSet], expansion: Expansion) -> None:
    _check_required(profile, expansion)
    for name, points in POINTS.items():
        for point in EXTENSION_POINTS:  # in a fixed order, so that the same configuration reads the same every time
            if point in points:
                _check_point(profile, sets, expansion, name, point)


def _check_required(profile: ImportedProfile, expansion: Expansion) -> None:
    where = f"{profile.where}.plugins"
    if len(expansion.plugins["queueSort"]) != 1:
        profile.notes.error(f"{where}.queueSort", "kube-scheduler needs exactly one plugin here: PrioritySort")
    if not expansion.plugins["bind"]:
        profile.notes.error(f"{where}.bind", "kube-scheduler needs a plugin here: DefaultBinder")


def _check_point(
    profile: ImportedProfile, sets: Mapping[str, PluginSet], expansion: Expansion, name: str, point: str
) -> None:
    runs = expansion.runs(name, point)
    if point in _WITH_FILTER or (name, point) == ("DynamicResources", "preEnqueue"):
        _check_companion(profile, sets, expansion, name, point, "filter")
    elif point == "preScore":
        # preScore alone decides nothing, so only its absence tells.
        if not runs:
            _check_companion(profile, sets, expansion, name, point, "score")
    elif (name, point) in _ALWAYS:
        wanted = name != "DynamicResources" or expansion.runs(name, "filter")
        if wanted and not runs:
            _warn_disabled(profile, sets, name, point, _ALWAYS[name, point])
    elif runs and point in ("permit", "placementGenerate", "placementScore") and _said(sets, name, point):
        profile.notes.warn(
            _said(sets, name, point), f"{name} has no counterpart at {point}: pods are placed one by one"
        )


def _check_companion(
    profile: ImportedProfile, sets: Mapping[str, PluginSet], expansion: Expansion, name: str, point: str, main: str
) -> None:
    """A plugin's filter or score and what prepares it come together in a policy."""
    if expansion.runs(name, main) and not expansion.runs(name, point):
        _warn_disabled(profile, sets, name, point, f"{name} runs whole where it runs at {main}")
    elif point != "preFilter" and expansion.runs(name, point) and not expansion.runs(name, main):
        where = _disabled_at(profile, sets, name, main)
        left = "it is left out whole"
        if name in TELLING_BEFORE and expansion.runs(name, "preFilter"):
            left = "of it only what it says before any node is looked at is left (preFilterOnly)"
        profile.notes.warn(where, f"{name} would still run at {point}, which has no counterpart: {left}")


def _warn_disabled(
    profile: ImportedProfile, sets: Mapping[str, PluginSet], name: str, point: str, instead: str
) -> None:
    where = _disabled_at(profile, sets, name, point)
    profile.notes.warn(where, f"switching {name} off at {point} has no counterpart: {instead}")


def _disabled_at(profile: ImportedProfile, sets: Mapping[str, PluginSet], name: str, point: str) -> str:
    """The field that switches the plugin off at the point."""
    for place in (point, MULTI):
        disabled = sets[place].disabled if place in sets else {}
        for who in (name, ALL):
            if who in disabled:
                return disabled[who]
    return f"{profile.where}.plugins.{point}"


def _said(sets: Mapping[str, PluginSet], name: str, point: str) -> str:
    """The field that asks for a plugin at a point where it is nothing for us by default; empty if none does."""
    for plugin in sets[point].enabled if point in sets else ():
        if plugin.name == name:
            return plugin.origin
    if POINTS[name] & {"filter", "score"}:
        return ""
    return next((plugin.origin for plugin in sets[MULTI].enabled if plugin.name == name), "") if MULTI in sets else ""
