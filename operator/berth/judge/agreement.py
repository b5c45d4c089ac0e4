"""What a verdict must share with the oracle's to agree with it.

Equal must be: the plugins that stop a pod before any node is looked at, and with what; every plugin's code and reasons
on every node; the feasible nodes; every plugin's score on every feasible node (left out means 0); the totals and the
best nodes; the preemption candidates with their victims. A node selected for preemption must be one that the oracle can
select.
"""

from collections.abc import Callable, Iterator
from typing import Any

Verdict = dict[str, Any]


def differences(want: Verdict, got: Verdict) -> Iterator[str]:
    if "error" in got:
        yield f"error: {got['error']}"
        return
    for name, view in VIEWS.items():
        if view(want) != view(got):
            yield f"{name}: the oracle says {view(want)}, Berth says {view(got)}"
    allowed, chosen = _selected(want), _selected(got)
    if bool(allowed) != bool(chosen) or not chosen <= allowed:
        yield f"selected: the oracle says {sorted(allowed)}, Berth says {sorted(chosen)}"


def _answer(answer: Verdict) -> tuple[str, list[str]]:
    return answer["code"], sorted(answer.get("reasons") or [])


def _stops(verdict: Verdict) -> object:
    found = (verdict.get("preFilter") or {}).items()
    return {plugin: _answer(a) for plugin, a in found if a["code"] not in ("Success", "Skip")}


def _refusals(verdict: Verdict) -> object:
    found = (verdict.get("filter") or {}).items()
    return {plugin: {node: _answer(a) for node, a in nodes.items()} for plugin, nodes in found if nodes}


def _scores(verdict: Verdict) -> object:
    return {plugin: nodes for plugin, nodes in (verdict.get("score") or {}).items() if any(nodes.values())}


def _victims(verdict: Verdict) -> object:
    found = (verdict.get("preemption") or {}).get("candidates") or {}
    return {node: (sorted(c["victims"]), c.get("pdbViolations", 0)) for node, c in found.items()}


def _selected(verdict: Verdict) -> set[str]:
    return set((verdict.get("preemption") or {}).get("selected") or [])


VIEWS: dict[str, Callable[[Verdict], object]] = {
    "preFilter": _stops,
    "filter": _refusals,
    "feasible": lambda verdict: sorted(verdict.get("feasible") or []),
    "score": _scores,
    "total": lambda verdict: verdict.get("total") or {},
    "best": lambda verdict: sorted(verdict.get("best") or []),
    "candidates": _victims,
}
