"""Simulated kubelets: one actor plays the kubelets of all nodes, or of those that a label selector chooses.

    bound --- fits ---> admitted ... start delay ---> Running ... duration, if it has one ---> Succeeded or Failed
      |                    |                             |
      +-- over capacity    +-------- deleted ------------+---> ... stop delay, within its grace ---> gone
          Failed, OutOf<resource>

- Delays are drawn from a random stream of each pod's own, seeded by its namespace and name: the same seed gives the
  same delays in whatever order pods arrive.
- A pod runs until it is deleted, unless its annotation `berth.dev/sim-duration` gives seconds, or a Job owns it (then
  `job_seconds`). `berth.dev/sim-exit-code` is the exit code it ends with, 0 by default; other than 0 it has failed.
- A pod is admitted if it fits beside those that were admitted before it and have not ended. What the scheduler counts
  is counted, and as it is counted there: cpu, memory, ephemeral-storage, extended resources and the number of pods.

What it does not do: restart containers, probe them, evict by pressure, register nodes or keep leases.
"""

import contextlib
import logging
from collections.abc import Mapping
from random import Random

from berth.model import InvalidObject, Node, Pod, parse_node, parse_pod
from berth.sim.actors.api import STRATEGIC_MERGE_PATCH, ActorApi, Object
from berth.sim.actors.clock import Clock, parse_timestamp, timestamp
from berth.sim.actors.controller import Controller, controller_of, is_deleting, phase_of
from berth.sim.actors.mirror import NODES, PODS, key_of

DURATION = "berth.dev/sim-duration"
EXIT_CODE = "berth.dev/sim-exit-code"
FINISHED = frozenset({"Succeeded", "Failed"})
WORKERS = 32

_log = logging.getLogger(__name__)


class Kubelets(Controller):
    """See the module's text. Delays are (least, most) seconds."""

    def __init__(
        self,
        api: ActorApi,
        clock: Clock,
        random: Random,
        *,
        node_selector: str = "",
        start_seconds: tuple[float, float] = (0.2, 2.0),
        stop_seconds: tuple[float, float] = (0.1, 1.0),
        job_seconds: tuple[float, float] = (5.0, 15.0),
    ) -> None:
        super().__init__(api, clock, workers=WORKERS)
        self._seed = random.getrandbits(64)
        self._start_seconds = start_seconds
        self._stop_seconds = stop_seconds
        self._job_seconds = job_seconds
        self._admitted: dict[str, dict[str, Pod]] = {}  # node name to UID to pod
        self._since: dict[str, float] = {}  # UID to when its present stage began
        self._nodes = self._mirror(NODES, self._on_node, label_selector=node_selector)
        self._pods = self._mirror(PODS, self._on_pod)

    # --- what changed ----------------------------------------------------------------------------------------------

    def _on_node(self, change: str, node: Object) -> None:
        if change == "ADDED":  # pods may have been bound to it before it was seen
            name = node["metadata"]["name"]
            for key, pod in self._pods.objects.items():
                if _node_of(pod) == name:
                    self._look_at(key)

    def _on_pod(self, change: str, pod: Object) -> None:
        if change == "DELETED" or phase_of(pod) in FINISHED:
            self._release(pod)
        if change != "DELETED" and _node_of(pod):
            self._look_at(key_of(pod))

    def _release(self, pod: Object) -> None:
        uid = pod["metadata"]["uid"]
        self._admitted.get(_node_of(pod), {}).pop(uid, None)
        for stage in ("start", "stop"):
            self._since.pop(f"{stage}/{uid}", None)

    # --- the life of a pod -----------------------------------------------------------------------------------------

    async def _reconcile(self, key: str) -> float | None:
        pod = self._pods.objects.get(key)
        if pod is None or _node_of(pod) not in self._nodes.objects:
            return None
        if is_deleting(pod):
            return await self._terminate(pod)
        phase = phase_of(pod)
        if phase == "Pending":
            return await self._start(key, pod)
        if phase == "Running":
            self._remember_admitted(pod)
            return await self._finish(key, pod)
        return None

    async def _start(self, key: str, pod: Object) -> float | None:
        problem = self._admit(pod)
        if problem is not None:
            self._counts["rejected"] += 1
            await self._patch_status(key, pod, {"phase": "Failed", **problem})
            return None
        wait = self._left("start", pod, self.start_delay_seconds(key))
        if wait > 0:
            return wait
        now = timestamp(self._clock.wall())
        await self._patch_status(key, pod, _running(pod, now))
        self._counts["started"] += 1
        return None

    async def _finish(self, key: str, pod: Object) -> float | None:
        duration = self._duration(key, pod)
        if duration is None:
            return None
        started = parse_timestamp(pod["status"].get("startTime") or pod["metadata"]["creationTimestamp"])
        left = duration - (self._clock.wall() - started).total_seconds()
        if left > 0:
            return left
        now = timestamp(self._clock.wall())
        await self._patch_status(key, pod, _ended(pod, now, int(_number(pod, EXIT_CODE) or 0)))
        self._counts["finished"] += 1
        return None

    async def _terminate(self, pod: Object) -> float | None:
        """A pod that is being deleted stays for its stop delay, but not longer than its grace."""
        grace_seconds = float(pod["metadata"].get("deletionGracePeriodSeconds") or 0)
        delay = min(grace_seconds, self._draw(key_of(pod), "stop", self._stop_seconds))
        wait = self._left("stop", pod, delay)
        if wait > 0:
            return wait
        await self._delete(PODS, pod, grace_seconds=0)
        self._counts["stopped"] += 1
        return None

    def start_delay_seconds(self, key: str) -> float:
        """How long the pod takes to start. Drawn by its key, so that it does not depend on who came before."""
        return self._draw(key, "start", self._start_seconds)

    async def _patch_status(self, key: str, pod: Object, status: Object) -> None:
        """Strategic, so that conditions that others wrote stay; with the UID, so that a namesake is left alone."""
        patch = {"metadata": {"uid": pod["metadata"]["uid"]}, "status": status}
        await self._patch(PODS, key, patch, subresource="status", content_type=STRATEGIC_MERGE_PATCH)

    # --- admission -------------------------------------------------------------------------------------------------

    def _admit(self, pod: Object) -> Object | None:
        """None when the pod has its place on the node; else the reason and the words of a kubelet's refusal."""
        node_name, uid = _node_of(pod), pod["metadata"]["uid"]
        admitted = self._admitted.setdefault(node_name, {})
        if uid in admitted:
            return None
        try:
            node, record = parse_node(self._nodes.objects[node_name]), parse_pod(pod)
        except InvalidObject as error:
            return {"reason": "UnexpectedAdmissionError", "message": f"Pod was rejected: {error}"}
        shortage = _shortage(node, record, admitted)
        if shortage is None:
            admitted[uid] = record
        return shortage

    def _remember_admitted(self, pod: Object) -> None:
        """A pod that runs was admitted, be it by us before a restart."""
        admitted = self._admitted.setdefault(_node_of(pod), {})
        if pod["metadata"]["uid"] not in admitted:
            with contextlib.suppress(InvalidObject):  # what cannot be read was never counted
                admitted[pod["metadata"]["uid"]] = parse_pod(pod)

    # --- time and chance -------------------------------------------------------------------------------------------

    def _left(self, stage: str, pod: Object, delay_seconds: float) -> float:
        """How long the stage still lasts; it began when it was first asked about."""
        now = self._clock.now()
        return self._since.setdefault(f"{stage}/{pod['metadata']['uid']}", now) + delay_seconds - now

    def _duration(self, key: str, pod: Object) -> float | None:
        given = _number(pod, DURATION)
        if given is not None:
            return given
        owner = controller_of(pod)
        return self._draw(key, "run", self._job_seconds) if owner and owner.get("kind") == "Job" else None

    def _draw(self, key: str, what: str, seconds: tuple[float, float]) -> float:
        return Random(f"{self._seed}/{what}/{key}").uniform(*seconds)


def _shortage(node: Node, pod: Pod, admitted: Mapping[str, Pod]) -> Object | None:
    """The first resource of which the node has too little left, as a kubelet words it."""
    for name, asked in [("pods", 1), *pod.requests.items()]:
        have = node.allocatable.get(name, 0)
        used = len(admitted) if name == "pods" else sum(other.usage.get(name, 0) for other in admitted.values())
        if used + asked > have:
            amounts = f"{name}, requested: {asked}, used: {used}, capacity: {have}"
            message = f"Pod was rejected: Node didn't have enough resource: {amounts}"
            return {"reason": f"OutOf{name}", "message": message}
    return None


def _running(pod: Object, now: str) -> Object:
    ready = [
        {"type": kind, "status": "True", "lastTransitionTime": now}
        for kind in ("PodReadyToStartContainers", "Initialized", "ContainersReady", "Ready")
    ]
    containers = [_container(c, {"running": {"startedAt": now}}, ready=True) for c in pod["spec"]["containers"]]
    return {"phase": "Running", "startTime": now, "conditions": ready, "containerStatuses": containers}


def _ended(pod: Object, now: str, exit_code: int) -> Object:
    reason = "Error" if exit_code else "Completed"
    over = [
        {"type": kind, "status": "False", "reason": "PodFailed" if exit_code else "PodCompleted"}
        for kind in ("ContainersReady", "Ready")
    ]
    state = {"terminated": {"exitCode": exit_code, "reason": reason, "finishedAt": now}}
    containers = [_container(c, state, ready=False) for c in pod["spec"]["containers"]]
    phase = "Failed" if exit_code else "Succeeded"
    return {
        "phase": phase,
        "conditions": [{**condition, "lastTransitionTime": now} for condition in over],
        "containerStatuses": containers,
    }


def _container(container: Object, state: Object, *, ready: bool) -> Object:
    return {
        "name": container["name"],
        "image": container.get("image", ""),
        "imageID": "",
        "ready": ready,
        "started": ready,
        "restartCount": 0,
        "state": state,
    }


def _node_of(pod: Object) -> str:
    return str(pod["spec"].get("nodeName") or "")


def _number(pod: Object, annotation: str) -> float | None:
    """The annotation's value; None when there is none, or none that makes sense."""
    text = str((pod["metadata"].get("annotations") or {}).get(annotation) or "")
    if not text:
        return None
    try:
        return float(text.removesuffix("s"))
    except ValueError:
        _log.warning('Pod %s: annotation %s: "%s" is not a number; left aside', key_of(pod), annotation, text)
        return None
