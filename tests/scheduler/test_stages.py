"""What plugins do between a decision and the bind: reserve, permit, pre-bind, bind, post-bind; in order, and undone."""

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from berth.engine.binding_points import Permit
from engine.storage import make_claim, make_class, make_volume, pod_with
from policy.builders import make_policy
from scheduler.harness import Harness, running
from scheduler.memory_cluster import Body, Fault, Hang, Refusal
from scheduler.staged_plugins import Script, installed, never
from support.builders import make_node, make_pod

BOUND = [f"{name} {stage}" for stage in ("reserve", "permit", "pre_bind", "bind") for name in ("one", "two")]
POSTED = ["one post_bind", "two post_bind"]
UNDONE = ["two unreserve", "one unreserve"]


@pytest.fixture
def script(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Script]:
    with installed(tmp_path, monkeypatch) as found:
        yield found


def acting(*names: str, **spec: Any) -> Body:
    """A policy with an actor of each of these names."""
    return make_policy("p", predicates=[{"name": name, "plugin": "Actor"} for name in names], **spec)


def condition(harness: Harness, name: str) -> tuple[str, str]:
    return harness.cluster.conditions.get(f"pod-default-{name}", ("", ""))


def queue(harness: Harness) -> dict[str, int]:
    return {part: count for part, count in harness.queue.statistics().items() if count}


def stages(harness: Harness) -> dict[str, int]:
    found: dict[str, int] = harness.scheduler.statistics()["stages"]
    return {what: count for what, count in found.items() if count}


def errors(harness: Harness) -> dict[str, str]:
    return {failure.source: failure.message for failure in harness.policies.usage.counts("p", "uid-p").failures}


# --- the way to the node ---------------------------------------------------------------------------------------------


async def test_every_stage_asks_the_plugins_in_the_order_of_the_policy(script: Script) -> None:
    async with running() as harness:
        harness.write(acting("one", "two"), make_node("a"), make_pod("web"))
        await harness.go()
        assert script.of("web") == BOUND + POSTED
        assert harness.cluster.bound == [("pod-default-web", "a")]
        assert stages(harness) == {"passed": 1}


async def test_the_room_is_held_when_a_plugin_is_asked_and_the_pod_bound_when_it_hears_so(script: Script) -> None:
    async with running() as harness:
        seen: list[tuple[bool, str]] = []

        def look(*_: Any) -> None:
            seen.append(("pod-default-web" in harness.cache.assumed(), harness.cluster.node_of("web")))

        script.says("one", "reserve", look)
        script.says("one", "post_bind", look)
        harness.write(acting("one"), make_node("a"), make_pod("web"))
        await harness.go()
        assert seen == [(True, ""), (True, "a")]


async def test_a_pod_that_does_not_concern_a_plugin_goes_past_it(script: Script) -> None:
    async with running() as harness:
        harness.write(make_policy("p", predicates=[{"name": "Gang", "args": {"size": 2}}]))
        harness.write(make_node("a"), make_pod("web"), make_pod("member", labels={"gang": "g"}))
        await harness.go()
        assert (harness.cluster.node_of("web"), harness.cluster.node_of("member")) == ("a", "")


async def test_a_filter_of_single_nodes_may_take_part_too(script: Script) -> None:
    async with running() as harness:
        harness.write(make_policy("p", predicates=[{"name": "Quiet"}]))
        harness.write(make_node("loud"), make_node("still"), make_pod("web"))
        await harness.go()
        assert harness.cluster.node_of("web") == "still"
        assert script.of("web") == ["Quiet reserve"]


async def test_pods_of_other_policies_are_not_shown_to_the_plugins(script: Script) -> None:
    async with running() as harness:
        harness.write(acting("one", schedulerName="mine"), make_policy("other"), make_node("a"), make_pod("web"))
        await harness.go()
        assert harness.cluster.node_of("web") == "a"
        assert script.calls == []


async def test_the_pod_s_volumes_are_bound_before_plugins_prepare_it(script: Script) -> None:
    async with running() as harness:
        harness.write(acting("one"), make_node("here", labels={"zone": "z1"}), make_class(), make_claim("data"))
        harness.write(pod_with("data", name="db"))
        await harness.go()
        assert script.of("db") == ["one reserve", "one permit"]
        harness.write(make_volume("made", "z1", claim="data", phase="Bound"))

        def bind(body: Body) -> None:
            body["spec"]["volumeName"] = "made"
            body["metadata"].setdefault("annotations", {})["pv.kubernetes.io/bind-completed"] = "yes"
            body["status"] = {"phase": "Bound"}

        harness.cluster.change("PersistentVolumeClaim", "default/data", bind)
        await harness.go()
        assert script.of("db") == ["one reserve", "one permit", "one pre_bind", "one bind", "one post_bind"]
        assert harness.cluster.node_of("db") == "here"


async def test_a_pod_that_is_rejected_lets_go_of_its_volumes(script: Script) -> None:
    async with running() as harness:
        script.says("one", "permit", Permit.reject("not today"))
        harness.write(acting("one"), make_node("here"), make_class(), make_claim("data"), pod_with("data", name="db"))
        await harness.go()
        assert harness.cluster.volume_writes == []
        assert not harness.cache.state.volumes.reservations.plans
        assert harness.scheduler.statistics()["volumes"] == {"waiting": 0, "rejected": 1}


# --- refusals --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("stage", "answer", "heard"),
    [
        ("reserve", "no room in the rack", BOUND[:2]),
        ("permit", Permit.reject("no room in the rack"), BOUND[:4]),
    ],
)
async def test_a_pod_that_is_refused_waits_as_unschedulable_for_what_may_change_that_plugin_s_mind(
    script: Script, stage: str, answer: Any, heard: list[str]
) -> None:
    async with running() as harness:
        script.says("two", stage, answer)
        harness.write(acting("one", "two", "three"), make_node("a", cpu=1), make_pod("web", cpu=1))
        await harness.pass_time(20)
        asked = [call for call in script.of("web") if not call.startswith("three")]
        assert asked == heard + UNDONE
        assert script.of("web")[len(script.of("web")) - 3] == "three unreserve"
        assert condition(harness, "web") == ("Unschedulable", "0/1 nodes are available: 1 no room in the rack.")
        assert queue(harness) == {"unschedulable": 1}
        assert harness.cache.assumed() == {}
        assert harness.scheduler.statistics()["attempts"] == {"unschedulable": 1}
        assert errors(harness) == {}
        script.answers.clear()
        harness.write(make_node("b", cpu=1))
        await harness.go()
        assert harness.cluster.node_of("web") != ""


async def test_room_that_was_refused_is_news_for_others(script: Script) -> None:
    async with running() as harness:
        script.says("one", "permit", lambda _, pod: Permit.wait(20) if pod.name == "first" else Permit.allow())
        harness.write(acting("one"), make_node("a", cpu=1), make_pod("first", cpu=1), make_pod("next", cpu=1))
        await harness.pass_time(19)
        assert harness.cluster.node_of("next") == ""
        await harness.pass_time(2)
        assert harness.cluster.node_of("next") == "a"


async def test_what_happens_while_a_pod_waits_counts_when_it_is_rejected(script: Script) -> None:
    async with running() as harness:
        script.says("one", "permit", lambda plugin, pod: Permit.wait(20) if len(script.calls) < 9 else Permit.allow())
        harness.write(acting("one"), make_node("a"), make_pod("web"))
        await harness.pass_time(10)
        harness.write(make_node("b"))
        await harness.pass_time(10)
        assert condition(harness, "web")[0] == "Unschedulable"
        assert (queue(harness), stages(harness)) == ({}, {"running": 1, "waiting": 1, "rejected": 1})
        await harness.pass_time(21)
        assert queue(harness) == {"unschedulable": 1}  # nothing happened but what it did itself
        assert script.of("web").count("one unreserve") == 2


async def test_a_pod_that_a_plugin_does_not_prepare_is_tried_again_after_its_backoff(script: Script) -> None:
    async with running() as harness:
        script.says("two", "pre_bind", "the tape is not mounted")
        harness.write(acting("one", "two"), make_node("a"), make_pod("web"))
        await harness.go()
        assert script.of("web") == BOUND[:6] + UNDONE
        assert condition(harness, "web") == ("Unschedulable", "the tape is not mounted")
        assert queue(harness) == {"backoff": 1}
        script.answers.clear()
        await harness.pass_time(2)
        assert harness.cluster.node_of("web") == "a"


# --- failures --------------------------------------------------------------------------------------------------------


def fail(*_: Any) -> Any:
    raise LookupError("out of tape")


@pytest.mark.parametrize(
    ("stage", "title", "heard"),
    [
        ("reserve", "Reserve", BOUND[:2]),
        ("permit", "Permit", BOUND[:4]),
        ("pre_bind", "PreBind", BOUND[:6]),
        ("bind", "Bind", BOUND),
    ],
)
@pytest.mark.parametrize("how", [fail, lambda *_: 7, lambda *_: exit(3)], ids=["raises", "nonsense", "exits"])
async def test_a_plugin_that_fails_costs_the_pod_the_node_is_counted_and_undone(
    script: Script, stage: str, title: str, heard: list[str], how: Any
) -> None:
    async with running() as harness:
        script.says("two", stage, how)
        harness.write(acting("one", "two"), make_node("a"), make_pod("web"))
        await harness.go()
        assert script.of("web") == heard + UNDONE
        reason, message = condition(harness, "web")
        assert reason == "SchedulerError"
        assert f'running {title} plugin "two": {stage}() ' in message
        assert list(errors(harness)) == ["plugin two"]
        assert queue(harness) == {"backoff": 1}
        assert harness.cache.assumed() == {}
        assert harness.cluster.bound == []
        script.answers.clear()
        await harness.pass_time(2)
        assert harness.cluster.node_of("web") == "a"
        assert script.of("web")[-2:] == POSTED


async def test_a_plugin_that_fails_at_the_end_is_counted_and_changes_nothing(script: Script) -> None:
    async with running() as harness:
        script.says("one", "post_bind", fail)
        script.says("two", "unreserve", fail)
        script.says("two", "permit", lambda _, pod: Permit.reject("no") if pod.name == "bad" else Permit.allow())
        harness.write(acting("one", "two"), make_node("a"), make_pod("good"), make_pod("bad"))
        await harness.go()
        assert harness.cluster.node_of("good") == "a"
        assert script.of("good")[-2:] == POSTED
        assert script.of("bad")[-2:] == UNDONE
        assert queue(harness) == {"unschedulable": 1}
        assert sorted(errors(harness)) == ["plugin one", "plugin two"]


@pytest.mark.parametrize("stage", ["pre_bind", "bind"])
async def test_a_plugin_that_does_not_come_back_is_given_up_when_the_policy_s_time_is_up(
    script: Script, stage: str
) -> None:
    async with running() as harness:
        fine = None if stage == "pre_bind" else False
        script.says("one", stage, lambda _, pod: never() if pod.name == "stuck" else fine)
        harness.write(acting("one", bindTimeoutSeconds=40), make_node("a"), make_pod("stuck"), make_pod("other"))
        await harness.pass_time(39)
        assert (harness.cluster.node_of("stuck"), harness.cluster.node_of("other")) == ("", "a")
        await harness.pass_time(1)
        assert f"{stage}() took longer than 40 s" in condition(harness, "stuck")[1]
        assert script.of("stuck")[-1] == "one unreserve"
        assert queue(harness) == {"backoff": 1}


async def test_a_plugin_that_does_not_even_heed_being_given_up_is_left_alone(script: Script) -> None:
    async with running() as harness:
        ended = asyncio.Event()

        async def stubborn() -> None:
            while not ended.is_set():
                try:
                    await ended.wait()
                except asyncio.CancelledError:
                    continue

        script.says("one", "pre_bind", lambda *_: stubborn())
        harness.write(acting("one", bindTimeoutSeconds=5), make_node("a"), make_pod("web"))
        await harness.pass_time(5)
        assert script.of("web")[-1] == "one unreserve"
        script.answers.clear()
        await harness.pass_time(2)
        assert harness.cluster.node_of("web") == "a"
        ended.set()
        await harness.go()
        assert script.of("web")[-1] == "one post_bind"


async def test_a_plugin_that_cancels_itself_has_failed(script: Script) -> None:
    async def cancel() -> None:
        raise asyncio.CancelledError

    async with running() as harness:
        script.says("one", "pre_bind", lambda *_: cancel())
        harness.write(acting("one"), make_node("a"), make_pod("web"))
        await harness.go()
        assert "pre_bind() was cancelled" in condition(harness, "web")[1]
        assert queue(harness) == {"backoff": 1}


# --- binding ---------------------------------------------------------------------------------------------------------


async def test_the_first_plugin_that_binds_a_pod_does_it_alone(script: Script) -> None:
    async with running() as harness:

        def bind(_: Any, pod: Any) -> bool:
            harness.cluster.change("Pod", f"default/{pod.name}", lambda body: body["spec"].update(nodeName="a"))
            return True

        script.says("one", "bind", bind)
        harness.write(acting("one", "two"), make_node("a"), make_pod("web"))
        await harness.go()
        assert harness.cluster.node_of("web") == "a"
        assert harness.cluster.attempts == []  # nobody asked the API server to bind it
        assert harness.cluster.settled == ["web"]
        assert script.of("web") == [*BOUND[:-1], *POSTED]


async def test_a_plugin_that_binds_and_then_fails_has_bound_the_pod(script: Script) -> None:
    async with running() as harness:

        def bind(_: Any, pod: Any) -> bool:
            harness.cluster.change("Pod", f"default/{pod.name}", lambda body: body["spec"].update(nodeName="a"))
            raise TimeoutError

        script.says("one", "bind", bind)
        harness.write(acting("one"), make_node("a"), make_pod("web"))
        await harness.go()
        assert script.of("web")[-1] == "one post_bind"
        assert queue(harness) == {}


async def test_a_plugin_that_hangs_while_binding_takes_no_place_from_others(script: Script) -> None:
    async with running(bind_limit=1) as harness:
        script.says("one", "bind", lambda _, pod: never() if pod.name.startswith("stuck") else False)
        harness.write(acting("one"), make_node("a"), *(make_pod(f"stuck{i}", priority=9) for i in range(3)))
        harness.write(make_pod("web"))
        await harness.go()
        assert harness.cluster.node_of("web") == "a"


async def test_a_pod_that_no_plugin_binds_takes_a_place_like_any_other(script: Script) -> None:
    async with running(bind_limit=1) as harness:
        harness.cluster.faults["first"] = Hang()
        harness.write(acting("one"), make_node("a"), make_pod("first", priority=2))
        await harness.go()
        harness.write(make_pod("second", priority=1), make_pod("third"))
        await harness.go()
        assert harness.cluster.running_binds == 1
        assert harness.cluster.node_of("third") == ""
        fault = harness.cluster.faults.pop("first")
        assert isinstance(fault, Hang)
        fault.released.set()
        await harness.go()
        assert [harness.cluster.node_of(name) for name in ("first", "second", "third")] == ["a"] * 3


@pytest.mark.parametrize(
    ("fault", "is_bound"),
    [
        (Refusal(403, "no"), False),
        (Refusal(404, "no such pod"), False),
        (Fault.CUT_BEFORE, False),
        (Fault.CUT_AFTER, True),
        (Fault.BROKEN, False),
    ],
)
async def test_the_end_of_a_bind_is_told_once_whatever_it_is(script: Script, fault: Any, is_bound: bool) -> None:
    async with running() as harness:
        harness.cluster.faults["web"] = fault
        harness.write(acting("one", "two"), make_node("a"), make_pod("web"))
        await harness.go()
        assert script.of("web") == BOUND + (POSTED if is_bound else UNDONE)
        del harness.cluster.faults["web"]
        await harness.pass_time(2)
        assert harness.cluster.node_of("web") == "a"
        assert script.of("web")[-2:] == POSTED
        assert len([call for call in script.of("web") if "post_bind" in call]) == 2


async def test_a_pod_that_somebody_else_bound_during_our_bind_is_undone(script: Script) -> None:
    async with running() as harness:
        hang = harness.cluster.faults["web"] = Hang()
        harness.write(acting("one", "two"), make_node("a"), make_node("b", unschedulable=True), make_pod("web"))
        await harness.go()
        harness.cluster.change("Pod", "default/web", lambda body: body["spec"].update(nodeName="b"))
        await harness.go()
        hang.released.set()
        await harness.go()
        assert script.of("web") == BOUND + UNDONE
        assert harness.cluster.node_of("web") == "b"


async def test_a_pod_that_is_deleted_during_the_bind_is_undone(script: Script) -> None:
    async with running() as harness:
        hang = harness.cluster.faults["web"] = Hang()
        harness.write(acting("one", "two"), make_node("a"), make_pod("web"))
        await harness.go()
        harness.cluster.delete("Pod", "default/web")
        await harness.go()
        assert script.of("web") == BOUND
        hang.released.set()
        await harness.go()
        assert script.of("web") == BOUND + UNDONE
        assert (queue(harness), dict(harness.cache.assumed())) == ({}, {})
