"""Events: posted in the background, repeated ones as a series, and never in the way."""

from collections.abc import AsyncIterator
from typing import Any

import pytest

from berth.cluster import events as events_module
from berth.cluster.api import Api
from berth.cluster.event_bodies import Record, cut_note, event_name
from berth.cluster.events import EventRecorder
from berth.cluster.gate import EVENT, WriteGate
from berth.model import parse_pod
from berth.scheduler.error_log import ErrorLog
from berth.scheduler.ports import PodEvent
from cluster.manual_clock import ManualClock
from cluster.server import Answer, Cut, Server, refusal, until
from support.builders import make_pod

NEW = "/apis/events.k8s.io/v1/namespaces/default/events"
OLD = "/api/v1/namespaces/default/events"
POD = parse_pod(make_pod("web"))
FAILED = PodEvent("Warning", "FailedScheduling", "Scheduling", "0/3 nodes are available: 3 Insufficient cpu.")


@pytest.fixture
async def events(api: Api, clock: ManualClock, gate: WriteGate) -> AsyncIterator[EventRecorder]:
    recorder = EventRecorder(api, clock, "host/1", ErrorLog(), gate)
    recorder.start()
    yield recorder
    await recorder.flush(5)


async def done(recorder: EventRecorder, count: int) -> None:
    await until(lambda: sum(recorder.counts.values()) >= count)


def name_of(server: Server) -> str:
    name: str = server.seen("POST")[0].body["metadata"]["name"]
    return name


async def test_an_event_is_posted_to_the_new_api(server: Server, events: EventRecorder) -> None:
    server.answer("POST", NEW, Answer(201))
    events.record(POD, FAILED)
    await done(events, 1)
    body: dict[str, Any] = server.requests[0].body
    assert body["metadata"]["name"].startswith("web.")
    assert body["regarding"]["uid"] == POD.uid
    assert (body["reportingController"], body["reportingInstance"]) == ("berth", "host/1")
    assert (body["type"], body["reason"], body["action"]) == ("Warning", "FailedScheduling", "Scheduling")
    assert body["eventTime"] == "2026-01-01T00:16:40.000000Z"
    assert "series" not in body


async def test_an_event_due_to_another_pod_names_it_and_is_reported_by_its_scheduler(
    server: Server, events: EventRecorder
) -> None:
    server.answer("POST", NEW, Answer(201))
    preemptor = parse_pod(make_pod("high", scheduler="bin-pack", namespace="batch"))
    events.record(POD, PodEvent("Normal", "Preempted", "Preempting", "Preempted by pod x on node n", preemptor))
    await done(events, 1)
    body: dict[str, Any] = server.requests[0].body
    assert body["reportingController"] == "bin-pack"
    assert body["regarding"]["name"] == "web"
    assert (body["related"]["namespace"], body["related"]["name"]) == ("batch", "high")
    assert body["related"]["uid"] == preemptor.uid


async def test_a_repeated_event_becomes_a_series(server: Server, events: EventRecorder, clock: ManualClock) -> None:
    server.answer("POST", NEW, Answer(201))
    events.record(POD, FAILED)
    await done(events, 1)
    server.answer("PATCH", f"{NEW}/{name_of(server)}", Answer())
    events.record(POD, FAILED)
    await done(events, 2)
    events.record(POD, FAILED)
    events.record(POD, FAILED)
    await clock.advance(361)
    await done(events, 3)
    assert [request.body["series"]["count"] for request in server.seen("PATCH")] == [2, 4]
    assert len(server.seen("POST")) == 1


async def test_a_series_that_goes_on_is_written_every_half_hour(
    server: Server, events: EventRecorder, clock: ManualClock
) -> None:
    server.answer("POST", NEW, Answer(201))
    events.record(POD, FAILED)
    await done(events, 1)
    server.answer("PATCH", f"{NEW}/{name_of(server)}", Answer())
    events.record(POD, FAILED)
    await done(events, 2)
    for _ in range(65):
        await clock.advance(60)
        events.record(POD, FAILED)
        await until(lambda: events.statistics()["waiting"] == 0)
    counts = [request.body["series"]["count"] for request in server.seen("PATCH")]
    assert counts == [2, 31, 61]


async def test_another_note_is_another_event(server: Server, events: EventRecorder) -> None:
    server.answer("POST", NEW, Answer(201))
    events.record(POD, FAILED)
    events.record(POD, PodEvent("Warning", "FailedScheduling", "Scheduling", "another"))
    await done(events, 2)
    names = {request.body["metadata"]["name"] for request in server.seen("POST")}
    assert len(names) == 2


async def test_the_same_after_six_minutes_is_a_new_event(
    server: Server, events: EventRecorder, clock: ManualClock
) -> None:
    server.answer("POST", NEW, Answer(201))
    events.record(POD, FAILED)
    await done(events, 1)
    await clock.advance(361)
    events.record(POD, FAILED)
    await done(events, 2)
    assert len(server.seen("POST")) == 2


async def test_a_series_whose_event_has_expired_is_posted_again(server: Server, events: EventRecorder) -> None:
    server.answer("POST", NEW, Answer(201))
    events.record(POD, FAILED)
    await done(events, 1)
    server.answer("PATCH", f"{NEW}/{name_of(server)}", refusal(404, "NotFound", "gone", kind="events"))
    events.record(POD, FAILED)
    await done(events, 2)
    assert server.seen("POST")[1].body["series"]["count"] == 2


async def test_a_server_without_the_new_api_gets_core_events(server: Server, events: EventRecorder) -> None:
    server.answer("POST", OLD, Answer(201))
    events.record(POD, FAILED)
    await done(events, 1)
    events.record(POD, PodEvent("Normal", "Scheduled", "Binding", "Successfully assigned"))
    await done(events, 2)
    body = server.seen("POST", OLD)[0].body
    assert (body["involvedObject"]["uid"], body["count"], body["source"]) == (POD.uid, 1, {"component": "berth"})
    assert len(server.seen("POST", "events.k8s.io")) == 1


async def test_a_namespace_that_is_gone_does_not_change_the_api(server: Server, events: EventRecorder) -> None:
    server.answer("POST", NEW, refusal(404, "NotFound", 'namespaces "default" not found', kind="namespaces"))
    events.record(POD, FAILED)
    await done(events, 1)
    assert events.counts == {"failed": 1}
    assert not server.seen("POST", OLD)


async def test_an_event_that_was_written_before_the_cut_counts_as_posted(
    server: Server, events: EventRecorder, clock: ManualClock
) -> None:
    server.answer("POST", NEW, Cut(), refusal(409, "AlreadyExists", "exists"))
    events.record(POD, FAILED)
    await until(lambda: clock.sleeping == 2)
    await clock.advance(0.5)
    await done(events, 1)
    assert events.counts == {"posted": 1}


async def test_an_event_is_given_up_after_a_while(server: Server, events: EventRecorder, clock: ManualClock) -> None:
    server.answer("POST", NEW, refusal(503, "Unavailable", "x"))
    events.record(POD, FAILED)
    for _ in range(events_module.ATTEMPTS - 1):
        await until(lambda: clock.sleeping >= 2)
        await clock.advance(16)
    await done(events, 1)
    assert events.counts == {"failed": 1}


async def test_what_waits_is_posted_at_the_exit(server: Server, api: Api, clock: ManualClock, gate: WriteGate) -> None:
    server.answer("POST", NEW, Answer(201))
    recorder = EventRecorder(api, clock, "host/1", ErrorLog(), gate)
    recorder.start()
    for number in range(100):
        recorder.record(parse_pod(make_pod(f"web-{number}")), FAILED)
    await recorder.flush(10)
    assert len(server.seen("POST")) == 100


async def test_the_exit_does_not_wait_for_a_server_that_is_away(
    server: Server, api: Api, clock: ManualClock, gate: WriteGate
) -> None:
    server.answer("POST", NEW, Cut())
    recorder = EventRecorder(api, clock, "host/1", ErrorLog(), gate)
    recorder.start()
    for number in range(20):
        recorder.record(parse_pod(make_pod(f"web-{number}")), FAILED)
    await recorder.flush(0.05)
    assert recorder.counts == {"dropped": 20}


async def test_more_than_can_wait_is_dropped_and_counted(api: Api, clock: ManualClock, gate: WriteGate) -> None:
    recorder = EventRecorder(api, clock, "host/1", ErrorLog(), gate)
    for number in range(events_module.WAITING_LIMIT + 5):
        recorder.record(POD, PodEvent("Normal", "Scheduled", "Binding", str(number)))
    assert recorder.counts == {"dropped": 5}


def test_a_note_is_cut_at_the_limit_in_bytes() -> None:
    assert cut_note("x" * 1024) == "x" * 1024
    assert cut_note("a\ud800b") == "a?b"
    cut = cut_note("ä" * 1024)
    assert len(cut.encode()) <= 1024
    assert cut.endswith("ä ...")


def test_a_long_pod_name_does_not_make_a_long_event_name() -> None:
    assert event_name("web", 255) == "web.ff"
    assert event_name("w" * 253, 255) == "berth.ff"


def crowd(namespace: str, count: int = 3 * EVENT.at_once) -> list[Any]:
    return [parse_pod(make_pod(f"web-{number}", namespace=namespace)) for number in range(count)]


async def test_a_namespace_that_is_being_deleted_does_not_stop_the_events_of_others(
    server: Server, events: EventRecorder
) -> None:
    server.answer("POST", NEW, Answer(201))
    message = "unable to create new content in namespace ending because it is being terminated"
    server.answer("POST", NEW.replace("default", "ending"), refusal(403, "Forbidden", message))
    pods = crowd("ending")
    for pod in pods:
        events.record(pod, FAILED)
    events.record(POD, FAILED)
    await done(events, len(pods) + 1)
    assert events.counts == {"failed": len(pods), "posted": 1}
    assert len(server.requests) == len(pods) + 1


@pytest.mark.parametrize("status", [429, 500, 503])
async def test_events_that_wait_to_be_tried_again_do_not_hold_up_others(
    server: Server, events: EventRecorder, clock: ManualClock, status: int
) -> None:
    server.answer("POST", NEW, Answer(201))
    path = NEW.replace("default", "troubled")
    server.answer("POST", path, refusal(status, "Reason", "a webhook is down"))
    pods = crowd("troubled", EVENT.at_once + 4)
    for pod in pods:
        events.record(pod, FAILED)
    await until(lambda: len(server.requests) == len(pods))
    events.record(POD, FAILED)
    await done(events, 1)
    assert events.counts == {"posted": 1}
    server.answer("POST", path, Answer(201))
    await until(lambda: events.delayed == len(pods))
    await clock.advance(0.5)
    await done(events, len(pods) + 1)
    assert events.counts == {"posted": len(pods) + 1}


@pytest.mark.parametrize("status", [400, 401, 403, 413, 422])
async def test_an_event_that_is_refused_is_not_tried_again(server: Server, events: EventRecorder, status: int) -> None:
    server.answer("POST", NEW, refusal(status, "Reason", "no"))
    events.record(POD, FAILED)
    await done(events, 1)
    assert events.counts == {"failed": 1}


async def test_an_error_that_nobody_expects_costs_one_event(
    server: Server, api: Api, clock: ManualClock, monkeypatch: pytest.MonkeyPatch, gate: WriteGate
) -> None:
    def fail(record: Record, instance: str) -> dict[str, Any]:
        raise KeyError("surprise")

    faults = ErrorLog()
    recorder = EventRecorder(api, clock, "host/1", faults, gate)
    recorder.start()
    pods = crowd("default")
    server.answer("POST", NEW, Answer(201))
    with monkeypatch.context() as patch:
        patch.setattr(events_module, "events_body", fail)
        for pod in pods:
            recorder.record(pod, FAILED)
        await done(recorder, len(pods))
    recorder.record(POD, FAILED)
    await recorder.flush(5)
    assert recorder.counts == {"failed": len(pods), "posted": 1}
    assert faults.counts == {"posting": len(pods)}


async def test_a_first_event_that_was_dropped_is_posted_when_it_happens_again(
    server: Server, api: Api, clock: ManualClock, monkeypatch: pytest.MonkeyPatch, gate: WriteGate
) -> None:
    monkeypatch.setattr(events_module, "WAITING_LIMIT", 1)
    server.answer("POST", NEW, Answer(201))
    recorder = EventRecorder(api, clock, "host/1", ErrorLog(), gate)
    recorder.record(parse_pod(make_pod("other")), FAILED)
    recorder.record(POD, FAILED)
    assert recorder.counts == {"dropped": 1}
    recorder.start()
    await until(lambda: recorder.counts["posted"] == 1)
    recorder.record(POD, FAILED)
    await recorder.flush(5)
    assert [request.body["regarding"]["name"] for request in server.seen("POST")] == ["other", "web"]


@pytest.mark.parametrize(
    ("scheduler", "controller"),
    [("batch", "batch"), ("example.com/batch", "example.com/batch"), ("not a name", "berth"), ("x" * 64, "berth")],
)
async def test_the_pod_s_scheduler_is_who_reports_if_it_may(
    server: Server, events: EventRecorder, scheduler: str, controller: str
) -> None:
    server.answer("POST", NEW, Answer(201))
    events.record(parse_pod(make_pod("web", scheduler=scheduler)), FAILED)
    await done(events, 1)
    assert server.requests[0].body["reportingController"] == controller


async def test_occurrences_soon_after_each_other_are_counted_and_not_written_one_by_one(
    server: Server, events: EventRecorder
) -> None:
    server.answer("POST", NEW, Answer(201))
    events.record(POD, FAILED)
    await done(events, 1)
    server.answer("PATCH", f"{NEW}/{name_of(server)}", Answer())
    for _ in range(5):
        events.record(POD, FAILED)
        await until(lambda: events.statistics()["waiting"] == 0)
    assert [request.body["series"]["count"] for request in server.seen("PATCH")] == [2]
