"""Small clusters of every theme for the engine's tests, and the arguments that plugins get on them."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any, Literal

from berth.engine.plugin import FilterPlugin, Plugin
from berth.engine.registry import PLUGINS
from berth.engine.state.state import State
from berth.model import Node, Pod, object_key, parse, parse_pod
from conformance.cases import some_of_each_theme

Point = Literal["filter", "score"]

# Plugins that do nothing without arguments.
NEEDED_ARGUMENTS: Mapping[str, Mapping[str, Any]] = {
    "CheckNodeLabelPresence": {"labels": ["disk", "gen"], "presence": True},
    "CheckServiceAffinity": {"labels": ["rack", "arch"]},
    "LabelPreference": {"label": "disk", "presence": True},
    "ServiceAntiAffinity": {"label": "rack"},
}


# The records of the worlds' objects, by the identity of the bodies, which live as long as the process: every plugin is
# asked about every world, and most of the time went into reading the same objects again.
_records: dict[int, Any] = {}


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
        record = _records.get(id(body)) or parse(body["kind"], body)
        if isinstance(record, Node):
            state.table.set_node(record)
        elif not isinstance(record, Pod):
            state.put(body["kind"], object_key(body), record)
        elif record.node_name:
            state.table.add_pod(record, record.node_name)
    return state


@cache
def worlds() -> tuple[World, ...]:
    return tuple(_world(vector) for vector in some_of_each_theme(6))


def _world(vector: Mapping[str, Any]) -> World:
    _records.update((id(body), parse(body["kind"], body)) for body in vector["objects"])
    return World(vector["id"], tuple(vector["objects"]), parse_pod(vector["pod"]), _plugin_args(vector["config"]))


def _plugin_args(config: Mapping[str, Any]) -> Mapping[str, Mapping[str, Any]]:
    entries = [entry for profile in config.get("profiles", []) for entry in profile.get("pluginConfig", [])]
    return {e["name"]: {k: v for k, v in e["args"].items() if k not in ("apiVersion", "kind")} for e in entries}


def arguments(kind: type[Plugin], world: World) -> Mapping[str, Any]:
    """The arguments that the world's configuration gives the plugin, where it takes them; else those that it needs."""
    given = world.args.get(kind.name, {})
    try:
        kind(dict(given))
    except ValueError:
        return NEEDED_ARGUMENTS.get(kind.name, {})
    return given


def point_of(name: str) -> Point:
    """The extension point that a test asks the plugin at."""
    return "filter" if PLUGINS[name].filters else "score"


def make_filter_for(name: str, world: World) -> FilterPlugin:
    """The plugin with the arguments that the world's configuration gives it, where it takes them."""
    plugin = PLUGINS[name](dict(arguments(PLUGINS[name], world)))
    assert isinstance(plugin, FilterPlugin), name
    return plugin
