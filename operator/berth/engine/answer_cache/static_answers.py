"""StaticAnswers: answers of one plugin, shared by all pods that are equal in the part that they depend on.

They are those of plugins with `dependencies.static_key`. They depend on that part of the pod, and on labels, taints,
images and spec of nodes. All are dropped when `table.static_version` moves. Other plugins are called each time.
"""

from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import Any, TypeVar

from berth.engine.plugin import FilterPlugin, Plugin, Query, ScorePlugin
from berth.engine.state.node_table import NodeTable
from berth.engine.state.state import State
from berth.engine.verdict import Int64Column, Rows, Verdicts

T = TypeVar("T")

_MAX_CACHED_ANSWERS = 128
_UNKNOWN: Any = object()


class StaticAnswers:
    def __init__(self) -> None:
        self._answers: OrderedDict[tuple[str, int, Hashable], Any] = OrderedDict()  # least recently used first
        self._table: NodeTable | None = None
        self._version = 0  # `static_version` of that table when the answers were given

    def verdicts(self, plugin: FilterPlugin, query: Query, state: State, rows: Rows) -> Verdicts:
        key_of = plugin.dependencies.static_key
        if key_of is None or rows is not state.table.rows:
            return plugin.filter(query, state, rows)
        return self._cached("filter", plugin, key_of(query.pod), state, lambda: plugin.filter(query, state, rows))

    def scores(self, plugin: ScorePlugin, query: Query, state: State, rows: Rows) -> Int64Column:
        key_of = plugin.dependencies.static_key
        if key_of is None:
            return plugin.score(query, state, rows)
        everywhere = slice(0, state.table.span)
        return self._cached("score", plugin, key_of(query.pod), state, lambda: plugin.score(query, state, everywhere))[
            rows
        ]

    def constant_score(self, plugin: ScorePlugin, query: Query, state: State) -> int | None:
        """Returns the normalised score that a static plugin gives to every node; None if nodes get different ones."""

        def ask() -> int | None:
            if not plugin.pre_score(query, state):
                return 0
            scores = plugin.score(query, state, state.table.rows)
            alike = scores.min() == scores.max()
            return int(plugin.normalize(scores[:1])[0]) if alike else None

        key_of = plugin.dependencies.static_key
        assert key_of is not None
        return self._cached("constant", plugin, key_of(query.pod), state, ask)

    def _cached(self, point: str, plugin: Plugin, key: Hashable, state: State, ask: Callable[[], T]) -> T:
        """Returns the cached answer for this key, or calls `ask`."""
        table = state.table
        if table is not self._table or table.static_version != self._version:
            self._answers.clear()
            self._table, self._version = table, table.static_version
        question = (point, id(plugin), key)
        cached: T = self._answers.get(question, _UNKNOWN)
        if cached is not _UNKNOWN:
            self._answers.move_to_end(question)
            return cached
        said = self._answers[question] = ask()
        if len(self._answers) > _MAX_CACHED_ANSWERS:
            self._answers.popitem(last=False)
        return said
