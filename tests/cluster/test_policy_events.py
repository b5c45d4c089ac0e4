"""Events about policies: in namespace default, by the leader only, and not without end."""

from collections.abc import AsyncIterator
from typing import Any

import pytest

from berth.cluster.api import Api
from berth.cluster.events import EventRecorder
from berth.cluster.gate import WriteGate
from berth.cluster.policy_events import BURST, REFILL_SECONDS, PolicyEvents
from berth.scheduler.error_log import ErrorLog
from berth.scheduler.ports import NotLeading
from cluster.manual_clock import ManualClock
from cluster.server import Answer, Server, until

EVENTS = "/apis/events.k8s.io/v1/namespaces/default/events"


class SwitchedFence:
    request_seconds = 5.0

    def __init__(self) -> None:
        self.is_leading = self.is_open = True

    def check(self) -> None:
        if not self.is_open:
            raise NotLeading("closed")


@pytest.fixture
def fence() -> SwitchedFence:
    return SwitchedFence()


@pytest.fixture
async def recorder(api: Api, clock: ManualClock, gate: WriteGate) -> AsyncIterator[EventRecorder]:
    recorder = EventRecorder(api, clock, "host/1", ErrorLog(), gate)
    recorder.start()
    yield recorder
    await recorder.flush(5)


@pytest.fixture
def events(recorder: EventRecorder, clock: ManualClock, fence: SwitchedFence) -> PolicyEvents:
    return PolicyEvents(recorder, clock, fence)


def refuse(events: PolicyEvents, generation: int = 2, uid: str = "u1") -> None:
    note = f"generation {generation} is refused"
    events.put("batch", uid, type_="Warning", reason="Refused", action="Validating", note=note)


async def test_an_event_about_a_policy_is_in_namespace_default(
    server: Server, events: PolicyEvents, recorder: EventRecorder
) -> None:
    server.answer("POST", EVENTS, Answer(201))
    refuse(events)
    await until(lambda: recorder.counts["posted"] == 1)
    body: dict[str, Any] = server.requests[0].body
    assert body["metadata"]["namespace"] == "default"
    assert body["metadata"]["name"].startswith("batch.")
    assert body["regarding"] == {
        "apiVersion": "berth.dev/v1alpha1",
        "kind": "SchedulingPolicy",
        "name": "batch",
        "uid": "u1",
    }
    assert (body["type"], body["reason"], body["action"]) == ("Warning", "Refused", "Validating")
    assert body["reportingController"] == "berth"
    assert body["note"] == "generation 2 is refused"


async def test_a_server_without_the_new_api_gets_a_core_event(
    server: Server, events: PolicyEvents, recorder: EventRecorder
) -> None:
    old = "/api/v1/namespaces/default/events"
    server.answer("POST", EVENTS, Answer(404))
    server.answer("POST", old, Answer(201))
    refuse(events)
    await until(lambda: recorder.counts["posted"] == 1)
    assert server.requests[-1].body["involvedObject"]["kind"] == "SchedulingPolicy"


async def test_a_replica_that_lost_the_lead_posts_nothing(
    server: Server, events: PolicyEvents, recorder: EventRecorder, fence: SwitchedFence
) -> None:
    fence.is_leading = fence.is_open = False
    refuse(events)
    await until(lambda: recorder.counts["failed"] == 1)
    assert server.requests == []


async def test_a_fence_that_is_closed_for_a_moment_costs_no_event(
    server: Server, events: PolicyEvents, recorder: EventRecorder, fence: SwitchedFence, clock: ManualClock
) -> None:
    server.answer("POST", EVENTS, Answer(201))
    fence.is_open = False
    refuse(events)
    await until(lambda: recorder.statistics()["waiting"] == 1 and clock.sleeping > 0)
    fence.is_open = True
    for _ in range(20):
        await clock.advance(0.5)
    await until(lambda: recorder.counts["posted"] == 1)
    assert recorder.counts["failed"] == 0


async def test_a_policy_that_is_edited_without_end_has_a_limit(
    server: Server, events: PolicyEvents, recorder: EventRecorder, clock: ManualClock
) -> None:
    server.answer("POST", EVENTS, Answer(201))
    for generation in range(BURST + 10):
        refuse(events, generation)
    refuse(events, uid="of another policy")
    await until(lambda: recorder.statistics()["waiting"] == 0)
    assert (recorder.counts["posted"], recorder.counts["dropped"]) == (BURST + 1, 10)
    await clock.advance(REFILL_SECONDS)
    refuse(events, 1001)
    refuse(events, 1002)
    await until(lambda: recorder.statistics()["waiting"] == 0)
    assert (recorder.counts["posted"], recorder.counts["dropped"]) == (BURST + 2, 11)


async def test_the_same_event_again_is_counted_on_the_first(
    server: Server, events: PolicyEvents, recorder: EventRecorder
) -> None:
    server.answer("POST", EVENTS, Answer(201))
    refuse(events)
    await until(lambda: recorder.counts["posted"] == 1)
    server.answer("PATCH", f"{EVENTS}/{server.requests[0].body['metadata']['name']}", Answer())
    refuse(events)
    await until(lambda: recorder.counts["posted"] == 2)
    assert server.requests[-1].body["series"]["count"] == 2
