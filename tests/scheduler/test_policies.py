"""Which policy a pod is decided by, what happens while policies change, and what is told of their use."""

import asyncio
from collections import Counter
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.packages import Site
from policy.builders import make_policy
from scheduler.harness import Harness, running
from scheduler.memory_cluster import Refusal
from support.builders import Body, make_node, make_object, make_pod

TAINT = {"key": "k", "value": "", "effect": "NoSchedule"}
TOLERANT = [{"name": "TaintToleration", "enabled": False}]
POLICY, GENERATION = "berth.dev/policy", "berth.dev/policy-generation"
HALT = [{"name": "NodeAffinity", "args": {"addedAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {
    "nodeSelectorTerms": [{"matchExpressions": [{"key": "nowhere", "operator": "Exists"}]}]}}}}]  # fmt: skip


def namespace(name: str = "default", **labels: str) -> dict[str, Any]:
    return make_object("Namespace", name, metadata={"labels": labels})


def only(node: str) -> list[dict[str, Any]]:
    """The predicate that leaves nothing but the node that is labelled so."""
    term = {"matchExpressions": [{"key": "for", "operator": "In", "values": [node]}]}
    added = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}}
    return [{"name": "NodeAffinity", "args": {"addedAffinity": added}}]


def labelled(*names: str) -> list[dict[str, Any]]:
    return [make_node(name, pods=1000, cpu=1000, labels={"for": name}) for name in names]


def message(harness: Harness, name: str) -> str:
    return harness.cluster.conditions[f"pod-default-{name}"][1]


def waiting(harness: Harness) -> dict[str, int]:
    return {part: count for part, count in harness.queue.statistics().items() if count}


# --- who decides -----------------------------------------------------------------------------------------------------


async def test_a_pod_is_decided_by_the_policy_that_selects_it_and_its_namespace() -> None:
    async with running() as harness:
        team, web = {"matchLabels": {"team": "a"}}, {"matchLabels": {"app": "web"}}
        harness.write(*labelled("general", "team", "web"), namespace(team="a"), namespace("other"))
        harness.write(make_policy("general", predicates=only("general")))
        harness.write(make_policy("team", predicates=only("team"), namespaceSelector=team))
        harness.write(make_policy("web", predicates=only("web"), namespaceSelector=team, podSelector=web))
        harness.write(make_pod("plain"), make_pod("front", labels={"app": "web"}), make_pod("plain", namespace="other"))
        await harness.go()
        assert (harness.cluster.node_of("plain"), harness.cluster.node_of("front")) == ("team", "web")
        assert harness.cluster.objects["Pod"]["other/plain"]["spec"]["nodeName"] == "general"


async def test_a_pod_of_ours_that_no_policy_selects_waits_and_says_why() -> None:
    async with running() as harness:
        harness.write(make_node("a"), make_policy("batch", podSelector={"matchLabels": {"app": "web"}}), make_pod("db"))
        await harness.pass_time(200)
        assert waiting(harness) == {"unschedulable": 1}
        assert harness.cluster.conditions["pod-default-db"][0] == "Unschedulable"
        assert "batch (podSelector)" in message(harness, "db")
        assert harness.notes("db") == [message(harness, "db")]
        assert harness.scheduler.statistics()["attempts"] == {"unschedulable": 1}


async def test_without_the_built_in_policy_pods_wait_until_a_policy_has_their_name() -> None:
    async with running(built_in=False) as harness:
        harness.write(make_node("a"), make_pod("web"))
        await harness.go()
        assert "the built-in policy is switched off" in message(harness, "web")
        harness.write(make_policy("mine"))
        await harness.pass_time(1)
        assert harness.cluster.node_of("web") == "a"


async def test_a_label_given_to_a_waiting_pod_gives_it_to_the_policy_that_selects_it() -> None:
    async with running() as harness:
        harness.write(make_node("a"), make_policy("batch", podSelector={"matchLabels": {"app": "web"}}), make_pod("db"))
        await harness.go()
        harness.write(make_pod("db", labels={"app": "web"}))
        await harness.pass_time(1)
        assert harness.cluster.node_of("db") == "a"


async def test_a_label_given_to_a_namespace_gives_its_waiting_pods_to_the_policy_that_selects_it() -> None:
    async with running() as harness:
        team = {"matchLabels": {"team": "a"}}
        harness.write(make_node("a"), namespace(), namespace("other"), make_policy("team", namespaceSelector=team))
        harness.write(make_pod("web"), make_pod("web", namespace="other"))
        await harness.go()
        assert "namespaceSelector" in message(harness, "web")
        harness.write(namespace(team="a"))
        await harness.pass_time(1)
        assert harness.cluster.node_of("web") == "a"
        assert harness.scheduler.statistics()["attempts"] == {"unschedulable": 2, "scheduled": 1}


async def test_a_namespace_that_leaves_a_policy_takes_its_parked_pods_along() -> None:
    async with running() as harness:
        team = {"matchLabels": {"team": "a"}}
        harness.write(*labelled("general"), namespace(team="a"), make_policy("general", predicates=only("general")))
        harness.write(make_policy("team", predicates=only("team"), namespaceSelector=team), make_pod("web"))
        await harness.go()
        assert waiting(harness) == {"unschedulable": 1}
        harness.write(namespace())
        await harness.pass_time(1)
        assert harness.cluster.node_of("web") == "general"


async def test_a_namespace_that_goes_takes_its_labels_along() -> None:
    async with running() as harness:
        team = {"matchLabels": {"team": "a"}}
        harness.write(*labelled("general"), namespace(team="a"), make_policy("general", predicates=only("general")))
        harness.write(make_policy("team", predicates=only("team"), namespaceSelector=team), make_pod("web"))
        await harness.go()
        harness.cluster.delete("Namespace", "default")
        await harness.pass_time(1)
        assert harness.cluster.node_of("web") == "general"


async def test_a_namespace_whose_other_labels_change_wakes_nobody() -> None:
    async with running() as harness:
        harness.write(namespace(team="a"), make_policy("team", namespaceSelector={"matchLabels": {"team": "a"}}))
        harness.write(make_node("small", cpu=1), make_pod("web", cpu=2))
        await harness.go()
        harness.write(namespace(team="a", cost="low"))
        await harness.pass_time(60)
        assert harness.scheduler.statistics()["attempts"] == {"unschedulable": 1}


async def test_a_namespace_that_makes_no_sense_breaks_nothing() -> None:
    async with running() as harness:
        harness.write(make_node("a"), make_object("Namespace", "default", metadata={"labels": 7}), make_pod("web"))
        harness.observe("Namespace", {"metadata": {"name": "other", "uid": "u", "labels": 7}, "spec": []})
        await harness.go()
        assert harness.cluster.node_of("web") == "a"
        assert harness.errors.counts == {}


# --- policies that change --------------------------------------------------------------------------------------------


async def test_each_pod_of_a_stream_is_judged_by_exactly_one_generation() -> None:
    """Generation g leaves node g alone: a pod there that says g was filtered and annotated by one generation."""
    async with running() as harness:
        harness.write(*labelled(*(str(generation) for generation in range(1, 7))))
        for generation in range(1, 7):
            spec: Body = {"predicates": only(str(generation)), "annotatePods": True}
            harness.write(*(make_pod(f"before-{generation}-{number}") for number in range(3)))
            harness.cluster.write("SchedulingPolicy", make_policy("stream", generation=generation, **spec))
            for number in range(20):
                harness.cluster.write("Pod", make_pod(f"with-{generation}-{number}"))
                if number % 7 == generation % 7:
                    harness.tell()
                    await harness.clock.advance(0)
            await harness.go()
        placed = [name.removeprefix("default/") for name in harness.cluster.objects["Pod"]]
        assert len(placed) == 6 * 23
        by_generation = Counter(harness.cluster.annotations_of(name).get(GENERATION, "built-in") for name in placed)
        assert {"1", "2", "3", "4", "5", "6"} <= set(by_generation)
        for name in placed:
            written = harness.cluster.annotations_of(name)
            if written:
                assert written == {POLICY: "stream", GENERATION: harness.cluster.node_of(name)}
        assert len(harness.cluster.attempts) == len(placed)


async def test_the_first_decision_after_a_change_is_the_new_generation_s() -> None:
    async with running() as harness:
        harness.write(*labelled("one", "two"), make_policy(generation=1, predicates=only("one")), make_pod("first"))
        await harness.go()
        harness.write(make_policy(generation=2, predicates=only("two")), make_pod("second"))
        await harness.go()
        assert [harness.cluster.node_of(name) for name in ("first", "second")] == ["one", "two"]


async def test_a_policy_that_breaks_goes_on_as_it_was_and_is_mended_under_a_stream_of_pods() -> None:
    async with running() as harness:
        harness.write(*labelled("one", "two"), make_policy(generation=1, predicates=only("one"), annotatePods=True))
        harness.write(make_policy(generation=2, predicates=[{"name": "NoSuchPlugin"}]), make_pod("broken"))
        await harness.go()
        assert harness.cluster.annotations_of("broken") == {POLICY: "batch", GENERATION: "1"}
        harness.write(make_policy(generation=3, predicates=only("two"), annotatePods=True), make_pod("repaired"))
        await harness.go()
        assert harness.cluster.annotations_of("repaired") == {POLICY: "batch", GENERATION: "3"}
        assert harness.cluster.node_of("repaired") == "two"


async def test_a_pod_that_waits_when_its_policy_is_deleted_is_taken_over_by_the_built_in_one() -> None:
    async with running() as harness:
        harness.write(make_node("a"), make_policy(predicates=HALT), make_pod("web"))
        await harness.go()
        assert waiting(harness) == {"unschedulable": 1}
        harness.cluster.delete("SchedulingPolicy", "batch")
        await harness.pass_time(1)
        assert harness.cluster.node_of("web") == "a"


async def test_a_policy_that_takes_another_name_leaves_its_pods_and_finds_others() -> None:
    async with running() as harness:
        harness.write(make_node("a"), make_policy(schedulerName="one", predicates=HALT))
        harness.write(make_pod("first", scheduler="one"), make_pod("second", scheduler="two"))
        await harness.go()
        assert waiting(harness) == {"unschedulable": 1}
        harness.write(make_policy(generation=2, schedulerName="two"))
        await harness.pass_time(1)
        assert (harness.cluster.node_of("first"), harness.cluster.node_of("second")) == ("", "a")
        assert waiting(harness) == {}
        harness.write(make_policy("other", schedulerName="one"))
        await harness.pass_time(1)
        assert harness.cluster.node_of("first") == "a"


async def test_a_disabled_policy_keeps_its_pods_and_gives_them_back_when_it_is_enabled() -> None:
    async with running() as harness:
        harness.write(make_node("a"), make_policy(schedulerName="batch", mode="Disabled"))
        harness.write(make_pod("web", scheduler="batch"))
        await harness.go()
        assert "disabled: batch" in message(harness, "web")
        harness.write(make_policy(generation=2, schedulerName="batch"))
        await harness.pass_time(1)
        assert harness.cluster.node_of("web") == "a"


def written(status: Mapping[str, object]) -> Callable[[Body], None]:
    return lambda body: body.update(status=status)


async def test_an_echo_of_a_status_wakes_nobody_and_loads_nothing() -> None:
    async with running() as harness:
        harness.write(make_policy(predicates=HALT), make_node("a"), make_pod("web"))
        await harness.go()
        before = harness.policies.statistics()["changes"]
        harness.policies.report()
        for name, status in harness.policies.statuses().items():
            harness.cluster.change("SchedulingPolicy", name, written(status))
        await harness.pass_time(60)
        assert harness.policies.statistics()["changes"] == before
        assert harness.policies.statuses() == {}
        assert harness.scheduler.statistics()["attempts"] == {"unschedulable": 1}


SPECS: dict[str, dict[str, Any]] = {
    "any": {},
    "team": {"namespaceSelector": {"matchLabels": {"team": "a"}}},
    "web": {"podSelector": {"matchLabels": {"app": "web"}}},
    "disabled": {"mode": "Disabled"},
    "shadow": {"mode": "Shadow"},
    "bad": {"predicates": [{"name": "NoSuchPlugin"}]},
    "moved": {"schedulerName": "elsewhere"},
}


@given(st.data())
@settings(max_examples=40)
def test_whatever_becomes_of_policies_labels_and_namespaces_no_pod_is_lost(data: st.DataObject) -> None:
    asyncio.run(change_everything(data))


async def change_everything(data: st.DataObject) -> None:
    async with running(built_in=data.draw(st.booleans())) as harness:
        harness.write(make_node("a", pods=1000, cpu=1000))
        for step in range(data.draw(st.integers(1, 15))):
            await change_something(harness, data, step)
        await harness.pass_time(15)
        everything_is_in_its_place(harness)
        harness.write(make_policy("rescue"), make_policy("rescue-elsewhere", schedulerName="elsewhere"))
        await harness.pass_time(15)
        assert waiting(harness) == {}
        nodes = {body["spec"].get("nodeName") for body in harness.cluster.objects["Pod"].values()}
        assert nodes <= {"a"}
        assert harness.errors.counts == {}


async def change_something(harness: Harness, data: st.DataObject, step: int) -> None:
    name = data.draw(st.sampled_from(["one", "two"]))
    what = data.draw(st.sampled_from(["pod", "pod", "relabel", "policy", "policy", "delete", "namespace"]))
    if what == "pod":
        scheduler = data.draw(st.sampled_from(["berth", "berth", "elsewhere"]))
        harness.cluster.write("Pod", make_pod(f"p{step}", scheduler=scheduler, labels={"app": data.draw(APPS)}))
    elif what == "policy":
        spec = SPECS[data.draw(st.sampled_from(sorted(SPECS)))]
        harness.cluster.write("SchedulingPolicy", make_policy(name, generation=step + 1, **spec))
    elif what == "delete" and name in harness.cluster.objects["SchedulingPolicy"]:
        harness.cluster.delete("SchedulingPolicy", name)
    elif what == "namespace":
        harness.cluster.write("Namespace", namespace(team=data.draw(st.sampled_from("ab"))))
    elif what == "relabel" and (keys := sorted(harness.cluster.objects["Pod"])):
        label = data.draw(APPS)
        harness.cluster.change("Pod", data.draw(st.sampled_from(keys)), lambda body: relabel(body, label))
    if data.draw(st.booleans()):
        harness.tell()
    await harness.pass_time(data.draw(st.sampled_from([0, 1, 12])))


APPS = st.sampled_from(["web", "db"])


def relabel(body: dict[str, Any], app: str) -> None:
    body["metadata"]["labels"] = {"app": app}


def everything_is_in_its_place(harness: Harness) -> None:
    """Once nothing more happens: each pod of ours has a node, or no policy decides for it and it says so."""
    for uid, pod in harness.cache.pending.items():
        if not harness.policies.serves(pod.scheduler_name):
            assert harness.queue.part_of(uid) is None
        else:
            assert harness.policies.for_pod(pod, harness.cache.namespace_labels(pod.namespace)) is None
            assert harness.queue.part_of(uid) == "unschedulable"
            assert "no SchedulingPolicy" in harness.cluster.conditions[uid][1]


# --- backoff ----------------------------------------------------------------------------------------------------------


async def test_pods_are_tried_again_at_their_policy_s_pace_each() -> None:
    async with running() as harness:
        fast: Body = {"backoff": {"initialSeconds": 1, "maxSeconds": 2}, "flushSeconds": 20}
        harness.write(make_policy("slow", schedulerName="slow", predicates=HALT, flushSeconds=100))
        harness.write(make_policy("fast", schedulerName="fast", predicates=HALT, **fast), make_node("a"))
        harness.write(make_pod("slow", scheduler="slow"), make_pod("fast", scheduler="fast"))
        await harness.pass_time(99)
        assert Counter(subject for subject, _ in harness.cluster.events) == {"slow": 1, "fast": 5}
        await harness.pass_time(2)
        assert Counter(subject for subject, _ in harness.cluster.events) == {"slow": 2, "fast": 6}


async def test_a_refused_bind_is_tried_again_at_the_policy_s_pace() -> None:
    async with running() as harness:
        harness.cluster.faults["web"] = Refusal(403, "no")
        harness.write(make_policy(backoff={"initialSeconds": 5, "maxSeconds": 7}), make_node("a"), make_pod("web"))
        await harness.pass_time(21)
        assert len(harness.cluster.attempts) == 4  # at 0, 5, 12 and 19 s


# --- failures --------------------------------------------------------------------------------------------------------


FICKLE = """
from berth.engine.per_node import PerNode

class Fickle(PerNode):
    def fits(self, pod, node):
        return pod.name != "cursed" or 1 // 0
"""


async def test_a_plugin_that_fails_degrades_its_policy_and_holds_up_its_own_pods_only(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(tmp_path)
    Site(tmp_path).install(FICKLE, "Fickle")
    async with running() as harness:
        harness.write(make_policy("fickle", schedulerName="fickle", predicates=[{"name": "Fickle"}]), make_node("a"))
        harness.write(make_pod("cursed", scheduler="fickle", priority=9), make_pod("fine", scheduler="fickle"))
        harness.write(make_pod("other"))
        await harness.pass_time(2)
        assert (harness.cluster.node_of("fine"), harness.cluster.node_of("other")) == ("a", "a")
        assert harness.cluster.node_of("cursed") == ""
        assert harness.cluster.conditions["pod-default-cursed"][0] == "SchedulerError"
        assert "plugin Fickle failed" in message(harness, "cursed")
        assert "SchedulingPolicy fickle" in message(harness, "cursed")
        assert waiting(harness) == {"backoff": 1}
        (failure,) = harness.policies.usage.counts("fickle", "uid-fickle").failures
        assert (failure.source, failure.count) == ("plugin Fickle", 2)
        harness.policies.report()
        conditions: Any = harness.policies.statuses()["fickle"]["conditions"]
        degraded = next(condition for condition in conditions if condition["type"] == "Degraded")
        assert (degraded["status"], degraded["reason"]) == ("True", "PluginFailing")
        harness.write(make_policy("fickle", generation=2, schedulerName="fickle"))
        await harness.go()
        assert harness.cluster.node_of("cursed") == "a"


# --- use -------------------------------------------------------------------------------------------------------------


async def test_a_pod_that_is_taken_from_a_policy_that_fails_does_not_wait_out_its_backoff(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(tmp_path)
    Site(tmp_path).install(FICKLE, "Fickle")
    async with running() as harness:
        week = {"initialSeconds": 604800, "maxSeconds": 604800}
        harness.write(make_node("a"), make_policy("general"), make_pod("cursed", labels={"app": "web"}))
        fickle = [{"name": "Fickle"}]
        selector = {"matchLabels": {"app": "web"}}
        harness.write(make_policy("fickle", predicates=fickle, podSelector=selector, backoff=week))
        await harness.go()
        assert waiting(harness) == {"backoff": 1}
        harness.write(make_pod("cursed", labels={"app": "web", "more": "labels"}))
        await harness.go()
        assert waiting(harness) == {"backoff": 1}
        harness.write(make_pod("cursed", labels={"app": "other"}))
        await harness.go()
        assert harness.cluster.node_of("cursed") == "a"


SPEECHLESS = """
from berth.engine.per_node import PerNode

class Speechless(PerNode):
    def fits(self, pod, node):
        return node.labels.get("open", "") == "yes"

    def hint_key(self, pod):
        return 1 // 0 if pod.name == "raised" else []
"""


@pytest.mark.parametrize("name", ["raised", "unhashable"])
async def test_a_plugin_that_cannot_tell_pods_apart_loses_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.syspath_prepend(tmp_path)
    Site(tmp_path).install(SPEECHLESS, "Speechless")
    async with running() as harness:
        harness.write(make_policy("mute", predicates=[{"name": "Speechless"}]), make_node("a"), make_pod(name))
        await harness.go()
        assert waiting(harness) == {"unschedulable": 1}
        harness.write(make_node("a", labels={"open": "yes"}))
        await harness.pass_time(2)
        assert harness.cluster.node_of(name) == "a"


async def test_what_is_done_under_a_policy_is_counted() -> None:
    async with running() as harness:
        harness.write(make_policy(), make_node("a", cpu=2), make_pod("one", cpu=1), make_pod("two", cpu=1))
        harness.write(make_pod("big", cpu=5), make_pod("gated", gates=["g"]), make_pod("built-in", scheduler="x"))
        await harness.pass_time(7)
        await harness.scheduler.count_pending()
        counts = harness.policies.usage.counts("batch", "uid-batch")
        assert (counts.placed, counts.pending) == (2, 1)
        assert counts.last_decision == harness.clock.wall().replace(second=0)


async def test_a_decision_against_every_node_is_a_decision() -> None:
    async with running() as harness:
        harness.write(make_policy(), make_node("a"))
        await harness.pass_time(5)
        harness.write(make_pod("big", cpu=99))
        await harness.go()
        counts = harness.policies.usage.counts("batch", "uid-batch")
        assert (counts.placed, counts.last_decision) == (0, harness.clock.wall())


async def test_a_bind_that_fails_places_nothing() -> None:
    async with running() as harness:
        harness.cluster.faults["web"] = Refusal(403, "no")
        harness.write(make_policy(), make_node("a"), make_pod("web"))
        await harness.go()
        assert harness.policies.usage.counts("batch", "uid-batch").placed == 0
        harness.cluster.faults.clear()
        await harness.pass_time(2)
        assert harness.policies.usage.counts("batch", "uid-batch").placed == 1


async def test_thousands_of_waiting_pods_are_counted_a_few_at_a_time() -> None:
    harness = Harness()
    harness.write(make_policy("web", podSelector={"matchLabels": {"app": "web"}}), make_policy("other"))
    harness.write(*(make_pod(f"w{number}", labels={"app": "web"}) for number in range(1500)))
    harness.write(*(make_pod(f"o{number}") for number in range(700)))
    counting, turns = asyncio.ensure_future(harness.scheduler.count_pending()), 0
    while not counting.done():
        turns += 1
        await asyncio.sleep(0)
    assert turns >= 3
    usage = harness.policies.usage.statistics()
    assert (usage["web"]["pending"], usage["other"]["pending"]) == (1500, 700)


async def test_a_pod_carries_the_policy_only_where_the_policy_says_so() -> None:
    async with running() as harness:
        harness.write(make_node("a"), make_policy("quiet", schedulerName="quiet"), make_pod("one", scheduler="quiet"))
        harness.write(make_policy("told", generation=4, schedulerName="told", annotatePods=True))
        harness.write(make_pod("two", scheduler="told"))
        await harness.go()
        assert harness.cluster.annotations_of("one") == {}
        assert harness.cluster.annotations_of("two") == {POLICY: "told", GENERATION: "4"}


async def test_a_shadow_judges_what_the_active_policy_decides_and_binds_nothing() -> None:
    async with running() as harness:
        harness.write(*labelled("here", "there"), make_policy("active", predicates=only("here")))
        harness.write(make_policy("shadow", mode="Shadow", predicates=only("there")), make_pod("web"))
        await harness.go()
        assert harness.cluster.attempts == [("web", "here")]
        assert harness.policies.usage.statistics()["shadow"]["shadow_different"] == 1
