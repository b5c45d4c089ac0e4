"""Nodes that come, are drained, or fail."""

from collections.abc import Iterable
from dataclasses import replace
from difflib import get_close_matches
from typing import Final

from berth.engine.events import Event
from berth.model import Node, Pod
from berth.model.label_selectors import SelectorError, parse_label_selector
from berth.policy.wording import list_names
from berth.whatif.entries import Cause
from berth.whatif.errors import CannotSimulate
from berth.whatif.workloads import NO_ZONE, is_bound_to_its_node, zone_of
from berth.whatif.world import World

HOSTNAME: Final = "kubernetes.io/hostname"
CONDITION_TAINTS: Final = "node.kubernetes.io/"  # of a node that is not ready, unreachable, cordoned or under pressure
SELECTOR_SIGNS: Final = "=!,()"


def add_nodes(world: World, like: str, count: int) -> list[str]:
    """Adds nodes like this one, ready and empty but for the pods that every such node has; returns their names.

    A new node has the labels, taints and resources of the other, and no images. It gets copies of the pods that belong
    to a node: those of DaemonSets, and static pods.
    """
    original = _node(world, like, "--add-nodes: like")
    names = [f"{like}-new-{number}" for number in range(1, count + 1)]
    for name in names:
        if world.state.table.node(name) is not None:
            raise CannotSimulate(f"--add-nodes: there is a node {name} already: choose another node to be like")
        _add(world, original, name)
    world.placer.note(Event.NODE_ADDED)
    return names


def _add(world: World, original: Node, name: str) -> None:
    labels = dict(original.labels)
    if HOSTNAME in labels:
        labels[HOSTNAME] = name
    taints = tuple(taint for taint in original.taints if not taint.key.startswith(CONDITION_TAINTS))
    node = replace(
        original,
        name=name,
        uid=f"simulated-{name}",
        labels=labels,
        taints=taints,
        unschedulable=False,
        images={},
        conditions={**original.conditions, "Ready": "True"},
    )
    world.state.table.set_node(node)
    csi_node = world.state.objects["CSINode"].get(original.name)
    if csi_node is not None:
        world.state.put("CSINode", name, replace(csi_node, name=name, uid=f"simulated-{name}"))
    for pod in list(world.state.table.pods_on(original.name).values()):
        if is_bound_to_its_node(pod) and not pod.deleting:
            world.state.table.add_pod(_copy_for(pod, name, world), name)


def _copy_for(pod: Pod, node: str, world: World) -> Pod:
    """Returns a copy of a node's own pod for another node. It is placed: no decision reads whom it prefers."""
    copy = world.recreation.copy(pod, f"{pod.name[:40]}-{node}")
    return replace(copy, node_name=node, phase="Running")


# --- draining ---------------------------------------------------------------------------------------------------------


class Drain:
    """Nodes that are drained: cordoned at once, and emptied as far as disruption budgets allow."""

    def __init__(self, world: World, names: Iterable[str]) -> None:
        self._world = world
        self.names = sorted(set(names))
        self.blocked: dict[str, tuple[Pod, str, str]] = {}  # by UID: pod, node, and why it is not evicted
        for name in self.names:
            table = world.state.table
            node = table.node(name)
            assert node is not None, "the names were found among the nodes"
            table.set_node(replace(node, unschedulable=True))

    def evict(self) -> bool:
        """Evicts the pods that budgets allow to be evicted now; returns whether there was any.

        Pods that belong to their node stay. What `kubectl drain` needs flags for is evicted, too.
        """
        world, self.blocked = self._world, {}
        world.settle_budgets()
        evicted = False
        for pod, node in self._leaving():
            refusal = world.budgets.refusal(pod)
            if refusal is not None:
                self.blocked[pod.uid] = pod, node, refusal
                continue
            world.move(pod, node, Cause.DRAINED)
            evicted = True
        return evicted

    def _leaving(self) -> list[tuple[Pod, str]]:
        table = self._world.state.table
        found = [(pod, name) for name in self.names for pod in table.pods_on(name).values()]
        return sorted((each for each in found if not is_bound_to_its_node(each[0])), key=lambda each: each[0].key)


def find_nodes(world: World, text: str) -> list[str]:
    """Returns the names of the nodes that a name or a label selector means; raises CannotSimulate if there is none."""
    if not any(sign in text for sign in SELECTOR_SIGNS):
        return [_node(world, text, "--drain").name]
    try:
        selector = parse_label_selector(text)
    except SelectorError as error:
        raise CannotSimulate(f'--drain: "{text}" is no label selector: {error}') from None
    found = [node.name for node in world.state.table.nodes() if selector.matches(node.labels)]
    if not found:
        raise CannotSimulate(f'--drain: no node has labels that match "{text}"')
    return found


# --- failing ----------------------------------------------------------------------------------------------------------


def fail_zone(world: World, zone: str) -> list[str]:
    """Removes the nodes of a zone, with their pods; returns their names. Controllers create other pods."""
    zones: dict[str, list[str]] = {}
    for node in world.state.table.nodes():
        zones.setdefault(zone_of(node), []).append(node.name)
    zones.pop(NO_ZONE, None)
    if zone not in zones:
        there = f"there is {list_names(sorted(zones))}" if zones else "no node has a label for its zone"
        raise CannotSimulate(f'--fail-zone: no node is in zone "{zone}"; {there}')
    for name in zones[zone]:
        world.state.table.remove_node(name)
        world.state.drop("CSINode", name)
    for name in sorted(zones[zone]):
        for pod in sorted(world.state.table.pods_on(name).values(), key=lambda pod: pod.key):
            _fail(world, pod, name)
    return zones[zone]


def _fail(world: World, pod: Pod, node: str) -> None:
    if is_bound_to_its_node(pod):
        world.leave(pod, node, Cause.NODE_FAILED)
    else:
        world.move(pod, node, Cause.NODE_FAILED)


def _node(world: World, name: str, option: str) -> Node:
    node = world.state.table.node(name)
    if node is None:
        close = get_close_matches(name, [each.name for each in world.state.table.nodes()], n=1)
        hint = f"; did you mean {close[0]}?" if close else ""
        raise CannotSimulate(f'{option}: there is no node "{name}"{hint}')
    return node
