"""Whatever happens to whatever cluster: if a pod fits afterwards, one of the plugins that refused it has said so.

Where pods could be preempted, a plugin says so too, of its own part in it. What the plugins say that did not refuse
the pod, because another did before them, is found out when it is tried again, here as in kube-scheduler.

Small clusters of every theme, in which the pod is refused; then changes of every kind: objects that come, go, change
into other versions of themselves, pods that are nominated and give up. A fresh decision after each change says whether
it helps. Judged at once, as an unschedulable pod is woken, and judged later, with everything that happened meanwhile
in the log, as an attempt is that was under way. An unschedulable pod is asked about only where the change finds it, by
what the plugins said of it when it was refused.
"""

import copy
import os
from collections.abc import Collection, Iterator
from functools import cache as cached
from random import Random
from typing import Any

import pytest

from berth.engine.diagnosis import Diagnosis
from berth.engine.events import Change
from berth.engine.pipeline import Pipeline, Placement
from berth.engine.plugin import FilterPlugin, Query
from berth.engine.preemption.preemption import Preemption
from berth.engine.registry import PLUGINS
from berth.model import Pod, object_key, parse_pod
from berth.policy import import_configuration, load_policy
from berth.scheduler import Cache
from berth.scheduler.cache.changes import Changes
from berth.scheduler.error_log import ErrorLog
from berth.scheduler.queue.queued_pod import QueuedPod
from berth.scheduler.queue.queueing_hints import QueueingHints, rejecting
from berth.scheduler.queue.unschedulable import UnschedulablePods, profile_of
from conformance.oracle.generator import current_cases
from engine.expecting import make_filter
from engine.worlds import NEEDED_ARGUMENTS
from support.examples import examples

SEEDS = 300 if os.environ.get("CI") else examples(24)
CASES_A_THEME = 6
NODES_A_CASE = 3
LIVES = 12
CHANGES = 10

Body = dict[str, Any]

OLD_FILTERS = [name for name, kind in PLUGINS.items() if kind.filters and "legacy" in kind.__module__]


@cached
def pool() -> list[Body]:
    return list(current_cases("hints", CASES_A_THEME, NODES_A_CASE))


class Life:
    """One cluster, one pod that waits, and what happens to them."""

    def __init__(self, random: Random, theme: str = "") -> None:
        self.random = random
        self.case = random.choice([case for case in pool() if case["id"].startswith(theme)])
        alike = self.case["id"].rpartition("-")[0]
        self.others = [case for case in pool() if case["id"].startswith(alike)]
        self.cache = Cache()
        self.bodies: dict[tuple[str, str], Body] = {}
        self.version = 0
        self.pod = self._pod()
        self.pipeline = self._pipeline()
        self.faults = ErrorLog()
        for body in self.case["objects"]:
            if random.random() < 0.8:
                self.put(body)

    def _pod(self) -> Pod:
        body = copy.deepcopy(self.case["pod"])
        body["metadata"] |= {"uid": "the-pod", "name": "the-pod"}
        body["spec"]["priority"] = self.random.choice([0, 50, 1_000_000])
        return parse_pod(body)

    def _pipeline(self) -> Pipeline:
        pipeline = load_policy(import_configuration(self.case["config"]).manifests[0]).pipeline
        if self.random.random() < 0.7:
            return pipeline
        old = self.random.sample(OLD_FILTERS, 3)
        return Pipeline([*pipeline.filters, *(make_filter(name, NEEDED_ARGUMENTS.get(name, {})) for name in old)], [])

    def decide(self) -> Placement | Diagnosis:
        fresh = Pipeline(self.pipeline.filters, [])  # nothing is kept from earlier decisions
        return fresh.decide(self.pod, self.cache.state, Random(0))

    def pushes(self, plugin: FilterPlugin) -> bool | None:
        """Whether there is a node on which pods could be preempted for the pod, if it was for this plugin alone."""
        alone, query, state = Pipeline([plugin], []), Query(self.pod, self.cache.state.table), self.cache.state
        survey = alone.survey(query, state)
        if survey.failed is not None or survey.fits.any():
            return None  # it need not
        return survey.stopped_by is None and bool(Preemption().candidates(alone, query, survey, state))

    def change(self) -> Changes:
        """Something happens to one object."""
        pick = self.random.random()
        if pick < 0.35 and self.bodies:
            place = self.random.choice(sorted(self.bodies))
            return self.cache.remove(place[0], self._stamped(self.bodies.pop(place)))
        if pick < 0.6 and self.bodies:
            variants = list(altered(self.bodies[self.random.choice(sorted(self.bodies))], self.random))
            return self.put(self.random.choice(variants))
        return self.put(self.random.choice(self.random.choice(self.others)["objects"]))

    def put(self, body: Body) -> Changes:
        """A new object, or a new version of the one of that name; of a pod's spec, next to nothing ever changes."""
        place = (body["kind"], object_key(body))
        before = self.bodies.get(place)
        body = copy.deepcopy(body)
        body["metadata"]["uid"] = f"{place[0]}-{place[1]}"
        if body["kind"] == "Pod":
            if before is not None:
                body["spec"] = next_spec(before["spec"], body["spec"])
            elif self.random.random() < 0.2 and body["spec"].get("nodeName"):
                nominated = body["spec"].pop("nodeName")
                body["status"] = {"nominatedNodeName": nominated}
                body["spec"]["priority"] = 2_000_000
        self.bodies[place] = self._stamped(body)
        return self.cache.observe(body["kind"], self.bodies[place])

    def _stamped(self, body: Body) -> Body:
        self.version += 1
        return {**body, "metadata": {**body["metadata"], "resourceVersion": str(self.version)}}

    def helps(self, refused: Diagnosis, changes: Changes, only: FilterPlugin | None = None) -> bool:
        """Whether the pod would be woken, by all plugins that refused it or only by one of them."""
        plugins = rejecting(self.pipeline, refused) if only is None else (only,)
        listening = [change for change in changes if change.events & refused.retry_events]
        if not plugins:
            return bool(listening)
        hints = QueueingHints(self.cache.state, self.faults)
        return any(hints.may_help(self.pod, plugins, change) for change in listening)

    def park(self, refused: Diagnosis, only: FilterPlugin | None = None) -> UnschedulablePods:
        """The pod as the queue keeps it."""
        plugins = rejecting(self.pipeline, refused) if only is None else (only,)
        retry_events = refused.retry_events if only is None else only.retry_events
        profile = profile_of(self.pod, retry_events, plugins, self.cache.state)
        unschedulable = UnschedulablePods()
        unschedulable.add(
            QueuedPod(self.pod, 0, 0.0, retry_events=retry_events, plugins=plugins, profile=profile), (0.0,)
        )
        return unschedulable

    def changes(self, kept: Collection[UnschedulablePods], late: bool) -> list[Changes]:
        """Something happens, or several things: all changes, and of each of the kept those that find its pod."""
        told: list[list[Change]] = [[], *([] for _ in kept)]
        for _ in range(self.random.randint(2, 5) if late else 1):
            changes = self.change()
            told[0] += changes
            for unschedulable, found in zip(kept, told[1:], strict=True):
                found += (change for change in changes if any(unschedulable.concerned(change, self.cache.state)))
        return [tuple(changes) for changes in told]


def next_spec(before: Body, wanted: Body) -> Body:
    """What can become of a pod's spec: it is bound, or its containers get other resources."""
    spec = copy.deepcopy(before)
    if not spec.get("nodeName") and wanted.get("nodeName"):
        spec["nodeName"] = wanted["nodeName"]
    for container, other in zip(spec["containers"], wanted["containers"], strict=False):
        container["resources"] = other.get("resources", {})
    return spec


def altered(body: Body, random: Random) -> Iterator[Body]:
    """The object with one part less, or one that differs in what objects of its kind are known to change in."""
    yield body
    for section in ("metadata", "status") if body["kind"] == "Pod" else ("metadata", "spec", "status"):
        for part in body.get(section) or {}:
            if part not in ("name", "namespace", "uid", "resourceVersion"):
                less = copy.deepcopy(body)
                del less[section][part]
                yield less
    other = copy.deepcopy(body)
    if body["kind"] == "Pod":
        other["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
        yield copy.deepcopy(other)
        del other["metadata"]["deletionTimestamp"]
        for container in other["spec"]["containers"]:
            container.pop("resources", None)
        yield other
    elif body["kind"] == "Node":
        for resource in other["status"].get("allocatable", {}):
            more = copy.deepcopy(other)
            more["status"]["allocatable"][resource] = random.choice(["0", "1", "64Gi", "1000"])
            yield more
        other["spec"]["unschedulable"] = not other["spec"].get("unschedulable", False)
        yield other


def flips_of(seed: int, late: bool) -> int:
    """How often changes made a refused pod fit; each time, a plugin must have said that they may."""
    random, flips = Random(seed), 0
    for _ in range(LIVES):
        life = Life(random)
        for _ in range(CHANGES):
            refused = life.decide()
            changes, found = life.changes(
                [life.park(refused) if isinstance(refused, Diagnosis) else UnschedulablePods()], late
            )
            if not isinstance(refused, Diagnosis) or refused.error:
                continue
            if isinstance(life.decide(), Placement):
                flips += 1
                for told in (changes, found):
                    assert life.helps(refused, told), f"{seed} {life.case['id']}: {refused.message}: {changes}"
        assert not life.faults.counts
    return flips


def pushes_of(seed: int, late: bool) -> int:
    """How often changes let a plugin's refusals be pushed aside; each time, it must have said that they may help."""
    random, flips = Random(seed), 0
    for _ in range(LIVES):
        life = Life(random, "preempt")
        for _ in range(CHANGES):
            refused = life.decide()
            plugins = rejecting(life.pipeline, refused) if isinstance(refused, Diagnosis) else ()
            hopeless = [plugin for plugin in plugins if plugin.dependencies.reads_pods and life.pushes(plugin) is False]
            alone = {plugin: life.park(refused, plugin) for plugin in hopeless if isinstance(refused, Diagnosis)}
            changes, *found = life.changes(alone.values(), late)
            for plugin, finding in zip(hopeless, found, strict=True):
                if life.pushes(plugin) and any(change.events & plugin.retry_events for change in changes):
                    flips += 1
                    assert isinstance(refused, Diagnosis)
                    for told in (changes, finding):
                        said = life.helps(refused, told, plugin)
                        assert said, f"{seed} {life.case['id']} {plugin.name}: {refused.message}: {changes}"
    return flips


@pytest.mark.parametrize("late", [False, True], ids=["at once", "later"])
def test_a_pod_that_may_push_others_out_after_a_change_is_woken_by_it(late: bool) -> None:
    assert sum(pushes_of(seed, late) for seed in range(SEEDS)) > 0


@pytest.mark.parametrize("late", [False, True], ids=["at once", "later"])
def test_a_pod_that_fits_after_a_change_is_woken_by_it(late: bool) -> None:
    assert sum(flips_of(seed, late) for seed in range(SEEDS)) > SEEDS
