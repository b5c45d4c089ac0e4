"""Pods that controllers create in place of pods that left their node.

A controller is taken to create a pod like the one that left, with the template unchanged: a StatefulSet under the same
name, a DaemonSet for the same node. A pod without a controller is lost, and so is the mirror of a static pod.
"""

import itertools
from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Final

from berth.model import Pod
from berth.whatif.claims import with_new_claims
from berth.whatif.cluster_objects import ClusterObjects
from berth.whatif.workloads import MIRROR

SAME_NAME: Final = "StatefulSet"
DIGITS: Final = 4


class Recreation:
    """Creates the records of such pods; `next_uid` numbers them."""

    def __init__(self, objects: ClusterObjects, next_uid: Callable[[], str]) -> None:
        self._objects = objects
        self._next_uid = next_uid
        self._numbers: defaultdict[str, Iterator[int]] = defaultdict(itertools.count)

    def successor(self, pod: Pod) -> Pod | None:
        """Returns the pod that the controller creates; None if there is none, or if it has created one already."""
        owner = pod.controller
        if owner is None or owner.kind == MIRROR or pod.deleting:
            return None
        return self.copy(pod, pod.name if owner.kind == SAME_NAME else self.name(owner.name))

    def name(self, owner: str) -> str:
        """Returns the name of another pod of this controller; pods that were there before have other names."""
        return f"{owner}-s{next(self._numbers[owner]):0{DIGITS}}"

    def copy(self, pod: Pod, name: str) -> Pod:
        """Returns a new pod that asks for the same, without a node."""
        fresh = replace(
            pod,
            uid=self._next_uid(),
            name=name,
            resource_version="",
            generation=0,
            created="",
            deleting=False,
            node_name="",
            gates=(),
            phase="Pending",
            nominated_node_name="",
            start_time="",
            preempted=False,
            scheduled_condition=None,
        )
        return with_new_claims(fresh, self._objects)
