"""Claims that controllers create with a pod: those of a StatefulSet's templates, and those of ephemeral volumes.

Only claims that wait for their first consumer can be judged: where the volume of any other claim is made is up to its
provisioner, and decides where the pod can run.
"""

from dataclasses import replace

from berth.engine.state.volume_reservations import SELECTED_NODE
from berth.model import Pod, PodVolume
from berth.sim.objects import Object, items, mapping
from berth.whatif.admission import Admission
from berth.whatif.cluster_objects import ClusterObjects
from berth.whatif.errors import CannotSimulate
from berth.whatif.workloads import Workload


def claim_of_template(
    template: Object, workload: Workload, pod_name: str, objects: ClusterObjects, admission: Admission
) -> None:
    """Creates the claim of a StatefulSet's pod, unless it exists: claims outlive their pods."""
    name = f"{template['metadata']['name']}-{pod_name}"
    if objects.cache.state.claim(workload.namespace, name) is None:
        metadata = {**template["metadata"], "name": name, "namespace": workload.namespace}
        body = {"metadata": metadata, "spec": mapping(template.get("spec"))}
        where = f"{workload}: spec.volumeClaimTemplates[{template['metadata']['name']}]"
        _create(body, where, objects, admission)


def ephemeral_claims(pod: Object, objects: ClusterObjects, admission: Admission) -> None:
    """Creates the claims of the pod's ephemeral volumes, which belong to the pod."""
    metadata = pod["metadata"]
    owner = {"apiVersion": "v1", "kind": "Pod", "name": metadata["name"], "uid": metadata["uid"], "controller": True}
    for volume in items(pod["spec"].get("volumes")):
        template = mapping(mapping(volume.get("ephemeral")).get("volumeClaimTemplate"))
        if template:
            own = {"name": f"{metadata['name']}-{volume['name']}", "namespace": metadata["namespace"]}
            labelled = {**mapping(template.get("metadata")), **own, "ownerReferences": [owner]}
            where = f"Pod {metadata['namespace']}/{metadata['name']}: spec.volumes[{volume['name']}].ephemeral"
            _create({"metadata": labelled, "spec": mapping(template.get("spec"))}, where, objects, admission)


def _create(body: Object, where: str, objects: ClusterObjects, admission: Admission) -> None:
    stored = admission.admit({"apiVersion": "v1", "kind": "PersistentVolumeClaim", **body})
    name = stored["spec"].get("storageClassName")
    found = objects.admission["StorageClass"].get(str(name)) if name else None
    if found is None:
        problem = f'there is no StorageClass "{name}": add it with -f' if name else "has no storageClassName: give one"
        raise CannotSimulate(f"{where}: {problem}")
    if found.get("volumeBindingMode") != "WaitForFirstConsumer":
        raise CannotSimulate(
            f'{where}: StorageClass "{name}" binds at once (volumeBindingMode Immediate), so where the volume will be '
            "is not known: choose a class that waits for the first consumer, or add the claim and its volume with -f"
        )
    objects.take(stored)


def with_new_claims(pod: Pod, objects: ClusterObjects) -> Pod:
    """Returns the record of a pod that replaces another, with claims of its own for its ephemeral volumes."""
    if not any(volume.ephemeral for volume in pod.volumes):
        return pod
    return replace(pod, volumes=tuple(_renamed(volume, pod, objects) for volume in pod.volumes))


def _renamed(volume: PodVolume, pod: Pod, objects: ClusterObjects) -> PodVolume:
    state = objects.cache.state
    claim = state.claim(pod.namespace, str(volume.claim)) if volume.ephemeral else None
    if claim is None:
        return volume
    name = f"{pod.name}-{volume.name}"
    annotations = {key: value for key, value in claim.annotations.items() if key != SELECTED_NODE}
    fresh = replace(
        claim,
        name=name,
        uid=f"{pod.uid}-{volume.name}",
        annotations=annotations,
        phase="Pending",
        volume_name="",
        controller_uid=pod.uid,
    )
    state.put("PersistentVolumeClaim", f"{pod.namespace}/{name}", fresh)
    return replace(volume, claim=name)
