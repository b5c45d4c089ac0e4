"""Storage classes, volumes and claims, and the volumes of a pod."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from .case import HOSTNAME, NAMESPACES, ZONE, ZONES, Body, Case

DRIVER = "csi.example.com"
CLASSES = (
    ("now", "Immediate", DRIVER),
    ("later", "WaitForFirstConsumer", DRIVER),
    ("local", "WaitForFirstConsumer", "kubernetes.io/no-provisioner"),
    ("zonal", "WaitForFirstConsumer", DRIVER),
)
CLASS_NAMES = [name for name, _, _ in CLASSES]
STORAGE_VERSION = "storage.k8s.io/v1"


def add_storage(case: Case) -> None:
    """Classes, the driver, what its nodes can attach, and in every second case how much room it has left."""
    for name, mode, provisioner in CLASSES:
        body: Body = {"provisioner": provisioner, "volumeBindingMode": mode}
        if name == "zonal":
            expression = {"key": ZONE, "values": case.some(ZONES, 1, 2)}
            body["allowedTopologies"] = [{"matchLabelExpressions": [expression]}]
        case.add(STORAGE_VERSION, "StorageClass", name, None, **body)
    case.add(STORAGE_VERSION, "CSIDriver", DRIVER, None, spec={"storageCapacity": case.chance(0.3)})
    for node in case.nodes:
        if case.chance(0.8):
            _add_csi_node(case, node["metadata"]["name"])
    if case.chance(0.5):
        for index, zone in enumerate(ZONES):
            _add_capacity(case, f"cap-{index}", zone)


def _add_csi_node(case: Case, name: str) -> None:
    driver: Body = {"name": DRIVER, "nodeID": name, "topologyKeys": [ZONE]}
    if case.chance(0.5):
        driver["allocatable"] = {"count": case.number(0, 3)}
    case.add(STORAGE_VERSION, "CSINode", name, None, spec={"drivers": [driver]})


def _add_capacity(case: Case, name: str, zone: str) -> None:
    case.add(
        STORAGE_VERSION,
        "CSIStorageCapacity",
        name,
        "default",
        storageClassName=case.pick(["later", "zonal"]),
        capacity=case.pick(["1Gi", "100Gi"]),
        nodeTopology={"matchLabels": {ZONE: zone}},
    )


def add_volume(case: Case, name: str, storage_class: str, size: str, claim: tuple[str, str] | None = None) -> None:
    """A volume, in some cases of one node or some zones only; bound to the claim (namespace, name) if one is given."""
    spec = {
        "capacity": {"storage": size},
        "accessModes": ["ReadWriteOnce"],
        "storageClassName": storage_class,
        "persistentVolumeReclaimPolicy": "Retain",
        "volumeMode": "Filesystem",
        "csi": {"driver": DRIVER, "volumeHandle": name},
    }
    labels, draw = {}, case.random.random()
    if draw < 0.35:
        spec["nodeAffinity"] = _bound_to(ZONE, case.some(ZONES, 1, 2))
    elif draw < 0.55:
        spec["nodeAffinity"] = _bound_to(HOSTNAME, [case.node_name()])
    elif draw < 0.75:
        labels[ZONE] = case.pick([*ZONES, "z1__z2"])
    if claim:
        namespace, claim_name = claim
        spec["claimRef"] = {
            "apiVersion": "v1",
            "kind": "PersistentVolumeClaim",
            "name": claim_name,
            "namespace": namespace,
            "uid": f"persistentvolumeclaim-{claim_name}",
        }
    status = {"phase": "Bound" if claim else "Available"}
    case.add("v1", "PersistentVolume", name, None, labels=labels, spec=spec, status=status)


def _bound_to(key: str, values: Sequence[str]) -> Body:
    expression = {"key": key, "operator": "In", "values": values}
    return {"required": {"nodeSelectorTerms": [{"matchExpressions": [expression]}]}}


def add_claim(case: Case, namespace: str, access_mode: str = "ReadWriteOnce") -> str:
    """A claim, with its volume where it is bound; returns its name."""
    case.serial += 1
    name, storage_class = f"c{case.serial:03d}", case.pick(CLASS_NAMES)
    bound = case.chance(0.55)
    spec = {
        "accessModes": [access_mode],
        "storageClassName": storage_class,
        "volumeMode": "Filesystem",
        "resources": {"requests": {"storage": case.pick(["5Gi", "10Gi", "50Gi"])}},
    }
    annotations = {}
    if bound:
        spec["volumeName"] = f"pv-{name}"
        annotations["pv.kubernetes.io/bind-completed"] = "yes"
        add_volume(case, f"pv-{name}", storage_class, "50Gi", (namespace, name))
    status = {"phase": "Bound" if bound else "Pending"}
    case.add("v1", "PersistentVolumeClaim", name, namespace, annotations=annotations, spec=spec, status=status)
    return name


def add_shared_claims(case: Case) -> dict[str, list[str]]:
    """A ReadWriteOncePod claim for each namespace."""
    return {namespace: [add_claim(case, namespace, "ReadWriteOncePod")] for namespace in NAMESPACES}


def want_volumes(case: Case, pod: Body, shared: Mapping[str, Sequence[str]], probability: float) -> None:
    """Claims of its own, the namespace's shared one, one that does not exist, or disks named in the pod."""
    if case.chance(probability):
        namespace = pod["metadata"]["namespace"]
        sources = [_source(case, namespace, shared) for _ in range(case.number(1, 2))]
        pod["spec"]["volumes"] = [{"name": f"v{index}", **source} for index, source in enumerate(sources)]


def _source(case: Case, namespace: str, shared: Mapping[str, Sequence[str]]) -> Body:
    draw = case.random.random()
    if draw < 0.6:
        return _claimed(add_claim(case, namespace))
    if draw < 0.66:
        return _claimed(case.pick(shared[namespace]))
    if draw < 0.72:
        return _claimed("no-such-claim")
    return next(make(case) for below, make in _DISKS if draw < below)


def _claimed(name: str) -> Body:
    return {"persistentVolumeClaim": {"claimName": name}}


def _gce(case: Case) -> Body:
    return {"gcePersistentDisk": {"pdName": case.pick(["d1", "d2"]), "readOnly": case.chance(0.5)}}


def _ebs(case: Case) -> Body:
    return {"awsElasticBlockStore": {"volumeID": case.pick(["e1", "e2"])}}


def _rbd(case: Case) -> Body:
    monitors, image = case.some(["m1", "m2", "m3"], 1), case.pick(["i1", "i2"])
    return {"rbd": {"monitors": monitors, "image": image, "pool": "rbd", "readOnly": case.chance(0.4)}}


def _iscsi(case: Case) -> Body:
    name = case.pick(["q1", "q2"])
    return {"iscsi": {"targetPortal": "10.0.0.9:3260", "iqn": name, "lun": 0, "readOnly": case.chance(0.4)}}


_DISKS: tuple[tuple[float, Callable[[Case], Body]], ...] = ((0.80, _gce), (0.86, _ebs), (0.92, _rbd), (1.0, _iscsi))
