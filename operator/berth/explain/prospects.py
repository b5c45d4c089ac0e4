"""Never or not now: whether a node could take the pod if other pods left, or none could even if it were empty.

"Never" must never be wrong. A node counts as ruled out for good only by a verdict that does not depend on other pods:
that of a filter that does not read them, requests above what the node has in all, a missing topology label. All else
counts as "not now".
"""

from itertools import islice
from typing import Final

import numpy as np

from berth.engine.diagnosis import Opinion
from berth.engine.plugins.pod_topology_spread import PodTopologySpread
from berth.engine.verdict import BoolColumn, Code
from berth.explain.judgement import Judgement
from berth.explain.near_misses import MOST_NEAR
from berth.explain.reasons import NODE_AFFINITY_CONFLICT, UNSUPPORTED, code_of
from berth.explain.records import Outlook, Prospect
from berth.explain.text import some
from berth.policy.wording import count

MOST_MOVED: Final = 40  # pods that are removed tentatively from one node to try it: each takes tens of microseconds
_FOR_GOOD: Final = (NODE_AFFINITY_CONFLICT, UNSUPPORTED)
NEVER_TEXT: Final = "Never: no node could take it, even an empty one, unless the pod, the nodes or its volumes change."


def prospect_of(judgement: Judgement) -> Prospect:
    """Returns whether the pod could be scheduled, and where."""
    if not judgement.nodes:
        return Prospect(Outlook.NOT_NOW, "Not now: the cluster has no nodes.")
    if judgement.fits:
        fitting = len(judgement.feasible)
        text = f"It fits now, on {fitting:,} of {count(judgement.nodes, 'node')}."
        return Prospect(Outlook.FITS, text, fitting, _names(judgement, np.flatnonzero(_fits(judgement))))
    survey = judgement.survey
    if survey is not None and survey.stopped_by is not None:
        return _stopped(judgement, survey.stopped_by)
    possible = np.flatnonzero(~ruled_out(judgement))
    if not len(possible):
        return Prospect(Outlook.NEVER, NEVER_TEXT)
    return _not_now(judgement, possible)


def ruled_out(judgement: Judgement) -> BoolColumn:
    """Returns bool[positions]: the nodes that reject the pod whichever pods leave or come."""
    out = np.zeros(len(judgement.rows), dtype=np.bool_)
    for opinion in judgement.opinions:
        if opinion.verdicts is not None and not opinion.verdicts.all_fit:
            out |= _for_good(judgement, opinion)
    return out


def _for_good(judgement: Judgement, opinion: Opinion) -> BoolColumn:
    plugin, verdicts = opinion.plugin, opinion.verdicts
    assert verdicts is not None
    if plugin.dependencies.reads_only_usage:
        in_all = judgement.table.allocatable[:, judgement.rows]
        return ~plugin.filter_with_free(judgement.query, in_all, in_all).fits
    if not plugin.dependencies.reads_pods:
        return np.asarray(~verdicts.fits & (verdicts.codes != Code.ERROR))
    if isinstance(plugin, PodTopologySpread):
        return np.asarray(verdicts.codes == Code.UNRESOLVABLE)  # the node lacks the label
    return np.zeros(len(judgement.rows), dtype=np.bool_)


def _fits(judgement: Judgement) -> BoolColumn:
    assert judgement.survey is not None
    return judgement.survey.fits


def _stopped(judgement: Judgement, stop: Opinion) -> Prospect:
    codes = [code_of(stop.plugin, text, stop.pre_filter.code) for text in stop.pre_filter.reasons]
    if any(code in _FOR_GOOD for code in codes):
        return Prospect(Outlook.NEVER, "Never: the pod itself rules out every node. It has to change.")
    return Prospect(Outlook.NOT_NOW, f"Not now: no node is evaluated until {stop.plugin.name} lets the pod pass.")


def _not_now(judgement: Judgement, possible: "np.typing.NDArray[np.intp]") -> Prospect:
    order = np.lexsort((judgement.by_name[possible], judgement.refusing[possible]))
    nearest = possible[order[: 2 * MOST_NEAR]].tolist()
    possible_now = (judgement.table.name(int(judgement.rows[at])) for at in nearest if _could(judgement, at))
    tried = list(islice(possible_now, MOST_NEAR))  # each takes a trial
    nodes, such = len(possible), f"{count(len(possible), 'node')} of {judgement.nodes:,}"
    if tried:
        text = f"Not now: {such} could take it if pods left them, such as {some(tried, MOST_NEAR)}."
    else:
        text = f"Not now: on {such} nothing but other pods, or their absence, is in the way."
    return Prospect(Outlook.NOT_NOW, text, nodes, tuple(tried))


def _could(judgement: Judgement, position: int) -> bool:
    """Whether the node would take the pod without its own pods.

    Where nothing but resources is in the way the columns tell: what the node has in all is enough. That is not so if
    the pod needs others near it, which may be among those that leave, or if pods are nominated to the node.
    """
    name = judgement.table.name(int(judgement.rows[position]))
    refusing = [o for o in judgement.opinions if o.verdicts is not None and o.verdicts.codes[position] != Code.FITS]
    tied = bool(judgement.pod.pod_affinity.required) or name in judgement.state.nominated
    if not tied and all(opinion.plugin.dependencies.reads_only_usage for opinion in refusing):
        return True
    there = list(judgement.table.pods_on(name).values())
    return len(there) <= MOST_MOVED and judgement.pipeline.fits_without(judgement.pod, judgement.state, name, there)


def _names(judgement: Judgement, positions: "np.typing.NDArray[np.intp]") -> tuple[str, ...]:
    first = positions[np.argsort(judgement.by_name[positions])[:MOST_NEAR]]
    return tuple(judgement.table.name(int(judgement.rows[at])) for at in first)
