"""Whether a change may help a pod, as the plugins say that turned it away.

The queue asks about each kind of parked pod that listens to one of the change's events. A plugin is asked once a change
for all pods that are alike to it (`Plugin.hint_key`), whoever else turned them away. A hint may delay a pod, never lose
it: what is not known, and a plugin that fails, count as help.
"""

from collections import Counter
from collections.abc import Collection, Hashable, Sequence

from berth.engine.events import Change
from berth.engine.outside import EXTENDERS
from berth.engine.pipeline import Diagnosis, Pipeline
from berth.engine.plugin import Plugin, Query
from berth.engine.state import State
from berth.model import Pod
from berth.scheduler.faults import Faults


def rejecting(pipeline: Pipeline, diagnosis: Diagnosis) -> tuple[Plugin, ...]:
    """The plugins of the pipeline that turned the pod away; none, if they are not all to be found there."""
    found = tuple(plugin for plugin in (*pipeline.filters, EXTENDERS) if plugin.name in diagnosis.plugins)
    return found if {plugin.name for plugin in found} == diagnosis.plugins else ()


class Hints:
    """Asks plugins with the cluster as it is now, after the change."""

    def __init__(self, state: State, faults: Faults) -> None:
        self._state = state
        self._faults = faults
        self._change: Change | None = None
        self._answers: dict[tuple[Plugin, Hashable], bool] = {}
        self.counts: Counter[str] = Counter()

    def may_help(self, pod: Pod, plugins: Sequence[Plugin], change: Change) -> bool:
        """Whether one of the plugins that listen to the change says that it may let the pod onto a node now."""
        if change is not self._change:
            self._change = change
            self._answers.clear()
        query: Query | None = None
        for plugin in plugins:
            if plugin.wakes_on.isdisjoint(change.events):
                continue
            try:
                key = plugin, plugin.hint_key(pod)
                known = self._answers.get(key)
            except Exception as error:
                self._faults.note("asking for a hint", f"plugin {plugin.name}", error)
                return True
            if known is None:
                query = query or Query(pod, self._state.table)
                known = self._answers[key] = self._ask(plugin, query, change)
            if known:
                return True
        return False

    def nominated_to(self, node: str) -> Collection[str]:
        """The UIDs of the pods that wait for the node: once nobody leaves it any more, they may look elsewhere."""
        return self._state.nominated.get(node, {}).keys()

    def _ask(self, plugin: Plugin, query: Query, change: Change) -> bool:
        try:
            helps = bool(plugin.hint(query, self._state, change))
        except Exception as error:
            self._faults.note("asking for a hint", f"plugin {plugin.name}", error)
            helps = True
        self.counts["may help" if helps else "does not help"] += 1
        return helps
