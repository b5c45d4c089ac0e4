"""The schemas of the kinds: what `kubectl explain why.status` shows, and what docs/explain-api.md lists."""

from typing import Any, Final

from berth.explain_api.resources import CLUSTER_VIEWS, DECISIONS, EXPLANATIONS, NODE_VIEWS, ApiResource

Schema = dict[str, Any]


def _text(text: str) -> Schema:
    return {"type": "string", "description": text}


def _time(text: str) -> Schema:
    return {"type": "string", "format": "date-time", "description": text}


def _number(text: str) -> Schema:
    return {"type": "integer", "format": "int64", "description": text}


def _real(text: str) -> Schema:
    return {"type": "number", "format": "double", "description": text}


def _flag(text: str) -> Schema:
    return {"type": "boolean", "description": text}


def _object(text: str, **fields: Schema) -> Schema:
    return {"type": "object", "description": text, "properties": fields}


def _list(text: str, **fields: Schema) -> Schema:
    return {"type": "array", "description": text, "items": {"type": "object", "properties": fields}}


def _texts(text: str) -> Schema:
    return {"type": "array", "description": text, "items": {"type": "string"}}


_POLICY: Final = _object(
    "The SchedulingPolicy that decides.",
    name=_text("Its name."),
    generation=_number("Its generation."),
)
_RESOURCES: Final = _list(
    "Room by resource.",
    name=_text("The resource."),
    allocatable=_text("What there is for pods."),
    requested=_text("What pods with a node request, assumed ones included."),
    free=_text("What is left; not below zero."),
    percent=_number("Requested of allocatable, in percent."),
)
_LEADS: Final = _flag("Whether the replica that answers leads. Only a leader decides and counts attempts.")
_PLUGINS: Final = _list(
    "What each plugin says.",
    plugin=_text("The plugin."),
    status=_text("Its verdict, as kube-scheduler names it."),
    codes=_texts("The reasons as codes."),
    messages=_texts("The reasons as kube-scheduler says them."),
)
_SCORED: Final = {
    "nodeName": _text("The node."),
    "total": _number("Its score."),
    "scores": _list(
        "The score by plugin.",
        plugin=_text("The plugin."),
        weight=_number("Its weight."),
        score=_number("Its score, 0 to 100."),
        points=_number("What it adds to the total."),
    ),
}

_EXPLANATION: Final = _object(
    "What is known of the pod.",
    state=_text("What the pod is waiting for, if anything: Pending, Unschedulable, Backoff, Gated, Bound and so on."),
    message=_text("The state in a sentence."),
    schedulerName=_text("The pod's spec.schedulerName."),
    priority=_number("The pod's priority."),
    reason=_text("The code of the reason that rejects most nodes; docs/reasons.md has them all."),
    since=_time("Since when the pod has been in this state."),
    policy=_POLICY,
    attempts=_number("How often it was tried."),
    placeInQueue=_number("How many pods are tried before it, and itself."),
    nextTry=_time("When it is tried next at the latest."),
    nodeName=_text("The node that it is on."),
    nominatedNodeName=_text("The node where room is being made for it."),
    didYouMean=_text("A scheduler name that is served and nearly the same."),
    waitsFor=_texts("The gates, plugins or claims that it waits for."),
    nodes=_number("How many nodes there are."),
    schedulerMessage=_text("The sentence of the FailedScheduling event."),
    reasons=_list(
        "The reasons for which nodes are rejected.",
        code=_text("The reason as a code."),
        plugin=_text("The plugin that rejects."),
        message=_text("The reason as kube-scheduler says it."),
        nodes=_number("How many nodes it is counted for."),
        nodesRejectedByNothingElse=_number("How many nodes no other plugin rejects."),
        help=_text("What helps against it in general."),
        nearestMisses=_list(
            "The nodes that come closest.",
            node=_text("The node."),
            message=_text("What it lacks."),
            resource=_text("The resource that it lacks."),
            requested=_text("What the pod requests."),
            free=_text("What is free."),
            lacking=_text("The difference."),
        ),
    ),
    prospect=_object(
        "Whether the pod could ever be scheduled.",
        outlook=_text("Fits, NotNow, or Never: on no node, even if all were empty."),
        message=_text("The same in a sentence."),
        nodes=_number("How many nodes would take it if pods left."),
        examples=_texts("Some of them, each tried."),
    ),
    preemption=_object(
        "Whether preemption helps.",
        code=_text("Why it helps, or does not."),
        helps=_flag("Whether it helps."),
        message=_text("The same in a sentence."),
        nodeName=_text("On which node."),
        victims=_texts("The pods that would be preempted."),
        budgetViolations=_number("How many of them a disruption budget protects."),
    ),
    advice=_list(
        "Changes after which the pod fits, each tried.",
        code=_text("What kind of change it is."),
        kind=_text("The kind of the object to change."),
        name=_text("Its name."),
        message=_text("The change in a sentence."),
        changes=_list(
            "The change, field by field.", field=_text("The field."), before=_text("Now."), after=_text("Then.")
        ),
        nodeName=_text("A node that fits then."),
        nodes=_number("How many nodes fit then."),
        victims=_texts("The pods that would be preempted."),
    ),
    retriedOn=_texts("The events that bring the pod back."),
    choice=_object(
        "Why the pod is on its node.",
        nodeName=_text("The node."),
        evidence=_text("Recorded at the decision, or JudgedAgain now."),
        message=_text("The same in a sentence."),
        evaluated=_number("How many nodes were looked at."),
        feasible=_number("How many of them fitted."),
        chosen=_object("The node's score.", **_SCORED),
        others=_list("The best of the other nodes.", **_SCORED),
    ),
    verdicts=_list(
        "Every plugin's verdict, for the nodes that the query names (?node=NAME, or ?node=* for all).",
        nodeName=_text("The node."),
        fits=_flag("Whether all plugins accept it."),
        plugins=_PLUGINS,
    ),
    notes=_texts("What was left out."),
    leads=_LEADS,
)
_NODE_VIEW: Final = _object(
    "What the scheduler knows of the node.",
    zone=_text("The zone, by label topology.kubernetes.io/zone."),
    unschedulable=_flag("Whether the node is cordoned."),
    taints=_texts("The taints, as key=value:effect."),
    resources=_RESOURCES,
    podCount=_number("How many pods it has, assumed ones included."),
    assumedPods=_number("How many of them are assumed: placed by this replica and not shown by the watch yet."),
    pods=_list(
        "Pods by the policy that decides for their scheduler name.",
        policy=_text("The SchedulingPolicy; the scheduler name in brackets if it is not one of ours."),
        count=_number("How many."),
    ),
    nominatedPods=_texts("Pods for which room is being made here, as namespace/name."),
    rejects=_list(
        "Pods that are pending now and that this node rejects; the latest that were tried.",
        pod=_text("The pod, as namespace/name."),
        plugin=_text("The first plugin that rejects it."),
        code=_text("The reason as a code."),
        message=_text("The reason as kube-scheduler says it."),
    ),
    leads=_LEADS,
)
_CLUSTER_VIEW: Final = _object(
    "What the scheduler knows of the cluster.",
    replica=_text("The replica that answers."),
    leads=_LEADS,
    healthy=_flag("Whether the replica is ready: its cache is synced, and it decides or stands by."),
    problems=_texts("Why it is not."),
    nodes=_number("How many nodes there are."),
    unschedulableNodes=_number("How many of them are cordoned."),
    pods=_number("How many pods have a node."),
    assumedPods=_number("How many of them are assumed."),
    pending=_number("How many pods of served scheduler names have none."),
    resources=_RESOURCES,
    zones=_list(
        "Room by zone.",
        zone=_text("The zone; empty for nodes without one."),
        nodes=_number("How many nodes it has."),
        resources=_RESOURCES,
    ),
    queue=_list("Pending pods by state.", state=_text("The state."), pods=_number("How many.")),
    reasons=_list(
        "Pending pods by the reason of their last attempt.", reason=_text("The reason."), pods=_number("How many.")
    ),
    rates=_object(
        "What happened in the last minute, or as far back as decisions are remembered.",
        seconds=_real("How long that is."),
        decisionsPerSecond=_real("Placements a second."),
        medianWaitSeconds=_real("How long pods waited, from the first time that they were queued to the decision."),
    ),
    attempts=_list("Attempts since the start, by result.", result=_text("The result."), count=_number("How many.")),
    policies=_list(
        "All policies.",
        name=_text("The policy."),
        generation=_number("Its latest generation."),
        activeGeneration=_number("The generation that is in force; 0 for none, and for the built-in policy."),
        schedulerName=_text("The scheduler name that it serves."),
        mode=_text("Active, Shadow or Disabled."),
        state=_text("The reason of its condition Active: InForce, LastGoodInForce, Superseded, Shadow and so on."),
        problem=_text("Why the latest generation is refused, or what fails. Absent if all is well."),
        placed=_number("How many pods it has placed."),
        pending=_number("How many of its pods are pending."),
        shadow=_object(
            "What a policy in Shadow mode would have done, by outcome.",
            same=_number("The same."),
            different=_number("Another node."),
            unplaced=_number("No node."),
            gained=_number("A node where the active policy found none."),
            skipped=_number("Not looked at."),
        ),
    ),
)
_DECISION: Final = _object(
    "What was decided.",
    podName=_text("The pod."),
    podUID=_text("Its UID."),
    nodeName=_text("Where it was placed."),
    schedulerName=_text("The pod's spec.schedulerName."),
    policy=_POLICY,
    time=_time("When it was decided."),
    nodesEvaluated=_number("How many nodes were looked at."),
    nodesFeasible=_number("How many of them fitted."),
    total=_number("The score of the node. Absent if no nodes were scored, because a single one fitted."),
    runnerUpNodeName=_text("The next best node."),
    runnerUpTotal=_number("Its score."),
    waitedSeconds=_real("From the first time that the pod was queued to the decision."),
    attempts=_number("How often it was tried."),
)

STATUS: Final[dict[str, Schema]] = {
    EXPLANATIONS.plural: _EXPLANATION,
    NODE_VIEWS.plural: _NODE_VIEW,
    CLUSTER_VIEWS.plural: _CLUSTER_VIEW,
    DECISIONS.plural: _DECISION,
}


def schema_of(resource: ApiResource, metadata: Schema) -> Schema:
    """Returns the schema of a kind; `metadata` is that of its metadata."""
    fields = {
        "apiVersion": _text("The group and version."),
        "kind": _text("The kind."),
        "metadata": metadata,
        "status": STATUS[resource.plural],
    }
    return {"type": "object", "description": resource.text, "properties": fields}
