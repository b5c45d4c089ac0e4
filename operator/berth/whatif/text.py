"""A result as text for people: a row for each workload, what happened to its pods below it, and the use of nodes."""

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Final

from berth.explain.records import Explanation, Outlook
from berth.policy.wording import count, list_names
from berth.whatif.entries import Cause, Departure, Entry, Origin
from berth.whatif.result import Filled, Result, WorkloadResult
from berth.whatif.tables import BOLD, FAINT, GREEN, RED, YELLOW, Painter, aligned
from berth.whatif.usage import Usage, Use
from berth.whatif.wording import by_node, by_zone, change, on_nodes, percent
from berth.whatif.workloads import NO_ZONE

HEADS: Final = ("NAMESPACE", "WORKLOAD", "PODS", "PLACED", "PENDING", "ZONES", "NODES", "SKEW")
NUMBERS: Final = frozenset({2, 3, 4})
INDENT: Final = "  "
SHOWN_RESOURCES: Final = 6
NOTHING: Final = Use(0, 0, {})


def as_text(result: Result, *, wide: bool = False, colours: bool = False) -> str:
    """Returns the report; `wide` has every node, and the names of all pods that stay pending or leave."""
    paint = Painter(colours)
    parts = [
        list(result.steps),
        _workloads(result, wide, paint),
        _filled(result.filled, wide),
        _blocked(result, wide, paint),
        _usage(result, paint),
        [paint(f"note: {note}", FAINT) for note in result.notes],
    ]
    blocks = ["\n".join(lines) for lines in parts if lines]
    colour = GREEN if result.everything_fits else YELLOW
    return "\n\n".join([*blocks, paint(summary(result), colour)]) + "\n"


def as_names(result: Result) -> str:
    """Returns the workloads of the table, as `kubectl get -o name` names them."""
    return "".join(f"{each.workload.resource_name}\n" for each in result.workloads)


# --- workloads --------------------------------------------------------------------------------------------------------


def _workloads(result: Result, wide: bool, paint: Painter) -> list[str]:
    if not result.workloads:
        return []
    table = aligned([HEADS, *map(_row, result.workloads)], NUMBERS)
    lines = [paint(table[0], BOLD)]
    for line, each in zip(table[1:], result.workloads, strict=True):
        lines.append(paint(line, RED if each.pending else ""))
        lines += [f"{INDENT}{text}" for text in _details(each, wide)]
    return lines


def _row(each: WorkloadResult) -> tuple[str, ...]:
    return (
        each.workload.namespace,
        each.workload.label,
        str(len([entry for entry in each.entries if entry.departure is None])),
        str(each.placed),
        str(each.pending),
        by_zone(each.after.zones) or "-",
        by_node(each.after.nodes) if each.after.nodes else "-",
        change(str(each.before.skew), str(each.after.skew)),
    )


def _details(each: WorkloadResult, wide: bool) -> Iterator[str]:
    for reason in each.reasons:
        names = list_names(reason.pods, len(reason.pods) if wide else 1)
        yield f"{len(reason.pods)} pending ({names}): {reason.message}"
        yield from (f"{INDENT}{line}" for line in explanation_lines(reason.explanation, wide))
    yield from departure_lines(each, wide)
    if wide:
        yield from _nodes(each)


def explanation_lines(explanation: Explanation | None, wide: bool) -> Iterator[str]:
    """Yields what comes closest, and what would help; `wide` has all of it."""
    if explanation is None:
        return
    shown = None if wide else 1
    misses = [miss for reason in explanation.reasons for miss in reason.nearest]
    yield from (f"nearest: {miss.node} {miss.detail}" for miss in misses[:shown])
    if explanation.did_you_mean:
        yield explanation.message
    if explanation.prospect is not None and (wide or explanation.prospect.outlook is Outlook.NEVER):
        yield explanation.prospect.message
    yield from (f"would help: {advice.sentence}" for advice in explanation.advice[:shown])


def departure_lines(each: WorkloadResult, wide: bool) -> Iterator[str]:
    """Yields what became of the pods that left their nodes, a line for each cause."""
    for cause in Cause:
        left = [departure for departure in each.departures if departure.cause is cause]
        if left:
            yield _departed(cause, left, wide)


def _departed(cause: Cause, left: Sequence[Departure], wide: bool) -> str:
    """`3 drained (web-1 and 2 more): 2 placed again, 1 pending`"""
    names = [departure.pod.name for departure in left]
    text = f"{cause.in_words(len(left))} ({list_names(names, len(names) if wide else 1)})"
    if cause is Cause.PREEMPTED:
        by = list(dict.fromkeys(departure.by for departure in left))
        text += f" by {list_names(by, len(by) if wide else 1)}"
    what = Counter(_fate(departure) for departure in left)
    fates = ", ".join(f"{number} {fate}" for fate, number in what.items() if fate)
    return f"{text}: {fates}" if fates else text


def _fate(departure: Departure) -> str:
    """Returns what became of the pod in the end, through all its successors."""
    if departure.is_loss:
        return "lost, because it has no controller"
    successor = last_successor(departure)
    if successor is None:
        return ""
    return "placed again" if successor.node else "pending"


def last_successor(departure: Departure) -> Entry | None:
    """Returns the pod that stands for the one that left; a successor may have had to leave, too."""
    entry = departure.successor
    while entry is not None and entry.departure is not None:
        entry = entry.departure.successor
    return entry


def _nodes(each: WorkloadResult) -> Iterator[str]:
    counts = Counter(entry.node for entry in each.entries if entry.node)
    shown = ", ".join(f"{node} {number}" if number > 1 else node for node, number in sorted(counts.items()))
    if shown:
        yield f"on {shown}"


# --- the rest ---------------------------------------------------------------------------------------------------------


def _filled(filled: Filled | None, wide: bool) -> list[str]:
    if filled is None:
        return []
    zones = by_zone(filled.spread.zones)
    lines = [f"{filled.count:,} more of {filled.workload.label} fit" + (f": {zones}" if zones and filled.count else "")]
    if filled.count:
        lines.append(f"{INDENT}on {on_nodes(filled.spread.nodes)}")
    if wide:
        nodes = ", ".join(f"{node} {number}" for node, number in sorted(filled.spread.nodes.items()))
        lines.append(f"{INDENT}on {nodes}")
    lines.append(f"{INDENT}then: {filled.message}" if filled.message else f"{INDENT}and there is room for more")
    return lines


def _blocked(result: Result, wide: bool, paint: Painter) -> list[str]:
    by_message: dict[tuple[str, str], list[str]] = {}
    for blocked in result.blocked:
        by_message.setdefault((blocked.node, blocked.message), []).append(blocked.pod)
    return [
        paint(
            f"the drain of {node} is blocked: {count(len(pods), 'pod')} "
            f"({list_names(pods, len(pods) if wide else 1)}): {message}",
            RED,
        )
        for (node, message), pods in by_message.items()
    ]


def _usage(result: Result, paint: Painter) -> list[str]:
    head, *lines = aligned(usage_rows(result))
    return [paint(head, BOLD), *lines]


def usage_rows(result: Result) -> list[tuple[str, ...]]:
    """Returns a head, and the use of each zone before and after."""
    before, after = result.before, result.after
    names = list(dict.fromkeys([*before.total.resources, *after.total.resources]))
    names = [name for name in names if name in ("cpu", "memory") or _is_used(name, before, after)][:SHOWN_RESOURCES]
    zones = sorted({*before.zones, *after.zones})
    rows: list[tuple[str, ...]] = [("ZONE", "NODES", "PODS", *(name.upper() for name in names))]
    if set(zones) != {NO_ZONE}:
        rows += [(zone, *_use(before.zones.get(zone), after.zones.get(zone), names)) for zone in zones]
        rows.append(("skew", "", "", *(_skew(before, after, name) for name in names)))
    return [*rows, ("all", *_use(before.total, after.total, names))]


def _use(before: Use | None, after: Use | None, names: Sequence[str]) -> tuple[str, ...]:
    both = before or NOTHING, after or NOTHING
    shares = (
        change(*(percent(use.resources[name].share) if name in use.resources else "-" for use in both))
        for name in names
    )
    return change(*(f"{use.nodes:,}" for use in both)), change(*(f"{use.pods:,}" for use in both)), *shares


def _skew(before: Usage, after: Usage, name: str) -> str:
    return change(percent(before.skew(name)), percent(after.skew(name)))


def _is_used(name: str, before: Usage, after: Usage) -> bool:
    return any(name in each.total.resources and each.total.resources[name].requested for each in (before, after))


def summary(result: Result) -> str:
    """Returns the result in a sentence."""
    entries = [entry for entry in result.entries if entry.departure is None]
    if result.filled is not None and not entries:
        return f"{result.filled.count:,} more of {result.filled.workload.label} fit"
    if not entries and not result.departures:
        return "no pod needs a node"
    pending = sum(entry.is_pending for entry in entries)
    text = f"{len(entries) - pending:,} of {count(len(entries), 'pod')} placed"
    if pending:
        earlier = sum(entry.is_pending and entry.origin is Origin.PENDING for entry in entries)
        text += f", {pending:,} pending" + (f" ({earlier:,} of them as before)" if earlier else "")
    for cause in Cause:
        number = sum(departure.cause is cause for departure in result.departures)
        text += f", {cause.in_words(number)}" if number else ""
    lost = sum(each.lost for each in result.workloads)
    return text + (f", {lost:,} lost" if lost else "")
