"""Fields of predicates and priorities: what differs from the base."""

from berth.policy.defaults import BUILT_IN
from berth.policy.expressions.language import MAX_LENGTH
from berth.policy.fields.types import AnyField, CelRule, FlagField, IntegerField, ListField, ObjectField, TextField

EXPRESSION_MAX_LENGTH = MAX_LENGTH
EXPRESSIONS_MAX = 16  # of a policy, in predicates and priorities together
PLUGIN_NAME_MAX_LENGTH = 253
ENTRIES_MAX = 64
MESSAGE_MAX_LENGTH = 256
PARAMETERS_MAX = 64
WEIGHT_MAX = 2**31 - 1  # kube-scheduler's weights are of 32 bits: a policy takes all of them

_DEFAULT_PREDICATES = ", ".join(entry.name for entry in BUILT_IN.predicates)
_DEFAULT_PRIORITIES = ", ".join(f"{entry.name} {entry.weight}" for entry in BUILT_IN.priorities)

EXPRESSION_RULES = (  # of every entry that may have an expression
    CelRule(
        "!has(self.expression) || !has(self.plugin)",
        "plugin does not go with an expression, leave one of the two out",
        ".plugin",
    ),
    CelRule(
        "!has(self.expression) || !has(self.args)",
        "args do not go with an expression, which reads spec.parameters",
        ".args",
    ),
)

PREDICATE = ObjectField(
    "One predicate, and what is different about it.",
    required=("name",),
    fields={
        "name": TextField(
            "The plugin's name as kube-scheduler knows it, for example NodeResourcesFit; or, with plugin or "
            "expression, a name of the entry's own, which events and status then show. A policy that is based "
            "on this one changes or drops the entry by its name.",
            min_length=1,
            max_length=PLUGIN_NAME_MAX_LENGTH,
        ),
        "plugin": TextField(
            "The plugin's name, where name is one of the entry's own: one more of this plugin, with other "
            "arguments, beside what the policy has of it. Example: {name: not-retiring, plugin: "
            "CheckNodeLabelPresence, args: {labels: [retiring], presence: false}}.",
            min_length=1,
            max_length=PLUGIN_NAME_MAX_LENGTH,
        ),
        "enabled": FlagField(
            "false leaves the predicate out: nodes that only it would refuse fit. true, the default, has it in.",
            default=True,
        ),
        "preFilterOnly": FlagField(
            "true keeps only what the plugin says before any node is looked at: it may refuse a pod as a whole "
            "or leave it only some nodes, and refuses no single node. A profile of kube-scheduler that switches "
            "a plugin off at filter alone means this. false, the default, has it whole.",
        ),
        "args": AnyField(
            "The plugin's arguments as filter, named as in kube-scheduler's pluginConfig, without apiVersion "
            "and kind. They replace those of the base as a whole. Example, for NodeResourcesFit: "
            "{ignoredResources: [example.com/fpga]}. Condition Accepted has the arguments that the plugin does "
            "not know, and the first of the others that it refuses.",
        ),
        "expression": TextField(
            "A rule of the policy's own instead of a plugin, in CEL (docs/expressions.md): true where the pod "
            "fits on the node. It reads pod, node and policy.parameters. It is compiled and checked when "
            "applied. If it fails on a node, the pod does not fit there, and status.errors counts it. A policy "
            "may have 16 of them, with those of priorities. Example: \"node.labels[?'tier'].orValue('') == "
            'policy.parameters.tier".',
            min_length=1,
            max_length=EXPRESSION_MAX_LENGTH,
        ),
        "message": TextField(
            'What is said of nodes that the expression refuses, as in "3 node(s) retire soon". Without it the '
            "message names the entry.",
            min_length=1,
            max_length=MESSAGE_MAX_LENGTH,
        ),
    },
    rules=(
        *EXPRESSION_RULES,
        CelRule(
            "!has(self.expression) || !has(self.preFilterOnly)",
            "preFilterOnly does not go with an expression",
            ".preFilterOnly",
        ),
    ),
)

PREDICATES = ListField(
    "What differs from the base in deciding which nodes a pod fits on. An entry that names a plugin of the base "
    "changes its arguments, or drops it with enabled: false; an entry with another plugin adds it; an entry "
    "with an expression is a rule of the policy's own. What is not named stays as it is. Names of Kubernetes "
    "1.9 to 1.17 work too (docs/compatibility.md). KubernetesDefault has, in this order: "
    f"{_DEFAULT_PREDICATES}. "
    "Example: [{name: NodePorts, enabled: false}, {name: not-retiring, expression: \"!('retiring' in "
    'node.labels)", message: node(s) retire soon}].',
    max_items=ENTRIES_MAX,
    keys=("name",),
    items=PREDICATE,
)

PREDICATE_ORDER = ListField(
    "Names of predicates that run first, in this order; the others follow in the order of Kubernetes, "
    "expressions last. The order does not change which nodes fit, only which reason a node is counted under "
    "that several refuse. A name that is not among the predicates of the policy is refused. Without it, the "
    "order of the base.",
    max_items=ENTRIES_MAX,
    items=TextField("The name of a predicate of this policy.", min_length=1, max_length=PLUGIN_NAME_MAX_LENGTH),
)

PRIORITY = ObjectField(
    "One priority, and what is different about it.",
    required=("name",),
    fields={
        "name": TextField(
            "The plugin's name as kube-scheduler knows it, for example NodeResourcesFit; or, with plugin or "
            "expression, a name of the entry's own. A policy that is based on this one changes or drops the "
            "entry by its name.",
            min_length=1,
            max_length=PLUGIN_NAME_MAX_LENGTH,
        ),
        "plugin": TextField(
            "The plugin's name, where name is one of the entry's own: one more of this plugin, with other "
            "arguments, beside what the policy has of it. Example: {name: rack-spread, plugin: "
            "ServiceAntiAffinity, weight: 2, args: {label: rack}}.",
            min_length=1,
            max_length=PLUGIN_NAME_MAX_LENGTH,
        ),
        "enabled": FlagField("false leaves the priority out. true, the default, has it in.", default=True),
        "weight": IntegerField(
            "What the points are multiplied with, from 1 to 2147483647 (kube-scheduler's own range). Without it "
            "the weight of the base holds, or else that of KubernetesDefault, or else 1 "
            "(NodePreferAvoidPodsPriority 10000). 0 is refused: to leave a priority out, write enabled: false.",
            minimum=1,
            maximum=WEIGHT_MAX,
        ),
        "args": AnyField(
            "The plugin's arguments as score plugin, named as in kube-scheduler's pluginConfig, without "
            "apiVersion and kind. They replace those of the base as a whole. Example, for NodeResourcesFit: "
            "{scoringStrategy: {type: MostAllocated}}. Condition Accepted has the arguments that the plugin "
            "does not know, and the first of the others that it refuses.",
        ),
        "expression": TextField(
            "A rule of the policy's own instead of a plugin, in CEL (docs/expressions.md): the node's points, "
            "an integer. It reads pod, node and policy.parameters. It is compiled and checked when applied. If "
            "it fails on a node, that gets 0 points, and status.errors counts it. A policy may have 16 of them, "
            "with those of predicates. Example: \"node.labels[?'spot'].orValue('') == 'true' ? 100 : 0\".",
            min_length=1,
            max_length=EXPRESSION_MAX_LENGTH,
        ),
        "normalize": FlagField(
            "What becomes of the points of an expression. false, the default: they are cut to 0 to 100 and "
            "taken as they are. true: the highest becomes 100 and the others their share of it; negative ones "
            "count as 0.",
        ),
    },
    rules=EXPRESSION_RULES,
)

PRIORITIES = ListField(
    "What differs from the base in choosing the best of the nodes that fit. Each plugin or expression gives "
    "each node 0 to 100 points, times its weight; the node with the highest sum is taken. An entry that names a "
    "plugin of the base changes its weight or arguments, or drops it with enabled: false; an entry with another "
    "plugin adds it; an entry with an expression gives points by a rule of the policy's own. What is not named "
    "stays as it is. Names of Kubernetes 1.9 to 1.17 work too (docs/compatibility.md). KubernetesDefault has, "
    "with weights: "
    f"{_DEFAULT_PRIORITIES}. "
    "Example, fill nodes before opening new ones: [{name: NodeResourcesFit, weight: 20, args: {scoringStrategy: "
    "{type: MostAllocated}}}].",
    max_items=ENTRIES_MAX,
    keys=("name",),
    items=PRIORITY,
)

PARAMETERS = AnyField(
    "Anything, for the expressions of the policy and of those that are based on it, which read it as "
    "policy.parameters. Laid over the parameters of the base key by key. Example: {tier: gold, hours: 8}.",
    max_properties=PARAMETERS_MAX,
)
