"""The default constraints of PodTopologySpread, for pods that have no constraints of their own.

Their selector combines the selectors of all services that select the pod, and of the controller that owns it. A pod
without any is not spread. `System` is a constraint on hostnames (maxSkew 3) and one on zones (maxSkew 5), both
ScheduleAnyway; `List` are the constraints in the plugin's arguments.
"""

import re
from collections.abc import Mapping, Sequence
from typing import Any, Final

from berth.engine.plugin import BadArgument
from berth.engine.plugins.common.allocation import require_list
from berth.engine.state.state import State
from berth.model import (
    FieldError,
    LabelSelector,
    Pod,
    Requirement,
    SpreadConstraint,
    WorkloadOwner,
    build_spread_constraint,
    make_label_selector,
)

HARD: Final = "DoNotSchedule"
SOFT: Final = "ScheduleAnyway"
HOSTNAME: Final = "kubernetes.io/hostname"
ZONE: Final = "topology.kubernetes.io/zone"
SYSTEM_CONSTRAINTS: Final = (
    SpreadConstraint(3, HOSTNAME, SOFT, None, None, "Honor", "Ignore"),
    SpreadConstraint(5, ZONE, SOFT, None, None, "Honor", "Ignore"),
)
_REPLICATION_CONTROLLER: Final = "ReplicationController"
_API_VERSIONS: Final = {_REPLICATION_CONTROLLER: "v1", "ReplicaSet": "apps/v1", "StatefulSet": "apps/v1"}
_PREFIX: Final = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
_NAME: Final = re.compile(r"([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]")
_FIELDS: Final = frozenset(
    (
        "maxSkew",
        "topologyKey",
        "whenUnsatisfiable",
        "labelSelector",
        "minDomains",
        "nodeAffinityPolicy",
        "nodeTaintsPolicy",
        "matchLabelKeys",
    )
)


def default_selector(pod: Pod, state: State) -> LabelSelector:
    """Returns the combined selector; without requirements if no service or controller selects the pod."""
    labels: dict[str, str] = {}
    for service in state.services_of(pod):
        labels.update(service.selector)
    requirements: tuple[Requirement, ...] = ()
    owner = _owner(pod, state)
    if owner is not None and owner.selector is not None:
        if owner.kind == _REPLICATION_CONTROLLER:  # its labels replace those of services
            labels.update((wanted.key, wanted.values[0]) for wanted in owner.selector.requirements)
        else:
            requirements = owner.selector.requirements
    return make_label_selector([*(Requirement(key, "In", (value,)) for key, value in labels.items()), *requirements])


def _owner(pod: Pod, state: State) -> WorkloadOwner | None:
    reference = pod.controller
    if reference is None or _API_VERSIONS.get(reference.kind) != reference.api_version:
        return None
    return state.objects[reference.kind].get(f"{pod.namespace}/{reference.name}")


def read_defaults(args: Mapping[str, Any]) -> tuple[tuple[SpreadConstraint, ...], bool]:
    """Parses the default constraints in the plugin's arguments; the flag tells whether they are the System ones."""
    listed = require_list(args.get("defaultConstraints") or [], "defaultConstraints")
    kind = args.get("defaultingType") or "System"
    if kind not in ("System", "List"):
        raise BadArgument("defaultingType", "must be System or List")
    if kind == "System":
        if listed:
            raise BadArgument("defaultingType", "must be List where defaultConstraints are given")
        return SYSTEM_CONSTRAINTS, True
    constraints = tuple(_constraint(body, f"defaultConstraints[{index}]") for index, body in enumerate(listed))
    _refuse_repetition(constraints)
    return constraints, False


def _constraint(body: Any, path: str) -> SpreadConstraint:
    if not isinstance(body, Mapping):
        raise BadArgument(path, "must be a topology spread constraint")
    for field in body:
        if field not in _FIELDS:
            raise BadArgument(f"{path}.{field}", "a topology spread constraint has no such field")
    if body.get("labelSelector") is not None:
        raise BadArgument(f"{path}.labelSelector", "must not be given: each pod's services and controller give it")
    try:
        constraint = build_spread_constraint(body, {})
    except FieldError as error:
        raise BadArgument(f"{path}.{error.path}", error.problem) from error
    if not _is_label_key(constraint.topology_key):
        raise BadArgument(f"{path}.topologyKey", f"{constraint.topology_key!r} cannot be the key of a label")
    return constraint


def _is_label_key(key: str) -> bool:
    """An optional DNS name of at most 253 characters, a slash, and a name of at most 63."""
    prefix, slash, name = key.rpartition("/")
    if slash and not (len(prefix) <= 253 and _PREFIX.fullmatch(prefix)):
        return False
    return len(name) <= 63 and _NAME.fullmatch(name) is not None


def _refuse_repetition(constraints: Sequence[SpreadConstraint]) -> None:
    seen = set()
    for index, constraint in enumerate(constraints):
        what = (constraint.topology_key, constraint.when_unsatisfiable)
        if what in seen:
            raise BadArgument(f"defaultConstraints[{index}]", f"repeats {' with '.join(what)}")
        seen.add(what)
