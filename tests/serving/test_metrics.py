"""The metrics of a runtime: what they are read from, and that no name makes more of them than there may be."""

from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

from berth import __version__
from berth import runtime as berth_runtime
from berth.configuration.gates import DEFAULTS
from berth.engine.events import Change, Event
from berth.model import Pod, parse_pod
from berth.policy import BUILT_IN, compile_policy
from berth.policy.compile import ActivePolicy
from berth.policy.usage import NO_COUNTS
from berth.runtime import Options, Runtime
from berth.runtime.statistics import MOST_POLICIES
from berth.scheduler.measures import MOST_PROFILES
from berth.scheduler.queue.queue_reasons import cause_of
from berth.serving.metric_table import MOST_PLUGINS, RESULTS, TABLE
from berth.serving.metrics import render
from cluster.manual_clock import ManualClock
from cluster.server import write_kubeconfig
from policy.builders import make_policy
from support.builders import make_node, make_pod

MANY = 2000
ODD = ("café", 'quo"te', "new\nline", "back\\slash", "x" * 5000, "", "{}", "\x00")


def make_runtime(tmp_path: Path, **options: Any) -> Runtime:
    kubeconfig = str(write_kubeconfig(tmp_path, "http://x:1"))
    return berth_runtime.make_runtime(
        Options(kubeconfig=kubeconfig, **{"standalone": True, **options}), clock=ManualClock()
    )


def scrape(runtime: Runtime) -> dict[str, list[dict[str, str]]]:
    """The labels of every series, by family."""
    text = render(runtime.statistics).decode()
    return {family.name: [sample.labels for sample in family.samples] for family in families(text)}


def families(text: str) -> list[Any]:
    return list(text_string_to_metric_families(text))


def values(runtime: Runtime, name: str) -> dict[tuple[str, ...], float]:
    found: dict[tuple[str, ...], float] = {}
    for family in families(render(runtime.statistics).decode()):
        found |= {tuple(sample.labels.values()): sample.value for sample in family.samples if sample.name == name}
    return found


def test_every_metric_is_named_once_and_says_what_it_is() -> None:
    assert [name for name, times in Counter(row.name for row in TABLE).items() if times > 1] == []
    for row in TABLE:
        assert row.name.startswith(("scheduler_", "berth_", "kubernetes_"))
        assert row.text.endswith(".")
        assert row.name.endswith("_total") is (row.type == "counter")


async def test_everything_in_the_table_can_be_scraped_from_a_runtime_that_has_done_nothing(tmp_path: Path) -> None:
    text = render(make_runtime(tmp_path).statistics).decode()
    for row in TABLE:
        assert f"# TYPE {row.name} {row.type}\n" in text


@pytest.mark.parametrize(
    "name",
    [
        "scheduler_schedule_attempts_total",
        "berth_binds_total",
        "berth_stages_total",
        "berth_volume_bindings_total",
        "berth_evictions_total",
        "berth_cache_drift_total",
        "berth_serving_access_total",
        "berth_events_total",
        "berth_conditions_total",
    ],
)
async def test_every_outcome_that_is_documented_is_there_with_0_before_it_first_counts(
    tmp_path: Path, name: str
) -> None:
    (row,) = (row for row in TABLE if row.name == name)
    *_, words = row.labels.values()
    documented = set(words.partition(" (")[0].split(", "))
    found = values(make_runtime(tmp_path), name)
    assert {outcome for *_, outcome in found} == documented
    assert set(found.values()) == {0}


async def test_drift_is_there_with_0_for_every_kind(tmp_path: Path) -> None:
    runtime = make_runtime(tmp_path)
    kinds = {kind for kind, _ in values(runtime, "berth_cache_drift_total")}
    assert kinds == {kind for (kind,) in values(runtime, "berth_kind_synced")}
    assert len(kinds) > 10


async def test_attempts_are_there_with_0_for_every_scheduler_name_while_it_is_served(tmp_path: Path) -> None:
    runtime = make_runtime(tmp_path)
    runtime.on_event("SchedulingPolicy", "ADDED", make_policy("batch", schedulerName="night"))
    none = dict.fromkeys(RESULTS, 0)
    assert attempts(runtime) == {"berth": none, "night": none}
    runtime.on_event("SchedulingPolicy", "DELETED", make_policy("batch"))
    assert attempts(runtime) == {"berth": none}


async def test_attempts_that_were_counted_stay_when_their_scheduler_name_is_served_no_more(tmp_path: Path) -> None:
    runtime = make_runtime(tmp_path)
    runtime.on_event("SchedulingPolicy", "ADDED", make_policy("batch", schedulerName="night"))
    runtime.components.loop.measures.ended("night", "error", 0.0)
    runtime.on_event("SchedulingPolicy", "DELETED", make_policy("batch"))
    assert attempts(runtime)["night"] == {"scheduled": 0, "unschedulable": 0, "error": 1}


def attempts(runtime: Runtime) -> dict[str, dict[str, float]]:
    """By scheduler name, then by result."""
    found: dict[str, dict[str, float]] = {}
    for (profile, result), count in values(runtime, "scheduler_schedule_attempts_total").items():
        found.setdefault(profile, {})[result] = count
    return found


async def test_the_version_and_the_gates_are_shown(tmp_path: Path) -> None:
    runtime = make_runtime(tmp_path, feature_gates={**DEFAULTS, "Expressions": False})
    text = render(runtime.statistics).decode()
    assert f'version="{__version__}"' in text
    assert 'kubernetes_feature_enabled{name="Expressions",stage="BETA"} 0.0' in text
    assert 'kubernetes_feature_enabled{name="ShadowPolicies",stage="ALPHA"} 1.0' in text


def test_leadership_and_lag_are_shown_once_somebody_knows_of_them() -> None:
    known = {"leadership": {"leading": 1, "open": 0, "changes": 3, "closings": 2}, "loop_lag_seconds": 0.25}
    text = render(lambda: known).decode()
    for line in (
        "berth_leader 1.0",
        "berth_fence_open 0.0",
        "berth_leadership_changes_total 3.0",
        "berth_fence_closings_total 2.0",
        "berth_loop_lag_seconds 0.25",
    ):
        assert line in text.splitlines()
    assert "berth_leader 0" not in render(lambda: {}).decode()


async def test_the_only_replica_leads_always_and_its_fence_opens_with_the_scheduler(tmp_path: Path) -> None:
    runtime = make_runtime(tmp_path, standalone=True)
    assert (values(runtime, "berth_leader"), values(runtime, "berth_fence_open")) == ({(): 1}, {(): 0})
    runtime.components.decisions.on_synced()
    assert (values(runtime, "berth_leader"), values(runtime, "berth_fence_open")) == ({(): 1}, {(): 1})
    for never in ("berth_leadership_changes_total", "berth_fence_closings_total"):
        assert values(runtime, never) == {(): 0}


async def test_only_kube_schedulers_parts_of_the_queue_are_under_its_name(tmp_path: Path) -> None:
    runtime = make_runtime(tmp_path)
    assert values(runtime, "scheduler_pending_pods").keys() == {
        ("active",),
        ("backoff",),
        ("unschedulable",),
        ("gated",),
    }
    assert values(runtime, "berth_attempted_pods").keys() == {("in_flight",), ("held",)}


async def test_the_cache_is_measured_as_kube_scheduler_does(tmp_path: Path) -> None:
    runtime = make_runtime(tmp_path)
    runtime.on_event("Node", None, make_node("a"))
    runtime.on_event("Pod", None, make_pod("web", node="a"))
    runtime.on_event("Pod", None, make_pod("waiting"))
    assert values(runtime, "scheduler_cache_size") == {("assumed_pods",): 0, ("pods",): 1, ("nodes",): 1}


async def test_the_age_of_a_watch_is_the_time_since_anything_was_heard_of_its_kind(tmp_path: Path) -> None:
    runtime = make_runtime(tmp_path)
    clock = runtime.components.clock
    assert isinstance(clock, ManualClock)
    runtime.components.cache_sync.start()
    await clock.advance(30)
    runtime.on_event("Node", "MODIFIED", make_node("a"))
    await clock.advance(5)
    ages = values(runtime, "berth_watch_age_seconds")
    await runtime.components.cache_sync.stop()
    assert ages["Node",] == 5
    assert ages["Pod",] >= 35
    await runtime.components.api.close()


async def test_a_policy_that_is_refused_is_counted(tmp_path: Path) -> None:
    runtime = make_runtime(tmp_path)
    runtime.on_event("SchedulingPolicy", "ADDED", make_policy("bad", tieBreak="Never"))
    runtime.on_event("SchedulingPolicy", "ADDED", make_policy("good"))
    assert values(runtime, "berth_policies_refused") == {(): 1}
    assert values(runtime, "berth_policy_generation") == {("good",): 1, ("(built-in)",): 0}  # of kube-system


# --- bounds ----------------------------------------------------------------------------------------------------------


async def test_neither_policies_nor_names_without_end_make_series_without_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    runtime = make_runtime(tmp_path)
    policies = [replace(BUILT_IN, name=f"p{number}", uid=f"u{number}", generation=1) for number in range(MANY)]
    in_force = [ActivePolicy(policy, compile_policy(BUILT_IN), None) for policy in policies]
    # At once: one by one they would take minutes.
    monkeypatch.setattr(runtime.components.policies, "in_force", lambda: in_force)
    for active in in_force:
        runtime.components.policies.usage.begin(active.policy.name, active.policy.uid, NO_COUNTS)
        for source in range(20):
            runtime.components.policies.usage.failed(active, f"plugin {active.policy.name}-{source}", "x")
    measures, tally = runtime.components.loop.measures, runtime.components.queue.counters
    for number in range(MANY):
        for name in (f"s{number}", *ODD):
            measures.ended(name, "error", 0.0)
            measures.scheduled(name, 0.0, number + 1, 0.0)
            measures.point(name, "Filter", "Success", 0.1)
            tally.blame(name, (), (f"plugin-{number}",))
    most = {
        "policy": MOST_POLICIES + 1,
        "profile": MOST_PROFILES + 1,
        "plugin": MOST_PLUGINS + 1,
        "source": 16 * MOST_POLICIES,
        "attempts": 15,
        "le": 21,
    }
    series = scrape(runtime)
    for name, labels in series.items():
        for label in {label for one in labels for label in one}:
            found = {one[label] for one in labels if label in one}
            assert len(found) <= most.get(label, 60), (name, label)
    assert sum(map(len, series.values())) < 30_000


async def test_the_policies_without_a_label_of_their_own_are_counted_together(tmp_path: Path) -> None:
    runtime = make_runtime(tmp_path)
    for number in range(MOST_POLICIES + 10):
        runtime.on_event("SchedulingPolicy", "ADDED", make_policy(f"p{number:03}", schedulerName=f"s{number}"))
        active = runtime.components.policies.for_pod(pod_of(number), {})
        assert active is not None
        runtime.components.policies.usage.placed(active, runtime.components.clock.wall())
    placed = values(runtime, "berth_policy_placed_total")
    assert len(placed) == MOST_POLICIES + 1
    assert sum(placed.values()) == MOST_POLICIES + 10
    assert placed["(others)",] > 1
    assert ("(others)",) not in values(runtime, "berth_policy_generation")
    shown = {name for (name,) in placed} - {"(others)"}
    gone = min(shown - {"(built-in)"})
    runtime.on_event("SchedulingPolicy", "DELETED", make_policy(gone))
    again = {name for (name,) in values(runtime, "berth_policy_placed_total")} - {"(others)"}
    assert shown - again == {gone}
    assert len(again) == MOST_POLICIES


def pod_of(number: int) -> Pod:
    return parse_pod(make_pod("web", scheduler=f"s{number}"))


@pytest.mark.parametrize("event", list(Event))
def test_every_event_has_a_name_in_kube_schedulers_words(event: Event) -> None:
    assert cause_of(Change(frozenset({event}))).isascii()
