"""Explanations from API objects: what `to_object` made, read again by those who ask the API."""

from collections.abc import Mapping, Sequence
from typing import Any

from berth.explain.records import (
    Advice,
    Choice,
    Evidence,
    Explanation,
    FieldChange,
    NearMiss,
    NodeVerdict,
    Outlook,
    PluginScore,
    PluginVerdict,
    PodState,
    PolicyReference,
    PreemptionCode,
    PreemptionNote,
    Prospect,
    Reason,
    ScoredNode,
)
from berth.model import parse_quantity, to_milli, to_value

Body = Mapping[str, Any]


def from_object(body: Body) -> Explanation:
    """Returns the explanation of an API object; raises KeyError, TypeError or ValueError if it is none."""
    metadata, status = body["metadata"], body["status"]
    policy = status.get("policy")
    return Explanation(
        name=metadata["name"],
        namespace=metadata["namespace"],
        uid=metadata.get("uid", ""),
        created=metadata.get("creationTimestamp", ""),
        labels=metadata.get("labels", {}),
        scheduler_name=status["schedulerName"],
        priority=status["priority"],
        state=PodState(status["state"]),
        message=status["message"],
        since=status.get("since", ""),
        policy=None if policy is None else PolicyReference(policy["name"], policy["generation"]),
        attempts=status.get("attempts"),
        place_in_queue=status.get("placeInQueue"),
        next_try=status.get("nextTry", ""),
        node=status.get("nodeName", ""),
        nominated_node=status.get("nominatedNodeName", ""),
        did_you_mean=status.get("didYouMean", ""),
        waits_for=_texts(status, "waitsFor"),
        nodes=status.get("nodes", 0),
        scheduler_message=status.get("schedulerMessage", ""),
        reasons=tuple(map(_reason, status.get("reasons", ()))),
        prospect=_prospect(status["prospect"]) if "prospect" in status else None,
        preemption=_preemption(status["preemption"]) if "preemption" in status else None,
        advice=tuple(map(_advice, status.get("advice", ()))),
        retried_on=_texts(status, "retriedOn"),
        choice=_choice(status["choice"]) if "choice" in status else None,
        verdicts=tuple(map(_verdict, status.get("verdicts", ()))),
        notes=_texts(status, "notes"),
    )


def _texts(body: Body, name: str) -> tuple[str, ...]:
    found: Sequence[str] = body.get(name, ())
    return tuple(found)


def _reason(body: Body) -> Reason:
    near = tuple(map(_near_miss, body.get("nearestMisses", ())))
    alone = body.get("nodesRejectedByNothingElse", 0)
    return Reason(body["code"], body["plugin"], body["message"], body["nodes"], alone, near)


def _near_miss(body: Body) -> NearMiss:
    resource = body.get("resource", "")
    if not resource:
        return NearMiss(body["node"], body["message"])
    requested, free = (_amount(resource, body[name]) for name in ("requested", "free"))
    return NearMiss(body["node"], body["message"], resource, requested, free)


def _amount(resource: str, text: str) -> int:
    nanos = parse_quantity(text)
    return to_milli(nanos) if resource == "cpu" else to_value(nanos)


def _prospect(body: Body) -> Prospect:
    return Prospect(Outlook(body["outlook"]), body["message"], body.get("nodes", 0), _texts(body, "examples"))


def _preemption(body: Body) -> PreemptionNote:
    code, victims = PreemptionCode(body["code"]), _texts(body, "victims")
    return PreemptionNote(code, body["message"], body.get("nodeName", ""), victims, body.get("budgetViolations", 0))


def _advice(body: Body) -> Advice:
    changes = tuple(FieldChange(c["field"], c.get("before", ""), c.get("after", "")) for c in body["changes"])
    names = body["code"], body["kind"], body["name"], body["message"]
    return Advice(*names, changes, body["nodeName"], body["nodes"], _texts(body, "victims"))


def _choice(body: Body) -> Choice:
    return Choice(
        body["nodeName"],
        Evidence(body["evidence"]),
        body["message"],
        _scored(body["chosen"]) if "chosen" in body else None,
        tuple(map(_scored, body.get("others", ()))),
        body.get("evaluated", 0),
        body.get("feasible", 0),
    )


def _scored(body: Body) -> ScoredNode:
    scores = (PluginScore(score["plugin"], score["weight"], score["score"]) for score in body.get("scores", ()))
    return ScoredNode(body["nodeName"], body["total"], tuple(scores))


def _verdict(body: Body) -> NodeVerdict:
    plugins = (
        PluginVerdict(said["plugin"], said["status"], _texts(said, "codes"), _texts(said, "messages"))
        for said in body["plugins"]
    )
    return NodeVerdict(body["nodeName"], body["fits"], tuple(plugins))
