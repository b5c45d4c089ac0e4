"""The entries of `predicates` and `priorities` of a manifest: read and checked, not yet merged with the base.

An entry is about a plugin or has an expression. Its `name` is that of the plugin, today's or an old one (an alias). If
`plugin` is given, the name is the entry's own, so that a policy may use one plugin several times with different
arguments. An expression always has a name of its own. An entry that has only the own name of an entry of the base
changes that one.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Literal

from berth.engine.legacy.aliases import ALIASES, Alias
from berth.engine.plugin import Plugin
from berth.engine.registry import OWN_PLUGINS, PLUGINS, UnknownPlugin, UnusablePlugin, serves
from berth.policy.fields.entry_fields import (
    ENTRIES_MAX,
    EXPRESSION_MAX_LENGTH,
    MESSAGE_MAX_LENGTH,
    PLUGIN_NAME_MAX_LENGTH,
    PREDICATE,
    PRIORITY,
    WEIGHT_MAX,
)
from berth.policy.reading import (
    Note,
    did_you_mean,
    read_args,
    read_flag,
    read_list,
    read_mapping,
    read_text,
    read_whole,
    refuse_unknown,
)
from berth.policy.records import Predicate, Priority
from berth.policy.wording import show

Point = Literal["filter", "score"]
LIST_OF: Mapping[Point, str] = {"filter": "predicates", "score": "priorities"}
ENTRY_FIELDS: Mapping[Point, tuple[str, ...]] = {
    "filter": PREDICATE.names,
    "score": PRIORITY.names,
}
NOT_WITH_EXPRESSION = ("plugin", "args", "preFilterOnly")
ONLY_WITH_EXPRESSION = ("message", "normalize")


@dataclass(frozen=True, slots=True)
class Entry:
    """One item of the manifest. A field is None if the manifest does not give it: then the base's value holds.

    `stands_for` are the plugins it is about and the arguments that its name implies; an expression stands for itself.
    `own_name`: it is one more entry of its plugin, beside that of the base.
    """

    name: str
    origin: str
    stands_for: Alias
    own_name: bool = False
    enabled: bool = True
    weight: int | None = None
    args: Mapping[str, object] | None = field(default=None)
    pre_filter_only: bool | None = None
    expression: str | None = None
    message: str | None = None
    normalized: bool | None = None


# The entries of the base that have names of their own, by these; None: the base is not there, and any name may be one.
Named = Mapping[str, Predicate | Priority] | None


def named_in(entries: Iterable[Predicate | Priority]) -> Mapping[str, Predicate | Priority]:
    return {entry.name: entry for entry in entries if entry.own_name}


def read_entries(spec: Mapping[str, object], point: Point, named: Named, note: Note) -> list[Entry]:
    key = LIST_OF[point]
    entries: dict[str, Entry] = {}
    for index, item in enumerate(read_list(spec.get(key), f"spec.{key}", ENTRIES_MAX, note)):
        entry = _read_entry(item, f"spec.{key}[{index}]", point, named, note)
        if entry is None:
            continue
        if entry.name in entries:
            note(f"{entry.origin}.name", f"{entry.name} is there already, at {entries[entry.name].origin}")
        else:
            entries[entry.name] = entry
    return list(entries.values())


def _read_entry(item: object, origin: str, point: Point, named: Named, note: Note) -> Entry | None:
    """Returns the entry, or None if its plugin is unknown; all other problems are noted as well."""
    body = read_mapping(item, origin, note)
    if not isinstance(item, Mapping):
        return None
    refuse_unknown(body, ENTRY_FIELDS[point], origin, note)
    name = _name(body.get("name"), f"{origin}.name", note)
    about = _about(body, name, origin, point, named, note)
    enabled = _flag(body, "enabled", origin, note)
    args = read_args(body.get("args"), f"{origin}.args", note)
    weight = _weight(body.get("weight"), f"{origin}.weight", note) if point == "score" else None
    only = _flag(body, "preFilterOnly", origin, note)
    expression = read_text(body.get("expression"), f"{origin}.expression", EXPRESSION_MAX_LENGTH, note)
    message = read_text(body.get("message"), f"{origin}.message", MESSAGE_MAX_LENGTH, note)
    normalized = _flag(body, "normalize", origin, note)
    if about is None or not name or (body.get("expression") is not None and expression is None):
        return None
    stands_for, own_name = about
    if own_name and stands_for.plugins == (name,):  # an expression: it has none of these
        args, only = None, None
    return Entry(
        name, origin, stands_for, own_name, enabled is not False, weight, args, only, expression, message, normalized
    )


def _about(
    body: Mapping[str, object], name: str, origin: str, point: Point, named: Named, note: Note
) -> tuple[Alias, bool] | None:
    """What the entry stands for, and whether its name is its own."""
    inherited = (named or {}).get(name) if body.get("plugin") is None else None
    if body.get("expression") is not None or (inherited is not None and inherited.expression):
        _refuse(body, NOT_WITH_EXPRESSION, "does not go with an expression: leave one of the two out", origin, note)
        return _expression(name, f"{origin}.name", note)
    if named is not None or body.get("plugin") is not None or name in PLUGINS or name in ALIASES[point]:
        _refuse(body, ONLY_WITH_EXPRESSION, "goes with an expression only: a plugin does it by itself", origin, note)
    if inherited is not None:
        return Alias((inherited.plugin,)), True
    plugin = body.get("plugin")
    if plugin is None or plugin == name:
        stands_for = _find(name, f"{origin}.name", point, note, named) if name else None
        return (stands_for, False) if stands_for else None
    return _own_name(name, plugin, origin, point, note)


def _expression(name: str, where: str, note: Note) -> tuple[Alias, bool] | None:
    if name in PLUGINS or any(name in aliases for aliases in ALIASES.values()):
        note(where, f"{name} is the name of a plugin: give the expression one of its own")
        return None
    return Alias((name,)), True


def _own_name(name: str, plugin: object, origin: str, point: Point, note: Note) -> tuple[Alias, bool] | None:
    stands_for = _find_named(plugin, f"{origin}.plugin", point, note)
    if stands_for is None:
        return None
    taken = ALIASES[point].get(name) or (Alias((name,)) if name in PLUGINS else stands_for)
    if taken.plugins != stands_for.plugins:
        note(f"{origin}.name", f"{name} is the name of another plugin: give the entry one of its own")
        return None
    return stands_for, True


def _refuse(body: Mapping[str, object], fields: Iterable[str], message: str, origin: str, note: Note) -> None:
    for key in fields:
        if body.get(key) is not None:
            note(f"{origin}.{key}", message)


def _name(value: object, where: str, note: Note) -> str:
    if value is None:
        note(where, "is required: the plugin's name, for example NodeResourcesFit, or one of the entry's own")
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


def _find(name: str, where: str, point: Point, note: Note, named: Named = MappingProxyType({})) -> Alias | None:
    if name in ALIASES[point]:
        return ALIASES[point][name]
    other: Point = "score" if point == "filter" else "filter"
    kind: type[Plugin] | None = None
    try:
        kind = PLUGINS[name]
    except UnusablePlugin as error:
        note(where, error.problem)
        return None
    except UnknownPlugin:
        pass  # it may be an old name of the other list
    if kind is not None and serves(kind, point):
        return Alias((name,))
    if kind is not None or name in ALIASES[other]:
        note(where, _wrong_list(name, point))
    elif named is not None:
        hint = did_you_mean(name, (*_serving(point), *ALIASES[point], *named))
        if not hint and where.endswith(".name"):
            hint = "; an entry with a name of its own needs a plugin or an expression"
        note(where, f"{show(name)} is not a plugin{hint}")
    return None


def _serving(point: Point) -> list[str]:
    """Returns a hint at the name that was probably meant; plugins of packages are unknown before they are imported."""
    own = [name for name, plugin in OWN_PLUGINS.items() if (plugin.filters if point == "filter" else plugin.scores)]
    return [*own, *(name for name in PLUGINS if name not in OWN_PLUGINS)]


def _wrong_list(name: str, point: Point) -> str:
    if point == "filter":
        return f"{name} only scores nodes: it belongs into spec.priorities"
    return f"{name} only filters nodes: it belongs into spec.predicates"


def _flag(body: Mapping[str, object], key: str, origin: str, note: Note) -> bool | None:
    value = body.get(key)
    return None if value is None else read_flag(value, f"{origin}.{key}", note, default=True)


def _weight(value: object, where: str, note: Note) -> int | None:
    if value == 0 and type(value) is int:
        note(where, f"0 is not from 1 to {WEIGHT_MAX}; write enabled: false to leave the plugin out")
        return None
    return read_whole(value, where, 1, WEIGHT_MAX, note)
