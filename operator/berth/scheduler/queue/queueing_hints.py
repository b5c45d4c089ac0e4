"""Whether a change may help a pod, as the plugins say that rejected it.

The queue asks about each kind of unschedulable pod that listens to one of the change's events. A plugin is asked once a
change for all pods that are alike to it (`Plugin.hint_key`), whichever other plugins rejected them. A hint may delay a
pod, never lose it: what is not known, and a plugin that fails, count as help.

A change on one node, by which the plugins that it may satisfy let the pod on that node only (`Plugin.local_events`),
helps nobody whom another of the rejecting plugins keeps away from that node as it is now (`Plugin.admits`). That one
listens too, and is asked when it changes its mind. Plugins that rejected the pod nowhere are not asked: nothing would
tell when they change theirs.
"""

from collections import Counter
from collections.abc import Callable, Collection, Hashable, Sequence
from functools import cached_property

from berth.engine.events import Change, Event
from berth.engine.extender_result import EXTENDERS
from berth.engine.pipeline import Diagnosis, Pipeline
from berth.engine.plugin import Plugin, Query
from berth.engine.state.state import State
from berth.model import Pod
from berth.scheduler.error_log import ErrorLog


def rejecting(pipeline: Pipeline, diagnosis: Diagnosis) -> tuple[Plugin, ...]:
    """The plugins of the pipeline that turned the pod away; none, if they are not all to be found there."""
    found = tuple(plugin for plugin in (*pipeline.filters, EXTENDERS) if plugin.name in diagnosis.plugins)
    return found if {plugin.name for plugin in found} == diagnosis.plugins else ()


class QueueingHints:
    """Asks plugins with the cluster as it is now, after the change."""

    def __init__(self, state: State, faults: ErrorLog) -> None:
        self.state = state
        self._faults = faults
        self._change: Change | None = None
        self._answers: dict[tuple[str, Plugin, Hashable], bool] = {}
        self.counts: Counter[str] = Counter()

    def may_help(self, pod: Pod, plugins: Sequence[Plugin], change: Change) -> bool:
        """Whether one of the plugins that listen to the change says that it may let the pod onto a node now, and, if
        that is one node, none of them keeps the pod away from it.
        """
        if change is not self._change:
            self._change = change
            self._answers.clear()
        asked = _Asked(self, pod, change)
        local = False
        for plugin in plugins:
            if not plugin.wakes_on.isdisjoint(change.events) and asked.hint(plugin):
                if not is_local(plugin, change.events):
                    return True
                local = True
        if not local or not change.node:
            return local
        return all(asked.admits(plugin) for plugin in plugins)

    def forget(self) -> None:
        """What was said of the last change may be different by now."""
        self._change = None

    def nominated_to(self, node: str) -> Collection[str]:
        """The UIDs of the pods that wait for the node: once nobody leaves it any more, they may look elsewhere."""
        return self.state.nominated.get(node, {}).keys()

    def answer(self, what: str, plugin: Plugin, pod: Pod, ask: Callable[[], bool]) -> bool:
        """What the plugin says about all pods that are alike to it, asked once a change; True where it fails."""
        try:
            key = what, plugin, plugin.hint_key(pod)
            known = self._answers.get(key)
            if known is None:
                known = self._answers[key] = bool(ask())
        except Exception as error:
            self._faults.note("asking for a hint", f"plugin {plugin.name}", error)
            return True
        return known


class _Asked:
    """The questions about one pod and one change."""

    def __init__(self, hints: QueueingHints, pod: Pod, change: Change) -> None:
        self._hints = hints
        self._pod = pod
        self._change = change

    @cached_property
    def _query(self) -> Query:
        return Query(self._pod, self._hints.state.table)

    def hint(self, plugin: Plugin) -> bool:
        change, state = self._change, self._hints.state
        return self._hints.answer(
            "hint", plugin, self._pod, lambda: self._counted(plugin.hint(self._query, state, change))
        )

    def _counted(self, helps: bool) -> bool:
        self._hints.counts["may help" if helps else "does not help"] += 1
        return helps

    def admits(self, plugin: Plugin) -> bool:
        """Of the change's node as it is now; a node that is not there lets nobody on it."""
        state = self._hints.state
        node = state.table.node(self._change.node)
        if node is None:
            return False
        return self._hints.answer("admits", plugin, self._pod, lambda: plugin.admits(self._query, state, node))


def is_local(plugin: Plugin, events: frozenset[Event]) -> bool:
    """Whether the plugin lets a pod on a node by these events only where they happened."""
    return plugin.wakes_on & events <= plugin.local_events
