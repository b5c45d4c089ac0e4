"""Feature gates: what is optional or experimental, each of which can be switched without another release.

A gate's stage says how far it may be relied on: ALPHA may change or go, BETA stays, and only details change. What is
beyond that is no gate any more. A gate that is off takes the thing away as a whole; a policy that needs it is refused
with a message, as any other invalid policy.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final, Literal

Stage = Literal["ALPHA", "BETA"]

BULK_INTAKE: Final = "BulkIntake"
QUEUEING_HINTS: Final = "QueueingHints"
EXPLANATIONS: Final = "Explanations"
EXPRESSIONS: Final = "Expressions"
SHADOW_POLICIES: Final = "ShadowPolicies"
PYTHON_PLUGINS: Final = "PythonPlugins"
PREEMPTION: Final = "Preemption"
EXPECTATION: Final = "NominatedNodeNameForExpectation"  # kube-scheduler's name


@dataclass(frozen=True, slots=True)
class Gate:
    name: str
    stage: Stage
    default: bool
    on: str
    off: str


GATES: tuple[Gate, ...] = (
    Gate(
        BULK_INTAKE,
        "BETA",
        True,
        "lists and watches are read many objects at a time, beside kopf's own machinery",
        "kopf hands over one object after another, which takes several times as long",
    ),
    Gate(
        EXPLANATIONS,
        "ALPHA",
        True,
        "the API explain.berth.dev is served where it has an address, and decisions are remembered for it",
        "it is not served, whatever its address, and no decision is remembered",
    ),
    Gate(
        EXPRESSIONS,
        "BETA",
        True,
        "policies may have predicates and priorities written in CEL",
        "a policy with an expression, of its own or of its base, is refused; no expression is evaluated",
    ),
    Gate(
        EXPECTATION,
        "BETA",
        True,
        "a pod that has its node and waits for a permit or its volumes says so in status.nominatedNodeName",
        "only a pod that a node is being made free for has a nominatedNodeName",
    ),
    Gate(
        PREEMPTION,
        "BETA",
        True,
        "a pod that fits nowhere may preempt pods of lower priority, unless its policy says otherwise",
        "no pod is preempted, disruption budgets are not read, and a policy that asks for it by name is refused",
    ),
    Gate(
        PYTHON_PLUGINS,
        "BETA",
        True,
        "policies may name plugins that installed packages bring (entry points berth.plugins)",
        "no such package is ever imported, and a policy that names its plugin is refused",
    ),
    Gate(
        QUEUEING_HINTS,
        "BETA",
        True,
        "an unschedulable pod is tried again after an event only if the plugins that rejected it say that it may help",
        "it is tried again after every event that these plugins registered: more attempts, no queueing hints",
    ),
    Gate(
        SHADOW_POLICIES,
        "ALPHA",
        True,
        "a policy in mode Shadow judges beside the one that decides",
        "a policy in mode Shadow is refused; nothing is judged twice",
    ),
)
DEFAULTS: Mapping[str, bool] = MappingProxyType({gate.name: gate.default for gate in GATES})


def stages(gates: Mapping[str, bool]) -> dict[str, tuple[Stage, bool]]:
    """Every gate with its stage and whether it is on."""
    return {gate.name: (gate.stage, gates.get(gate.name, gate.default)) for gate in GATES}
