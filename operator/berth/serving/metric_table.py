"""The table of metrics: every one with its type, labels and meaning. `docs/metrics.md` is made from it.

A row reads its numbers from the statistics of the runtime, by the path at which they are. Of counters, every outcome
that is known beforehand is there from the start, as alerts could not see the first of its kind otherwise; what else is
not there yet gives no sample. Names that begin with `scheduler_` and `kubernetes_` are those of kube-scheduler 1.36,
with the same labels, buckets and meaning; where Berth differs in a detail, the row says so.
"""

import platform
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

from berth import __version__
from berth.scheduler.measures import MOST_PROFILES, SAMPLED, Names
from berth.serving.metric import (
    Definition,
    Read,
    Sample,
    Type,
    by_key,
    by_two_keys,
    given,
    histogram,
    section,
    value,
)

MOST_PLUGINS = 100

PROFILE = f"the pod's schedulerName; {MOST_PROFILES} at most, then `(others)`"
POLICY = "name of a policy; 200 at most, then `(others)`"
KIND = "kind of object"

RESULTS = ("scheduled", "unschedulable", "error")
RESULT = ", ".join(RESULTS)
BINDS = ("bound", "refused", "conflict", "gone", "unknown", "found_bound", "found_unbound", "bound_elsewhere", "fenced")
STAGES = ("passed", "rejected", "failed", "preempted", "gone", "cut_off")
VOLUMES = ("bound", *STAGES[1:])
EVICTIONS = ("evicted", "gone", "failed")
DRIFT = ("missing", "stale", "ghost", "rewound")
SERVED = (
    *("connections", "turned_away", "displaced", "not_accepted", "handshake_failed", "malformed", "timed_out"),
    *("failed", "lost_errors"),
)
ACCESS = ("admitted", "401", "403", "reviews", "failed")
EXPLAIN_LIMITS = ("at_once", "a_second", "watches")
WEBHOOK_ANSWERS = ("allowed", "warned", "refused", "malformed", "failed")


# --- what is not simply at a path -------------------------------------------------------------------------------------


def histograms(name: str) -> Read:
    """Those of the loop, by their labels."""
    return lambda statistics: section(statistics, "scheduler", "measures").get(name, ())


def _attempts(statistics: Mapping[str, Any]) -> Iterable[Sample]:
    """Of every profile, from the start."""
    measures = section(statistics, "scheduler", "measures")
    counts = {(profile, result): 0 for profile in measures.get("profiles", ()) for result in RESULTS}
    counts.update((labels, said["count"]) for labels, said in measures.get("attempt_seconds", ()))
    return counts.items()


def _incoming(statistics: Mapping[str, Any]) -> Iterable[Sample]:
    incoming: Mapping[tuple[str, str], int] = section(statistics, "scheduler").get("incoming", {})
    return incoming.items()


def _blamed(statistics: Mapping[str, Any]) -> Iterable[Sample]:
    """The many first, so that they have labels of their own where not all can."""
    plugins, profiles = Names(MOST_PLUGINS), Names(MOST_PROFILES)
    summed: Counter[tuple[str, str]] = Counter()
    blamed: Mapping[tuple[str, str], int] = section(statistics, "scheduler").get("blamed", {})
    for (plugin, profile), pods in sorted(blamed.items(), key=lambda entry: (-entry[1], entry[0])):
        summed[plugins.of(plugin), profiles.of(profile)] += pods
    return summed.items()


def _cache_size(statistics: Mapping[str, Any]) -> Iterable[Sample]:
    cache = section(statistics, "scheduler", "cache")
    pods = section(cache, "pods")
    assumed = pods.get("binding", 0) + pods.get("echo_pending", 0)
    yield ("assumed_pods",), assumed
    yield ("pods",), pods.get("bound", 0) + assumed
    yield ("nodes",), cache.get("nodes", 0)


def _drift(statistics: Mapping[str, Any]) -> Iterable[Sample]:
    """Of every kind that is watched, from the start."""
    found = section(statistics, "cache_sync", "drift")
    for kind in dict.fromkeys((*section(statistics, "cache_sync", "synced"), *found)):
        counts = found.get(kind, {})
        yield from (((kind, what), counts.get(what, 0)) for what in DRIFT)


def _features(statistics: Mapping[str, Any]) -> Iterable[Sample]:
    for name, (stage, is_on) in section(statistics, "features").items():
        yield (name, stage), int(is_on)


def _of_policies(what: str) -> Read:
    def read(statistics: Mapping[str, Any]) -> Iterable[Sample]:
        for name, counts in section(statistics, "policies", "usage").items():
            yield (name,), counts.get(what, 0)

    return read


def _shadows(statistics: Mapping[str, Any]) -> Iterable[Sample]:
    """The outcomes of policies that have been shadows; nothing of the others."""
    for name, counts in section(statistics, "policies", "usage").items():
        outcomes = {key.removeprefix("shadow_"): count for key, count in counts.items() if key.startswith("shadow_")}
        if any(outcomes.values()):
            yield from (((name, outcome), count) for outcome, count in outcomes.items())


def _build(_: Mapping[str, Any]) -> Iterable[Sample]:
    return [((__version__, platform.python_version()), 1)]


# --- the table -------------------------------------------------------------------------------------------------------


def row(name: str, type_: Type, text: str, read: Read, /, **labels: str) -> Definition:
    return Definition(name, type_, text, read, labels)


QUEUE = (
    row(
        "scheduler_pending_pods",
        "gauge",
        "Pods waiting for a node, by the part of the queue they are in.",
        by_key("scheduler", "queue", only=("active", "backoff", "unschedulable", "gated")),
        queue="active, backoff, unschedulable, gated",
    ),
    row(
        "scheduler_queue_incoming_pods_total",
        "counter",
        "Pods that came into a part of the queue, by what brought them there; gated pods come into unschedulable.",
        _incoming,
        queue="active, backoff, unschedulable",
        event="UnschedulablePodAdd, ScheduleAttemptFailure, BackoffComplete, NodeAdd, AssignedPodDelete, ...; some 40",
    ),
    row(
        "scheduler_unschedulable_pods",
        "gauge",
        "Pods that wait because a plugin turned them away. A pod counts under every plugin that did.",
        _blamed,
        plugin=f"name of a plugin, or of an expression in a policy; {MOST_PLUGINS} at most, then `(others)`",
        profile=PROFILE,
    ),
    row(
        "berth_attempted_pods",
        "gauge",
        "Pods whose attempt is under way: in flight, or held until it is their turn to ask an extender.",
        by_key("scheduler", "queue", only=("in_flight", "held")),
        state="in_flight, held",
    ),
    row(
        "berth_extended_pods",
        "gauge",
        "Pods about which extenders are being asked.",
        value("scheduler", "extenders", "waiting"),
    ),
)

ATTEMPTS = (
    row(
        "scheduler_schedule_attempts_total",
        "counter",
        "Attempts to schedule pods, by the result; scheduled when the pod is bound.",
        _attempts,
        profile=PROFILE,
        result=RESULT,
    ),
    row(
        "scheduler_scheduling_attempt_duration_seconds",
        "histogram",
        "How long an attempt took, from the queue to the bind or to the refusal.",
        histograms("attempt_seconds"),
        profile=PROFILE,
        result=RESULT,
    ),
    row(
        "scheduler_pod_scheduling_sli_duration_seconds",
        "histogram",
        "How long a pod that was bound had waited since it was first to be tried, all its attempts included.",
        histograms("wait_seconds"),
        attempts="1 to 14, 15+",
    ),
    row(
        "scheduler_pod_scheduling_attempts",
        "histogram",
        "How many attempts a pod needed that was bound.",
        histogram("scheduler", "measures", "attempts_needed"),
    ),
    row(
        "scheduler_framework_extension_point_duration_seconds",
        "histogram",
        "How long the plugins of an extension point took together. "
        f"One attempt in {SAMPLED} is measured, so compare shares and quantiles, not counts; a point counts where "
        "something is done at it. PreScore is part of Score, and for a pod like one before it PreFilter is of Filter.",
        histograms("point_seconds"),
        profile=PROFILE,
        extension_point="PreFilter, Filter, PostFilter, Score, Reserve, Permit, PreBind, Bind",
        status="Success, Unschedulable, UnschedulableAndUnresolvable, Wait, Error",
    ),
    row(
        "berth_binds_total",
        "counter",
        "Binds by how they ended.",
        by_key("scheduler", "binds", but=("running", "waiting"), always=BINDS),
        outcome=f"{', '.join(BINDS)} (not sent: another replica leads, or may do so soon)",
    ),
    row("berth_binds_running", "gauge", "Binds that are on their way.", value("scheduler", "binds", "running")),
    row(
        "berth_binds_waiting",
        "gauge",
        "Pods with a node that are bound as soon as fewer binds are on their way.",
        value("scheduler", "binds", "waiting"),
    ),
    row(
        "berth_stages_total",
        "counter",
        "Pods with a node that plugins or volumes had something to do for before the bind, by how that ended.",
        by_key("scheduler", "stages", but=("running", "waiting"), always=STAGES),
        outcome=f"{', '.join(STAGES)} (let go at a stop); passed: on to the bind",
    ),
    row(
        "berth_stages_running",
        "gauge",
        "Those that are on their way to the bind.",
        value("scheduler", "stages", "running"),
    ),
    row(
        "berth_waiting_pods",
        "gauge",
        "Those of them that wait to be permitted by a plugin.",
        value("scheduler", "stages", "waiting"),
    ),
    row(
        "berth_volume_bindings_total",
        "counter",
        "Pods whose volumes were to be bound first, by how that ended.",
        by_key("scheduler", "volumes", but=("waiting",), always=VOLUMES),
        outcome=", ".join(VOLUMES),
    ),
    row(
        "berth_volume_bindings_waiting",
        "gauge",
        "Pods with a node whose volumes are being bound.",
        value("scheduler", "volumes", "waiting"),
    ),
)

PREEMPTION = (
    row(
        "scheduler_preemption_attempts_total",
        "counter",
        "Attempts to make room for pods by pushing others out.",
        value("scheduler", "preemption", "attempts"),
    ),
    row(
        "scheduler_preemption_victims",
        "histogram",
        "Number of victims that were selected for one pod.",
        histogram("scheduler", "preemption", "victims"),
    ),
    row(
        "berth_evictions_total",
        "counter",
        "Victims of preemption, by the outcome of their eviction.",
        by_key("scheduler", "preemption", "outcomes", always=EVICTIONS),
        outcome=", ".join(EVICTIONS),
    ),
    row(
        "berth_preemptions_running",
        "gauge",
        "Pods whose victims are being evicted.",
        value("scheduler", "preemption", "running"),
    ),
)

POLICIES = (
    row(
        "berth_policy_generation",
        "gauge",
        "The generation of each policy that is in force, to decide or to judge as a shadow.",
        by_key("policies", "generation"),
        policy=POLICY.replace(", then `(others)`", ""),
    ),
    row(
        "berth_policy_reloads_total",
        "counter",
        "Changes of what is in force: policies that came, went or were edited; a refused edit changes nothing.",
        value("policies", "changes"),
    ),
    row(
        "berth_policies_refused",
        "gauge",
        "Policies whose latest generation is refused.",
        value("policies", "refused"),
    ),
    row(
        "berth_policy_placed_total",
        "counter",
        "Pods bound to nodes that the policy chose.",
        _of_policies("placed"),
        policy=POLICY,
    ),
    row(
        "berth_policy_pending",
        "gauge",
        "Pods waiting for a node under the policy, without gated ones; counted every 10 s.",
        _of_policies("pending"),
        policy=POLICY,
    ),
    row(
        "berth_policy_errors_total",
        "counter",
        "Failures of what the policy relies on; the 16 latest sources of each policy that has a label of its own.",
        by_two_keys("policies", "errors"),
        policy=POLICY.replace(", then `(others)`", ""),
        source="plugin NAME, extender URL, predicate NAME, priority NAME",
    ),
    row(
        "berth_policy_shadow_total",
        "counter",
        "Pods that a policy in Shadow mode has judged, by what it would have done.",
        _shadows,
        policy=POLICY,
        outcome="same, different, unplaced, gained, skipped",
    ),
)

CACHE = (
    row(
        "scheduler_cache_size",
        "gauge",
        "What the cache holds: nodes, pods on nodes, and those of them that the watch has not shown there yet.",
        _cache_size,
        type="nodes, pods, assumed_pods",
    ),
    row(
        "berth_objects",
        "gauge",
        "Objects that the watches have shown, by kind.",
        by_key("scheduler", "cache", "objects"),
        kind=KIND,
    ),
    row(
        "berth_invalid_objects",
        "gauge",
        "Objects left out of decisions because a field is invalid, by kind.",
        by_key("scheduler", "cache", "invalid"),
        kind=KIND,
    ),
    row(
        "berth_old_news_total",
        "counter",
        "Reports that were older than what was known.",
        value("scheduler", "cache", "old_news"),
    ),
    row(
        "berth_missing_echoes",
        "gauge",
        "Binds that the API server has acknowledged and the watch has not shown for 30 s; more than 0 for minutes: the "
        "watch of pods is dead.",
        value("scheduler", "echo_missing"),
    ),
    row(
        "berth_kind_synced",
        "gauge",
        "1 for each kind whose cache is synced: everything on its first list has arrived.",
        by_key("cache_sync", "synced"),
        kind=KIND,
    ),
    row(
        "berth_watch_age_seconds",
        "gauge",
        "For how long nothing has been heard of the kind: no object from its watch, and no list to compare it with. "
        "A quiet kind comes up to --resync-seconds and what a list takes; more than that, and it cannot be listed.",
        by_key("cache_sync", "age_seconds"),
        kind=KIND,
    ),
    row(
        "berth_cache_drift_total",
        "counter",
        "Objects in the cache that differed from the API server's and were repaired.",
        _drift,
        kind=KIND,
        what=", ".join(DRIFT),
    ),
)

PROCESS = (
    row(
        "berth_build_info",
        "gauge",
        "Always 1: the version that runs.",
        _build,
        version="of Berth",
        python="of Python",
    ),
    row(
        "kubernetes_feature_enabled",
        "gauge",
        "1 for each feature gate that is on, 0 for each that is off.",
        _features,
        name="the gates of configuration.md",
        stage="ALPHA, BETA",
    ),
    row(
        "berth_leader",
        "gauge",
        "1 while this replica leads.",
        given("leadership", "leading"),
    ),
    row(
        "berth_foreign_replicas",
        "gauge",
        "Replicas of another installation that meet this one in the same peering object.",
        given("foreign_replicas"),
    ),
    row(
        "berth_fence_open",
        "gauge",
        "1 while this replica may write: it leads, its record is fresh, its watches are alive.",
        given("leadership", "open"),
    ),
    row(
        "berth_fence_closings_total",
        "counter",
        "How often the fence has closed while this replica led, or because it did so no more.",
        given("leadership", "closings"),
    ),
    row(
        "berth_leadership_changes_total",
        "counter",
        "How often this replica took or lost the lead.",
        given("leadership", "changes"),
    ),
    row(
        "berth_loop_lag_seconds",
        "gauge",
        "By how much the event loop is late.",
        given("loop_lag_seconds"),
    ),
    row("berth_api_reachable", "gauge", "1 while the API server answers.", value("api_reachable")),
    row(
        "berth_api_answer_age_seconds",
        "gauge",
        "How long ago the API server last answered.",
        given("last_api_success_seconds"),
    ),
    row(
        "berth_nameless_objects_total",
        "counter",
        "Reports about objects without a name or a UID, which were left out.",
        by_key("nameless"),
        kind=KIND,
    ),
    row(
        "berth_serving_connections",
        "gauge",
        "Connections to the HTTPS and HTTP addresses that are open.",
        given("serving", "open"),
    ),
    row(
        "berth_serving_total",
        "counter",
        "Connections and requests by what became of them.",
        by_key("serving", "counts", always=SERVED),
        outcome=f"{', '.join(SERVED)}, and the status of each answer; connections: all of them",
    ),
    row(
        "berth_serving_access_total",
        "counter",
        "Requests with a token by what was said of it, and how often the API server was asked.",
        by_key("serving", "access", but=("cached",), always=ACCESS),
        outcome=", ".join(ACCESS),
    ),
    row(
        "berth_explain_answers_total",
        "counter",
        "Requests for explanations by the status of the answer; watches are counted when they end.",
        by_key("explaining", "answers"),
        status="HTTP status",
    ),
    row(
        "berth_explain_refused_total",
        "counter",
        "Requests for explanations that were over a limit.",
        by_key("explaining", "refused", always=EXPLAIN_LIMITS),
        limit="at_once: of all users; a_second: of one user; watches: at once",
    ),
    row(
        "berth_explain_watches",
        "gauge",
        "Watches of explanations that are open.",
        given("explaining", "watches"),
    ),
    row(
        "berth_webhook_answers_total",
        "counter",
        "Answers of the validating webhook of policies.",
        by_key("webhook", "answers", always=WEBHOOK_ANSWERS),
        outcome="allowed, warned: allowed with warnings, refused, malformed: no AdmissionReview, failed: not judged",
    ),
    row(
        "berth_watch_restarts_total",
        "counter",
        "How often kopf's watching ended with an error and was started again.",
        value("watch_restarts"),
    ),
    row(
        "berth_events_total",
        "counter",
        "Events by what became of them.",
        by_key("cluster", "events", only=("posted", "failed", "dropped")),
        result="posted, failed, dropped",
    ),
    row("berth_events_waiting", "gauge", "Events that wait to be posted.", value("cluster", "events", "waiting")),
    row(
        "berth_conditions_total",
        "counter",
        "Pod conditions by what became of them.",
        by_key("cluster", "conditions", only=("written", "gone", "refused", "retried", "dropped")),
        result="written, gone, refused, retried, dropped",
    ),
    row(
        "berth_conditions_waiting",
        "gauge",
        "Pod conditions that wait to be written.",
        value("cluster", "conditions", "waiting"),
    ),
    row(
        "berth_writes_waiting",
        "gauge",
        "Writes that wait for others to go first: nominations and evictions (urgent), conditions, events.",
        by_key("cluster", "writes", "waiting"),
        rank="urgent, condition, event",
    ),
    row(
        "berth_writes_late_total",
        "counter",
        "Writes that did not wait any longer for binds to end, since they had waited for their time.",
        by_key("cluster", "writes", "late"),
        rank="urgent, condition, event",
    ),
    row(
        "berth_faults_total",
        "counter",
        "Errors of Berth itself that cost one object or one step, by what it was doing; please report.",
        by_key("faults"),
        doing="words of the code",
    ),
)

SECTIONS: Mapping[str, tuple[Definition, ...]] = {
    "Queue": QUEUE,
    "Attempts and binds": ATTEMPTS,
    "Preemption": PREEMPTION,
    "Policies": POLICIES,
    "Cache and watches": CACHE,
    "Process": PROCESS,
}
TABLE: tuple[Definition, ...] = tuple(definition for rows in SECTIONS.values() for definition in rows)
