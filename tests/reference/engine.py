"""The decision: which nodes a pod may go to, which of them is liked most, and whom it would push out.

A verdict is in the format of the conformance vectors (tests/conformance/README.md).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from berth.model import Node, Pod

from .plugin import SUCCESS, UNRESOLVABLE, Plugin, PreFilter, Refusal
from .preemption import preemption
from .profile import Profile
from .world import World

Verdict = dict[str, Any]

NOT_ASKED_FOR = Refusal(UNRESOLVABLE, ("node(s) didn't satisfy plugin(s)",))


def judge(world: World, profile: Profile, pod: Pod) -> Verdict:
    """Everything there is to say of the pod."""
    survey = take_survey(world, profile, pod)
    fitting = survey.feasible
    prepared = {plugin.name: _prepared(plugin, pod, world) for plugin in profile.pre_filter_plugins}
    filtered = {plugin.name: _alone(plugin, pod, world) for plugin in profile.filter_plugins}
    verdict: Verdict = {
        "preFilter": {name: said for name, said in prepared.items() if said},
        "filter": {name: said for name, said in filtered.items() if said},
        "feasible": fitting,
    }
    if not fitting:
        return verdict | {"preemption": preempt(world, profile, pod)}
    given = scores(world, profile, pod, fitting)
    sums = _sums(given, profile, fitting)
    highest = max(sums.values())
    return verdict | {
        "score": given,
        "weight": {plugin.name: weight for plugin, weight in profile.score_plugins},
        "total": sums,
        "best": sorted(name for name in fitting if sums[name] == highest),
    }


def feasible(world: World, profile: Profile, pod: Pod) -> list[str]:
    """The names of the nodes that the pod may go to, sorted."""
    return take_survey(world, profile, pod).feasible


def first_refusals(world: World, profile: Profile, pod: Pod) -> dict[str, tuple[str, Refusal]]:
    """For each node that the pod may not go to, the plugin that refused it first and why ("" for no filter)."""
    return take_survey(world, profile, pod).refusals


def scores(world: World, profile: Profile, pod: Pod, names: Iterable[str]) -> dict[str, dict[str, int]]:
    """plugin -> node -> 0..100, over these nodes; plugins that have nothing to say are left out."""
    nodes = [world.nodes[name] for name in names]
    given = {plugin.name: plugin.score(pod, nodes, world) for plugin, _ in profile.score_plugins}
    return {name: by_node for name, by_node in given.items() if by_node is not None}


def totals(world: World, profile: Profile, pod: Pod, names: Sequence[str] | None = None) -> dict[str, int]:
    """The weighted sums of the scores over these nodes, or over all feasible ones."""
    names = feasible(world, profile, pod) if names is None else names
    return _sums(scores(world, profile, pod, names), profile, names)


def preempt(world: World, profile: Profile, pod: Pod) -> Verdict:
    """Whom the pod would push out on each node where that makes room for it, and the nodes it may come to choose."""
    survey = take_survey(world, profile, pod)
    codes = {name: survey.code(name) for name in world.nodes}

    def fits(imagined: World, node: Node) -> bool:
        return refusal(imagined, survey.asked, pod, node) is None

    return preemption(world, pod, codes, fits)


# --- the survey


@dataclass(frozen=True)
class Survey:
    """What the filters say: `refused` of the pod as a whole, else `refusals` by node; `asked` are those not skipped."""

    world: World
    asked: tuple[Plugin, ...]
    refused: tuple[str, PreFilter] | None
    refusals: dict[str, tuple[str, Refusal]]

    @property
    def feasible(self) -> list[str]:
        return sorted(name for name in self.world.nodes if name not in self.refusals)

    def code(self, name: str) -> str:
        """SUCCESS, or the code of the node's refusal."""
        return self.refusals[name][1].code if name in self.refusals else SUCCESS


def take_survey(world: World, profile: Profile, pod: Pod) -> Survey:
    skipped: set[str] = set()
    left: frozenset[str] | None = None
    refused: tuple[str, PreFilter] | None = None
    for plugin in profile.pre_filter_plugins:
        answer = plugin.pre_filter(pod, world)
        if answer.refuses:
            refused = (plugin.name, answer)
            if answer.code == UNRESOLVABLE:
                break
        elif answer.code != SUCCESS:
            skipped.add(plugin.name)
        elif answer.nodes is not None:
            left = answer.nodes if left is None else left & answer.nodes
    asked = tuple(plugin for plugin in profile.filter_plugins if plugin.name not in skipped)
    refusals: dict[str, tuple[str, Refusal]] = {}
    for name, node in world.nodes.items():
        if refused is not None:
            refusals[name] = (refused[0], Refusal(refused[1].code, refused[1].reasons))
        elif left is not None and name not in left:
            refusals[name] = ("", NOT_ASKED_FOR)
        elif (found := refusal(world, asked, pod, node)) is not None:
            refusals[name] = found
    return Survey(world, asked, refused, refusals)


def refusal(world: World, plugins: Sequence[Plugin], pod: Pod, node: Node) -> tuple[str, Refusal] | None:
    """The first plugin that refuses the node.

    Pods that are as important and nominated to the node count as there, and as not there: the pod must fit both ways.
    """
    nominated = [
        other
        for other, name in world.nominated
        if name == node.name and other.priority >= pod.priority and other.uid != pod.uid
    ]
    if nominated:
        found = first_refusal(world.with_pods(nominated, node.name), plugins, pod, node)
        if found is not None:
            return found
    return first_refusal(world, plugins, pod, node)


def first_refusal(world: World, plugins: Sequence[Plugin], pod: Pod, node: Node) -> tuple[str, Refusal] | None:
    for plugin in plugins:
        answer = plugin.filter(pod, node, world)
        if answer is not None:
            return plugin.name, answer
    return None


# --- parts of a verdict


def _prepared(plugin: Plugin, pod: Pod, world: World) -> Verdict:
    """What the plugin says before any node, where that is more than to go on."""
    answer = plugin.pre_filter(pod, world)
    said: Verdict = {}
    if answer.refuses or answer.nodes is not None:
        said = {"code": answer.code, "reasons": list(answer.reasons)}
    if answer.nodes is not None:
        said["nodes"] = sorted(answer.nodes)
    return said


def _alone(plugin: Plugin, pod: Pod, world: World) -> Verdict:
    """What the plugin says of every node that it refuses, asked alone."""
    if plugin.pre_filter(pod, world).code != SUCCESS:
        return {}
    answers = {name: plugin.filter(pod, node, world) for name, node in world.nodes.items()}
    return {
        name: {"code": answer.code, "reasons": list(answer.reasons)}
        for name, answer in answers.items()
        if answer is not None
    }


def _sums(given: dict[str, dict[str, int]], profile: Profile, names: Iterable[str]) -> dict[str, int]:
    weights = [(plugin.name, weight) for plugin, weight in profile.score_plugins]
    return {name: sum(given[plugin][name] * weight for plugin, weight in weights if plugin in given) for name in names}
