"""The memory of decisions: what a pod was placed by and chosen from, and no more than there is room for."""

from scheduler.harness import running
from support.builders import make_node, make_pod


async def test_a_decision_is_remembered_with_what_it_was_chosen_from() -> None:
    async with running() as harness:
        harness.write(make_node("big", cpu="16"), make_node("mid", cpu="8"), make_node("small", cpu="100m"))
        await harness.pass_time(3)
        harness.write(make_pod("web", cpu="1"))
        await harness.go()
    (decision,) = harness.scheduler.components.decision_memory
    assert (decision.pod.key, decision.node, decision.policy) == ("default/web", "big", "(built-in)")
    assert (decision.evaluated, decision.feasible, decision.attempts) == (3, 2, 1)
    assert decision.margin is not None
    assert decision.margin.runner_up == "mid"
    assert decision.margin.total > decision.margin.runner_up_total
    assert decision.name == "web.1"
    assert harness.scheduler.components.decision_memory.of_pod(decision.pod.uid) is decision


async def test_a_single_feasible_node_has_no_runner_up() -> None:
    async with running() as harness:
        harness.write(make_node("only"), make_node("small", cpu="100m"), make_pod("web", cpu="1"))
        await harness.go()
    (decision,) = harness.scheduler.components.decision_memory
    assert (decision.feasible, decision.margin) == (1, None)


async def test_the_time_that_a_pod_waited_counts_from_its_first_attempt_on() -> None:
    async with running() as harness:
        harness.write(make_pod("web", cpu="1"))
        await harness.pass_time(20)
        harness.write(make_node("late"))
        await harness.pass_time(20)
    (decision,) = harness.scheduler.components.decision_memory
    assert decision.attempts == 2
    assert 20 <= decision.waited_seconds < 40


async def test_the_oldest_decisions_are_forgotten() -> None:
    async with running(remembered_decisions=3) as harness:
        harness.write(make_node("n1"), *(make_pod(f"web-{number}", cpu="1m") for number in range(5)))
        await harness.go()
        decisions = harness.scheduler.components.decision_memory
        assert [decision.pod.name for decision in decisions] == ["web-2", "web-3", "web-4"]
        of_pods = [decisions.of_pod(f"pod-default-web-{number}") for number in range(5)]
        assert of_pods == [None, None, *decisions]
        assert [decisions.find(f"web-{number}.{number + 1:x}") for number in range(5)] == [None, None, *decisions]
        assert decisions.find("web-3.5") is decisions.find("web-3.zz") is decisions.find("web-3") is None
        assert decisions.statistics() == {"remembered": 3, "total": 5}


async def test_only_the_decisions_since_a_moment_are_found() -> None:
    async with running() as harness:
        harness.write(make_node("n1"), make_pod("early", cpu="1m"))
        await harness.pass_time(10)
        since = harness.clock.now()
        harness.write(make_pod("late", cpu="1m"))
        await harness.go()
        assert [decision.pod.name for decision in harness.scheduler.components.decision_memory.since(since)] == ["late"]
        assert len(harness.scheduler.components.decision_memory.since(0)) == 2


async def test_nothing_is_remembered_where_that_is_off() -> None:
    async with running(remembered_decisions=0) as harness:
        harness.write(make_node("n1"), make_node("n2"), make_pod("web", cpu="1m"))
        await harness.go()
        assert harness.cache.state.table.pods_on("n1") or harness.cache.state.table.pods_on("n2")
    assert len(harness.scheduler.components.decision_memory) == 0
    assert not harness.scheduler.components.decision_memory.is_on
