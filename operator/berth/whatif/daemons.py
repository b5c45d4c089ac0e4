"""The pods of a DaemonSet: one for each node that its controller would choose."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Final

from berth.engine.diagnosis import Diagnosis
from berth.engine.pipeline import Pipeline
from berth.engine.plugins.node_affinity import NodeAffinity
from berth.engine.plugins.node_name import NodeName
from berth.engine.plugins.taint_toleration import TaintToleration
from berth.model import NodeSelector, Pod, build_node_selector
from berth.sim.objects import items, mapping
from berth.whatif.pod_sets import PodSet
from berth.whatif.world import World

# What the controller has each of its pods tolerate.
TOLERATED: Final = (
    ("node.kubernetes.io/not-ready", "NoExecute"),
    ("node.kubernetes.io/unreachable", "NoExecute"),
    ("node.kubernetes.io/disk-pressure", "NoSchedule"),
    ("node.kubernetes.io/memory-pressure", "NoSchedule"),
    ("node.kubernetes.io/pid-pressure", "NoSchedule"),
    ("node.kubernetes.io/unschedulable", "NoSchedule"),
)
ON_HOST_NETWORK: Final = (("node.kubernetes.io/network-unavailable", "NoSchedule"),)


def daemon_pods(pods: PodSet, world: World) -> Iterator[Pod]:
    """Yields a pod for each node that the DaemonSet selects and whose taints it tolerates, by the node's name.

    As the controller does, each is restricted to its node by affinity, and the scheduler has to find room there.
    """
    made = world.pods.make(_tolerating(pods))
    sample = next(made)
    rules = [NodeName({}), NodeAffinity({}), TaintToleration({})]
    chosen = Pipeline(rules, []).feasible(sample, world.state)
    for name in () if isinstance(chosen, Diagnosis) else sorted(chosen):
        yield replace(next(made), required_node_affinity=_only(name))


def _tolerating(pods: PodSet) -> PodSet:
    spec = mapping(pods.template.get("spec"))
    keys = (*TOLERATED, *(ON_HOST_NETWORK if spec.get("hostNetwork") else ()))
    added = [{"key": key, "operator": "Exists", "effect": effect} for key, effect in keys]
    tolerations = [*items(spec.get("tolerations")), *added]
    return replace(pods, template={**pods.template, "spec": {**spec, "tolerations": tolerations}})


def _only(node: str) -> NodeSelector:
    field = {"key": "metadata.name", "operator": "In", "values": [node]}
    return build_node_selector({"nodeSelectorTerms": [{"matchFields": [field]}]})
