"""The metrics: what each number is called."""

from prometheus_client.parser import text_string_to_metric_families

from berth.serving.metrics import render

STATISTICS = {
    "scheduler": {
        "queue": {"active": 2, "gated": 1, "in_flight": 4, "held": 5},
        "measures": {
            "attempt_seconds": [(("berth", "scheduled"), {"buckets": {0.001: 5, 0.002: 7}, "count": 7, "sum": 0.5})]
        },
        "binds": {"running": 3, "bound": 6, "unknown": 1},
        "cache": {"objects": {"Pod": 9}, "invalid": {"Node": 1}, "old_news": 4},
        "extenders": {"waiting": 6, "held": 0},
        "echo_missing": 1,
    },
    "cluster": {"events": {"waiting": 1, "posted": 5}, "conditions": {"waiting": 0, "written": 2}},
    "cache_sync": {"synced": {"Pod": 1}, "drift": {"Pod": {"ghost": 2, "stale": 3}}},
    "policies": {
        "changes": 5,
        "generation": {"batch": 3},
        "usage": {
            "batch": {"placed": 7, "pending": 2, "preempted": 0, "failures": 4},
            "canary": {"placed": 0, "pending": 0, "preempted": 0, "shadow_same": 9, "shadow_different": 1},
        },
        "errors": {"batch": {"plugin Fickle": 3, "extender http://e": 1}},
    },
    "faults": {"observing": 2, "counting": 1},
    "api_reachable": 1,
    "watch_restarts": 0,
}


def samples() -> dict[tuple[str, str], float]:
    families = text_string_to_metric_families(render(lambda: STATISTICS).decode())
    return {
        (sample.name, ",".join(sample.labels.values())): sample.value
        for family in families
        for sample in family.samples
        if not sample.name.endswith("_created")
    }


def test_the_metrics_name_the_statistics() -> None:
    values = samples()
    assert values["scheduler_pending_pods", "active"] == 2
    assert values["scheduler_schedule_attempts_total", "berth,scheduled"] == 7
    assert values["berth_binds_total", "bound"] == 6
    assert ("berth_binds_total", "running") not in values
    assert values["berth_invalid_objects", "Node"] == 1
    assert values["berth_cache_drift_total", "Pod,ghost"] == 2
    assert values["berth_cache_drift_total", "Pod,stale"] == 3
    assert values["berth_events_total", "failed"] == 0
    assert values["berth_faults_total", "observing"] == 2
    assert values["berth_faults_total", "counting"] == 1


def test_the_metrics_tell_of_preemption_under_kube_schedulers_names() -> None:
    victims = {"buckets": {1: 2, 2: 3, 64: 4}, "count": 5, "sum": 99}
    preemption = {"attempts": 7, "running": 1, "outcomes": {"evicted": 6, "gone": 1}, "victims": victims}
    text = render(lambda: {"scheduler": {"preemption": preemption}}).decode()
    for line in (
        "scheduler_preemption_attempts_total 7.0",
        'scheduler_preemption_victims_bucket{le="1"} 2.0',
        'scheduler_preemption_victims_bucket{le="64"} 4.0',
        'scheduler_preemption_victims_bucket{le="+Inf"} 5.0',
        "scheduler_preemption_victims_count 5.0",
        "scheduler_preemption_victims_sum 99.0",
        'berth_evictions_total{outcome="evicted"} 6.0',
        "berth_preemptions_running 1.0",
    ):
        assert line in text.splitlines()


def test_the_metrics_tell_what_is_done_under_each_policy() -> None:
    values = samples()
    assert values["berth_policy_reloads_total", ""] == 5
    assert values["berth_policy_generation", "batch"] == 3
    assert values["berth_policy_placed_total", "batch"] == 7
    assert values["berth_policy_pending", "batch"] == 2
    assert values["berth_policy_errors_total", "batch,plugin Fickle"] == 3
    assert values["berth_policy_errors_total", "batch,extender http://e"] == 1
    assert values["berth_policy_shadow_total", "different,canary"] == 1
    assert ("berth_policy_shadow_total", "same,batch") not in values
    assert values["berth_extended_pods", ""] == 6


def test_what_can_fall_is_a_gauge() -> None:
    families = {
        family.name: family.type for family in text_string_to_metric_families(render(lambda: STATISTICS).decode())
    }
    assert families["berth_missing_echoes"] == "gauge"


def test_metrics_of_a_process_that_has_not_counted_anything_yet() -> None:
    assert b"berth_api_reachable 0.0" in render(dict)
