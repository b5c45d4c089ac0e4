"""What a case's profile changes of the default one: arguments, weights, plugins switched off and on."""

from __future__ import annotations

from collections.abc import Sequence

from .case import Body, Case

FILTERS = [
    "NodeUnschedulable",
    "TaintToleration",
    "NodeAffinity",
    "NodePorts",
    "NodeResourcesFit",
    "PodTopologySpread",
    "InterPodAffinity",
]
SCORES = [
    "TaintToleration",
    "NodeAffinity",
    "NodeResourcesFit",
    "PodTopologySpread",
    "InterPodAffinity",
    "NodeResourcesBalancedAllocation",
    "ImageLocality",
]
RESOURCES = ["cpu", "memory", "example.com/gpu"]


def fit_strategy(case: Case) -> None:
    kind = case.pick(["LeastAllocated", "MostAllocated", "RequestedToCapacityRatio"])
    weighed = [{"name": name, "weight": case.number(1, 5)} for name in case.some(RESOURCES, 1)]
    strategy: Body = {"type": kind, "resources": weighed}
    if kind == "RequestedToCapacityRatio":
        points = sorted(case.some(list(range(0, 101, 10)), 2, 4))
        shape = [{"utilization": point, "score": case.number(0, 10)} for point in points]
        strategy["requestedToCapacityRatio"] = {"shape": shape}
    case.args["NodeResourcesFit"] = {"scoringStrategy": strategy}
    if case.chance(0.2):
        case.args["NodeResourcesFit"]["ignoredResources"] = ["example.com/gpu"]
    if case.chance(0.1):
        case.args["NodeResourcesFit"]["ignoredResourceGroups"] = ["example.com"]
    if case.chance(0.3):
        balanced = [{"name": name, "weight": 1} for name in case.some(RESOURCES, 1)]
        case.args["NodeResourcesBalancedAllocation"] = {"resources": balanced}


def reweigh(case: Case) -> None:
    for name in SCORES:
        if case.chance(0.3):
            case.weights[name] = case.number(1, 20)


def switch_plugins(case: Case) -> None:
    """Plugins off and on, at one point or at all of them, with and without weights."""
    case.weights = {}
    match case.pick(["point", "multi", "star", "star-point", "both"]):
        case "point":
            case.plugins = {
                "filter": {"disabled": _named(case.some(FILTERS, 0, 3))},
                "score": {"disabled": _named(case.some(SCORES, 0, 4))},
            }
        case "multi":
            off = case.some(SCORES, 1, 3)
            on = _weighed(case, case.some([name for name in SCORES if name not in off], 0, 2))
            case.plugins = {"multiPoint": {"disabled": _named(off), "enabled": on}}
        case "star":
            on = [*_named(["PrioritySort", "DefaultBinder"]), *_weighed(case, case.some(SCORES, 1))]
            case.plugins = {"multiPoint": {"disabled": _named("*"), "enabled": on}}
        case "star-point":
            on = _weighed(case, case.some(SCORES, 1))
            case.plugins = {"score": {"disabled": _named("*"), "enabled": on}}
        case _:
            name = case.pick(SCORES)
            case.plugins = {
                "multiPoint": {"enabled": [{"name": name, "weight": 3}]},
                "score": {"enabled": [{"name": name, "weight": case.number(1, 9)}]},
            }


def _named(names: Sequence[str]) -> list[Body]:
    return [{"name": name} for name in names]


def _weighed(case: Case, names: Sequence[str]) -> list[Body]:
    return [{"name": name, **({"weight": case.number(0, 9)} if case.chance(0.7) else {})} for name in names]
