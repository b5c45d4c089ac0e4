"""From a SchedulingPolicy manifest, as an API server or a file gives it, to a resolved `Policy`.

The way: every field is read by a function that notes what is wrong and goes on, so that one pass finds every problem
of the manifest, each with its path (`spec.priorities[2].weight`). Then the entries are laid over the default profile:
one that names a plugin of the profile replaces its weight or arguments in place, another is added at the end, one
with `enabled: false` is dropped.

Stricter than the CRD on purpose: the API server prunes fields that it does not know, here they are typos to report,
with the field that was probably meant. The bounds are those of the CRD, and a test holds the two together.

Plugin names are judged here; arguments are judged by the plugins themselves (`compile`).
"""

import difflib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Literal, TypeVar

from berth.engine.pipeline import TieBreak
from berth.engine.registry import PLUGINS
from berth.policy.defaults import DEFAULT_PREDICATES, DEFAULT_PRIORITIES
from berth.policy.records import NO_ARGS, Policy, PolicyError, Predicate, Priority, Problem
from berth.policy.wording import cut, show

__all__ = ["Policy", "PolicyError", "Predicate", "Priority", "Problem", "examine", "parse_policy"]

API_VERSION = "berth.dev/v1alpha1"
KIND = "SchedulingPolicy"
SCHEDULER_NAME_MAX_LENGTH = 253
PLUGIN_NAME_MAX_LENGTH = 253
ENTRIES_MAX = 64
WEIGHT_MAX = 2**31 - 1  # kube-scheduler's weights are of 32 bits: whatever it takes, a policy can say
ARGS_MAX_DEPTH = 32

Point = Literal["filter", "score"]
_LIST_OF: Mapping[Point, str] = {"filter": "predicates", "score": "priorities"}
_SPEC_FIELDS = ("schedulerName", "predicates", "priorities", "tieBreak")
_ENTRY_FIELDS: Mapping[Point, tuple[str, ...]] = {
    "filter": ("name", "enabled", "args"),
    "score": ("name", "enabled", "weight", "args"),
}

T = TypeVar("T", Predicate, Priority)
Note = Callable[[str, str], None]  # (field, message): one more problem


def parse_policy(manifest: Mapping[str, object]) -> Policy:
    """The policy that the manifest describes. Raises `PolicyError` with every problem of its structure and names."""
    policy, problems = examine(manifest)
    if problems:
        raise PolicyError(policy.name, problems)
    return policy


def examine(manifest: Mapping[str, object]) -> tuple[Policy, tuple[Problem, ...]]:
    """What can be made of the manifest, and everything that is wrong with it: a usable policy only without problems."""
    problems: list[Problem] = []

    def note(where: str, message: str) -> None:
        problems.append(Problem(where, message))

    _check_type(manifest, note)
    metadata = _mapping(manifest.get("metadata"), "metadata", note)
    spec = _mapping(manifest.get("spec"), "spec", note)
    _refuse_unknown(spec, _SPEC_FIELDS, "spec", note)
    policy = Policy(
        name=_name(metadata, note),
        uid=_text(metadata.get("uid")),
        generation=_generation(metadata.get("generation")),
        scheduler_name=_scheduler_name(spec, note),
        predicates=_resolve_predicates(_read_entries(spec, "filter", note)),
        priorities=_resolve_priorities(_read_entries(spec, "score", note)),
        tie_break=_tie_break(spec, note),
    )
    return policy, tuple(problems)


# --- the head of the manifest


def _check_type(manifest: Mapping[str, object], note: Note) -> None:
    # A watch event may leave the type out; where it is given it has to be ours.
    for key, ours in (("apiVersion", API_VERSION), ("kind", KIND)):
        given = manifest.get(key)
        if given is not None and given != ours:
            note(key, f"{show(given)} is not {ours}")


def _name(metadata: Mapping[str, object], note: Note) -> str:
    name = metadata.get("name")
    if isinstance(name, str) and name:
        return name
    note("metadata.name", "is required: the policy's name" if name is None else f"{show(name)} is not a name")
    return ""


def _generation(value: object) -> int:
    return value if isinstance(value, int) and not isinstance(value, bool) and value > 0 else 0


def _scheduler_name(spec: Mapping[str, object], note: Note) -> str:
    value, where = spec.get("schedulerName"), "spec.schedulerName"
    if value is None:
        note(where, "is required: the name that pods put into their spec.schedulerName, for example berth")
    elif not isinstance(value, str) or not value:
        note(where, f"{show(value)} is not a scheduler name")
    elif len(value) > SCHEDULER_NAME_MAX_LENGTH:
        note(where, f"has {len(value)} characters, may have {SCHEDULER_NAME_MAX_LENGTH}")
    else:
        return value
    return ""


def _tie_break(spec: Mapping[str, object], note: Note) -> TieBreak:
    value = spec.get("tieBreak")
    if value is None:
        return TieBreak.RANDOM
    for choice in TieBreak:
        if value == choice.value:
            return choice
    note("spec.tieBreak", f"{show(value)} is not one of {', '.join(choice.value for choice in TieBreak)}")
    return TieBreak.RANDOM


# --- the entries


@dataclass(frozen=True, slots=True)
class _Entry:
    """One item of predicates or priorities as written: None where the manifest is silent and the base speaks."""

    name: str
    origin: str
    enabled: bool = True
    weight: int | None = None
    args: Mapping[str, object] | None = field(default=None)


def _read_entries(spec: Mapping[str, object], point: Point, note: Note) -> list[_Entry]:
    key = _LIST_OF[point]
    listed = spec.get(key)
    if listed is None:
        return []
    if not isinstance(listed, list | tuple):
        note(f"spec.{key}", f"{show(listed)} is not a list")
        return []
    if len(listed) > ENTRIES_MAX:
        note(f"spec.{key}", f"has {len(listed)} entries, may have {ENTRIES_MAX}")
        return []
    entries: dict[str, _Entry] = {}
    for index, item in enumerate(listed):
        entry = _read_entry(item, f"spec.{key}[{index}]", point, note)
        if entry is None:
            continue
        if entry.name in entries:
            note(f"{entry.origin}.name", f"{entry.name} is there already, at {entries[entry.name].origin}")
        else:
            entries[entry.name] = entry
    return list(entries.values())


def _read_entry(item: object, origin: str, point: Point, note: Note) -> _Entry | None:
    """The entry, or None where it has no usable name: everything else wrong with it is noted all the same."""
    body = _mapping(item, origin, note)
    if not isinstance(item, Mapping):
        return None
    _refuse_unknown(body, _ENTRY_FIELDS[point], origin, note)
    enabled = body.get("enabled", True)
    if not isinstance(enabled, bool):
        note(f"{origin}.enabled", f"{show(enabled)} is not true or false")
        enabled = True
    weight = _weight(body.get("weight"), f"{origin}.weight", note) if point == "score" else None
    args = _args(body.get("args"), f"{origin}.args", note)
    name = _plugin_name(body.get("name"), f"{origin}.name", point, note)
    return _Entry(name, origin, enabled, weight, args) if name else None


def _plugin_name(value: object, where: str, point: Point, note: Note) -> str:
    if value is None:
        note(where, "is required: the plugin's name, for example NodeResourcesFit")
    elif not isinstance(value, str) or not 0 < len(value) <= PLUGIN_NAME_MAX_LENGTH:
        note(where, f"{show(value)} is not a plugin name")
    elif value not in PLUGINS:
        note(where, f"{show(value)} is not a plugin{_meant(value, _serving(point))}")
    elif value not in _serving(point):
        note(where, _wrong_list(value, point))
    else:
        return value
    return ""


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


def _args(value: object, where: str, note: Note) -> Mapping[str, object] | None:
    if value is None:
        return None
    if not isinstance(value, Mapping):
        note(where, f"{show(value)} is not a mapping of arguments")
        return None
    try:
        copied = _copy_json(value, where, ARGS_MAX_DEPTH)
    except _NotJson as error:
        note(error.where, error.message)
        return None
    assert isinstance(copied, dict)
    return MappingProxyType(copied)


# --- laying the entries over the default profile


def _resolve_predicates(entries: Iterable[_Entry]) -> tuple[Predicate, ...]:
    def change(base: Predicate, entry: _Entry) -> Predicate:
        return replace(base, args=base.args if entry.args is None else entry.args, origin=entry.origin)

    return _resolve(DEFAULT_PREDICATES, entries, Predicate, change)


def _resolve_priorities(entries: Iterable[_Entry]) -> tuple[Priority, ...]:
    def change(base: Priority, entry: _Entry) -> Priority:
        weight = base.weight if entry.weight is None else entry.weight
        args = base.args if entry.args is None else entry.args
        return replace(base, weight=weight, args=args, origin=entry.origin)

    return _resolve(DEFAULT_PRIORITIES, entries, Priority, change)


def _resolve(
    base: Iterable[T], entries: Iterable[_Entry], new: Callable[[str], T], change: Callable[[T, _Entry], T]
) -> tuple[T, ...]:
    resolved = {item.name: item for item in base}
    for entry in entries:
        if not entry.enabled:
            resolved.pop(entry.name, None)
        else:
            resolved[entry.name] = change(resolved.get(entry.name) or new(entry.name), entry)
    return tuple(resolved.values())


# --- small readers


class _NotJson(Exception):
    def __init__(self, where: str, message: str) -> None:
        super().__init__(message)
        self.where = where
        self.message = message


def _copy_json(value: object, where: str, depth: int) -> object:
    """A copy of our own, so that nobody changes a policy that is in force; plain dicts and lists, as plugins read."""
    if value is None or isinstance(value, str | int | float | bool):
        return value
    if depth == 0:
        raise _NotJson(where, f"is nested deeper than {ARGS_MAX_DEPTH} levels")
    if isinstance(value, Mapping):
        return {_key(key, where): _copy_json(item, f"{where}.{key}", depth - 1) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_copy_json(item, f"{where}[{index}]", depth - 1) for index, item in enumerate(value)]
    raise _NotJson(where, f"{show(value)} is not a JSON value; put it in quotes if text is meant")


def _key(key: object, where: str) -> str:
    if not isinstance(key, str):
        raise _NotJson(where, f"{show(key)} is not a text key; put it in quotes")
    return key


def _mapping(value: object, where: str, note: Note) -> Mapping[str, object]:
    if isinstance(value, Mapping):
        return value
    note(where, "is required" if value is None else f"{show(value)} is not a mapping")
    return NO_ARGS


def _refuse_unknown(body: Mapping[str, object], known: tuple[str, ...], where: str, note: Note) -> None:
    for key in body:
        if key not in known:
            hint = _meant(str(key), known) or f"; known are {', '.join(known)}"
            note(f"{where}.{cut(str(key))}", f"unknown field{hint}")


def _meant(given: str, choices: Iterable[str]) -> str:
    close = difflib.get_close_matches(given[:PLUGIN_NAME_MAX_LENGTH], list(choices), n=1)
    return f"; did you mean {close[0]}?" if close else ""


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""
