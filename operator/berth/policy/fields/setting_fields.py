"""Fields of a policy besides its selectors, entries and extenders."""

from berth.engine.pipeline import TieBreak
from berth.policy.defaults import BUILT_IN
from berth.policy.fields.selector_fields import KEY_MAX_LENGTH, label_key
from berth.policy.fields.types import (
    CelRule,
    ChoiceField,
    FlagField,
    IntegerField,
    ListField,
    NumberField,
    ObjectField,
    TextField,
)
from berth.policy.records import BackoffSettings, Constraints, PreemptionSettings

INT32_MAX = 2**31 - 1
CANDIDATES_MAX = INT32_MAX
SHORTEST_SECONDS = 0.1
LONGEST_SECONDS = 604800  # a week
CONSTRAINTS_MAX = 16

_BACKOFF, _PREEMPTION = BackoffSettings(), PreemptionSettings()


def _seconds(description: str) -> NumberField:
    """The API server names the bound of a fraction only through a rule."""
    least = CelRule(f"self >= {SHORTEST_SECONDS}", f"must be at least {SHORTEST_SECONDS}")
    return NumberField(description, minimum=SHORTEST_SECONDS, maximum=LONGEST_SECONDS, rules=(least,))


PREEMPTION = ObjectField(
    "Whether pods of lower priority may be evicted to make room for one that fits nowhere, and how many "
    "candidate nodes are looked for. Example: {enabled: false}.",
    fields={
        "enabled": FlagField(
            "false: no pod is evicted for a pod of this policy. Without it the base holds; KubernetesDefault has true.",
        ),
        "minCandidateNodesPercentage": IntegerField(
            "The search for candidates ends with so many percent of the nodes, but not before "
            f"minCandidateNodesAbsolute; {_PREEMPTION.percentage} by default.",
            minimum=0,
            maximum=100,
        ),
        "minCandidateNodesAbsolute": IntegerField(
            f"The least number of candidates to look for; {_PREEMPTION.absolute} by default.",
            minimum=0,
            maximum=CANDIDATES_MAX,
        ),
    },
    rules=(
        CelRule(
            "!has(self.minCandidateNodesPercentage) || self.minCandidateNodesPercentage > 0 || "
            "!has(self.minCandidateNodesAbsolute) || self.minCandidateNodesAbsolute > 0",
            "cannot be 0 together with minCandidateNodesAbsolute; write enabled: false to switch it off",
            ".minCandidateNodesPercentage",
        ),
    ),
)

TIE_BREAK = ChoiceField(
    "Which node is taken of several with the same highest sum. Random, the default, spreads evenly and is what "
    "kube-scheduler does. RoundRobin takes them in turn, by name. First takes the first by name.",
    values=tuple(TieBreak),
)

BACKOFF = ObjectField(
    "How long a pod that was not placed waits before it is tried again: initialSeconds, doubled with each "
    "attempt up to maxSeconds. Example: {maxSeconds: 60}.",
    fields={
        "initialSeconds": _seconds(f"After the first attempt; {_BACKOFF.first_backoff_seconds:g} by default."),
        "maxSeconds": _seconds(f"At most; {_BACKOFF.longest_backoff_seconds:g} by default."),
    },
    rules=(
        CelRule(
            "!has(self.initialSeconds) || !has(self.maxSeconds) || self.initialSeconds <= self.maxSeconds",
            "initialSeconds cannot be more than maxSeconds",
            ".initialSeconds",
        ),
    ),
)

FLUSH_SECONDS = _seconds(
    "A pod for which nothing has changed that could help is tried again all the same after so long; "
    f"{_BACKOFF.flush_seconds:g} by default.",
)

BIND_TIMEOUT_SECONDS = IntegerField(
    "How long a pod with a node may wait until its volumes are bound; then it is tried again. 600 by default. "
    "It is VolumeBinding's argument of that name: give it here or there, not in both.",
    minimum=0,
    maximum=LONGEST_SECONDS,
)

PERCENTAGE_OF_NODES_TO_SCORE = IntegerField(
    "The search for nodes that fit ends with so many percent of all nodes, and one of those is taken. 100, the "
    "default: every node is looked at, which Berth is made for. 0: fewer the larger the cluster, as "
    "kube-scheduler does by default.",
    minimum=0,
    maximum=100,
)

ALWAYS_CHECK_ALL_PREDICATES = FlagField(
    "true: the message about a pod that fits nowhere counts what every predicate says of every node. false, the "
    "default: a node counts under the first predicate that refuses it, as in kube-scheduler.",
)

DEFAULT_CONSTRAINTS = ObjectField(
    "How pods are spread that have no topologySpreadConstraints of their own but belong to a service, replica "
    "set, stateful set or replication controller. They are arguments of PodTopologySpread, as predicate and "
    "priority alike: give them here or there, not in both. Example: {type: List, constraints: [{maxSkew: 1, "
    "topologyKey: topology.kubernetes.io/zone, whenUnsatisfiable: ScheduleAnyway}]}.",
    required=("type",),
    fields={
        "type": ChoiceField(
            "System: gently over hosts (maxSkew 3) and zones (maxSkew 5), as kube-scheduler does by default. "
            "List: by constraints. None: not at all.",
            values=tuple(Constraints),
        ),
        "constraints": ListField(
            "The constraints, without labelSelector, which each pod's service and controller give.",
            max_items=CONSTRAINTS_MAX,
            keys=("topologyKey", "whenUnsatisfiable"),
            items=ObjectField(
                "One topology spread constraint, as in a pod.",
                required=("maxSkew", "topologyKey", "whenUnsatisfiable"),
                fields={
                    "maxSkew": IntegerField(
                        "How many more pods a domain may have than the one with the fewest.",
                        minimum=1,
                        maximum=INT32_MAX,
                        format="int32",
                    ),
                    "topologyKey": label_key(
                        "The node label whose values are the domains. Example: topology.kubernetes.io/zone.",
                    ),
                    "whenUnsatisfiable": ChoiceField(
                        "DoNotSchedule: nodes fit only where the skew allows it. ScheduleAnyway: such nodes are "
                        "preferred.",
                        values=("DoNotSchedule", "ScheduleAnyway"),
                    ),
                    "minDomains": IntegerField(
                        "With fewer domains than that, the one with the fewest pods counts as empty.",
                        minimum=1,
                        maximum=INT32_MAX,
                        format="int32",
                    ),
                    "nodeAffinityPolicy": ChoiceField(
                        "Honor, the default: only nodes count that the pod's node selector and affinity let in. "
                        "Ignore: all do.",
                        values=("Honor", "Ignore"),
                    ),
                    "nodeTaintsPolicy": ChoiceField(
                        "Honor: only nodes count whose taints the pod tolerates. Ignore, the default: all do.",
                        values=("Honor", "Ignore"),
                    ),
                    "matchLabelKeys": ListField(
                        "Labels of the pod; only pods with the same values of them count.",
                        max_items=16,
                        items=TextField("The key of a label.", min_length=1, max_length=KEY_MAX_LENGTH),
                    ),
                },
                rules=(
                    CelRule(
                        "!has(self.minDomains) || self.whenUnsatisfiable == 'DoNotSchedule'",
                        "minDomains goes with whenUnsatisfiable: DoNotSchedule only",
                        ".minDomains",
                    ),
                ),
            ),
        ),
    },
    rules=(
        CelRule(
            "self.type != 'List' || (has(self.constraints) && size(self.constraints) > 0)",
            "constraints are required with type: List; write type: None for none",
            ".constraints",
        ),
        CelRule(
            "self.type == 'List' || !has(self.constraints) || size(self.constraints) == 0",
            "constraints go with type: List only",
            ".constraints",
        ),
    ),
)

ANNOTATE_PODS = FlagField(
    "true: pods that the policy places carry its name and generation as annotations berth.dev/policy and "
    "berth.dev/policy-generation. They are written with the binding, at no extra request. false by default.",
)

SHADOW = ObjectField(
    "With mode: Shadow, how it judges. Example: {samplePercent: 10}.",
    fields={
        "samplePercent": IntegerField(
            f"The share of the pods that it judges, in percent; {BUILT_IN.shadow_percentage} by default.",
            minimum=1,
            maximum=100,
        ),
    },
)
