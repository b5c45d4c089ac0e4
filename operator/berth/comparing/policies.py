"""The two policies of a comparison: from a file, from the cluster, or the default profile."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from berth.policy import BUILT_IN, ActivePolicy, activate
from berth.policy.defaults import KUBERNETES_DEFAULT
from berth.policy.policy_objects import PolicyObjects, identity_of
from berth.policy.wording import list_names

Manifest = Mapping[str, Any]


class NoPolicy(Exception):
    """There is no such policy, or it is not valid; the message says what to do."""


def default_policy() -> ActivePolicy:
    return activate(BUILT_IN)


def policy_in_file(documents: Sequence[object], name: str, in_cluster: Iterable[Manifest]) -> ActivePolicy:
    """The policy of the name, or, with "", the only one; what it is based on is in the file or in the cluster."""
    objects = _objects(in_cluster)
    names = []
    for document in documents:
        found = identity_of(document)[0] if isinstance(document, Mapping) else ""
        if not isinstance(document, Mapping) or not found:
            raise NoPolicy("holds something that is no policy: each has apiVersion, kind and metadata.name")
        names.append(found)
        objects.observe(_as_new(document))
    if not names:
        raise NoPolicy("has no policy in it")
    if not name and len(names) > 1:
        raise NoPolicy(f"has {len(names)} policies: choose one with #NAME; there is {list_names(names)}")
    if name and name not in names:
        raise NoPolicy(f"has no policy {name}; there is {list_names(names)}")
    return _take(objects, name or names[0])


def has_policy(name: str, in_cluster: Sequence[Manifest]) -> bool:
    return name in _objects(in_cluster).records


def policy_in_cluster(name: str, in_cluster: Sequence[Manifest]) -> ActivePolicy:
    objects = _objects(in_cluster)
    if name not in objects.records:
        there = list_names(sorted(objects.records)) or "none"
        raise NoPolicy(
            f"is no file, nor {KUBERNETES_DEFAULT}, nor a policy of the library or the cluster; there is {there}"
        )
    return _take(objects, name)


def _objects(manifests: Iterable[Manifest]) -> PolicyObjects:
    objects = PolicyObjects()
    for manifest in manifests:
        objects.observe(manifest)
    return objects


def _take(objects: PolicyObjects, name: str) -> ActivePolicy:
    record = objects.records[name]
    if record.problems:
        raise NoPolicy("is not valid: " + "; ".join(map(str, record.problems)))
    assert record.last_good is not None
    return record.last_good


def _as_new(document: Manifest) -> Manifest:
    """Without what the API server wrote: a file may be an edited copy of an object that is there."""
    metadata = {key: value for key, value in document["metadata"].items() if key not in ("uid", "generation")}
    return {**document, "metadata": metadata}


def is_default(name: str) -> bool:
    return name == KUBERNETES_DEFAULT
