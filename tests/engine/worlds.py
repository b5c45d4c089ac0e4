"""Small clusters of every flavour for the engine's tests, and ways to ask one plugin about them."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any, Literal

import numpy as np

from berth.engine.plugin import Plugin, Query
from berth.engine.registry import PLUGINS
from berth.engine.state.state import State
from berth.engine.verdict import Code, row_numbers
from berth.model import Node, Pod, object_key, parse, parse_pod
from conformance.cases import some_of_each_theme

Point = Literal["filter", "score"]

# Plugins that do nothing without arguments.
_NEEDED: Mapping[str, Mapping[str, Any]] = {
    "CheckNodeLabelPresence": {"labels": ["disk", "gen"], "presence": True},
    "CheckServiceAffinity": {"labels": ["rack", "arch"]},
    "LabelPreference": {"label": "disk", "presence": True},
    "ServiceAntiAffinity": {"label": "rack"},
}


@dataclass(frozen=True)
class World:
    id: str
    objects: tuple[Mapping[str, Any], ...]
    pod: Pod
    args: Mapping[str, Mapping[str, Any]]


def state_of(objects: Iterable[Mapping[str, Any]]) -> State:
    """A state filled in the order given, pods after everything else."""
    state = State()
    for body in sorted(objects, key=lambda body: body["kind"] == "Pod"):
        record = parse(body["kind"], body)
        if isinstance(record, Node):
            state.table.set_node(record)
        elif not isinstance(record, Pod):
            state.put(body["kind"], object_key(body), record)
        elif record.node_name:
            state.table.add_pod(record, record.node_name)
    return state


@cache
def worlds() -> tuple[World, ...]:
    return tuple(
        World(v["id"], tuple(v["objects"]), parse_pod(v["pod"]), _plugin_args(v["config"]))
        for v in some_of_each_theme(6)
    )


def _plugin_args(config: Mapping[str, Any]) -> Mapping[str, Mapping[str, Any]]:
    entries = [entry for profile in config.get("profiles", []) for entry in profile.get("pluginConfig", [])]
    return {e["name"]: {k: v for k, v in e["args"].items() if k not in ("apiVersion", "kind")} for e in entries}


def arguments(kind: type[Plugin], world: World) -> Mapping[str, Any]:
    """The arguments that the world's configuration gives the plugin, where it takes them; else those that it needs."""
    given = world.args.get(kind.name, {})
    try:
        kind(dict(given))
    except ValueError:
        return _NEEDED.get(kind.name, {})
    return given


def point_of(name: str) -> Point:
    """The extension point that a test asks the plugin at."""
    return "filter" if PLUGINS[name].filters else "score"


def make(name: str, world: World) -> Plugin:
    """The plugin with the arguments that the world's configuration gives it, where it takes them."""
    return PLUGINS[name](dict(arguments(PLUGINS[name], world)))


def verdicts_by_name(plugin: Plugin, world: World, state: State, rows: Any = None) -> dict[str, tuple[Code, Any]] | str:
    """What the filter says of each node, by name; or in one word that it has nothing to say."""
    query = Query(world.pod, state.table)
    answer = plugin.pre_filter(query, state)
    if answer.skip or answer.code is not Code.FITS:
        return f"{answer.skip} {answer.code} {answer.reasons}"
    rows = state.table.rows if rows is None else rows
    verdicts = plugin.filter(query, state, rows)
    assert len(verdicts.codes) == len(verdicts.causes) == len(row_numbers(rows))
    return {
        state.table.name(int(row)): (Code(int(code)), verdicts.reasons(i) if code else None)
        for i, (row, code) in enumerate(zip(row_numbers(rows), verdicts.codes, strict=True))
    }


def scores_by_name(
    plugin: Plugin, world: World, state: State, rows: Any = None, normal: bool = True
) -> dict[str, int] | None:
    query = Query(world.pod, state.table)
    if not plugin.pre_score(query, state):
        return None
    rows = state.table.rows if rows is None else rows
    column = plugin.score(query, state, rows)
    assert column.dtype == np.int64
    if normal:
        column = plugin.normalize(column)
    return {state.table.name(int(r)): int(s) for r, s in zip(row_numbers(rows), column, strict=True)}
