"""The planted bugs, by package: what a careless hand might make of the shipped code.

`before` is as little code as says where it is, so that a mutation lives as long as the behaviour that it breaks. When
the code is changed and a mutation does not apply any more, plant the same bug in the new code; delete it only with
the behaviour.
"""

from __future__ import annotations

from typing import Final

from mutations.running import Mutation

CLUSTER: Final = (
    Mutation(
        "an older write in the outbox replaces a newer one",
        "cluster/outbox.py",
        "self._latest.setdefault(key, item)",
        "self._latest[key] = item",
        ("tests/edge/test_outbox.py",),
    ),
    Mutation(
        "a write that is settled while it fails is tried again",
        "cluster/outbox.py",
        "if seconds is None or key in self._withdrawn:",
        "if seconds is None:",
        ("tests/edge/test_outbox.py",),
    ),
    Mutation(
        "settling does not wait for the write on its way",
        "cluster/outbox.py",
        "            await writing.wait()",
        "            return",
        ("tests/edge/test_outbox.py",),
    ),
    Mutation(
        "a write that arrived keeps its count of failures",
        "cluster/outbox.py",
        "                self._failures.pop(key, None)\n                return None",
        "                return None",
        ("tests/edge/test_outbox.py",),
    ),
    Mutation(
        "writes that waited under an earlier lead are sent under the next",
        "cluster/outbox.py",
        "        for key in list(self._active):\n            self.withdraw(key)",
        "        return",
        ("tests/edge/test_outbox.py", "tests/edge/test_conditions.py"),
    ),
    Mutation(
        "nominations that waited under an earlier lead are sent under the next",
        "cluster/conditions.py",
        '        """Another replica reports from now on."""\n        self._nominations.clear()',
        '        """Another replica reports from now on."""',
        ("tests/edge/test_conditions.py",),
    ),
    Mutation(
        "a condition is remembered as written after the lead was lost",
        "cluster/conditions.py",
        "        self._nominations.clear()\n        self._written.clear()",
        "        self._nominations.clear()",
        ("tests/edge/test_conditions.py",),
    ),
    Mutation(
        "a later nomination is taken for written with an earlier one",
        "cluster/conditions.py",
        "if self._nominations.get(uid) is nomination:",
        "if uid in self._nominations:",
        ("tests/edge/test_conditions.py",),
    ),
    Mutation(
        "the time of transition moves with every write of a condition",
        "cluster/conditions.py",
        'if uid not in self._written and (known is None or known[0] != "False"):',
        "if True:",
        ("tests/edge/test_conditions.py",),
    ),
    Mutation(
        "the proof of leadership goes on with another priority",
        "cluster/lead.py",
        "if is_confirmed and self.leadership.may_lead() and self.leadership.priority == priority:",
        "if is_confirmed and self.leadership.may_lead():",
        ("tests/edge/test_lead.py",),
    ),
    Mutation(
        "a leader opens without comparing its cache",
        "cluster/lead.py",
        "is_confirmed = await self._census.confirm(CONFIRM_SECONDS)",
        "is_confirmed = True",
        ("tests/edge/test_lead.py",),
    ),
    Mutation(
        "the fence stays open although a bind was never shown",
        "cluster/lead.py",
        "return self._is_leading and self.leadership.may_lead() and not self._is_blind()",
        "return self._is_leading and self.leadership.may_lead()",
        ("tests/edge/test_lead.py",),
    ),
    Mutation(
        "a renewal counts from when it is seen",
        "cluster/leadership.py",
        "                self._own = self._last = sent\n",
        "                self._own = self._last = (self._now(), self._wall())\n",
        ("tests/edge/test_leadership.py",),
    ),
    Mutation(
        "a record that somebody removed is out of the way at once",
        "cluster/leadership.py",
        "if identity in records or self._is_alive(other, now)",
        "if identity in records",
        ("tests/edge/test_leadership.py",),
    ),
    Mutation(
        "of two who entered at once both keep their priority",
        "cluster/leadership.py",
        "if any(not self._is_senior(identity, other.record) for identity, other in alive):",
        "if False:",
        ("tests/edge/test_leadership.py", "tests/edge/test_leadership_world.py"),
    ),
    Mutation(
        "every occurrence of an event is written",
        "cluster/events.py",
        "if known.count == 2 or now - known.written_seconds >= REWRITE_SECONDS:",
        "if True:",
        ("tests/edge/test_events.py",),
    ),
    Mutation(
        "an event that was dropped begins a series",
        "cluster/events.py",
        "        if self._enqueue(record):\n            self._remember(key, record)",
        "        self._enqueue(record)\n        self._remember(key, record)",
        ("tests/edge/test_events.py",),
    ),
    Mutation(
        "all that is due after an outage is released at once",
        "cluster/delays.py",
        "<= self._clock.now() and released < AT_ONCE",
        "<= self._clock.now()",
        ("tests/edge/test_delays.py",),
    ),
)

SCHEDULER: Final = (
    Mutation(
        "a bind that is expected again keeps its old place among the echoes",
        "scheduler/echoes.py",
        "        self._since.pop(uid, None)  # the oldest are the first\n",
        "",
        ("tests/scheduler/test_echoes.py", "tests/scheduler/test_standing_by.py"),
    ),
    Mutation(
        "a pod that was settled while it was read is settled again",
        "scheduler/echoes.py",
        "if self._cache.assumed().get(uid) is held:",
        "if True:",
        ("tests/scheduler/test_echoes.py",),
    ),
    Mutation(
        "a nomination is always shown as the pod has it",
        "scheduler/nominations.py",
        "shown = pod.nominated_node_name if before is None else before.shown",
        "shown = pod.nominated_node_name",
        ("tests/scheduler/test_nominations.py",),
    ),
    Mutation(
        "an older report takes a nomination back",
        "scheduler/nominations.py",
        "shown >= decision.version:",
        "True:",
        ("tests/scheduler/test_nominations.py",),
    ),
    Mutation(
        "the answer to an earlier nomination counts for a later one",
        "scheduler/nominations.py",
        "if decision is not None and decision.number == number:",
        "if decision is not None:",
        ("tests/scheduler/test_nominations.py",),
    ),
    Mutation(
        "own evictions stop counting at once",
        "scheduler/disruptions.py",
        "if passed >= MOST_SECONDS or (passed >= LEAST_SECONDS and self._are_written(leaver)):",
        "if True:",
        ("tests/scheduler/test_preempting.py", "tests/scheduler/test_preempting_in_disorder.py"),
    ),
    Mutation(
        "own evictions stop counting before the budgets are written",
        "scheduler/disruptions.py",
        "(passed >= LEAST_SECONDS and self._are_written(leaver))",
        "passed >= LEAST_SECONDS",
        ("tests/scheduler/test_preempting.py", "tests/scheduler/test_preempting_in_disorder.py"),
    ),
    Mutation(
        "a retry forgets its attempts",
        "scheduler/binding.py",
        "self._intake.give_back(pod.uid, item.attempts, item.queued)",
        "self._intake.give_back(pod.uid, queued=item.queued)",
        ("tests/scheduler/test_binding.py", "tests/scheduler/test_attempts.py"),
    ),
    Mutation(
        "a retry forgets since when its pod has waited",
        "scheduler/binding.py",
        "self._intake.give_back(pod.uid, item.attempts, item.queued)",
        "self._intake.give_back(pod.uid, item.attempts)",
        ("tests/scheduler/test_binding.py", "tests/scheduler/test_measures.py"),
    ),
    Mutation(
        "an acknowledged bind is not expected anew",
        "scheduler/binding.py",
        "        self._cache.confirm(pod.uid)\n        self._echoes.expect(pod.uid)",
        "        self._cache.confirm(pod.uid)",
        ("tests/scheduler/test_echoes.py", "tests/scheduler/test_standing_by.py", "tests/scheduler/test_binding.py"),
    ),
    Mutation(
        "the log of changes answers with what is left of it",
        "scheduler/change_log.py",
        "        if missed > len(self._changes):\n            return None\n",
        "",
        ("tests/scheduler/test_change_log.py",),
    ),
    Mutation(
        "a victim that is gone is evicted again",
        "scheduler/evicting.py",
        "if victim.uid not in self._state.table.pods_on(push.node):",
        "if False:",
        ("tests/scheduler/test_preempting.py", "tests/scheduler/test_preempting_in_disorder.py"),
    ),
    Mutation(
        "two preemptors evict the same victim twice",
        "scheduler/evicting.py",
        "                if leaver.is_done:\n                    return\n",
        "",
        ("tests/scheduler/test_preempting.py", "tests/scheduler/test_preempting_in_disorder.py"),
    ),
    Mutation(
        "a preemptor whose victims are gone already is not tried",
        "scheduler/evicting.py",
        "self._queue.wake_pod(item.uid)  # nobody is left",
        "pass  # nobody is left",
        ("tests/scheduler/test_preempting.py", "tests/scheduler/test_preempting_in_disorder.py"),
    ),
    Mutation(
        "a repeated report with the same version is taken for old",
        "scheduler/versions.py",
        "return unknown if one is None or other is None else one > other",
        "return unknown if one is None or other is None else one >= other",
        ("tests/scheduler/test_versions.py",),
    ),
)

ENGINE: Final = (
    Mutation(
        "a volume that is being deleted counts as free",
        "engine/volume_shelf.py",
        "if volume is None or volume.deleting:",
        "if volume is None:",
        ("tests/engine/test_volume_binding.py",),
    ),
    Mutation(
        "the last of several reservations of a claim does not count",
        "engine/volume_shelf.py",
        "return by_uid[next(reversed(by_uid))]",
        "return by_uid[next(iter(by_uid))]",
        ("tests/engine/test_volume_binding.py",),
    ),
    Mutation(
        "a volume that is kept for a namesake of the claim is taken",
        "engine/volume_shelf.py",
        'return reference is not None and reference.uid in ("", claim.uid)',
        "return reference is not None",
        ("tests/engine/test_volume_binding.py",),
    ),
    Mutation(
        "capacity of a place that has gone stays known",
        "engine/storage_space.py",
        "            del self.values[value]\n        self._stale.add(value)",
        "            del self.values[value]\n            return\n        self._stale.add(value)",
        ("tests/engine/test_volume_binding.py",),
    ),
    Mutation(
        "a volume's number used again keeps its place",
        "engine/free_volumes.py",
        "        self._value_ids[number] = _NOT_LOOKED_UP  # it may have been the number of another place\n",
        "",
        ("tests/engine/test_volume_binding.py",),
    ),
    Mutation(
        "a label's values are looked up once",
        "engine/free_volumes.py",
        "            self._value_ids[self._value_ids == _UNKNOWN] = _NOT_LOOKED_UP\n",
        "            pass\n",
        ("tests/engine/test_volume_binding.py",),
    ),
)

MUTATIONS: Final = (*CLUSTER, *SCHEDULER, *ENGINE)
