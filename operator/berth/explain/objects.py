"""Explanations as API objects of the group explain.berth.dev: plain dicts with Kubernetes' field names.

A field that has nothing to say is left out.
"""

from typing import Any, Final

from berth.explain.quantities import quantity
from berth.explain.reasons import KIND_OF
from berth.explain.records import (
    Advice,
    Choice,
    Explanation,
    NearMiss,
    NodeComparison,
    NodeSide,
    NodeVerdict,
    PluginVerdict,
    PreemptionNote,
    Prospect,
    Reason,
    ScoredNode,
)

API_VERSION: Final = "explain.berth.dev/v1alpha1"
KIND: Final = "Explanation"

Json = dict[str, Any]


def to_object(explanation: Explanation) -> Json:
    """Returns the API body of the explanation."""
    metadata = {
        "name": explanation.name,
        "namespace": explanation.namespace,
        **_some(
            uid=explanation.uid, creationTimestamp=explanation.created or None, labels=dict(explanation.labels) or None
        ),
    }
    return {"apiVersion": API_VERSION, "kind": KIND, "metadata": metadata, "status": _status(explanation)}


def _status(explanation: Explanation) -> Json:
    policy, dominant = explanation.policy, explanation.dominant
    return {
        "state": explanation.state.value,
        "message": explanation.message,
        "schedulerName": explanation.scheduler_name,
        "priority": explanation.priority,
        **_some(
            reason=dominant and dominant.code,
            since=explanation.since,
            policy=policy and {"name": policy.name, "generation": policy.generation},
            attempts=explanation.attempts,
            placeInQueue=explanation.place_in_queue,
            nextTry=explanation.next_try,
            nodeName=explanation.node,
            nominatedNodeName=explanation.nominated_node,
            didYouMean=explanation.did_you_mean,
            waitsFor=list(explanation.waits_for),
            nodes=explanation.nodes or None,
            schedulerMessage=explanation.scheduler_message,
            reasons=[_reason(reason) for reason in explanation.reasons],
            prospect=explanation.prospect and _prospect(explanation.prospect),
            preemption=explanation.preemption and _preemption(explanation.preemption),
            advice=[_advice(advice) for advice in explanation.advice],
            retriedOn=list(explanation.retried_on),
            choice=explanation.choice and _choice(explanation.choice),
            verdicts=[verdict_object(verdict) for verdict in explanation.verdicts],
            notes=list(explanation.notes),
        ),
    }


def _reason(reason: Reason) -> Json:
    return {
        "code": reason.code,
        "plugin": reason.plugin,
        "message": reason.message,
        "nodes": reason.nodes,
        "nodesRejectedByNothingElse": reason.alone,
        "help": KIND_OF[reason.code].helps,
        **_some(nearestMisses=[_near_miss(miss) for miss in reason.nearest]),
    }


def _near_miss(miss: NearMiss) -> Json:
    said: Json = {"node": miss.node, "message": miss.detail}
    if not miss.resource:
        return said
    amounts = {"requested": miss.requested, "free": miss.free, "lacking": miss.lacking}
    texts = {name: quantity(miss.resource, amount) for name, amount in amounts.items()}
    return {**said, "resource": miss.resource, **texts}


def _prospect(prospect: Prospect) -> Json:
    return {
        "outlook": prospect.outlook.value,
        "message": prospect.message,
        **_some(nodes=prospect.nodes or None, examples=list(prospect.examples)),
    }


def _preemption(note: PreemptionNote) -> Json:
    return {
        "code": note.code.value,
        "helps": note.code == "Helps",
        "message": note.message,
        **_some(nodeName=note.node, victims=list(note.victims), budgetViolations=note.violations or None),
    }


def _advice(advice: Advice) -> Json:
    return {
        "code": advice.code,
        "kind": advice.kind,
        "name": advice.name,
        "message": advice.sentence,
        "changes": [
            {"field": change.field, **_some(before=change.before, after=change.after)} for change in advice.changes
        ],
        "nodeName": advice.node,
        "nodes": advice.nodes,
        **_some(victims=list(advice.victims)),
    }


def _choice(choice: Choice) -> Json:
    return {
        "nodeName": choice.node,
        "evidence": choice.evidence.value,
        "message": choice.message,
        **_some(
            evaluated=choice.evaluated or None,
            feasible=choice.feasible or None,
            chosen=choice.chosen and _scored(choice.chosen),
            others=[_scored(other) for other in choice.others],
        ),
    }


def _scored(scored: ScoredNode) -> Json:
    scores = [{"plugin": s.plugin, "weight": s.weight, "score": s.score, "points": s.points} for s in scored.scores]
    return {"nodeName": scored.node, "total": scored.total, **_some(scores=scores)}


def verdict_object(verdict: NodeVerdict) -> Json:
    """Returns what all plugins say of one node."""
    return {
        "nodeName": verdict.node,
        "fits": verdict.fits,
        "plugins": [_plugin_verdict(said) for said in verdict.plugins],
    }


def _plugin_verdict(said: PluginVerdict) -> Json:
    return {"plugin": said.plugin, "status": said.status} | _some(codes=list(said.codes), messages=list(said.messages))


def comparison_object(comparison: NodeComparison) -> Json:
    """Returns the body of a comparison of two nodes."""
    policy = {"name": comparison.policy.name, "generation": comparison.policy.generation}
    plugins = [
        {"plugin": p.plugin, "weight": p.weight, "scores": list(p.scores), "difference": p.difference}
        for p in comparison.plugins
    ]
    return {
        "apiVersion": API_VERSION,
        "kind": "NodeComparison",
        "metadata": {"name": comparison.name, "namespace": comparison.namespace},
        "status": {
            "message": comparison.message,
            "policy": policy,
            "nodes": [_side(side) for side in (comparison.first, comparison.second)],
            "plugins": plugins,
        },
    }


def _side(side: NodeSide) -> Json:
    refusals = [_plugin_verdict(refusal) for refusal in side.refusals]
    return {"nodeName": side.node, "fits": side.fits, **_some(total=side.total, refusals=refusals)}


def _some(**fields: Any) -> Json:
    """Returns the fields that have something to say: neither None nor an empty text or list."""
    return {name: value for name, value in fields.items() if value is not None and value not in ("", [])}
