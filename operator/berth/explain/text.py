"""Explanations as plain lines for people. A line that belongs to the one above it is indented by two spaces."""

from collections.abc import Iterator, Sequence

from berth.explain.reasons import KIND_OF, OF_VOLUMES
from berth.explain.records import (
    Choice,
    Explanation,
    NodeComparison,
    NodeVerdict,
    PluginComparison,
    PolicyReference,
    PreemptionCode,
    PreemptionNote,
    Reason,
    ScoredNode,
)
from berth.policy.defaults import BUILT_IN
from berth.policy.wording import count

MOST_VICTIMS = 5


def sentences(explanation: Explanation) -> list[str]:
    """Returns the explanation line by line, the most important first."""
    return list(_lines(explanation))


def _lines(explanation: Explanation) -> Iterator[str]:
    yield f"Pod {explanation.namespace}/{explanation.name} is {explanation.state}: {explanation.message}"
    yield from _circumstances(explanation)
    for reason in explanation.reasons:
        yield from _about(reason)
        if not explanation.advice or reason.code in OF_VOLUMES:
            yield f"  {KIND_OF[reason.code].helps}"
    if explanation.prospect is not None:
        yield explanation.prospect.message
    if explanation.preemption is not None:
        yield from _about_preemption(explanation.preemption)
    if explanation.choice is not None:
        yield from _about_choice(explanation.choice)
    if explanation.advice:
        yield "What would help, each tried:"
        yield from (f"  {number}. {advice.sentence}" for number, advice in enumerate(explanation.advice, 1))
    if explanation.retried_on:
        yield f"It is tried again on these events: {', '.join(explanation.retried_on)}."
    for verdict in explanation.verdicts:
        yield from verdict_sentences(verdict)
    yield from (f"Note: {note}" for note in explanation.notes)


def _circumstances(explanation: Explanation) -> Iterator[str]:
    said = []
    if explanation.policy is not None:
        said.append(_policy(explanation.policy))
    said.append(f"priority {explanation.priority}")
    if explanation.since:
        said.append(f"since {explanation.since}")
    if explanation.attempts is not None:
        said.append(f"{count(explanation.attempts, 'attempt')}")
    if explanation.place_in_queue is not None:
        said.append(f"number {explanation.place_in_queue} in the queue")
    if explanation.next_try:
        said.append(f"tried next at {explanation.next_try} at the latest")
    yield f"  {', '.join(said)}"
    if explanation.waits_for:
        yield f"  It waits for {', '.join(explanation.waits_for)}."
    if explanation.scheduler_message and explanation.scheduler_message != explanation.message:
        yield f"  As kube-scheduler says it: {explanation.scheduler_message}"


def _policy(policy: PolicyReference) -> str:
    if policy.name == BUILT_IN.name:
        return "the built-in policy"
    return f"SchedulingPolicy {policy.name}, generation {policy.generation}"


def _about(reason: Reason) -> Iterator[str]:
    alone = f", {count(reason.alone, 'node')} by nothing else" if reason.alone else ""
    yield f"{count(reason.nodes, 'node')}: {reason.message} ({reason.code}, plugin {reason.plugin}{alone})"
    yield from (f"  {miss.node} {miss.detail}" for miss in reason.nearest)


def _about_preemption(note: PreemptionNote) -> Iterator[str]:
    yield f"Preemption {'helps' if note.code is PreemptionCode.HELPS else 'does not help'}: {note.message}"
    if note.victims:
        yield f"  victims on {note.node}: {some(note.victims, MOST_VICTIMS)}"


def _about_choice(choice: Choice) -> Iterator[str]:
    yield choice.message
    if choice.chosen is None:
        return
    table = [choice.chosen, *choice.others]
    for scored in table:
        yield f"  {scored.node}: {scored.total}{_parts(scored)}"


def _parts(scored: ScoredNode) -> str:
    parts = [f"{s.plugin} {s.score} x {s.weight}" for s in scored.scores]
    return f" = {' + '.join(parts)}" if parts else ""


def verdict_sentences(verdict: NodeVerdict) -> Iterator[str]:
    """Yields what all plugins say of one node."""
    yield f"Node {verdict.node}: {'fits' if verdict.fits else 'does not fit'}"
    for said in verdict.plugins:
        yield f"  {said.plugin}: {', '.join(said.messages) or said.status}"


def comparison_sentences(comparison: NodeComparison) -> list[str]:
    """Returns the comparison of two nodes line by line."""
    lines = [comparison.message]
    for side in (comparison.first, comparison.second):
        lines += [f"  {side.node}: {said.plugin}: {', '.join(said.messages)}" for said in side.refusals]
    return lines + [f"  {_compared(plugin)}" for plugin in comparison.plugins]


def _compared(plugin: PluginComparison) -> str:
    first, second = ("-" if score is None else str(score) for score in plugin.scores)
    points = "point" if abs(plugin.difference) == 1 else "points"
    return f"{plugin.plugin} x {plugin.weight}: {first} and {second}, {plugin.difference:+d} {points}"


def some(names: Sequence[str], most: int) -> str:
    """Returns the first names, and how many more there are."""
    more = len(names) - most
    return ", ".join(names[:most]) + (f" and {more} more" if more > 0 else "")
