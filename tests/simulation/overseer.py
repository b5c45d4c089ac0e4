"""Stands beside one Berth: is told what it is told, sees what it decides and writes, and checks it after every step.

It puts itself around a few methods of the shipped objects (what the cluster says, what is assumed and given back, where
a pod is put in the queue). None of them is changed: each is called as it was called, once.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any

import orjson

from berth.cluster.errors import ApiError
from berth.engine.diagnosis import Diagnosis
from berth.engine.events import Change, Event
from berth.engine.state.volume_reservations import VolumePlan
from berth.model import Pod, object_key, parse_pod
from berth.runtime import Runtime
from berth.scheduler.cache.cache import Cache
from berth.scheduler.object_events import ObjectEvent
from berth.scheduler.queue.queue import Part, QueuedPod
from berth.sim.resources import PODS
from reference.engine import feasible
from reference.profile import Profile
from simulation.columns import differences
from simulation.knowledge import Body, Knowledge, Nomination, Parser
from simulation.network import Request
from simulation.policies import allows, reference_profile
from simulation.pushing import Pushing
from simulation.recording import RecordingStore
from simulation.trace import Trace

TOLERANCE_SECONDS = 1e-6
REFUSALS_A_CHECK = 3  # there are ten times as many as placements
PENDING = "pending"
ECHO_SECONDS = 45.0  # 30 until it is late, 5 until it is looked for, and some for an answer


class Overseer:
    """Of one process. `first_version`: of its first list of pods, 0 before it."""

    def __init__(
        self,
        name: str,
        runtime: Runtime,
        store: RecordingStore,
        trace: Trace,
        parse: Parser,
        bound: dict[str, tuple[str, int]],
        first_version: Callable[[], int],
        allowed: Mapping[str, frozenset[str]],
        now: Callable[[], float],
    ) -> None:
        self.name = name
        self.runtime = runtime
        self.knowledge = Knowledge(parse)
        self.attempts: Counter[str] = Counter()
        self.decisions = 0
        self._refusals = 0
        self.store = store
        self._trace = trace
        self._bound = bound  # by UID: who bound it, and in which version of the store
        self._first_version = first_version
        self._allowed = allowed
        self._now = now
        self._scheduler = runtime.components.scheduler
        self._loop = runtime.components.loop
        self.intake = self._loop.intake
        self.cache: Cache = runtime.components.cache
        self.queue = runtime.components.queue
        self._resources = {resource.kind: resource for resource in runtime.resources}
        self._lead_version = 0  # of the store, when it last began to lead
        self._touched: dict[str, None] = {}
        self._forgotten: set[str] = set()
        self._open: dict[str, str] = {}  # assumptions by UID: the node
        self._decided: dict[str, str] = {}
        self._acknowledged: set[str] = set()
        self._owed: dict[str, float] = {}  # binds that the watch has not shown: when the API server said yes
        self._under_way: set[str] = set()
        self._sent: set[Request] = set()  # binds without an answer
        self._beside_binds = 0  # events that were sent while binds were under way
        self._unsure: dict[str, str] = {}  # by UID: the key of a pod that may be bound, since a bind of it was sent
        self._not_before: dict[str, float] = {}
        self._lent: dict[str, set[Event]] = {}  # UIDs that wait for a permit: what has happened meanwhile
        self._recalled: set[str] = set()  # of those, who has missed something that may help
        self._changed = False  # the pod that is being told of is unschedulable, and asks for something else
        self._deciding: Any = None
        self._profiles: dict[int, tuple[Any, Profile]] = {}
        self.pushing = Pushing(name, runtime, self.knowledge, trace, self._newest, self._profile)
        self._stand_between()

    def _stand_between(self) -> None:
        intake, cache, queue = self.intake, self.cache, self.queue
        _around(intake, "on_event", self._before_event)
        _around(intake, "observe_pod", self._before_observe_pod, self._after_observe_pod)
        _around(intake, "assume", self._before_assume, self._after_assume)
        _around(cache, "forget", self._before_forget)
        _around(cache, "confirm", self._before_confirm)
        _around(queue, "_enter", self._before_enter)
        _around(queue, "_leave", lambda item: self._touch(item.uid))
        _around(queue, "remove", lambda uid: self._not_before.pop(uid, None))
        _around(queue, "_start_over", lambda *_: self._not_before.clear())  # under other policies
        _around(self._loop.cycle, "_reject", self._before_reject)
        preempting = self._loop.preempting
        _around(preempting, "_preempt", self._before_preempt, self.pushing.after_preempt)
        _around(self._loop.evicting, "_end", _nothing, self.pushing.after_end)
        _around(queue, "lend", self._before_lend)
        _around(queue, "write_off", lambda uid: self._lent.pop(uid, None))
        _around(queue, "recall", self._before_recall)
        _around(queue, "put_back_unschedulable", _nothing, self._after_park_again)
        _around(queue._log, "note", self._before_note)
        _around(queue, "fail", self._before_fail)
        _around(queue, "retry", self._before_retry)
        _around(cache, "nominate", _nothing, self._after_nominate)
        _around(cache, "nomination_written", self._before_nomination_written)
        _around(self._loop.volumes, "reserve", self._before_volumes_reserved)
        _around(self._loop.volumes, "release", self._before_volumes_released)
        _around(cache, "take_back_nominations", self.knowledge.nominations.clear)
        _around(self._scheduler, "take_over", self._before_take_over)
        _around(runtime_usage(self.runtime), "decided", self._before_decided)

    # --- what it is told ---------------------------------------------------------------------------------------------

    def _before_event(self, event: ObjectEvent) -> None:
        if event.is_removal:
            self._before_remove(event)
        elif event.kind != "Pod":  # pods come through `observe_pod`
            self._observe(event.kind, event.body)

    def _before_observe_pod(self, event: ObjectEvent) -> None:
        uid = event.identity.uid
        before = self.knowledge.pod(uid)
        unschedulable = before is not None and self.queue.part_of(uid) is Part.UNSCHEDULABLE
        self._observe("Pod", event.body)
        now = self.knowledge.pod(uid)
        self._changed = unschedulable and now is not None and _tolerations(now) != _tolerations(before or {})

    def _after_observe_pod(self, _: object, event: ObjectEvent) -> None:
        """Invariant 10: an unschedulable pod that asks for something else is tried again."""
        uid, key, _ = event.identity
        if self._changed and self.queue.part_of(uid) is Part.UNSCHEDULABLE:
            self._trace.violate("10 liveness", f"{key} tolerates more than before, and is not tried again", key, uid)

    def _observe(self, kind: str, body: Body) -> None:
        namesake = self.knowledge.names.get(kind, {}).get(object_key(body))
        if kind == "Pod" and namesake is not None:
            self._touch(namesake)  # whom this one may succeed
        if self.knowledge.observe(kind, body):
            self._trace.note(
                f"{self.name} hears of {kind} {object_key(body)} v{body['metadata']['resourceVersion']}",
                object_key(body),
                body["metadata"]["uid"],
            )
        if kind == "Pod":
            self._touch(body["metadata"]["uid"])

    def _before_remove(self, event: ObjectEvent) -> None:
        kind, (uid, key, version) = event.kind, event.identity
        if uid in self.knowledge.objects.get(kind, {}) and self._is_there(kind, uid):
            self._trace.violate("17 lists", f"{kind} {key} is taken for gone, and is there", key, uid)
        self.knowledge.remove(kind, uid, version or 0, told=event.reported_by_watch)
        self._trace.note(f"{self.name} hears that {kind} {key} is gone", key, uid)
        if kind == "Pod":
            self._touch(uid)

    def _is_there(self, kind: str, uid: str) -> bool:
        """In the store, as one that is watched: finished pods are not."""
        resource = self._resources[kind]
        found = self.store.find(resource.group, resource.version, resource.plural)
        bodies = [] if found is None else self.store.list(found, field_selector=resource.field_selector).items
        return any(body["metadata"]["uid"] == uid for body in bodies)

    def _touch(self, uid: str) -> None:
        self._touched[uid] = None

    # --- what it decides ---------------------------------------------------------------------------------------------

    def _before_decided(self, active: Any, *_: object) -> None:
        self._deciding = active

    def _before_assume(self, pod: Pod, node_name: str, *_: object) -> None:
        """Invariants 3, 4 and 9, on what was known at this moment."""
        self.decisions += 1
        self._trace.note(f"{self.name} decides: {pod.key} ({pod.uid[:8]}) to {node_name}", pod.key, pod.uid, node_name)
        self._check_wanted(pod)
        self._check_policy(pod)
        profile = self._profile()
        world = self.knowledge.world(without=pod.uid)
        if node_name not in feasible(world, profile, self._newest(pod)) or not self._is_let(pod, node_name, world):
            refused = "is not known" if node_name not in world.nodes else "does not take it by the reference"
            self._trace.violate("4 filters", f"{pod.key} was given {node_name}, which {refused}", pod.key, node_name)

    def _is_let(self, pod: Pod, node_name: str, world: Any) -> bool:
        """Whether the policy's own rules, which the reference does not know, let the pod onto the node."""
        policy = self._deciding.policy
        if policy.extenders and node_name not in self._allowed.get(pod.uid, ()):
            return False
        return allows(policy, world.nodes[node_name])

    def _newest(self, pod: Pod) -> Pod:
        body = self.knowledge.pod(pod.uid)
        newest = None if body is None else self.knowledge.parse("Pod", body)
        return newest if isinstance(newest, Pod) else pod

    def _check_wanted(self, pod: Pod) -> None:
        body = self.knowledge.pod(pod.uid)
        problem = ""
        if body is None:
            problem = "is gone"
        elif body["metadata"].get("deletionTimestamp"):
            problem = "is being deleted"
        elif body["spec"].get("schedulingGates"):
            problem = "is gated"
        elif body["spec"].get("nodeName"):
            problem = "is bound"
        elif not self.knowledge.is_ours(body):
            problem = "is for another scheduler"
        if problem:
            self._trace.violate("3 right pod", f"{pod.key} was given a node and {problem}", pod.key, pod.uid)

    def _check_policy(self, pod: Pod) -> None:
        policy = self._deciding.policy
        try:
            good = self.knowledge.policy_of(self._newest(pod))
        except LookupError:
            self._trace.violate("9 generation", f"{pod.key}: no policy decides for it", pod.key)
            return
        wanted = ("", 0) if good is None else (good.uid, good.generation)
        if (policy.uid, policy.generation) != wanted:
            said = f"policy {policy.name} generation {policy.generation} decided, {wanted} is in force"
            self._trace.violate("9 generation", f"{pod.key}: {said}", pod.key)

    def _profile(self) -> Profile:
        active = self._deciding
        kept = self._profiles.get(id(active))
        if kept is None or kept[0] is not active:
            kept = self._profiles[id(active)] = (active, reference_profile(active.policy))
        return kept[1]

    def _after_assume(self, _: object, pod: Pod, node_name: str, *__: object) -> None:
        self.knowledge.assumed[pod.uid] = (pod, node_name)
        self._decided[pod.uid] = node_name
        self._touch(pod.uid)
        if pod.uid in self._open:
            self._trace.violate("6 assumptions", f"{pod.key} is assumed twice", pod.key, pod.uid)
        self._open[pod.uid] = node_name

    def _before_forget(self, uid: str) -> None:
        if uid in self._open:
            self._trace.note(f"{self.name} gives the room of {uid[:8]} back", uid, self._open[uid])
            if uid in self._unsure:
                self._trace.violate(
                    "6 assumptions",
                    f"the room of {self._unsure[uid]} is given back, and nobody has looked whether it is bound",
                    uid,
                    self._unsure[uid],
                )
        self._forgotten.add(uid)
        self._owed.pop(uid, None)
        self.knowledge.assumed.pop(uid, None)
        self._touch(uid)

    @property
    def leads(self) -> bool:
        return self.runtime.leader is None or self.runtime.leader.is_leading

    def _before_take_over(self) -> None:
        """From now on it decides: whatever other replicas have bound, it has been shown."""
        self._trace.note(f"{self.name} leads")
        self._lead_version = self.store.revision

    def _after_nominate(self, number: int | None, uid: str, node_name: str) -> None:
        body = self.knowledge.pod(uid)
        if number is not None and body is not None:
            self._trace.note(f"{self.name} nominates {object_key(body)} to {node_name or 'no node'}", uid, node_name)
            if self.leads:  # a standby decides nothing: what the cluster says goes on to hold
                self.knowledge.nominations[uid] = Nomination(number, node_name)
            self._touch(uid)

    def _before_nomination_written(self, uid: str, number: int, version: str) -> None:
        ours = self.knowledge.nominations.get(uid)
        if ours is not None and ours.number == number:
            ours.version = int(version)

    def _before_preempt(self, item: Any, pod: Pod, *rest: Any) -> None:
        self.pushing.before_preempt(item, pod, *rest)
        self._touch(pod.uid)

    def _before_confirm(self, uid: str) -> None:
        self._acknowledged.add(uid)
        self.knowledge.confirm(uid)
        self._owed[uid] = self._now()

    # --- volumes -----------------------------------------------------------------------------------------------------

    def _before_volumes_reserved(self, pod: Pod, plan: VolumePlan, *_: object) -> None:
        """Invariant 21: no volume is reserved for two claims, and no claim for two nodes."""
        for other in self.knowledge.plans.values():
            for claim, volume in plan.bindings:
                twice = [theirs for theirs, same in other.bindings if same.name == volume.name]
                if any(theirs.uid != claim.uid for theirs in twice):
                    said = f"{volume.name} is reserved for {claim.namespace}/{claim.name}, and for {twice[0].name}"
                    self._trace.violate("21 volumes", said, pod.key, volume.name)
            for claim in plan.provisions:
                if other.node != plan.node and any(theirs.uid == claim.uid for theirs in other.provisions):
                    said = f"claim {claim.name} is to be made for {plan.node}, and for {other.node}"
                    self._trace.violate("21 volumes", said, pod.key, plan.node, other.node)
        self.knowledge.plans[pod.uid] = plan

    def _before_volumes_released(self, uid: str, outcome: str, **_: object) -> None:
        if self.knowledge.plans.pop(uid, None) is not None:
            self._trace.note(f"{self.name} releases what is reserved for {uid[:8]}: {outcome}", uid)

    def _check_reserved(self) -> None:
        """Invariant 21: what is reserved is for a pod that has its room and waits for its volumes."""
        held = self.cache.assumed()
        for uid in {*self.cache.state.volumes.reservations.plans, *self.knowledge.plans}:
            if uid not in held or uid not in self._loop.binding_cycle:
                self._trace.violate("21 volumes", f"volumes are reserved for {uid}, which has given up", uid)

    # --- where it puts pods ------------------------------------------------------------------------------------------

    def _before_enter(self, item: Any, part: Part, *_: object) -> None:
        uid = item.uid
        self._touch(uid)
        if part is not Part.IN_FLIGHT:
            return
        self.attempts[uid] += 1
        if self._now() < self._not_before.get(uid, 0.0) - TOLERANCE_SECONDS:
            due = self._not_before[uid]
            self._trace.violate(
                "12 retries", f"{item.pod.key} is tried before its backoff ends at {due:.3f}", item.pod.key
            )

    def _before_reject(self, item: Any, *rest: object) -> None:
        """Invariant 13: a pod is turned away only where nothing takes it, on what was known."""
        if any(isinstance(one, Diagnosis) and one.error for one in rest):
            return
        record = self._newest(item.pod)
        self._trace.note(f"{self.name} finds no node for {record.key}", record.key, item.uid)
        try:
            self.knowledge.policy_of(record)
        except LookupError:
            return
        if self._deciding.policy.extenders:
            return  # what was allowed was allowed before
        self._refusals += 1
        if self._refusals % REFUSALS_A_CHECK:
            return
        world = self.knowledge.world(without=item.uid)
        found = [
            name
            for name in feasible(world, self._profile(), record)
            if allows(self._deciding.policy, world.nodes[name])
        ]
        if found:
            self._trace.violate("13 refusals", f"{record.key} was turned away, and fits on {found}", record.key, *found)

    def _before_fail(self, item: Any, backoff: Any = None) -> None:
        if self.queue.is_in_flight(item):
            self._trace.note(f"{self.name} fails with {item.pod.key}", item.pod.key, item.uid)
            if not item.outdated:  # else other policies are in force since it began
                self._back_off(item.uid, item.attempts, backoff or item.backoff)

    def _before_retry(self, pod: Pod, attempts: int, backoff: Any = None, *_: object) -> None:
        if self.queue.part_of(pod.uid) is None and backoff is not None:
            self._back_off(pod.uid, attempts, backoff)

    def _back_off(self, uid: str, attempts: int, backoff: Any) -> None:
        seconds = backoff.first_backoff_seconds
        for _ in range(attempts - 1):
            seconds = min(2 * seconds, backoff.longest_backoff_seconds)
        self._not_before[uid] = self._now() + seconds

    # --- who waits for a permit --------------------------------------------------------------------------------------

    def _before_lend(self, item: Any) -> None:
        self._lent[item.uid] = set()

    def _before_note(self, change: Change) -> None:
        """For everybody but the pod whose own room it is about."""
        uid = getattr(change.new or change.old, "uid", None)
        for waiting, events in self._lent.items():
            if waiting != uid:
                events |= change.events

    def _before_recall(self, item: Any, retry_events: frozenset[Event]) -> None:
        if self._lent.get(item.uid, set()) & (retry_events | {Event.POLICY}):
            self._recalled.add(item.uid)

    def _after_park_again(self, _: object, item: Any, *__: object) -> None:
        """Invariant 10: what happened while it waited for its permit counts when it is refused."""
        if item.uid in self._recalled and self.queue.part_of(item.uid) is Part.UNSCHEDULABLE:
            said = f"{item.pod.key} is unschedulable, and what may help has happened while it waited for its permit"
            self._trace.violate("10 liveness", said, item.pod.key, item.uid)
        self._recalled.discard(item.uid)

    # --- what it writes ----------------------------------------------------------------------------------------------

    def on_bind(self, moment: str, request: Request) -> None:
        """Invariants 1, 2 and 3, at the API server's door and behind it."""
        binding = orjson.loads(request.raw)
        *_, namespace, _, pod_name, _ = request.path.split("/")
        key, uid, node = f"{namespace}/{pod_name}", binding["metadata"].get("uid", ""), binding["target"]["name"]
        self._trace.note(f"{self.name} bind of {key} ({uid[:8]}) to {node}: {moment} {request.fault}", key, uid, node)
        if moment == "sent":
            self._check_sent(key, uid, node, request)
        else:
            self.check_landed(namespace, pod_name, node)

    def _check_sent(self, key: str, uid: str, node: str, request: Request) -> None:
        self._check_limit(key, node, request)
        if not uid:
            return  # whom it binds shows when it lands
        if uid in self._acknowledged and self._exists(key, uid):
            self._trace.violate("2 once", f"{key} is bound again after the API server had said yes", key, uid)
        if uid in self._under_way:
            self._trace.violate("2 once", f"{key} is bound while a bind of it is under way", key, uid)
        self._under_way.add(uid)
        self._unsure[uid] = key
        request.answer.add_done_callback(lambda _: self._under_way.discard(uid))

    def _check_limit(self, key: str, node: str, request: Request) -> None:
        """Invariant 18, whatever came before the bind: an extender, a permit, volumes."""
        self._sent = {one for one in self._sent if not one.answer.done()} | {request}
        limit = self.runtime.components.loop.binder.limit
        if len(self._sent) > limit:
            said = f"{len(self._sent)} binds are under way with that of {key}, and there may be {limit}"
            self._trace.violate("18 bind limit", said, key, node)

    def on_event_sent(self, request: Request) -> None:
        """Invariant 22. One that has waited for its time goes beside binds; how many those are, the gate counts."""
        binds = [one for one in self._sent if not one.answer.done() and one.sent < request.sent]
        self._beside_binds += bool(binds)
        if self._beside_binds > self.runtime.components.cluster.gate.late["event"]:
            said = f"an event is sent while {len(binds)} binds are under way, and has not waited"
            self._trace.violate("22 order of writes", said, request.path)

    def _exists(self, key: str, uid: str) -> bool:
        """A pod that was bound and is gone, which only a read has shown, is tried again until the watch says so."""
        return any(object_key(body) == key and body["metadata"]["uid"] == uid for body in self.store.list(PODS).items)

    def on_answer(self, request: Request, error: ApiError | None) -> None:
        """A refused bind has bound nothing, and a pod that was read is known to be bound or not."""
        parts = request.path.split("/")
        if request.is_bind:
            if error is not None and 400 <= error.status < 500:
                self._unsure.pop(orjson.loads(request.raw)["metadata"].get("uid", ""), None)
        elif (
            request.method == "GET"
            and len(parts) == 7
            and parts[5] == "pods"
            and (error is None or error.status == 404)
        ):
            key = f"{parts[4]}/{parts[6]}"
            self._unsure = {uid: other for uid, other in self._unsure.items() if other != key}

    def check_landed(self, namespace: str, pod_name: str, node: str) -> None:
        body = self.store.get(PODS, namespace, pod_name)
        uid, key = body["metadata"]["uid"], f"{namespace}/{pod_name}"
        if uid in self._bound:
            self._trace.violate("2 once", f"{key} ({uid[:8]}) is bound a second time", key, uid)
        if self._decided.get(uid) != node:
            self._trace.violate(
                "3 right pod",
                f"{key} ({uid[:8]}) is bound to {node}, which was decided for another pod of its name",
                key,
                uid,
                node,
            )
        self._bound[uid] = (self.name, self.store.revision)
        self._check_room(node, key)

    def _check_room(self, node: str, key: str) -> None:
        """What we bound there, as far as this process could know of it, is not more than the node ever had."""
        used: Counter[str] = Counter()
        for body in self.store.list(PODS).items:
            if body["spec"].get("nodeName") == node and self._could_know(body["metadata"]["uid"]):
                pod = parse_pod(body)
                if pod.phase not in ("Succeeded", "Failed"):
                    used.update({**self.store.least.get(pod.uid, pod.usage), "pods": 1})
        have = self.store.largest.get(node, {})
        over = {name: amount for name, amount in used.items() if amount > have.get(name, 0)}
        if over:
            self._trace.violate("1 room", f"{node} has {have}, and our binds take {over}", node, key)

    def _could_know(self, uid: str) -> bool:
        who, version = self._bound.get(uid, ("", 0))
        return who == self.name or (who != "" and version <= max(self._first_version(), self._lead_version))

    # --- after every step --------------------------------------------------------------------------------------------

    def check_step(self) -> None:
        """Invariants 5, 6 and 14, for what this step has touched."""
        if counts := self.runtime.components.errors.counts:
            self._trace.violate("14 faults", f"something failed that nobody expected: {dict(counts)}")
        if not self._touched:
            return
        for uid in self._touched:
            self._check_place(uid)
            self._check_assumption(uid)
        self._touched.clear()
        self._forgotten.clear()

    def _check_place(self, uid: str) -> None:
        held = ((PENDING, self.cache.pending), ("assumed", self.cache.assumed()), ("bound", self.cache.bound))
        places = [name for name, there in held if uid in there]
        place = self.knowledge.place(uid)
        if places != ([place] if place else []):
            self._misplaced(
                uid, f"the cache has it as {places or 'gone'}, and what was told makes it {place or 'gone'}"
            )
        if place == PENDING:
            self._check_nomination(uid)
        parts, listed = self.queue.parts_with(uid), self.queue.part_of(uid)
        if parts != ([listed] if listed else []):
            self._misplaced(uid, f"the queue has it in {parts}, and says {listed}")
        if (listed is not None) != self.knowledge.wanted(uid):
            self._misplaced(uid, f"the queue has it in {listed}; does it wait for us? {self.knowledge.wanted(uid)}")

    def _check_nomination(self, uid: str) -> None:
        """A nomination counts from the step on in which it is decided, and until a version that knows of it shows."""
        body = self.knowledge.pod(uid)
        pod = None if body is None else self.knowledge.parse("Pod", body)
        if isinstance(pod, Pod):
            ours, told = self.cache.state.nominated_node(uid), self.knowledge.nominated_to(pod)
            if ours != told:
                self._trace.violate("7 columns", f"{pod.key} waits for {told!r}, the state has {ours!r}", pod.key, uid)

    def _misplaced(self, uid: str, problem: str) -> None:
        body = self.knowledge.pod(uid)
        key = object_key(body) if body else uid
        self._trace.violate("5 one place", f"{key} ({uid[:8]}): {problem}", key, uid)

    def _check_assumption(self, uid: str) -> None:
        held = uid in self.cache.assumed()
        if held is (uid in self._open):
            return
        if held:
            self._trace.violate("6 assumptions", f"{uid} is assumed, and nobody has decided that", uid)
        node = self._open.pop(uid)
        told = self.knowledge.place(uid) in ("", "bound")
        if not told and uid not in self._forgotten:
            self._trace.violate(
                "6 assumptions", f"the room of {uid} on {node} is given up, and nobody said so", uid, node
            )

    # --- now and then ------------------------------------------------------------------------------------------------

    def check_columns(self) -> None:
        """Invariant 7: everything that decisions read is what a fresh cache makes of what was told."""
        fresh = Cache()
        for kind, bodies in self.knowledge.objects.items():
            if kind != "SchedulingPolicy":
                for body in bodies.values():
                    fresh.observe(kind, body)
        for uid, (_, node) in self.knowledge.assumed.items():
            pod = self.knowledge.pod(uid)
            if pod:
                fresh.assume(parse_pod(pod), node)
        for uid, decided in self.knowledge.nominations.items():
            if uid in fresh.pending and fresh.pending[uid].nominated_node_name != decided.node:
                fresh.nominate(uid, self.knowledge.nominated_to(fresh.pending[uid]))
        for what, ours, true in differences(self.cache.state, fresh.state):
            self._trace.violate("7 columns", f"{what}: it has {ours}, and a rebuild {true}", what.split()[0])

        self._check_nominations_under_way()
        self._check_reserved()

    def _check_nominations_under_way(self) -> None:
        """What we decided of the node that a pod waits for is written, or is going to be."""
        cluster = self.runtime.components.cluster
        for uid, nomination in self.knowledge.nominations.items():
            body = self.knowledge.pod(uid)
            if (
                body is None
                or nomination.version is not None
                or cluster.nominates(uid)
                or not self.knowledge.wanted(uid)
            ):
                continue
            key, node = object_key(body), nomination.node or "no node"
            if self._is_settled(uid):
                continue  # by somebody else: the API server refuses the nomination, and the watch will show why
            self._trace.violate("7 columns", f"{key} is nominated to {node}, and nobody writes it", key, uid)

    def _is_settled(self, uid: str) -> bool:
        """Whether the pod is bound, or gone."""
        pending = (body for body in self.store.list(PODS).items if not body["spec"].get("nodeName"))
        return all(body["metadata"]["uid"] != uid for body in pending)

    def check_echoes(self, calm_since: float) -> None:
        """Invariant 6, in calm weather: a bind whose echo the watch owes us is looked up."""
        for uid in self.cache.assumed():
            seconds = self._now() - max(calm_since, self._owed.get(uid, self._now()))
            if seconds > ECHO_SECONDS:
                said = f"{uid} has been bound for {seconds:.0f} s, and nobody looks why it does not show"
                self._trace.violate("6 assumptions", said, uid)

    def was_refused_by_usher(self, uid: str) -> bool:
        """Whether the pod is unschedulable because of a plugin that may change its mind at any time."""
        return any(_blames_usher(item) for item in self.queue.items() if item.uid == uid)

    def check_unschedulable(self) -> None:
        """Invariant 10, all the time: an unschedulable pod fits nowhere, on what is known, or a change was missed.

        Pods that wait until others have been tried for the same room are not unschedulable for good.
        """
        world = self.knowledge.world()
        for item in self.queue.items():
            if item.part is not Part.UNSCHEDULABLE or _blames_usher(item) or self.queue.is_next(item):
                continue
            pod = self._newest(item.pod)
            active = self.intake.policy_for(pod)
            if active is None or active.policy.extenders:
                continue
            fitting = feasible(world, reference_profile(active.policy), pod)
            found = [name for name in fitting if allows(active.policy, world.nodes[name])]
            if found:
                since = f"since {item.since:.3f}, until one of {sorted(item.retry_events)}"
                self._trace.violate(
                    "10 liveness", f"{pod.key} is unschedulable {since}, and fits on {found}", pod.key, *found
                )


def _blames_usher(item: QueuedPod) -> bool:
    return any(name.endswith("usher") for name in item.blamed)


def runtime_usage(runtime: Runtime) -> Any:
    return runtime.components.policies.usage


def sums(table: Any, name: str) -> object:
    row = table.row(name)
    amounts = {
        resource: (int(table.allocatable[index, row]), int(table.used[index, row]))
        for resource, index in table.resource_index.items()
    }
    return {resource: pair for resource, pair in amounts.items() if any(pair)}, table.nonzero[:, row].tolist()


def _tolerations(body: Body) -> object:
    return (body.get("spec") or {}).get("tolerations")


def _around(owner: Any, name: str, before: Callable[..., Any], after: Callable[..., Any] | None = None) -> None:
    """Have `before` called with the same arguments first, and `after` at the end, with the result in front of them."""
    shipped = getattr(owner, name)

    def call(*args: Any, **kwargs: Any) -> Any:
        before(*args, **kwargs)
        result = shipped(*args, **kwargs)
        if after is not None:
            after(result, *args, **kwargs)
        return result

    setattr(owner, name, call)


def _nothing(*_: object) -> None:
    """Nothing is to be done."""
