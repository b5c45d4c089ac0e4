"""Records of what an explanation says. They are typed before they are words: `to_object` and `sentences` render them.

Amounts are integers as in the node table: millicores of cpu, bytes of memory and ephemeral-storage, units of the rest.
Times are RFC 3339 text, "" where nothing is known: nothing here reads a clock. None means "not known", for example
where no queue was asked.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum


class PodState(StrEnum):
    """What a pod is waiting for, if anything."""

    PENDING = "Pending"  # it waits for its turn
    UNSCHEDULABLE = "Unschedulable"
    BACKOFF = "Backoff"
    GATED = "Gated"
    WAITING_FOR_PERMIT = "WaitingForPermit"
    WAITING_FOR_VOLUMES = "WaitingForVolumes"
    BINDING = "Binding"  # it has a node, and the API server has not shown it yet
    NOMINATED = "Nominated"
    BOUND = "Bound"
    NOT_SERVED = "NotServed"  # no policy decides for it
    OTHER_SCHEDULER = "OtherScheduler"
    INVALID = "Invalid"
    TERMINATING = "Terminating"


@dataclass(frozen=True, slots=True)
class NearMiss:
    """A node that a reason rejects and that comes closest. The amounts are there if a resource is what it lacks."""

    node: str
    detail: str
    resource: str = ""
    requested: int = 0
    free: int = 0

    @property
    def lacking(self) -> int:
        return self.requested - self.free


@dataclass(frozen=True, slots=True)
class Reason:
    """One reason for which nodes are rejected. `message` is kube-scheduler's text, `nodes` how many it counts.

    `alone`: how many nodes nothing but this plugin rejects.
    """

    code: str
    plugin: str
    message: str
    nodes: int
    alone: int = 0
    nearest: tuple[NearMiss, ...] = ()


class Outlook(StrEnum):
    """Whether a pod could be scheduled: it fits now, not now, or on no node even if all of them were empty."""

    FITS = "Fits"
    NOT_NOW = "NotNow"
    NEVER = "Never"


@dataclass(frozen=True, slots=True)
class Prospect:
    """`nodes`: how many would take the pod if pods left, as far as that can be told without trying each of them;
    `examples`: some of them, each tried.
    """

    outlook: Outlook
    message: str
    nodes: int = 0
    examples: tuple[str, ...] = ()


class PreemptionCode(StrEnum):
    """Why preemption helps a pod, or does not."""

    HELPS = "Helps"
    DISABLED = "DisabledByPolicy"
    NEVER = "PreemptionPolicyNever"
    WAITING_FOR_VICTIMS = "WaitingForVictims"
    NO_LOWER_PRIORITY = "NoLowerPriority"
    NOTHING_TO_GAIN = "NothingToGain"
    FAILED = "Failed"


@dataclass(frozen=True, slots=True)
class PreemptionNote:
    """`violations`: how many of the victims a disruption budget protects."""

    code: PreemptionCode
    message: str
    node: str = ""
    victims: tuple[str, ...] = ()
    violations: int = 0


@dataclass(frozen=True, slots=True)
class FieldChange:
    """One change of one field; `before` or `after` is "" if the field, or the entry of the list, is not there."""

    field: str
    before: str
    after: str


@dataclass(frozen=True, slots=True)
class Advice:
    """A change after which the pod fits, tried by the engine.

    `kind` and `name` are the object to change. `nodes`: how many nodes fit then, of which `node` is one. If `victims`
    is not empty, the pod fits on `node` once they are preempted.
    """

    code: str
    kind: str
    name: str
    sentence: str
    changes: tuple[FieldChange, ...]
    node: str
    nodes: int = 1
    victims: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class PolicyReference:
    name: str
    generation: int


@dataclass(frozen=True, slots=True)
class PluginScore:
    """`score` is normalised to 0..100; `points` is what it adds to the total."""

    plugin: str
    weight: int
    score: int

    @property
    def points(self) -> int:
        return self.weight * self.score


@dataclass(frozen=True, slots=True)
class ScoredNode:
    node: str
    total: int
    scores: tuple[PluginScore, ...] = ()


class Evidence(StrEnum):
    """Where the scores come from: the memory of decisions, or a new judgement as if the pod had no node."""

    RECORDED = "Recorded"
    JUDGED_AGAIN = "JudgedAgain"


@dataclass(frozen=True, slots=True)
class Choice:
    """Why a pod is on its node. `chosen` is None if the node would not be chosen from today: `message` says why.

    `others` are the best of the other nodes, the highest total first.
    """

    node: str
    evidence: Evidence
    message: str
    chosen: ScoredNode | None = None
    others: tuple[ScoredNode, ...] = ()
    evaluated: int = 0
    feasible: int = 0


@dataclass(frozen=True, slots=True)
class PluginVerdict:
    """One plugin's verdict on one node. `status` is kube-scheduler's name of the code, such as Unschedulable."""

    plugin: str
    status: str
    codes: tuple[str, ...] = ()
    messages: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class NodeVerdict:
    """Every filter's verdict on one node, those that have nothing to say about the pod left out."""

    node: str
    fits: bool
    plugins: tuple[PluginVerdict, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Explanation:
    """Everything that is known of why a pod is where it is, or nowhere.

    `scheduler_message` is the sentence of the FailedScheduling event. `retried_on` are the events that bring the pod
    back, `waits_for` the gates, plugins or claims that it waits for. `notes` say what was left out.
    """

    name: str
    namespace: str
    uid: str
    created: str
    labels: Mapping[str, str]
    scheduler_name: str
    priority: int
    state: PodState
    message: str
    since: str = ""
    policy: PolicyReference | None = None
    attempts: int | None = None
    place_in_queue: int | None = None
    next_try: str = ""
    node: str = ""
    nominated_node: str = ""
    did_you_mean: str = ""
    waits_for: tuple[str, ...] = ()
    nodes: int = 0
    scheduler_message: str = ""
    reasons: tuple[Reason, ...] = ()
    prospect: Prospect | None = None
    preemption: PreemptionNote | None = None
    advice: tuple[Advice, ...] = ()
    retried_on: tuple[str, ...] = ()
    choice: Choice | None = None
    verdicts: tuple[NodeVerdict, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def dominant(self) -> Reason | None:
        """The reason that rejects most nodes; of equal ones the first."""
        return max(self.reasons, key=lambda reason: reason.nodes, default=None)


@dataclass(frozen=True, slots=True)
class NodeSide:
    """One node of a comparison. `total` is None if the node is rejected."""

    node: str
    fits: bool
    total: int | None = None
    refusals: tuple[PluginVerdict, ...] = ()


@dataclass(frozen=True, slots=True)
class PluginComparison:
    """What one plugin gives to both nodes; `scores` are normalised, None where the node is rejected."""

    plugin: str
    weight: int
    scores: tuple[int | None, int | None]

    @property
    def difference(self) -> int:
        """The points by which the first node is ahead."""
        first, second = (0 if score is None else score for score in self.scores)
        return self.weight * (first - second)


@dataclass(frozen=True, slots=True)
class NodeComparison:
    """Two nodes for one pod, plugin by plugin: the one that decides most comes first."""

    name: str
    namespace: str
    policy: PolicyReference
    first: NodeSide
    second: NodeSide
    plugins: tuple[PluginComparison, ...]
    message: str
