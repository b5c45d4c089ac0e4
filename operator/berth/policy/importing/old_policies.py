"""From a scheduler Policy file (kind Policy; gone with Kubernetes 1.23) to a SchedulingPolicy manifest.

A Policy lists what runs: so the manifest has that, under the names of the file, with `base: Empty`. A list that the
file leaves out stands for the default of today; then the manifest is based on the default profile, and switches off
what the other list does not have. An entry with an argument becomes one of the plugin that the argument configures, and
keeps its name.

What the file means and a SchedulingPolicy cannot say is noted, as in the import of configurations (`importing`).
"""

from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple

from berth.engine.legacy.aliases import ALIASES
from berth.engine.plugin import BadArgument
from berth.engine.registry import PLUGINS, make_plugin
from berth.policy.defaults import DEFAULT_PREDICATES, DEFAULT_PRIORITIES
from berth.policy.entries import LIST_OF, Point
from berth.policy.fields.entry_fields import WEIGHT_MAX
from berth.policy.importing.configuration import GROUP, Notes, asks_nothing, read_items, read_mapping
from berth.policy.importing.extenders import import_extenders
from berth.policy.records import Predicate, Priority
from berth.policy.wording import show

Manifest = dict[str, object]
Args = dict[str, object]

VERSIONS = ("v1", f"{GROUP}/v1")  # Kubernetes read it under both
_FIELDS = (
    "kind",
    "apiVersion",
    "metadata",
    "predicates",
    "priorities",
    "extenders",
    "hardPodAffinitySymmetricWeight",
    "alwaysCheckAllPredicates",
)
_ENTRY_FIELDS: Mapping[Point, tuple[str, ...]] = {
    "filter": ("name", "argument"),
    "score": ("name", "weight", "argument"),
}
_BASE: Mapping[Point, tuple[Predicate, ...] | tuple[Priority, ...]] = {
    "filter": DEFAULT_PREDICATES,
    "score": DEFAULT_PRIORITIES,
}
# What Kubernetes 1.12 to 1.22, and 1.9 to 1.11, ran whether a file listed it or not. Later nodes have taints for what
# the earlier one looks at: a file that lists the two does without it.
_MANDATORY = ("CheckNodeUnschedulable", "PodToleratesNodeTaints")
_EARLIER_MANDATORY = "CheckNodeCondition"


class _Argument(NamedTuple):
    """The plugin that an argument configures, and its arguments made from the argument's fields."""

    plugin: str
    fields: tuple[str, ...]
    make: Callable[[Mapping[str, object]], Args]


def _ratio(argument: Mapping[str, object]) -> Args:
    strategy: Args = {
        "type": "RequestedToCapacityRatio",
        "requestedToCapacityRatio": {"shape": argument.get("shape") or []},
    }
    if argument.get("resources"):
        strategy["resources"] = argument["resources"]
    return {"scoringStrategy": strategy}


_ARGUMENTS: Mapping[Point, Mapping[str, _Argument]] = {
    "filter": {
        "serviceAffinity": _Argument("CheckServiceAffinity", ("labels",), dict),
        "labelsPresence": _Argument("CheckNodeLabelPresence", ("labels", "presence"), dict),
    },
    "score": {
        "serviceAntiAffinity": _Argument("ServiceAntiAffinity", ("label",), dict),
        "labelPreference": _Argument("LabelPreference", ("label", "presence"), dict),
        "requestedToCapacityRatioArguments": _Argument("NodeResourcesFit", ("shape", "resources"), _ratio),
    },
}


def import_old_policy(policy: Mapping[str, object], notes: Notes) -> Manifest:
    """The `spec` of the SchedulingPolicy that decides as the file asks, but for its schedulerName."""
    for key in policy:
        if key not in _FIELDS:
            notes.error(str(key), "unknown field of a Policy")
    listed = [key for key in LIST_OF.values() if policy.get(key) is not None]
    spec: Manifest = {"base": "Empty"} if len(listed) == len(LIST_OF) else {}
    for point, key in LIST_OF.items():
        if key in listed:
            entries = _read_list(policy[key], point, notes)
            spec[key] = entries if "base" in spec else [*entries, *_switched_off(entries, point)]
            if point == "filter":
                _mention_mandatory(entries, notes)
    weight = policy.get("hardPodAffinitySymmetricWeight")
    if weight is not None:
        _set_affinity_weight(weight, spec, notes)
    if extenders := import_extenders(policy.get("extenders"), notes, old=True):
        spec["extenders"] = extenders
    every = policy.get("alwaysCheckAllPredicates")
    if every is True:
        spec["alwaysCheckAllPredicates"] = True
    elif not asks_nothing(every, (None, False)):
        notes.error("alwaysCheckAllPredicates", f"{show(every)} is not true or false")
    return {key: value for key, value in spec.items() if value != []}


def _mention_mandatory(entries: Iterable[Manifest], notes: Notes) -> None:
    listed = {entry["name"] for entry in entries}
    missing = [name for name in _MANDATORY if name not in listed]
    if not missing:
        return
    ran = f"{' and '.join(missing)} (1.12 to 1.22)"
    if _EARLIER_MANDATORY not in listed:
        ran += f" or {_EARLIER_MANDATORY} (1.9 to 1.11)"
    notes.warn("predicates", f"kube-scheduler ran {ran} even where a file does not list them: list them to have them")


# --- one list


def _read_list(value: object, point: Point, notes: Notes) -> list[Manifest]:
    entries: dict[str, Manifest] = {}
    origins: dict[str, str] = {}
    for origin, item in read_items(value, LIST_OF[point], notes):
        entry = _read_entry(item, origin, point, notes)
        if entry is None:
            continue
        name = str(entry["name"])
        if name in entries:
            notes.error(origin, f"{name} is there already, at {origins[name]}")
            continue
        same = next((other for other in entries.values() if _is_same(entry, other, point)), None)
        if same is not None and point == "filter":
            notes.warn(origin, f"{name} is the same predicate as {same['name']}: it runs once")
            continue
        if same is not None and name not in ALIASES[point]:
            notes.error(origin, f"{name} is the same priority as {same['name']}")
            continue
        entries[name] = entry if same is None else _with_name_of_its_own(entry)
        origins[name] = origin
    return list(entries.values())


def _read_entry(item: object, origin: str, point: Point, notes: Notes) -> Manifest | None:
    body = read_mapping(item, origin, notes)
    for key in body:
        if key not in _ENTRY_FIELDS[point]:
            notes.error(f"{origin}.{key}", "unknown field")
    name = body.get("name")
    if not isinstance(name, str) or not name:
        notes.error(f"{origin}.name", "is required" if name is None else f"{show(name)} is not a name")
        return None
    weight = _weight(body.get("weight"), f"{origin}.weight", notes) if point == "score" else {}
    if body.get("argument") is None:
        return {"name": name, **weight} if _is_known(name, origin, point, notes) else None
    configured = _read_argument(body["argument"], f"{origin}.argument", point, notes)
    if configured is None:
        return None
    plugin, args = configured
    if _stands_for(name, point) == (plugin,):
        return {"name": name, **weight, "args": args}
    if name in PLUGINS or name in ALIASES[point]:
        notes.error(f"{origin}.name", f"{name} is the name of another one, which takes no such argument")
        return None
    return {"name": name, "plugin": plugin, **weight, "args": args}


def _is_known(name: str, origin: str, point: Point, notes: Notes) -> bool:
    plugins = _stands_for(name, point)
    kind = PLUGINS.get(plugins[0])
    if kind is None or not (kind.filters if point == "filter" else kind.scores):
        notes.error(f"{origin}.name", f"{show(name)} is not one of Kubernetes 1.9 to 1.17, nor of today")
        return False
    try:
        make_plugin(plugins[0], {}, point)
    except BadArgument:
        needed = next(key for key, argument in _ARGUMENTS[point].items() if argument.plugin == name)
        notes.error(f"{origin}.argument", f"is required: {needed}")
        return False
    return True


def _read_argument(value: object, where: str, point: Point, notes: Notes) -> tuple[str, Args] | None:
    body = {key: item for key, item in read_mapping(value, where, notes).items() if item is not None}
    known = _ARGUMENTS[point]
    if len(body) != 1 or not body.keys() <= known.keys():
        notes.error(where, f"must be exactly one of {', '.join(known)}")
        return None
    [(key, fields)] = body.items()
    argument = known[key]
    given = read_mapping(fields, f"{where}.{key}", notes)
    for name in given:
        if name not in argument.fields:
            notes.error(f"{where}.{key}.{name}", f"unknown field; known are {', '.join(argument.fields)}")
    args = argument.make({name: given[name] for name in argument.fields if given.get(name) is not None})
    try:
        make_plugin(argument.plugin, args, point)
    except BadArgument as error:
        notes.error(f"{where}.{key}", str(error))
    return argument.plugin, args


def _weight(value: object, where: str, notes: Notes) -> Manifest:
    if isinstance(value, int) and not isinstance(value, bool) and 1 <= value <= WEIGHT_MAX:
        return {"weight": value}
    notes.error(
        where, "is required" if value is None else f"{show(value)} is not a whole number from 1 to {WEIGHT_MAX}"
    )
    return {}


# --- what stands for what


def _stands_for(name: str, point: Point) -> tuple[str, ...]:
    """Today's plugins that the name means; the name itself where it is no old one."""
    alias = ALIASES[point].get(name)
    return alias.plugins if alias is not None else (name,)


def _is_same(entry: Manifest, other: Manifest, point: Point) -> bool:
    if "plugin" in entry or "plugin" in other:
        return False
    mine, others = _stands_for(str(entry["name"]), point), _stands_for(str(other["name"]), point)
    return len(mine) == len(others) == 1 and mine == others


def _with_name_of_its_own(entry: Manifest) -> Manifest:
    """The same entry as one more of its plugin, beside another that has the plugin's place."""
    alias = ALIASES["score"][str(entry["name"])]
    return {"plugin": alias.plugins[0], "args": dict(alias.args), **entry}


def _switched_off(entries: Iterable[Manifest], point: Point) -> list[Manifest]:
    """What the default profile has besides."""
    listed = {plugin for entry in entries if "plugin" not in entry for plugin in _stands_for(str(entry["name"]), point)}
    return [{"name": item.name, "enabled": False} for item in _BASE[point] if item.name not in listed]


def _set_affinity_weight(weight: object, spec: Manifest, notes: Notes) -> None:
    """The weight of required affinity in scores is an argument of InterPodAffinity."""
    where = "hardPodAffinitySymmetricWeight"
    if not isinstance(weight, int) or isinstance(weight, bool) or not 0 <= weight <= 100:
        notes.error(where, f"{show(weight)} is not a whole number from 0 to 100")
        return
    if weight <= 1:
        return  # 0 is none given, and 1 the default
    listed = spec.setdefault("priorities", [{"name": "InterPodAffinity"}])
    assert isinstance(listed, list)
    for entry in listed:
        if _stands_for(entry["name"], "score") == ("InterPodAffinity",) and entry.get("enabled", True):
            entry["args"] = {"hardPodAffinityWeight": weight}
