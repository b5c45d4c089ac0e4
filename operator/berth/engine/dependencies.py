"""Dependencies: what the answers of a plugin depend on. It decides how long they stay cached, and who is asked again.

Every plugin has one such record, as `dependencies`. The answers (verdicts and scores) may always depend on the plugin's
arguments and on the pod's signature. Everything else that they depend on is declared here. The defaults are the safe
ones: nothing is known, so the plugin is called for every pod and every node.

    the answers depend on                            declared as
    -----------------------------------------------  ------------------------------------------------------------------
    a part of the pod, and what is static of nodes   static_key=<that part of the pod>
    the node itself and its pods                     node_local=True, version=nothing_else
    counters, other objects, pods of other nodes     version=<a value that changes when one of them does>
    unknown                                          nothing

A wrong declaration is a wrong decision: a cached answer stays in use although it changed. So the contract suite
(testing.py) compares decisions with cached answers with decisions without, for every plugin of the registry.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import InitVar, dataclass
from enum import Enum
from typing import Final

from berth.engine.answer_cache.equivalence import Axis
from berth.engine.query import Query
from berth.engine.state.state import State
from berth.engine.verdict import BoolColumn
from berth.model import Pod

Version = Callable[[Query, State], Hashable | None]

NOTHING_ELSE: Final[Hashable] = object()


def nothing_else(query: Query, state: State) -> Hashable:
    """The version of answers that depend on nothing else until an object that is neither pod nor node changes, or the
    affinity terms of placed pods do.
    """
    return NOTHING_ELSE


def unknown(query: Query, state: State) -> None:
    """The version of answers of which nothing is known: they are never reused."""
    return


class PodsRead(Enum):
    """What a verdict depends on of the pods on nodes. Preemption asks only the filters whose verdicts may change."""

    NONE = "none"
    USAGE = "usage"
    """Only the resources that the pods of the node itself use. The plugin has `filter_with_free` then."""
    ALL = "all"


@dataclass(frozen=True, slots=True, kw_only=True)
class Dependencies:
    """What answers depend on.

    static_key       returns the part of the pod that the answers depend on. Everything else that they depend on is
                     counted by `table.static_version`: labels, taints, images, conditions and spec of nodes. The next
                     pod with an equal key gets the cached answers
    node_local       the answer for a node depends only on that node and its pods, and on what `version` counts. Other
                     nodes do not matter. If the verdicts read pods: a pod that leaves a node never makes the plugin
                     reject a node that it accepted
    pods             what verdicts depend on of the pods on nodes
    version          returns a value for everything else that the answers depend on. While it stays equal, cached
                     answers are valid for the next pod of the signature: all of them, or, if node_local, those for
                     nodes that did not change. NOTHING_ELSE: see `nothing_else`. None: never reuse
    filter_version   `version` of the verdicts alone; by default `version`
    score_version    `version` of the scores alone; by default `version`
    affected_rows    (query, state, before, now, rows): the rows whose verdicts may differ between the filter versions
                     `before` and `now`, when pods were added to or removed from `rows`. None: any row
    rows_with_pods   bool[all rows]: the nodes whose own pods can change the verdict on them. None: not known
    score_axes       the few properties (label values, pod counts) that decide a node's score. Nodes that are equal in
                     them are scored once, as one group (answer_cache/equivalence.py). None: they are too many, or the
                     plugin skips the pod. The same object while nothing but pod counts changes: the cache compares by
                     identity
    """

    static_key: Callable[[Pod], Hashable] | None = None
    node_local: bool = False
    pods: PodsRead = PodsRead.ALL
    version: InitVar[Version | None] = None
    filter_version: Version = unknown
    score_version: Version = unknown
    affected_rows: Callable[[Query, State, Hashable, Hashable, Sequence[int]], Sequence[int] | None] | None = None
    rows_with_pods: Callable[[Query, State], BoolColumn | None] | None = None
    score_axes: Callable[[Query, State], Sequence[Axis] | None] | None = None

    def __post_init__(self, version: Version | None) -> None:
        if version is None:
            return
        for field in ("filter_version", "score_version"):
            if getattr(self, field) is unknown:
                object.__setattr__(self, field, version)

    @property
    def reads_pods(self) -> bool:
        return self.static_key is None and self.pods is not PodsRead.NONE

    @property
    def reads_only_usage(self) -> bool:
        return self.pods is PodsRead.USAGE
