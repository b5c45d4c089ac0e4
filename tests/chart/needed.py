"""The rights that Berth cannot do without, written down once more: the chart has to grant these and no others.

A list of its own, not what the chart renders: a rule that is taken out of the chart is still waited for, and missed.
"""

from __future__ import annotations

Right = tuple[str, str, str]  # verb, API group, resource

READ = ("get", "list", "watch")
VERBS: dict[tuple[str, str], tuple[str, ...]] = {
    ("", "pods"): (*READ, "delete"),
    ("", "pods/binding"): ("create",),
    ("", "pods/status"): ("patch",),
    ("", "nodes"): READ,
    ("", "namespaces"): READ,
    ("", "persistentvolumeclaims"): (*READ, "patch"),
    ("", "persistentvolumes"): (*READ, "patch"),
    ("", "services"): READ,
    ("", "replicationcontrollers"): READ,
    ("apps", "replicasets"): READ,
    ("apps", "statefulsets"): READ,
    ("policy", "poddisruptionbudgets"): READ,
    ("storage.k8s.io", "storageclasses"): READ,
    ("storage.k8s.io", "csinodes"): READ,
    ("storage.k8s.io", "csidrivers"): READ,
    ("storage.k8s.io", "csistoragecapacities"): READ,
    ("berth.dev", "schedulingpolicies"): READ,
    ("berth.dev", "schedulingpolicies/status"): ("patch",),
    ("apiextensions.k8s.io", "customresourcedefinitions"): ("list", "watch"),
    ("events.k8s.io", "events"): ("create", "patch"),
    ("kopf.dev", "clusterkopfpeerings"): (*READ, "patch"),
    ("", "configmaps"): ("get",),
    ("discovery.k8s.io", "endpointslices"): ("get", "patch"),
    ("apiregistration.k8s.io", "apiservices"): ("get", "patch"),
    ("authentication.k8s.io", "tokenreviews"): ("create",),
    ("authorization.k8s.io", "subjectaccessreviews"): ("create",),
}
# Where the webhook is on, and has a certificate of Berth's own making.
WEBHOOK: frozenset[Right] = frozenset(
    (verb, "admissionregistration.k8s.io", "validatingwebhookconfigurations") for verb in ("get", "patch")
)
NEEDED: frozenset[Right] = frozenset((verb, group, name) for (group, name), verbs in VERBS.items() for verb in verbs)
# Where nobody makes the peering object beforehand.
CREATES_PEERING: Right = ("create", "kopf.dev", "clusterkopfpeerings")
