"""A simulation from the question to the result, always in this order:

    1. policies            --policy, and SchedulingPolicies of -f
    2. nodes come          --add-nodes
    3. zones fail          --fail-zone: nodes and pods are gone, controllers create new pods
    4. nodes are drained   --drain: cordoned; pods are evicted as far as budgets allow, controllers create new ones
    5. workloads           -f, in the order of the files; then --scale
    6. pods are placed     all that need a node, by priority, then in the order of their creation: those that were
                           pending before, those of steps 3 and 4, those of step 5. Drains that budgets blocked go on
    7. the rest is filled  --fill

Nothing is written anywhere: the objects of the input are the simulation's own.
"""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from berth.policy.wording import list_names
from berth.whatif.cluster_objects import Body, ClusterObjects
from berth.whatif.entries import Cause, Departure, Entry, Origin
from berth.whatif.errors import CannotSimulate
from berth.whatif.explaining import pending_reasons
from berth.whatif.manifests import Manifests, check_readable, sort_manifests
from berth.whatif.nodes import Drain, add_nodes, fail_zone, find_nodes
from berth.whatif.pod_sets import PodSet, pod_set
from berth.whatif.policies import Deciders, as_new
from berth.whatif.result import Blocked, Filled, Reason, Result, Spread, WorkloadResult
from berth.whatif.scaling import Scale, apply, scale
from berth.whatif.usage import Usage, measure
from berth.whatif.workloads import NO_ZONE, Workload, is_bound_to_its_node
from berth.whatif.world import World

MOST_FILLED: Final = 1_000_000
MOST_INVALID: Final = 5  # that are named
Tell = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class NodesLike:
    node: str
    count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """What if: the options of `berth simulate`."""

    manifests: Sequence[Body] = ()
    scales: Sequence[Scale] = ()
    fill: bool = False
    drains: Sequence[str] = ()
    failed_zones: Sequence[str] = ()
    added: Sequence[NodesLike] = ()
    policies: Sequence[Body] = ()
    namespace: str = "default"
    seed: int = 0
    ignore_extenders: bool = False
    source: str = ""


def simulate(objects: ClusterObjects, question: Question, tell: Tell = lambda text: None) -> Result:
    """Returns what would happen. Raises CannotSimulate. `tell` is called again and again with how far it is."""
    manifests = sort_manifests(question.manifests, question.namespace)
    world = _world(objects, question, manifests)
    _note_input(world, manifests)
    before = measure(world.state)
    steps: list[str] = []
    drain = _change_nodes(world, question, steps)
    filling = _change_workloads(world, question, manifests, steps)
    _place(world, drain, tell)
    reasons = pending_reasons(world, tell)  # before what is left is filled
    placed = None if filling is None else _fill(world, filling, tell)
    after = measure(world.state)
    return Result(
        source=question.source,
        seed=question.seed,
        steps=steps,
        asked=bool(drain or question.failed_zones or question.scales or manifests.workloads),
        workloads=_by_workload(world, reasons, before, after),
        blocked=[] if drain is None else [Blocked(pod.key, node, why) for pod, node, why in drain.blocked.values()],
        filled=None if filling is None or placed is None else _filled(filling, *placed, after),
        before=before,
        after=after,
        notes=list(world.notes),
    )


# --- the cluster ------------------------------------------------------------------------------------------------------


def _world(objects: ClusterObjects, question: Question, manifests: Manifests) -> World:
    """Returns the cluster with the objects of the manifests and the policies of the question, before any change."""
    for body in manifests.admission:
        objects.take(body)
    policies = dict(objects.policies)
    replacing = [as_new(body) for body in (*question.policies, *manifests.policies)]
    policies.update((str(body["metadata"]["name"]), body) for body in replacing)
    deciders = Deciders(
        policies.values(),
        objects.cache.namespace_labels,
        replaced=[str(body["metadata"]["name"]) for body in replacing],
        refuse_extenders=not question.ignore_extenders,
    )
    world = World(objects, deciders, question.seed)
    for body in manifests.objects:
        stored = world.admission.admit(body)
        check_readable(stored)
        objects.take(stored)
    for pod in sorted(objects.cache.pending.values(), key=lambda pod: (pod.created, pod.namespace, pod.name)):
        if not pod.deleting:
            world.need(pod, Origin.PENDING)
    return world


def _note_input(world: World, manifests: Manifests) -> None:
    cache = world.objects.cache
    left_out = world.objects.left_out + manifests.without_effect
    if left_out:
        kinds = ", ".join(f"{count} {kind}" for kind, count in sorted(left_out.items()))
        world.notes[f"these objects have no effect on where pods go: {kinds}"] = None
    for problem in list(cache.invalid.values())[:MOST_INVALID]:
        world.notes[f"{problem}; it is left out, as the scheduler leaves it out"] = None
    if len(cache.invalid) > MOST_INVALID:
        world.notes[f"{len(cache.invalid) - MOST_INVALID:,} more objects are invalid, and are left out"] = None
    owned = {world.grouping.of(pod) for pod, _ in world.objects.placed() if pod.controller is not None}
    owned |= {entry.workload for entry in world.placer.entries}
    for workload, body in world.objects.workloads.items():
        if workload.kind in ("Deployment", "StatefulSet") and workload not in owned and _wants_pods(body):
            world.notes[f"{workload} of the input has no pods there, and none are created: give it with -f"] = None


def _wants_pods(body: Body) -> bool:
    spec = body.get("spec")
    return isinstance(spec, dict) and spec.get("replicas", 1) != 0


# --- the changes ------------------------------------------------------------------------------------------------------


def _change_nodes(world: World, question: Question, steps: list[str]) -> Drain | None:
    for wish in question.added:
        names = add_nodes(world, wish.node, wish.count)
        steps.append(f"{_count(len(names), 'node')} like {wish.node} added")
    for zone in question.failed_zones:
        names = fail_zone(world, zone)
        steps.append(f"zone {zone} failed, with {_count(len(names), 'node')}")
    if not question.drains:
        return None
    drain = Drain(world, [name for text in question.drains for name in find_nodes(world, text)])
    steps.append(f"{_count(len(drain.names), 'node')} drained: {list_names(drain.names)}")
    drain.evict()
    return drain


def _change_workloads(world: World, question: Question, manifests: Manifests, steps: list[str]) -> PodSet | None:
    """Creates the pods of -f and --scale; with --fill, returns the pods to fill with instead."""
    sets = [pod_set(body, world.admission) for body in manifests.workloads]
    filling = _filling(sets) if question.fill else None
    for body, pods in zip(manifests.workloads, sets, strict=True):
        if filling is not None:
            world.pods.create_owners(pods)
            continue
        apply(world, pods)
        if pods.workload.kind != "Pod":
            world.objects.take(body)
    for wish in question.scales:
        scale(world, wish)
        steps.append(f"{wish.workload.label} scaled to {wish.replicas}")
    return filling


def _filling(sets: Sequence[PodSet]) -> PodSet:
    if len(sets) != 1:
        raise CannotSimulate(f"--fill: -f has {_count(len(sets), 'workload')}: give one pod or workload to fill with")
    if sets[0].workload.kind == "DaemonSet":
        raise CannotSimulate(f"--fill: {sets[0].workload}: a DaemonSet has one pod a node: give a pod instead")
    return sets[0]


# --- placing ----------------------------------------------------------------------------------------------------------


def _place(world: World, drain: Drain | None, tell: Tell) -> None:
    """Places all pods that need a node, and goes on with the drain as long as new pods give disruptions back."""

    def say(done: int, total: int) -> None:
        tell(f"placing pods: {done:,} of {total:,}")

    world.placer.run(say)
    while drain is not None and drain.blocked and drain.evict():
        world.placer.run(say)


def _fill(world: World, pods: PodSet, tell: Tell) -> tuple[Counter[str], str]:
    """Returns how many pods were placed on each node, and why the next one was not."""
    nodes, message = world.placer.fill(
        world.pods.make(pods), MOST_FILLED, lambda done, _: tell(f"filling: {done:,} pods placed")
    )
    return Counter(nodes), message


def _filled(pods: PodSet, nodes: Counter[str], message: str, after: Usage) -> Filled:
    zones = {node.name: node.zone for node in after.nodes}
    return Filled(pods.workload, _spread(nodes, zones, after), message)


# --- the result -------------------------------------------------------------------------------------------------------


def _by_workload(
    world: World, reasons: Mapping[Workload, Sequence[Reason]], before: Usage, after: Usage
) -> list[WorkloadResult]:
    """Returns the workloads with a pod that needed a node or left one, those with pending pods first."""
    entries: dict[Workload, list[Entry]] = {}
    departures: dict[Workload, list[Departure]] = {}
    for entry in world.placer.entries:
        entries.setdefault(entry.workload, []).append(entry)
    for departure in world.departures:
        if departure.cause is not Cause.NODE_FAILED or not is_bound_to_its_node(departure.pod):  # those go with it
            departures.setdefault(departure.workload, []).append(departure)
    concerned = dict.fromkeys([*entries, *departures])
    now = _placed_now(world, frozenset(concerned))
    zones = {node.name: node.zone for node in (*before.nodes, *after.nodes)}
    found = []
    for workload in concerned:
        mine, left = entries.get(workload, []), departures.get(workload, [])
        placed = Counter(entry.node for entry in mine if entry.node)
        nodes = placed if workload.kind == "Pod" else now[workload]
        then = nodes - placed + Counter(each.node for each in left if not each.simulated)
        spreads = _spread(then, zones, before), _spread(nodes, zones, after)
        found.append(WorkloadResult(workload, mine, left, *spreads, reasons.get(workload, [])))
    return sorted(found, key=lambda each: (not each.pending, each.workload))


def _placed_now(world: World, concerned: frozenset[Workload]) -> dict[Workload, Counter[str]]:
    """Returns on which nodes the pods of these workloads are. Pods without a controller are not looked at."""
    counts: dict[Workload, Counter[str]] = {workload: Counter() for workload in concerned}
    for pod, node in world.objects.placed():
        if pod.controller is not None and (workload := world.grouping.of(pod)) in counts:
            counts[workload][node] += 1
    return counts


def _spread(nodes: Counter[str], zones: Mapping[str, str], usage: Usage) -> Spread:
    """Every zone that has nodes counts, with 0 if need be."""
    counts = Counter(dict.fromkeys(usage.zones, 0))
    for node, count in nodes.items():
        counts[zones.get(node, NO_ZONE)] += count
    return Spread(nodes, counts)


def _count(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'' if number == 1 else 's'}"
