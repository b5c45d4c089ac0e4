"""One valid object of every watched kind, each with as many fields as the scheduler reads of it."""

from typing import Any

from support.builders import make_node, make_object, make_pod

Body = dict[str, Any]

SELECTOR = {
    "matchLabels": {"app": "web"},
    "matchExpressions": [{"key": "tier", "operator": "In", "values": ["a", "b"]}, {"key": "x", "operator": "Exists"}],
}
NODE_TERM = {
    "matchExpressions": [{"key": "zone", "operator": "NotIn", "values": ["z9"]}],
    "matchFields": [{"key": "metadata.name", "operator": "NotIn", "values": ["nowhere"]}],
}
POD_TERM = {
    "labelSelector": SELECTOR,
    "topologyKey": "zone",
    "namespaces": ["default"],
    "namespaceSelector": {"matchLabels": {"team": "a"}},
    "matchLabelKeys": ["app"],
}
AFFINITY = {
    "nodeAffinity": {
        "requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [NODE_TERM]},
        "preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 5, "preference": NODE_TERM}],
    },
    "podAffinity": {
        "preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 3, "podAffinityTerm": POD_TERM}],
    },
    "podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [POD_TERM]},
}
AMOUNTS = {"requests": {"cpu": "10m", "memory": "1Mi", "example.com/gpu": "1"}, "limits": {"cpu": "20m"}}
VOLUMES = [
    {"name": "data", "persistentVolumeClaim": {"claimName": "claim"}},
    {"name": "own", "ephemeral": {"volumeClaimTemplate": {"spec": {"storageClassName": "fast"}}}},
    {"name": "disk", "gcePersistentDisk": {"pdName": "d", "readOnly": True}},
    {"name": "inline", "csi": {"driver": "csi.test"}},
]


def samples(number: int, version: int) -> dict[str, Body]:
    """An object under each label, which begins with its kind; the number tells those of different calls apart."""
    name = f"m-{number}"
    made = [
        _pod(name),
        _placed(name),
        make_node(
            name,
            labels={"zone": "z1", "app": "web"},
            annotations={"volumes.kubernetes.io/controller-managed-attach-detach": "true"},
            taints=[("dedicated", "x", "NoSchedule"), ("soft", "", "PreferNoSchedule")],
            images={"registry.example/app:v1": 10**9},
            extended={"example.com/gpu": 4, "attachable-volumes-csi-x": 3},
            declared_features=["A"],
        ),
        make_object("Namespace", name, metadata={"labels": {"team": "a"}}, status={"phase": "Active"}),
        make_object(
            "PersistentVolumeClaim",
            name,
            namespace="default",
            metadata={"annotations": {"volume.kubernetes.io/selected-node": "n"}, "ownerReferences": [_owner()]},
            spec={
                "accessModes": ["ReadWriteOnce"],
                "resources": {"requests": {"storage": "1Gi"}},
                "storageClassName": "fast",
                "volumeName": "v",
                "volumeMode": "Filesystem",
                "selector": SELECTOR,
            },
            status={"phase": "Bound"},
        ),
        make_object(
            "PersistentVolume",
            name,
            metadata={"labels": {"topology.kubernetes.io/zone": "z1"}},
            spec={
                "accessModes": ["ReadWriteOnce"],
                "capacity": {"storage": "1Gi"},
                "storageClassName": "fast",
                "claimRef": {"namespace": "default", "name": "claim", "uid": "u"},
                "csi": {"driver": "csi.test", "volumeHandle": "h"},
                "nodeAffinity": {"required": {"nodeSelectorTerms": [NODE_TERM]}},
            },
            status={"phase": "Available"},
        ),
        make_object(
            "StorageClass",
            name,
            provisioner="csi.test",
            volumeBindingMode="WaitForFirstConsumer",
            allowedTopologies=[{"matchLabelExpressions": [{"key": "zone", "values": ["z1"]}]}],
        ),
        make_object(
            "CSINode",
            name,
            metadata={"annotations": {"storage.alpha.kubernetes.io/migrated-plugins": "kubernetes.io/gce-pd"}},
            spec={"drivers": [{"name": "csi.test", "nodeID": "n", "allocatable": {"count": 3}, "topologyKeys": ["z"]}]},
        ),
        make_object("CSIDriver", name, spec={"storageCapacity": True, "attachRequired": True}),
        make_object(
            "CSIStorageCapacity",
            name,
            namespace="default",
            storageClassName="fast",
            capacity="10Gi",
            maximumVolumeSize="5Gi",
            nodeTopology=SELECTOR,
        ),
        make_object(
            "PodDisruptionBudget",
            name,
            namespace="default",
            spec={"selector": SELECTOR, "minAvailable": 1},
            status={"disruptionsAllowed": 1, "disruptedPods": {"p": "2026-01-01T00:00:00Z"}},
        ),
        make_object("Service", name, namespace="default", spec={"selector": {"app": "web"}}),
        make_object("ReplicationController", name, namespace="default", spec={"selector": {"app": "web"}}),
        make_object("ReplicaSet", name, namespace="default", spec={"selector": SELECTOR}),
        make_object("StatefulSet", name, namespace="default", spec={"selector": SELECTOR}),
        _policy(name),
    ]
    for body in made:
        body["metadata"] |= {"resourceVersion": str(version), "generation": 1}
    return {_label(index, body): body for index, body in enumerate(made)}


def kind_of(label: str) -> str:
    return label.partition(" ")[0]


def _label(index: int, body: Body) -> str:
    return f"{body['kind']} {index}"


def _pod(name: str) -> Body:
    return make_pod(
        name,
        cpu="10m",
        labels={"app": "web"},
        priority=5,
        affinity=AFFINITY,
        tolerations=[{"key": "dedicated", "operator": "Exists", "effect": "NoSchedule", "tolerationSeconds": 3}],
        node_selector={"zone": "z1"},
        ports=[{"containerPort": 80, "hostPort": 80, "protocol": "TCP", "hostIP": "127.0.0.1"}],
        owner=_owner(),
        created="2026-01-01T00:00:00Z",
        nominated="n",
        initContainers=[{"name": "i", "image": "x", "restartPolicy": "Always", "resources": AMOUNTS}],
        overhead={"cpu": "1m"},
        resources=AMOUNTS,
        preemptionPolicy="PreemptLowerPriority",
        topologySpreadConstraints=[
            {
                "maxSkew": 1,
                "minDomains": 2,
                "topologyKey": "zone",
                "whenUnsatisfiable": "DoNotSchedule",
                "labelSelector": SELECTOR,
                "matchLabelKeys": ["app"],
                "nodeAffinityPolicy": "Honor",
                "nodeTaintsPolicy": "Ignore",
            }
        ],
        volumes=VOLUMES,
        terminationGracePeriodSeconds=3,
    )


def _placed(name: str) -> Body:
    pod = _pod(name + "-placed")
    pod["spec"]["nodeName"] = "good-0"
    statuses = [{"name": "main", "allocatedResources": {"cpu": "10m"}, "resources": AMOUNTS}]
    pod["status"] = {
        "phase": "Running",
        "containerStatuses": statuses,
        "startTime": "2026-01-01T00:00:00Z",
        "resize": "Infeasible",
        "conditions": [{"type": "PodScheduled", "status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z"}],
    }
    return pod


def _policy(name: str) -> Body:
    return {
        "apiVersion": "berth.dev/v1alpha1",
        "kind": "SchedulingPolicy",
        "metadata": {"name": name, "uid": f"policy-{name}", "generation": 1},
        "spec": {
            "schedulerName": f"of-{name}",
            "namespaceSelector": SELECTOR,
            "podSelector": SELECTOR,
            "base": "KubernetesDefault",
            "predicates": [
                {"name": "NodeResourcesFit", "args": {"ignoredResources": ["example.com/fpga"]}},
                {"name": "not-retiring", "expression": "!('retiring' in node.labels)", "message": "it is retired"},
            ],
            "priorities": [
                {"name": "NodeResourcesFit", "weight": 5, "args": {"scoringStrategy": {"type": "MostAllocated"}}},
                {"name": "cheap-first", "weight": 10, "expression": "100 - size(node.labels)"},
                {"name": "PodTopologySpread", "enabled": False},
            ],
            "preemption": {"enabled": True},
            "extenders": [{"urlPrefix": "http://127.0.0.1:9", "filterVerb": "filter", "ignorable": True}],
            "tieBreak": "RoundRobin",
            "mode": "Active",
        },
    }


def _owner() -> Body:
    return {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "rs", "uid": "o", "controller": True}
