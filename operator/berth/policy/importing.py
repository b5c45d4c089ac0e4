"""From a KubeSchedulerConfiguration to SchedulingPolicy manifests, one for each profile; or from an old Policy file.

The way of a profile: its plugin sets are read and checked, expanded as kube-scheduler expands them (`profiles`), and
what then filters and scores, with weights and arguments, is written down as the difference from the default profile,
which is what a SchedulingPolicy states. Reading such a manifest gives the same plugins, weights and arguments again,
and the same order of filters. Policy files go through `old_policies`.

Nothing is dropped in silence. What has no counterpart in a policy becomes an `ImportProblem` that names the field, a
warning: the manifests are what can be said. A configuration that is wrong in itself gives errors; then the manifests
are for reading, not for applying. No exception is raised for anything that a configuration contains.

What kube-scheduler does by default is not a problem even where Berth does it elsewhere or not at all (SchedulingGates,
DefaultPreemption, a queue sorted by priority): docs/policies.md has the list.
"""

import re
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from berth.policy.configuration import (
    VERSIONS,
    ImportProblem,
    Notes,
    Profile,
    asks_nothing,
    read_items,
    read_mapping,
    read_plugin_config,
    read_plugin_sets,
)
from berth.policy.counterparts import TELLING_BEFORE, check_counterparts
from berth.policy.defaults import DEFAULT_PREDICATES, DEFAULT_PRIORITIES, PREDICATE_ORDER
from berth.policy.old_policies import VERSION as OLD_VERSION
from berth.policy.old_policies import import_old_policy
from berth.policy.profiles import Expansion, expand_profile
from berth.policy.schema import API_VERSION, KIND, SCHEDULER_NAME_MAX_LENGTH
from berth.policy.wording import show

__all__ = ["ImportProblem", "Imported", "import_configuration"]

Manifest = dict[str, object]

DEFAULT_SCHEDULER_NAME = "default-scheduler"
_PROFILE_FIELDS = ("schedulerName", "percentageOfNodesToScore", "plugins", "pluginConfig")
# Fields beside the profiles: the values that ask for nothing, and what to say of any other.
_PROCESS = "concerns the kube-scheduler process, not its decisions: Berth has settings of its own for that"
_EVERY_NODE = "has no counterpart: Berth looks at every node"
_OTHER_FIELDS: Mapping[str, tuple[tuple[object, ...], str]] = {
    "parallelism": ((16,), _PROCESS),
    "leaderElection": ((), _PROCESS),
    "clientConnection": ((), _PROCESS),
    "enableProfiling": ((True,), _PROCESS),
    "enableContentionProfiling": ((True,), _PROCESS),
    "delayCacheUntilActive": ((False,), _PROCESS),
    "percentageOfNodesToScore": ((0, 100), _EVERY_NODE),
    "podInitialBackoffSeconds": ((1,), "has no counterpart: backoff starts at 1 second"),
    "podMaxBackoffSeconds": ((10,), "has no counterpart: backoff ends at 10 seconds"),
    "extenders": (([],), "has no counterpart: extenders are not asked"),
}


class Imported(NamedTuple):
    manifests: list[Manifest]
    problems: tuple[ImportProblem, ...]

    @property
    def errors(self) -> tuple[ImportProblem, ...]:
        return tuple(problem for problem in self.problems if problem.severity == "error")


def import_configuration(configuration: Mapping[str, object]) -> Imported:
    """A KubeSchedulerConfiguration or Policy as SchedulingPolicy manifests, and what they do not carry over."""
    notes = Notes()
    if configuration.get("kind") == "Policy":
        return _import_old(configuration, notes)
    if not _check_type(configuration, notes):
        return Imported([], notes.all())
    _check_other_fields(configuration, notes)
    retired_allowed = configuration["apiVersion"] != VERSIONS[0]
    manifests = [
        _import_profile(Profile(body, f"profiles[{index}]", retired_allowed, notes), name)
        for index, (body, name) in enumerate(_profiles(configuration, notes))
    ]
    _give_names(manifests)
    return Imported(manifests, notes.all())


def _import_old(policy: Mapping[str, object], notes: Notes) -> Imported:
    if policy.get("apiVersion") != OLD_VERSION:
        notes.error("apiVersion", f"{show(policy.get('apiVersion'))} is not {OLD_VERSION}")
        return Imported([], notes.all())
    spec = {"schedulerName": DEFAULT_SCHEDULER_NAME, **import_old_policy(policy, notes)}
    manifests: list[Manifest] = [{"apiVersion": API_VERSION, "kind": KIND, "metadata": {}, "spec": spec}]
    _give_names(manifests)
    return Imported(manifests, notes.all())


# --- the configuration as a whole


def _check_type(configuration: Mapping[str, object], notes: Notes) -> bool:
    kind, version = configuration.get("kind"), configuration.get("apiVersion")
    if kind != "KubeSchedulerConfiguration":
        notes.error("kind", f"{show(kind)} is not KubeSchedulerConfiguration or Policy")
    elif version not in VERSIONS:
        notes.error("apiVersion", f"{show(version)} is not one of {', '.join(VERSIONS)}")
    else:
        return True
    return False


def _check_other_fields(configuration: Mapping[str, object], notes: Notes) -> None:
    for key, value in configuration.items():
        if key in ("kind", "apiVersion", "profiles") or value is None:
            continue
        if key not in _OTHER_FIELDS:
            notes.error(str(key), "unknown field of KubeSchedulerConfiguration")
        elif not asks_nothing(value, _OTHER_FIELDS[key][0]):
            notes.warn(str(key), _OTHER_FIELDS[key][1])


def _profiles(configuration: Mapping[str, object], notes: Notes) -> list[tuple[Mapping[str, object], str]]:
    """Each profile with its scheduler name; without any there is one, as in kube-scheduler."""
    bodies = [
        read_mapping(item, where, notes) for where, item in read_items(configuration.get("profiles"), "profiles", notes)
    ]
    bodies = bodies or [{}]
    named: dict[str, int] = {}
    found = []
    for index, body in enumerate(bodies):
        where = f"profiles[{index}].schedulerName"
        name = body.get("schedulerName")
        if name is None and len(bodies) == 1:
            name = DEFAULT_SCHEDULER_NAME
        if not isinstance(name, str) or not name:
            notes.error(where, "is required" if name is None else f"{show(name)} is not a scheduler name")
            name = f"profile-{index}"
        elif len(name) > SCHEDULER_NAME_MAX_LENGTH:
            notes.error(where, f"has {len(name)} characters, a policy's may have {SCHEDULER_NAME_MAX_LENGTH}")
        elif name in named:
            notes.error(where, f"{show(name)} is the name of profiles[{named[name]}] already")
        named.setdefault(name, index)
        found.append((body, name))
    return found


def _give_names(manifests: Sequence[Manifest]) -> None:
    """Object names from the scheduler names: as the API server takes them, and each once."""
    taken: set[str] = set()
    for manifest in manifests:
        spec = manifest["spec"]
        assert isinstance(spec, dict)
        stem = re.sub(r"[^a-z0-9]+", "-", spec["schedulerName"].lower())[:240].strip("-") or "imported"
        name, count = stem, 1
        while name in taken:
            count += 1
            name = f"{stem}-{count}"
        taken.add(name)
        manifest["metadata"] = {"name": name}


# --- one profile


def _import_profile(profile: Profile, scheduler_name: str) -> Manifest:
    for key in profile.body:
        if key not in _PROFILE_FIELDS:
            profile.notes.error(f"{profile.where}.{key}", "unknown field of a profile")
    if not asks_nothing(profile.body.get("percentageOfNodesToScore"), (None, 0, 100)):
        profile.notes.warn(f"{profile.where}.percentageOfNodesToScore", _EVERY_NODE)
    sets = read_plugin_sets(profile)
    expansion = expand_profile(sets)
    args = read_plugin_config(profile, expansion)
    check_counterparts(profile, sets, expansion)
    spec: dict[str, object] = {"schedulerName": scheduler_name}
    if predicates := _predicates(expansion, args):
        spec["predicates"] = predicates
    running = list(expansion.plugins["filter"])
    if running != sorted(running, key=PREDICATE_ORDER.index):
        spec["predicateOrder"] = running
    if priorities := _priorities(expansion, args):
        spec["priorities"] = priorities
    return {"apiVersion": API_VERSION, "kind": KIND, "metadata": {}, "spec": spec}


def _predicates(expansion: Expansion, args: Mapping[str, Mapping[str, object]]) -> list[Manifest]:
    base = [entry.name for entry in DEFAULT_PREDICATES]
    running = expansion.plugins["filter"]
    entries: list[Manifest] = []
    for name in (*base, *(name for name in running if name not in base)):
        if name not in running and name in TELLING_BEFORE and expansion.runs(name, "preFilter"):
            entries.append({"name": name, "preFilterOnly": True, **_with_args(args.get(name))})
        elif name not in running:
            entries.append({"name": name, "enabled": False})
        elif name in args or name not in base:
            entries.append({"name": name, **_with_args(args.get(name))})
    return entries


def _priorities(expansion: Expansion, args: Mapping[str, Mapping[str, object]]) -> list[Manifest]:
    base = {entry.name: entry.weight for entry in DEFAULT_PRIORITIES}
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
