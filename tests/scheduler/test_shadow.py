"""What policies in Shadow mode say of pods, and what they may not cost."""

from typing import Any

import pytest

from berth.policy.usage import EXAMPLES_MAX
from berth.scheduler import shadow
from policy.builders import make_policy
from scheduler.harness import Harness, running
from support.builders import make_node, make_pod

PACKING = [{"name": "NodeResourcesFit", "weight": 100, "args": {"scoringStrategy": {"type": "MostAllocated"}}}]
NOWHERE = [{"name": "nowhere", "expression": "false", "message": "no"}]
EVERYWHERE = [{"name": "NodeResourcesFit", "enabled": False}]


def canary(**spec: Any) -> dict[str, Any]:
    return make_policy("canary", mode="Shadow", **spec)


def outcomes(harness: Harness) -> dict[str, int]:
    counts = harness.policies.usage.statistics()["canary"]
    return {key.removeprefix("shadow_"): count for key, count in counts.items() if key.startswith("shadow_") and count}


def examples(harness: Harness) -> list[tuple[str, str, str, str]]:
    harness.policies.report()
    status: Any = harness.policies.statuses()["canary"]["shadow"]
    return [(each["pod"], each["active"], each["shadow"], each["message"]) for each in status["examples"]]


async def test_a_shadow_that_would_do_the_same_says_so() -> None:
    async with running() as harness:
        harness.write(make_node("a"), make_node("b"), canary(), make_pod("p"))
        await harness.go()
        assert outcomes(harness) == {"same": 1}
        assert harness.cluster.bound == [("pod-default-p", harness.cluster.node_of("p"))]


async def test_nodes_that_a_shadow_likes_as_much_as_the_one_taken_are_no_difference() -> None:
    async with running() as harness:
        harness.write(*(make_node(f"n{number}") for number in range(50)), canary(tieBreak="First"))
        harness.write(*(make_pod(f"p{number}", cpu="0", memory="0") for number in range(20)))
        await harness.go()
        assert outcomes(harness) == {"same": 20}


async def test_a_shadow_that_would_take_another_node_says_which() -> None:
    async with running() as harness:
        harness.write(make_node("empty", cpu=8), make_node("used", cpu=8), canary(priorities=PACKING))
        harness.write(make_pod("there", cpu=4, node="used"), make_pod("p", cpu=1))
        await harness.go()
        assert outcomes(harness) == {"different": 1}
        assert examples(harness) == [("default/p", "empty", "used", "")]


async def test_a_shadow_evaluates_what_another_scheduler_binds() -> None:
    async with running() as harness:
        harness.write(make_node("empty", cpu=8), make_node("used", cpu=8), make_pod("there", cpu=4, node="used"))
        harness.write(canary(schedulerName="default-scheduler", priorities=PACKING))
        harness.write(*(make_pod(name, cpu=1, scheduler="default-scheduler") for name in ("p", "q")))
        await harness.go()
        assert (outcomes(harness), harness.cluster.bound) == ({}, [])
        harness.write(make_pod("p", cpu=1, node="empty", scheduler="default-scheduler"))
        harness.write(make_pod("q", cpu=1, node="used", scheduler="default-scheduler"))
        await harness.go()
        assert outcomes(harness) == {"different": 1, "same": 1}
        assert examples(harness) == [("default/p", "empty", "used", "")]
        assert harness.cluster.conditions == {}


async def test_a_shadow_does_not_evaluate_pods_that_were_bound_before() -> None:
    async with running() as harness:
        harness.write(make_node("n"), canary(schedulerName="default-scheduler"))
        harness.write(make_pod("p", node="n", scheduler="default-scheduler"))
        await harness.go()
        assert outcomes(harness) == {}


async def test_a_standby_does_not_evaluate_what_another_scheduler_binds() -> None:
    async with running() as harness:
        harness.scheduler.stand_by()
        harness.write(make_node("n"), canary(schedulerName="default-scheduler"))
        harness.write(make_pod("p", scheduler="default-scheduler"))
        await harness.go()
        harness.write(make_pod("p", node="n", scheduler="default-scheduler"))
        await harness.go()
        assert outcomes(harness) == {}


async def test_the_pod_itself_is_not_in_the_way_of_its_shadow() -> None:
    async with running() as harness:
        harness.write(make_node("n", cpu=1), canary(), make_pod("p", cpu=1))
        await harness.go()
        assert outcomes(harness) == {"same": 1}


async def test_a_shadow_that_finds_no_node_where_the_active_policy_found_one_says_why() -> None:
    async with running() as harness:
        harness.write(make_node("n"), canary(predicates=NOWHERE), make_pod("p"))
        await harness.go()
        assert outcomes(harness) == {"unplaced": 1}
        assert examples(harness) == [("default/p", "n", "", "0/1 nodes are available: 1 no.")]


async def test_a_shadow_that_finds_a_node_where_the_active_policy_found_none_says_which() -> None:
    async with running() as harness:
        harness.write(make_node("n", cpu=1), canary(predicates=EVERYWHERE), make_pod("p", cpu=2))
        await harness.go()
        assert outcomes(harness) == {"gained": 1}
        assert examples(harness) == [("default/p", "", "n", "")]


async def test_a_pod_that_is_tried_again_and_again_counts_once() -> None:
    async with running() as harness:
        harness.write(make_node("n", cpu=1), canary(predicates=EVERYWHERE), make_pod("p", cpu=2))
        await harness.pass_time(1500, 20)
        assert harness.scheduler.statistics()["attempts"]["unschedulable"] > 3
        assert outcomes(harness) == {"gained": 1}


async def test_another_answer_about_the_same_pod_counts_again() -> None:
    async with running() as harness:
        harness.write(make_node("n", cpu=1), canary(predicates=EVERYWHERE), make_pod("p", cpu=2))
        await harness.go()
        harness.write(make_node("large", cpu=8))
        await harness.pass_time(20)
        assert outcomes(harness) == {"gained": 1, "same": 1}


async def test_a_shadow_that_is_deleted_and_made_again_counts_from_the_beginning() -> None:
    async with running() as harness:
        harness.write(make_node("n", cpu=1), canary(), make_pod("p", cpu=2))
        await harness.go()
        assert outcomes(harness) == {"same": 1}
        harness.cluster.delete("SchedulingPolicy", "canary")
        another = {"metadata": {"name": "canary", "uid": "another", "generation": 1}}
        harness.write(canary() | another, make_pod("q", cpu=2))
        await harness.pass_time(20)
        assert outcomes(harness) == {"same": 1}


async def test_what_an_older_generation_has_not_come_to_is_not_counted_for_the_newer_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with running() as harness:
        harness.write(make_node("n"), canary(predicates=NOWHERE))
        saw = harness.components.shadows.saw

        def saw_and_edited(pod: Any, verdict: Any) -> None:
            saw(pod, verdict)
            harness.write(canary() | {"metadata": {"name": "canary", "uid": "uid-canary", "generation": 2}})

        monkeypatch.setattr(harness.components.shadows, "saw", saw_and_edited)
        harness.write(make_pod("p"))
        await harness.go()
        assert outcomes(harness) == {"skipped": 1}


async def test_only_pods_that_its_selectors_match_are_judged() -> None:
    async with running() as harness:
        harness.write(make_node("n"), canary(podSelector={"matchLabels": {"app": "web"}}))
        harness.write(make_pod("p"), make_pod("q", labels={"app": "web"}))
        await harness.go()
        assert outcomes(harness) == {"same": 1}


async def test_a_sample_of_pods_is_judged_where_the_policy_says_so() -> None:
    async with running() as harness:
        harness.write(make_node("n", cpu=1000, pods=1000), canary(shadow={"samplePercent": 25}))
        harness.write(*(make_pod(f"p{number}") for number in range(400)))
        await harness.go()
        assert 60 < outcomes(harness)["same"] < 140
        assert set(outcomes(harness)) == {"same"}


async def test_what_finds_no_place_in_the_backlog_is_skipped_and_nobody_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shadow, "BACKLOG", 0)
    async with running() as harness:
        harness.write(make_node("n"), canary(), make_pod("p"))
        await harness.go()
        assert outcomes(harness) == {"skipped": 1}
        assert harness.cluster.node_of("p") == "n"


async def test_a_pod_that_is_gone_before_its_shadow_looks_is_skipped(monkeypatch: pytest.MonkeyPatch) -> None:
    async with running() as harness:
        harness.write(make_node("n"), canary())
        saw = harness.components.shadows.saw

        def saw_and_gone(pod: Any, verdict: Any) -> None:
            saw(pod, verdict)
            harness.cluster.delete("Pod", "default/p")
            harness.tell()

        monkeypatch.setattr(harness.components.shadows, "saw", saw_and_gone)
        harness.write(make_pod("p"))
        await harness.go()
        assert outcomes(harness) == {"skipped": 1}


async def test_a_shadow_leaves_the_table_as_it_was() -> None:
    async with running() as harness:
        harness.write(make_node("n", cpu=4), canary(), *(make_pod(f"p{number}", cpu=1) for number in range(5)))
        await harness.go()
        assert len(harness.cluster.bound) == 4
        assert len(harness.cache.state.table.pods_on("n")) == 4
        assert "Insufficient cpu" in harness.cluster.conditions[f"pod-default-{_left(harness)}"][1]


async def test_the_latest_examples_are_kept_and_no_more() -> None:
    async with running() as harness:
        harness.write(make_node("n", pods=100), canary(predicates=NOWHERE))
        for number in range(EXAMPLES_MAX + 3):
            harness.write(make_pod(f"p{number}", cpu="1m"))
            await harness.go()
        assert [pod for pod, *_ in examples(harness)] == [f"default/p{number}" for number in range(3, EXAMPLES_MAX + 3)]


def _left(harness: Harness) -> str:
    return next(name for name in (f"p{number}" for number in range(5)) if not harness.cluster.node_of(name))
