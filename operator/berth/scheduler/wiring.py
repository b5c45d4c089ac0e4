"""Wiring of the scheduling loop: every component is built here, top to bottom, and gets all that it needs at once.

No component refers to one that is built after it. Two pairs need each other, and are wired without a cycle:

- Preemption ends the binding cycle of a victim, and the binding cycle withdraws nominations: the `Nominator` is a
  component of its own, built before both.
- The scheduling cycle starts calls to extenders, and their results continue it: the cycle passes itself with each call
  (`ExtenderPort.start`).
"""

from berth.policy.policy_store import PolicyStore
from berth.scheduler.binding.bind_confirmations import BindConfirmations
from berth.scheduler.binding.binding import BackgroundBinder
from berth.scheduler.binding.binding_cycle import BindingCycle
from berth.scheduler.binding.unconfirmed_binds import UnconfirmedBinds
from berth.scheduler.binding.volumes import VolumeBinder
from berth.scheduler.cache.cache import Cache
from berth.scheduler.cycle import Cycle
from berth.scheduler.decision_memory import MOST_DECISIONS, DecisionMemory
from berth.scheduler.error_log import ErrorLog
from berth.scheduler.event_intake import EventIntake
from berth.scheduler.measures import Measures
from berth.scheduler.object_events import EventListener
from berth.scheduler.ports import Clock, Cluster, ExtenderPort, Random
from berth.scheduler.preemption.disruptions import Disruptions
from berth.scheduler.preemption.evicting import Evicting
from berth.scheduler.preemption.nominating import Nominator
from berth.scheduler.preemption.preempting import Preempting
from berth.scheduler.queue.queue import Queue
from berth.scheduler.reporting import Reporter
from berth.scheduler.shadow import Shadows
from berth.scheduler.unserved_names import UnservedNames

BIND_LIMIT = 64


class LoopComponents:
    """The components of the scheduling loop, on these ports; none is replaced later."""

    def __init__(
        self,
        *,
        cache: Cache,
        queue: Queue,
        policies: PolicyStore,
        cluster: Cluster,
        clock: Clock,
        random: Random,
        errors: ErrorLog,
        unconfirmed: UnconfirmedBinds,
        extenders: ExtenderPort | None = None,
        bind_limit: int = BIND_LIMIT,
        expectation: bool = True,
        remembered_decisions: int = MOST_DECISIONS,
    ) -> None:
        """`expectation`: while a pod waits for Permit or its volumes, `status.nominatedNodeName` names its node."""
        usage = policies.usage
        self.cache = cache
        self.queue = queue
        self.policies = policies
        self.clock = clock
        self.errors = errors
        self.extenders = extenders
        self.measures = Measures(clock)
        self.decision_memory = DecisionMemory(remembered_decisions)
        reporter = Reporter(cluster, errors)
        self.intake = EventIntake(cache, queue, policies, reporter)
        policies.on_deciders(self.intake.follow_policies)
        self.unserved_names = UnservedNames(cache, queue, policies, reporter, clock)
        self.nominator = Nominator(cache, queue, policies, cluster, errors, expectation=expectation)
        self.confirmations = BindConfirmations(unconfirmed, cache, self.intake, cluster, clock, errors)
        self.volumes = VolumeBinder(cache=cache, queue=queue, cluster=cluster, clock=clock)
        self.binder = BackgroundBinder(
            cache=cache,
            intake=self.intake,
            unconfirmed=unconfirmed,
            nominator=self.nominator,
            cluster=cluster,
            clock=clock,
            reporter=reporter,
            usage=usage,
            errors=errors,
            measures=self.measures,
            limit=bind_limit,
        )
        self.binding_cycle = BindingCycle(
            cache=cache,
            queue=queue,
            intake=self.intake,
            volumes=self.volumes,
            binder=self.binder,
            nominator=self.nominator,
            clock=clock,
            reporter=reporter,
            usage=usage,
            errors=errors,
            measures=self.measures,
        )
        self.disruptions = Disruptions(cache.state, clock)
        self.evicting = Evicting(
            cache=cache,
            queue=queue,
            intake=self.intake,
            nominator=self.nominator,
            disruptions=self.disruptions,
            cluster=cluster,
            clock=clock,
            reporter=reporter,
            usage=usage,
            errors=errors,
            give_up=self.binding_cycle.give_up,
        )
        self.preempting = Preempting(
            cache=cache,
            queue=queue,
            intake=self.intake,
            nominator=self.nominator,
            evicting=self.evicting,
            disruptions=self.disruptions,
            extenders=extenders,
            usage=usage,
            random=random,
            reporter=reporter,
            errors=errors,
        )
        self.shadows = Shadows(policies=policies, cache=cache, queue=queue, clock=clock, errors=errors)
        self.cycle = Cycle(
            cache=cache,
            queue=queue,
            policies=policies,
            intake=self.intake,
            binding_cycle=self.binding_cycle,
            preempting=self.preempting,
            nominator=self.nominator,
            extenders=extenders,
            shadows=self.shadows,
            reporter=reporter,
            errors=errors,
            measures=self.measures,
            decision_memory=self.decision_memory,
            clock=clock,
            random=random,
        )

    def listeners(self) -> tuple[EventListener, ...]:
        """Those that hear of changed objects, in this order: the intake updates cache and queue first."""
        return (
            self.intake,
            self.unserved_names,
            self.binding_cycle,
            self.confirmations,
            self.disruptions,
            self.evicting,
            self.preempting,
            *(() if self.extenders is None else (self.extenders,)),
            self.nominator,
            self.volumes,
            self.shadows,
        )
