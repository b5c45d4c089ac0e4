"""What one Berth has been told so far, kept as naively as possible: the newest body of every object, and its own binds.

It stands beside the shipped cache and is told the same things, at the same moment. Of two reports on an object the one
of the greater version counts; a name that comes with another UID and a greater version ends the older one; what the
watch says is gone stays gone unless a greater version says otherwise. Everything else, whom a decision would have to
see and which policy decides, is worked out from that when it is asked for.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from berth.engine.state.volume_reservations import VolumePlan
from berth.model import Claim, ClaimReference, InvalidObject, Node, Pod, Record, Volume, object_key, parse
from reference.world import FINISHED, World
from simulation.recording import SELECTED_NODE

Body = Mapping[str, Any]

POLICY = "SchedulingPolicy"
BUILT_IN_NAME = "berth"
GOOD = "simulation.berth.dev/good"  # "no" on a policy that is not to be accepted


class Parser:
    """Records by UID and version: most bodies are looked at many times."""

    def __init__(self) -> None:
        self._records: dict[tuple[str, str], Record | None] = {}

    def __call__(self, kind: str, body: Body) -> Record | None:
        """None for an object that makes no sense."""
        metadata = body["metadata"]
        known = (metadata["uid"], metadata["resourceVersion"])
        if known not in self._records:
            try:
                self._records[known] = parse(kind, body)
            except InvalidObject:
                self._records[known] = None
        return self._records[known]

    def shared(self, kind: str, body: Body) -> Record:
        """As `berth.model.parse`, for objects that have a version."""
        record = self(kind, body)
        return parse(kind, body) if record is None else record


@dataclass
class GoodPolicy:
    """The last generation of a policy that makes sense."""

    name: str
    uid: str
    generation: int
    spec: Body


@dataclass
class Nomination:
    """What we decided of the node that a pod waits for; `version` is that of the pod with it, once it is written."""

    number: int
    node: str
    version: int | None = None


@dataclass
class Knowledge:
    """Of one process, from its start on."""

    parse: Parser
    objects: dict[str, dict[str, Body]] = field(default_factory=dict)
    names: dict[str, dict[str, str]] = field(default_factory=dict)
    removed: dict[str, int] = field(default_factory=dict)
    assumed: dict[str, tuple[Pod, str]] = field(default_factory=dict)
    bound: dict[str, int] = field(default_factory=dict)
    """The version of the pod that was known when the API server said yes to our bind: it has a newer one."""
    nominations: dict[str, Nomination] = field(default_factory=dict)
    policies: dict[str, GoodPolicy] = field(default_factory=dict)
    plans: dict[str, VolumePlan] = field(default_factory=dict)
    """By UID of the pod: the volumes that are reserved for it."""

    # --- what is told ------------------------------------------------------------------------------------------------

    def observe(self, kind: str, body: Body) -> bool:
        """Whether that was news."""
        uid, version, key = body["metadata"]["uid"], int(body["metadata"]["resourceVersion"]), object_key(body)
        objects, names = self.objects.setdefault(kind, {}), self.names.setdefault(kind, {})
        if uid in self.removed and version <= self.removed[uid]:
            return False
        holder = names.get(key)
        if holder is not None:
            known = int(objects[holder]["metadata"]["resourceVersion"])
            if version < known or (holder != uid and version == known):
                return False
            if holder != uid:
                self._forget(kind, holder, version)
        self.removed.pop(uid, None)
        objects[uid] = body
        names[key] = uid
        if kind == POLICY:
            self._observe_policy(body)
        elif kind == "Pod" and (body["spec"].get("nodeName") or is_finished(body)):
            self.assumed.pop(uid, None)
            self.nominations.pop(uid, None)
        return True

    def remove(self, kind: str, uid: str, version: int, *, told: bool) -> None:
        """`told`: by the watch; what was concluded from a list is believed again as soon as anything shows it."""
        self._forget(kind, uid, version, told=told)

    def _forget(self, kind: str, uid: str, version: int, *, told: bool = True) -> None:
        known = self.objects.get(kind, {}).pop(uid, None)
        versions = [version, self.removed.get(uid, 0)]
        if known is not None:
            versions.append(int(known["metadata"]["resourceVersion"]))
            key = object_key(known)
            if self.names[kind].get(key) == uid:
                del self.names[kind][key]
            if kind == POLICY and self.policies.get(key) and self.policies[key].uid == uid:
                del self.policies[key]
        if told:
            self.removed[uid] = max(versions)
        elif known is not None:  # it is no older than it was, and newer if we have bound it since
            oldest = int(known["metadata"]["resourceVersion"])
            oldest += self.bound.get(uid) == oldest
            self.removed[uid] = max(oldest - 1, self.removed.get(uid, 0))
        if kind == "Pod":
            self.assumed.pop(uid, None)
            self.nominations.pop(uid, None)

    def confirm(self, uid: str) -> None:
        """The API server has said yes to our bind."""
        if (body := self.pod(uid)) is not None:
            self.bound[uid] = int(body["metadata"]["resourceVersion"])

    def nominated_to(self, pod: Pod) -> str:
        """The node that the pod waits for: what we decided, until a version shows that knows of it."""
        ours = self.nominations.get(pod.uid)
        if ours is None or (ours.version is not None and int(pod.resource_version) >= ours.version):
            return pod.nominated_node_name
        return ours.node

    def _observe_policy(self, body: Body) -> None:
        metadata = body["metadata"]
        if (metadata.get("annotations") or {}).get(GOOD) == "no":
            held = self.policies.get(metadata["name"])
            if held is not None and held.uid != metadata["uid"]:
                del self.policies[metadata["name"]]
            return
        self.policies[metadata["name"]] = GoodPolicy(
            metadata["name"], metadata["uid"], metadata["generation"], body["spec"]
        )

    # --- what follows from it ----------------------------------------------------------------------------------------

    def pod(self, uid: str) -> Body | None:
        return self.objects.get("Pod", {}).get(uid)

    def place(self, uid: str) -> str:
        """Where the pod must be: "", "pending", "assumed" or "bound"."""
        body = self.pod(uid)
        if body is None or is_finished(body):
            return ""
        if body["spec"].get("nodeName"):
            return "bound"
        return "assumed" if uid in self.assumed else "pending"

    def served_names(self) -> set[str]:
        """The scheduler names that are ours."""
        specs = [self._spec_in_force(body) for body in self.objects.get(POLICY, {}).values()]
        return {BUILT_IN_NAME} | {spec["schedulerName"] for spec in specs if spec.get("mode", "Active") != "Shadow"}

    def _spec_in_force(self, body: Body) -> Body:
        """Of the last good generation; of a policy that was never valid, what it says."""
        good = self.policies.get(body["metadata"]["name"])
        return good.spec if good is not None and good.uid == body["metadata"]["uid"] else body["spec"]

    def wanted(self, uid: str) -> bool:
        """Whether the pod waits for a node from us."""
        if self.place(uid) != "pending":
            return False
        body = self.objects["Pod"][uid]
        return not body["metadata"].get("deletionTimestamp") and self.is_ours(body)

    def is_ours(self, body: Body) -> bool:
        name = body["spec"]["schedulerName"]
        served = {policy.spec["schedulerName"] for policy in self.policies.values() if policy.spec["mode"] != "Shadow"}
        return name in self.served_names() | served

    def policy_of(self, pod: Pod) -> GoodPolicy | None:
        """The policy that decides: None for the built-in one; LookupError where none does."""
        namespace = self._namespace_labels(pod.namespace)
        fitting = [
            policy
            for policy in self.policies.values()
            if policy.spec["schedulerName"] == pod.scheduler_name
            and policy.spec["mode"] == "Active"
            and _selects(policy.spec.get("namespaceSelector"), namespace)
            and _selects(policy.spec.get("podSelector"), pod.labels)
        ]
        if fitting:
            return min(fitting, key=lambda policy: (*_rank(policy.spec), policy.name))
        claimed = any(
            policy.spec["schedulerName"] == BUILT_IN_NAME and policy.spec["mode"] == "Active"
            for policy in self.policies.values()
        )
        if pod.scheduler_name == BUILT_IN_NAME and not claimed:
            return None
        raise LookupError(pod.key)

    def _namespace_labels(self, name: str) -> Mapping[str, str]:
        uid = self.names.get("Namespace", {}).get(name)
        return {} if uid is None else self.objects["Namespace"][uid]["metadata"].get("labels") or {}

    def world(self, without: str = "") -> World:
        """What a decision sees, but for one pod."""
        nodes: dict[str, Node] = {}
        objects: dict[str, dict[str, Record]] = {}
        for kind, body, record in self._records():
            if isinstance(record, Node):
                nodes[record.name] = record
            else:
                objects.setdefault(kind, {})[object_key(body)] = record
        placed, nominated = [], []
        for uid, body in self.objects.get("Pod", {}).items():
            pod = self.parse("Pod", body)
            if uid == without or not isinstance(pod, Pod) or pod.phase in FINISHED:
                continue
            if pod.node_name:
                placed.append((pod, pod.node_name))
            elif uid in self.assumed:
                placed.append((pod, self.assumed[uid][1]))
            elif node := self.nominated_to(pod):
                nominated.append((pod, node))
        self._reserve(objects)
        return World(nodes, placed, nominated, objects)

    def _reserve(self, objects: dict[str, dict[str, Record]]) -> None:
        """What is reserved counts as written, unless the cluster says otherwise."""
        volumes, claims = objects.get("PersistentVolume", {}), objects.get("PersistentVolumeClaim", {})
        for plan in self.plans.values():
            for claim, planned in plan.bindings:
                volume = volumes.get(planned.name)
                if isinstance(volume, Volume) and volume.claim_ref is None:
                    reference = ClaimReference(claim.namespace, claim.name, claim.uid)
                    volumes[planned.name] = replace(volume, claim_ref=reference)
            for claim in plan.provisions:
                key = f"{claim.namespace}/{claim.name}"
                there = claims.get(key)
                if isinstance(there, Claim) and SELECTED_NODE not in there.annotations:
                    claims[key] = replace(there, annotations={**there.annotations, SELECTED_NODE: plan.node})

    def _records(self) -> Iterator[tuple[str, Body, Record]]:
        for kind, bodies in self.objects.items():
            if kind not in ("Pod", POLICY):
                for body in bodies.values():
                    record = self.parse(kind, body)
                    if record is not None:
                        yield kind, body, record


def is_finished(body: Body) -> bool:
    return (body.get("status") or {}).get("phase") in FINISHED


def _selects(selector: Mapping[str, Any] | None, labels: Mapping[str, str]) -> bool:
    """The actors' policies use nothing but matchLabels."""
    return selector is None or all(labels.get(key) == value for key, value in selector["matchLabels"].items())


def _rank(spec: Body) -> tuple[int, int]:
    given = [spec[name] for name in ("namespaceSelector", "podSelector") if name in spec]
    return -len(given), -sum(len(selector["matchLabels"]) for selector in given)
