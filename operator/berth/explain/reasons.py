"""The table of reasons: a stable code for every reason for which a plugin rejects a node or a pod.

kube-scheduler has only texts. A text belongs to one code; three dots in it stand for a name. docs/reasons.md is made
from this table. A code never changes its meaning; a new reason gets a new code.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from berth.engine.diagnosis import NO_NODES
from berth.engine.extender_result import EXTENDERS, LEFT_OUT
from berth.engine.legacy import check_node_label_presence, check_service_affinity, no_execute_taints, node_conditions
from berth.engine.plugin import Plugin
from berth.engine.plugins import (
    dynamic_resources,
    inter_pod_affinity,
    node_affinity,
    node_declared_features,
    node_name,
    node_ports,
    node_resources_fit,
    node_unschedulable,
    node_volume_limits,
    pod_topology_spread,
    taint_toleration,
    volume_binding,
    volume_restrictions,
    volume_zone,
)
from berth.engine.verdict import Code

ANY_NAME: Final = "..."

INSUFFICIENT_RESOURCE: Final = "InsufficientResource"
TOO_MANY_PODS: Final = "TooManyPods"
UNTOLERATED_TAINT: Final = "UntoleratedTaint"
NODE_UNSCHEDULABLE: Final = "NodeUnschedulable"
NODE_AFFINITY: Final = "NodeAffinityMismatch"
NODE_AFFINITY_CONFLICT: Final = "NodeAffinityConflict"
POLICY_NODE_AFFINITY: Final = "PolicyNodeAffinityMismatch"
NODE_NAME: Final = "NodeNameMismatch"
HOST_PORT: Final = "HostPortInUse"
POD_AFFINITY: Final = "PodAffinity"
POD_ANTI_AFFINITY: Final = "PodAntiAffinity"
EXISTING_ANTI_AFFINITY: Final = "ExistingPodAntiAffinity"
SPREAD_SKEW: Final = "TopologySpreadSkew"
SPREAD_LABEL: Final = "TopologyLabelMissing"
NOT_NAMED: Final = "NodeNotNamed"
UNSUPPORTED: Final = "ResourceClaimsUnsupported"
FEATURE: Final = "FeatureMissing"
EXPRESSION: Final = "PredicateNotSatisfied"
CUSTOM: Final = "RejectedByPlugin"
FAILED: Final = "PluginFailed"
EXTENDER: Final = "RejectedByExtender"
NO_NODES_CODE: Final = "NoNodes"


@dataclass(frozen=True, slots=True)
class ReasonKind:
    """`texts` are the messages of kube-scheduler; three dots stand for a name. None: the text is the plugin's own."""

    code: str
    plugins: tuple[str, ...]
    meaning: str
    helps: str
    texts: tuple[str, ...] = ()


_FIT, _VOLUMES = ("NodeResourcesFit",), ("VolumeBinding",)

KINDS: Final = (
    ReasonKind(
        INSUFFICIENT_RESOURCE,
        _FIT,
        "The node has less of a resource free than the pod requests. Free is what is allocatable and not requested by "
        "the pods on the node; what they really use does not matter.",
        "Request less, free the resource (fewer pods, or pods of lower priority), add nodes.",
        ("Insufficient ...",),
    ),
    ReasonKind(
        TOO_MANY_PODS,
        _FIT,
        "The node has as many pods as its kubelet allows (`status.allocatable.pods`).",
        "Free a place on the node, raise the kubelet's `maxPods`, add nodes.",
        (node_resources_fit.TOO_MANY_PODS,),
    ),
    ReasonKind(
        UNTOLERATED_TAINT,
        ("TaintToleration", "PodToleratesNodeNoExecuteTaints"),
        "The node has a taint of effect NoSchedule or NoExecute that no toleration of the pod tolerates.",
        "Add a toleration to the pod, or remove the taint.",
        (taint_toleration.REASON, no_execute_taints.REASON),
    ),
    ReasonKind(
        NODE_UNSCHEDULABLE,
        ("NodeUnschedulable", "CheckNodeCondition"),
        "The node is cordoned (`spec.unschedulable`).",
        "`kubectl uncordon` the node.",
        (node_unschedulable.REASON,),
    ),
    ReasonKind(
        NODE_AFFINITY,
        ("NodeAffinity",),
        "The labels of the node do not match the pod's `nodeSelector` or required node affinity.",
        "Change the selector or the affinity, or label the node.",
        (node_affinity.REASON_POD,),
    ),
    ReasonKind(
        POLICY_NODE_AFFINITY,
        ("NodeAffinity",),
        "The labels of the node do not match the affinity that the policy adds to every pod (`addedAffinity`).",
        "Change the policy, or label the node.",
        (node_affinity.REASON_ADDED,),
    ),
    ReasonKind(
        NODE_AFFINITY_CONFLICT,
        ("NodeAffinity",),
        "The required node affinity of the pod names nodes in a way that no node can match.",
        "Correct `matchFields` in the pod's node affinity.",
        (node_affinity.REASON_CONFLICT,),
    ),
    ReasonKind(
        NOT_NAMED,
        ("NodeAffinity",),
        "The pod may only go to the nodes that it names, and this node is not one of them, so it was not evaluated.",
        "Change the pod's node affinity.",
        ("node(s) didn't satisfy plugin(s) [...]",),
    ),
    ReasonKind(
        NODE_NAME,
        ("NodeName",),
        "The pod names another node in `spec.nodeName`.",
        "Leave `spec.nodeName` out.",
        (node_name.REASON,),
    ),
    ReasonKind(
        HOST_PORT,
        ("NodePorts",),
        "A pod on the node uses one of the host ports of this pod.",
        "Use another host port, or a Service instead of a host port.",
        (node_ports.REASON,),
    ),
    ReasonKind(
        POD_AFFINITY,
        ("InterPodAffinity",),
        "Near the node (in its topology domain) no pod runs that the pod's required affinity selects.",
        "Start the other pods first, or correct selector, namespaces or topology key.",
        (inter_pod_affinity.REASON_AFFINITY,),
    ),
    ReasonKind(
        POD_ANTI_AFFINITY,
        ("InterPodAffinity",),
        "Near the node a pod runs that the pod's required anti-affinity selects.",
        "Run fewer replicas, add topology domains, or prefer instead of requiring.",
        (inter_pod_affinity.REASON_ANTI_AFFINITY,),
    ),
    ReasonKind(
        EXISTING_ANTI_AFFINITY,
        ("InterPodAffinity",),
        "Near the node a pod runs whose own required anti-affinity selects this pod.",
        "Change the labels of this pod, or the anti-affinity of the other one.",
        (inter_pod_affinity.REASON_EXISTING,),
    ),
    ReasonKind(
        SPREAD_SKEW,
        ("PodTopologySpread",),
        "With the pod, the topology domain of the node would have more pods above the emptiest domain than `maxSkew`.",
        "Make room in the emptier domains, raise `maxSkew`, or use ScheduleAnyway.",
        (pod_topology_spread.REASON_SKEW,),
    ),
    ReasonKind(
        SPREAD_LABEL,
        ("PodTopologySpread",),
        "The node lacks the label that a spread constraint names as `topologyKey`.",
        "Label the node, or change the constraint.",
        (pod_topology_spread.REASON_LABEL,),
    ),
    ReasonKind(
        "VolumeZoneConflict",
        ("VolumeZone",),
        "A volume of the pod is in another zone or region than the node.",
        "Add nodes in the volume's zone.",
        (volume_zone.REASON,),
    ),
    ReasonKind(
        "VolumeNodeAffinityConflict",
        _VOLUMES,
        "A volume of the pod cannot be used on the node: the node does not match the volume's node affinity.",
        "Add or free nodes where the volume can be used.",
        (volume_binding.REASON_NODE,),
    ),
    ReasonKind(
        "NoVolumeToBind",
        _VOLUMES,
        "For an unbound claim of the pod there is no free volume that can be used on the node, and its class cannot "
        "provision one there.",
        "Create a volume, or change the class of the claim.",
        (volume_binding.REASON_NO_MATCH,),
    ),
    ReasonKind(
        "InsufficientStorageCapacity",
        _VOLUMES,
        "The CSI driver reports less free storage for the node than the claim requests (CSIStorageCapacity).",
        "Request a smaller volume, or add storage.",
        (volume_binding.REASON_NO_SPACE,),
    ),
    ReasonKind(
        "VolumeNotFound",
        ("VolumeBinding", "VolumeZone"),
        "A claim of the pod is bound to a volume that does not exist.",
        "Restore the volume, or create the claim anew.",
        (
            volume_binding.REASON_NO_VOLUME,
            'persistentvolumeclaim "..." bound to non-existent persistentvolume "..."',
            'persistentvolume "..." not found',
        ),
    ),
    ReasonKind(
        "ClaimNotFound",
        ("VolumeBinding", "VolumeZone", "VolumeRestrictions", "NodeVolumeLimits"),
        "The pod names a PersistentVolumeClaim that does not exist in its namespace.",
        "Create the claim.",
        ('persistentvolumeclaim "..." not found', 'looking up PVC ...: persistentvolumeclaim "..." not found'),
    ),
    ReasonKind(
        "ClaimNotCreatedYet",
        _VOLUMES,
        "The claim of an ephemeral volume has not been created yet.",
        "Wait for kube-controller-manager, which creates it.",
        ('waiting for ephemeral volume controller to create the persistentvolumeclaim "..."',),
    ),
    ReasonKind(
        "ClaimUnbound",
        ("VolumeBinding", "VolumeZone"),
        "A claim of the pod is not bound, and its class binds immediately, before a pod is scheduled.",
        "See the claim's events: a provisioner or a volume is missing.",
        (volume_binding.REASON_UNBOUND, volume_zone.REASON_UNBOUND),
    ),
    ReasonKind(
        "ClaimWithoutClass",
        ("VolumeZone",),
        "A claim of the pod has neither a volume nor a storage class.",
        "Give the claim a class or a volume.",
        (volume_zone.REASON_NO_CLASS,),
    ),
    ReasonKind(
        "ClaimDeleting",
        _VOLUMES,
        "A claim of the pod is being deleted.",
        "Create the claim anew once it is gone.",
        ('persistentvolumeclaim "..." is being deleted',),
    ),
    ReasonKind(
        "ClaimOfAnotherPod",
        ("VolumeBinding", "NodeVolumeLimits"),
        "The claim with the name of the pod's ephemeral volume was not created for this pod.",
        "Delete or rename the claim, or rename the pod.",
        ("PVC ... was not created for pod ... (pod is not owner)",),
    ),
    ReasonKind(
        "StorageClassNotFound",
        ("VolumeZone",),
        "A claim of the pod names a StorageClass that does not exist.",
        "Create the class, or correct its name in a new claim.",
        ('storageclass.storage.k8s.io "..." not found',),
    ),
    ReasonKind(
        "VolumeLimitReached",
        (
            "NodeVolumeLimits",
            "MaxEBSVolumeCount",
            "MaxGCEPDVolumeCount",
            "MaxAzureDiskVolumeCount",
            "MaxCinderVolumeCount",
        ),
        "With the pod's volumes, more volumes would be attached to the node than it allows.",
        "Free volumes on the node, or add nodes.",
        (node_volume_limits.REASON,),
    ),
    ReasonKind(
        "DiskInUse",
        ("VolumeRestrictions",),
        "A pod on the node uses the same disk in a way that cannot be shared.",
        "Use the disk read-only, or from one pod.",
        (volume_restrictions.REASON_DISK,),
    ),
    ReasonKind(
        "ClaimInUse",
        ("VolumeRestrictions",),
        "The claim has access mode ReadWriteOncePod, and another pod uses it.",
        "Stop the other pod, or use another access mode.",
        (volume_restrictions.REASON_CLAIM,),
    ),
    ReasonKind(
        FEATURE,
        ("NodeDeclaredFeatures",),
        "The pod needs a feature of Kubernetes that the node does not declare.",
        "Upgrade the node, or enable the feature there.",
        (node_declared_features.REASON,),
    ),
    ReasonKind(
        UNSUPPORTED,
        ("DynamicResources",),
        "The pod has resource claims, which this version of Berth does not support.",
        "Give the pod to kube-scheduler (`schedulerName`).",
        (dynamic_resources.REASON,),
    ),
    ReasonKind(
        "NodeNotReady",
        ("CheckNodeCondition",),
        "The node is not ready.",
        "See the node's conditions.",
        (node_conditions.REASON_NOT_READY,),
    ),
    ReasonKind(
        "NodeOutOfDisk",
        ("CheckNodeCondition",),
        "The node reports that it is out of disk.",
        "Free disk space on the node.",
        (node_conditions.REASON_OUT_OF_DISK,),
    ),
    ReasonKind(
        "NodeNetworkUnavailable",
        ("CheckNodeCondition",),
        "The network of the node is not set up.",
        "See the node's conditions and the network plugin.",
        (node_conditions.REASON_NETWORK,),
    ),
    ReasonKind(
        "NodeMemoryPressure",
        ("CheckNodeMemoryPressure",),
        "The node is short of memory, and the pod requests none.",
        "Request memory, or free some on the node.",
        (node_conditions.REASON_MEMORY,),
    ),
    ReasonKind(
        "NodeDiskPressure",
        ("CheckNodeDiskPressure",),
        "The node is short of disk space.",
        "Free disk space on the node.",
        (node_conditions.REASON_DISK,),
    ),
    ReasonKind(
        "NodePIDPressure",
        ("CheckNodePIDPressure",),
        "The node is short of process IDs.",
        "Stop processes on the node.",
        (node_conditions.REASON_PID,),
    ),
    ReasonKind(
        "ServiceAffinityMismatch",
        ("CheckServiceAffinity",),
        "The labels of the node differ from those of the node on which the pods of the same service run.",
        "Change the policy, or label the node.",
        (check_service_affinity.REASON,),
    ),
    ReasonKind(
        "PolicyLabelsMismatch",
        ("CheckNodeLabelPresence",),
        "The node lacks labels that the policy requires, or has some that it forbids.",
        "Change the policy, or the labels of the node.",
        (check_node_label_presence.REASON,),
    ),
    ReasonKind(
        EXPRESSION,
        ("expressions of policies",),
        "The expression of a predicate of the policy is false for this pod and node. The text is the policy's.",
        "Change the pod or the node accordingly, or the policy.",
    ),
    ReasonKind(
        CUSTOM,
        ("plugins of other packages",),
        "A plugin that was added to Berth rejects the node. The text is the plugin's.",
        "See the documentation of the plugin.",
    ),
    ReasonKind(
        EXTENDER,
        ("Extenders",),
        "An extender of the policy rejects the node, or left it out. The text is the extender's.",
        "See the log of the extender.",
        (LEFT_OUT,),
    ),
    ReasonKind(
        FAILED,
        ("any",),
        "A plugin could not judge the pod on the node. The attempt ends with this error and is repeated.",
        "See the log of Berth, and the plugin.",
    ),
    ReasonKind(NO_NODES_CODE, ("none",), "The cluster has no nodes.", "Add nodes.", (NO_NODES,)),
)

KIND_OF: Final[Mapping[str, ReasonKind]] = {kind.code: kind for kind in KINDS}
"""By code."""

_TEXTS: Final = [(text, kind.code) for kind in KINDS for text in kind.texts]
_BY_TEXT: Final[Mapping[str, str]] = {text: code for text, code in _TEXTS if ANY_NAME not in text}
_PATTERNS: Final = [
    (re.compile(re.escape(text).replace(re.escape(ANY_NAME), ".*"), re.DOTALL), code)
    for text, code in _TEXTS
    if ANY_NAME in text
]
_EXPRESSIONS: Final = "berth.policy.expressions."
_OURS: Final = "berth."


def code_of(plugin: Plugin, text: str, code: Code = Code.UNSCHEDULABLE) -> str:
    """Returns the stable code of a reason that the plugin gave with this status code."""
    module = type(plugin).__module__
    if code is Code.ERROR:
        return FAILED
    if plugin is EXTENDERS:
        return EXTENDER
    if module.startswith(_EXPRESSIONS):
        return EXPRESSION
    return code_of_text(text) if module.startswith(_OURS) else CUSTOM


def code_of_text(text: str) -> str:
    """Returns the stable code of a reason that one of our plugins gives."""
    known = _BY_TEXT.get(text)
    if known is not None:
        return known
    return next((code for pattern, code in _PATTERNS if pattern.fullmatch(text)), CUSTOM)


def resource_of(text: str) -> str:
    """Returns the resource that "Insufficient ..." names; "pods" if there are too many; "" for other reasons."""
    if text == node_resources_fit.TOO_MANY_PODS:
        return "pods"
    return text.removeprefix("Insufficient ") if text.startswith("Insufficient ") else ""


OF_VOLUMES: Final = (
    "VolumeZoneConflict",
    "VolumeNodeAffinityConflict",
    "NoVolumeToBind",
    "InsufficientStorageCapacity",
    "VolumeNotFound",
    "ClaimNotFound",
    "ClaimNotCreatedYet",
    "ClaimUnbound",
    "ClaimWithoutClass",
    "ClaimDeleting",
    "ClaimOfAnotherPod",
    "StorageClassNotFound",
    "VolumeLimitReached",
    "DiskInUse",
    "ClaimInUse",
)
"""The codes that a pod without volumes never gets."""
