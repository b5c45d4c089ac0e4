"""The status of a policy goes to its status subresource, and arrives in the end."""

from berth.cluster.api import Api
from berth.cluster.clock import RealClock
from berth.cluster.fence import OpenFence
from berth.cluster.gate import WriteGate
from berth.cluster.statuses import PolicyStatuses
from berth.scheduler.error_log import ErrorLog
from cluster.manual_clock import ManualClock
from cluster.server import Answer, Cut, Server, Silence, until

PATH = "/apis/berth.dev/v1alpha1/schedulingpolicies/default/status"


async def test_a_status_is_patched_and_repeated_until_it_arrives(
    server: Server, api: Api, clock: ManualClock, gate: WriteGate
) -> None:
    server.answer("PATCH", PATH, Cut(), Answer())
    statuses = PolicyStatuses(api, clock, ErrorLog(), gate, OpenFence())
    statuses.start()
    statuses.put({"default": {"observedGeneration": 3}})
    await until(lambda: clock.sleeping == 1)
    await clock.advance(0.5)
    await until(lambda: statuses.statistics()["waiting"] == 0)
    await statuses.stop()
    assert [request.body for request in server.requests] == [{"status": {"observedGeneration": 3}}] * 2
    assert server.requests[0].headers["Content-Type"] == "application/merge-patch+json"


async def test_what_waits_at_the_end_is_written_unless_that_takes_too_long(
    server: Server, api: Api, gate: WriteGate
) -> None:
    server.answer("PATCH", PATH, Answer(), Silence())
    statuses = PolicyStatuses(api, RealClock(), ErrorLog(), gate, OpenFence())
    statuses.start()
    statuses.put({"default": {"placed": 1}})
    await statuses.stop(5.0)
    assert statuses.statistics() == {"waiting": 0, "written": 1}
    statuses.start()
    statuses.put({"default": {"placed": 2}})
    await statuses.stop(0.1)
    assert statuses.statistics()["written"] == 1
