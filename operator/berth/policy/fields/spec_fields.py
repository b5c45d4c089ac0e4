"""The spec of a SchedulingPolicy: every field, in the order of the documentation."""

from berth.policy.defaults import KUBERNETES_DEFAULT, OWN_BASES
from berth.policy.fields.entry_fields import EXPRESSIONS_MAX, PARAMETERS, PREDICATE_ORDER, PREDICATES, PRIORITIES
from berth.policy.fields.extender_fields import EXTENDERS
from berth.policy.fields.selector_fields import DNS_NAME, selector
from berth.policy.fields.setting_fields import (
    ALWAYS_CHECK_ALL_PREDICATES,
    ANNOTATE_PODS,
    BACKOFF,
    BIND_TIMEOUT_SECONDS,
    DEFAULT_CONSTRAINTS,
    FLUSH_SECONDS,
    PERCENTAGE_OF_NODES_TO_SCORE,
    PREEMPTION,
    SHADOW,
    TIE_BREAK,
)
from berth.policy.fields.types import CelRule, ChoiceField, ObjectField, TextField
from berth.policy.reading import OBJECT_NAME_MAX_LENGTH
from berth.policy.records import Mode

GROUP = "berth.dev"
VERSION = "v1alpha1"
KIND = "SchedulingPolicy"
SCHEDULER_NAME_MAX_LENGTH = 253

_OWN = f"[{', '.join(map(repr, OWN_BASES))}]"

SCHEDULER_NAME = TextField(
    "The policy is for pods with this spec.schedulerName. If several policies have the same one, "
    "namespaceSelector and podSelector tell which decides for which pod. The name berth is served by a built-in "
    "default while no policy has it; a name that no policy has is not served at all. Changing it moves the "
    "policy to other pods. Example: berth.",
    min_length=1,
    max_length=SCHEDULER_NAME_MAX_LENGTH,
)

MODE = ChoiceField(
    "Active, the default, decides. Shadow judges the pods that it matches beside the policy that decides, binds "
    "nothing, and reports in status.shadow what it would have done otherwise. Disabled does nothing, and can "
    "still be the base of others.",
    values=tuple(Mode),
    default=Mode.ACTIVE.value,
)

BASE = TextField(
    "What the policy differs from. KubernetesDefault, the default: the profile of kube-scheduler 1.36. Empty: "
    "no predicates and no priorities. Or the name of another policy: everything but schedulerName, the "
    "selectors and mode comes from there where this policy is silent, predicates and priorities entry by entry, "
    "parameters key by key, extenders as a whole; and changes there change this policy too. While the other is "
    "not there or was never valid, this one is not valid.",
    max_length=OBJECT_NAME_MAX_LENGTH,
    pattern=f"^({'|'.join(OWN_BASES)}|{DNS_NAME})$",
    default=KUBERNETES_DEFAULT,
)

SPEC = ObjectField(
    "What the policy asks for. Only schedulerName is required; what is not said comes from the base.",
    required=("schedulerName",),
    fields={
        "schedulerName": SCHEDULER_NAME,
        "namespaceSelector": selector(
            "The policy is only for pods in namespaces with such labels; without it, in all. Of the policies "
            "that match a pod the one with more of the two selectors decides, then the one with more "
            "requirements in them, then the first by name (condition Contested tells of that). Example: "
            "{matchLabels: {team: research}}. A namespace has its name as label kubernetes.io/metadata.name.",
        ),
        "podSelector": selector(
            "The policy is only for pods with such labels; without it, for all. See namespaceSelector for which "
            "policy decides where several match. Example: {matchExpressions: [{key: gpu, operator: Exists}]}.",
        ),
        "mode": MODE,
        "base": BASE,
        "predicates": PREDICATES,
        "predicateOrder": PREDICATE_ORDER,
        "priorities": PRIORITIES,
        "parameters": PARAMETERS,
        "extenders": EXTENDERS,
        "preemption": PREEMPTION,
        "tieBreak": TIE_BREAK,
        "backoff": BACKOFF,
        "flushSeconds": FLUSH_SECONDS,
        "bindTimeoutSeconds": BIND_TIMEOUT_SECONDS,
        "percentageOfNodesToScore": PERCENTAGE_OF_NODES_TO_SCORE,
        "alwaysCheckAllPredicates": ALWAYS_CHECK_ALL_PREDICATES,
        "defaultConstraints": DEFAULT_CONSTRAINTS,
        "annotatePods": ANNOTATE_PODS,
        "shadow": SHADOW,
    },
    rules=(
        CelRule(
            "!has(self.shadow) || self.mode == 'Shadow'",
            "shadow goes with mode: Shadow only",
            ".shadow",
        ),
        CelRule(
            f"!(self.base in {_OWN}) || !has(self.predicates) || self.predicates.all(p, "
            "!has(p.message) || has(p.expression))",
            "message goes with an expression only, a plugin has messages of its own",
            ".predicates",
        ),
        CelRule(
            f"!(self.base in {_OWN}) || !has(self.priorities) || self.priorities.all(p, "
            "!has(p.normalize) || has(p.expression))",
            "normalize goes with an expression only, a plugin normalises by itself",
            ".priorities",
        ),
        CelRule(
            "(has(self.predicates) ? self.predicates.filter(p, has(p.expression) && (!has(p.enabled) || "
            "p.enabled)).size() : 0) + (has(self.priorities) ? self.priorities.filter(p, has(p.expression) && "
            f"(!has(p.enabled) || p.enabled)).size() : 0) <= {EXPRESSIONS_MAX}",
            f"predicates and priorities may have {EXPRESSIONS_MAX} expressions together, "
            "those with enabled false apart",
        ),
    ),
)
