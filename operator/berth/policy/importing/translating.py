"""From a KubeSchedulerConfiguration to SchedulingPolicy manifests, one for each profile; or from an old Policy file.

Each profile is read by itself (`profiles`). What a configuration says for all its profiles (extenders,
backoff) is in each of the manifests. Policy files go through `old_policies`.

Nothing is dropped silently. A setting without a counterpart in a policy becomes an `ImportProblem` that names the
field, a warning. An invalid configuration gives errors; then the manifests are for reading, not for applying. No
content of a configuration raises an exception.

What kube-scheduler does by default is not a problem even where Berth does it elsewhere or otherwise (SchedulingGates, a
queue sorted by priority, how many nodes are looked at): docs/policies.md has the list.
"""

import re
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from berth.policy.fields.spec_fields import KIND, SCHEDULER_NAME_MAX_LENGTH
from berth.policy.importing.configuration import (
    VERSIONS,
    ImportedProfile,
    ImportProblem,
    Notes,
    asks_nothing,
    cut_seconds,
    read_items,
    read_mapping,
)
from berth.policy.importing.extenders import import_extenders
from berth.policy.importing.old_policies import VERSIONS as OLD_VERSIONS
from berth.policy.importing.old_policies import import_old_policy
from berth.policy.importing.profiles import import_profile, read_share
from berth.policy.records import BackoffSettings
from berth.policy.schema import API_VERSION, SPEC_FIELDS
from berth.policy.settings import read_backoff
from berth.policy.wording import show

__all__ = ["ImportProblem", "Imported", "import_configuration"]

Manifest = dict[str, object]

DEFAULT_SCHEDULER_NAME = "default-scheduler"
# Fields beside the profiles: the values that ask for nothing, and what to say of any other.
_PROCESS = "concerns the kube-scheduler process, not its decisions: Berth has settings of its own for that"
_OTHER_FIELDS: Mapping[str, tuple[tuple[object, ...], str]] = {
    "parallelism": ((16,), _PROCESS),
    "leaderElection": ((), _PROCESS),
    "clientConnection": ((), _PROCESS),
    "enableProfiling": ((True,), _PROCESS),
    "enableContentionProfiling": ((True,), _PROCESS),
    "delayCacheUntilActive": ((False,), _PROCESS),
}
# kube-scheduler's name of a field of `backoff`, and what it is where it is not given.
_BACKOFF = {"podInitialBackoffSeconds": ("initialSeconds", 1), "podMaxBackoffSeconds": ("maxSeconds", 10)}
_READ_FIELDS = ("kind", "apiVersion", "profiles", "extenders", "percentageOfNodesToScore", *_BACKOFF)


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
    shared = _import_shared(configuration, notes)
    manifests = [
        _manifest(name, import_profile(ImportedProfile(body, f"profiles[{index}]", retired_allowed, notes), shared))
        for index, (body, name) in enumerate(_profiles(configuration, notes))
    ]
    _give_names(manifests)
    return Imported(manifests, notes.all())


def _import_old(policy: Mapping[str, object], notes: Notes) -> Imported:
    if policy.get("apiVersion") not in OLD_VERSIONS:
        notes.error("apiVersion", f"{show(policy.get('apiVersion'))} is not one of {', '.join(OLD_VERSIONS)}")
        return Imported([], notes.all())
    manifests = [_manifest(DEFAULT_SCHEDULER_NAME, import_old_policy(policy, notes))]
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
        if key in _READ_FIELDS or value is None:
            continue
        if key not in _OTHER_FIELDS:
            notes.error(str(key), "unknown field of KubeSchedulerConfiguration")
        elif key == "parallelism" and (not isinstance(value, int) or isinstance(value, bool) or value < 1):
            notes.error(str(key), f"{show(value)} is not a whole number of 1 or more")
        elif not asks_nothing(value, _OTHER_FIELDS[key][0]):
            notes.warn(str(key), _OTHER_FIELDS[key][1])


def _import_shared(configuration: Mapping[str, object], notes: Notes) -> Manifest:
    """What the configuration says for all its profiles, as fields of their specs."""
    spec: Manifest = {}
    if extenders := import_extenders(configuration.get("extenders"), notes):
        spec["extenders"] = extenders
    if backoff := _import_backoff(configuration, notes):
        spec["backoff"] = backoff
    share = read_share(configuration, "", notes)
    if share:  # 0, fewer the larger the cluster, is kube-scheduler's default; Berth looks at every node
        spec["percentageOfNodesToScore"] = share
    return spec


def _import_backoff(configuration: Mapping[str, object], notes: Notes) -> Manifest:
    given: Manifest = {}
    for field, (name, default) in _BACKOFF.items():
        seconds = configuration.get(field)
        if seconds is not None and (not isinstance(seconds, int) or isinstance(seconds, bool)):
            notes.error(field, f"{show(seconds)} is not a whole number")
        elif seconds not in (None, default):
            given[name] = cut_seconds(seconds, field, notes)
    fields = {f"spec.backoff.{name}": field for field, (name, _) in _BACKOFF.items()}
    read_backoff({"backoff": given}, BackoffSettings(), lambda where, message: notes.error(fields[where], message))
    return given


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


def _manifest(scheduler_name: str, spec: Manifest) -> Manifest:
    """With the fields in the order in which a policy is documented."""
    fields = {**spec, "schedulerName": scheduler_name}
    ordered = {key: fields[key] for key in SPEC_FIELDS if key in fields}
    return {"apiVersion": API_VERSION, "kind": KIND, "metadata": {}, "spec": ordered}


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
