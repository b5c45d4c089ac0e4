"""What must hold once faults have stopped: invariants 10 to 12 and 15."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from berth.model import KINDS, Pod, object_key
from berth.policy.records import Policy
from berth.sim.resources import BUILT_IN, NODES, PODS
from reference.engine import feasible, preempt
from reference.world import World
from simulation.berth_process import BerthProcess
from simulation.extender import refuses
from simulation.overseer import Overseer
from simulation.policies import allows, reference_profile
from simulation.recording import RecordingStore
from simulation.trace import Trace
from simulation.usher import of_process

FINISHED = ("Succeeded", "Failed")
MOST_ATTEMPTS = 8  # of one pod in a minute in which nothing happens
MOST_REQUESTS = 60


def is_informed(store: RecordingStore, overseer: Overseer) -> bool:
    """Whether everything there is has been told, and nothing else."""
    for kind in KINDS:
        resource = store.find(kind.group, kind.version, kind.plural)
        bodies = store.list(resource).items if resource is not None else []
        there = {body["metadata"]["uid"]: body["metadata"]["resourceVersion"] for body in bodies}
        told = overseer.knowledge.objects.get(kind.name, {})
        if there != {uid: body["metadata"]["resourceVersion"] for uid, body in told.items()}:
            return False
    return True


def check_settled(store: RecordingStore, overseer: Overseer, trace: Trace, *, flushed: bool = True) -> None:
    """Every pod that fits is bound, and every other says why; before the flush, but for those that a plugin refused."""
    world = _world(store)
    for body in store.list(PODS).items:
        if body["spec"].get("nodeName") or body["status"].get("phase") in FINISHED:
            continue
        key, uid = object_key(body), body["metadata"]["uid"]
        if body["metadata"].get("deletionTimestamp") or not overseer.knowledge.is_ours(body):
            continue
        condition = next((one for one in body["status"].get("conditions") or () if one["type"] == "PodScheduled"), None)
        if body["spec"].get("schedulingGates"):
            continue
        _, _, found = _fitting(store, overseer, world, body)
        if found and (flushed or not overseer.was_refused_by_usher(uid)):
            trace.violate("10 liveness", f"{key} is not bound, and fits on {found}", key, uid)
        has_node = uid in overseer.cache.assumed()  # and waits there for a volume that may never come
        if not has_node:
            _check_nomination(overseer, body, trace)
        if has_node and body["status"].get("nominatedNodeName"):
            continue  # which says so
        if condition is None or condition["status"] != "False" or not condition.get("message"):
            trace.violate("11 reasons", f"{key} is not bound and does not say why: {condition}", key, uid)


def _check_nomination(overseer: Overseer, body: dict[str, Any], trace: Trace) -> None:
    """What we decided of the node that a pod waits for is written, unless it is just being written."""
    uid, key = body["metadata"]["uid"], object_key(body)
    written = body["status"].get("nominatedNodeName") or ""
    ours = overseer.cache.state.nominated_node(uid)
    if written != ours and not overseer.runtime.components.cluster.nominates(uid):
        trace.violate("7 columns", f"{key} waits for {ours!r}, and its status says {written!r}", key, uid, ours)


def pushers(store: RecordingStore, overseer: Overseer) -> dict[str, tuple[str, frozenset[str]]]:
    """Pods that fit nowhere and could push others out: UID to key and the nodes where they could."""
    world, found = _world(store), {}
    for body in store.list(PODS).items:
        if not overseer.knowledge.wanted(body["metadata"]["uid"]) or body["spec"].get("schedulingGates"):
            continue
        pod, policy, fitting = _fitting(store, overseer, world, body)
        if policy is None or fitting or policy.extenders or not policy.preemption.enabled:
            continue
        chosen = preempt(world, reference_profile(policy), pod)["candidates"]
        nodes = frozenset(name for name in chosen if allows(policy, world.nodes[name]))
        if nodes:
            found[pod.uid] = (pod.key, nodes)
    return found


def check_pushers(
    before: dict[str, tuple[str, frozenset[str]]], now: dict[str, tuple[str, frozenset[str]]], trace: Trace
) -> None:
    """Nobody waits for longer than a flush while he could push others out."""
    for uid, (key, nodes) in now.items():
        for node in nodes & before.get(uid, ("", frozenset()))[1]:
            trace.violate("10 liveness", f"{key} is not bound, and could push others out of {node}", key, uid, node)


def _world(store: RecordingStore) -> World:
    watched = {(kind.group, kind.plural) for kind in KINDS}
    bodies = [
        body
        for resource in BUILT_IN
        if (resource.group, resource.plural) in watched
        for body in store.list(resource).items
    ]
    return World.of(bodies)


def _fitting(
    store: RecordingStore, overseer: Overseer, world: World, body: dict[str, object]
) -> tuple[Pod, Policy | None, list[str]]:
    pod = overseer.knowledge.parse("Pod", body)
    assert isinstance(pod, Pod)
    active = overseer.intake.policy_for(pod)
    if active is None:
        return pod, None, []
    policy = active.policy
    refused = {node["metadata"]["name"] for node in store.list(NODES).items if policy.extenders and refuses(node)}
    found = feasible(world, reference_profile(policy), pod)
    return pod, policy, [name for name in found if name not in refused and allows(policy, world.nodes[name])]


@dataclass(frozen=True)
class Turning:
    """How often what was done so far."""

    attempts: dict[str, int]
    requests: int
    writes: int

    @classmethod
    def of(cls, berth: BerthProcess) -> Turning:
        return cls(dict(berth.overseer.attempts), berth.api.requests, berth.overseer.store.statistics()["writes"])


def check_rest(before: Turning, berth: BerthProcess, trace: Trace) -> None:
    """A minute in which nothing happens: hardly anything is tried again."""
    now = Turning.of(berth)
    for uid, count in now.attempts.items():
        more = count - before.attempts.get(uid, 0)
        if more > MOST_ATTEMPTS:
            trace.violate("12 retries", f"{uid} was tried {more} times in a minute in which nothing happened", uid)
    if now.requests - before.requests > MOST_REQUESTS:
        trace.violate("12 retries", f"{now.requests - before.requests} requests in a quiet minute")


def check_empty(berth: BerthProcess, trace: Trace) -> None:
    """Nothing is left of pods that are gone."""
    for what, count in _left(berth).items():
        if count:
            trace.violate("15 memory", f"{what}: {count} are left after every pod is gone")


def _left(berth: BerthProcess) -> dict[str, int]:
    components, loop = berth.runtime.components, berth.runtime.components.loop
    loop.disruptions.end_included()  # whoever preempts next looks first
    cluster, extenders = components.cluster, loop.extenders
    assert extenders is not None
    tables = {"cache": components.cache.sizes(), "queue": components.queue.sizes(), "writes": cluster.gate.sizes()}
    tables["budgets"] = loop.disruptions.sizes()
    return {
        **{f"{where}: {what}": count for where, sizes in tables.items() for what, count in sizes.items()},
        "binding cycles": len(loop.binding_cycle),
        "binds": len(loop.binder),
        "volumes": len(loop.volumes),
        "conditions waiting": cluster.statistics()["conditions"]["waiting"],
        "complaints": loop.intake.complaints,
        "nominated": len(components.cache.state.nominated),
        "extender calls": extenders.statistics()["waiting"],
        "evictions": len(loop.evicting),
        "victims": len(loop.evicting.victims),
        "reservations": len(of_process[berth.process].open),
        "binds to confirm": loop.confirmations.missing,
        "pods with an event about their scheduler name": len(loop.unserved_names),
        "pods under budgets": _remembered_by_budgets(berth),
    }


def _remembered_by_budgets(berth: BerthProcess) -> int:
    """As whoever preempts next finds it."""
    state, policies = berth.runtime.components.cache.state, berth.runtime.components.policies
    searches = [active.preemption for active in policies.in_force()]
    return sum(search.cached_pods(state) for search in searches if search is not None)


def check_tasks(berth: BerthProcess, trace: Trace) -> None:
    """A Berth that has stopped leaves no task behind."""
    left = [task.get_name() for task in berth.process.tasks()]
    if left:
        trace.violate("15 memory", f"tasks are left behind: {left[:5]}")
