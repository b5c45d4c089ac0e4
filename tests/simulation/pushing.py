"""Whom one Berth pushes out, and for whom: invariant 8, at the decision, while it is carried out, and when it is over.

Where no extender has a say, the node and how many victims of which importance are those that the reference would
choose on what is known, with the evictions that are under way taken off what budgets allow. That they are taken off is
looked at by itself: from the decision until it shows that the victim leaves.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import Any

from berth.model import DisruptionBudget, Node, Pod, Record, object_key
from berth.policy.records import Policy
from berth.runtime import Runtime
from reference.engine import refusal, take_survey
from reference.plugin import UNRESOLVABLE
from reference.preemption import guards, importance, preemption
from reference.profile import Profile
from reference.world import World
from simulation.knowledge import Knowledge, Nomination
from simulation.network import Request
from simulation.policies import allows
from simulation.trace import Trace

BUDGET = "PodDisruptionBudget"


class Pushing:
    """Of one process. `newest` gives a pod as it is known, `profile` what the reference sees of who decides."""

    def __init__(
        self,
        name: str,
        runtime: Runtime,
        knowledge: Knowledge,
        trace: Trace,
        newest: Callable[[Pod], Pod],
        profile: Callable[[], Profile],
    ) -> None:
        self.counts: Counter[str] = Counter()
        self._name = name
        self._knowledge = knowledge
        self._trace = trace
        self._newest = newest
        self._profile = profile
        self._loop = runtime.components.loop
        self._state = runtime.components.cache.state
        self._victims: dict[str, dict[str, str]] = {}  # by UID: the UIDs that it has to go for, and the node of each
        self._guarded: dict[str, list[str]] = {}  # victims that go: the keys of the budgets that they count against

    # --- the decision ------------------------------------------------------------------------------------------------

    def before_preempt(self, _: object, pod: Pod, active: Any, __: object, nomination: Any) -> None:
        """On what is known at this moment; and the nomination counts from now on."""
        preemptor, node = self._newest(pod), nomination.node
        victims = [self._newest(victim) for victim in nomination.victims]
        names = ", ".join(victim.key for victim in victims)
        said = f"{self._name} pushes {names} out of {node} for {pod.key}"
        self._trace.note(said, pod.key, pod.uid, node, *(victim.key for victim in victims))
        for victim in victims:
            if victim.priority >= preemptor.priority:
                self._trace.violate("8 victims", f"{victim.key} is as important as {pod.key}", pod.key, victim.key)
            self._victims.setdefault(victim.uid, {})[pod.uid] = node
        self._check_counted()
        self._check_not_for_nothing(preemptor, node, victims)
        if not active.policy.extenders:
            self._check_chosen(preemptor, active.policy, nomination, victims)
        if self._knowledge.nominated_to(preemptor) != node:
            self._knowledge.nominations[pod.uid] = Nomination(-1, node)

    def after_preempt(self, _: object, __: object, pod: Pod, ___: object, ____: object, nomination: Any) -> None:
        """Whoever is less important waits for this node no more, and the victims count against their budgets."""
        self._check_alone(self._newest(pod), nomination.node)
        leaving = self._loop.evicting.victims
        for victim in nomination.victims:
            if victim.uid in leaving:
                budgets = self._knowledge.world().objects.get(BUDGET, {})
                self._guarded[victim.uid] = [key for key, one in budgets.items() if _guards(one, victim)]
        self._check_counted()

    def _check_not_for_nothing(self, pod: Pod, node: str, victims: list[Pod]) -> None:
        """With all victims gone the pod fits; with one of them still there it does not."""
        world = self._knowledge.world(without=pod.uid)
        asked = take_survey(world, self._profile(), pod).asked
        target = world.nodes[node]
        emptied = world.without_pods(victims)
        if (why := refusal(emptied, asked, pod, target)) is not None:
            said = f"{pod.key} does not fit on {node} without its victims: {why}"
            self._trace.violate("8 victims", said, pod.key, node)
        for victim in victims:
            if refusal(emptied.with_pods([victim], node), asked, pod, target) is None:
                self._trace.violate("8 victims", f"{victim.key} need not go for {pod.key}", pod.key, victim.key, node)

    def _check_chosen(self, pod: Pod, policy: Policy, nomination: Any, victims: list[Pod]) -> None:
        """The reference would choose this node, or one as good, and victims as important."""
        world = self._counted_world(pod)
        if any(_are_alike(world.pods_on(name), pod) for name in world.nodes):
            return  # which of two as important pods has to go is anybody's choice, and others may depend on it
        self.counts["preemptions compared with the reference"] += 1
        pod = replace(pod, nominated_node_name=self._knowledge.nominated_to(pod))
        wanted = _choice(world, self._profile(), policy, pod)
        said = wanted["candidates"].get(nomination.node)
        if nomination.node not in wanted["selected"] or said is None:
            told = f"{pod.key} pushes pods out of {nomination.node}, and the reference would do so at {wanted}"
            self._trace.violate("8 victims", told, pod.key, nomination.node, *wanted["selected"])
            return
        chosen = sorted(map(importance, victims))
        keys = {victim.key: victim for victim, _ in self._knowledge.world().pods}
        if sorted(importance(keys[key]) for key in said["victims"]) != chosen:
            told = f"{pod.key} pushes out {[victim.key for victim in victims]}, and the reference {said['victims']}"
            self._trace.violate("8 victims", told, pod.key, nomination.node)
        if said["pdbViolations"] != nomination.violations:
            told = f"{nomination.violations} budgets are violated for {pod.key}, by the reference {said}"
            self._trace.violate("8 victims", told, pod.key, nomination.node)
        if any(one["pdbViolations"] for one in wanted["candidates"].values()):
            self.counts["preemptions in which a budget had a say"] += 1

    def _counted_world(self, pod: Pod) -> World:
        """As known, with our own evictions taken off what budgets allow."""
        world = self._knowledge.world(without=pod.uid)
        budgets: dict[str, Record] = {}
        for key, budget in world.objects.get(BUDGET, {}).items():
            assert isinstance(budget, DisruptionBudget)
            going = self._state.disrupting.get(key, set())
            bodies = [body for uid in going if (body := self._knowledge.pod(uid)) is not None]
            names = frozenset(body["metadata"]["name"] for body in bodies)
            allowed = budget.disruptions_allowed - len(going)
            gone = budget.disrupted_pods | names
            budgets[key] = replace(budget, disruptions_allowed=allowed, disrupted_pods=gone)
        return World(world.nodes, world.pods, world.nominated, {**world.objects, BUDGET: budgets})

    def _check_alone(self, pod: Pod, node: str) -> None:
        for uid, body in self._knowledge.objects.get("Pod", {}).items():
            other = self._knowledge.parse("Pod", body)
            if not isinstance(other, Pod) or other.priority >= pod.priority or not self._knowledge.wanted(uid):
                continue
            if self._knowledge.nominated_to(other) == node:
                said = f"{other.key} still waits for {node}, which is made free for {pod.key}"
                self._trace.violate("8 victims", said, other.key, pod.key, node)

    def _check_counted(self) -> None:
        """Who is to go and does not show it yet is taken off what his budgets allow."""
        leaving = self._loop.evicting.victims
        for uid, keys in list(self._guarded.items()):
            body = self._knowledge.pod(uid)
            if uid not in leaving or body is None or body["metadata"].get("deletionTimestamp"):
                del self._guarded[uid]
                continue
            if not body["spec"].get("nodeName"):
                continue  # no budget has ever counted it
            for key in keys:
                if uid not in self._state.disrupting.get(key, ()):
                    name = object_key(body)
                    said = f"{name} is preempted, and does not count against budget {key}"
                    self._trace.violate("8 victims", said, name, uid, key)

    # --- what is carried out -----------------------------------------------------------------------------------------

    def on_delete(self, moment: str, request: Request, uid: str) -> None:
        """A pod is deleted: one that was chosen, for a pod that still waits for the node."""
        *_, namespace, _, name = request.path.split("/")
        key = f"{namespace}/{name}"
        self._trace.note(f"{self._name} delete of {key} ({uid[:8]}): {moment} {request.fault}", key, uid)
        if uid not in self._victims:
            self._trace.violate("8 victims", f"{key} ({uid[:8]}) is deleted, and was never chosen", key, uid)
        elif moment == "sent" and not any(self._waits_for(*wait) for wait in self._victims[uid].items()):
            self._trace.violate(
                "8 victims", f"{key} is deleted, and nobody waits for its room", key, *self._victims[uid]
            )
        if moment == "sent" and uid in {waiting.pod.uid for waiting in self._loop.binding_cycle.waiting}:
            said = f"{key} is deleted, and could be turned away: it waits for its permit"
            self._trace.violate("8 victims", said, key, uid)

    def _waits_for(self, uid: str, node: str) -> bool:
        body = self._knowledge.pod(uid)
        pod = None if body is None else self._knowledge.parse("Pod", body)
        return isinstance(pod, Pod) and self._knowledge.wanted(uid) and self._knowledge.nominated_to(pod) == node

    def after_end(self, _: object, push: Any) -> None:
        """The evictions are over: who is nobody's victim any more waits for nothing but his turn."""
        there = self._state.table.pods_on(push.node)
        if not push.is_done or any(victim.uid in there for victim in push.victims):
            return
        item = push.item
        if not self._waits_for(item.uid, push.node):
            return  # it was tried again meanwhile, and is unschedulable for what was found then
        part = self._loop.queue.part_of(item.uid)
        if part is not None and part.value == "unschedulable":
            said = f"{item.pod.key} is unschedulable, and nobody is left whom it pushes out of {push.node}"
            self._trace.violate("10 liveness", said, item.pod.key, item.uid, push.node)


def _choice(world: World, profile: Profile, policy: Policy, pod: Pod) -> Mapping[str, Any]:
    survey = take_survey(world, profile, pod)
    let = {name for name, node in world.nodes.items() if allows(policy, node)}
    codes = {name: survey.code(name) if name in let else UNRESOLVABLE for name in world.nodes}

    def fits(imagined: World, node: Node) -> bool:
        return refusal(imagined, survey.asked, pod, node) is None

    return preemption(world, pod, codes, fits)


def _are_alike(pods: Iterable[Pod], preemptor: Pod) -> bool:
    """Whether some of the pods that could be preempted are as important as each other."""
    ranks = [importance(pod) for pod in pods if pod.priority < preemptor.priority]
    return len(set(ranks)) < len(ranks)


def _guards(budget: Record, pod: Pod) -> bool:
    return isinstance(budget, DisruptionBudget) and guards(budget, pod)
