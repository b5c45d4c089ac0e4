"""The kopf shell: every kind is watched, kopf writes nothing and does not give up."""

import asyncio
import itertools
from pathlib import Path
from typing import Any

import kopf
import pytest

from berth.cluster.resources import RESOURCES
from berth.handlers import Backoffs, NotKopfs, configure, connection, register
from berth.model import KINDS
from berth.runtime import Options, Runtime, make_runtime
from berth.runtime.wiring import Components
from cluster.server import write_kubeconfig


class Recorder(Runtime):
    """A runtime that remembers what it was told."""

    def __init__(self, options: Options) -> None:
        super().__init__(Components(options))
        self.told: list[tuple[str, str | None, str]] = []

    def on_event(self, kind: str, type_: str | None, body: Any) -> None:
        self.told.append((kind, type_, body["metadata"]["name"]))


def recorder(tmp_path: Path, cluster: dict[str, Any] | None = None) -> Recorder:
    path = write_kubeconfig(tmp_path, "https://cluster:6443", cluster=cluster)
    return Recorder(Options(kubeconfig=str(path), https_address="", standalone=True))


def watching(registry: kopf.OperatorRegistry) -> dict[str, Any]:
    return {str(handler.id): handler for handler in registry._watching.get_all_handlers()}


def test_every_kind_that_decisions_read_is_watched(tmp_path: Path) -> None:
    registry = kopf.OperatorRegistry()
    register(registry, recorder(tmp_path), owns_runtime=True)
    assert set(watching(registry)) == {kind.name for kind in KINDS} | {"SchedulingPolicy"}
    assert not registry._changing.get_all_handlers()
    assert not registry._spawning.get_all_handlers()


async def test_a_handler_hands_over_what_it_got(tmp_path: Path) -> None:
    registry, runtime = kopf.OperatorRegistry(), recorder(tmp_path)
    register(registry, runtime, owns_runtime=False)
    event = {"type": "ADDED", "object": {"metadata": {"name": "web"}}}
    await watching(registry)["Pod"].fn(event=event, body=None, memo=None)
    assert runtime.told == [("Pod", "ADDED", "web")]


def test_kopf_writes_nothing_and_never_gives_up() -> None:
    settings = kopf.OperatorSettings()
    configure(settings)
    assert settings.posting.enabled is False
    assert settings.peering.standalone is True
    assert settings.scanning.disabled is False
    assert settings.persistence.finalizer != kopf.OperatorSettings().persistence.finalizer
    assert settings.process.ultimate_exiting_timeout is None
    storage = settings.persistence.progress_storage
    patch = kopf.Patch()
    body = kopf.Body({"metadata": {"name": "x", "annotations": {"a": "b"}}})
    storage.touch(body=body, patch=patch, value="now")
    settings.persistence.diffbase_storage.store(body=body, patch=patch, essence={})
    assert not patch


def test_finished_pods_are_not_watched_and_not_counted() -> None:
    settings = kopf.OperatorSettings()
    configure(settings)
    (selector,) = settings.watching.field_selectors.values()
    assert [resource.field_selector for resource in RESOURCES if resource.kind == "Pod"] == [selector]


def test_the_pauses_have_no_end_and_can_be_gone_through_again() -> None:
    backoffs = Backoffs()
    first = list(itertools.islice(backoffs, 1000))
    assert first == list(itertools.islice(backoffs, 1000))
    assert max(first) <= 5


async def test_kopf_logs_in_with_our_credentials_and_takes_them_twice(tmp_path: Path) -> None:
    runtime = recorder(tmp_path, {"insecure-skip-tls-verify": True})
    await runtime.credentials.load()
    first, second = await connection(runtime.credentials, 1), await connection(runtime.credentials, 2)
    assert (first.server, first.scheme, first.token) == ("https://cluster:6443", "Bearer", "secret")
    assert first.insecure is True
    assert first != second


async def test_a_session_that_kopf_never_came_to_use_is_closed_with_the_login(tmp_path: Path) -> None:
    runtime = recorder(tmp_path)
    await runtime.credentials.load()
    login = register(kopf.OperatorRegistry(), runtime, owns_runtime=False)
    session = (await login.log_in()).aiohttp_session
    await login.close()
    assert session.closed


def test_a_login_that_failed_is_tried_again_soon(tmp_path: Path) -> None:
    registry = kopf.OperatorRegistry()
    register(registry, recorder(tmp_path), owns_runtime=False)
    activities = registry._activities.get_all_handlers()
    assert [handler.backoff for handler in activities if str(handler.activity) == "authentication"] == [1.0]


async def test_kopf_leaves_tasks_alone_that_it_did_not_make() -> None:
    task = asyncio.create_task(asyncio.sleep(0))
    tasks = await kopf.spawn_tasks(registry=kopf.OperatorRegistry(), clusterwide=True, standalone=True)
    try:
        assert task in NotKopfs()
        assert not [kopfs for kopfs in tasks if kopfs in NotKopfs()]
    finally:
        for kopfs in tasks:
            kopfs.cancel()
        await asyncio.gather(task, *tasks, return_exceptions=True)


@pytest.mark.parametrize(
    "body", [{}, {"metadata": None}, {"metadata": {"uid": "x"}}, {"metadata": {"uid": 5, "name": {}}}]
)
def test_an_event_that_makes_no_sense_raises_nothing(tmp_path: Path, body: Any) -> None:
    path = write_kubeconfig(tmp_path, "https://cluster:6443")
    runtime = make_runtime(Options(kubeconfig=str(path), https_address="", standalone=True))
    for kind in ("Pod", "Node", "SchedulingPolicy"):
        runtime.on_event(kind, "ADDED", body)
        runtime.on_event(kind, "DELETED", body)
