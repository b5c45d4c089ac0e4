"""From a resolved policy to the pipeline that decides: builds the plugins, and turns their refusals into field paths.

`load_policy` is the whole way from a manifest, and the only one that finds every problem at once: the arguments of
well-formed entries are tried even where other entries are wrong. `compile_policy` is its second half, for a policy
that exists already. Both are pure: nothing of a policy in force changes while another is compiled beside it.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import TypeVar

from berth.engine.pipeline import Pipeline
from berth.engine.plugin import BadArgument, Plugin
from berth.engine.pre_filter_only import PreFilterOnly
from berth.engine.registry import UnknownPlugin, make_plugin
from berth.policy.entries import Point
from berth.policy.records import Policy, PolicyError, Predicate, Priority, Problem
from berth.policy.schema import examine

E = TypeVar("E", Predicate, Priority)


# Compared by identity: a generation is compiled once.
@dataclass(frozen=True, slots=True, eq=False)
class ActivePolicy:
    """A policy with the pipeline compiled from it."""

    policy: Policy
    pipeline: Pipeline


def load_policy(manifest: Mapping[str, object]) -> ActivePolicy:
    """The manifest as a policy ready to decide. Raises `PolicyError` with every problem, arguments included."""
    policy, problems = examine(manifest)
    pipeline, refusals = _build(policy)
    if problems or refusals:
        raise PolicyError(policy.name, (*problems, *refusals))
    return ActivePolicy(policy, pipeline)


def compile_policy(policy: Policy) -> Pipeline:
    """The pipeline of the policy. Raises `PolicyError` for plugins that do not exist and arguments that they refuse."""
    pipeline, refusals = _build(policy)
    if refusals:
        raise PolicyError(policy.name, refusals)
    return pipeline


def _build(policy: Policy) -> tuple[Pipeline, list[Problem]]:
    refusals: list[Problem] = []
    filters = [
        PreFilterOnly(plugin) if entry.pre_filter_only else plugin
        for entry, plugin in _plugins(policy.predicates, "filter", refusals.append)
    ]
    scores = [(plugin, entry.weight) for entry, plugin in _plugins(policy.priorities, "score", refusals.append)]
    return Pipeline(filters, scores, policy.tie_break), refusals


def _plugins(entries: Iterable[E], point: Point, refuse: Callable[[Problem], None]) -> Iterator[tuple[E, Plugin]]:
    for entry in entries:
        try:
            yield entry, make_plugin(entry.plugin, entry.args, point, entry.name)
        except UnknownPlugin:
            refuse(Problem(f"{_origin(entry)}.name", f'"{entry.plugin}" is not a plugin'))
        except BadArgument as error:
            refuse(Problem(_argument(entry, error.field), error.problem))


def _origin(entry: Predicate | Priority) -> str:
    # An entry of the default profile has no place in the manifest: its name stands for the index.
    return entry.origin or f"spec.{'predicates' if isinstance(entry, Predicate) else 'priorities'}[{entry.name}]"


def _argument(entry: Predicate | Priority, field: str) -> str:
    return f"{_origin(entry)}.args.{field}" if field else f"{_origin(entry)}.args"
