"""The policies that administrators write here: drawn piece by piece, with rules that a check can work out by itself."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from random import Random
from typing import Any

from berth.model import Node
from berth.policy.records import Policy
from reference.profile import Profile, profile_of_entries
from reference.registry import REGISTRY
from simulation import usher
from simulation.knowledge import GOOD

Body = dict[str, Any]

EXTENDER_URL = "http://extender.simulation"
REFUSING_LABEL = "extender"  # "no" on a node that the extender refuses
POLICY_NAMES = ("alpha", "beta", "gamma")
SCHEDULER_NAMES = ("berth", "batch")

RULES: Mapping[str, Callable[[Node], bool]] = {
    "!('retiring' in node.labels)": lambda node: "retiring" not in node.labels,
    "node.allocatable['cpu'] >= 3000": lambda node: node.allocatable.get("cpu", 0) >= 3000,
}


def allows(policy: Policy, node: Node) -> bool:
    """Whether the expressions of the policy let a pod onto the node."""
    rules = [RULES[entry.expression] for entry in policy.predicates if entry.expression]
    return all(rule(node) for rule in rules)


def reference_profile(policy: Policy) -> Profile:
    """What the reference knows of the policy's filters: the plugins of kube-scheduler."""
    return profile_of_entries([entry for entry in policy.predicates if entry.name in REGISTRY], ())


def draw_policy(random: Random, name: str, *, extended: bool, scheduler_name: str = "") -> Body:
    """A policy that makes sense."""
    spec: Body = {
        "schedulerName": scheduler_name or random.choice(SCHEDULER_NAMES),
        "mode": random.choices(("Active", "Shadow", "Disabled"), (10, 2, 1))[0],
        "annotatePods": random.random() < 0.5,
        "priorities": [{"name": "NodeResourcesFit", "weight": random.randint(1, 9)}],
        "preemption": {"enabled": random.random() < 0.8},
    }
    if random.random() < 0.25:
        spec["namespaceSelector"] = {"matchLabels": {"team": random.choice("xy")}}
    if random.random() < 0.2:
        spec["podSelector"] = {"matchLabels": {"tier": "gold"}}
    if random.random() < 0.3:
        spec["tieBreak"] = "RoundRobin"
    if random.random() < 0.3:
        spec["backoff"] = {"initialSeconds": random.choice((1, 2)), "maxSeconds": random.choice((4, 10))}
    if random.random() < 0.4:
        chosen = random.choice(list(RULES))
        spec["predicates"] = [{"name": "own-rule", "expression": chosen, "message": "the rule says no"}]
    if random.random() < 0.4:
        ushers = [{"name": name, "plugin": usher.NAME} for name in ("first-usher", "second-usher")]
        spec["predicates"] = [*spec.get("predicates", ()), *ushers]
    if extended and random.random() < 0.6:
        spec["extenders"] = [_draw_extender(random)]
    return _manifest(name, spec, good=True)


def spoil(random: Random, body: Body) -> Body:
    """The same policy with an edit that must change nothing."""
    spec = {**body["spec"]}
    spec["predicates"] = random.choice(
        (
            [{"name": "NoSuchPlugin"}],
            [{"name": "own-rule", "expression": "node.labels['", "message": "half a rule"}],
            [{"name": "own-rule", "expression": "no.such.thing == 1", "message": "of nothing"}],
        )
    )
    return _manifest(body["metadata"]["name"], spec, good=False)


def _draw_extender(random: Random) -> Body:
    return {
        "urlPrefix": EXTENDER_URL,
        "filterVerb": "filter",
        "prioritizeVerb": "prioritize",
        # Without, pods are preempted on nodes that the extender refuses afterwards, for ever: as with kube-scheduler.
        "preemptVerb": "preempt",
        **({"bindVerb": "bind"} if random.random() < 0.3 else {}),
        "nodeCacheCapable": random.random() < 0.5,
        "timeoutSeconds": 5,
    }


def _manifest(name: str, spec: Body, *, good: bool) -> Body:
    metadata = {"name": name, "annotations": {GOOD: "yes" if good else "no"}}
    return {"apiVersion": "berth.dev/v1alpha1", "kind": "SchedulingPolicy", "metadata": metadata, "spec": spec}
