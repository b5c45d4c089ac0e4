"""Queueing hints: whether an event may help a pod, as the plugins say that rejected it.

The queue asks about each group of unschedulable pods that listens to one of the change's events. A plugin is asked once
per change for all pods that are equal to it (`Plugin.hint_key`), whichever other plugins rejected them. A hint may
delay a pod but never lose it: missing details and a plugin that fails count as "may help".

If a change on one node can satisfy the plugins on that node only (`Plugin.local_events`), it does not help a pod that
another of the rejecting plugins still rejects on that node (`Plugin.admits`). That plugin listens to events too, and is
asked when one concerns it. Plugins that did not reject the pod are not asked: the pod does not listen to their events.
"""

from collections import Counter
from collections.abc import Callable, Collection, Hashable, Sequence
from functools import cached_property

from berth.engine.diagnosis import Diagnosis
from berth.engine.events import Change, Event
from berth.engine.extender_result import EXTENDERS
from berth.engine.pipeline import Pipeline
from berth.engine.plugin import FilterPlugin, Query
from berth.engine.state.state import State
from berth.model import Pod
from berth.scheduler.error_log import ErrorLog


def rejecting(pipeline: Pipeline, diagnosis: Diagnosis) -> tuple[FilterPlugin, ...]:
    """The plugins of the pipeline that rejected the pod; empty if one of them is not found there."""
    found = tuple(plugin for plugin in (*pipeline.filters, EXTENDERS) if plugin.name in diagnosis.plugins)
    return found if {plugin.name for plugin in found} == diagnosis.plugins else ()


class QueueingHints:
    """Asks plugins on the current cluster, after the change."""

    def __init__(self, state: State, errors: ErrorLog) -> None:
        self.state = state
        self._errors = errors
        self._change: Change | None = None
        self._answers: dict[tuple[str, FilterPlugin, Hashable], bool] = {}
        self.counts: Counter[str] = Counter()

    def may_help(self, pod: Pod, plugins: Sequence[FilterPlugin], change: Change) -> bool:
        """Whether a plugin that listens to the change says that it may help the pod. If it helps on one node only, no
        plugin may reject the pod on that node.
        """
        if change is not self._change:
            self._change = change
            self._answers.clear()
        asked = _Asked(self, pod, change)
        local = False
        for plugin in plugins:
            if not plugin.retry_events.isdisjoint(change.events) and asked.hint(plugin):
                if not is_local(plugin, change.events):
                    return True
                local = True
        if not local or not change.node:
            return local
        return all(asked.admits(plugin) for plugin in plugins)

    def forget(self) -> None:
        """Drop the cached answers: the cluster may have changed."""
        self._change = None

    def nominated_to(self, node: str) -> Collection[str]:
        """The UIDs of the pods nominated to the node: once no pod terminates there, they may look elsewhere."""
        return self.state.nominated.get(node, {}).keys()

    def answer(self, what: str, plugin: FilterPlugin, pod: Pod, ask: Callable[[], bool]) -> bool:
        """The plugin's answer for all pods that are equal to it, cached per change; True if the plugin fails."""
        try:
            key = what, plugin, plugin.hint_key(pod)
            known = self._answers.get(key)
            if known is None:
                known = self._answers[key] = bool(ask())
        except Exception as error:
            self._errors.note("asking for a hint", f"plugin {plugin.name}", error)
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

    def hint(self, plugin: FilterPlugin) -> bool:
        change, state = self._change, self._hints.state
        return self._hints.answer(
            "hint", plugin, self._pod, lambda: self._counted(plugin.hint(self._query, state, change))
        )

    def _counted(self, helps: bool) -> bool:
        self._hints.counts["may help" if helps else "does not help"] += 1
        return helps

    def admits(self, plugin: FilterPlugin) -> bool:
        """Whether the plugin admits the pod to the current node of the change; False if the node does not exist."""
        state = self._hints.state
        node = state.table.node(self._change.node)
        if node is None:
            return False
        return self._hints.answer("admits", plugin, self._pod, lambda: plugin.admits(self._query, state, node))


def is_local(plugin: FilterPlugin, events: frozenset[Event]) -> bool:
    """Whether these events can satisfy the plugin only on the node where they happened."""
    return plugin.retry_events & events <= plugin.local_events
