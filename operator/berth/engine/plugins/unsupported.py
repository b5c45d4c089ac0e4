"""Plugins of kube-scheduler that this version knows by name but cannot judge with.

Each takes its place in a policy and has nothing to say of pods that do not need it. A pod that does need it is refused
in words, so that no rule a user wrote is ever dropped in silence; who would rather place such pods without the rule
switches the plugin off in the SchedulingPolicy. What would only have moved a score, without the pod having asked for
it, does not refuse (`unscored` tells of it).
"""

from collections.abc import Mapping
from typing import Any, ClassVar

from berth.engine.events import Event
from berth.engine.plugin import BadArgument, Plugin, Query
from berth.engine.state import State
from berth.engine.verdict import SKIP, Code, PreFilter
from berth.model import Pod, PodTerm

ZONE_LABELS = (
    "topology.kubernetes.io/zone",
    "topology.kubernetes.io/region",
    "failure-domain.beta.kubernetes.io/zone",
    "failure-domain.beta.kubernetes.io/region",
)
EXCLUSIVE_DISKS = ("gcePersistentDisk", "awsElasticBlockStore", "rbd", "iscsi")


class Unsupported(Plugin):
    """The shape of them all: `needs` says in words what the pod needs of the plugin, None where that is nothing."""

    filters = True
    default_args: ClassVar[Mapping[str, Any]] = {}
    reads_claims: ClassVar[bool] = False  # in kube-scheduler it has words of its own for a claim that is not Bound

    def __init__(self, args: Mapping[str, Any]) -> None:
        for field, value in args.items():
            if field not in self.default_args or value != self.default_args[field]:
                raise BadArgument(field, f"{self.name} cannot be configured in this version; leave the argument out")

    def needs(self, pod: Pod, state: State) -> str | None:
        raise NotImplementedError

    def unscored(self, pod: Pod, state: State) -> str | None:
        """What kube-scheduler would have scored here, in words."""
        return None

    def pre_filter(self, query: Query, state: State) -> PreFilter:
        need = self.needs(query.pod, state)
        if need is None:
            return SKIP
        reason = f"{need}, which this version of Berth cannot judge (plugin {self.name})"
        return PreFilter(code=Code.UNRESOLVABLE, reasons=(reason,), unsupported=True)

    def pre_score(self, query: Query, state: State) -> bool:
        return False


class VolumeRestrictions(Unsupported):
    name = "VolumeRestrictions"
    reads_claims = True
    wakes_on = frozenset({Event.CLAIM})

    def needs(self, pod: Pod, state: State) -> str | None:
        for volume in pod.volumes:
            if volume.source in EXCLUSIVE_DISKS:
                return f"pod has a volume of type {volume.source}"
            claim = state.claim(pod.namespace, volume.claim) if volume.claim else None
            if claim is not None and "ReadWriteOncePod" in claim.access_modes:
                return f"claim {claim.name} has the access mode ReadWriteOncePod"
        return None


class NodeVolumeLimits(Unsupported):
    name = "NodeVolumeLimits"
    reads_claims = True
    wakes_on = frozenset({Event.CLAIM, Event.VOLUME, Event.CSI_NODE})

    def needs(self, pod: Pod, state: State) -> str | None:
        drivers = {_csi_driver(pod, volume.claim, volume.details.get("driver"), state) for volume in pod.volumes}
        for driver in sorted(drivers - {""}):
            if any(_limits(node, driver) for node in state.objects["CSINode"].values()):
                return f"pod has volumes of the CSI driver {driver}, whose number on a node is limited"
        return None


class VolumeZone(Unsupported):
    name = "VolumeZone"
    reads_claims = True
    wakes_on = frozenset({Event.CLAIM, Event.VOLUME})

    def needs(self, pod: Pod, state: State) -> str | None:
        for volume in pod.volumes:
            claim = state.claim(pod.namespace, volume.claim) if volume.claim else None
            bound = state.volume(claim.volume_name) if claim is not None else None
            if bound is not None and any(label in bound.labels for label in ZONE_LABELS):
                return f"volume {bound.name} carries zone labels"
        return None


class PodTopologySpread(Unsupported):
    name = "PodTopologySpread"
    scores = True
    node_local = False
    default_args: ClassVar[Mapping[str, Any]] = {"defaultingType": "System", "defaultConstraints": []}

    def needs(self, pod: Pod, state: State) -> str | None:
        return "pod has topology spread constraints" if pod.spread_constraints else None

    def unscored(self, pod: Pod, state: State) -> str | None:
        if pod.spread_constraints:
            return "the spreading that the pod asks for"
        if next(state.services_of(pod), None) is not None:
            return "the default spreading over the pods of a service"
        for reference in pod.owners:
            key = f"{pod.namespace}/{reference.name}"
            if reference.controller and key in state.objects.get(reference.kind, {}):
                return f"the default spreading over the pods of a {reference.kind}"
        return None


class InterPodAffinity(Unsupported):
    name = "InterPodAffinity"
    scores = True
    node_local = False
    wakes_on = frozenset({Event.POD_REMOVED, Event.NAMESPACE})
    default_args: ClassVar[Mapping[str, Any]] = {
        "hardPodAffinityWeight": 1,
        "ignorePreferredTermsOfExistingPods": False,
    }

    def needs(self, pod: Pod, state: State) -> str | None:
        for affinity in (pod.pod_affinity, pod.pod_anti_affinity):
            if affinity.required or affinity.preferred:
                return "pod asks for pod affinity or anti-affinity"
        if any(_selects(term, pod, state) for term in state.table.anti_affinity_terms):
            return "pods that are already placed have anti-affinity to it"
        return None

    def unscored(self, pod: Pod, state: State) -> str | None:
        if pod.pod_affinity.preferred or pod.pod_anti_affinity.preferred:
            return "the affinity that the pod prefers"
        if any(_selects(term, pod, state) for term in state.table.scoring_terms):
            return "the affinity that placed pods have to it"
        return None


class DynamicResources(Unsupported):
    name = "DynamicResources"
    scores = True
    default_args: ClassVar[Mapping[str, Any]] = {"filterTimeout": "10s"}

    def needs(self, pod: Pod, state: State) -> str | None:
        return "pod has resource claims (spec.resourceClaims)" if pod.resource_claims else None


class NodeDeclaredFeatures(Unsupported):
    name = "NodeDeclaredFeatures"

    def needs(self, pod: Pod, state: State) -> str | None:
        return f"pod needs node features ({', '.join(pod.required_features)})" if pod.required_features else None


def _csi_driver(pod: Pod, claim_name: str | None, inline: Any, state: State) -> str:
    if inline:
        return str(inline)
    claim = state.claim(pod.namespace, claim_name) if claim_name else None
    volume = state.volume(claim.volume_name) if claim is not None else None
    return (volume.csi_driver or "") if volume is not None else ""


def _limits(node: Any, driver: str) -> bool:
    return any(known.name == driver and known.count is not None for known in node.drivers)


def _selects(term: PodTerm, pod: Pod, state: State) -> bool:
    if term.selector is None or not term.selector.matches(pod.labels):
        return False
    if pod.namespace in term.namespaces:
        return True
    namespace = state.namespace(pod.namespace)
    return (
        namespace is not None
        and term.namespace_selector is not None
        and term.namespace_selector.matches(namespace.labels)
    )
