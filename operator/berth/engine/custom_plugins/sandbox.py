"""The sandbox around a third-party plugin: exceptions and invalid results become PluginFailed.

`guarded` makes a subclass of the plugin's class. It wraps every method of the contract that the class overrides. An
exception, or an invalid result (a column of wrong length or type, an unknown code, a score outside 0..100), becomes
PluginFailed. Methods that the class does not override stay those of Plugin, because the engine checks which methods a
class overrides.

Attributes that such a class does not declare get the safest value: any event may make a pod schedulable (`wakes_on`),
and the answers depend on the pods of any node (`reads_pods`, `node_local`). Columns are copied, so the plugin cannot
change what the engine caches. The plugin is called only for rows that have a node.
"""

import inspect
from collections.abc import Callable
from typing import Any

import numpy as np

from berth.engine.binding_points import BindingPlugin, problem_with_stages, takes_part
from berth.engine.custom_plugins.plugin_validation import CHECKS, InvalidAnswer, column_of, has_own, in_words, show
from berth.engine.events import ANY, Event
from berth.engine.per_node import PerNode, Reads
from berth.engine.plugin import Plugin, PluginFailed
from berth.engine.state.state import State
from berth.engine.verdict import Rows, row_count, row_numbers

_BASES = (Plugin, PerNode, BindingPlugin, object)


def problem_of(kind: Any) -> str:
    """Returns why a class cannot be a plugin, "" if it can."""
    if not isinstance(kind, type) or not issubclass(kind, Plugin):
        return f"{show(kind)} is not a subclass of berth.engine.plugin.Plugin or berth.engine.per_node.PerNode"
    ours = [base.__name__ for base in kind.__mro__ if base not in _BASES and base.__module__.startswith("berth.")]
    if ours or kind in _BASES:
        return (
            f"{kind.__name__} has to derive from Plugin or PerNode (or BindingPlugin), "
            f"not to be or to derive from {(ours or ['them'])[0]}"
        )
    if not kind.filters and not kind.scores and not takes_part(kind):
        wanted = "fits() nor points()" if issubclass(kind, PerNode) else "filters = True nor scores = True"
        stages = " nor a method of berth.engine.binding_points.BindingPlugin" if issubclass(kind, BindingPlugin) else ""
        return f"{kind.__name__} has neither {wanted}{stages}"
    for said, method in ((kind.filters, "filter"), (kind.scores, "score")):
        if said and not has_own(kind, method):
            return f"{kind.__name__} has {method}s = True and no method {method}()"
    for one, other in (("bounds", "scale"), ("axes", "score_groups")):
        if has_own(kind, one) != has_own(kind, other):
            return f"{kind.__name__} has one of {one}() and {other}() without the other"
    if issubclass(kind, PerNode) and kind.reads not in list(Reads):
        return f"{kind.__name__}.reads is not one of {', '.join(f'Reads.{reads.name}' for reads in Reads)}"
    events: Any = kind.wakes_on
    if not isinstance(events, frozenset | set) or not all(isinstance(event, Event) for event in events):
        return f"{kind.__name__}.wakes_on is not a set of berth.engine.events.Event"
    problem = problem_with_stages(kind)
    if problem:
        return problem
    awaited = [method for method in CHECKS if inspect.iscoroutinefunction(getattr(kind, method))]
    return f"{kind.__name__}.{awaited[0]}() is a coroutine: a decision waits for nothing" if awaited else ""


def guarded(kind: type[Plugin], name: str) -> type[Plugin]:
    """Returns the sandboxed subclass of a class for which `problem_of` returns ""; its plugins have this name."""
    body: dict[str, Any] = {"name": name, "__doc__": kind.__doc__, "__module__": kind.__module__}
    body["wakes_on"] = frozenset(kind.wakes_on) if _says(kind, "wakes_on") else ANY
    if not _says(kind, "reads_pods"):
        body["reads_pods"] = True
    if not _says(kind, "node_local"):
        body["node_local"] = False
    body |= {method: _careful(kind, method) for method in CHECKS if has_own(kind, method)}
    return type(kind.__name__, (kind,), body)


def _says(kind: type[Plugin], attribute: str) -> bool:
    return any(attribute in vars(base) for base in kind.__mro__ if base not in (Plugin, object))


def _careful(kind: type[Plugin], method: str) -> Callable[..., Any]:
    own, check = getattr(kind, method), CHECKS[method]
    if method == "score":
        own = _where_nodes_are(own)

    def ask(self: Plugin, *given: Any) -> Any:
        try:
            return check(self, own(self, *given), *given)
        except PluginFailed:
            raise
        except InvalidAnswer as wrong:
            raise PluginFailed(self.name, f"{method}() gave {wrong}") from None
        except KeyboardInterrupt:
            raise
        except BaseException as error:  # third-party code may raise anything
            raise PluginFailed(self.name, f"{method}() raised {in_words(error)}") from error

    ask.__name__, ask.__doc__ = method, own.__doc__
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
