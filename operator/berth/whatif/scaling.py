"""Workloads with another number of pods (--scale), and with another version (-f)."""

import itertools
from collections.abc import Iterator
from dataclasses import dataclass

from berth.model import Pod
from berth.policy.wording import count
from berth.whatif.daemons import daemon_pods
from berth.whatif.entries import Cause, Origin
from berth.whatif.errors import CannotSimulate
from berth.whatif.pod_sets import PodSet, pod_set
from berth.whatif.workloads import Workload
from berth.whatif.world import World


@dataclass(frozen=True, slots=True)
class Scale:
    workload: Workload
    replicas: int


def scale(world: World, wish: Scale) -> None:
    """Gives a workload so many pods: new ones need a node, or some leave. Raises CannotSimulate."""
    workload = wish.workload
    there = list(world.pods_of(workload))
    _check_known(world, workload, there)
    if wish.replicas > len(there):
        for pod in itertools.islice(_more(world, workload, there), wish.replicas - len(there)):
            world.need(pod, Origin.NEW)
    for pod, node in _least_missed(workload, there)[: max(0, len(there) - wish.replicas)]:
        _remove(world, pod, node, Cause.SCALED_DOWN)


def _check_known(world: World, workload: Workload, there: list[tuple[Pod, str]]) -> None:
    manager = world.objects.controllers.get(workload)
    if manager is not None:
        raise CannotSimulate(f"--scale: {workload} is managed by {manager}: scale that")
    if not there and workload not in world.objects.workloads:
        raise CannotSimulate(f"--scale: {workload} has no pods and is not in the input: give it with -f")


def _more(world: World, workload: Workload, there: list[tuple[Pod, str]]) -> Iterator[Pod]:
    """Yields more pods of the workload: like its newest one, or by its template if it has none or numbers them."""
    body = world.objects.workloads.get(workload)
    if workload.kind == "StatefulSet":
        if body is None:
            raise CannotSimulate(
                f"--scale: {workload} is not in the input, so its claims are not known: give it with -f"
            )
        pods = pod_set(body, world.admission)
        taken = {pod.name for pod, _ in there}
        return (pod for pod in world.pods.make(pods) if pod.name not in taken)
    if not there:
        assert body is not None, "checked before"
        pods = pod_set(body, world.admission)
        world.pods.create_owners(pods)
        return world.pods.make(pods)
    newest = max((pod for pod, _ in there), key=lambda pod: (pod.created, pod.name))
    owner = newest.controller
    assert owner is not None, "pods of a workload have a controller"
    return (world.recreation.copy(newest, world.recreation.name(owner.name)) for _ in itertools.count())


def _least_missed(workload: Workload, there: list[tuple[Pod, str]]) -> list[tuple[Pod, str]]:
    """Returns the pods in the order in which a controller deletes them.

    A StatefulSet deletes the highest number first. Others delete pods without a node first, then those that share
    their node with most of their kind, then the newest.
    """
    if workload.kind == "StatefulSet":
        return sorted(there, key=lambda each: _ordinal(each[0]), reverse=True)
    newest = sorted(there, key=lambda each: (each[0].created, each[0].name), reverse=True)
    seen: dict[str, int] = {}
    beside: dict[str, int] = {}
    for pod, node in reversed(newest):  # the oldest of a node has nobody beside it
        beside[pod.uid] = seen.get(node, 0)
        seen[node] = beside[pod.uid] + 1
    return sorted(newest, key=lambda each: (bool(each[1]), -beside[each[0].uid]))


def _ordinal(pod: Pod) -> int:
    number = pod.name.rpartition("-")[2]
    return int(number) if number.isdigit() else -1


# --- another version --------------------------------------------------------------------------------------------------


def apply(world: World, pods: PodSet) -> None:
    """Creates the pods of a workload of -f. If the cluster has it already, its pods leave before."""
    workload = pods.workload
    if workload.kind == "Pod":
        _apply_pod(world, pods)
        return
    before = list(world.pods_of(workload))
    for pod, node in before:
        _remove(world, pod, node, Cause.REPLACED)
    if before:
        leaving = f"{count(len(before), 'pod')} of it leave{'s' * (len(before) == 1)}"
        world.notes[f"{workload} is there already: {leaving} before the new ones are placed"] = None
    world.pods.create_owners(pods)
    is_daemon = workload.kind == "DaemonSet"
    made = daemon_pods(pods, world) if is_daemon else itertools.islice(world.pods.make(pods), pods.count)
    for pod in made:
        world.need(pod, Origin.NEW)


def _apply_pod(world: World, pods: PodSet) -> None:
    pod = next(world.pods.make(pods))
    if world.has_pod(pod):
        raise CannotSimulate(f"Pod {pod.key}: there is such a pod already: give it another name")
    if pod.node_name and world.state.table.node(pod.node_name) is None:
        raise CannotSimulate(f'Pod {pod.key}: spec.nodeName: there is no node "{pod.node_name}"')
    world.need(pod, Origin.NEW)


def _remove(world: World, pod: Pod, node: str, cause: Cause) -> None:
    if node:
        world.leave(pod, node, cause)
    else:
        world.placer.drop(pod.uid)
