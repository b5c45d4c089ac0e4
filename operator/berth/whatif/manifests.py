"""Manifests of -f, as if they were applied: sorted into policies, workloads, and objects that decisions read."""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final

from berth.model import KIND, InvalidObject, object_key, parse
from berth.policy.fields.spec_fields import GROUP as POLICY_GROUP
from berth.policy.fields.spec_fields import KIND as POLICY
from berth.whatif.cluster_objects import ADMISSION_KINDS, CLUSTER_SCOPED, Body, identify, is_read
from berth.whatif.errors import CannotSimulate
from berth.whatif.workloads import GROUPS

# Kinds that neither have pods nor are read by decisions. Others are refused, because they may have pods.
WITHOUT_EFFECT: Final = frozenset(
    {
        *("ConfigMap", "Secret", "ServiceAccount", "Endpoints", "EndpointSlice", "Event"),
        *("Role", "RoleBinding", "ClusterRole", "ClusterRoleBinding"),
        *("Ingress", "IngressClass", "NetworkPolicy", "CustomResourceDefinition", "APIService", "Lease"),
        *("MutatingWebhookConfiguration", "ValidatingWebhookConfiguration", "ControllerRevision"),
    }
)


@dataclass(slots=True)
class Manifests:
    """The objects by what is done with them, each in the order of the files."""

    policies: list[Body] = field(default_factory=list)
    workloads: list[Body] = field(default_factory=list)
    admission: list[Body] = field(default_factory=list)  # what the API server reads when it creates pods
    objects: list[Body] = field(default_factory=list)
    without_effect: Counter[str] = field(default_factory=Counter)


def sort_manifests(bodies: Iterable[Body], namespace: str) -> Manifests:
    """Returns the manifests, those without a namespace in this one. Raises CannotSimulate for what it cannot judge."""
    manifests = Manifests()
    for body in bodies:
        kind, group = identify(body)
        body = _in_namespace(body, kind, namespace)
        if kind == POLICY and group == POLICY_GROUP:
            manifests.policies.append(body)
        elif GROUPS.get(kind) == group:
            manifests.workloads.append(body)
        elif ADMISSION_KINDS.get(kind) == group:
            manifests.admission.append(body)
        elif is_read(kind, group):
            manifests.objects.append(body)
        elif kind in WITHOUT_EFFECT:
            manifests.without_effect[kind] += 1
        else:
            raise _unknown(body, kind, group)
    return manifests


def check_readable(body: Body) -> None:
    """Raises CannotSimulate if a manifest has a field that decisions cannot read."""
    kind = str(body["kind"])
    if kind in KIND:
        try:
            parse(kind, body)
        except InvalidObject as error:
            raise CannotSimulate(f"{error}: correct the manifest") from error


def _in_namespace(body: Body, kind: str, namespace: str) -> Body:
    if kind in CLUSTER_SCOPED or body["metadata"].get("namespace"):
        return body
    return {**body, "metadata": {**body["metadata"], "namespace": namespace}}


def _unknown(body: Body, kind: str, group: str) -> CannotSimulate:
    named = f"{kind}.{group}" if group else kind
    known = ", ".join(sorted(GROUPS))
    return CannotSimulate(
        f"{named} {object_key(body)}: cannot be judged, because the pods of this kind are not known: give its pods, or "
        f"a workload instead ({known})"
    )
