"""One profile of a KubeSchedulerConfiguration as the spec of a SchedulingPolicy.

Its plugin sets are read and checked, expanded as kube-scheduler expands them (`profiles`), and what then filters and
scores, with weights and arguments, is written down as the difference from the default profile, or from nothing where
that is shorter. Reading such a spec gives the same plugins, weights and arguments again, and the same order of filters.
"""

from collections.abc import Mapping, Sequence

from berth.policy.defaults import DEFAULT_PREDICATES, DEFAULT_PRIORITIES, PREDICATE_ORDER
from berth.policy.importing.configuration import (
    BIND_TIMEOUT,
    PREEMPTION,
    ImportedProfile,
    Notes,
    read_plugin_config,
    read_plugin_sets,
)
from berth.policy.importing.counterparts import TELLING_BEFORE, check_counterparts
from berth.policy.importing.expansion import Expansion, expand_profile
from berth.policy.records import Predicate, Priority
from berth.policy.wording import show

Manifest = dict[str, object]

_FIELDS = ("schedulerName", "percentageOfNodesToScore", "plugins", "pluginConfig")


def import_profile(profile: ImportedProfile, shared: Mapping[str, object]) -> Manifest:
    """The spec, but for its schedulerName; `shared` is what the configuration says for all profiles."""
    for key in profile.body:
        if key not in _FIELDS:
            profile.notes.error(f"{profile.where}.{key}", "unknown field of a profile")
    sets = read_plugin_sets(profile)
    expansion = expand_profile(sets)
    args = read_plugin_config(profile, expansion)
    check_counterparts(profile, sets, expansion)
    spec: Manifest = {**_settings(expansion, args), **shared}
    share = read_share(profile.body, f"{profile.where}.", profile.notes)
    if share is not None:
        spec["percentageOfNodesToScore"] = share
    if spec.get("percentageOfNodesToScore") == 100:
        del spec["percentageOfNodesToScore"]
    over_default = _lists(expansion, args, DEFAULT_PREDICATES, DEFAULT_PRIORITIES)
    alone = _lists(expansion, args, (), ())
    shorter = min(over_default, alone, key=lambda lists: sum(map(len, lists.values())))
    if shorter is alone:
        spec["base"] = "Empty"
    spec |= {key: entries for key, entries in shorter.items() if entries}
    running = list(expansion.plugins["filter"])
    if running != sorted(running, key=PREDICATE_ORDER.index):
        spec["predicateOrder"] = running
    return spec


def _settings(expansion: Expansion, args: dict[str, Mapping[str, object]]) -> Manifest:
    """What are arguments of plugins there and fields of their own here; takes them out of the arguments."""
    spec: Manifest = {}
    limits = args.pop(PREEMPTION, {})
    if not expansion.runs(PREEMPTION, "postFilter"):
        spec["preemption"] = {"enabled": False}
    elif limits:
        spec["preemption"] = dict(limits)
    binding = dict(args.pop("VolumeBinding", {}))
    if BIND_TIMEOUT in binding:
        spec[BIND_TIMEOUT] = binding.pop(BIND_TIMEOUT)
    if binding:
        args["VolumeBinding"] = binding
    return spec


def _lists(
    expansion: Expansion,
    args: Mapping[str, Mapping[str, object]],
    predicates: Sequence[Predicate],
    priorities: Sequence[Priority],
) -> dict[str, list[Manifest]]:
    """The entries that make the lists of a base into what runs."""
    return {
        "predicates": _predicates(expansion, args, [entry.name for entry in predicates]),
        "priorities": _priorities(expansion, args, {entry.name: entry.weight for entry in priorities}),
    }


def _predicates(expansion: Expansion, args: Mapping[str, Mapping[str, object]], base: Sequence[str]) -> list[Manifest]:
    running = expansion.plugins["filter"]
    only = [name for name in TELLING_BEFORE if name not in running and expansion.runs(name, "preFilter")]
    entries: list[Manifest] = []
    for name in (*base, *(name for name in (*running, *only) if name not in base)):
        if name in only:
            entries.append({"name": name, "preFilterOnly": True, **_with_args(args.get(name))})
        elif name not in running:
            entries.append({"name": name, "enabled": False})
        elif name in args or name not in base:
            entries.append({"name": name, **_with_args(args.get(name))})
    return entries


def _priorities(
    expansion: Expansion, args: Mapping[str, Mapping[str, object]], base: Mapping[str, int]
) -> list[Manifest]:
    running = expansion.weights
    entries: list[Manifest] = []
    for name in (*base, *(name for name in running if name not in base)):
        if name not in running:
            entries.append({"name": name, "enabled": False})
            continue
        weight: Manifest = {} if running[name] == base.get(name) else {"weight": running[name]}
        if weight or name in args:
            entries.append({"name": name, **weight, **_with_args(args.get(name))})
    return entries


def _with_args(args: Mapping[str, object] | None) -> Manifest:
    return {"args": dict(args)} if args else {}


def read_share(body: Mapping[str, object], where: str, notes: Notes) -> int | None:
    share = body.get("percentageOfNodesToScore")
    if share is None or (isinstance(share, int) and not isinstance(share, bool) and 0 <= share <= 100):
        return share
    notes.error(f"{where}percentageOfNodesToScore", f"{show(share)} is not a whole number from 0 to 100")
    return None
