"""An extender on a socket, which answers as a test tells it to, and a harness whose scheduler asks it.

The service is a real HTTP server that speaks the v1 JSON of kube-scheduler's extenders. What it answers to a verb is a
function of the question; by default it lets everything through, gives no points, and has nothing against a bind.
"""

import asyncio
import copy
import inspect
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, Protocol

from aiohttp import web

from berth.cluster.extenders import HttpExtenders
from berth.model import Node, Pod
from berth.policy.addresses import EVERYWHERE
from berth.scheduler.extenders.extender_calls import ExtenderCalls
from berth.scheduler.extenders.extender_protocol import Asker
from scheduler.harness import Harness
from scheduler.memory_cluster import MemoryCluster
from scheduler.virtual_clock import settle
from support.patience import LIMIT_SECONDS

Body = dict[str, Any]


@dataclass(frozen=True)
class Asked:
    """One question as it arrived."""

    verb: str
    body: Body
    headers: Mapping[str, str]


def names_in(question: Body) -> list[str]:
    """The nodes that a question is about."""
    if question["NodeNames"] is not None:
        return list(question["NodeNames"])
    return [node["metadata"]["name"] for node in question["Nodes"]["items"]]


def let_through(question: Body, *names: str) -> Body:
    """An answer in the form of the question."""
    if question["NodeNames"] is not None:
        return {"NodeNames": list(names)}
    return {"Nodes": {"items": [node for node in question["Nodes"]["items"] if node["metadata"]["name"] in names]}}


Answer = Callable[[Body], Any]


class Service:
    """What was asked, and what is answered, by verb."""

    def __init__(self) -> None:
        self.asked: list[Asked] = []
        self.url = ""
        self._answers: dict[str, Answer] = {
            "filter": lambda question: let_through(question, *names_in(question)),
            "prioritize": lambda question: [],
            "bind": lambda question: {},
        }

    def on(self, verb: str, answer: Answer) -> None:
        self._answers[verb] = answer

    def questions(self, verb: str) -> list[Body]:
        return [asked.body for asked in self.asked if asked.verb == verb]

    async def handle(self, request: web.Request) -> web.StreamResponse:
        verb = request.path.rpartition("/")[2]
        body = await request.json()
        self.asked.append(Asked(verb, body, dict(request.headers)))
        answer = self._answers[verb](body)
        if inspect.isawaitable(answer):
            answer = await answer
        return answer if isinstance(answer, web.StreamResponse) else web.json_response(answer)


@asynccontextmanager
async def serving(**tls: Any) -> AsyncIterator[Service]:
    service = Service()
    app = web.Application(client_max_size=2**26)
    app.router.add_route("*", "/{path:.*}", service.handle)
    runner = web.AppRunner(app, access_log=None, handler_cancellation=True, shutdown_timeout=0)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0, **tls)
    await site.start()
    service.url = f"{'https' if tls else 'http'}://127.0.0.1:{runner.addresses[0][1]}/scheduler"
    try:
        yield service
    finally:
        await runner.cleanup()


class MemoryBodies:
    """Objects in full, as the cluster in memory has them."""

    def __init__(self, cluster: MemoryCluster) -> None:
        self._cluster = cluster

    async def pod(self, pod: Pod) -> object:
        return await self._cluster.read_pod(pod)

    async def nodes(self, nodes: Sequence[Node]) -> Mapping[str, object]:
        kept = self._cluster.objects["Node"]
        return {node.name: copy.deepcopy(kept[node.name]) for node in nodes if node.name in kept}


class ClosableAsker(Asker, Protocol):
    async def close(self) -> None: ...


class ExtendedHarness(Harness):
    """A harness whose policies may have extenders."""

    def __init__(self, *, places: int = 64, asker: ClosableAsker | None = None, **options: Any) -> None:
        """`asker`: in place of HTTP."""
        self.asker: ClosableAsker = asker or HttpExtenders(EVERYWHERE)
        self._places = places
        super().__init__(**options)

    def make_extenders(self) -> ExtenderCalls:
        self.extending = ExtenderCalls(
            cache=self.cache,
            queue=self.queue,
            policies=self.policies,
            asker=self.asker,
            bodies=MemoryBodies(self.cluster),
            clock=self.clock,
            errors=self.errors,
            places=self._places,
        )
        self.policies.on_change(self.extending.follow_policies)
        return self.extending

    async def until(self, condition: Callable[[], object]) -> None:
        """Let watch, scheduler and sockets run until the condition holds."""
        async with asyncio.timeout(LIMIT_SECONDS):
            while not condition():
                self.tell()
                await asyncio.sleep(0)

    async def until_bound(self, name: str) -> str:
        await self.until(lambda: self.cluster.node_of(name))
        return self.cluster.node_of(name)

    async def until_told(self, name: str) -> tuple[str, str]:
        """Reason and message of the condition of a pod in the default namespace."""
        await self.until(lambda: f"pod-default-{name}" in self.cluster.conditions)
        return self.cluster.conditions[f"pod-default-{name}"]

    def failures(self, policy: str) -> dict[str, str]:
        """What is said to have failed under a policy."""
        return {
            failure.source: failure.message
            for failure in self.policies.usage.counts(policy, f"policy-{policy}").failures
        }


@asynccontextmanager
async def running_extended(**options: Any) -> AsyncIterator[ExtendedHarness]:
    harness = ExtendedHarness(**options)
    harness.scheduler.open()
    run = asyncio.ensure_future(harness.scheduler.run())
    try:
        await settle()
        yield harness
    finally:
        stop = asyncio.ensure_future(harness.scheduler.stop())
        await harness.until(stop.done)
        await run
        await harness.asker.close()


def policy_with(
    *extenders: Body, name: str = "extended", scheduler: str = "berth", generation: int = 1, **spec: Any
) -> Body:
    return {
        "apiVersion": "berth.dev/v1alpha1",
        "kind": "SchedulingPolicy",
        "metadata": {"name": name, "uid": f"policy-{name}", "generation": generation},
        "spec": {"schedulerName": scheduler, "extenders": list(extenders), **spec},
    }


def extender_at(service: Service, **fields: Any) -> Body:
    """A filter that keeps nodes itself, unless told otherwise."""
    return {"urlPrefix": service.url, "filterVerb": "filter", "nodeCacheCapable": True, **fields}
