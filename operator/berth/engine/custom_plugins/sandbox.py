"""The sandbox around a third-party plugin: exceptions and invalid results become PluginFailed.

`guarded` makes a subclass of the plugin's class. It wraps every method of the contract that the class overrides, and
every function of its `dependencies`. An exception, or an invalid result (a column of wrong length or type, an unknown
code, a score outside 0..100), becomes PluginFailed. Methods that the class does not override stay those of the base
class, because the engine checks which methods a class overrides.

Columns are copied, so the plugin cannot change what the engine caches. The plugin is called only for rows that have a
node.
"""

import inspect
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, TypeVar

import numpy as np

from berth.engine.binding_points import BindingPlugin, problem_with_stages, takes_part
from berth.engine.custom_plugins.plugin_validation import (
    CHECKS,
    DEPENDENCY_CHECKS,
    InvalidAnswer,
    column_of,
    has_own,
    in_words,
    show,
)
from berth.engine.dependencies import unknown
from berth.engine.events import Event
from berth.engine.per_node import PerNode, Reads
from berth.engine.plugin import Dependencies, FilterPlugin, Plugin, PluginFailed, ScorePlugin
from berth.engine.state.state import State
from berth.engine.verdict import Rows, row_count, row_numbers

P = TypeVar("P", bound=Plugin)

_BASES = {*FilterPlugin.__mro__, *ScorePlugin.__mro__, PerNode, BindingPlugin}


def problem_of(kind: Any) -> str:
    """Returns why a class cannot be a plugin, "" if it can."""
    if not isinstance(kind, type) or not issubclass(kind, Plugin):
        return (
            f"{show(kind)} is not a subclass of FilterPlugin or ScorePlugin (berth.engine.plugin) "
            "or PerNode (berth.engine.per_node)"
        )
    ours = [base.__name__ for base in kind.__mro__ if base not in _BASES and base.__module__.startswith("berth.")]
    if ours or kind in _BASES:
        return (
            f"{kind.__name__} has to derive from FilterPlugin, ScorePlugin or PerNode (or BindingPlugin), "
            f"not to be or to derive from {(ours or ['them'])[0]}"
        )
    if not kind.filters and not kind.scores and not takes_part(kind):
        wanted = "fits() nor points()" if issubclass(kind, PerNode) else "filter() nor score()"
        stages = " nor a method of berth.engine.binding_points.BindingPlugin" if issubclass(kind, BindingPlugin) else ""
        return f"{kind.__name__} has neither {wanted}{stages}"
    for said, method in ((kind.filters, "filter"), (kind.scores, "score")):
        if said and not has_own(kind, method):
            return f"{kind.__name__} is a {method.title()}Plugin and has no method {method}()"
    if has_own(kind, "bounds") != has_own(kind, "scale"):
        return f"{kind.__name__} has one of bounds() and scale() without the other"
    if issubclass(kind, PerNode) and kind.reads not in list(Reads):
        return f"{kind.__name__}.reads is not one of {', '.join(f'Reads.{reads.name}' for reads in Reads)}"
    events: Any = kind.retry_events
    if not isinstance(events, frozenset | set) or not all(isinstance(event, Event) for event in events):
        return f"{kind.__name__}.retry_events is not a set of berth.engine.events.Event"
    problem = problem_with_stages(kind)
    if problem:
        return problem
    awaited = [method for method in CHECKS if inspect.iscoroutinefunction(getattr(kind, method, None))]
    return f"{kind.__name__}.{awaited[0]}() is a coroutine: a decision waits for nothing" if awaited else ""


def guarded(kind: type[P], name: str) -> type[P]:
    """Returns the sandboxed subclass of a class for which `problem_of` returns ""; its plugins have this name."""

    def construct(self: Plugin, args: Mapping[str, Any]) -> None:
        kind.__init__(self, args)
        self.dependencies = _guarded_dependencies(self)

    body: dict[str, Any] = {"name": name, "__doc__": kind.__doc__, "__module__": kind.__module__}
    body["__init__"] = construct
    body["retry_events"] = frozenset(kind.retry_events)
    body |= {method: _careful(method, _own(kind, method), CHECKS[method]) for method in CHECKS if has_own(kind, method)}
    sandboxed: type[P] = type(kind.__name__, (kind,), body)
    return sandboxed


def _own(kind: type[Plugin], method: str) -> Callable[..., Any]:
    own: Callable[..., Any] = getattr(kind, method)
    return _where_nodes_are(own) if method == "score" else own


def _guarded_dependencies(plugin: Plugin) -> Dependencies:
    """Returns the plugin's dependencies with every function of them checked; raises TypeError for invalid ones."""
    declared, kind = plugin.dependencies, type(plugin)
    if not isinstance(declared, Dependencies):
        raise TypeError(f"dependencies are {show(declared)}, not berth.engine.plugin.Dependencies")
    if (declared.score_axes is None) == (has_own(kind, "score_groups") or has_own(kind, "normalized_groups")):
        raise TypeError("one of dependencies.score_axes and score_groups() is there without the other")
    if declared.reads_only_usage and not has_own(kind, "filter_with_free"):
        raise TypeError("dependencies.pods is PodsRead.USAGE, and there is no method filter_with_free()")
    guards: dict[str, Any] = {}
    for field, check in DEPENDENCY_CHECKS.items():
        given = getattr(declared, field)
        if given is not None and given is not unknown:
            guards[field] = _careful(f"dependencies.{field}", _without_self(given), check).__get__(plugin)
    return replace(declared, **guards)


def _without_self(function: Callable[..., Any]) -> Callable[..., Any]:
    return lambda plugin, *given: function(*given)


def _careful(what: str, own: Callable[..., Any], check: Callable[..., Any]) -> Callable[..., Any]:
    def ask(self: Plugin, *given: Any) -> Any:
        try:
            return check(self, own(self, *given), *given)
        except PluginFailed:
            raise
        except InvalidAnswer as wrong:
            raise PluginFailed(self.name, f"{what}() gave {wrong}") from None
        except KeyboardInterrupt:
            raise
        except BaseException as error:  # third-party code may raise anything
            raise PluginFailed(self.name, f"{what}() raised {in_words(error)}") from error

    ask.__name__, ask.__doc__ = what, own.__doc__
    return ask


def _where_nodes_are(score: Callable[..., Any]) -> Callable[..., Any]:
    """Wraps `score`: rows without a node get 0. Cached scores cover all rows, but plugins only see rows with a node."""

    def ask(self: Plugin, query: Any, state: State, rows: Rows) -> Any:
        known = state.table.rows
        if not isinstance(rows, slice) or isinstance(known, slice):
            return score(self, query, state, rows)
        here = row_numbers(known)
        here = here[(here >= rows.start) & (here < rows.stop)]
        scores = np.zeros(row_count(rows), dtype=np.int64)
        scores[here - rows.start] = column_of(score(self, query, state, here), np.int64, len(here))
        return scores

    return ask
