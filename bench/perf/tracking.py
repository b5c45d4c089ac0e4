"""What became of pods and when, as a watch shows it.

Creation and binding are both noted when the watch tells of them, so the time between them is that between two lines of
one stream, with what that stream lags in both.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass

from bench.lean import LeanClient, Object
from control_plane.client import PODS

POLL_SECONDS = 0.1
STALLED_SECONDS = 90.0


class Stalled(Exception):
    """Nothing happens although pods wait."""


@dataclass(slots=True)
class Seen:
    """One pod; times are of the monotonic clock."""

    namespace: str
    labels: Mapping[str, str]
    created: float
    bound: float | None = None
    attempted: bool = False
    deleted: bool = False


class Pods:
    """The pods of the cluster since `start`, by namespace and name; with a field selector, those that it means."""

    def __init__(self, api: LeanClient, field_selector: str = "") -> None:
        self._api = api
        self._selector = {"fieldSelector": field_selector} if field_selector else {}
        self._task: asyncio.Task[None] | None = None
        self._moved = time.monotonic()
        self._pods: dict[str, dict[str, Seen]] = {}
        self.bound_count = 0

    async def start(self) -> None:
        """From here on; pods that are there already are known, and count as bound long ago."""
        version = ""
        query = {"limit": "2000", **self._selector}
        while True:
            answer = await self._api.get(PODS, **query)
            for body in answer["items"]:
                self.see("ADDED", body)
            version = str(answer["metadata"]["resourceVersion"])
            if not (token := answer["metadata"].get("continue")):
                break
            query["continue"] = str(token)
        self._task = asyncio.create_task(self._api.follow(PODS, version, self.see, **self._selector))

    async def stop(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    def see(self, kind: str, body: Object) -> None:
        now = time.monotonic()
        metadata, spec = body["metadata"], body["spec"]
        pods = self._pods.setdefault(metadata["namespace"], {})
        pod = pods.get(metadata["name"])
        if pod is None or (kind == "ADDED" and pod.deleted):
            pod = pods[metadata["name"]] = Seen(metadata["namespace"], {}, now)
        pod.labels = metadata.get("labels") or {}
        if pod.bound is None and spec.get("nodeName"):
            pod.bound = self._moved = now
            self.bound_count += 1
        if kind == "DELETED":
            pod.deleted = True
        elif not pod.attempted:
            conditions = body.get("status", {}).get("conditions", ())
            pod.attempted = any(condition["type"] == "PodScheduled" for condition in conditions)
            if pod.attempted:
                self._moved = now

    def get(self, namespace: str, name: str) -> Seen | None:
        return self._pods.get(namespace, {}).get(name)

    def names(self, namespace: str, labels: Mapping[str, str]) -> list[str]:
        """Those that are there and have the labels."""
        pods = self._pods.get(namespace, {})
        return [name for name, pod in pods.items() if not pod.deleted and matches(pod.labels, labels)]

    def matching(self, namespaces: Collection[str], labels: Mapping[str, str]) -> Iterator[Seen]:
        """Those of these namespaces that have the labels, deleted ones too."""
        for namespace in namespaces:
            yield from (pod for pod in self._pods.get(namespace, {}).values() if matches(pod.labels, labels))

    def count_bound(self, namespace: str, names: Collection[str]) -> int:
        pods = self._pods.get(namespace, {})
        return sum(1 for name in names if (pod := pods.get(name)) is not None and pod.bound is not None)

    async def wait(self, until: Callable[[], bool], what: str, alive: Callable[[], bool]) -> None:
        """Until it is so; raises Stalled when nothing moves any more, or the scheduler has ended."""
        self._moved = time.monotonic()
        while not until():
            if self._task is not None and self._task.done():
                self._task.result()
            if not alive():
                raise Stalled(f"the scheduler ended while waiting for {what}")
            if time.monotonic() - self._moved > STALLED_SECONDS:
                raise Stalled(f"nothing was bound or attempted for {STALLED_SECONDS:.0f} s while waiting for {what}")
            await asyncio.sleep(POLL_SECONDS)


def matches(labels: Mapping[str, str], wanted: Mapping[str, str]) -> bool:
    return all(labels.get(key) == value for key, value in wanted.items())
