"""Ports on the host: no two pods of a node may have the same one on the same address.

Where two pods of a node have the same one nevertheless, it is free when both are gone. kube-scheduler forgets it with
the first that leaves.
"""

from __future__ import annotations

from berth.model import HostPort, Node, Pod

from ..plugin import NOTHING_TO_SAY, PROCEED, Plugin, PreFilter, Refusal, unschedulable
from ..world import World

ALL_ADDRESSES = "0.0.0.0"


def conflict(one: HostPort, other: HostPort) -> bool:
    if (one.protocol, one.port) != (other.protocol, other.port):
        return False
    return one.ip == other.ip or ALL_ADDRESSES in (one.ip, other.ip)


class NodePorts(Plugin):
    name = "NodePorts"

    def pre_filter(self, pod: Pod, world: World) -> PreFilter:
        return PROCEED if pod.host_ports else NOTHING_TO_SAY

    def filter(self, pod: Pod, node: Node, world: World) -> Refusal | None:
        for other in world.pods_on(node.name):
            for taken in other.host_ports:
                if any(conflict(wanted, taken) for wanted in pod.host_ports):
                    return unschedulable("node(s) didn't have free ports for the requested pod ports")
        return None


PLUGINS = (NodePorts,)
