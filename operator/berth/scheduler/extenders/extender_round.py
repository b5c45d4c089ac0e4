"""All extender calls for one pod in one attempt, in kube-scheduler's order.

Each filter gets the nodes that the one before has left. Then all prioritize calls are sent concurrently, for the nodes
that are left in the end; for a single node none is sent. A nominated pod is first tried on its nominated node alone.

An ignorable extender that fails is skipped. A prioritize call that fails costs only its points. Any other failure ends
the round.
"""

import asyncio
from collections import Counter
from collections.abc import Callable, Mapping, Sequence

from berth.engine.extender_result import ExtenderResult, Refusal
from berth.model import Node, Pod
from berth.policy.compile import ActivePolicy
from berth.policy.records import Extender
from berth.scheduler.extenders.extender_protocol import (
    Asker,
    Bodies,
    ExtenderFailed,
    Filtered,
    about_names,
    about_nodes,
    read_filtered,
    read_points,
)

NOBODY = ExtenderResult(frozenset())

Note = Callable[[ActivePolicy, Extender, ExtenderFailed], None]


class ExtenderRound:
    """The calls of one attempt; `nodes` are those that fit, and every failure is passed to `note`."""

    def __init__(
        self,
        active: ActivePolicy,
        pod: Pod,
        extenders: Sequence[Extender],
        nodes: Mapping[str, Node],
        asker: Asker,
        bodies: Bodies,
        note: Note,
    ) -> None:
        self._active = active
        self._pod = pod
        self._extenders = extenders
        self._nodes = nodes
        self._asker = asker
        self._bodies = bodies
        self._note = note
        self._pod_body: object = None
        self._node_bodies: Mapping[str, object] | None = None

    async def ask(self) -> ExtenderResult:
        """Call the extenders about the nodes; raises ExtenderFailed or Unavailable."""
        self._pod_body = await self._bodies.pod(self._pod)
        if self._pod_body is None:
            return NOBODY  # the pod is gone; the watch will report it
        kept = self._pod.nominated_node_name
        if kept in self._nodes and await self._is_let_onto(kept):
            return ExtenderResult(frozenset([kept]))
        filtered = await self._filter(tuple(self._nodes))
        points = await self._prioritize(filtered.allowed) if len(filtered.allowed) > 1 else {}
        return ExtenderResult(frozenset(filtered.allowed), filtered.refused, points)

    async def _is_let_onto(self, node: str) -> bool:
        try:
            return bool((await self._filter((node,))).allowed)
        except ExtenderFailed:
            return False

    async def _filter(self, names: tuple[str, ...]) -> Filtered:
        left, refused = names, dict[str, Refusal]()
        for extender in self._extenders:
            if not extender.filter_verb:
                continue
            if not left:
                break
            try:
                answer = await self._asker.ask(extender, extender.filter_verb, await self._question(extender, left))
                filtered = read_filtered(extender, answer, frozenset(left))
            except ExtenderFailed as error:
                self._note(self._active, extender, error)
                if not extender.ignorable:
                    raise
            else:
                left, refused = filtered.allowed, {**refused, **filtered.refused}
        return Filtered(left, refused)

    async def _prioritize(self, names: Sequence[str]) -> Mapping[str, int]:
        asked = [extender for extender in self._extenders if extender.prioritize_verb]
        points: Counter[str] = Counter()
        for said in await asyncio.gather(*(self._points(extender, names) for extender in asked)):
            points.update(said)
        return points

    async def _points(self, extender: Extender, names: Sequence[str]) -> Mapping[str, int]:
        try:
            question = await self._question(extender, names)
            return read_points(extender, await self._asker.ask(extender, extender.prioritize_verb, question))
        except ExtenderFailed as error:
            self._note(self._active, extender, error)
            return {}

    async def _question(self, extender: Extender, names: Sequence[str]) -> Mapping[str, object]:
        if extender.node_cache_capable:
            return about_names(self._pod_body, names)
        if self._node_bodies is None:
            self._node_bodies = await self._bodies.nodes(list(self._nodes.values()))
        return about_nodes(self._pod_body, [self._node_bodies[name] for name in names if name in self._node_bodies])
