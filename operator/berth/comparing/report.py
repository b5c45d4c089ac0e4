"""A comparison as text for people, or as JSON. Pods of a workload that change alike are one row."""

from collections import Counter
from collections.abc import Hashable, Iterator, Sequence
from typing import Any

from berth.comparing.differences import Comparison, DecisionChange, Difference
from berth.comparing.outcomes import Outcome
from berth.policy.wording import count
from berth.whatif.tables import BOLD, GREEN, RED, YELLOW, Painter, aligned
from berth.whatif.wording import on_nodes

_COLOURS = {DecisionChange.LOST: RED, DecisionChange.GAINED: GREEN}
_MOST_REASONS = 3


def as_json(comparison: Comparison, first: str, second: str) -> dict[str, Any]:
    return {
        "a": first,
        "b": second,
        "compared": comparison.compared,
        "same": comparison.compared - len(comparison.differences),
        "workloads": list(_workloads(comparison)),
        "differences": [
            {
                "pod": difference.name,
                "change": difference.change.value,
                "a": _outcome_as_json(difference.first),
                "b": _outcome_as_json(difference.second),
            }
            for difference in comparison.differences
        ],
        "skipped": [{"pod": skipped.name, "message": skipped.message} for skipped in comparison.skipped],
    }


def as_text(comparison: Comparison, first: str, second: str, *, colours: bool) -> str:
    """A table with a row for each workload and change, the reasons of pods that wait below it, and a summary."""
    lines = _table(comparison.differences, first, second, Painter(colours)) if comparison.differences else []
    lines += [f"skipped {skipped.name}: {skipped.message}" for skipped in comparison.skipped]
    return "\n".join([*lines, *([""] if lines else []), _summary(comparison)]) + "\n"


def _workloads(comparison: Comparison) -> Iterator[dict[str, Any]]:
    for pods in _grouped(comparison.differences):
        if pods[0].workload is not None:
            found = {**pods[0].workload._asdict(), "change": pods[0].change.value, "pods": len(pods)}
            yield found | {side: dict(sorted(_nodes(pods, side).items())) for side in ("a", "b")}


def _outcome_as_json(outcome: Outcome) -> dict[str, Any]:
    return {
        "nodes": list(outcome.nodes),
        "top": [{"node": node, "score": score} for node, score in outcome.top],
        "message": outcome.message,
        "preemption": [{"node": node, "victims": list(victims)} for node, victims in outcome.room],
    }


# --- rows


def _grouped(differences: Sequence[Difference]) -> list[list[Difference]]:
    """Returns the differences by workload and change; those of cases, by all that is said of them."""
    groups: dict[Hashable, list[Difference]] = {}
    for difference in differences:
        said = difference.workload or (difference.first, difference.second)
        groups.setdefault((said, difference.change), []).append(difference)
    return list(groups.values())


def _table(differences: Sequence[Difference], first: str, second: str, paint: Painter) -> list[str]:
    groups = _grouped(differences)
    titles = ("NAMESPACE", "WORKLOAD") if groups[0][0].workload is not None else ("CASE",)
    rows = [
        (*_names(pods), str(len(pods)), pods[0].change.value, _cell(pods, "a"), _cell(pods, "b")) for pods in groups
    ]
    heads = (*titles, "PODS", "CHANGE", f"A: {first}", f"B: {second}")
    head, *lines = aligned([heads, *rows], frozenset({len(titles)}))
    shown = [paint(head, BOLD)]
    for pods, line in zip(groups, lines, strict=True):
        shown.append(paint(line, _COLOURS.get(pods[0].change, YELLOW)))
        shown += [f"  {text}" for text in _explanations(pods)]
    return shown


def _names(pods: Sequence[Difference]) -> tuple[str, ...]:
    workload = pods[0].workload
    if workload is not None:
        return workload.namespace, workload.label
    return (pods[0].name if len(pods) == 1 else f"{pods[0].name} and {len(pods) - 1} more",)


def _cell(pods: Sequence[Difference], side: str) -> str:
    """The choice and the one behind it for a single pod; for several, on how many nodes they are."""
    if len(pods) == 1:
        return _choice(_outcome(pods[0], side))
    nodes = _nodes(pods, side)
    return on_nodes(nodes) if nodes else "pending"


def _choice(outcome: Outcome) -> str:
    if not outcome.nodes:
        return "pending"
    scores = dict(outcome.top)
    chosen = outcome.nodes[0]
    others = f" or {len(outcome.nodes) - 1} more" if len(outcome.nodes) > 1 else ""
    if chosen not in scores:
        return chosen + others
    behind = [f"{node} {score}" for node, score in outcome.top if node not in outcome.nodes]
    return f"{chosen} {scores[chosen]}{others}" + (f", then {behind[0]}" if behind else "")


def _nodes(pods: Sequence[Difference], side: str) -> Counter[str]:
    return Counter(outcome.nodes[0] for outcome in (_outcome(pod, side) for pod in pods) if outcome.nodes)


def _outcome(difference: Difference, side: str) -> Outcome:
    return difference.first if side == "a" else difference.second


def _explanations(pods: Sequence[Difference]) -> Iterator[str]:
    """Why pods wait, each reason once, the most frequent first."""
    if pods[0].change is DecisionChange.MOVED:
        return
    for side in ("a", "b"):
        reasons = Counter(text for pod in pods if (text := _explain(_outcome(pod, side))))
        for text, times in reasons.most_common(_MOST_REASONS):
            yield f"{side.upper()}: {text}" + (f" ({count(times, 'pod')})" if len(pods) > 1 else "")
        if len(reasons) > _MOST_REASONS:
            yield f"{side.upper()}: and {count(len(reasons) - _MOST_REASONS, 'more reason')}; -o json has all"


def _explain(outcome: Outcome) -> str:
    if not outcome.room:
        return outcome.message
    node, victims = outcome.room[0]
    return f"{outcome.message} Preemption makes room on {node}: {', '.join(victims)}."


def _summary(comparison: Comparison) -> str:
    if not comparison.compared:
        return "nothing to compare: no pod is in question"
    counts = comparison.counts()
    if not counts:
        return f"no decision changes, of {count(comparison.compared, 'pod')}"
    found = ", ".join(f"{counts[change]} {change.value}" for change in DecisionChange if counts[change])
    return f"{len(comparison.differences):,} of {count(comparison.compared, 'pod')} decided otherwise: {found}"
