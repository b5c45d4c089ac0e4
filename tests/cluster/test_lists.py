"""What is no list of a kind removes nothing of it, and what a list lacks has to be gone before it is removed."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest
from aiohttp import web

from berth.cluster.resources import RESOURCES
from berth.scheduler.object_events import observed, removed
from berth.sim.resources import CRDS, NAMESPACES, PODS
from berth.sim.server import SimServer
from berth.sim.server.encoding import metadata_list
from berth.sim.store import Store
from cluster.harness import GRACE, REGULAR, Harness
from cluster.server import until
from policy.builders import make_policy
from support.builders import Body, make_node, make_object, make_pod

Lie = Callable[[Body], web.Response]

NAMES = ("one", "two")
PLURALS = {resource.kind: resource.plural for resource in RESOURCES}


class LyingServer(SimServer):
    """The embedded API server behind a proxy that answers lists of metadata otherwise, by the kind's plural."""

    def __init__(self, store: Store) -> None:
        super().__init__(store)
        self.lies: dict[str, Lie] = {}
        self.told = 0

    async def handle(self, request: web.BaseRequest) -> web.StreamResponse:
        lie = self.lies.get(request.path.rpartition("/")[2])
        is_list = "as=PartialObjectMetadataList" in request.headers.get("Accept", "")
        if lie is None or not is_list or "kube-system" in request.query_string:
            return await super().handle(request)
        self.told += 1
        return lie({**self._truth(request), "continue": request.query.get("continue", "")})

    def _truth(self, request: web.BaseRequest) -> Body:
        plural, fields = request.path.rpartition("/")[2], request.query.get("fieldSelector", "")
        resource = next(each for each in self.store.resources() if each.plural == plural)
        return dict(json.loads(metadata_list(self.store.list(resource, field_selector=fields))))


def sent(body: object, status: int = 200) -> web.Response:
    return web.json_response(body, status=status)


def page_not_found(_: Body) -> web.Response:
    return web.Response(status=404, text="404 page not found\n")


def not_found(_: Body) -> web.Response:
    return sent({"kind": "Status", "status": "Failure", "code": 404, "reason": "NotFound", "details": {}}, 404)


def html(_: Body) -> web.Response:
    return web.Response(text="<html><body>Back in a minute.</body></html>", content_type="text/html")


def truncated(page: Body) -> web.Response:
    raw = json.dumps(page).encode()
    return web.Response(body=raw[: len(raw) // 2], content_type="application/json")


def broken_off(page: Body) -> web.Response:
    raw = json.dumps(page).encode()
    answer = web.Response(body=raw[: len(raw) // 2], headers={"Content-Length": str(len(raw))})
    answer.force_close()
    return answer


def first_half(page: Body) -> web.Response:
    """The first page is right; the second one vanishes, as a load balancer changes its mind."""
    if page.pop("continue"):
        return page_not_found(page)
    return sent({**page, "items": page["items"][:1], "metadata": {**page["metadata"], "continue": "more"}})


def later_half(page: Body) -> web.Response:
    """The second page is of another time, and empty."""
    if page.pop("continue"):
        version = str(int(page["metadata"]["resourceVersion"]) + 1)
        return sent({**page, "items": [], "metadata": {"resourceVersion": version}})
    return sent({**page, "items": page["items"][:1], "metadata": {**page["metadata"], "continue": "more"}})


LIES: dict[str, Lie] = {
    "404 of a proxy": page_not_found,
    "404 of a server": not_found,
    "200 with HTML": html,
    "truncated": truncated,
    "broken off": broken_off,
    "half a list": first_half,
    "another half": later_half,
    "{}": lambda _: sent({}),
    "null": lambda _: sent(None),
    "a Status": lambda _: sent({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success"}),
    "no kind": lambda page: sent({"metadata": page["metadata"], "items": []}),
    "another kind": lambda page: sent({**page, "kind": "SecretList", "apiVersion": "v1", "items": []}),
    "another version": lambda page: sent({**page, "apiVersion": "v0", "items": []}),
    "no resourceVersion": lambda page: sent({**page, "metadata": {}, "items": []}),
    "no items": lambda page: sent({key: page[key] for key in ("kind", "apiVersion", "metadata")}),
    "items without UIDs": lambda page: sent({**page, "items": [{"metadata": {"name": "one"}}]}),
    "items that are none": lambda page: sent({**page, "items": ["one", None]}),
    "an empty list": lambda page: sent({**page, "items": []}),
    "strangers": lambda page: sent({**page, "items": [{"metadata": {"name": "x", "namespace": "y", "uid": "z"}}]}),
}


def bodies_of(name: str) -> list[Body]:
    """One object of every kind that is watched."""
    selector = {"matchLabels": {"app": name}}
    template = {"metadata": {"labels": {"app": name}}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
    capacity = {"capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"], "hostPath": {"path": "/"}}
    claim = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
    others: list[tuple[str, str, str, Body]] = [
        ("Namespace", "v1", "", {}),
        ("PersistentVolumeClaim", "v1", "default", {"spec": claim}),
        ("PersistentVolume", "v1", "", {"spec": capacity}),
        ("StorageClass", "storage.k8s.io/v1", "", {"provisioner": "p"}),
        ("CSINode", "storage.k8s.io/v1", "", {"spec": {"drivers": []}}),
        ("CSIDriver", "storage.k8s.io/v1", "", {"spec": {}}),
        ("CSIStorageCapacity", "storage.k8s.io/v1", "default", {"storageClassName": "s"}),
        ("PodDisruptionBudget", "policy/v1", "default", {"spec": {"selector": selector, "minAvailable": 1}}),
        ("Service", "v1", "default", {"spec": {"selector": {"app": name}, "ports": [{"port": 80}]}}),
        ("ReplicationController", "v1", "default", {"spec": {"selector": {"app": name}, "template": template}}),
        ("ReplicaSet", "apps/v1", "default", {"spec": {"selector": selector, "template": template}}),
        ("StatefulSet", "apps/v1", "default", {"spec": {"selector": selector, "template": template}}),
    ]
    made = [
        {**make_object(kind, name, namespace=namespace, **body), "apiVersion": version}
        for kind, version, namespace, body in others
    ]
    return [make_node(name), make_pod(name, scheduler="other"), *made, make_policy(name, schedulerName=name)]


class Liar(Harness):
    server: LyingServer

    def __init__(self, folder: Path) -> None:
        super().__init__(folder, LyingServer)

    def known(self, kind: str) -> set[str]:
        return set(self.runtime.components.fanout.known(kind))

    async def compare(self, kind: str, seconds: float = 3) -> None:
        """A comparison is wanted, and as much time passes as it takes."""
        self.runtime.components.cache_sync.want(kind)
        await self.pass_time(seconds)

    async def delete_silently(self, kind: str, name: str) -> None:
        resource = next(each for each in self.store.resources() if each.plural == PLURALS[kind])
        namespace = "default" if resource.namespaced else ""
        left, is_gone = self.store.delete(resource, namespace, name, grace_period_seconds=0, propagation="Background")
        if "finalizers" in left["metadata"] and not is_gone:  # which controllers take away
            self.store.patch(resource, namespace, name, {"metadata": {"finalizers": None}}, "merge")
        elif resource is NAMESPACES:
            self.store.replace(
                resource, "", name, {**self.store.get(resource, "", name), "spec": {}}, subresource="finalize"
            )


@pytest.fixture
async def harness(tmp_path: Path) -> AsyncIterator[Liar]:
    harness = Liar(tmp_path)
    for name in NAMES:
        for body in bodies_of(name):
            harness.make(body)
    harness.bind("one", "one")
    await harness.start()
    await harness.pass_time(1)
    harness.relist()  # with the statuses of the policies, which have been written now
    await harness.pass_time(8)
    yield harness
    await harness.stop()


@pytest.mark.parametrize("kind", PLURALS)
async def test_whatever_is_answered_instead_of_a_list_removes_nothing_of_any_kind(harness: Liar, kind: str) -> None:
    before = harness.known(kind)
    assert len(before) >= len(NAMES)
    for what, lie in LIES.items():
        harness.server.lies[PLURALS[kind]], told = lie, harness.server.told
        await harness.compare(kind, 2)
        assert harness.server.told > told, what
        assert harness.known(kind) == before, what
        harness.server.lies.clear()
        await harness.compare(kind, 4)
        assert harness.known(kind) == before, what
    assert harness.runtime.readiness().is_ready
    assert not any({"ghost", "rewound"} & set(counts) for counts in harness.drift().values())


@pytest.mark.parametrize("kind", PLURALS)
async def test_what_is_really_gone_is_removed_of_every_kind(harness: Liar, kind: str) -> None:
    await harness.delete_silently(kind, "two")
    await harness.compare(kind)
    assert "two" not in {key.rpartition("/")[2] for key in harness.runtime.components.fanout.known(kind).values()}
    assert "one" in {key.rpartition("/")[2] for key in harness.runtime.components.fanout.known(kind).values()}


@pytest.mark.parametrize("kind", PLURALS)
async def test_what_was_shown_under_a_name_that_no_object_can_have_is_removed(harness: Liar, kind: str) -> None:
    """Nobody can be asked for it by its path, and the rest of the kind must not stay uncompared for that."""
    before = harness.known(kind)
    template = next(body for body in bodies_of("odd") if body["kind"] == kind)
    for number, names in enumerate(({"name": "no-namespace"}, {"name": "a/b", "namespace": "x"}, {"name": "\u2603"})):
        for each in range(3):
            uid = f"odd-{number}-{each}"
            harness.tell({**template, "metadata": {**names, "uid": uid, "resourceVersion": "1"}}, "ADDED")
    await harness.compare(kind, 8)
    assert harness.known(kind) == before
    assert harness.runtime.statistics()["faults"] == {}


async def test_a_kind_whose_definition_was_deleted_ends_up_empty(harness: Liar) -> None:
    harness.store.delete(CRDS, "", "schedulingpolicies.berth.dev")
    await harness.compare("SchedulingPolicy", 10)
    assert len(harness.known("SchedulingPolicy")) == 2  # a server that has just started may not know it yet
    await harness.pass_time(GRACE)
    assert harness.known("SchedulingPolicy") == set()
    assert harness.runtime.readiness().is_ready


async def test_a_list_that_is_wrong_at_the_start_does_not_let_decisions_begin(tmp_path: Path) -> None:
    harness = Liar(tmp_path)
    harness.make(make_node("a", cpu="1"))
    harness.make(make_pod("old", scheduler="other", cpu="1"))
    harness.bind("old", "a")
    wrong = iter([LIES["an empty list"]])
    harness.server.lies["pods"] = lambda page: next(wrong, sent)(page)
    await harness.server.start()
    harness.server.write_kubeconfig(harness._kubeconfig)
    harness.begin()
    await harness.runtime.start()
    harness.relist(but="Pod")
    await harness.pass_time(1)
    assert not harness.runtime.readiness().is_ready
    harness.relist()
    await harness.pass_time(1)
    assert harness.runtime.readiness().is_ready
    await harness.stop()


async def test_what_was_removed_by_mistake_is_believed_when_the_watch_shows_it_again(harness: Liar) -> None:
    body = harness.store.get(PODS, "default", "one")
    harness.runtime.components.fanout.on_event(removed("Pod", body, reported_by_watch=False))
    assert harness.on("one") == []
    harness.tell(body)
    assert harness.on("one") == ["one"]


async def test_what_was_removed_by_mistake_is_found_and_read_by_the_next_comparison(harness: Liar) -> None:
    one = harness.store.get(PODS, "default", "one")
    harness.runtime.components.fanout.on_event(removed("Pod", one, reported_by_watch=False))
    await harness.pass_time(REGULAR + 2 * GRACE)
    assert harness.on("one") == ["one"]
    assert harness.drift()["Pod"] == {"missing": 1}


async def test_a_late_report_after_a_deletion_that_was_told_changes_nothing(harness: Liar) -> None:
    body = harness.store.get(PODS, "default", "one")
    await harness.delete_silently("Pod", "one")
    harness.tell(body, "DELETED")
    harness.tell(body)
    assert harness.on("one") == []


# --- another cluster -------------------------------------------------------------------------------------------------


async def test_a_cluster_with_another_kube_system_is_refused_and_nothing_is_removed(
    harness: Liar, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    before = {kind: harness.known(kind) for kind in PLURALS}
    harness.server.store = Store(harness.clock.wall, seed=99)
    harness.tell(harness.make(make_pod("waits", scheduler="other")), "ADDED")
    harness.runtime.components.cache_sync.want()
    await harness.pass_time(30)
    before["Pod"] = harness.known("Pod")
    assert len(before["Pod"]) == 3
    assert {kind: harness.known(kind) for kind in PLURALS} == before
    readiness = harness.runtime.readiness()
    assert not readiness.is_ready
    assert "[-]cluster failed: another cluster answers" in readiness.text(verbose=True)
    said = [record.message for record in caplog.records if record.levelname == "CRITICAL"]
    assert len(said) == 1
    assert "namespace kube-system has UID" in said[0]


async def test_nothing_is_written_to_another_cluster(harness: Liar) -> None:
    other = Store(harness.clock.wall, seed=99)
    harness.tell({**other.get(NAMESPACES, "", "kube-system"), "kind": "Namespace"}, "MODIFIED")
    assert harness.runtime.components.incidents.other_cluster.is_set()
    await harness.pass_time(1)  # what was on its way
    writes = harness.server.statistics()
    pod = harness.make(make_pod("mine"))
    harness.tell(pod, "ADDED")
    harness.runtime.components.scheduler.on_event(observed("Pod", pod))
    await harness.pass_time(5)
    after = harness.server.statistics()
    assert not harness.store.get(PODS, "default", "mine")["spec"].get("nodeName")
    assert {verb: after.get(verb) for verb in ("create", "patch", "delete")} == {
        verb: writes.get(verb) for verb in ("create", "patch", "delete")
    }
    await until(lambda: not harness.runtime.components.cache_sync.is_running)
