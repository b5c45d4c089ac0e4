"""Extender calls about victims: extenders may drop candidates, or choose other victims.

They are called one after the other, each with the candidates that the one before has left. Their answers contain UIDs,
which are looked up when the answer arrives. A node that was created again meanwhile is no candidate any more, and a
victim of ours that is gone need not be evicted. A victim that was not offered and is not on the node is an error of the
extender.
"""

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from berth.engine.preemption.victims import Candidate, Nomination, cost_of
from berth.engine.state.placed_pods import started
from berth.engine.state.state import State
from berth.model import Pod
from berth.policy.compile import ActivePolicy
from berth.policy.records import Extender
from berth.scheduler.extenders.extender_protocol import (
    Asker,
    Bodies,
    ExtenderFailed,
    Victims,
    about_victim_uids,
    about_victims,
    read_victims,
    shown,
)

Note = Callable[[ActivePolicy, Extender, ExtenderFailed], None]


@dataclass(frozen=True, slots=True)
class _Offer:
    """What was offered to the extenders: the UIDs of the nodes, and every pod that is or may become a victim."""

    nodes: Mapping[str, str]
    pods: dict[str, Pod]


class ExtenderPreemption:
    """Calls extenders about victims."""

    def __init__(self, state: State, asker: Asker, bodies: Bodies, note: Note) -> None:
        self._state = state
        self._asker = asker
        self._bodies = bodies
        self._note = note

    async def narrow(
        self, active: ActivePolicy, extenders: Iterable[Extender], pod: Pod, candidates: Sequence[Candidate]
    ) -> list[Candidate]:
        asked = [extender for extender in extenders if extender.preempt_verb]
        if not asked or not candidates:
            return list(candidates)
        nominations = [candidate.nominate() for candidate in candidates]
        offer = self._offer(nominations)
        victims = {said.node: Victims(tuple(pod.uid for pod in said.victims), said.violations) for said in nominations}
        pod_body = await self._bodies.pod(pod)
        for extender in asked:
            try:
                victims = await self._ask(extender, pod_body, offer, victims)
            except ExtenderFailed as error:
                self._note(active, extender, error)
                if not extender.ignorable:
                    raise
            if not victims:
                break
        return self._candidates(offer, victims)

    def _offer(self, nominations: Iterable[Nomination]) -> _Offer:
        nodes, pods = {}, {}
        for nomination in nominations:
            node = self._state.table.node(nomination.node)
            if node is not None:
                nodes[nomination.node] = node.uid
            pods.update({pod.uid: pod for pod in nomination.victims})
        return _Offer(nodes, pods)

    async def _ask(
        self, extender: Extender, pod_body: object, offer: _Offer, victims: dict[str, Victims]
    ) -> dict[str, Victims]:
        if extender.node_cache_capable:
            question = about_victim_uids(pod_body, victims)
        else:
            question = about_victims(pod_body, victims, (await self._bodies_of(offer, victims)).__getitem__)
        said = read_victims(await self._asker.ask(extender, extender.preempt_verb, question))
        left = {}
        for node, wanted in said.items():
            if not wanted.uids:
                if extender.ignorable:
                    continue
                raise ExtenderFailed(f'expected at least one victim pod on node "{shown(node)}"')
            left[node] = self._found(extender, offer, node, wanted)
        return {node: found for node, found in left.items() if found.uids}

    def _found(self, extender: Extender, offer: _Offer, node: str, wanted: Victims) -> Victims:
        """Those of the victims that exist; adds victims to the offer that were not part of it."""
        if node not in offer.nodes:
            raise ExtenderFailed(
                f'extender: {extender.url_prefix} claims to preempt on node "{shown(node)}", which is unknown'
            )
        there = self._state.table.pods_on(node) if self._is_same(offer, node) else {}
        for uid in wanted.uids:
            if uid not in there and uid not in offer.pods:
                raise ExtenderFailed(
                    f"extender: {extender.url_prefix} claims to preempt pod (UID: {shown(uid)}) on node: {node}, but "
                    "the pod is not found on that node"
                )
        offer.pods.update({uid: there[uid] for uid in wanted.uids if uid in there})
        return Victims(tuple(uid for uid in wanted.uids if uid in there), wanted.violations)

    async def _bodies_of(self, offer: _Offer, victims: Mapping[str, Victims]) -> Mapping[str, object]:
        uids = [uid for said in victims.values() for uid in said.uids]
        bodies = await asyncio.gather(*(self._bodies.pod(offer.pods[uid]) for uid in uids))
        return dict(zip(uids, bodies, strict=True))

    def _is_same(self, offer: _Offer, name: str) -> bool:
        node = self._state.table.node(name)
        return node is not None and node.uid == offer.nodes.get(name)

    def _candidates(self, offer: _Offer, victims: Mapping[str, Victims]) -> list[Candidate]:
        """The candidates on the current cluster."""
        candidates = []
        for node, said in victims.items():
            there = self._state.table.pods_on(node) if self._is_same(offer, node) else {}
            pods = [there[uid] for uid in said.uids if uid in there]
            if pods:
                pods.sort(key=lambda pod: (-pod.priority, started(pod.start_time)))
                cost = cost_of(pods, said.violations)
                candidates.append(Candidate(cost, partial(Nomination, node, tuple(pods), said.violations)))
        return candidates
