"""Changes of the shipped code that the invariants have to notice: what a careless hand might make of it.

Each mutation is a function that puts something else in the place of a method, in this process and for ever; so each is
run in a process of its own (`mutating`). `aims_at` is the invariant that it goes against first of all; another one may
well be the first to see it.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass, replace
from typing import Any

from berth import elector
from berth.cluster import binder as cluster_binder
from berth.cluster import listing
from berth.cluster.conditions import Conditions
from berth.cluster.events import EventRecorder
from berth.cluster.leadership import STEPS_IN_A_MILLISECOND, Leadership
from berth.cluster.port import KubernetesCluster
from berth.cluster.proof import Proof
from berth.engine.plugins import taint_toleration
from berth.engine.plugins.node_resources_fit import NodeResourcesFit
from berth.engine.preemption.victims import VictimSearch
from berth.engine.state.budgets import Budgets
from berth.engine.state.host_ports import PortIndex
from berth.engine.state.node_table import NodeTable
from berth.engine.state.nominated_pods import NominatedPods
from berth.engine.state.volume_reservations import VolumeReservations
from berth.model import Pod
from berth.policy.policy_objects import PolicyObjects
from berth.runtime.policy_reports import PolicyReports
from berth.scheduler.binding.bind_confirmations import BindConfirmations
from berth.scheduler.binding.binding import BackgroundBinder
from berth.scheduler.binding.binding_cycle import BindingCycle
from berth.scheduler.binding.binding_plugins import BindingPlugins
from berth.scheduler.binding.unconfirmed_binds import UnconfirmedBinds
from berth.scheduler.binding.volumes import VolumeBinder
from berth.scheduler.cache import pod_states as pods_module
from berth.scheduler.cache.cache import Cache
from berth.scheduler.cache.changes import UNCHANGED
from berth.scheduler.cache.nominations import Nominations
from berth.scheduler.cache.pod_states import PodStates
from berth.scheduler.cache.versions import Register
from berth.scheduler.cycle import Cycle
from berth.scheduler.event_intake import EventIntake
from berth.scheduler.preemption.disruptions import Disruptions
from berth.scheduler.preemption.evicting import Evicting
from berth.scheduler.preemption.nominating import Nominator
from berth.scheduler.preemption.preempting import Preempting
from berth.scheduler.queue.change_log import ChangeLog
from berth.scheduler.queue.queue import Part, Queue
from berth.scheduler.queue.unschedulable import UnschedulablePods
from berth.scheduler.reporting import Reporter
from simulation.scenario import has_replicas, has_volumes


@dataclass(frozen=True)
class Mutation:
    """`likely`: the seeds that have what it is about, where most have not; they are run first."""

    name: str
    aims_at: str
    apply: Callable[[], None]
    likely: Callable[[int], bool]


def every_seed(_: int) -> bool:
    return True


# Of the invariants, those that are about what few seeds have.
LIKELY: dict[int, Callable[[int], bool]] = {19: has_replicas, 20: has_replicas, 21: has_volumes}
MUTATIONS: dict[str, Mutation] = {}


def mutation(
    aims_at: str, likely: Callable[[int], bool] | None = None
) -> Callable[[Callable[[], None]], Callable[[], None]]:
    def register(apply: Callable[[], None]) -> Callable[[], None]:
        name = apply.__name__.replace("_", " ")
        first = LIKELY.get(int(aims_at.split()[0]), every_seed) if likely is None else likely
        MUTATIONS[name] = Mutation(name, aims_at, apply, first)
        return apply

    return register


def instead(owner: Any, name: str) -> Callable[[Callable[..., Any]], None]:
    """Put a function in the place of a method or a function; it gets the shipped one in front of its arguments."""
    shipped = getattr(owner, name)

    def put(changed: Callable[..., Any]) -> None:
        setattr(owner, name, lambda *args, **kwargs: changed(shipped, *args, **kwargs))

    return put


class Without:
    """An object of which one method does nothing."""

    def __init__(self, shipped: Any, name: str) -> None:
        self._shipped = shipped
        self._name = name

    def __getattr__(self, name: str) -> Any:
        return (lambda *_, **__: None) if name == self._name else getattr(self._shipped, name)


# --- 1 room ----------------------------------------------------------------------------------------------------------


@mutation("1 room")
def an_unknown_outcome_is_taken_for_a_refusal() -> None:
    @instead(BackgroundBinder, "_unknown")
    async def changed(_: Any, self: Any, assignment: Any, reason: str) -> None:
        self._give_back(assignment)


@mutation("1 room")
def assume_holds_no_room() -> None:
    @instead(PodStates, "assume")
    def changed(shipped: Any, self: Any, pod: Pod, node_name: str) -> Any:
        result = shipped(self, pod, node_name)
        self._table.remove_pod(pod.uid)
        return result


# --- 2 once ----------------------------------------------------------------------------------------------------------


@mutation("2 once")
def a_bind_is_sent_twice() -> None:
    @instead(BackgroundBinder, "start")
    def changed(shipped: Any, self: Any, assignment: Any) -> None:
        shipped(self, assignment)
        shipped(self, assignment)


@mutation("6 assumptions")
def a_bind_that_was_answered_is_tried_again() -> None:
    @instead(BackgroundBinder, "_bound")
    def changed(shipped: Any, self: Any, assignment: Any, outcome: str) -> None:
        shipped(self, assignment, outcome)
        if len(assignment.pod.name) % 2 == 0:
            self._give_back(assignment)


# --- 3 right pod -----------------------------------------------------------------------------------------------------


@mutation("3 right pod")
def the_uid_is_not_sent() -> None:
    @instead(cluster_binder.Binder, "_post")
    async def changed(shipped: Any, self: Any, pod: Pod, binding: Any) -> Any:
        metadata = {key: value for key, value in binding["metadata"].items() if key != "uid"}
        return await shipped(self, pod, {**binding, "metadata": metadata})


@mutation("3 right pod")
def gates_are_ignored() -> None:
    @instead(Cache, "_read")
    def changed(shipped: Any, self: Any, kind: str, body: Any) -> Any:
        record = shipped(self, kind, body)
        return replace(record, gates=()) if isinstance(record, Pod) else record


@mutation("3 right pod")
def pods_that_are_being_deleted_are_tried() -> None:
    @instead(EventIntake, "wanted")
    def changed(_: Any, self: Any, uid: str) -> Any:
        pod = self._cache.pending.get(uid)
        return pod if pod is not None and self._policies.serves(pod.scheduler_name) else None


@mutation("3 right pod")
def a_name_is_taken_for_an_identity() -> None:
    @instead(Register, "is_news")
    def changed(_: Any, self: Any, identity: Any) -> bool:
        holder = self._by_uid.get(self._uids.get(identity.key, ""))
        return holder is None or holder.version is None or identity.version >= holder.version


# --- 4 filters -------------------------------------------------------------------------------------------------------


@mutation("4 filters")
def taints_are_ignored() -> None:
    @instead(taint_toleration, "refused_sets")
    def changed(shipped: Any, *args: Any) -> Any:
        return shipped(*args) & False


@mutation("4 filters")
def a_node_that_shrinks_stays_as_it_was() -> None:
    @instead(Cache, "_take_in_node")
    def changed(shipped: Any, self: Any, node: Any) -> Any:
        old = self.state.table.node(node.name)
        if old is not None and old.uid == node.uid and _shrank(old.allocatable, node.allocatable):
            return UNCHANGED
        return shipped(self, node)


def _shrank(old: Any, new: Any) -> bool:
    return any(new.get(name, 0) < amount for name, amount in old.items())


@mutation("4 filters")
def what_extenders_said_holds_for_ever() -> None:
    from berth.scheduler.extenders.extender_calls import ExtenderCalls

    @instead(ExtenderCalls, "_as_of_now")
    def changed(_: Any, self: Any, call: Any, said: Any) -> Any:
        return replace(said, allowed=frozenset(node.name for node in self._cache.state.table.nodes()))


# --- 5 one place -----------------------------------------------------------------------------------------------------


@mutation("5 one place")
def a_pod_that_leaves_for_another_scheduler_stays_queued() -> None:
    @instead(EventIntake, "_follow")
    def changed(shipped: Any, self: Any, uid: str) -> None:
        if self.wanted(uid) is not None:
            shipped(self, uid)


@mutation("5 one place")
def a_late_report_takes_a_pod_back_in_time() -> None:
    @instead(Register, "is_news")
    def changed(shipped: Any, self: Any, identity: Any) -> bool:
        return identity.uid in self._by_uid or shipped(self, identity)


@mutation("5 one place")
def a_removed_pod_comes_back_with_a_late_report() -> None:
    @instead(Register, "_bury")
    def changed(_: Any, self: Any, identity: Any, known: Any) -> None:
        """Nothing is remembered of it."""


# --- 6 assumptions ---------------------------------------------------------------------------------------------------


@mutation("6 assumptions")
def confirm_by_the_watch_is_dropped() -> None:
    @instead(PodStates, "_observe_bound")
    def changed(shipped: Any, self: Any, pod: Pod, node_name: str) -> Any:
        held = self._assumed.get(pod.uid)
        if held is not None and held.node_name == node_name:
            return UNCHANGED
        return shipped(self, pod, node_name)


@mutation("6 assumptions")
def an_assumption_expires() -> None:
    @instead(BindConfirmations, "_settle")
    def changed(_: Any, self: Any, uid: str, held: Any, body: Any) -> None:
        self._intake.give_back(uid)


@mutation("6 assumptions")
def a_late_echo_is_never_read() -> None:
    @instead(UnconfirmedBinds, "late")
    def changed(_: Any, self: Any, seconds: float) -> list[str]:
        return []


# --- 7 columns -------------------------------------------------------------------------------------------------------


@mutation("7 columns")
def forget_does_not_free() -> None:
    @instead(PodStates, "forget")
    def changed(_: Any, self: Any, uid: str) -> Any:
        held = self._assumed.pop(uid, None)
        if held is not None and held.returns:
            self._put_to_pending(held.pod)
        return UNCHANGED


@mutation("7 columns")
def pods_of_a_node_that_is_replaced_are_forgotten() -> None:
    @instead(NodeTable, "remove_node")
    def changed(shipped: Any, self: Any, name: str) -> Any:
        for uid in list(self.pods_on(name)):
            self.remove_pod(uid)
        return shipped(self, name)


@mutation("7 columns")
def a_nomination_is_never_written() -> None:
    @instead(Nominator, "nominate")
    def changed(shipped: Any, self: Any, pod: Pod, node_name: str, **named: Any) -> None:
        cluster, self._cluster = self._cluster, Without(self._cluster, "nominate")
        try:
            shipped(self, pod, node_name, **named)
        finally:
            self._cluster = cluster


@mutation("7 columns")
def labels_of_a_placed_pod_stay_as_they_were() -> None:
    @instead(pods_module, "takes_the_same_room")
    def changed(shipped: Any, old: Pod, new: Pod) -> Any:
        return shipped(old, replace(new, labels=old.labels))


@mutation("7 columns")
def ports_are_kept_when_a_pod_leaves() -> None:
    @instead(PortIndex, "discard")
    def changed(_: Any, self: Any, port: Any, row: int) -> None:
        """It stays taken."""


@mutation("7 columns")
def room_stays_promised() -> None:
    @instead(NominatedPods, "remove")
    def changed(shipped: Any, self: Any, uid: str) -> None:
        slot = self._slot_of.get(uid)
        row, usage = (self._row[slot], self._usage[:, slot].copy()) if slot is not None else (-1, 0)
        shipped(self, uid)
        if slot is not None and len(self._free) > 1:
            self._free.remove(slot)
            self._row[slot], self._usage[:, slot] = row, usage


@mutation("7 columns")
def what_a_resized_pod_has_does_not_count() -> None:
    @instead(Cache, "_read")
    def changed(shipped: Any, self: Any, kind: str, body: Any) -> Any:
        if kind == "Pod" and (body.get("status") or {}).get("containerStatuses"):
            body = {**body, "status": {**body["status"], "containerStatuses": None}}
        return shipped(self, kind, body)


@mutation("7 columns", has_replicas)
def a_standby_withdraws_nominations_by_itself() -> None:
    @instead(Nominator, "_withdraw_from")
    def changed(shipped: Any, self: Any, name: str) -> None:
        decides, self._decides = self._decides, True
        shipped(self, name)
        self._decides = decides


# --- 8 victims -------------------------------------------------------------------------------------------------------


@mutation("8 victims")
def one_victim_more_than_needed() -> None:
    @instead(Preempting, "_preempt")
    def changed(shipped: Any, self: Any, item: Any, pod: Pod, active: Any, diagnosis: Any, nomination: Any) -> None:
        chosen = {victim.uid for victim in nomination.victims}
        there = self._state.table.pods_on(nomination.node).values()
        more = [other for other in there if other.uid not in chosen and other.priority < pod.priority][:1]
        shipped(self, item, pod, active, diagnosis, replace(nomination, victims=(*nomination.victims, *more)))


@mutation("8 victims")
def victims_of_equal_priority() -> None:
    @instead(VictimSearch, "__init__")
    def changed(shipped: Any, self: Any, pipeline: Any, query: Any, survey: Any, state: Any, budgets: Any) -> None:
        pod = replace(query.pod, priority=query.pod.priority + 1)
        shipped(self, pipeline, type(query)(pod, state.table), survey, state, budgets)


@mutation("8 victims")
def victims_are_deleted_for_a_pod_that_is_gone() -> None:
    @instead(Evicting, "_goes_on")
    def changed(_: Any, self: Any, push: Any) -> bool:
        return not push.problem


@mutation("7 columns")
def the_nomination_is_late() -> None:
    @instead(Nominations, "of")
    def changed(shipped: Any, self: Any, pod: Pod) -> str:
        decision = self._decisions.get(pod.uid)
        return shipped(self, pod) if decision is None or decision.version is not None else pod.nominated_node_name


@mutation("8 victims")
def own_evictions_do_not_count_against_budgets() -> None:
    @instead(Disruptions, "begin")
    def changed(_: Any, self: Any, pod: Pod, node_name: str) -> None:
        """Until the status says so."""


@mutation("8 victims")
def budgets_are_not_asked() -> None:
    @instead(Budgets, "_counting")
    def changed(_: Any, self: Any, pod: Pod) -> tuple[int, ...]:
        return ()


@mutation("8 victims")
def pods_that_wait_for_a_permit_are_deleted() -> None:
    @instead(BindingCycle, "give_up")
    def changed(_: Any, self: Any, uid: str, reason: str = "") -> bool:
        return False


@mutation("8 victims")
def less_important_pods_go_on_waiting_for_the_node() -> None:
    @instead(Nominator, "take_over")
    def changed(_: Any, self: Any, pod: Pod, node_name: str) -> None:
        """They do not know."""


# --- 9 generation ----------------------------------------------------------------------------------------------------


@mutation("9 generation")
def a_policy_edited_in_flight_decides_as_it_was() -> None:
    from berth.scheduler.extenders.extender_calls import ExtenderCalls

    @instead(Cycle, "_resume")
    def changed(_: Any, self: Any, item: Any, asked: Pod, pod: Pod, active: Any, outside: Any) -> None:
        self._decide(item, pod, active, outside)

    @instead(ExtenderCalls, "follow_policies")
    def followed(_: Any, self: Any) -> None:
        """Whoever is asked goes on."""


@mutation("9 generation")
def an_edit_takes_effect_at_the_next_one() -> None:
    @instead(PolicyObjects, "observe")
    def changed(shipped: Any, self: Any, manifest: Any) -> Any:
        generation = manifest["metadata"].get("generation", 1)
        return () if generation % 3 == 2 else shipped(self, manifest)


# --- 10 liveness -----------------------------------------------------------------------------------------------------


@mutation("10 liveness")
def the_log_of_changes_in_flight_is_skipped() -> None:
    @instead(ChangeLog, "note")
    def changed(_: Any, self: Any, change: Any) -> None:
        """Nothing is kept."""


@mutation("10 liveness")
def room_that_comes_free_wakes_nobody() -> None:
    @instead(NodeResourcesFit, "hint")
    def changed(shipped: Any, self: Any, query: Any, state: Any, change: Any) -> bool:
        return change.new is not None and shipped(self, query, state, change)


@mutation("10 liveness")
def a_pod_that_was_changed_is_not_woken() -> None:
    @instead(Queue, "_update")
    def changed(shipped: Any, self: Any, item: Any, pod: Pod) -> None:
        if item.part is Part.UNSCHEDULABLE:
            item.pod = pod
        else:
            shipped(self, item, pod)


@mutation("10 liveness")
def what_happens_while_a_pod_waits_for_its_permit_is_missed() -> None:
    @instead(Queue, "recall")
    def changed(_: Any, self: Any, item: Any, retry_events: Any) -> None:
        self.write_off(item.uid)


# --- 11 reasons ------------------------------------------------------------------------------------------------------


@mutation("11 reasons")
def a_condition_is_written_once() -> None:
    @instead(Reporter, "_condition")
    def changed(shipped: Any, self: Any, pod: Pod, reason: str, message: str) -> None:
        if pod.scheduled_condition is not None:
            shipped(self, pod, reason, message)


@mutation("11 reasons")
def a_condition_that_did_not_arrive_is_given_up() -> None:
    @instead(Conditions, "_write")
    async def changed(shipped: Any, self: Any, uid: str, report: Any) -> None:
        try:
            await shipped(self, uid, report)
        except Exception:
            self._nominations.pop(uid, None)


# --- 12 retries ------------------------------------------------------------------------------------------------------


@mutation("12 retries")
def an_error_has_no_backoff() -> None:
    @instead(Queue, "_count_backoff")
    def changed(shipped: Any, self: Any, item: Any) -> None:
        shipped(self, item)
        item.ready = item.since


@mutation("12 retries")
def parked_pods_are_tried_every_second() -> None:
    @instead(Queue, "add_unschedulable")
    def changed(
        shipped: Any, self: Any, item: Any, retry_events: Any, backoff: Any = None, *rest: Any, **named: Any
    ) -> None:
        shipped(self, item, retry_events, replace(backoff or item.backoff, flush_seconds=1.0), *rest, **named)


# --- 13 refusals -----------------------------------------------------------------------------------------------------


@mutation("13 refusals")
def a_node_that_is_added_late_is_left_out() -> None:
    @instead(Cache, "_take_in_node")
    def changed(shipped: Any, self: Any, node: Any) -> Any:
        if self.state.table.node(node.name) is None and len(self.state.table) > 4:
            return UNCHANGED
        return shipped(self, node)


@mutation("13 refusals")
def the_last_bit_of_room_is_never_used() -> None:
    @instead(Cache, "_read")
    def changed(shipped: Any, self: Any, kind: str, body: Any) -> Any:
        record = shipped(self, kind, body)
        if kind == "Node":
            allocatable = {name: amount - (name == "cpu") for name, amount in record.allocatable.items()}
            return replace(record, allocatable=allocatable)
        return record


# --- 14 faults -------------------------------------------------------------------------------------------------------


@mutation("14 faults")
def a_pod_that_left_in_flight_is_an_error() -> None:
    @instead(Queue, "is_in_flight")
    def changed(_: Any, self: Any, item: Any) -> bool:
        return self._in_flight[item.uid] is item


# --- 16 stages -------------------------------------------------------------------------------------------------------


@mutation("16 stages")
def what_was_reserved_is_kept_when_the_bind_fails() -> None:
    @instead(BindingPlugins, "end")
    def changed(shipped: Any, self: Any, *, bound: bool) -> None:
        if bound:
            shipped(self, bound=bound)


@mutation("16 stages")
def what_was_reserved_is_undone_in_the_order_in_which_it_was_made() -> None:
    @instead(BindingPlugins, "end")
    def changed(shipped: Any, self: Any, *, bound: bool) -> None:
        if not bound:
            self._plugins = tuple(reversed(self._plugins))
        shipped(self, bound=bound)


# --- 15 memory -------------------------------------------------------------------------------------------------------


@mutation("15 memory")
def the_index_by_namespace_is_never_cleared() -> None:
    @instead(UnschedulablePods, "add")
    def changed(shipped: Any, self: Any, item: Any, order: Any) -> None:
        shipped(self, item, order)
        self._by_namespace.setdefault(f"{item.pod.namespace} ", {})[item.uid] = item


@mutation("15 memory")
def pods_under_budgets_are_remembered() -> None:
    @instead(Budgets, "forget_gone")
    def changed(_: Any, self: Any) -> None:
        """All of them."""


@mutation("15 memory")
def decided_nominations_are_kept() -> None:
    @instead(Nominations, "forget")
    def changed(_: Any, self: Any, uid: str) -> None:
        """It stays."""


# --- 17 lists --------------------------------------------------------------------------------------------------------


@mutation("17 lists")
def a_list_proves_what_it_lacks() -> None:
    @instead(Proof, "gone")
    async def changed(_: Any, self: Any, resource: Any, known: Any, found: Any, **named: Any) -> Any:
        return {uid: key for uid, key in known.items() if uid not in found.objects}


@mutation("17 lists")
def a_list_that_is_answered_by_404_is_empty() -> None:
    @instead(listing, "is_served")
    async def unserved(_: Any, api: Any, resource: Any) -> bool:
        return False

    @instead(Proof, "_check_unserved")
    async def changed(_: Any, self: Any, resource: Any) -> None:
        """It is believed at once."""


@mutation("17 lists")
def any_object_is_a_page() -> None:
    @instead(listing, "_check_page")
    def changed(_: Any, page: Any, resource: Any, accept: str) -> Any:
        metadata = page.get("metadata") or {}
        return page.get("items") or [], {**metadata, "resourceVersion": metadata.get("resourceVersion", "")}

    a_list_proves_what_it_lacks()


# --- 18 bind limit ---------------------------------------------------------------------------------------------------


@mutation("18 bind limit")
def pods_that_were_held_go_on_to_bind_at_once() -> None:
    @instead(BackgroundBinder, "take_place")
    def changed(_: Any, self: Any, assignment: Any) -> bool:
        self._places(assignment)._taken += 1
        return True


# --- 19 one fence ----------------------------------------------------------------------------------------------------


@mutation("19 one fence")
def a_senior_that_is_late_is_taken_for_dead() -> None:
    @instead(Leadership, "_is_alive")
    def changed(_: Any, self: Any, other: Any, now: float) -> bool:
        return bool(now - other.seen_seconds < other.record.lifetime_seconds / 5)


@mutation("19 one fence")
def a_replica_that_enters_is_senior_to_those_that_are_there() -> None:
    @instead(Leadership, "_youngest")
    def changed(_: Any, self: Any) -> int:
        highest = max((other.record.priority for other in self._others.values()), default=0)
        return int(highest + 1 + self._random.randrange(STEPS_IN_A_MILLISECOND))


@mutation("19 one fence")
def a_standby_posts_events_about_policies() -> None:
    @instead(PolicyReports, "on_event")
    def published(_: Any, self: Any, event: Any) -> None:
        if event.kind == "SchedulingPolicy":
            self.publish()

    @instead(EventRecorder, "report")
    def posted(shipped: Any, self: Any, report: Any, fence: Any = None) -> None:
        shipped(self, report)


# --- 20 seats --------------------------------------------------------------------------------------------------------


@mutation("20 seats")
def kopf_judges_the_records_of_others() -> None:
    @instead(elector, "make_settings")
    def changed(shipped: Any, lead: Any) -> Any:
        settings = shipped(lead)
        settings.watching.label_selectors.clear()
        return settings


@mutation("20 seats")
def the_leader_removes_the_records_of_all_others() -> None:
    @instead(Leadership, "outdated")
    def changed(_: Any, self: Any) -> dict[str, str]:
        return {identity: other.record.stamp for identity, other in self._others.items() if other.record.stamp}


# --- 21 volumes ------------------------------------------------------------------------------------------------------


@mutation("21 volumes")
def a_volume_that_is_reserved_is_free_for_others() -> None:
    @instead(VolumeReservations, "_file")
    def changed(shipped: Any, self: Any, name: str) -> None:
        reserved, self._reserved = self._reserved, {}
        shipped(self, name)
        self._reserved = reserved


@mutation("21 volumes")
def what_a_pod_that_gives_up_has_reserved_is_kept() -> None:
    @instead(VolumeBinder, "release")
    def changed(shipped: Any, self: Any, uid: str, outcome: str, **named: Any) -> None:
        if outcome == "bound":
            shipped(self, uid, outcome, **named)


@mutation("21 volumes")
def a_claim_that_is_made_for_one_node_is_used_on_another() -> None:
    @instead(VolumeReservations, "claim")
    def changed(_: Any, self: Any, namespace: str, name: str) -> Any:
        return self._state.claim(namespace, name)


# --- 22 order of writes ----------------------------------------------------------------------------------------------


@mutation("22 order of writes")
def events_do_not_wait_for_binds() -> None:
    @instead(KubernetesCluster, "_binding")
    def changed(_: Any, self: Any) -> Any:
        return nullcontext()
