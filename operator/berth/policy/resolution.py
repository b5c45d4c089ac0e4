"""Merging the entries of a manifest with those of its base: what then runs, and in which order.

An entry about a plugin of the base replaces its weight or arguments in place, any other is added, one with
`enabled: false` is dropped. An old name counts as the plugin that it stands for, so two entries may not be about the
same plugin, unless they have names of their own. GeneralPredicates stands for four plugins; entries about one of these
take precedence over it. An entry with the own name of an entry of the base changes that one, or replaces it if it is
about another plugin or has an expression.

Predicates run in the order of Kubernetes (`PREDICATE_ORDER`), expressions last, after those that `predicateOrder` puts
first; without one, after those that the base puts first.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import TypeVar

from berth.engine.legacy.aliases import PREDICATES, Alias
from berth.policy.defaults import DEFAULT_PRIORITIES, OWN_WEIGHTS, PREDICATE_ORDER
from berth.policy.entries import Entry
from berth.policy.fields.entry_fields import ENTRIES_MAX
from berth.policy.reading import Note, did_you_mean, read_list
from berth.policy.records import Policy, Predicate, Priority
from berth.policy.wording import show

T = TypeVar("T", Predicate, Priority)
Args = Mapping[str, object] | None

_RANK: Mapping[str, int] = {name: rank for rank, name in enumerate(PREDICATE_ORDER)}
_USUAL_WEIGHTS: Mapping[str, int] = {entry.name: entry.weight for entry in DEFAULT_PRIORITIES}


def resolve_predicates(base: Policy, entries: Sequence[Entry], note: Note) -> tuple[Predicate, ...]:
    """Returns the predicates that then run, in the order of Kubernetes."""

    def new(entry: Entry, plugin: str) -> Predicate:
        return Predicate(entry.name, plugin=plugin)

    def change(before: Predicate, entry: Entry, args: Args) -> Predicate:
        return replace(
            before,
            name=entry.name,
            own_name=entry.own_name,
            origin=entry.origin,
            args=before.args if args is None else args,
            pre_filter_only=before.pre_filter_only if entry.pre_filter_only is None else entry.pre_filter_only,
            expression=before.expression if entry.expression is None else entry.expression,
            message=before.message if entry.message is None else entry.message,
        )

    resolved = _resolve(base.predicates, entries, new, change, note)
    return tuple(sorted(resolved, key=lambda entry: _RANK.get(entry.plugin, len(_RANK))))


def resolve_priorities(base: Policy, entries: Sequence[Entry], note: Note) -> tuple[Priority, ...]:
    def new(entry: Entry, plugin: str) -> Priority:
        weight = OWN_WEIGHTS.get(plugin, 1)
        return Priority(entry.name, weight if entry.own_name else _USUAL_WEIGHTS.get(plugin, weight), plugin=plugin)

    def change(before: Priority, entry: Entry, args: Args) -> Priority:
        return replace(
            before,
            name=entry.name,
            own_name=entry.own_name,
            origin=entry.origin,
            weight=before.weight if entry.weight is None else entry.weight,
            args=before.args if args is None else args,
            expression=before.expression if entry.expression is None else entry.expression,
            normalized=before.normalized if entry.normalized is None else entry.normalized,
        )

    return tuple(_resolve(base.priorities, entries, new, change, note))


def _resolve(
    base: Iterable[T],
    entries: Sequence[Entry],
    new: Callable[[Entry, str], T],
    change: Callable[[T, Entry, Args], T],
    note: Note,
) -> list[T]:
    resolved = {item.name if item.own_name else item.plugin: replace(item, origin="") for item in base}
    for entry in _one_by_one(entries, note):
        [plugin] = entry.stands_for.plugins
        key = entry.name if entry.own_name else plugin  # a name of its own is never that of a plugin
        if not entry.enabled:
            resolved.pop(key, None)
            continue
        before = resolved.get(key)
        if before is None or before.plugin != plugin:
            before = new(entry, plugin)
        resolved[key] = change(before, entry, _args(entry, note))
    return list(resolved.values())


def _one_by_one(entries: Sequence[Entry], note: Note) -> list[Entry]:
    """Returns the entries, each about one plugin: first those of a name for several plugins, then the others."""
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
    """Returns the arguments of the entry, together with those that its name implies."""
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


# --- the order of predicates


def read_order(value: object, base: Policy, predicates: Sequence[Predicate], note: Note) -> tuple[str, ...]:
    """Returns the names that run first: those of the manifest, or else of the base, without dropped ones."""
    if value is None:
        return tuple(name for name in base.predicate_order if _called(name, predicates))
    placed: set[str] = set()
    names: list[str] = []
    for index, name in enumerate(read_list(value, "spec.predicateOrder", ENTRIES_MAX, note, "names")):
        where = f"spec.predicateOrder[{index}]"
        found = _called(name, predicates) if isinstance(name, str) else []
        if not found:
            hint = did_you_mean(name, [entry.name for entry in predicates]) if isinstance(name, str) else ""
            note(where, f"{show(name)} is not among the predicates of this policy{hint}")
        elif any(entry.name in placed for entry in found):
            note(where, f"{show(name)} has its place already")
        else:
            placed |= {entry.name for entry in found}
            names.append(str(name))
    return tuple(names)


def put_first(names: Sequence[str], predicates: Sequence[Predicate]) -> tuple[Predicate, ...]:
    """Returns the predicates, those of these names first and in this order; an old name counts as its plugin."""
    first = {entry.name: entry for name in names for entry in _called(name, predicates)}
    return (*first.values(), *(entry for entry in predicates if entry.name not in first))


def _called(name: str, predicates: Sequence[Predicate]) -> list[Predicate]:
    """Returns the predicate of this name, or else those of the plugins that the name stands for."""
    named = [entry for entry in predicates if entry.name == name]
    plugins = PREDICATES[name].plugins if name in PREDICATES else (name,)
    return named or [entry for plugin in plugins for entry in predicates if entry.plugin == plugin]
