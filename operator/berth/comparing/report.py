"""A comparison as text for people, or as JSON."""

from collections.abc import Sequence
from typing import Any

from berth.comparing.differences import Comparison, DecisionChange, Difference
from berth.comparing.outcomes import Outcome

RED, GREEN, YELLOW, BOLD, PLAIN = "\033[31m", "\033[32m", "\033[33m", "\033[1m", "\033[0m"
_COLOURS = {DecisionChange.LOST: RED, DecisionChange.GAINED: GREEN}
_LONGEST_CELL = 60


def as_json(comparison: Comparison, first: str, second: str) -> dict[str, Any]:
    return {
        "a": first,
        "b": second,
        "compared": comparison.compared,
        "same": comparison.compared - len(comparison.differences),
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
    """A table with a row for each difference, what there is to say of pods that wait below it, and a summary."""
    lines = _table(comparison.differences, first, second, colours) if comparison.differences else []
    lines += [f"skipped {skipped.name}: {skipped.message}" for skipped in comparison.skipped]
    return "\n".join([*lines, *([""] if lines else []), _summary(comparison)]) + "\n"


def _outcome_as_json(outcome: Outcome) -> dict[str, Any]:
    return {
        "nodes": list(outcome.nodes),
        "top": [{"node": node, "score": score} for node, score in outcome.top],
        "message": outcome.message,
        "preemption": [{"node": node, "victims": list(victims)} for node, victims in outcome.room],
    }


def _table(differences: Sequence[Difference], first: str, second: str, colours: bool) -> list[str]:
    rows = [(d.name, d.change.value, _cell(d.first), _cell(d.second)) for d in differences]
    heads = ("POD", "CHANGE", f"A: {first}", f"B: {second}")
    widths = [min(max(map(len, column)), _LONGEST_CELL) for column in zip(heads, *rows, strict=True)]

    def line(cells: Sequence[str]) -> str:
        return "  ".join(cell.ljust(width) for cell, width in zip(cells, widths, strict=True)).rstrip()

    lines = [_coloured(line(heads), BOLD, colours)]
    for difference, row in zip(differences, rows, strict=True):
        lines.append(_coloured(line(row), _COLOURS.get(difference.change, YELLOW), colours))
        lines += [f"  {text}" for text in _explanations(difference)]
    return lines


def _cell(outcome: Outcome) -> str:
    if not outcome.nodes:
        return "pending"
    scores = dict(outcome.top)
    chosen = outcome.nodes[0]
    others = f" or {len(outcome.nodes) - 1} more" if len(outcome.nodes) > 1 else ""
    if chosen not in scores:
        return chosen + others
    behind = [f"{node} {score}" for node, score in outcome.top if node not in outcome.nodes]
    return f"{chosen} {scores[chosen]}{others}" + (f", then {behind[0]}" if behind else "")


def _explanations(difference: Difference) -> list[str]:
    if difference.change is DecisionChange.MOVED:
        return []
    said = {name: _explain(outcome) for name, outcome in (("A", difference.first), ("B", difference.second))}
    return [f"{name}: {text}" for name, text in said.items() if text]


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
        return f"no decision changes, of {_pods(comparison.compared)}"
    found = ", ".join(f"{counts[change]} {change.value}" for change in DecisionChange if counts[change])
    return f"{len(comparison.differences):,} of {_pods(comparison.compared)} decided otherwise: {found}"


def _pods(count: int) -> str:
    return f"{count:,} pod{'' if count == 1 else 's'}"


def _coloured(text: str, colour: str, colours: bool) -> str:
    return f"{colour}{text}{PLAIN}" if colours else text
