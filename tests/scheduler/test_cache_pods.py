"""The room that pods take, through everything that can happen to a pod."""

from dataclasses import fields, replace
from typing import Any

import pytest

from berth.engine.diagnosis import Diagnosis
from berth.engine.events import Event
from berth.model import Pod, parse_pod
from berth.policy.policy_store import PolicyStore
from berth.scheduler import Random
from berth.scheduler.cache.changes import takes_the_same_room
from scheduler.event_cache import EventCache as Cache
from scheduler.virtual_clock import START
from support.builders import make_node, make_pod

Body = dict[str, Any]
ROOM_TAKEN = frozenset({Event.POD_ASSIGNED})
ROOM_FREED = frozenset({Event.POD_REMOVED})
NO_NEWS: frozenset[Event] = frozenset()


def used_millicores(cache: Cache, node: str) -> int:
    return sum(pod.usage.get("cpu", 0) for pod in cache.state.table.pods_on(node).values())


def versioned(body: Body, version: int) -> Body:
    body["metadata"]["resourceVersion"] = str(version)
    return body


def assume(cache: Cache, name: str, node: str) -> Pod:
    cache.observe("Pod", make_pod(name, cpu="1"))
    pod = cache.pending[f"pod-default-{name}"]
    cache.assume(pod, node)
    return pod


@pytest.fixture
def cache() -> Cache:
    cache = Cache()
    cache.observe("Node", make_node("a"))
    cache.observe("Node", make_node("b"))
    return cache


def test_a_bound_pod_takes_room(cache: Cache) -> None:
    assert cache.observe("Pod", make_pod("web", node="a", cpu="1")) == ROOM_TAKEN
    assert used_millicores(cache, "a") == 1000


def test_a_pending_pod_takes_none(cache: Cache) -> None:
    assert cache.observe("Pod", make_pod("web", cpu="1")) == NO_NEWS
    assert list(cache.pending) == ["pod-default-web"]
    assert used_millicores(cache, "a") == 0


def test_an_assumed_pod_takes_room_and_is_not_pending(cache: Cache) -> None:
    cache.observe("Pod", make_pod("web", cpu="1"))
    assert cache.assume(cache.pending["pod-default-web"], "a") == ROOM_TAKEN
    assert used_millicores(cache, "a") == 1000
    assert not cache.pending
    assert cache.statistics()["pods"]["binding"] == 1


def test_the_echo_of_a_bind_ends_the_assumption_and_is_no_news(cache: Cache) -> None:
    assume(cache, "web", "a")
    assert cache.observe("Pod", make_pod("web", cpu="1", node="a")) == NO_NEWS
    assert not cache.assumed()
    assert used_millicores(cache, "a") == 1000


def test_a_pod_that_we_have_bound_does_not_come_back_unbound_after_a_list_lacked_it(cache: Cache) -> None:
    """It ran to its end before the watch showed its binding, and then the watch repeats what it had said at first."""
    first = versioned(make_pod("web", cpu="1"), 7)
    cache.observe("Pod", first)
    cache.assume(cache.pending["pod-default-web"], "a")
    cache.confirm("pod-default-web")
    cache.remove(
        "Pod", {"metadata": {"uid": "pod-default-web", "namespace": "default", "name": "web"}}, reported_by_watch=False
    )
    cache.observe("Pod", dict(first))
    assert not cache.pending
    cache.observe("Pod", versioned(make_pod("web", cpu="1", node="a"), 8))  # the list was wrong
    assert used_millicores(cache, "a") == 1000


def test_an_acknowledged_bind_waits_for_its_echo(cache: Cache) -> None:
    assume(cache, "web", "a")
    cache.confirm("pod-default-web")
    assert cache.statistics()["pods"] == {"pending": 0, "binding": 0, "echo_pending": 1, "bound": 0}


def test_a_pod_bound_by_another_scheduler_frees_its_assumed_space(cache: Cache) -> None:
    assume(cache, "web", "a")
    assert cache.observe("Pod", make_pod("web", cpu="1", node="b")) == ROOM_TAKEN | ROOM_FREED
    assert (used_millicores(cache, "a"), used_millicores(cache, "b")) == (0, 1000)
    assert not cache.assumed()


def test_forgetting_frees_the_room_and_makes_the_pod_pending_again(cache: Cache) -> None:
    assume(cache, "web", "a")
    assert cache.forget("pod-default-web") == ROOM_FREED
    assert used_millicores(cache, "a") == 0
    assert list(cache.pending) == ["pod-default-web"]


def test_forgetting_a_pod_that_is_bound_by_now_does_nothing(cache: Cache) -> None:
    assume(cache, "web", "a")
    cache.observe("Pod", make_pod("web", cpu="1", node="a"))
    assert cache.forget("pod-default-web") == NO_NEWS
    assert used_millicores(cache, "a") == 1000


def test_a_pod_deleted_while_assumed_frees_its_room_once(cache: Cache) -> None:
    assume(cache, "web", "a")
    assert cache.remove("Pod", make_pod("web")) == ROOM_FREED
    cache.confirm("pod-default-web")
    assert cache.forget("pod-default-web") == NO_NEWS
    assert used_millicores(cache, "a") == 0
    assert not cache.pending
    assert not cache.assumed()


def test_a_pod_cannot_be_assumed_twice(cache: Cache) -> None:
    pod = assume(cache, "web", "a")
    with pytest.raises(ValueError, match="default/web"):
        cache.assume(pod, "b")
    assert used_millicores(cache, "b") == 0


def test_a_pod_can_be_assumed_again_after_it_was_forgotten(cache: Cache) -> None:
    pod = assume(cache, "web", "a")
    cache.forget(pod.uid)
    cache.assume(pod, "b")
    assert (used_millicores(cache, "a"), used_millicores(cache, "b")) == (0, 1000)


def test_an_update_of_the_unbound_pod_does_not_end_its_assumption(cache: Cache) -> None:
    assume(cache, "web", "a")
    cache.observe("Pod", make_pod("web", cpu="1", labels={"new": "label"}))
    assert used_millicores(cache, "a") == 1000
    assert cache.assumed()["pod-default-web"].pod.labels == {"new": "label"}


@pytest.mark.parametrize("phase", ["Succeeded", "Failed"])
def test_a_finished_pod_frees_its_room(cache: Cache, phase: str) -> None:
    cache.observe("Pod", make_pod("web", node="a", cpu="1"))
    assert cache.observe("Pod", make_pod("web", node="a", cpu="1", phase=phase)) == ROOM_FREED
    assert used_millicores(cache, "a") == 0


def test_a_pod_that_was_finished_when_first_seen_takes_no_room(cache: Cache) -> None:
    assert cache.observe("Pod", make_pod("web", node="a", cpu="1", phase="Succeeded")) == NO_NEWS
    assert used_millicores(cache, "a") == 0


def test_a_pod_whose_request_shrinks_is_accounted_anew_and_is_news(cache: Cache) -> None:
    cache.observe("Pod", make_pod("web", node="a", cpu="2"))
    assert cache.observe("Pod", make_pod("web", node="a", cpu="1")) == {Event.POD_SHRUNK}
    assert used_millicores(cache, "a") == 1000


def test_a_pod_whose_request_grows_is_accounted_anew_and_helps_nobody(cache: Cache) -> None:
    cache.observe("Pod", make_pod("web", node="a", cpu="1"))
    assert cache.observe("Pod", make_pod("web", node="a", cpu="2")) == NO_NEWS
    assert used_millicores(cache, "a") == 2000


def resized(asked: str, allocated: str, **status: Any) -> Body:
    container = {
        "name": "main",
        "allocatedResources": {"cpu": allocated},
        "resources": {"requests": {"cpu": allocated}},
    }
    return make_pod("web", node="a", cpu=asked, status={"containerStatuses": [container], **status})


def test_a_bound_pod_that_is_resized_holds_the_larger_of_both_until_that_is_done(cache: Cache) -> None:
    for asked, allocated, taken in (("1", "1", 1000), ("3", "1", 3000), ("3", "3", 3000), ("2", "3", 3000)):
        cache.observe("Pod", resized(asked, allocated))
        assert used_millicores(cache, "a") == taken
    assert cache.observe("Pod", resized("2", "2")) == {Event.POD_SHRUNK}
    assert used_millicores(cache, "a") == 2000


def test_a_resize_that_turns_out_to_be_infeasible_gives_its_room_back(cache: Cache) -> None:
    cache.observe("Pod", resized("3", "1"))
    pending = {"type": "PodResizePending", "status": "True", "reason": "Infeasible"}
    assert cache.observe("Pod", resized("3", "1", conditions=[pending])) == {Event.POD_SHRUNK}
    assert used_millicores(cache, "a") == 1000


def test_a_bound_pod_that_is_shown_on_another_node_takes_its_room_there(cache: Cache) -> None:
    cache.observe("Pod", make_pod("web", node="a", cpu="1"))
    assert cache.observe("Pod", make_pod("web", node="b", cpu="1")) == ROOM_FREED | ROOM_TAKEN
    assert (used_millicores(cache, "a"), used_millicores(cache, "b")) == (0, 1000)


def test_new_labels_of_a_bound_pod_are_news(cache: Cache) -> None:
    cache.observe("Pod", make_pod("web", node="a", cpu="1"))
    assert cache.observe("Pod", make_pod("web", node="a", cpu="1", labels={"app": "web"})) == {Event.POD_LABELS}
    assert next(iter(cache.state.table.pods_on("a").values())).labels == {"app": "web"}


def test_a_bound_pod_that_begins_to_terminate_is_news_for_those_who_count_labels(cache: Cache) -> None:
    cache.observe("Pod", make_pod("web", node="a"))
    assert cache.observe("Pod", make_pod("web", node="a", deleting=True)) == {Event.POD_LABELS}


def test_a_repeated_report_is_no_news(cache: Cache) -> None:
    cache.observe("Pod", make_pod("web", node="a", cpu="1"))
    assert cache.observe("Pod", make_pod("web", node="a", cpu="1")) == NO_NEWS
    assert used_millicores(cache, "a") == 1000


def test_a_pod_made_again_under_its_name_replaces_the_older_one(cache: Cache) -> None:
    cache.observe("Pod", versioned(make_pod("web", node="a", cpu="1", uid="old"), 1))
    assert cache.observe("Pod", versioned(make_pod("web", cpu="1", uid="new"), 3)) == ROOM_FREED
    assert used_millicores(cache, "a") == 0
    assert dict(cache.known("Pod")) == {"new": "default/web"}


def test_the_late_removal_of_an_older_namesake_does_not_touch_the_newer_pod(cache: Cache) -> None:
    cache.observe("Pod", versioned(make_pod("web", uid="old"), 1))
    cache.observe("Pod", versioned(make_pod("web", node="b", cpu="1", uid="new"), 3))
    assert cache.remove("Pod", versioned(make_pod("web", uid="old"), 2)) == NO_NEWS
    assert used_millicores(cache, "b") == 1000
    assert dict(cache.known("Pod")) == {"new": "default/web"}


def test_a_late_report_of_an_older_namesake_does_not_bring_it_back(cache: Cache) -> None:
    cache.observe("Pod", versioned(make_pod("web", uid="old"), 1))
    cache.observe("Pod", versioned(make_pod("web", node="b", cpu="1", uid="new"), 4))
    cache.observe("Pod", versioned(make_pod("web", node="a", cpu="1", uid="old"), 2))
    cache.observe("Pod", versioned(make_pod("web", node="a", cpu="1", uid="oldest, never seen"), 3))
    assert (used_millicores(cache, "a"), used_millicores(cache, "b")) == (0, 1000)


def test_a_late_report_does_not_resurrect_a_removed_pod(cache: Cache) -> None:
    cache.observe("Pod", versioned(make_pod("web", node="a", cpu="1"), 5))
    cache.remove("Pod", versioned(make_pod("web", node="a", cpu="1"), 7))
    assert cache.observe("Pod", versioned(make_pod("web", node="a", cpu="1"), 6)) == NO_NEWS
    assert used_millicores(cache, "a") == 0
    assert not cache.known("Pod")


def test_a_pod_taken_for_gone_by_mistake_returns_with_its_next_version(cache: Cache) -> None:
    cache.observe("Pod", versioned(make_pod("web", node="a", cpu="1"), 5))
    cache.remove("Pod", versioned(make_pod("web", node="a", cpu="1"), 5))
    assert cache.observe("Pod", versioned(make_pod("web", node="a", cpu="1"), 6)) == ROOM_TAKEN


def test_an_older_version_is_ignored(cache: Cache) -> None:
    cache.observe("Pod", versioned(make_pod("web", node="a", cpu="1"), 10))
    assert cache.observe("Pod", versioned(make_pod("web", cpu="1"), 9)) == NO_NEWS
    assert used_millicores(cache, "a") == 1000
    assert cache.statistics()["old_news"] == 1


def test_a_bound_pod_that_makes_no_sense_any_more_keeps_its_room(cache: Cache) -> None:
    cache.observe("Pod", make_pod("web", node="a", cpu="1"))
    assert cache.observe("Pod", make_pod("web", node="a", cpu="1x")) == NO_NEWS
    assert used_millicores(cache, "a") == 1000
    assert cache.statistics()["invalid"] == {"Pod": 1}
    assert "1x" in str(cache.invalid["Pod", "default/web"])
    assert cache.remove("Pod", make_pod("web")) == ROOM_FREED
    assert not cache.invalid


def test_a_bound_pod_that_never_made_sense_takes_the_room_that_can_be_read_and_a_pods_slot(cache: Cache) -> None:
    senseless = make_pod("web", node="a", cpu="1", memory="1x", ports=[80], tolerations=[{"operator": "Is"}])
    assert cache.observe("Pod", senseless) == ROOM_TAKEN
    [pod] = cache.state.table.pods_on("a").values()
    assert (pod.usage, len(pod.host_ports)) == ({"cpu": 1000}, 1)
    assert "requests.memory" in str(cache.invalid["Pod", "default/web"])
    assert not cache.pending
    assert not cache.unreadable
    assert cache.remove("Pod", make_pod("web")) == ROOM_FREED


def test_room_is_found_beside_a_bound_pod_that_makes_no_sense_only_as_far_as_there_is_some(cache: Cache) -> None:
    cache.observe("Pod", make_pod("web", node="a", cpu="3", tolerations=[{"operator": "Is"}]))
    cache.observe("Pod", make_pod("db", node="b", cpu="3", resourceClaims=[{}]))
    pipeline = PolicyStore(now=lambda: START).for_pod(parse_pod(make_pod("any")), {})
    assert pipeline is not None
    verdict = pipeline.pipeline.decide(parse_pod(make_pod("next", cpu="2")), cache.state, Random(0))
    assert isinstance(verdict, Diagnosis)
    assert "2 Insufficient cpu" in verdict.message


def test_a_bound_pod_that_makes_no_sense_and_grows_takes_more_and_does_not_shrink(cache: Cache) -> None:
    cache.observe("Pod", make_pod("web", node="a", cpu="2"))
    cache.observe("Pod", make_pod("web", node="a", cpu="3", tolerations=[{"operator": "Is"}]))
    assert used_millicores(cache, "a") == 3000
    assert cache.observe("Pod", make_pod("web", node="a", cpu="1", tolerations=[{"operator": "Is"}])) == NO_NEWS
    assert used_millicores(cache, "a") == 3000
    assert cache.observe("Pod", make_pod("web", node="a", cpu="1")) == {Event.POD_SHRUNK}
    assert used_millicores(cache, "a") == 1000


def test_a_pod_without_a_namespace_costs_nobody_the_room_he_has(cache: Cache) -> None:
    cache.observe("Pod", make_pod("web", node="a", cpu="1"))
    body = make_pod("web", node="a", cpu="1x")
    del body["metadata"]["namespace"]
    assert cache.observe("Pod", body) == NO_NEWS
    assert used_millicores(cache, "a") == 1000


def test_a_pending_pod_that_makes_no_sense_is_left_out_until_it_does(cache: Cache) -> None:
    cache.observe("Pod", make_pod("web", cpu="1"))
    cache.observe("Pod", make_pod("web", cpu="1x"))
    assert not cache.pending
    assert dict(cache.known("Pod")) == {"pod-default-web": "default/web"}
    assert list(cache.unreadable) == ["pod-default-web"]
    cache.observe("Pod", make_pod("web", cpu="2"))
    assert list(cache.pending) == ["pod-default-web"]
    assert not cache.unreadable
    assert not cache.invalid


def test_an_assumed_pod_whose_echo_makes_no_sense_is_bound_all_the_same(cache: Cache) -> None:
    assume(cache, "web", "a")
    cache.observe("Pod", make_pod("web", node="b", cpu="1x"))
    assert not cache.assumed()
    assert (used_millicores(cache, "a"), used_millicores(cache, "b")) == (0, 1000)


def test_an_assumed_pod_that_makes_no_sense_any_more_is_not_pending_when_forgotten(cache: Cache) -> None:
    assume(cache, "web", "a")
    cache.observe("Pod", make_pod("web", cpu="1x"))
    assert cache.forget("pod-default-web") == ROOM_FREED
    assert not cache.pending


def test_a_finished_pod_that_makes_no_sense_frees_its_room(cache: Cache) -> None:
    cache.observe("Pod", make_pod("web", node="a", cpu="1"))
    assert cache.observe("Pod", make_pod("web", node="a", cpu="1x", phase="Failed")) == ROOM_FREED


def test_a_pod_the_cluster_never_showed_is_unknown_again_when_forgotten(cache: Cache) -> None:
    pod = parse_pod(make_pod("web", cpu="1"))
    cache.assume(pod, "a")
    cache.forget(pod.uid)
    assert not cache.pending


# --- nominated pods --------------------------------------------------------------------------------------------------


def nominated(cache: Cache) -> dict[str, list[str]]:
    return {node: list(pods) for node, pods in cache.state.nominated.items()}


def test_a_pending_pod_that_names_a_node_is_nominated_to_it_and_takes_no_room(cache: Cache) -> None:
    assert cache.observe("Pod", make_pod("web", cpu="1", nominated="a")) == NO_NEWS
    assert nominated(cache) == {"a": ["pod-default-web"]}
    assert used_millicores(cache, "a") == 0


def test_a_pod_nominated_after_it_was_first_seen_is_nominated_once(cache: Cache) -> None:
    cache.observe("Pod", make_pod("web", cpu="1"))
    assert cache.observe("Pod", make_pod("web", cpu="1", nominated="a")) == NO_NEWS
    assert cache.observe("Pod", make_pod("web", cpu="1", nominated="a")) == NO_NEWS
    assert nominated(cache) == {"a": ["pod-default-web"]}


def test_a_pod_nominated_to_another_node_gives_the_first_one_up(cache: Cache) -> None:
    cache.observe("Pod", make_pod("web", cpu="1", nominated="a"))
    assert cache.observe("Pod", make_pod("web", cpu="1", nominated="b")) == ROOM_FREED
    assert nominated(cache) == {"b": ["pod-default-web"]}


def test_a_pod_whose_nomination_is_cleared_waits_on_and_its_node_is_free_for_others(cache: Cache) -> None:
    cache.observe("Pod", make_pod("web", cpu="1", nominated="a"))
    assert cache.observe("Pod", make_pod("web", cpu="1")) == ROOM_FREED
    assert nominated(cache) == {}
    assert list(cache.pending) == ["pod-default-web"]


def test_a_nominated_pod_that_asks_for_less_is_counted_as_it_is_now_and_is_news(cache: Cache) -> None:
    cache.observe("Pod", make_pod("web", cpu="2", nominated="a"))
    assert cache.observe("Pod", make_pod("web", cpu="1", nominated="a")) == ROOM_FREED
    assert cache.state.nominated["a"]["pod-default-web"].usage == {"cpu": 1000}


def test_a_nominated_pod_that_is_bound_where_it_waited_takes_that_room_and_no_other(cache: Cache) -> None:
    cache.observe("Pod", make_pod("web", cpu="1", nominated="a"))
    assert cache.observe("Pod", make_pod("web", cpu="1", nominated="a", node="a")) == ROOM_TAKEN
    assert nominated(cache) == {}
    assert used_millicores(cache, "a") == 1000


def test_a_nominated_pod_that_is_bound_elsewhere_gives_its_node_up(cache: Cache) -> None:
    cache.observe("Pod", make_pod("web", cpu="1", nominated="a"))
    assert cache.observe("Pod", make_pod("web", cpu="1", nominated="a", node="b")) == ROOM_TAKEN | ROOM_FREED
    assert nominated(cache) == {}
    assert (used_millicores(cache, "a"), used_millicores(cache, "b")) == (0, 1000)


def test_a_nominated_pod_is_not_counted_twice_while_it_is_assumed(cache: Cache) -> None:
    cache.observe("Pod", make_pod("web", cpu="1", nominated="a"))
    assert cache.assume(cache.pending["pod-default-web"], "a") == ROOM_TAKEN
    assert nominated(cache) == {}
    cache.observe("Pod", make_pod("web", cpu="1", nominated="a", labels={"new": "label"}))
    assert nominated(cache) == {}


def test_a_nominated_pod_that_is_assumed_elsewhere_gives_its_node_up(cache: Cache) -> None:
    cache.observe("Pod", make_pod("web", cpu="1", nominated="a"))
    assert cache.assume(cache.pending["pod-default-web"], "b") == ROOM_TAKEN | ROOM_FREED


def test_a_nominated_pod_that_could_not_be_bound_is_nominated_again(cache: Cache) -> None:
    cache.observe("Pod", make_pod("web", cpu="1", nominated="a"))
    cache.assume(cache.pending["pod-default-web"], "a")
    assert cache.forget("pod-default-web") == ROOM_FREED
    assert nominated(cache) == {"a": ["pod-default-web"]}


def nominated_in_vain(cache: Cache) -> None:
    """The cluster says node a. We said none, which could not be written, and then a again, with a place held there."""
    cache.observe("Pod", versioned(make_pod("web", cpu="1", nominated="a"), 7))
    cache.nominate("pod-default-web", "")
    cache.assume(cache.pending["pod-default-web"], "a")


def test_a_nomination_that_the_cluster_has_already_stands_when_the_pod_gives_its_room_back(cache: Cache) -> None:
    nominated_in_vain(cache)
    number = cache.nominate("pod-default-web", "a")
    assert number is not None
    cache.nomination_written("pod-default-web", number, "7")  # nothing was to be changed
    cache.forget("pod-default-web")
    assert nominated(cache) == {"a": ["pod-default-web"]}


def test_an_assumed_pod_waits_for_the_node_that_the_cluster_says_when_others_decide(cache: Cache) -> None:
    nominated_in_vain(cache)
    cache.take_back_nominations()
    cache.forget("pod-default-web")
    assert nominated(cache) == {"a": ["pod-default-web"]}


def test_a_nominated_pod_that_is_deleted_gives_its_node_up(cache: Cache) -> None:
    cache.observe("Pod", make_pod("web", cpu="1", nominated="a"))
    assert cache.remove("Pod", make_pod("web")) == ROOM_FREED
    assert nominated(cache) == {}


def test_a_nominated_pod_that_makes_no_sense_any_more_gives_its_node_up(cache: Cache) -> None:
    cache.observe("Pod", make_pod("web", cpu="1", nominated="a"))
    assert cache.observe("Pod", make_pod("web", cpu="1x", nominated="a")) == ROOM_FREED
    assert nominated(cache) == {}


def test_a_namesake_does_not_inherit_a_nomination(cache: Cache) -> None:
    cache.observe("Pod", versioned(make_pod("web", cpu="1", nominated="a", uid="old"), 1))
    assert cache.observe("Pod", versioned(make_pod("web", cpu="1", uid="new"), 2)) == ROOM_FREED
    assert nominated(cache) == {}


def test_a_pod_may_be_nominated_to_a_node_that_is_not_known_yet(cache: Cache) -> None:
    cache.observe("Pod", make_pod("web", cpu="4", nominated="c", priority=10))
    pipeline = PolicyStore(now=lambda: START).for_pod(parse_pod(make_pod("any")), {})
    assert pipeline is not None
    cache.observe("Node", make_node("c", labels={"only": "c"}))
    verdict = pipeline.pipeline.decide(
        parse_pod(make_pod("next", cpu="1", node_selector={"only": "c"})), cache.state, Random(0)
    )
    assert isinstance(verdict, Diagnosis)
    assert "1 Insufficient cpu" in verdict.message
    assert Event.POD_REMOVED in verdict.retry_events


# --- what decisions read of a bound pod ------------------------------------------------------------------------------

# What never changes, what the table has from elsewhere, and what decisions read of a pod to place alone.
NOT_KEPT_UP = {
    *("uid", "namespace", "name", "created", "scheduler_name", "node_name"),
    *("resource_version", "generation", "phase", "scheduled_condition", "nominated_node_name", "gates", "owners"),
    *("requests", "scored", "limits", "best_effort", "images", "container_count", "required_features"),
    *("tolerations", "node_selector", "required_node_affinity", "preferred_node_affinity", "spread_constraints"),
    *("preemption_policy", "resource_claims", "extended_resources"),
}


def test_of_a_bound_pod_every_part_is_kept_up_that_a_decision_about_others_reads() -> None:
    pod = parse_pod(make_pod("web", node="a"))
    parts = [field.name for field in fields(pod) if field.init]
    assert set(parts) >= NOT_KEPT_UP

    def with_another(part: str) -> Pod:
        changed: dict[str, Any] = {part: "something else"}
        return replace(pod, **changed)

    kept_up = {part for part in parts if not takes_the_same_room(pod, with_another(part))}
    assert kept_up == set(parts) - NOT_KEPT_UP


def test_a_bound_pod_that_is_being_pushed_out_is_known_as_such(cache: Cache) -> None:
    pushed = {"type": "DisruptionTarget", "status": "True", "reason": "PreemptionByScheduler"}
    cache.observe("Pod", make_pod("web", node="a"))
    assert cache.observe("Pod", make_pod("web", node="a", status={"conditions": [pushed]})) == NO_NEWS
    [pod] = cache.state.table.pods_on("a").values()
    assert pod.preempted


def test_a_bound_pod_that_has_started_is_known_by_its_start(cache: Cache) -> None:
    cache.observe("Pod", make_pod("web", node="a"))
    assert cache.observe("Pod", make_pod("web", node="a", status={"startTime": "2026-01-01T00:00:00Z"})) == NO_NEWS
    [pod] = cache.state.table.pods_on("a").values()
    assert pod.start_time == "2026-01-01T00:00:00Z"
