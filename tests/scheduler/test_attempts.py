"""Attempts that wait for extenders: what may happen between the look at the pod and the decision on it."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import pytest

from berth.engine.extender_result import ExtenderResult
from berth.engine.preemption.victims import Candidate
from berth.model import Pod
from berth.policy.compile import ActivePolicy
from berth.policy.records import Policy
from berth.scheduler import BindRefused, OutcomeUnknown
from berth.scheduler.object_events import ObjectEvent
from berth.scheduler.ports import Attempts, DelegatedBind
from berth.scheduler.queue.queue import Part, QueuedPod
from policy.builders import make_policy
from scheduler.extender_service import extender_at, policy_with, running_extended, serving
from scheduler.harness import Harness, running
from support.builders import make_node, make_object, make_pod

UID = "pod-default-web"
EXTENDERS = [{"urlPrefix": "http://extender.example", "filterVerb": "filter"}]


@dataclass(frozen=True)
class Call:
    item: QueuedPod
    pod: Pod
    active: ActivePolicy
    attempts: Attempts


class Patient:
    """Extenders that answer when the test does."""

    def __init__(self) -> None:
        self.calls: list[Call] = []
        self.bind: Callable[[Pod, str], Awaitable[None]] | None = None
        self.looks: list[str] = []
        self.stopped = False

    def concerns(self, policy: Policy, pod: Pod) -> bool:
        return bool(policy.extenders)

    def start(self, item: QueuedPod, pod: Pod, active: ActivePolicy, attempts: Attempts) -> None:
        self.calls.append(Call(item, pod, active, attempts))

    def on_event(self, event: ObjectEvent) -> None:
        if event.kind == "Pod":
            self.looks.append(event.identity.uid)

    def binder(self, active: ActivePolicy, pod: Pod) -> DelegatedBind | None:
        return None if self.bind is None else DelegatedBind("http://localhost", self.bind)

    def narrows(self, policy: Policy, pod: Pod) -> bool:
        return False

    async def narrow(self, active: ActivePolicy, pod: Pod, candidates: Sequence[Candidate]) -> list[Candidate]:
        raise AssertionError("nobody is asked about victims")

    async def stop(self) -> None:
        self.stopped = True

    def statistics(self) -> dict[str, int]:
        return {"waiting": len(self.calls), "held": 0}

    def conclude(self, *allowed: str, call: int = -1) -> None:
        said = self.calls[call]
        said.attempts.conclude(said.item, said.pod, said.active, ExtenderResult(frozenset(allowed)))

    def fail(self, message: str) -> None:
        said = self.calls[-1]
        said.attempts.fail(said.item, said.pod, said.active, message)


@asynccontextmanager
async def asking(*nodes: str, **options: Any) -> AsyncIterator[tuple[Harness, Patient]]:
    """A harness whose policy has extenders, and a pod that they are asked about."""
    extenders = Patient()
    async with running(extenders=extenders, **options) as harness:
        harness.write(*map(make_node, nodes), make_policy(extenders=EXTENDERS), make_pod("web"))
        await harness.go()
        assert harness.queue.part_of(UID) is Part.IN_FLIGHT
        yield harness, extenders


async def test_a_pod_goes_to_a_node_that_the_extenders_left() -> None:
    async with asking("a", "b") as (harness, extenders):
        extenders.conclude("b")
        await harness.go()
        assert harness.cluster.node_of("web") == "b"


async def test_pods_that_need_no_extender_are_placed_while_others_wait_for_one() -> None:
    async with asking("a") as (harness, _):
        harness.write(make_policy("plain", schedulerName="plain"), make_pod("other", scheduler="plain"))
        await harness.go()
        assert (harness.cluster.node_of("web"), harness.cluster.node_of("other")) == ("", "a")


async def test_a_node_that_went_meanwhile_is_not_taken() -> None:
    async with asking("a", "b") as (harness, extenders):
        harness.cluster.delete("Node", "b")
        await harness.go()
        extenders.conclude("b")
        await harness.go()
        assert harness.cluster.attempts == []
        assert harness.cluster.conditions[UID][1].startswith("0/1 nodes are available: ")
        assert len(extenders.calls) == 2  # the node's end is news to a pod that an extender turned away


async def test_an_attempt_without_an_answer_says_so_and_is_made_again_after_a_backoff() -> None:
    async with asking("a") as (harness, extenders):
        extenders.fail("extender http://extender.example: no answer within 5 s")
        await harness.go()
        reason, message = harness.cluster.conditions[UID]
        assert (reason, message) == ("SchedulerError", "extender http://extender.example: no answer within 5 s")
        await harness.pass_time(1)
        assert len(extenders.calls) == 2
        extenders.conclude("a")
        await harness.go()
        assert harness.cluster.node_of("web") == "a"


@pytest.mark.parametrize(
    ("news", "part"),
    [
        (make_pod("web", gates=["g"]), Part.GATED),
        (make_pod("web", deleting=True), None),
        (make_pod("web", node="a"), None),
        (make_pod("web", scheduler="another"), None),
    ],
    ids=["gated", "deleting", "bound", "not ours"],
)
async def test_what_happens_to_the_pod_meanwhile_counts(news: dict[str, Any], part: Part | None) -> None:
    async with asking("a") as (harness, extenders):
        harness.write(news)
        await harness.go()
        extenders.conclude("a")
        await harness.go()
        assert harness.cluster.attempts == []
        assert harness.queue.part_of(UID) is part


async def test_answers_about_an_older_version_of_the_pod_are_no_answers() -> None:
    async with asking("a") as (harness, extenders):
        harness.write(make_pod("web", labels={"app": "web"}))
        await harness.go()
        assert UID in extenders.looks
        extenders.conclude("a")
        await harness.go()
        assert harness.cluster.attempts == []
        assert extenders.calls[1].pod.labels == {"app": "web"}
        assert extenders.calls[1].item.attempts == 1
        extenders.conclude("a")
        await harness.go()
        assert harness.cluster.node_of("web") == "a"


async def test_an_edited_policy_has_its_attempts_made_anew_by_the_new_generation() -> None:
    async with asking("a") as (harness, extenders):
        harness.write(make_policy(generation=2, extenders=EXTENDERS, annotatePods=True))
        await harness.go()
        extenders.conclude("a")
        await harness.go()
        assert harness.cluster.attempts == []
        assert [call.active.policy.generation for call in extenders.calls] == [1, 2]
        extenders.conclude("a")
        await harness.go()
        assert harness.cluster.annotations_of("web")["berth.dev/policy-generation"] == "2"


async def test_a_policy_deleted_meanwhile_decides_nothing() -> None:
    async with asking("a") as (harness, extenders):
        harness.cluster.delete("SchedulingPolicy", "batch")
        await harness.go()
        extenders.conclude()
        await harness.go()
        assert harness.cluster.node_of("web") == "a"  # by the built-in policy, which asks nobody


async def test_a_namespace_relabelled_meanwhile_gives_the_pod_to_its_new_policy() -> None:
    async with asking("a") as (harness, extenders):
        harness.write(make_policy("team", namespaceSelector={"matchLabels": {"team": "a"}}))
        await harness.go()
        harness.write(make_object("Namespace", "default", metadata={"labels": {"team": "a"}}))
        extenders.conclude()
        await harness.go()
        assert harness.cluster.node_of("web") == "a"


async def test_a_pod_that_left_and_came_back_is_decided_on_by_its_newest_attempt_alone() -> None:
    async with asking("a", "b") as (harness, extenders):
        harness.write(make_pod("web", scheduler="another"))
        await harness.go()
        harness.write(make_pod("web"))
        await harness.go()
        assert len(extenders.calls) == 2
        extenders.conclude("a", call=0)
        await harness.go()
        assert harness.cluster.attempts == []
        extenders.conclude("b", call=1)
        await harness.go()
        assert harness.cluster.attempts == [("web", "b")]


async def test_nothing_is_decided_by_answers_that_come_while_closed() -> None:
    async with asking("a") as (harness, extenders):
        harness.scheduler.close()
        extenders.conclude("a")
        await harness.pass_time(5)
        assert harness.cluster.attempts == []
        harness.scheduler.open()
        await harness.go()
        extenders.conclude("a")
        await harness.go()
        assert harness.cluster.node_of("web") == "a"


async def test_an_extender_that_breaks_the_scheduler_s_rules_costs_its_pod_a_backoff_only() -> None:
    async with asking("a") as (harness, extenders):
        call = extenders.calls[0]
        call.attempts.conclude(call.item, call.pod, call.active, 7)  # type: ignore[arg-type]
        await harness.go()
        assert harness.queue.part_of(UID) is Part.BACKOFF
        assert harness.cluster.conditions[UID][0] == "SchedulerError"
        assert harness.errors.counts == {"deciding on": 1}


async def test_extenders_are_stopped_with_the_scheduler() -> None:
    async with asking("a") as (_, extenders):
        assert not extenders.stopped
    assert extenders.stopped


# --- extenders that bind ---------------------------------------------------------------------------------------------


async def test_an_extender_that_binds_is_asked_instead_of_the_api_server() -> None:
    async with asking("a") as (harness, extenders):

        async def bind(pod: Pod, node_name: str) -> None:
            assert harness.cluster.settled == ["web"]  # nothing that was said before is written after the bind
            harness.cluster.carry_out(pod, node_name, {})

        extenders.bind = bind
        extenders.conclude("a")
        await harness.go()
        assert harness.cluster.attempts == []
        assert harness.cluster.node_of("web") == "a"
        assert harness.notes("web") == ["Successfully assigned default/web to a"]
        assert harness.policies.usage.counts("batch", "uid-batch").placed == 1


@pytest.mark.parametrize(
    "problem", [BindRefused(403, "not today"), OutcomeUnknown("not today"), RuntimeError("not today")], ids=repr
)
async def test_whatever_an_extender_says_that_does_not_bind_the_pod_is_read(problem: Exception) -> None:
    async with asking("a") as (harness, extenders):

        async def bind(pod: Pod, node_name: str) -> None:
            raise problem

        extenders.bind = bind
        extenders.conclude("a")
        await harness.go()
        assert harness.cluster.reads == ["web"]
        assert harness.queue.part_of(UID) is Part.BACKOFF
        assert "not today" in harness.notes("web")[0]
        assert harness.policies.usage.counts("batch", "uid-batch").placed == 0


async def test_an_extender_that_denies_a_bind_which_took_place_is_not_believed() -> None:
    async with asking("a") as (harness, extenders):

        async def bind(pod: Pod, node_name: str) -> None:
            harness.cluster.carry_out(pod, node_name, {})
            raise OutcomeUnknown("connection reset")

        extenders.bind = bind
        extenders.conclude("a")
        await harness.go()
        assert harness.notes("web") == ["Successfully assigned default/web to a"]
        assert harness.scheduler.statistics()["binds"]["found_bound"] == 1


async def test_an_extender_that_claims_a_bind_which_never_took_place_is_found_out() -> None:
    async with asking("a") as (harness, extenders):

        async def bind(pod: Pod, node_name: str) -> None:
            return None

        extenders.bind = bind
        extenders.conclude("a")
        await harness.pass_time(40)
        assert len(extenders.calls) == 2
        extenders.bind = None
        extenders.conclude("a")
        await harness.go()
        assert harness.cluster.node_of("web") == "a"


async def test_an_extender_that_hangs_while_it_binds_takes_no_place_from_other_binds() -> None:
    async with asking("a", bind_limit=1) as (harness, extenders):
        released = asyncio.Event()

        async def bind(pod: Pod, node_name: str) -> None:
            await released.wait()

        extenders.bind = bind
        extenders.conclude("a")
        await harness.go()
        extenders.bind = None
        harness.write(make_policy("plain", schedulerName="plain"))
        harness.write(*(make_pod(f"p{number}", scheduler="plain") for number in range(5)))
        await harness.go()
        assert all(harness.cluster.node_of(f"p{number}") == "a" for number in range(5))
        released.set()


# --- real extenders --------------------------------------------------------------------------------------------------


async def test_a_pod_that_changes_before_the_first_question_is_sent_keeps_no_place(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with serving() as service, running_extended(places=1) as harness:
        start = harness.extending.start

        def start_and_change(item: QueuedPod, pod: Pod, active: ActivePolicy, attempts: Attempts) -> None:
            start(item, pod, active, attempts)
            if not pod.labels:
                harness.write(make_pod("web", labels={"app": "web"}))

        monkeypatch.setattr(harness.extending, "start", start_and_change)
        harness.write(make_node("a"), policy_with(extender_at(service)), make_pod("web"))
        assert await harness.until_bound("web") == "a"
