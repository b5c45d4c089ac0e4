"""Why a node: the totals of the best nodes plugin by plugin, and the comparison of two nodes."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Final

import numpy as np
from numpy.typing import NDArray

from berth.engine.pipeline import Ranking, TieBreak
from berth.engine.plugin import Plugin
from berth.engine.state.state import State
from berth.explain.judgement import Judgement
from berth.explain.records import (
    Choice,
    Evidence,
    NodeComparison,
    NodeSide,
    PluginComparison,
    PluginScore,
    PolicyReference,
    ScoredNode,
)
from berth.explain.verdicts import verdicts_on
from berth.model import Pod
from berth.policy.wording import count

MOST_OTHERS: Final = 3


@contextmanager
def lifted(pod: Pod, state: State) -> Iterator[Pod]:
    """The pod as it was before it had a node, and the state without it, for the length of the block."""
    placed = state.table.placed(pod.uid)
    if placed is None:
        yield pod
        return
    state.table.remove_pod(pod.uid)
    try:
        yield replace(pod, node_name="", nominated_node_name="")
    finally:
        state.table.add_pod(*placed)


def judged_choice(judgement: Judgement, node: str) -> Choice:
    """Returns why the node would be chosen now, beside the best others. The judgement is without the pod there."""
    feasible, row = judgement.feasible, judgement.table.row(node)
    if row is None or not (feasible == row).any():
        return Choice(node, Evidence.JUDGED_AGAIN, _not_today(judgement, node), evaluated=len(judgement.rows))
    ranking = judgement.pipeline.rank(judgement.query, judgement.state, feasible)
    position = int(np.flatnonzero(feasible == row)[0])
    others = [at for at in _best(judgement, ranking) if at != position][:MOST_OTHERS]
    return Choice(
        node,
        Evidence.JUDGED_AGAIN,
        _verdict_on(judgement, ranking, position),
        _scored(judgement, ranking, position),
        tuple(_scored(judgement, ranking, at) for at in others),
        len(judgement.rows),
        len(feasible),
    )


def _best(judgement: Judgement, ranking: Ranking) -> list[int]:
    """Returns the positions of the highest totals, by name where they are equal; one more than are shown."""
    place = np.empty(judgement.table.capacity, dtype=np.intp)
    place[judgement.table.rows_by_name] = np.arange(judgement.nodes)
    order: NDArray[np.intp] = np.lexsort((place[ranking.rows], -ranking.totals))[: MOST_OTHERS + 1]
    return [int(at) for at in order]


def _scored(judgement: Judgement, ranking: Ranking, at: int) -> ScoredNode:
    scores = [
        PluginScore(plugin.name, weight, int(column[at]))
        for (plugin, weight), column in zip(judgement.pipeline.scores, ranking.scores, strict=True)
        if column is not None
    ]
    return ScoredNode(judgement.table.name(int(ranking.rows[at])), int(ranking.totals[at]), tuple(scores))


def _verdict_on(judgement: Judgement, ranking: Ranking, at: int) -> str:
    node, total = judgement.table.name(int(ranking.rows[at])), int(ranking.totals[at])
    ahead = int(np.count_nonzero(ranking.totals > total))
    tied = int(np.count_nonzero(ranking.totals == total)) - 1
    nodes = count(len(ranking.rows), "node")
    asked = "Judged again, as if it had no node:"
    if len(ranking.rows) == 1:
        return f"{asked} {node} is the only node that fits."
    if ahead:
        return f"{asked} {node} has {count(total, 'point')}, and {ahead} of the {nodes} that fit have more today."
    if tied:
        return f"{asked} {node} has {count(total, 'point')}, as many as {count(tied, 'other node')}; {_tie(judgement)}."
    return f"{asked} {node} has {count(total, 'point')}, the most of {nodes} that fit."


def _tie(judgement: Judgement) -> str:
    tie_break = judgement.pipeline.tie_break
    return "the first by name is taken" if tie_break is TieBreak.FIRST else f"the tie-break is {tie_break.value}"


def _not_today(judgement: Judgement, node: str) -> str:
    if judgement.table.row(node) is None:
        return f"Node {node} is not known."
    said = verdicts_on(judgement, [node])[0]
    why = ", ".join(text for verdict in said.plugins for text in verdict.messages)
    return f"{node} would not take it today: {why or 'it is not among the nodes that are evaluated'}."


# --- two nodes -------------------------------------------------------------------------------------------------------


def compare_nodes(judgement: Judgement, policy: PolicyReference, names: tuple[str, str]) -> NodeComparison:
    """Returns what each plugin says of the two nodes, which must exist."""
    feasible = judgement.feasible
    ranking = judgement.pipeline.rank(judgement.query, judgement.state, feasible) if len(feasible) else None
    places = [_position(judgement, name) for name in names]
    first, second = (_side(judgement, ranking, name, at) for name, at in zip(names, places, strict=True))
    plugins = [
        PluginComparison(plugin.name, weight, (_at(column, places[0]), _at(column, places[1])))
        for plugin, weight, column in _columns(judgement, ranking)
        if column is not None and any(at is not None for at in places)
    ]
    ordered = tuple(sorted(plugins, key=lambda plugin: -abs(plugin.difference)))
    pod = judgement.pod
    return NodeComparison(pod.name, pod.namespace, policy, first, second, ordered, _outcome(first, second, ordered))


def _columns(judgement: Judgement, ranking: Ranking | None) -> Iterator[tuple[Plugin, int, NDArray[np.int64] | None]]:
    columns: Sequence[NDArray[np.int64] | None] = ranking.scores if ranking is not None else ()
    for (plugin, weight), column in zip(judgement.pipeline.scores, columns, strict=False):
        yield plugin, weight, column


def _position(judgement: Judgement, name: str) -> int | None:
    found = np.flatnonzero(judgement.feasible == judgement.table.row(name))
    return int(found[0]) if len(found) else None


def _at(column: NDArray[np.int64], position: int | None) -> int | None:
    return None if position is None else int(column[position])


def _side(judgement: Judgement, ranking: Ranking | None, name: str, at: int | None) -> NodeSide:
    if at is not None and ranking is not None:
        return NodeSide(name, True, int(ranking.totals[at]))
    said = verdicts_on(judgement, [name])[0]
    return NodeSide(name, False, None, tuple(verdict for verdict in said.plugins if verdict.messages))


def _outcome(first: NodeSide, second: NodeSide, plugins: Sequence[PluginComparison]) -> str:
    if not first.fits and not second.fits:
        return f"Neither {first.node} nor {second.node} fits."
    if first.fits is not second.fits:
        one, other = (first, second) if first.fits else (second, first)
        return f"{one.node} fits with {count(one.total or 0, 'point')}, {other.node} does not fit."
    assert first.total is not None
    assert second.total is not None
    if first.total == second.total:
        return f"{first.node} and {second.node} both have {count(first.total, 'point')}: the tie-break decides."
    one, other = (first, second) if first.total > second.total else (second, first)
    decisive = next((plugin for plugin in plugins if (plugin.difference > 0) is (one is first)), None)
    most = f", most of them by {decisive.plugin}" if decisive is not None else ""
    return f"{one.node} has {count(one.total or 0, 'point')} and {other.node} {other.total}{most}."
