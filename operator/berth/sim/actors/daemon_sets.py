"""DaemonSets: one pod for each node that the template admits.

A pod names its node by a node affinity, and the scheduler places it there. Pods of an older template are replaced one
after another, unless the strategy is OnDelete. Nodes are judged as the real controller does: nodeSelector, required
node affinity and taints, of which some are tolerated by every daemon.

What it does not do: maxSurge and a maxUnavailable other than 1.
"""

from berth.sim.actors.api import ActorApi, Object
from berth.sim.actors.clock import Clock
from berth.sim.actors.controller import is_deleting, is_ready, phase_of
from berth.sim.actors.mirror import DAEMON_SETS, NODES, PODS, key_of
from berth.sim.actors.node_matching import matches_node, tolerates_taints
from berth.sim.actors.owned_objects import FINISHED, REVISION_LABEL, OwnedObjects, pod_of
from berth.sim.actors.pod_names import UNSEEN_SECONDS

TOLERATED = (
    ("node.kubernetes.io/not-ready", "NoExecute"),
    ("node.kubernetes.io/unreachable", "NoExecute"),
    ("node.kubernetes.io/disk-pressure", "NoSchedule"),
    ("node.kubernetes.io/memory-pressure", "NoSchedule"),
    ("node.kubernetes.io/pid-pressure", "NoSchedule"),
    ("node.kubernetes.io/unschedulable", "NoSchedule"),
)
DAEMON_TOLERATIONS = [{"key": key, "operator": "Exists", "effect": effect} for key, effect in TOLERATED]
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"


class DaemonSets(OwnedObjects):
    """See the module's text."""

    def __init__(self, api: ActorApi, clock: Clock) -> None:
        super().__init__(api, clock)
        self._nodes = self._mirror(NODES, self._on_node)

    def _on_node(self, change: str, node: Object) -> None:
        for key in self._of_kind["DaemonSet"].objects:
            self._look_at(f"DaemonSet {key}")

    async def _keep_daemon_set(self, daemon_set: Object) -> float | None:
        template_hash, _ = await self._keep_revision(daemon_set, "DaemonSet")
        wanted = self._wanted_nodes(daemon_set)
        pods = await self._without_finished(self._owned_by(daemon_set, "Pod"))
        served = {_node_of(pod) for pod in pods}
        missing = sorted(wanted - served)
        for node in missing:
            await self._create(PODS, _daemon_pod(daemon_set, node, template_hash))
        staying = [pod for pod in pods if not is_deleting(pod)]
        for pod in staying:
            if _node_of(pod) not in wanted:
                await self._delete(PODS, pod)
        await self._replace_oldest(daemon_set, staying, template_hash)
        await self._keep_status(DAEMON_SETS, daemon_set, _status(daemon_set, wanted, staying, template_hash))
        return UNSEEN_SECONDS if missing else None

    def _wanted_nodes(self, daemon_set: Object) -> set[str]:
        spec = daemon_set["spec"]["template"]["spec"]
        tolerations = [*(spec.get("tolerations") or []), *DAEMON_TOLERATIONS]
        return {
            name
            for name, node in self._nodes.objects.items()
            if not is_deleting(node) and matches_node(spec, node) and tolerates_taints(tolerations, node)
        }

    async def _without_finished(self, pods: list[Object]) -> list[Object]:
        """A daemon that has ended is replaced."""
        for pod in pods:
            if phase_of(pod) in FINISHED and not is_deleting(pod):
                await self._delete(PODS, pod)
        return pods

    async def _replace_oldest(self, daemon_set: Object, pods: list[Object], template_hash: str) -> None:
        strategy = (daemon_set["spec"].get("updateStrategy") or {}).get("type", "RollingUpdate")
        old = [pod for pod in pods if _hash_of(pod) != template_hash]
        all_up = all(is_ready(pod) for pod in pods if _hash_of(pod) == template_hash)
        if strategy == "RollingUpdate" and old and all_up:
            await self._delete(PODS, min(old, key=lambda pod: (is_ready(pod), key_of(pod))))


def _daemon_pod(daemon_set: Object, node: str, template_hash: str) -> Object:
    pod = pod_of(daemon_set, "DaemonSet", f"{daemon_set['metadata']['name']}-{node}-{template_hash[:5]}")
    labels = pod["metadata"].get("labels") or {}
    pod["metadata"]["labels"] = {**labels, REVISION_LABEL: template_hash}
    spec = pod["spec"]
    affinity = spec.get("affinity") or {}
    term = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": [node]}]}
    node_affinity = {**(affinity.get("nodeAffinity") or {}), REQUIRED: {"nodeSelectorTerms": [term]}}
    spec["affinity"] = {**affinity, "nodeAffinity": node_affinity}
    spec["tolerations"] = [*(spec.get("tolerations") or []), *DAEMON_TOLERATIONS]
    return pod


def _node_of(pod: Object) -> str:
    """The node that the pod is for."""
    required = ((pod["spec"].get("affinity") or {}).get("nodeAffinity") or {}).get(REQUIRED) or {}
    for term in required.get("nodeSelectorTerms") or ():
        for field in term.get("matchFields") or ():
            return str(field["values"][0])
    return str(pod["spec"].get("nodeName") or "")


def _hash_of(pod: Object) -> str:
    return str((pod["metadata"].get("labels") or {}).get(REVISION_LABEL) or "")


def _status(daemon_set: Object, wanted: set[str], pods: list[Object], template_hash: str) -> Object:
    serving = [pod for pod in pods if _node_of(pod) in wanted]
    ready = sum(is_ready(pod) for pod in serving)
    return {
        "observedGeneration": daemon_set["metadata"].get("generation", 1),
        "desiredNumberScheduled": len(wanted),
        "currentNumberScheduled": len(serving),
        "updatedNumberScheduled": sum(_hash_of(pod) == template_hash for pod in serving),
        "numberMisscheduled": len(pods) - len(serving),
        "numberReady": ready,
        "numberAvailable": ready,
        "numberUnavailable": len(wanted) - ready,
    }
