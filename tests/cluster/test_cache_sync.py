"""When is a kind synced, what is a ghost, and what did the watch miss."""

import asyncio
from collections.abc import AsyncIterator, Mapping, Set
from typing import Any

import pytest

from berth.cluster.api import Api
from berth.cluster.cache_sync import CacheSync
from berth.cluster.drift import Drift
from berth.cluster.errors import Malformed, OtherCluster, Unreachable
from berth.cluster.identity import ClusterIdentity, SeenCluster
from berth.cluster.listing import WatchedResource, list_metadata
from berth.scheduler.cache.versions import KnownKeys, Register
from berth.scheduler.error_log import ErrorLog
from berth.scheduler.object_events import ObjectEvent, observed
from berth.scheduler.object_events import removed as removed_event
from cluster.manual_clock import ManualClock
from cluster.server import Answer, Cut, Seen, Server, discovered, listed, refusal, until

NODES = WatchedResource("Node", "", "v1", "nodes", namespaced=False)
PODS = WatchedResource("Pod", "", "v1", "pods", namespaced=True, field_selector="status.phase!=Failed")
POLICIES = WatchedResource("Policy", "berth.dev", "v1", "policies", namespaced=False)
NAMESPACES = WatchedResource("Namespace", "", "v1", "namespaces", namespaced=False)


def meta(name: str, namespace: str = "", version: str = "1") -> dict[str, Any]:
    metadata = {"name": name, "uid": f"uid-{name}", "resourceVersion": version}
    return {"metadata": metadata | ({"namespace": namespace} if namespace else {})}


def page(*names: str, kind: str = "Node", token: str = "", namespace: str = "", version: str = "1") -> Answer:
    kind = "Pod" if namespace else kind
    return listed(kind, *(meta(name, namespace, version) for name in names), version="50", token=token)


def found(name: str, namespace: str = "", version: str = "1") -> Answer:
    return Answer(200, {"kind": "Pod" if namespace else "Node", **meta(name, namespace, version)})


def no_such(name: str) -> Answer:
    return refusal(404, "NotFound", "not found", name=name)


class Cache:
    """Known objects, and what the cache sync did to them."""

    def __init__(self) -> None:
        self.registers = {kind: Register() for kind in ("Node", "Pod", "Policy", "Namespace")}
        self.removed: list[tuple[str, str]] = []  # UID and key

    def known(self, kind: str) -> KnownKeys:
        return self.registers[kind].known

    def behind(self, kind: str, versions: Mapping[str, int]) -> list[str]:
        return self.registers[kind].behind(versions)

    def newest(self, kind: str) -> int:
        return self.registers[kind].newest

    def contradicted(self, kind: str, versions: Mapping[str, int], version: int) -> list[str]:
        return self.registers[kind].contradicted(versions, version)

    def unsure(self, kind: str) -> Set[str]:
        return self.registers[kind].unsure

    def observe(self, kind: str, body: Mapping[str, Any]) -> None:
        self.on_event(observed(kind, body))

    def remove(self, kind: str, body: Mapping[str, Any]) -> None:
        self.on_event(removed_event(kind, body))

    def on_event(self, event: ObjectEvent) -> None:
        register, identity = self.registers[event.kind], event.identity
        if event.is_removal:
            register.remove(identity, reported_by_watch=event.reported_by_watch)
            self.removed.append((identity.uid, identity.key))
        elif register.is_news(identity):
            register.record(identity)


class Harness:
    def __init__(self, api: Api, clock: ManualClock) -> None:
        self._api = api
        self._clock = clock
        self.faults = ErrorLog()
        self.cache = Cache()
        self.synced: list[str] = []
        self.others: list[str] = []
        self.rewound: list[str] = []
        self.identity = ClusterIdentity(api, SeenCluster(), on_other=self.others.append, on_rewound=self.rewound.append)

    def start(self, *resources: WatchedResource) -> CacheSync:
        self.sync = CacheSync(
            self._api,
            self._clock,
            self.faults,
            self.cache,
            resources,
            drift=Drift(self._api, self.cache, on_rewound=self.rewound.append),
            identity=self.identity,
            on_synced=lambda: self.synced.append("synced"),
        )
        self.sync.start()
        return self.sync

    def arrive(self, kind: str, name: str, *, listed: bool = True) -> None:
        self.cache.observe(kind, meta(name))
        self.sync.note(kind, f"uid-{name}", listed=listed, removed=False)


@pytest.fixture
async def harness(api: Api, clock: ManualClock) -> AsyncIterator[Harness]:
    harness = Harness(api, clock)
    yield harness
    await harness.sync.stop()


async def test_a_kind_is_synced_when_everything_listed_has_arrived(server: Server, harness: Harness) -> None:
    server.answer("GET", "/api/v1/nodes", page("a", "b"))
    sync = harness.start(NODES)
    await until(lambda: "2 of 2" in sync.sync_state()["Node"])
    harness.arrive("Node", "a")
    assert not sync.synced
    harness.arrive("Node", "b")
    await until(lambda: harness.synced == ["synced"])
    assert sync.sync_state() == {"Node": "ok"}
    assert server.requests[0].headers["Accept"].startswith("application/json;as=PartialObjectMetadataList")


async def test_all_kinds_have_to_be_synced(server: Server, harness: Harness) -> None:
    server.answer("GET", "/api/v1/nodes", page())
    server.answer("GET", "/api/v1/pods", page("x", namespace="default"))
    sync = harness.start(NODES, PODS)
    await until(lambda: sync.sync_state()["Node"] == "ok" and "1 of 1" in sync.sync_state()["Pod"])
    assert harness.synced == []
    harness.arrive("Pod", "x")
    await until(lambda: harness.synced == ["synced"])
    assert server.seen("GET", "pods")[0].query["fieldSelector"] == "status.phase!=Failed"


async def test_an_object_deleted_before_it_arrived_is_not_waited_for(
    server: Server, harness: Harness, clock: ManualClock
) -> None:
    server.answer("GET", "/api/v1/nodes", page("a"), page())
    sync = harness.start(NODES)
    await until(lambda: "1 of 1" in sync.sync_state()["Node"] and clock.sleeping == 1)
    await clock.advance(0.5)
    await until(lambda: harness.synced == ["synced"])


async def test_an_api_that_is_not_served_is_synced_and_looked_at_again(
    server: Server, harness: Harness, clock: ManualClock
) -> None:
    harness.start(POLICIES)
    await until(lambda: harness.synced == ["synced"] and clock.sleeping == 1)
    server.answer("GET", "/apis/berth.dev/v1/policies", page("p", kind="Policy"))
    await clock.advance(300)
    await until(lambda: len(server.requests) >= 2)


@pytest.mark.parametrize("trouble", [refusal(403, "Forbidden", "no permission"), refusal(500, "Internal", "x"), Cut()])
async def test_a_list_that_fails_is_tried_again_for_ever(
    server: Server, harness: Harness, clock: ManualClock, trouble: Any
) -> None:
    server.answer("GET", "/api/v1/nodes", *[trouble] * 8, page())
    sync = harness.start(NODES)
    await until(lambda: "cannot be listed" in sync.sync_state()["Node"])
    while not harness.synced:
        await until(lambda: clock.sleeping == 1)
        await clock.advance(15)


@pytest.mark.parametrize(
    ("trouble", "said"),
    [
        (refusal(403, "Forbidden", 'User "us" cannot list'), '403 Forbidden: User "us" cannot list'),
        (refusal(500, "InternalError", "10.0.0.7:2379 is away"), "500 InternalError"),
        (Cut(), "the API server does not answer"),
    ],
)
async def test_what_a_kind_waits_for_names_no_server_and_a_right_only_where_it_is_missing(
    server: Server, harness: Harness, trouble: Any, said: str
) -> None:
    server.answer("GET", "/api/v1/nodes", trouble)
    sync = harness.start(NODES)
    await until(lambda: sync.sync_state() == {"Node": f"cannot be listed: {said}"})


async def test_what_a_list_lacks_and_the_server_does_not_find_is_removed(server: Server, harness: Harness) -> None:
    server.answer("GET", "/api/v1/namespaces/default/pods/old", no_such("old"))
    harness.cache.observe("Pod", meta("old", "default"))
    harness.start(PODS)
    await until(lambda: harness.synced == ["synced"])
    assert harness.cache.removed == [("uid-old", "default/old")]


async def test_what_arrives_during_the_list_is_no_ghost(server: Server, harness: Harness) -> None:
    def arrive_meanwhile(_: Seen) -> Answer:
        harness.arrive("Node", "new", listed=False)
        return page()

    server.answer("GET", "/api/v1/nodes", arrive_meanwhile)
    harness.start(NODES)
    await until(lambda: harness.synced == ["synced"])
    assert harness.cache.removed == []


async def test_what_is_deleted_during_the_list_is_not_missing(server: Server, harness: Harness) -> None:
    harness.cache.observe("Node", meta("a"))

    def delete_meanwhile(_: Seen) -> Answer:
        harness.cache.remove("Node", meta("a"))
        harness.sync.note("Node", "uid-a", listed=False, removed=True)
        return page("a")

    server.answer("GET", "/api/v1/nodes", delete_meanwhile)
    harness.start(NODES)
    await until(lambda: harness.synced == ["synced"])


async def test_a_relist_has_the_kind_compared_when_it_has_calmed_down(
    server: Server, harness: Harness, clock: ManualClock
) -> None:
    server.answer("GET", "/api/v1/nodes", page("a", "b"), page("a"))
    server.answer("GET", "/api/v1/nodes/b", no_such("b"))
    for name in ("a", "b"):
        harness.cache.observe("Node", meta(name))
    harness.start(NODES)
    await until(lambda: harness.synced == ["synced"] and clock.sleeping == 1)
    harness.arrive("Node", "a", listed=True)
    await until(lambda: clock.sleeping >= 1)
    await clock.advance(2)
    await clock.advance(2)
    await until(lambda: [key for _, key in harness.cache.removed] == ["b"])


async def test_a_change_does_not_have_the_kind_compared(server: Server, harness: Harness, clock: ManualClock) -> None:
    server.answer("GET", "/api/v1/nodes", page("a"))
    harness.cache.observe("Node", meta("a"))
    harness.start(NODES)
    await until(lambda: harness.synced == ["synced"] and clock.sleeping == 1)
    harness.arrive("Node", "a", listed=False)
    await clock.advance(60)
    assert len(server.requests) == 1


async def test_an_object_that_the_watch_never_delivers_is_fetched(
    server: Server, harness: Harness, clock: ManualClock
) -> None:
    server.answer("GET", "/api/v1/pods", page("lost", namespace="default"))
    server.answer("GET", "/api/v1/namespaces/default/pods/lost", Answer(200, meta("lost", "default")))
    sync = harness.start(PODS)
    while not harness.synced:
        await until(lambda: clock.sleeping == 1 or bool(harness.synced))
        await clock.advance(4)
    assert harness.cache.known("Pod") == {"uid-lost": "default/lost"}
    assert sync.statistics()["drift"] == {"Pod": {"missing": 1}}


@pytest.mark.parametrize("arrives", [False, True])
async def test_what_arrives_while_it_is_read_is_no_drift(
    server: Server, harness: Harness, clock: ManualClock, arrives: bool
) -> None:
    def arrive_meanwhile(_: Seen) -> Answer:
        if arrives:
            harness.cache.observe("Node", meta("a", version="3"))
        return Answer(200, meta("a", version="2"))

    server.answer("GET", "/api/v1/nodes", page("a", version="2"))
    server.answer("GET", "/api/v1/nodes/a", arrive_meanwhile)
    harness.cache.observe("Node", meta("a"))
    sync = harness.start(NODES)
    await until(lambda: harness.synced == ["synced"] and clock.sleeping == 1)
    await clock.advance(15)
    await until(lambda: bool(server.seen("GET", "/api/v1/nodes/a")) and clock.sleeping == 1)
    assert sync.statistics()["drift"] == ({} if arrives else {"Node": {"stale": 1}})
    assert harness.cache.newest("Node") == (3 if arrives else 2)


async def test_a_namesake_is_not_taken_for_what_is_read(server: Server, harness: Harness, clock: ManualClock) -> None:
    namesake = {"metadata": {"name": "a", "uid": "another", "resourceVersion": "9"}}
    server.answer("GET", "/api/v1/nodes", page("a", version="2"))
    server.answer("GET", "/api/v1/nodes/a", Answer(200, namesake))
    harness.cache.observe("Node", meta("a"))
    sync = harness.start(NODES)
    await until(lambda: harness.synced == ["synced"] and clock.sleeping == 1)
    await clock.advance(15)
    await until(lambda: bool(server.seen("GET", "/api/v1/nodes/a")) and clock.sleeping == 1)
    assert sync.statistics()["drift"] == {}
    assert harness.cache.known("Node") == {"uid-a": "a"}


async def test_nothing_is_read_while_the_watch_is_listing_the_kind_again(
    server: Server, harness: Harness, clock: ManualClock
) -> None:
    server.answer("GET", "/api/v1/nodes", page("a", "b", version="2"))
    for name in ("a", "b"):
        harness.cache.observe("Node", meta(name))
    sync = harness.start(NODES)
    await until(lambda: harness.synced == ["synced"] and clock.sleeping == 1)
    await clock.advance(14)
    harness.cache.observe("Node", meta("a", version="2"))
    sync.note("Node", "uid-a", listed=True, removed=False)
    await clock.advance(1)
    assert clock.sleeping == 1
    harness.cache.observe("Node", meta("b", version="2"))
    sync.note("Node", "uid-b", listed=True, removed=False)
    for _ in range(3):
        await clock.advance(2)
    assert sync.statistics()["drift"] == {}
    assert not server.seen("GET", "/api/v1/nodes/")


async def test_an_outage_is_not_the_silence_of_the_watch(server: Server, harness: Harness, clock: ManualClock) -> None:
    unavailable = refusal(503, "Unavailable", "starting")
    server.answer("GET", "/api/v1/nodes", *[unavailable] * 6, page("late"))
    sync = harness.start(NODES)
    while "1 of 1" not in sync.sync_state()["Node"]:
        await until(lambda: clock.sleeping == 1)
        await clock.advance(15)
        await until(lambda: clock.sleeping == 1)
    await clock.advance(1)
    await until(lambda: clock.sleeping == 1)
    harness.arrive("Node", "late")
    await until(lambda: harness.synced == ["synced"])
    assert not server.seen("GET", "/api/v1/nodes/late")
    assert sync.statistics()["drift"] == {}


async def test_a_list_comes_in_pages_and_starts_again_when_its_token_expires(server: Server, api: Api) -> None:
    pages = iter([page("a", token="t1"), refusal(410, "Expired", "too old"), page("b", token="t2"), page("c")])
    server.answer("GET", "/api/v1/nodes", lambda _: next(pages))
    listing = await list_metadata(api, NODES)
    assert listing.objects == {"uid-b": "b", "uid-c": "c"}
    assert [request.query.get("continue") for request in server.requests] == [None, "t1", None, "t2"]


@pytest.mark.parametrize("page", [listed("Pod"), listed("Policy"), Answer(200, {}), Answer(200, {"items": []})])
async def test_an_answer_that_is_not_a_list_of_the_kind_is_malformed(server: Server, api: Api, page: Answer) -> None:
    server.answer("GET", "/api/v1/nodes", page)
    with pytest.raises(Malformed):
        await list_metadata(api, NODES)


async def test_an_error_that_nobody_expects_does_not_end_the_sync(
    server: Server, harness: Harness, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(_: str) -> Mapping[str, str]:
        raise KeyError("surprise")

    server.answer("GET", "/api/v1/nodes", page())
    with monkeypatch.context() as patch:
        patch.setattr(harness.cache, "known", fail)
        sync = harness.start(NODES)
        await until(lambda: clock.sleeping == 1)
    assert sync.sync_state() == {"Node": "cannot be synced: KeyError"}
    assert harness.faults.counts == {"counting": 1}
    await clock.advance(15)
    await until(lambda: harness.synced == ["synced"])


async def test_a_beginning_that_failed_is_tried_again_by_the_next_sync(
    server: Server, harness: Harness, clock: ManualClock
) -> None:
    class Reluctant(list[str]):
        def append(self, word: str) -> None:
            if not harness.faults.counts:
                raise KeyError("surprise")
            super().append(word)

    harness.synced = Reluctant()
    server.answer("GET", "/api/v1/nodes", page())
    harness.start(NODES)
    await until(lambda: clock.sleeping == 1)
    await clock.advance(15)
    await until(lambda: harness.synced == ["synced"])


# --- what a new leader asks for ---------------------------------------------------------------------------------------


async def synced(harness: Harness, server: Server, *names: str) -> CacheSync:
    server.answer("GET", "/api/v1/nodes", page(*names))
    sync = harness.start(NODES)
    for name in names:
        harness.arrive("Node", name)
    await until(lambda: sync.synced)
    return sync


async def test_a_cache_is_confirmed_by_a_list_that_is_asked_for_now(server: Server, harness: Harness) -> None:
    sync = await synced(harness, server, "a")
    before = len(server.requests)
    assert await sync.confirm(5)
    assert len(server.requests) > before


async def test_what_the_watch_has_not_shown_is_waited_for_and_not_read(
    server: Server, harness: Harness, clock: ManualClock
) -> None:
    sync = await synced(harness, server, "a")
    server.answer("GET", "/api/v1/nodes", page("a", "b"))
    confirming = asyncio.create_task(sync.confirm(5))
    await until(lambda: clock.sleeping >= 2)
    harness.arrive("Node", "b", listed=False)
    await clock.advance(1)
    assert await confirming
    assert not server.seen("GET", "nodes/b")


async def test_an_older_version_than_the_list_has_is_waited_for_in_vain(
    server: Server, harness: Harness, clock: ManualClock
) -> None:
    sync = await synced(harness, server, "a")
    server.answer("GET", "/api/v1/nodes", page("a", version="7"))
    confirming = asyncio.create_task(sync.confirm(5))
    await until(lambda: clock.sleeping >= 2)
    await clock.advance(6)
    assert await confirming is False


async def test_what_is_deleted_while_a_cache_is_confirmed_is_not_waited_for(
    server: Server, harness: Harness, clock: ManualClock
) -> None:
    sync = await synced(harness, server, "a")
    server.answer("GET", "/api/v1/nodes", page("a", "b"))
    confirming = asyncio.create_task(sync.confirm(5))
    await until(lambda: clock.sleeping >= 2)
    sync.note("Node", "uid-b", listed=False, removed=True)
    await clock.advance(1)
    assert await confirming


async def test_a_server_that_is_away_confirms_nothing(server: Server, harness: Harness) -> None:
    sync = await synced(harness, server, "a")
    server.answer("GET", "/api/v1/nodes", Cut())
    with pytest.raises(Unreachable):
        await sync.confirm(5)


# --- what a list has to prove -----------------------------------------------------------------------------------------


def knows(harness: Harness, *names: str) -> None:
    for name in names:
        harness.cache.observe("Node", meta(name))


def removed(harness: Harness) -> set[str]:
    return {key.rpartition("/")[2] for _, key in harness.cache.removed}


async def test_fewer_than_half_are_removed_by_the_list_alone(server: Server, harness: Harness) -> None:
    server.answer("GET", "/api/v1/nodes", page("a", "b"))
    knows(harness, "a", "b", "c")
    harness.start(NODES)
    await until(lambda: harness.synced == ["synced"])
    assert removed(harness) == {"c"}
    assert len(server.requests) == 1


async def test_half_or_more_are_removed_only_if_the_server_does_not_find_them(server: Server, harness: Harness) -> None:
    server.answer("GET", "/api/v1/nodes", page("a"))
    server.answer("GET", "/api/v1/nodes/b", no_such("b"))
    server.answer("GET", "/api/v1/nodes/c", found("c"))
    knows(harness, "a", "b", "c")
    sync = harness.start(NODES)
    await until(lambda: "lacks objects that are there" in sync.sync_state()["Node"])
    assert harness.cache.removed == []


@pytest.mark.parametrize(
    "answer", [Answer(404, "404 page not found\n"), Answer(200, {}), refusal(500, "x", "y"), Cut()]
)
async def test_an_answer_that_does_not_say_that_an_object_is_gone_removes_nothing(
    server: Server, harness: Harness, answer: Any
) -> None:
    server.answer("GET", "/api/v1/nodes", page())
    server.answer("GET", "/api/v1/nodes/a", answer)
    knows(harness, "a")
    sync = harness.start(NODES)
    await until(lambda: "cannot be listed" in sync.sync_state()["Node"])
    assert harness.cache.removed == []


async def test_a_namesake_proves_that_an_object_is_gone(server: Server, harness: Harness) -> None:
    server.answer("GET", "/api/v1/nodes", page())
    server.answer("GET", "/api/v1/nodes/a", Answer(200, {"kind": "Node", "metadata": {"name": "a", "uid": "another"}}))
    knows(harness, "a")
    harness.start(NODES)
    await until(lambda: removed(harness) == {"a"})


async def test_a_pod_that_the_watch_would_not_show_is_gone_although_it_exists(server: Server, harness: Harness) -> None:
    done = {"kind": "Pod", **meta("a", "default"), "status": {"phase": "Failed"}}
    server.answer("GET", "/api/v1/namespaces/default/pods/a", Answer(200, done))
    harness.cache.observe("Pod", meta("a", "default"))
    harness.start(PODS)
    await until(lambda: removed(harness) == {"a"})


async def test_many_are_removed_if_a_second_list_lacks_them_too_and_some_are_not_found(
    server: Server, harness: Harness
) -> None:
    names = [f"n{number:02}" for number in range(30)]
    server.answer("GET", "/api/v1/nodes", page("n00"), page("n00", "n01"), page("n00", "n01"))
    for name in names:
        server.answer("GET", f"/api/v1/nodes/{name}", no_such(name))
    knows(harness, *names)
    harness.start(NODES)
    await until(lambda: harness.synced == ["synced"])
    assert removed(harness) == set(names[2:])
    assert len(server.seen("GET", "/api/v1/nodes/")) == 8


async def test_one_of_many_that_is_there_is_enough_to_keep_them_all(server: Server, harness: Harness) -> None:
    names = [f"n{number:02}" for number in range(30)]
    server.answer("GET", "/api/v1/nodes", page())
    for name in names:
        server.answer("GET", f"/api/v1/nodes/{name}", found(name))
    knows(harness, *names)
    sync = harness.start(NODES)
    await until(lambda: "lacks objects that are there" in sync.sync_state()["Node"])
    assert harness.cache.removed == []


async def test_what_the_watch_shows_while_its_end_is_proven_is_not_removed(server: Server, harness: Harness) -> None:
    def show_meanwhile(_: Seen) -> Answer:
        harness.arrive("Node", "a", listed=False)
        return no_such("a")

    server.answer("GET", "/api/v1/nodes", page())
    server.answer("GET", "/api/v1/nodes/a", show_meanwhile)
    knows(harness, "a")
    harness.start(NODES)
    await until(lambda: harness.synced == ["synced"])
    assert harness.cache.removed == []


async def test_a_list_of_namespaces_without_kube_system_is_none(server: Server, harness: Harness) -> None:
    system = meta("kube-system")
    server.answer("GET", "/api/v1/namespaces", listed("Namespace", system, meta("a")), listed("Namespace", meta("a")))
    await harness.identity.ask()
    for body in (system, meta("a")):
        harness.cache.observe("Namespace", body)
    sync = harness.start(NAMESPACES)
    await until(lambda: sync.sync_state()["Namespace"] == "cannot be listed: the list of namespaces lacks kube-system")
    assert harness.cache.removed == []


async def test_another_kube_system_is_told_once_and_nothing_is_removed(server: Server, harness: Harness) -> None:
    other = {"metadata": {"name": "kube-system", "uid": "another", "resourceVersion": "7"}}
    server.answer("GET", "/api/v1/namespaces", listed("Namespace", meta("kube-system")), listed("Namespace", other))
    await harness.identity.ask()
    knows(harness, "a")
    sync = harness.start(NODES)
    await until(lambda: sync.sync_state()["Node"] == "cannot be listed: another cluster answers")
    assert harness.cache.removed == []
    assert len(harness.others) == 1
    with pytest.raises(OtherCluster):
        await harness.identity.ask()
    assert len(harness.others) == 1


async def test_a_server_whose_versions_fall_is_told_of_when_it_says_so_twice(server: Server, harness: Harness) -> None:
    def at(version: str) -> Answer:
        return listed("Namespace", meta("kube-system"), version=version)

    server.answer("GET", "/api/v1/namespaces", at("50"), at("40"), at("51"), at("30"), at("30"))
    await harness.identity.ask()
    await harness.identity.ask()
    assert harness.rewound == []
    await harness.identity.ask()
    assert harness.rewound == ["the API server is at version 30, after 51"]
    harness.identity.start_over()
    await harness.identity.ask()
    assert len(harness.rewound) == 1
    harness.start()


# --- whether a kind is served -----------------------------------------------------------------------------------------

SERVED = {"kind": "APIResourceList", "groupVersion": "berth.dev/v1", "resources": [{"name": "policies"}]}
GROUP = {"name": "berth.dev", "versions": [{"version": "v1"}]}


@pytest.mark.parametrize(
    "root",
    [
        Answer(200, SERVED),
        Answer(200, {}),
        Answer(200, "<html></html>"),
        Answer(200, {**SERVED, "kind": "PodList"}),
        Answer(200, {**SERVED, "groupVersion": "other/v1", "resources": []}),
        Answer(200, {**SERVED, "resources": None}),
        Answer(200, {**SERVED, "resources": ["policies"]}),
        refusal(503, "Unavailable", "no"),
        Cut(),
    ],
)
async def test_a_404_is_no_proof_while_discovery_does_not_say_that_the_kind_is_not_served(
    server: Server, harness: Harness, root: Any
) -> None:
    server.answer("GET", "/apis/berth.dev/v1", root)
    sync = harness.start(POLICIES)
    await until(lambda: "cannot be listed" in sync.sync_state()["Policy"])
    assert harness.synced == []


@pytest.mark.parametrize(
    "groups", [Answer(200, {"kind": "APIGroupList", "groups": [GROUP]}), Answer(200, {}), Answer(404, "no"), Cut()]
)
async def test_a_group_that_is_not_found_has_to_be_missing_from_the_list_of_groups(
    server: Server, harness: Harness, groups: Any
) -> None:
    server.answer("GET", "/apis", groups)
    sync = harness.start(POLICIES)
    await until(lambda: "cannot be listed" in sync.sync_state()["Policy"])
    assert harness.synced == []


async def test_a_built_in_kind_is_never_taken_for_one_that_is_not_served(server: Server, harness: Harness) -> None:
    for path in ("/api/v1/nodes", "/api/v1", "/apis"):
        server.answer("GET", path, Answer(404, "404 page not found\n"))
    sync = harness.start(NODES)
    await until(lambda: "cannot be listed" in sync.sync_state()["Node"])


async def test_a_kind_with_objects_is_not_served_if_discovery_says_so_twice(
    server: Server, harness: Harness, clock: ManualClock
) -> None:
    gone, back = discovered(), discovered(POLICIES)
    harness.cache.observe("Policy", meta("p"))
    server.answer("GET", "/apis", gone["/apis"], back["/apis"])
    server.answer("GET", POLICIES.root, Answer(404, "no"), back[POLICIES.root], Answer(404, "no"))
    sync = harness.start(POLICIES)
    await until(lambda: clock.sleeping == 1)
    await clock.advance(15)
    await until(lambda: "served after all" in sync.sync_state()["Policy"])
    assert harness.cache.removed == []
    server.answer("GET", "/apis", gone["/apis"])
    for seconds in (1, 15):
        await until(lambda: clock.sleeping == 1)
        await clock.advance(seconds)
    await until(lambda: removed(harness) == {"p"})


# --- watches that go on -----------------------------------------------------------------------------------------------


async def test_a_watch_that_goes_on_from_the_future_is_told_of(server: Server, harness: Harness) -> None:
    sync = await synced(harness, server, "a")
    opened = [asyncio.create_task(sync.check_watch("Node", version)) for version in (50, 51)]
    await until(lambda: bool(harness.rewound))
    for task in opened:
        task.cancel()
    assert harness.rewound == ["Node: version 50, and the watch goes on from 51"]


async def test_a_list_that_is_older_than_where_the_watch_went_on_from_is_not_believed(
    server: Server, harness: Harness, clock: ManualClock
) -> None:
    sync = await synced(harness, server, "a")
    busy = refusal(503, "Unavailable", "starting")
    server.answer("GET", "/api/v1/nodes", lambda seen: busy if seen.query["limit"] == "1" else page())
    opened = asyncio.create_task(sync.check_watch("Node", 60))
    while not harness.rewound:
        await until(lambda: clock.sleeping >= 1 or bool(harness.rewound))
        await clock.advance(2)
    opened.cancel()
    assert harness.rewound == ["Node: version 50 after 60"]
    assert harness.cache.removed == []


async def test_a_watch_that_is_opened_again_has_its_kind_compared_and_not_each_time(
    server: Server, harness: Harness, clock: ManualClock
) -> None:
    server.answer("GET", "/api/v1/nodes", page("a"))
    harness.cache.observe("Node", meta("a"))
    sync = harness.start(NODES)
    await until(lambda: sync.synced and clock.sleeping == 1)
    opened = [asyncio.create_task(sync.check_watch("Node", 50)) for _ in range(5)]
    await until(lambda: sum(task.done() for task in opened) == 4 and clock.sleeping == 2)
    for _ in range(20):
        await clock.advance(1)
        await until(lambda: clock.sleeping >= 1)
    assert len([request for request in server.requests if request.query["limit"] != "1"]) == 2
    await asyncio.gather(*opened)


async def test_a_new_leader_does_not_go_by_a_list_that_lacks_what_is_there(server: Server, harness: Harness) -> None:
    sync = await synced(harness, server, "a")
    server.answer("GET", "/api/v1/nodes", page())
    server.answer("GET", "/api/v1/nodes/a", found("a"))
    with pytest.raises(Malformed):
        await sync.confirm(5)


async def test_others_get_their_turn_between_two_passes_over_all_objects_of_a_kind(
    server: Server, harness: Harness, monkeypatch: pytest.MonkeyPatch
) -> None:
    server.answer("GET", "/api/v1/nodes", page("a", "b"))
    turns, passes = [0], list[int]()
    for name in ("contradicted", "behind"):
        original = getattr(harness.cache, name)

        def noted(*arguments: Any, original: Any = original) -> Any:
            passes.append(turns[0])
            return original(*arguments)

        monkeypatch.setattr(harness.cache, name, noted)

    async def take_turns() -> None:
        while True:
            turns[0] += 1
            await asyncio.sleep(0)

    others = asyncio.create_task(take_turns())
    harness.start(NODES)
    for name in ("a", "b"):
        harness.arrive("Node", name)
    await until(lambda: len(passes) >= 2)
    assert await harness.sync.confirm(1.0)
    others.cancel()
    assert len(passes) >= 4
    assert len(set(passes)) == len(passes)
