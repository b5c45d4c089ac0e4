"""Why no node takes a pod: what the filters said, and kube-scheduler's message made from it.

Each node is counted under the first plugin that rejected it, in the pipeline's order. With `check_all` it is counted
under every plugin that rejects it.
"""

from collections import Counter
from dataclasses import dataclass, field, replace
from typing import NamedTuple

import numpy as np

from berth.engine.events import Event
from berth.engine.plugin import FilterPlugin, Query
from berth.engine.verdict import BoolColumn, Code, PreFilter, Rows, Verdicts

NO_NODES = "no nodes available to schedule pods"


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """Why no node is feasible. `plugins` rejected the pod; `retry_events` are the events that may make it schedulable.

    `survey` and `query` are what the diagnosis was made from. Preemption reads them in the same scheduling cycle. They
    are large, and they are valid only until the state changes.
    """

    message: str
    nodes: int
    plugins: frozenset[str]
    retry_events: frozenset[Event]
    error: bool = False
    survey: "Survey | None" = field(default=None, compare=False, repr=False)
    query: Query | None = field(default=None, compare=False, repr=False)

    def in_words(self) -> "Diagnosis":
        """Returns the diagnosis without `survey` and `query`, so that it can be stored."""
        return replace(self, survey=None, query=None)


class Opinion(NamedTuple):
    """One filter plugin's PreFilter result for a pod and its verdict on each node (None: Filter was not called)."""

    plugin: FilterPlugin
    pre_filter: PreFilter
    verdicts: Verdicts | None


class Survey(NamedTuple):
    """The result of all filters. `fits` is bool[rows asked]; `opinions` are those of the filters that concern the pod,
    in the pipeline's order.

    `with_nominated`: nominated pods were counted as present. For nodes that do not fit with them, `opinions` holds the
    verdicts with them; `without` holds the verdicts without them.
    `flawed`: a filter failed on some node. `failed`: it failed on a node that no filter before it had rejected. That
    ends the attempt with this error.
    """

    rows: Rows
    fits: BoolColumn
    opinions: tuple[Opinion, ...]
    stopped_by: Opinion | None
    with_nominated: bool = False
    without: tuple[Opinion, ...] | None = None
    flawed: bool = False
    failed: Diagnosis | None = None


def diagnose(survey: Survey, nodes: int, *, check_all: bool = False) -> Diagnosis:
    """Returns why a survey has no feasible node; `check_all`: counts the verdict of every filter on every node."""
    head = f"0/{nodes} nodes are available:"
    if survey.stopped_by is not None:
        stop = survey.stopped_by
        message = f"{head} {', '.join(stop.pre_filter.reasons)}."
        error = stop.pre_filter.code is Code.ERROR
        return Diagnosis(message, nodes, frozenset([stop.plugin.name]), stop.plugin.retry_events, error)
    counts, plugins = refusals(survey, every=check_all)
    narrowing = [o.plugin for o in survey.opinions if o.pre_filter.nodes is not None]
    left_out = nodes - len(survey.fits)
    if left_out:
        counts[f"node(s) didn't satisfy plugin(s) [{' '.join(sorted(p.name for p in narrowing))}]"] += left_out
        plugins += narrowing
    reasons = ", ".join(sorted(f"{count} {reason}" for reason, count in counts.items()))
    return Diagnosis(
        f"{head} {reasons}." if reasons else head,
        nodes,
        frozenset(plugin.name for plugin in plugins),
        frozenset[Event]().union(*(plugin.retry_events for plugin in plugins)),
    )


def failure(plugin: FilterPlugin, verdicts: Verdicts, left: BoolColumn) -> Diagnosis | None:
    """Returns the error diagnosis if the filter failed on a node that no filter before it rejected (`left`)."""
    failed = verdicts.failed
    if failed is None or not (failed & left).any():
        return None
    message = ", ".join(verdicts.reasons(int((failed & left).argmax())))
    return Diagnosis(message, len(left), frozenset([plugin.name]), plugin.retry_events, error=True)


def refusals(survey: Survey, *, every: bool = False) -> tuple[Counter[str], list[FilterPlugin]]:
    """Returns the number of nodes by reason of rejection, and the plugins that gave the reasons.

    A node counts under the first plugin that rejects it, or, with `every`, under each plugin that does.
    """
    counts: Counter[str] = Counter()
    plugins: list[FilterPlugin] = []
    left = np.ones(len(survey.fits), dtype=np.bool_)
    for opinion in survey.opinions:
        if opinion.verdicts is None:
            continue
        refused = left & (opinion.verdicts.codes != Code.FITS)
        if not refused.any():
            continue
        if not every:
            left &= ~refused
        plugins.append(opinion.plugin)
        for cause, times in zip(*np.unique(opinion.verdicts.causes[refused], return_counts=True), strict=True):
            for reason in opinion.verdicts.describe(int(cause)):
                counts[reason] += int(times)
    return counts, plugins
