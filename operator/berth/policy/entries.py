"""The entries of `predicates` and `priorities` as a manifest has them: read and checked, not yet laid over anything.

An entry is about a plugin. Which one, its `name` says: today's name, or an old one that stands for it (an alias). Or
`plugin` says it, and the name is the entry's own; so a policy has several of one plugin, with other arguments.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from berth.engine.legacy.aliases import ALIASES, Alias
from berth.engine.registry import PLUGINS
from berth.policy.reading import Note, did_you_mean, read_args, read_flag, read_mapping, refuse_unknown
from berth.policy.wording import show

PLUGIN_NAME_MAX_LENGTH = 253
ENTRIES_MAX = 64
WEIGHT_MAX = 2**31 - 1  # kube-scheduler's weights are of 32 bits: whatever it takes, a policy can say

Point = Literal["filter", "score"]
LIST_OF: Mapping[Point, str] = {"filter": "predicates", "score": "priorities"}
ENTRY_FIELDS: Mapping[Point, tuple[str, ...]] = {
    "filter": ("name", "plugin", "enabled", "preFilterOnly", "args"),
    "score": ("name", "plugin", "enabled", "weight", "args"),
}


@dataclass(frozen=True, slots=True)
class Entry:
    """One item as written: None where the manifest is silent and the base speaks.

    `stands_for` are the plugins it is about and the arguments that its name implies. `own_name`: it is one more of its
    plugin, beside what the base has of it.
    """

    name: str
    origin: str
    stands_for: Alias
    own_name: bool = False
    enabled: bool = True
    weight: int | None = None
    args: Mapping[str, object] | None = field(default=None)
    pre_filter_only: bool = False


def read_entries(spec: Mapping[str, object], point: Point, note: Note) -> list[Entry]:
    key = LIST_OF[point]
    listed = spec.get(key)
    if listed is None:
        return []
    if not isinstance(listed, list | tuple):
        note(f"spec.{key}", f"{show(listed)} is not a list")
        return []
    if len(listed) > ENTRIES_MAX:
        note(f"spec.{key}", f"has {len(listed)} entries, may have {ENTRIES_MAX}")
        return []
    entries: dict[str, Entry] = {}
    for index, item in enumerate(listed):
        entry = _read_entry(item, f"spec.{key}[{index}]", point, note)
        if entry is None:
            continue
        if entry.name in entries:
            note(f"{entry.origin}.name", f"{entry.name} is there already, at {entries[entry.name].origin}")
        else:
            entries[entry.name] = entry
    return list(entries.values())


def _read_entry(item: object, origin: str, point: Point, note: Note) -> Entry | None:
    """The entry, or None where it is about no plugin: everything else wrong with it is noted all the same."""
    body = read_mapping(item, origin, note)
    if not isinstance(item, Mapping):
        return None
    refuse_unknown(body, ENTRY_FIELDS[point], origin, note)
    enabled = read_flag(body.get("enabled", True), f"{origin}.enabled", note, default=True)
    weight = _weight(body.get("weight"), f"{origin}.weight", note) if point == "score" else None
    args = read_args(body.get("args"), f"{origin}.args", note)
    only = read_flag(body.get("preFilterOnly", False), f"{origin}.preFilterOnly", note, default=False)
    name = _name(body.get("name"), f"{origin}.name", note)
    plugin = body.get("plugin")
    if plugin is None or plugin == name:
        stands_for = _find(name, f"{origin}.name", point, note) if name else None
        return Entry(name, origin, stands_for, False, enabled, weight, args, only) if stands_for else None
    stands_for = _find_named(plugin, f"{origin}.plugin", point, note)
    if stands_for is None or not name:
        return None
    taken = ALIASES[point].get(name) or (Alias((name,)) if name in PLUGINS else stands_for)
    if taken.plugins != stands_for.plugins:
        note(f"{origin}.name", f"{name} is the name of another plugin: give the entry one of its own")
        return None
    return Entry(name, origin, stands_for, True, enabled, weight, args, only)


def _name(value: object, where: str, note: Note) -> str:
    if value is None:
        note(where, "is required: the plugin's name, for example NodeResourcesFit")
    elif not isinstance(value, str) or not 0 < len(value) <= PLUGIN_NAME_MAX_LENGTH:
        note(where, f"{show(value)} is not a plugin name")
    else:
        return value
    return ""


def _find_named(value: object, where: str, point: Point, note: Note) -> Alias | None:
    """The one plugin that `plugin` names."""
    if not isinstance(value, str) or not value:
        note(where, f"{show(value)} is not a plugin name")
        return None
    found = _find(value, where, point, note)
    if found is not None and len(found.plugins) > 1:
        note(where, f"{value} stands for several plugins: {', '.join(found.plugins)}; name one of them")
        return None
    return found


def _find(name: str, where: str, point: Point, note: Note) -> Alias | None:
    if name in ALIASES[point]:
        return ALIASES[point][name]
    other: Point = "score" if point == "filter" else "filter"
    if name in _serving(point):
        return Alias((name,))
    if name in _serving(other) or name in ALIASES[other]:
        note(where, _wrong_list(name, point))
    else:
        note(where, f"{show(name)} is not a plugin{did_you_mean(name, (*_serving(point), *ALIASES[point]))}")
    return None


def _serving(point: Point) -> list[str]:
    return [name for name, plugin in PLUGINS.items() if (plugin.filters if point == "filter" else plugin.scores)]


def _wrong_list(name: str, point: Point) -> str:
    if point == "filter":
        return f"{name} only scores nodes: it belongs into spec.priorities"
    return f"{name} only filters nodes: it belongs into spec.predicates"


def _weight(value: object, where: str, note: Note) -> int | None:
    if value is None:
        return None
    if not isinstance(value, int) or isinstance(value, bool):
        note(where, f"{show(value)} is not a whole number")
    elif value == 0:
        note(where, f"0 is not from 1 to {WEIGHT_MAX}; write enabled: false to leave the plugin out")
    elif not 1 <= value <= WEIGHT_MAX:
        note(where, f"{show(value)} is not from 1 to {WEIGHT_MAX}")
    else:
        return value
    return None
