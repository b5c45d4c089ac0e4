"""The composition root: every component of a Berth is built here, top to bottom, and gets all that it needs at once.

No component refers to one that is built after it, and none is changed from outside later. Where two parts need each
other, one of them is split:

- Everything that writes asks the fence, and who leads depends on what was written: `LeadershipFence` depends on the
  records and on unconfirmed binds only, and `Leader`, built later, says when this replica leads.
- The cache sync reports that a store has gone back in time, and is stopped and started again for it: `Incidents` reacts
  at once, and `Recovery`, built later, waits for it.
- The client is there before the process has imported its engine (`cli/start.py`), so it knows nothing of the rest: its
  `returned` event is waited for by `Housekeeping`, and fences come with each request.

How the scheduling loop is wired is in `berth.scheduler.wiring`.
"""

import os
import random
import secrets
import socket
from functools import partial

from berth.client import make_client
from berth.cluster.api import Api
from berth.cluster.bodies import ObjectBodies
from berth.cluster.cache_sync import CacheSync
from berth.cluster.clock import RealClock
from berth.cluster.credentials import Credentials, Source
from berth.cluster.drift import Drift
from berth.cluster.event_fanout import EventFanout
from berth.cluster.extenders import HttpExtenders
from berth.cluster.fence import Fence, LeadershipFence, OpenFence
from berth.cluster.identity import ClusterIdentity, SeenCluster
from berth.cluster.leader import Leader
from berth.cluster.leadership import Leadership, Terms
from berth.cluster.neighbours import Neighbours, make_identity
from berth.cluster.peering import Peering
from berth.cluster.policy_events import PolicyEvents
from berth.cluster.port import KubernetesCluster
from berth.cluster.resources import BUDGET, NAMESPACE, POLICY, RESOURCES
from berth.cluster.reviews import KubernetesReviews
from berth.cluster.statuses import PolicyStatuses
from berth.collector import Collector
from berth.configuration import Options, as_mapping
from berth.configuration.gates import (
    BULK_INTAKE,
    DEFAULTS,
    EXPECTATION,
    EXPLANATIONS,
    EXPRESSIONS,
    PREEMPTION,
    PYTHON_PLUGINS,
    QUEUEING_HINTS,
    SHADOW_POLICIES,
    stages,
)
from berth.configuration.limiting import extender_addresses, policy_limits
from berth.configuration.serving import serving_plan
from berth.explain_api.sources import Sources
from berth.policy import PolicyStore
from berth.policy.features import Features
from berth.runtime.admitting import Admitting
from berth.runtime.decisions import Decisions
from berth.runtime.explaining import Explaining
from berth.runtime.health_checks import HealthChecks
from berth.runtime.housekeeping import Housekeeping
from berth.runtime.incidents import Incidents
from berth.runtime.policy_reports import PolicyReports
from berth.runtime.recovery import Recovery
from berth.runtime.runtime import Runtime
from berth.runtime.serving import Serving
from berth.runtime.state_dump import StateDump
from berth.runtime.statistics import PolicyStatistics, Statistics, policies_in_force
from berth.runtime.watch_control import WatchControl
from berth.runtime.watch_intake import PeeringIntake, WatchIntake
from berth.scheduler.binding.unconfirmed_binds import UnconfirmedBinds
from berth.scheduler.cache.cache import Cache
from berth.scheduler.error_log import ErrorLog
from berth.scheduler.extenders.extender_calls import ExtenderCalls
from berth.scheduler.extenders.extender_protocol import needs_of
from berth.scheduler.ports import Clock
from berth.scheduler.queue.queue import Queue
from berth.scheduler.queue.queueing_hints import QueueingHints
from berth.scheduler.scheduler import Scheduler
from berth.scheduler.wiring import BIND_LIMIT, LoopComponents
from berth.serving.configz import configuration
from berth.serving.loop_watchdog import LoopWatchdog


class Components:
    """Everything that one Berth consists of; each is built once and none is replaced."""

    def __init__(
        self,
        options: Options,
        *,
        clock: Clock | None = None,
        api: Api | None = None,
        asker: HttpExtenders | None = None,
        credentials: Credentials | None = None,
        seen_cluster: SeenCluster | None = None,
        collector: Collector | None = None,
        bind_limit: int = BIND_LIMIT,
    ) -> None:
        """The keywords are for a caller with a time and a network of its own, or one that has asked the API server
        already, and gives what it has asked with. `collector`: for a process that runs nothing else. `bind_limit`: how
        many binds may be with the API server at once.
        """
        self.options = options
        self.collector = collector
        self.clock = clock = clock or RealClock()
        self.errors = errors = ErrorLog()
        gates = {**DEFAULTS, **options.feature_gates}
        features = Features(gates[EXPRESSIONS], gates[PYTHON_PLUGINS], gates[SHADOW_POLICIES], gates[PREEMPTION])
        self.resources = tuple(each for each in RESOURCES if features.preemption or each.kind != BUDGET)
        """The kinds that are watched. Only preemption needs disruption budgets."""
        self.bulk = tuple(each for each in self.resources if gates[BULK_INTAKE] and each.kind != POLICY)
        """Those of them whose lists and watches are read in bulk. Policies are few, and come kopf's way."""

        # --- what is known, and who may act on it
        self.credentials = credentials or Credentials(Source(options.kubeconfig, options.context))
        self.api = api = api or make_client(options, self.credentials)
        self.policies = policies = PolicyStore(
            clock.wall,
            built_in=options.built_in_policy,
            features=features,
            limits=policy_limits(options),
            is_complete=False,
        )
        self.cache = cache = Cache()
        self.queue = queue = Queue(clock, hints=QueueingHints(cache.state, errors) if gates[QUEUEING_HINTS] else None)
        unconfirmed = UnconfirmedBinds(cache, clock)
        leadership = None if options.standalone else make_leadership(options, clock)
        leadership_fence = (
            None if leadership is None else LeadershipFence(leadership, unconfirmed.has_late_acknowledged)
        )
        fence: Fence = leadership_fence or OpenFence()

        # --- writing
        self.cluster = cluster = KubernetesCluster(api, clock, f"{socket.gethostname()}/{os.getpid()}", errors, fence)
        self.statuses = PolicyStatuses(api, clock, errors, cluster.gate, fence)
        policy_events = PolicyEvents(cluster.events, clock, fence)

        # --- deciding
        self.bodies = ObjectBodies(api, cluster, lambda: needs_of(policies_in_force(policies)))
        policies.on_change(self.bodies.follow_policies)
        self.asker = asker or HttpExtenders(extender_addresses(options))
        extenders = ExtenderCalls(
            cache=cache,
            queue=queue,
            policies=policies,
            asker=self.asker,
            bodies=self.bodies,
            clock=clock,
            errors=errors,
        )
        policies.on_change(extenders.follow_policies)
        self.loop = LoopComponents(
            cache=cache,
            queue=queue,
            policies=policies,
            cluster=cluster,
            clock=clock,
            random=random.Random(options.seed),
            errors=errors,
            unconfirmed=unconfirmed,
            extenders=extenders,
            bind_limit=bind_limit,
            expectation=gates[EXPECTATION],
            remembered_decisions=options.remembered_decisions if gates[EXPLANATIONS] else 0,
        )
        self.scheduler = Scheduler(self.loop)
        self.policy_reports = PolicyReports(
            policies, self.scheduler, self.statuses, policy_events, fence, clock, errors
        )
        self.decisions = Decisions(
            self.scheduler,
            cluster,
            self.policy_reports,
            fence,
            standalone=options.standalone,
            collector=collector,
        )

        # --- reading
        seen_cluster = seen_cluster or SeenCluster()
        self.watch_control = WatchControl()
        self.incidents = Incidents(self.decisions, self.watch_control, api, leadership, seen_cluster)
        self.fanout = EventFanout(
            cache, (self.scheduler, self.bodies, cluster, self.policy_reports), forget_policy=policies.remove
        )
        drift = Drift(api, self.fanout, on_rewound=self.incidents.on_rewound)
        self.identity = ClusterIdentity(
            api,
            seen_cluster,
            on_other=self.incidents.on_other_cluster,
            on_rewound=partial(drift.note_rewound, NAMESPACE),
        )
        self.cache_sync = CacheSync(
            api,
            clock,
            errors,
            self.fanout,
            self.resources,
            drift=drift,
            identity=self.identity,
            on_synced=self.decisions.on_synced,
            regular_seconds=options.resync_seconds,
            bulk=[resource.kind for resource in self.bulk],
        )
        self.watch_intake = WatchIntake(self.fanout, self.cache_sync, self.identity, self.watch_control, errors)

        # --- leading
        neighbours = Neighbours(options.installation, options.peering_name)
        self.leader: Leader | None = None
        self.peering_intake: PeeringIntake | None = None
        if leadership is not None and leadership_fence is not None:
            self.leader = Leader(
                leadership,
                leadership_fence,
                Peering(api, clock, options.peering_name, leadership),
                self.cache_sync,
                clock,
                errors,
                on_open=self.decisions.on_fence_open,
                on_close=self.scheduler.close,
                on_lose=self.decisions.on_lead_lost,
            )
            self.peering_intake = PeeringIntake(self.leader, neighbours, self.watch_control, errors)

        # --- looking after it
        self.recovery = Recovery(
            incidents=self.incidents,
            decisions=self.decisions,
            watch_control=self.watch_control,
            fanout=self.fanout,
            identity=self.identity,
            cache_sync=self.cache_sync,
            leader=self.leader,
            errors=errors,
        )
        self.housekeeping = Housekeeping(
            api=api,
            identity=self.identity,
            cache_sync=self.cache_sync,
            scheduler=self.scheduler,
            collector=collector,
            clock=clock,
            errors=errors,
        )

        # --- what can be seen of it
        self.loop_watchdog = LoopWatchdog()
        self.dump = StateDump(
            cache=cache, queue=queue, policies=policies, cache_sync=self.cache_sync, clock=clock, errors=errors
        )
        self.health = HealthChecks(
            cache_sync=self.cache_sync,
            decisions=self.decisions,
            incidents=self.incidents,
            api=api,
            loop_watchdog=self.loop_watchdog,
            leader=self.leader,
        )
        self.explaining: Explaining | None = None
        if gates[EXPLANATIONS] and options.explain_address:
            sources = Sources(self.scheduler, lambda: fence.is_leading, socket.gethostname(), self.health.problems)
            self.explaining = Explaining(options, api, clock, fence, sources)
        self.admitting: Admitting | None = None
        if options.webhook_address:
            self.admitting = Admitting(options, api, clock, fence, policies)
        statistics = Statistics(
            {
                "scheduler": self.scheduler.statistics,
                "cluster": cluster.statistics,
                "cache_sync": self.cache_sync.statistics,
                "bodies": self.bodies.statistics,
                "policies": PolicyStatistics(policies).collect,
                "faults": lambda: dict(errors.counts),
                "features": lambda: stages(options.feature_gates),
                "leadership": (self.decisions.standalone_statistics if self.leader is None else self.leader.statistics),
                "foreign_replicas": lambda: neighbours.count,
                "api_reachable": lambda: int(api.reachable),
                "last_api_success_seconds": lambda: api.last_answer_seconds,
                "loop_lag_seconds": lambda: self.loop_watchdog.lag_seconds,
                "nameless": lambda: dict(self.watch_intake.nameless),
                "watch_restarts": lambda: self.watch_intake.restarts,
                "explaining": lambda: {} if self.explaining is None else self.explaining.statistics(),
                "webhook": lambda: {} if self.admitting is None else self.admitting.statistics(),
            }
        )
        self.serving = Serving(
            serving_plan(options),
            KubernetesReviews(api),
            statistics=statistics,
            health=self.health,
            dump=self.dump,
            configuration=lambda: configuration(as_mapping(options), policies_in_force(policies)),
            loop_watchdog=self.loop_watchdog,
            endpoints=[part.endpoint for part in (self.explaining, self.admitting) if part is not None],
        )


def make_leadership(options: Options, clock: Clock) -> Leadership:
    """Who leads, as this replica judges it; its identity is new with each process."""
    identity = make_identity(options.installation, socket.gethostname(), secrets.token_hex(4))
    terms = Terms(options.peering_lifetime_seconds)
    return Leadership(identity, terms, now=clock.now, wall=clock.wall, random=random.Random())


def make_runtime(
    options: Options,
    *,
    clock: Clock | None = None,
    api: Api | None = None,
    asker: HttpExtenders | None = None,
    credentials: Credentials | None = None,
    seen_cluster: SeenCluster | None = None,
    collector: Collector | None = None,
    bind_limit: int = BIND_LIMIT,
) -> Runtime:
    """A Berth that is ready to be started; the keywords are those of `Components`."""
    return Runtime(
        Components(
            options,
            clock=clock,
            api=api,
            asker=asker,
            credentials=credentials,
            seen_cluster=seen_cluster,
            collector=collector,
            bind_limit=bind_limit,
        )
    )
