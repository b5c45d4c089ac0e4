"""Reads objects over the port: one, a page, or all of a list, each in the scheduler's loop and in its turn."""

from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import replace
from typing import Any, TypeVar

from berth.explain_api.limits import Limits
from berth.explain_api.port import Body, Detail, Explanations, Found, Wanted
from berth.explain_api.requests import Question
from berth.explain_api.resources import CLUSTER_VIEWS, CURRENT, DECISIONS, EXPLANATIONS, NODE_VIEWS
from berth.explain_api.versions import key_of
from berth.serving.bridge import Bridge

LIMIT_SECONDS = 30.0

Result = TypeVar("Result")


class Reader:
    """Asks the port. Lives in the serving loop; raises BridgeTimeout if the scheduler's loop does not answer."""

    def __init__(self, port: Explanations, bridge: Bridge, limits: Limits) -> None:
        self._port = port
        self._bridge = bridge
        self._limits = limits
        self._one: dict[str, Callable[[str, str, Detail], Awaitable[Body | None]]] = {
            EXPLANATIONS.plural: port.explanation,
            NODE_VIEWS.plural: lambda _, name, __: port.node_view(name),
            CLUSTER_VIEWS.plural: self._cluster_view,
            DECISIONS.plural: lambda namespace, name, _: port.decision(namespace, name),
        }
        self._page: dict[str, Callable[[Wanted], Awaitable[Found]]] = {
            EXPLANATIONS.plural: port.pending,
            NODE_VIEWS.plural: port.node_views,
            CLUSTER_VIEWS.plural: self._cluster_views,
            DECISIONS.plural: port.decisions,
        }

    async def one(self, question: Question) -> Body | None:
        """Returns the object that the question names."""
        read = self._one[question.resource.plural]
        return await self._ask(lambda: read(question.namespace, question.name, question.detail))

    async def page(self, question: Question) -> Found:
        """Returns a page of a list.

        A list that is restricted to one name is answered as if that object had been asked for: `kubectl wait` lists in
        that way, and waits for pods that are pending no more.
        """
        if question.name and (question.namespace or not question.resource.namespaced):
            found = await self.one(question)
            return Found([] if found is None or not _matches(found, question.wanted) else [found])
        read = self._page[question.resource.plural]
        return await self._ask(lambda: read(question.wanted))

    async def everything(self, question: Question) -> list[Body]:
        """Returns all objects of a list, read page by page."""
        found = await self.page(question)
        bodies = list(found.items)
        while found.rest and found.items:
            question = replace(question, wanted=replace(question.wanted, after=key_of(found.items[-1])))
            found = await self.page(question)
            bodies += found.items
        return bodies

    async def _ask(self, read: Callable[[], Awaitable[Result]]) -> Result:
        async def ask() -> Result:
            return await read()

        work: Callable[[], Coroutine[Any, Any, Result]] = ask
        async with self._limits.turn():
            return await self._bridge.run(work, LIMIT_SECONDS)

    async def _cluster_view(self, namespace: str, name: str, detail: Detail) -> Body | None:
        return await self._port.cluster_view() if name == CURRENT else None

    async def _cluster_views(self, wanted: Wanted) -> Found:
        view = await self._port.cluster_view()
        return Found([view] if _matches(view, wanted) and key_of(view) > wanted.after else [])


def _matches(body: Body, wanted: Wanted) -> bool:
    return wanted.labels(body["metadata"].get("labels") or {}) and wanted.fields(body)
