"""The cases that have bitten kube-scheduler and its peers, and where each of them is tested.

Numbers are issues and pull requests of kubernetes/kubernetes. The tests stand with what they are about; this is the
list by which one sees that none is missing.
"""

import ast
from functools import cache
from pathlib import Path

import pytest

TESTS = Path(__file__).parent

QUEUE = {
    "an event between tried and parked (#72122)": [
        "scheduler/test_queue.py::test_an_event_during_the_attempt_is_judged_when_the_pod_is_parked",
    ],
    "a node not ready when added, its later update judged irrelevant (#122284)": [
        "scheduler/test_cache_objects.py::test_a_node_that_was_not_ready_when_added_is_news_when_it_is",
        "scheduler/test_placing.py::test_a_node_not_ready_when_added_takes_the_pod_once_its_taint_is_gone",
    ],
    "an old rejecting plugin remembered, a later error that parks the pod (#120334)": [
        "scheduler/test_queue.py::test_the_plugins_of_the_last_attempt_replace_those_of_earlier_ones",
        "scheduler/test_queue.py::test_an_error_after_a_rejection_does_not_park_the_pod",
    ],
    "forgetting an assumed pod wakes others (#122534)": [
        "scheduler/test_binding.py::test_the_room_of_a_refused_bind_is_news_for_others",
    ],
    "a rejection by a rule from outside wakes on whatever may change its mind (#122019)": [
        "scheduler/test_extending.py::test_a_pod_that_extenders_refuse_is_woken_by_any_event",
        "engine/test_custom_plugins.py::test_a_diagnosis_of_an_outside_plugin_that_names_no_events_is_retried_on_any",
        "policy/test_expressions.py::test_a_pod_that_a_predicate_refuses_is_woken_by_anything",
        "scheduler/test_hints.py::test_rules_from_outside_wake_on_anything",
    ],
    "a toleration added to the pending pod itself (#127427)": [
        "scheduler/test_placing.py::test_a_toleration_added_to_the_pending_pod_itself_wakes_it",
    ],
    "labels of the affinity target change (#135394)": [
        "scheduler/test_edge_cases.py::test_a_label_given_to_the_target_of_an_affinity_brings_back_who_waits_for_it",
    ],
    "a nominated pod changes (#135392)": [
        "scheduler/test_edge_cases.py::test_a_nominated_pod_that_asks_for_less_brings_back_who_waits_for_its_room",
    ],
    "an anti-affinity pod goes (#135325)": [
        "scheduler/test_edge_cases.py::test_an_anti_affinity_pod_that_goes_brings_back_whom_it_kept_away",
    ],
    "a pod deleted and made again with the same name during a cycle (#138435)": [
        "scheduler/test_queue.py::test_a_pod_made_again_with_the_same_name_during_the_attempt_is_another_pod",
        "scheduler/test_binding.py::test_a_namesake_is_not_bound_in_the_place_of_a_deleted_pod",
    ],
    "a watch that misses an add, a change or a delete (#102790, #55587)": [
        "cluster/test_cache_sync.py::test_an_object_that_the_watch_never_delivers_is_fetched",
        "cluster/test_comparer.py::test_an_object_that_is_known_in_an_older_version_is_read",
        "cluster/test_comparer.py::test_an_object_deleted_in_silence_is_removed_at_once_and_drift_if_it_stays_silent",
    ],
    "a static volume appears (#133929)": [
        "scheduler/test_edge_cases.py::test_a_static_volume_that_appears_brings_back_the_pod_that_waits_for_one",
    ],
}

CACHE_AND_BIND = {
    "an assumed pod expired, the bind succeeded late: booked twice (#106361)": [
        "scheduler/test_echoes.py::test_an_assumed_pod_never_expires_while_it_cannot_be_read",
        "scheduler/test_binding.py::test_a_bind_that_lands_after_everybody_gave_it_up_is_not_booked_twice",
    ],
    "assumed twice after a failed bind (#26043)": [
        "scheduler/test_cache_pods.py::test_a_pod_cannot_be_assumed_twice",
        "scheduler/test_cache_pods.py::test_a_pod_can_be_assumed_again_after_it_was_forgotten",
    ],
    "a bind that timed out but succeeded (#96579)": [
        "scheduler/test_binding.py::test_a_bind_that_timed_out_but_succeeded_is_a_success",
        "faults/test_binding.py::test_a_bind_whose_answer_was_cut_off_is_found_bound_and_not_done_again",
    ],
    "a bind that failed after its claim was bound (#108560)": [
        "scheduler/test_volumes_contested.py::"
        "test_a_pod_whose_bind_is_refused_after_its_volumes_were_bound_is_bound_without_another_write",
    ],
    "a pod deleted while binding keeps its space (#134157)": [
        "scheduler/test_binding.py::test_a_pod_deleted_while_binding_frees_its_space_at_once",
        "scheduler/test_cache_pods.py::test_a_pod_deleted_while_assumed_frees_its_room_once",
    ],
    "a node deleted and added again (#63262)": [
        "scheduler/test_cache_objects.py::test_a_node_made_again_without_a_word_of_its_removal_is_a_new_node",
        "scheduler/test_cache_objects.py::test_a_node_may_go_before_its_pods_and_come_back",
    ],
    "a node deleted before its pods, or added after them (#95124, #93938)": [
        "scheduler/test_cache_objects.py::test_a_node_may_go_before_its_pods_and_come_back",
        "scheduler/test_cache_objects.py::test_a_node_may_come_after_its_pods",
        "engine/test_table.py::test_a_pod_counts_before_its_node_is_known_and_after_it_is_gone",
    ],
}

RESOURCES = {
    "sidecars, init containers and overhead (#127868)": [
        "model/test_resources.py::test_a_sidecar_runs_beside_the_containers",
        "model/test_resources.py::test_an_init_container_runs_beside_the_sidecars_declared_before_it",
        "model/test_resources.py::test_overhead_is_added",
    ],
    "init containers count in scores too (#89092)": [
        "model/test_resources.py::test_init_containers_and_sidecars_have_scoring_defaults_too",
    ],
    "a resize in place counts the larger of asked and allocated (#129532, #140046)": [
        "model/test_resources.py::test_a_resized_container_takes_the_largest_of_asked_allocated_and_in_force",
        "scheduler/test_cache_pods.py::test_a_bound_pod_that_is_resized_holds_the_larger_of_both_until_that_is_done",
    ],
    "an infeasible resize does not count": [
        "model/test_resources.py::test_an_infeasible_resize_does_not_count",
        "scheduler/test_cache_pods.py::test_a_resize_that_turns_out_to_be_infeasible_gives_its_room_back",
    ],
    "pod-level requests replace the sum": [
        "model/test_resources.py::test_pod_level_requests_replace_the_sum_and_overhead_still_comes_on_top",
    ],
}

PREEMPTION = {
    "the nomination holds in memory at once (#72124)": [
        "scheduler/test_preempting.py::test_the_room_that_comes_free_is_for_the_preemptor_alone",
        "scheduler/test_preempting.py::test_two_preemptors_do_not_count_on_the_same_room",
    ],
    "nominated to a node that died or can never fit (#93505, #95752, #92600)": [
        "scheduler/test_preempting.py::test_when_the_node_goes_the_pod_looks_for_another",
        "engine/test_preemption.py::test_a_pod_preempts_elsewhere_when_its_nominated_node_is_beyond_help_or_gone",
    ],
    "a preemptor deleted mid-cycle leaves no phantom nomination (#102339)": [
        "scheduler/test_preempting.py::test_a_nominated_pod_that_is_deleted_leaves_its_room_to_others",
        "scheduler/test_preempting_in_disorder.py::test_nobody_goes_for_a_preemptor_that_is_gone",
    ],
    "a second preemption before the first one's victims are gone (#134249)": [
        "scheduler/test_preempting.py::test_while_the_victims_leave_nobody_else_is_pushed_out",
    ],
    "a victim already gone, so that no event comes (#141694), a preemptor that waits for ever (#139162)": [
        "scheduler/test_preempting_in_disorder.py::"
        "test_a_victim_that_is_gone_and_of_which_the_watch_says_nothing_holds_nobody_up",
        "scheduler/test_preempting_in_disorder.py::"
        "test_a_watch_that_is_late_is_not_waited_for_longer_than_it_takes_to_look",
    ],
    "two victims under one budget (#82235)": [
        "engine/test_preemption.py::test_a_budget_lets_the_most_important_pods_go_first",
    ],
    "own earlier evictions count against a budget (#91492)": [
        "scheduler/test_preempting_in_disorder.py::test_own_evictions_count_against_a_budget_before_its_status_does",
    ],
    "disruptedPods (#92475)": [
        "engine/test_preemption.py::test_a_budget_that_does_not_count_the_pod_does_not_protect_it",
        "scheduler/test_preempting_in_disorder.py::test_they_count_once_when_the_status_shows_them",
    ],
    "a victim's status patch is built from the victim (#126644)": [
        "cluster/test_evictions.py::test_a_pod_is_told_why_it_ends_and_deleted_with_its_own_grace",
    ],
    "a gated pod's nomination still holds its room (#139057)": [
        "scheduler/test_edge_cases.py::test_a_gated_pod_holds_the_room_that_it_is_nominated_to",
    ],
    "two schedulers preempting each other in a loop (#130429)": [
        "scheduler/test_preempting.py::test_a_pod_does_not_take_what_another_scheduler_makes_free_for_its_own",
    ],
}

SPREADING_AND_AFFINITY = {
    "terminating pods do not count (#116629), nor those of other namespaces": [
        "engine/test_pod_topology_spread.py::test_pods_that_do_not_count",
    ],
    "tainted or cordoned nodes count as empty domains unless the pod says otherwise (#106127, #107464)": [
        "engine/test_pod_topology_spread.py::test_tainted_nodes_are_a_domain_unless_the_pod_says_otherwise",
        "scheduler/test_edge_cases.py::test_a_cordoned_node_is_an_empty_domain_to_spread_over",
    ],
    "minDomains with fewer domains": [
        "engine/test_pod_topology_spread.py::test_fewer_domains_than_asked_for_count_as_if_one_were_empty",
    ],
    "an empty selector matches all pods of the namespaces, a missing one none": [
        "scheduler/test_edge_cases.py::test_an_empty_selector_means_every_pod_of_the_namespace_and_of_no_other",
        "engine/test_inter_pod_affinity.py::test_a_term_without_a_selector_means_no_pod",
    ],
    "the first pod of a group with affinity to itself may start anywhere": [
        "engine/test_inter_pod_affinity.py::test_the_first_pod_of_a_group_that_wants_itself_near_needs_only_the_label",
    ],
}

VOLUMES = {
    "a claim that waits for its consumer is given the node (#86262)": [
        "scheduler/test_volumes.py::test_a_claim_is_given_the_node_and_the_pod_waits_for_the_provisioner",
        "cluster/test_volume_writes.py::test_a_claim_gets_the_node_as_an_annotation",
    ],
    "volumeName set, phase not yet Bound (#79888)": [
        "engine/test_volume_binding.py::test_a_pod_whose_claim_is_not_usable_waits_with_the_reason",
    ],
    "a claim deleted mid-flight": [
        "scheduler/test_volumes.py::test_a_claim_that_is_deleted_while_a_pod_waits_for_it_is_told_and_tried_again",
    ],
    "volumes are assumed before the pod (#72045)": [
        "scheduler/test_volumes.py::test_two_pods_that_race_for_one_volume_get_it_one_after_the_other",
    ],
    "ReadWriteOncePod taken by a terminating pod": [
        "scheduler/test_edge_cases.py::test_a_claim_for_one_pod_is_taken_until_the_pod_that_terminates_is_gone",
    ],
}

POLICIES = {
    "edited in the middle of a cycle": [
        "scheduler/test_policies.py::test_each_pod_of_a_stream_is_judged_by_exactly_one_generation",
        "scheduler/test_attempts.py::test_an_edited_policy_has_its_attempts_made_anew_by_the_new_generation",
    ],
    "deleted while its pods wait": [
        "scheduler/test_placing.py::test_pods_of_a_deleted_policy_wait_for_the_next_one",
        "scheduler/test_policies.py::"
        "test_a_pod_that_waits_when_its_policy_is_deleted_is_taken_over_by_the_built_in_one",
    ],
    "broken, then repaired": [
        "scheduler/test_policies.py::test_a_policy_that_breaks_goes_on_as_it_was_and_is_mended_under_a_stream_of_pods",
    ],
    "two that claim the same scheduler name": [
        "policy/test_selection.py::TestWhoWins::test_of_equals_the_first_by_name_wins",
        "policy/test_policy_store.py::TestStatuses::test_two_policies_for_one_name_both_say_so",
    ],
    "one that names an unknown plugin": [
        "engine/test_plugins.py::test_an_unknown_plugin_is_refused_with_the_names_that_are_known",
    ],
    "an expression that fails on one node only": [
        "policy/test_expressions.py::test_an_error_on_one_node_refuses_that_node_alone_and_is_counted_with_its_name",
    ],
    "an expression that never ends": [
        "policy/test_expressions.py::test_a_runaway_ends_soon_and_is_an_error",
    ],
}

THROUGHPUT = {
    "a log line a node (#86302)": [
        "scheduler/test_edge_cases.py::test_a_decision_over_many_nodes_writes_no_log_line_for_each",
    ],
    "score tables computed for every pod (#103515)": [
        "engine/test_cached_answers.py::test_every_built_in_plugin_says_what_its_answers_depend_on_for_a_plain_pod",
    ],
    "client-side rate limits (#135900)": [
        "scheduler/test_binding.py::test_many_binds_run_at_once",
    ],
    "10,000 gated pods": [
        "scheduler/test_edge_cases.py::test_ten_thousand_gated_pods_cost_nothing_whatever_happens",
    ],
}

CASES = {
    case: tests
    for area in (QUEUE, CACHE_AND_BIND, RESOURCES, PREEMPTION, SPREADING_AND_AFFINITY, VOLUMES, POLICIES, THROUGHPUT)
    for case, tests in area.items()
}


@cache
def names_in(path: str) -> frozenset[str]:
    """The names of the tests of a file, those of a class after its name."""
    found = set()
    for node in ast.parse((TESTS / path).read_text()).body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            found.add(node.name)
        elif isinstance(node, ast.ClassDef):
            methods = (each for each in node.body if isinstance(each, ast.FunctionDef | ast.AsyncFunctionDef))
            found |= {f"{node.name}::{method.name}" for method in methods}
    return frozenset(found)


@pytest.mark.parametrize("case", CASES)
def test_the_case_is_tested(case: str) -> None:
    for test in CASES[case]:
        path, _, name = test.partition("::")
        assert name in names_in(path), f"{test} is gone: which test has the case now?"
