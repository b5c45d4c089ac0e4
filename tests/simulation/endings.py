"""What must hold once faults have stopped: invariants 10 to 12 and 15."""

from __future__ import annotations

from collections.abc import Sized
from dataclasses import dataclass
from typing import Any

from berth.model import KINDS, Pod, object_key
from berth.policy.records import Policy
from berth.scheduler.extenders.extender_calls import ExtenderCalls
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
        has_node = uid in overseer._cache.assumed()  # and waits there for a volume that may never come
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
    ours = overseer.runtime.components.cache.state._nominated_to.get(uid, "")
    if written != ours and uid not in overseer.runtime.components.cluster._conditions._nominations:
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
    active = overseer._intake.policy_for(pod)
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
        return cls(dict(berth.overseer.attempts), berth.api.requests, berth.overseer._store.statistics()["writes"])


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
    runtime, loop = berth.runtime, berth.runtime.components.loop
    cache, queue = runtime.components.cache, runtime.components.queue
    conditions, evicting = runtime.components.cluster._conditions, loop.evicting
    loop.disruptions.end_included()  # whoever preempts next looks first
    extenders = loop.extenders
    assert isinstance(extenders, ExtenderCalls)
    left: dict[str, Sized] = {
        "pending": cache.pending,
        "assumed": cache.assumed(),
        "bound": cache._pods._bound,
        "known": cache.known("Pod"),
        "unreadable": cache.unreadable,
        "queue": queue._items,
        "parked by namespace": queue._unschedulable._by_namespace,
        "parked groups": queue._unschedulable._groups,
        "marks of groups": queue._unschedulable._index._kinds,
        "requests of groups": queue._unschedulable._demand._names,
        "openings": queue._openings,
        "work for later": queue._work,
        "changes in flight": queue._log,
        "lent": queue._lent,
        "stages": loop.binding_cycle._entries,
        "binds": loop.binder._tasks,
        "volumes": loop.volumes._waits,
        "conditions waiting": conditions._outbox._active,
        "writes at the gate": [one for lane in runtime.components.cluster.gate._lanes for one in lane.waiting],
        "writes under way": [lane for lane in runtime.components.cluster.gate._lanes if lane.under_way],
        "complaints": loop.intake._complaints,
        "nominated": cache.state.nominated,
        "extender calls": extenders._calls,
        "evictions": evicting._running,
        "victims": evicting._leaving,
        "evictions counted against budgets": loop.disruptions._leavers,
        "nominations decided": cache._pods._nominations,
        "reservations": of_process[berth.process].open,
        "echoes missing": loop.confirmations._missing,
        "pods with an event about their scheduler name": loop.unserved_names,
        "pods under budgets": _remembered_by_budgets(berth),
    }
    for what, there in left.items():
        if len(there):
            trace.violate("15 memory", f"{what} holds {len(there)} after every pod is gone: {str(there)[:300]}")


def _remembered_by_budgets(berth: BerthProcess) -> list[str]:
    """As whoever preempts next finds it."""
    state = berth.runtime.components.cache.state
    disruptions = berth.runtime.components.loop.disruptions
    kept = [disruptions._budgets] if disruptions._budgets is not None else []
    kept += [
        active.preemption._budgets_of(state)
        for active in berth.runtime.components.policies.in_force()
        if active.preemption is not None
    ]
    return [uid for budgets in kept for uid in budgets._known]


def check_tasks(berth: BerthProcess, trace: Trace) -> None:
    """A Berth that has stopped leaves no task behind."""
    left = [task.get_name() for task in berth.process.tasks()]
    if left:
        trace.violate("15 memory", f"tasks are left behind: {left[:5]}")
