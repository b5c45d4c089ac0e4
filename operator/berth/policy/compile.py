"""From a resolved policy to the pipeline that decides: builds the plugins, and turns their refusals into field paths.

`load_policy` does everything, from the manifest on. Only it finds the problems of all entries at once: the arguments of
well-formed entries are checked even if other entries are invalid. `compile_policy` is its second half, for a policy
that was read before. Both are pure: a policy in force does not change while another one is compiled.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import TypeVar

from berth.engine.binding_points import BindingPlugin
from berth.engine.pipeline import Pipeline
from berth.engine.plugin import BadArgument, FilterPlugin, Plugin, ScorePlugin
from berth.engine.pre_filter_only import PreFilterOnly
from berth.engine.preemption.preemption import Preemption
from berth.engine.registry import UnknownPlugin, make_plugin
from berth.policy.entries import Point
from berth.policy.expressions import make_predicate, make_priority
from berth.policy.extenders import leave_to_extenders
from berth.policy.records import Policy, PolicyError, Predicate, Priority, Problem
from berth.policy.refusals import find_refusals
from berth.policy.schema import NO_BASES, examine

E = TypeVar("E", Predicate, Priority)


# Compared by identity: a generation is compiled once.
@dataclass(frozen=True, slots=True, eq=False)
class ActivePolicy:
    """A policy with all that is compiled from it; `preemption` is None if it is switched off.

    `stages` are its plugins that also run between a decision and the bind (reserve, permit, pre-bind).
    """

    policy: Policy
    pipeline: Pipeline
    preemption: Preemption | None
    stages: tuple[BindingPlugin, ...] = ()


def load_policy(manifest: Mapping[str, object], bases: Mapping[str, Policy] = NO_BASES) -> ActivePolicy:
    """Returns the policy of a manifest, ready to decide. Raises `PolicyError` with every problem, also of arguments.

    `bases` are the policies, by name, that it may be based on.
    """
    policy, problems = examine(manifest, bases)
    active, refusals = _build(policy)
    if problems or refusals:
        raise PolicyError(policy.name, (*problems, *refusals))
    return active


def activate(policy: Policy) -> ActivePolicy:
    """Returns the policy ready to decide. Raises `PolicyError` for unknown plugins and for arguments they refuse."""
    active, refusals = _build(policy)
    if refusals:
        raise PolicyError(policy.name, refusals)
    return active


def compile_policy(policy: Policy) -> Pipeline:
    """Returns the pipeline of the policy; see `activate`."""
    return activate(policy).pipeline


def _build(policy: Policy) -> tuple[ActivePolicy, list[Problem]]:
    refusals: list[Problem] = []
    predicates = leave_to_extenders(policy.predicates, policy.extenders)
    entries = list(_plugins(policy, predicates, "filter", refusals.append))
    filters = [
        PreFilterOnly(plugin) if entry.pre_filter_only else plugin
        for entry, plugin in entries
        if isinstance(plugin, FilterPlugin) and plugin.filters
    ]
    stages = tuple(plugin for _, plugin in entries if isinstance(plugin, BindingPlugin))
    scores = [
        (plugin, entry.weight)
        for entry, plugin in _plugins(policy, policy.priorities, "score", refusals.append)
        if isinstance(plugin, ScorePlugin)
    ]
    pipeline = Pipeline(
        filters, scores, policy.tie_break, node_percentage=policy.node_percentage, check_all=policy.check_all
    )
    return ActivePolicy(policy, pipeline, _preemption(policy), stages), refusals


def _preemption(policy: Policy) -> Preemption | None:
    limits = policy.preemption
    if not limits.enabled:
        return None
    return Preemption({"minCandidateNodesPercentage": limits.percentage, "minCandidateNodesAbsolute": limits.absolute})


def _plugins(
    policy: Policy, entries: Iterable[E], point: Point, refuse: Callable[[Problem], None]
) -> Iterator[tuple[E, Plugin]]:
    for entry in entries:
        try:
            yield entry, _plugin(policy, entry, point)
        except UnknownPlugin as error:
            refuse(Problem(f"{_origin(entry)}.name", error.problem))
        except BadArgument:
            for field, problem in find_refusals(entry.args, partial(_remade, policy, entry, point)):
                refuse(Problem(_path(entry, field), problem))


def _plugin(policy: Policy, entry: Predicate | Priority, point: Point) -> Plugin:
    if not entry.expression:
        return make_plugin(entry.plugin, _args(policy, entry), point, entry.name)
    parameters = dict(policy.parameters)  # CEL knows no other mapping
    if isinstance(entry, Predicate):
        return make_predicate(entry, parameters)
    return make_priority(entry, parameters)


def _remade(policy: Policy, entry: Predicate | Priority, point: Point, args: Mapping[str, object]) -> Plugin:
    return _plugin(policy, replace(entry, args=args), point)


def _args(policy: Policy, entry: Predicate | Priority) -> Mapping[str, object]:
    """Returns the entry's arguments, with those that the policy gives to every such plugin."""
    given = _given_by_policy(policy).get(entry.plugin)
    if not given:
        return entry.args
    for field, (where, _) in given.items():
        if field in entry.args:
            raise BadArgument(field, f"{where} says it too: leave one of the two out")
    return {**entry.args, **{field: value for field, (_, value) in given.items() if value is not None}}


def _given_by_policy(policy: Policy) -> Mapping[str, Mapping[str, tuple[str, object]]]:
    """Plugin -> argument -> the field of the policy that stands for it, and its value; None where it gives none."""
    given: dict[str, Mapping[str, tuple[str, object]]] = {}
    if policy.spread_defaults is not None:
        where = "spec.defaultConstraints"
        fields = ("defaultingType", "defaultConstraints")
        given["PodTopologySpread"] = {field: (where, policy.spread_defaults.get(field)) for field in fields}
    if policy.bind_timeout_seconds is not None:
        field = "bindTimeoutSeconds"
        given["VolumeBinding"] = {field: (f"spec.{field}", policy.bind_timeout_seconds)}
    return given


def _origin(entry: Predicate | Priority) -> str:
    # An entry of the base has no place in the manifest: its name stands for the index.
    return entry.origin or f"spec.{'predicates' if isinstance(entry, Predicate) else 'priorities'}[{entry.name}]"


def _path(entry: Predicate | Priority, field: str) -> str:
    parts = (_origin(entry), *(() if entry.expression else ("args",)), *((field,) if field else ()))
    return ".".join(parts)
