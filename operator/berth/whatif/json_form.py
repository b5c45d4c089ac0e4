"""A result as plain data, for JSON and YAML. Fields are only added from version to version, never renamed."""

from collections.abc import Mapping
from typing import Any, Final

from berth.explain import to_object
from berth.whatif.entries import Departure, Entry
from berth.whatif.result import Filled, Reason, Result, Spread, WorkloadResult
from berth.whatif.text import last_successor
from berth.whatif.usage import Amount, Usage, Use

VERSION: Final = "simulation.berth.dev/v1alpha1"


def as_data(result: Result) -> dict[str, Any]:
    entries = [entry for entry in result.entries if entry.departure is None]
    pending = sum(entry.is_pending for entry in entries)
    return {
        "apiVersion": VERSION,
        "kind": "Simulation",
        "source": result.source,
        "seed": result.seed,
        "steps": list(result.steps),
        "summary": {
            "fits": result.everything_fits,
            "pods": len(entries),
            "placed": len(entries) - pending,
            "pending": pending,
            "departed": len(result.departures),
            "lost": sum(each.lost for each in result.workloads),
            "blocked": len(result.blocked),
        },
        "workloads": [_workload(each) for each in result.workloads],
        "fill": None if result.filled is None else _filled(result.filled),
        "blocked": [{"pod": each.pod, "node": each.node, "message": each.message} for each in result.blocked],
        "utilisation": {"before": _usage(result.before), "after": _usage(result.after)},
        "notes": list(result.notes),
    }


def _workload(each: WorkloadResult) -> dict[str, Any]:
    kind, namespace, name = each.workload
    return {
        "kind": kind,
        "namespace": namespace,
        "name": name,
        "placed": each.placed,
        "pending": each.pending,
        "before": _spread(each.before),
        "after": _spread(each.after),
        "reasons": [_reason(reason) for reason in each.reasons],
        "pods": [_pod(entry) for entry in each.entries if entry.departure is None],
        "departed": [_departed(departure) for departure in each.departures],
    }


def _reason(reason: Reason) -> dict[str, Any]:
    explanation = None if reason.explanation is None else to_object(reason.explanation)
    return {"message": reason.message, "pods": list(reason.pods), "explanation": explanation}


def _pod(entry: Entry) -> dict[str, Any]:
    before = entry.predecessor
    return {
        "name": entry.pod.name,
        "priority": entry.pod.priority,
        "origin": entry.origin.value,
        "node": entry.node or None,
        "message": entry.message,
        "replaces": None if before is None else before.pod.name,
    }


def _departed(departure: Departure) -> dict[str, Any]:
    successor = last_successor(departure)
    return {
        "name": departure.pod.name,
        "node": departure.node,
        "cause": departure.cause.value,
        "by": departure.by or None,
        "lost": departure.is_loss,
        "successor": None if successor is None else successor.pod.name,
        "successorNode": (successor.node or None) if successor is not None else None,
    }


def _spread(spread: Spread) -> dict[str, Any]:
    return {"nodes": _sorted(spread.nodes), "zones": _sorted(spread.zones), "skew": spread.skew}


def _filled(filled: Filled) -> dict[str, Any]:
    kind, namespace, name = filled.workload
    found = {"kind": kind, "namespace": namespace, "name": name, "count": filled.count}
    return {**found, "placed": _spread(filled.spread), "message": filled.message}


def _usage(usage: Usage) -> dict[str, Any]:
    return {
        "total": _use(usage.total),
        "zones": {zone: _use(use) for zone, use in usage.zones.items()},
        "skew": {name: round(usage.skew(name), 4) for name in usage.total.resources},
    }


def _use(use: Use) -> dict[str, Any]:
    resources = {name: _amount(amount) for name, amount in use.resources.items()}
    return {"nodes": use.nodes, "pods": use.pods, "resources": resources}


def _amount(amount: Amount) -> dict[str, Any]:
    return {"requested": amount.requested, "allocatable": amount.allocatable, "share": round(amount.share, 4)}


def _sorted(counts: Mapping[str, int]) -> dict[str, int]:
    return dict(sorted(counts.items()))
