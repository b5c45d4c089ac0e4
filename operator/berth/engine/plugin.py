"""The plugin contract: one call answers for many nodes, with a column of verdicts or scores.

A plugin is constructed from its arguments. It keeps no state between decisions, changes nothing that it is given, and
returns equal answers for equal input. It never raises for "does not fit". It derives from FilterPlugin, ScorePlugin or
both, and has:

    filter(query, state, rows)      Filter: a verdict for each row; required of a FilterPlugin
    score(query, state, rows)       Score: a number for each row, any scale; required of a ScorePlugin
    dependencies                    what its answers depend on (dependencies.py)

and, where it needs them:

    concerns(pod)                   False: the plugin never applies to such a pod, and is not called
    pre_filter(query, state)        PreFilter: skip Filter, reject the pod on all nodes, or name the only nodes
    retry_events, local_events      the events that may make a rejected pod schedulable (EventsToRegister)
    hint(query, state, change)      queueing hint: can the change make the pod fit on a node that the plugin rejected?
    pre_score(query, state)         PreScore; False: skip Score, every node scores 0
    normalize(scores)               NormalizeScore: the same on 0..100, over the feasible nodes
    take_failures()                 on how many nodes it could not judge

Everything else is optional and only makes it faster: fast_paths.py. One suite (testing.py) checks the contract of every
plugin: that its dependencies are true, and that its fast paths agree with the methods above.

Reserve, Permit, PreBind and PostBind are another contract (binding_points.py).

For nominated pods and preemption, pods are moved tentatively in the table and filters are called again. So a filter
reads the table in every call. What it prepares for one decision belongs in `query.memo`, which such a move clears.
"""

from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np

from berth.engine.dependencies import NOTHING_ELSE, Dependencies, PodsRead, nothing_else
from berth.engine.events import ANY, Change, Event
from berth.engine.fast_paths import FilterFastPaths, ScoreFastPaths
from berth.engine.query import Query
from berth.engine.state.state import State
from berth.engine.verdict import PROCEED, Int64Column, PreFilter, Rows, Verdicts
from berth.model import Pod

__all__ = [
    "MAX_SCORE",
    "NOTHING_ELSE",
    "BadArgument",
    "Dependencies",
    "FilterPlugin",
    "Plugin",
    "PluginFailed",
    "PodsRead",
    "Query",
    "ScorePlugin",
    "nothing_else",
    "refuse_unknown",
    "scale_to_highest",
]

MAX_SCORE = 100


class BadArgument(ValueError):
    """An argument of a plugin is invalid; `field` is its path inside the arguments, "" for all of them."""

    def __init__(self, field: str, problem: str) -> None:
        super().__init__(f"{field}: {problem}" if field else problem)
        self.field = field
        self.problem = problem


class PluginFailed(Exception):
    """A plugin raised or returned something invalid. The attempt ends without a decision."""

    def __init__(self, plugin: str, problem: str) -> None:
        super().__init__(f"plugin {plugin} failed: {problem}")
        self.plugin = plugin
        self.problem = problem


class Plugin:
    """What all plugins have. Most derive from FilterPlugin or ScorePlugin."""

    name: str
    filters: ClassVar[bool] = False
    scores: ClassVar[bool] = False
    dependencies: Dependencies = Dependencies()
    retry_events: frozenset[Event] = ANY
    """The events that may make a pod schedulable that the plugin rejected."""
    local_events: frozenset[Event] = frozenset()
    """Those of them that change the verdict on the node of the event only. Such an event makes no pod schedulable that
    another plugin still rejects on that node."""

    def __init__(self, args: Mapping[str, Any]) -> None:
        """Reads the arguments, or raises BadArgument."""
        refuse_unknown(args)

    def concerns(self, pod: Pod) -> bool:
        """False: the plugin never rejects or scores a pod like this, whatever the state is, and is not called."""
        return True

    def take_failures(self) -> tuple[int, str]:
        """Returns how often the plugin could not judge a node since the last call, and the last error."""
        return 0, ""


class FilterPlugin(FilterFastPaths, Plugin):
    filters: ClassVar[bool] = True

    def pre_filter(self, query: Query, state: State) -> PreFilter:
        return PROCEED

    def filter(self, query: Query, state: State, rows: Rows) -> Verdicts:
        raise NotImplementedError(f"{type(self).__name__} has no filter()")

    def hint(self, query: Query, state: State, change: Change) -> bool:
        """Queueing hint. False: the change makes the pod fit on no node that the plugin rejected.

        The change is one of `retry_events`. The call comes after it, and possibly after later changes. So the hint may
        read the state as it is now, and the object before and after the change. If the check would cost more than a
        scheduling attempt, it returns True.
        """
        return True


class ScorePlugin(ScoreFastPaths, Plugin):
    scores: ClassVar[bool] = True

    def pre_score(self, query: Query, state: State) -> bool:
        return True

    def score(self, query: Query, state: State, rows: Rows) -> Int64Column:
        raise NotImplementedError(f"{type(self).__name__} has no score()")

    def normalize(self, scores: Int64Column) -> Int64Column:
        bounds = self.bounds(scores)
        return scores if bounds is None else self.scale(scores, bounds)


def refuse_unknown(args: Mapping[str, Any], *known: str) -> None:
    for field in args:
        if field not in known:
            allowed = f"known are {', '.join(sorted(known))}" if known else "the plugin takes none"
            raise BadArgument(field, f"unknown argument; {allowed}")


def scale_to_highest(scores: Int64Column, highest: int, reverse: bool = False) -> Int64Column:
    """Scales scores to 0..100 as kube-scheduler's DefaultNormalizeScore does: integer division by the highest."""
    if highest == 0:
        return np.full_like(scores, MAX_SCORE) if reverse else scores
    scaled = MAX_SCORE * scores // highest
    return MAX_SCORE - scaled if reverse else scaled
