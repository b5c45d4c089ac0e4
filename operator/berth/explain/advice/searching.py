"""Which changes are tried, in which order, and which are said.

A single change can help only on nodes that one plugin alone rejects, so those are looked at first, for each plugin at
the few nodes that come closest. If no single change helps, several are tried together. Every trial is a survey of all
nodes, and a piece of work of its own.
"""

from collections.abc import Iterable, Iterator
from itertools import product
from typing import Final

import numpy as np
from numpy.typing import NDArray

from berth.engine.diagnosis import Opinion
from berth.engine.pipeline import Pipeline
from berth.engine.plugin import PluginFailed
from berth.engine.plugins.node_affinity import NodeAffinity
from berth.engine.plugins.taint_toleration import TaintToleration
from berth.engine.state.state import State
from berth.engine.verdict import Code
from berth.explain.advice.edits import Edit, PodChange, both, in_place, node_edit, pod_edit
from berth.explain.advice.node_changes import new_node, node_changes
from berth.explain.advice.pod_changes import pod_changes
from berth.explain.advice.priorities import raised
from berth.explain.advice.requests import closest
from berth.explain.judgement import Judgement
from berth.explain.prospects import ruled_out
from berth.explain.reasons import NODE_AFFINITY, NOT_NAMED, code_of
from berth.explain.records import Advice
from berth.explain.steps import Steps
from berth.model import Node, Pod
from berth.policy.compile import ActivePolicy
from berth.policy.wording import count

MOST_ADVICE: Final = 5
MOST_FOR_POD: Final = 3
MOST_TRIALS: Final = 24
MOST_ROUNDS: Final = 3
NODES_LOOKED_AT: Final = 3

Positions = NDArray[np.intp]
Tried = tuple[Edit, Advice]


def advise(pod: Pod, active: ActivePolicy, state: State) -> Steps[tuple[Advice, ...]]:
    """Returns at most five changes after which the pod fits, the smallest and most useful first."""
    found = yield from tried_edits(pod, active.pipeline, state)
    said = [advice for _, advice in found]
    priority = yield from raised(pod, active.pipeline, active.preemption, state)
    if priority is not None:
        single = sum(len(edit.changes) == 1 and edit.kind == "Pod" for edit, _ in found)
        said.insert(min(single, len(said)), priority)
    return tuple(said[:MOST_ADVICE])


def tried_edits(pod: Pod, pipeline: Pipeline, state: State) -> Steps[list[Tried]]:
    """Returns the changes that help, with their advice, in the order in which they are said."""
    judgement = _judged(pod, pipeline, state)
    if judgement is None:
        return []
    found = yield from _first_that_help(_single_edits(judgement), MOST_FOR_POD, pipeline, state)
    if not found:
        found = yield from _together(pod, pipeline, state)
    judgement = _judged(pod, pipeline, state)
    if judgement is None:
        return found
    of_nodes = yield from _first_that_help(_node_edits(judgement), MOST_ADVICE - 1 - len(found), pipeline, state)
    added = yield from _first_that_help(_added_nodes(judgement), 1, pipeline, state)
    return sorted([*found, *of_nodes, *added], key=lambda each: each[0].order)


def _judged(pod: Pod, pipeline: Pipeline, state: State) -> Judgement | None:
    """Returns the judgement; None if the pod fits meanwhile, or cannot be judged."""
    try:
        judgement = Judgement(pod, pipeline, state)
    except PluginFailed:
        return None
    failed = judgement.survey is None or judgement.survey.failed is not None
    return None if failed or judgement.fits else judgement


# --- trials ----------------------------------------------------------------------------------------------------------


def _first_that_help(edits: Iterable[Edit], most: int, pipeline: Pipeline, state: State) -> Steps[list[Tried]]:
    """Tries the edits by size, and returns the first that help; never two for the same fields."""
    found: list[Tried] = []
    ordered = sorted(edits, key=lambda edit: edit.order)
    for edit in ordered[:MOST_TRIALS] if most > 0 else ():
        if len(found) == most:
            break
        if any(_covers(edit, other) for other, _ in found):
            continue
        yield
        advice = try_edit(edit, pipeline, state)
        if advice is not None:
            found.append((edit, advice))
    return found


def _covers(edit: Edit, other: Edit) -> bool:
    """Whether the edit changes everything that the other, smaller one changes, or does the same elsewhere."""
    fields = {(change.field, change.before) for change in edit.changes}
    if edit.kind == "Node" and edit.code == other.code:
        return True  # the same for a node that is farther away
    return edit.name == other.name and {(change.field, change.before) for change in other.changes} <= fields


def try_edit(edit: Edit, pipeline: Pipeline, state: State) -> Advice | None:
    """Returns the advice if the pod fits with this edit: on the node that it changes, or on any."""
    try:
        with in_place(edit, state) as pod:
            if edit.node is not None:
                fits = pipeline.fits_without(pod, state, edit.node.name, ())
                return _advice(edit, edit.node.name, 1) if fits else None
            judgement = Judgement(pod, pipeline, state)
            return _advice(edit, _first(judgement), len(judgement.feasible)) if judgement.fits else None
    except PluginFailed:
        return None


def _first(judgement: Judgement) -> str:
    """Returns the first node by name that fits."""
    assert judgement.survey is not None
    places = np.flatnonzero(judgement.survey.fits)
    return judgement.table.name(int(judgement.rows[places[judgement.by_name[places].argmin()]]))


def _advice(edit: Edit, node: str, nodes: int) -> Advice:
    if edit.code == "AddNode":
        result = "it fits there"
    else:
        result = f"it fits on {node}" if nodes == 1 else f"it fits on {count(nodes, 'node')}, such as {node}"
    return Advice(edit.code, edit.kind, edit.name, f"{edit.text}: {result}.", edit.changes, node, nodes)


# --- changes of the pod ----------------------------------------------------------------------------------------------


def _single_edits(judgement: Judgement) -> Iterator[Edit]:
    seen: set[object] = set()
    for change in _single_changes(judgement):
        if change.changes not in seen:
            seen.add(change.changes)
            yield pod_edit(judgement.pod, [change])


def _single_changes(judgement: Judgement) -> Iterator[PodChange]:
    survey = judgement.survey
    assert survey is not None
    if survey.stopped_by is not None:
        yield from _of_stop(judgement, survey.stopped_by)
        return
    if len(judgement.rows) < judgement.nodes:
        yield from pod_changes(NOT_NAMED, judgement, -1)
    for opinion in judgement.opinions:
        alone = judgement.alone.get(opinion.plugin.name)
        if alone is None or opinion.verdicts is None or not alone.any():
            continue
        for position in _representatives(judgement, opinion, np.flatnonzero(alone)):
            for code in _codes(opinion, position):
                yield from pod_changes(code, judgement, position)


def _of_stop(judgement: Judgement, stop: Opinion) -> Iterator[PodChange]:
    for text in stop.pre_filter.reasons:
        yield from pod_changes(code_of(stop.plugin, text, stop.pre_filter.code), judgement, -1)


def _codes(opinion: Opinion, position: int) -> list[str]:
    assert opinion.verdicts is not None
    code = opinion.verdicts.codes[position]
    texts = opinion.verdicts.reasons(position)
    return list(dict.fromkeys(code_of(opinion.plugin, text, Code(int(code))) for text in texts))


def _representatives(judgement: Judgement, opinion: Opinion, positions: Positions) -> list[int]:
    """Returns the few positions that stand for all that this plugin alone rejects."""
    plugin, table, rows = opinion.plugin, judgement.table, judgement.rows
    if plugin.needed_resources(judgement.pod) is not None:
        return closest(judgement, positions)
    if isinstance(plugin, TaintToleration):
        sets, first = np.unique(table.taint_sets[rows[positions]], return_index=True)
        shortest = np.argsort([len(table.taints_of[int(number)]) for number in sets], kind="stable")
        return [int(at) for at in positions[first[shortest[: 2 * NODES_LOOKED_AT]]]]
    unmet = _unmet(judgement)[rows[positions]] if isinstance(plugin, NodeAffinity) else np.zeros(len(positions))
    ordered = positions[np.lexsort((judgement.by_name[positions], unmet))]
    assert opinion.verdicts is not None
    _, first = np.unique(opinion.verdicts.causes[ordered], return_index=True)  # one node at least for each cause
    return list(dict.fromkeys([*ordered[first[:NODES_LOOKED_AT]].tolist(), *ordered[:NODES_LOOKED_AT].tolist()]))


def _unmet(judgement: Judgement) -> NDArray[np.int64]:
    """Returns int64[all rows]: how many entries of the nodeSelector each node does not match."""
    unmet = np.zeros(judgement.table.capacity, dtype=np.int64)
    for key, value in (judgement.pod.node_selector or {}).items():
        ids, vocabulary = judgement.table.label(key)
        unmet += ids != vocabulary.ids.get(value, -2)
    return unmet


def _together(pod: Pod, pipeline: Pipeline, state: State) -> Steps[list[Tried]]:
    """Returns several changes of the pod that help together: the smallest for each reason, or else the largest."""
    for place, pick in product(range(NODES_LOOKED_AT), (0, -1)):
        edit = yield from _repaired(pod, pipeline, state, place, pick)
        advice = try_edit(edit, pipeline, state) if edit is not None else None
        if edit is not None and advice is not None:
            return [(edit, advice)]
    return (yield from _first_that_help(_pod_and_node(pod, pipeline, state), 1, pipeline, state))


def _pod_and_node(pod: Pod, pipeline: Pipeline, state: State) -> Iterator[Edit]:
    """Yields changes of the pod and of a node together: the pod leaves its choice of nodes to the policy."""
    judgement = _judged(pod, pipeline, state)
    if judgement is None or not len(judgement.rows):
        return
    choice = _ordered(pod_changes(NODE_AFFINITY, judgement, -1))
    for change in choice[-1:]:
        of_pod = pod_edit(pod, [change])
        judged = _judged(of_pod.pod, pipeline, state)
        for of_node in _node_edits(judged) if judged is not None else ():
            yield both(of_pod, of_node)


def _repaired(pod: Pod, pipeline: Pipeline, state: State, place: int, pick: int) -> Steps[Edit | None]:
    """Returns the pod with changes for all reasons on one of the nearest nodes, and for those that appear then.

    None if a reason has no answer.
    """
    changes: list[PodChange] = []
    for _ in range(MOST_ROUNDS):
        yield
        changed = pod_edit(pod, changes).pod if changes else pod
        judgement = _judged(changed, pipeline, state)
        if judgement is None:
            break
        options = list(_options(judgement, place))
        if not options or not all(options):
            return None
        changes += [option[pick] for option in options]
    return pod_edit(pod, changes) if changes else None


def _options(judgement: Judgement, place: int) -> Iterator[list[PodChange]]:
    """Yields the changes for each reason that is in the way: of the pod as a whole, or on one of the nearest nodes."""
    survey = judgement.survey
    assert survey is not None
    if survey.stopped_by is not None:
        yield _ordered(_of_stop(judgement, survey.stopped_by))
    elif not len(judgement.rows):
        yield _ordered(pod_changes(NOT_NAMED, judgement, -1))
    else:
        position = _nearest(judgement)[min(place, len(judgement.rows) - 1)]
        for opinion in judgement.opinions:
            if opinion.verdicts is not None and opinion.verdicts.codes[position]:
                codes = _codes(opinion, position)
                yield _ordered(change for code in codes for change in pod_changes(code, judgement, position))


def _ordered(changes: Iterable[PodChange]) -> list[PodChange]:
    return sorted(changes, key=lambda change: (change.size, change.rank))


def _nearest(judgement: Judgement) -> list[int]:
    """Returns the positions of the nodes that the fewest plugins reject."""
    return [int(at) for at in np.lexsort((judgement.by_name, judgement.refusing))[:NODES_LOOKED_AT]]


# --- changes of nodes ------------------------------------------------------------------------------------------------


def _node_edits(judgement: Judgement) -> Iterator[Edit]:
    survey = judgement.survey
    assert survey is not None
    if survey.stopped_by is not None or not len(judgement.rows):
        return
    for position in _promising(judgement):
        refusing = [o for o in judgement.opinions if o.verdicts is not None and o.verdicts.codes[position]]
        codes = {code for opinion in refusing for code in _codes(opinion, position)}
        changes = node_changes(codes, judgement, position)
        node = judgement.table.node(judgement.table.name(int(judgement.rows[position])))
        if changes and node is not None:
            yield node_edit(judgement.pod, node, changes)


def _promising(judgement: Judgement) -> list[int]:
    """Returns the nearest positions by number of plugins, and those that only resources, or labels, rule out."""
    found = dict.fromkeys(_nearest(judgement))
    for opinion in judgement.opinions:
        alone = judgement.alone.get(opinion.plugin.name)
        if alone is not None and alone.any():
            found |= dict.fromkeys(_representatives(judgement, opinion, np.flatnonzero(alone))[:2])
    return list(found)


def _added_nodes(judgement: Judgement) -> Iterator[Edit]:
    for like in _models(judgement):
        edit = new_node(judgement, like)
        if edit is not None:
            yield edit


def _models(judgement: Judgement) -> Iterator[Node]:
    """Yields nodes that a new one could be like: one that could take the pod if it were empty comes first."""
    rows = judgement.rows
    chosen = []
    if len(rows):
        order = np.lexsort((judgement.by_name, judgement.refusing, ruled_out(judgement)))
        chosen = [int(rows[at]) for at in order[:2].tolist()]
    elif judgement.nodes:
        chosen = [int(judgement.table.rows_by_name[0])]
    for row in chosen:
        node = judgement.table.node(judgement.table.name(row))
        if node is not None:
            yield node
