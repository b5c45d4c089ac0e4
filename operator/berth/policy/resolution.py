"""Laying the entries of a manifest over the default profile: what then runs, and in which order.

An entry about a plugin of the profile replaces its weight or arguments in place, another is added, one with
`enabled: false` is dropped. An old name counts as the plugin that it stands for, so two entries may not be about the
same plugin, unless they have names of their own. GeneralPredicates stands for four plugins and may stand beside
entries about them, which then speak for themselves.

Predicates run in the order of Kubernetes (`PREDICATE_ORDER`), after those that `predicateOrder` puts first.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import TypeVar

from berth.engine.legacy.aliases import PREDICATES, Alias
from berth.policy.defaults import DEFAULT_PREDICATES, DEFAULT_PRIORITIES, OWN_WEIGHTS, PREDICATE_ORDER
from berth.policy.entries import ENTRIES_MAX, Entry
from berth.policy.reading import Note, did_you_mean
from berth.policy.records import Predicate, Priority
from berth.policy.wording import show

T = TypeVar("T", Predicate, Priority)
Args = Mapping[str, object] | None

_RANK: Mapping[str, int] = {name: rank for rank, name in enumerate(PREDICATE_ORDER)}


def resolve_predicates(entries: Sequence[Entry], order: object, note: Note) -> tuple[Predicate, ...]:
    def new(entry: Entry, plugin: str) -> Predicate:
        return Predicate(entry.name, plugin=plugin)

    def change(base: Predicate, entry: Entry, args: Args) -> Predicate:
        args, only = base.args if args is None else args, entry.pre_filter_only
        return replace(base, name=entry.name, args=args, origin=entry.origin, pre_filter_only=only)

    resolved = _resolve(DEFAULT_PREDICATES, entries, new, change, note)
    usual = sorted(resolved, key=lambda entry: _RANK.get(entry.plugin, len(_RANK)))
    first = _read_order(order, usual, note)
    return (*first.values(), *(entry for entry in usual if entry.name not in first))


def resolve_priorities(entries: Sequence[Entry], note: Note) -> tuple[Priority, ...]:
    def new(entry: Entry, plugin: str) -> Priority:
        return Priority(entry.name, OWN_WEIGHTS.get(plugin, 1), plugin=plugin)

    def change(base: Priority, entry: Entry, args: Args) -> Priority:
        weight = base.weight if entry.weight is None else entry.weight
        args = base.args if args is None else args
        return replace(base, name=entry.name, weight=weight, args=args, origin=entry.origin)

    return tuple(_resolve(DEFAULT_PRIORITIES, entries, new, change, note))


def _resolve(
    base: Iterable[T],
    entries: Sequence[Entry],
    new: Callable[[Entry, str], T],
    change: Callable[[T, Entry, Args], T],
    note: Note,
) -> list[T]:
    resolved = {item.name: item for item in base}
    for entry in _one_by_one(entries, note):
        [plugin] = entry.stands_for.plugins
        key = entry.name if entry.own_name else plugin  # a name of its own is never that of a plugin
        if not entry.enabled:
            resolved.pop(key, None)
        else:
            resolved[key] = change(resolved.get(key) or new(entry, plugin), entry, _args(entry, note))
    return list(resolved.values())


def _one_by_one(entries: Sequence[Entry], note: Note) -> list[Entry]:
    """The entries, each about one plugin: first those that a name for several stands for, then the others."""
    parts: list[Entry] = []
    others: dict[str, Entry] = {}
    for entry in entries:
        if len(entry.stands_for.plugins) > 1:
            if entry.args:
                note(f"{entry.origin}.args", f"{entry.name} takes none: give them to one of its parts")
            parts += [
                replace(entry, name=part, stands_for=Alias((part,)), args=None) for part in entry.stands_for.plugins
            ]
            continue
        [plugin] = entry.stands_for.plugins
        key = entry.name if entry.own_name else plugin
        if key not in others:
            others[key] = entry
        else:
            note(
                f"{entry.origin}.name",
                f"{entry.name} is the same plugin as {others[key].name}, at {others[key].origin}: leave one out, or "
                f"give this one a name of its own and plugin: {plugin}",
            )
    return [*parts, *others.values()]


def _args(entry: Entry, note: Note) -> Args:
    """The arguments that the entry gives, together with those that its name implies."""
    implied = entry.stands_for.args.get("scoringStrategy")
    if implied is None:
        return entry.args
    given = (entry.args or {}).get("scoringStrategy") or {}
    if not isinstance(given, Mapping):
        return entry.args  # for the plugin to refuse
    kind = given.get("type") or implied["type"]
    if kind != implied["type"]:
        note(f"{entry.origin}.args.scoringStrategy.type", f"{entry.name} means {implied['type']}")
    return MappingProxyType({**(entry.args or {}), "scoringStrategy": {**implied, **given, "type": kind}})


def _read_order(value: object, active: Sequence[Predicate], note: Note) -> dict[str, Predicate]:
    """The predicates that `predicateOrder` puts first, by name; an old name counts as the plugins it stands for."""
    where = "spec.predicateOrder"
    if value is None:
        return {}
    if not isinstance(value, list | tuple):
        note(where, f"{show(value)} is not a list")
        return {}
    if len(value) > ENTRIES_MAX:
        note(where, f"has {len(value)} names, may have {ENTRIES_MAX}")
        return {}
    first: dict[str, Predicate] = {}
    for index, name in enumerate(value):
        found = _called(name, active) if isinstance(name, str) else []
        if not found:
            hint = did_you_mean(name, [entry.name for entry in active]) if isinstance(name, str) else ""
            note(f"{where}[{index}]", f"{show(name)} is not among the predicates of this policy{hint}")
        elif any(entry.name in first for entry in found):
            note(f"{where}[{index}]", f"{show(name)} has its place already")
        else:
            first |= {entry.name: entry for entry in found}
    return first


def _called(name: str, active: Sequence[Predicate]) -> list[Predicate]:
    """The predicate of this name, or else those of the plugins that the name stands for."""
    named = [entry for entry in active if entry.name == name]
    plugins = PREDICATES[name].plugins if name in PREDICATES else (name,)
    return named or [entry for plugin in plugins for entry in active if entry.plugin == plugin]
