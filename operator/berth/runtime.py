"""The composition root: builds the scheduler and everything around it, and carries what the watches say to it.

    kopf --> handlers --> Runtime.on_event --> Scheduler (observe, remove)
                                |-----------> CacheSync (seen, listed again, gone)
                                +-----------> PolicyStatuses, conditions that are no longer true
    Scheduler --> KubernetesCluster --> Api
    Scheduler --> Extending --> HttpExtenders, with what ObjectBodies keeps for them
    Scheduler --> PolicyStore.usage --> (every 10 s) --> PolicyStatuses

Where several replicas run, `Leader` says when decisions are made and what is written (the fence); a standby hears and
compares everything, and does nothing.

Its housekeeping notices that the API server is away and logs so now and then. It resyncs every kind when the server is
back, and pods when the confirmation of a bind is missing. `dump` writes what is known to the log. An error that ends
the scheduling loop is kept in `failure`: the caller ends the process.

Two answers of the API server end what is usual (`cluster/identity.py`, `cluster/cache_sync.py`):

    another cluster answers      nothing is decided, written or removed any more, the replica is not ready (`refusal`)
    the store has gone back in   decisions stop, binds under way end, watching ends (`rewatch`), all versions are given
    time (a restored backup)     up, watching begins anew; decisions go on when everything listed has been shown again
"""

import asyncio
import logging
import os
import random
import secrets
import socket
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from berth.client import make_client
from berth.cluster import peering
from berth.cluster.api import Api
from berth.cluster.bodies import ObjectBodies
from berth.cluster.cache_sync import CacheSync
from berth.cluster.clock import RealClock
from berth.cluster.credentials import Credentials, Source
from berth.cluster.errors import ApiError, OtherCluster, Unreachable
from berth.cluster.event_fanout import POLICY, EventFanout
from berth.cluster.extenders import HttpExtenders
from berth.cluster.identity import SYSTEM, ClusterIdentity
from berth.cluster.leader import Leader
from berth.cluster.leadership import Leadership, Terms
from berth.cluster.listing import ListInProgress, WatchedResource
from berth.cluster.neighbours import Neighbours, make_identity
from berth.cluster.outage_log import OutageLog
from berth.cluster.port import KubernetesCluster
from berth.cluster.reviews import KubernetesReviews
from berth.cluster.statuses import PolicyStatuses
from berth.collector import Collector
from berth.configuration import Options, as_mapping
from berth.configuration.gates import (
    BULK_INTAKE,
    DEFAULTS,
    EXPECTATION,
    EXPRESSIONS,
    PREEMPTION,
    PYTHON_PLUGINS,
    QUEUEING_HINTS,
    SHADOW_POLICIES,
    stages,
)
from berth.configuration.limiting import extender_addresses, policy_limits
from berth.configuration.serving import serving_plan
from berth.model import KINDS, object_key
from berth.policy import Policy, PolicyStore
from berth.policy.features import Features
from berth.scheduler import dump
from berth.scheduler.cache.cache import Cache
from berth.scheduler.cache.versions import version_number
from berth.scheduler.error_log import ErrorLog
from berth.scheduler.extenders.extender_calls import ExtenderCalls
from berth.scheduler.extenders.extender_protocol import needs_of
from berth.scheduler.measures import Names
from berth.scheduler.ports import Attempts, Clock
from berth.scheduler.queue.queue import Queue
from berth.scheduler.scheduler import Scheduler
from berth.scheduler.waiting import wait_for_signal
from berth.serving.configz import configuration
from berth.serving.health import Alarm, Check, Finding, Readiness
from berth.serving.loop_watchdog import LoopWatchdog
from berth.serving.pages import ServedState
from berth.serving.server import Server, hang_alarm

__all__ = ["Options", "Runtime"]

# Finished pods take no room, and clusters keep thousands of them.
POD_FIELDS = "status.phase!=Succeeded,status.phase!=Failed"
PROBE_SECONDS = 10.0
PROBE_LIMIT_SECONDS = 5.0
REPORT_SECONDS = 10.0  # between two reports of what was done under the policies
LAST_REPORT_SECONDS = 2.0
MOST_POLICIES = 200  # that have metrics of their own
LAGGING_SECONDS = 5.0  # an event loop that is so late is not ready for more work

LEADING = "leading"
NAMESPACE_KIND = "Namespace"
BUDGET = "PodDisruptionBudget"
RESOURCES = (
    *(
        WatchedResource(
            kind.name, kind.group, kind.version, kind.plural, kind.namespaced, POD_FIELDS if kind.name == "Pod" else ""
        )
        for kind in KINDS
    ),
    WatchedResource(POLICY, "berth.dev", "v1alpha1", "schedulingpolicies", namespaced=False),
)

_log = logging.getLogger(__name__)


class Runtime:
    """One Berth; `start` once, `stop` once."""

    def __init__(
        self,
        options: Options,
        *,
        clock: Clock | None = None,
        api: Api | None = None,
        asker: HttpExtenders | None = None,
        credentials: Credentials | None = None,
        identity: ClusterIdentity | None = None,
        collector: Collector | None = None,
    ) -> None:
        """The keywords are for a caller with a time and a network of its own, or one that has asked the API server
        already, and gives what it has asked with. `collector`: for a process that runs nothing else.
        """
        self._collector = collector
        clock = clock or RealClock()
        self.options = options
        self._clock = clock
        self._faults = ErrorLog()
        self.credentials = credentials or Credentials(Source(options.kubeconfig, options.context))
        self.api = api or make_client(options, self.credentials)
        terms = Terms(options.peering_lifetime_seconds)
        self._cluster = KubernetesCluster(
            self.api,
            clock,
            f"{socket.gethostname()}/{os.getpid()}",
            self._faults,
            request_seconds=None if options.standalone else terms.request_seconds,
        )
        gates = {**DEFAULTS, **options.feature_gates}
        features = Features(gates[EXPRESSIONS], gates[PYTHON_PLUGINS], gates[SHADOW_POLICIES], gates[PREEMPTION])
        self.resources = tuple(kind for kind in RESOURCES if features.preemption or kind.kind != BUDGET)
        """The kinds that are watched. Only preemption needs disruption budgets."""
        self.bulk = tuple(kind for kind in self.resources if gates[BULK_INTAKE] and kind.kind != POLICY)
        """Those of them whose lists and watches are read in bulk. Policies are few, and come kopf's way."""
        self._book = PolicyStore(
            clock.wall, built_in=options.built_in_policy, features=features, limits=policy_limits(options)
        )
        self._cache = Cache()
        self._queue = Queue(clock)
        self._asker = asker or HttpExtenders(extender_addresses(options))
        self._bodies = ObjectBodies(self.api, self._cluster, lambda: needs_of(self._policies()))
        self._book.on_change(self._bodies.follow_policies)
        self._scheduler = Scheduler(
            cache=self._cache,
            queue=self._queue,
            policies=self._book,
            cluster=self._cluster,
            clock=clock,
            random=random.Random(options.seed),
            extenders=self._make_extending,
            hints=gates[QUEUEING_HINTS],
            expectation=gates[EXPECTATION],
        )
        self._policy_labels = Names(MOST_POLICIES)
        self._statuses = PolicyStatuses(self.api, clock, self._faults, self._cluster.gate)
        self._fanout = EventFanout(self._cache, self._scheduler, self._bodies, self._follow)
        self._identity = identity or ClusterIdentity(self.api)
        self._identity.on_other, self._identity.on_rewound = self._refuse, self._note_versions
        self._cache_sync = CacheSync(
            self.api,
            clock,
            self._faults,
            self._fanout,
            self.resources,
            identity=self._identity,
            on_synced=self._become_synced,
            on_rewound=self._note_rewound,
            regular_seconds=options.resync_seconds,
            bulk=[resource.kind for resource in self.bulk],
        )
        self._neighbours = Neighbours(options.installation, options.peering_name)
        self.lead = None if options.standalone else self._make_lead(options.peering_name, terms)
        self.api.fence = self.lead
        self._pulse = LoopWatchdog()
        self.alarms: dict[str, Alarm] = {"loop": lambda: hang_alarm(self._pulse), "scheduler": self._find_failure}
        """What liveness fails by: name to a reason or None. Asked in the serving thread, so they only read."""
        self.checks: dict[str, Check] = {
            "loop": self._check_loop,
            "api-server": self._check_api_server,
            "cluster": self._check_cluster,
        }
        """What readiness is judged by, beside the kinds; asked in the event loop."""
        if self.lead is not None:
            self.alarms["leadership"] = self.lead.alarm
            self.checks["leadership"] = self._standing
        self._server = self._make_server(options)
        self._tasks: list[asyncio.Task[None]] = []
        self._dumping: asyncio.Task[None] | None = None
        self._is_open = False
        self._is_synced = False  # every kind has been synced; stays so
        self._has_stepped_down = False
        self._look_soon = asyncio.Event()
        self._checks_of_watches: dict[asyncio.Task[None], None] = {}
        self._starting_over: asyncio.Task[None] | None = None
        self._has_started_over = False  # and no pod has been woken since
        self._watch_has_ended = asyncio.Event()
        self._hears = asyncio.Event()  # not between the end of a watch and the beginning of the next
        self._hears.set()
        self.rewatch: Callable[[], None] = self._watch_has_ended.set
        """Has watching end and begin anew; `watch_ended` is called in between. By default nothing watches."""
        self._echoes_missing = 0
        self.failure: asyncio.Future[None] | None = None
        self.watch_restarts = 0
        self._nameless: Counter[str] = Counter()

    def _make_server(self, options: Options) -> Server | None:
        plan = serving_plan(options)
        if plan.https is None and plan.http is None:
            return None
        subject = ServedState(
            readiness=self.readiness,
            statistics=self.statistics,
            configuration=lambda: configuration(as_mapping(self.options), self._policies()),
            cache_lines=self.cache_lines,
            queue_lines=self.queue_lines,
            alarms=self.alarms,
        )
        return Server(plan, subject, KubernetesReviews(self.api), self._pulse)

    def _make_lead(self, name: str, terms: Terms) -> Leader:
        self._book.listen()
        identity = make_identity(self.options.installation, socket.gethostname(), secrets.token_hex(4))
        clock = self._clock
        leadership = Leadership(identity, terms, now=clock.now, wall=clock.wall, random=random.Random())
        return Leader(
            leadership,
            peering.Peering(self.api, clock, name, leadership),
            self._cache_sync,
            clock,
            self._faults,
            echo_is_missing=self._scheduler.echo_is_missing,
            on_open=self._begin_deciding,
            on_close=self._scheduler.close,
            on_lose=self._stand_by,
        )

    def _make_extending(self, attempts: Attempts) -> ExtenderCalls:
        return ExtenderCalls(
            attempts=attempts,
            cache=self._cache,
            queue=self._queue,
            policies=self._book,
            asker=self._asker,
            bodies=self._bodies,
            clock=self._clock,
            faults=self._faults,
        )

    def _policies(self) -> list[Policy]:
        return [active.policy for active in self._book.in_force()]

    # --- life ----------------------------------------------------------------------------------------------------

    async def start(self) -> None:
        """Raises CredentialsError, or CannotServe when an address is taken or a certificate cannot be used."""
        await self.api.open()
        if self._server is not None:
            await self._server.start()
            self._pulse.start()
        if self._collector is not None:
            self._collector.start()
        self.failure = asyncio.get_running_loop().create_future()
        self.api.on_return = self._come_back
        self._cluster.start()
        self._statuses.start()
        self._cache_sync.start()
        self._tasks = [
            asyncio.create_task(self._schedule(), name="scheduler"),
            asyncio.create_task(self._keep_house(), name="housekeeping"),
            asyncio.create_task(self._keep_reporting(), name="reporting"),
        ]
        if self.lead is not None:
            self._tasks.append(asyncio.create_task(self.lead.run(), name=LEADING))

    async def stop_scheduling(self) -> None:
        """No new binds; returns when the running ones have ended."""
        self._is_open = False
        await self._scheduler.stop()

    async def step_down(self) -> None:
        """After `stop_scheduling`: say the last word about the policies, and leave the lead to others. Done once."""
        if self._has_stepped_down:
            return
        self._has_stepped_down = True
        await self._report()
        await self._statuses.stop(LAST_REPORT_SECONDS)
        if self.lead is not None:
            await self.lead.stop()

    async def stop(self) -> None:
        """No new binds; running ones end, what waits to be posted is posted, connections are closed."""
        await self.stop_scheduling()
        work = [*self._checks_of_watches, *([] if self._starting_over is None else [self._starting_over])]
        for task in work:
            task.cancel()
        await asyncio.gather(*work, return_exceptions=True)
        await self._cache_sync.stop()
        await self.step_down()
        await self._cluster.stop()
        tasks = self._tasks + ([self._dumping] if self._dumping is not None else [])
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        if self._server is not None:
            await self._server.stop()
            self._pulse.stop()
        await self._asker.close()
        await self.api.close()
        if self._collector is not None:
            self._collector.stop()

    def _become_synced(self) -> None:
        self._is_open = True
        if not self._is_synced:
            self._is_synced = True
            if self._collector is not None:
                self._collector.settle()
        if self.lead is None:
            _log.info("Every kind is synced: scheduling begins")
            self._open()
            # Not before: without all the others, what a policy is based on seems missing and what rivals it away.
            self._statuses.put(self._book.statuses())
        else:
            _log.info("Every kind is synced: this replica can lead")
            if self.lead.is_open:  # and has gone on leading while everything was listed again
                self._open()
                self._statuses.put(self._book.statuses())

    def _open(self) -> None:
        """Decisions go on; after a new beginning with every pod, since anything may be otherwise."""
        if self._has_started_over:
            self._has_started_over = False
            self._scheduler.take_over()
        else:
            self._scheduler.open()

    def _begin_deciding(self, is_new_lead: bool) -> None:
        """The fence is open."""
        if not self._is_open:
            return
        if not is_new_lead:
            self._open()
            return
        self._cluster.withdraw_all()  # of what was found out too late to be said under an earlier lead
        self._scheduler.take_over()
        self._book.speak()
        self._statuses.put(self._book.statuses())

    def _stand_by(self) -> None:
        """Another replica leads: nothing is decided and nothing written here, everything is heard."""
        self._scheduler.stand_by()
        self._cluster.withdraw_all()
        self._statuses.withdraw_all()
        self._book.listen()

    async def _schedule(self) -> None:
        try:
            await self._scheduler.run()
        except Exception as error:
            _log.critical("The scheduling loop has ended with an error", exc_info=True)
            self._is_open = False
            if self.failure is not None and not self.failure.done():
                self.failure.set_exception(error)

    def _find_failure(self) -> str | None:
        failed = self.failure is not None and self.failure.done()
        return "the scheduling loop has ended with an error" if failed else None

    # --- another cluster, or the same one in another time ------------------------------------------------------------

    @property
    def refusal(self) -> str:
        """Why this process acts no more; empty while it does."""
        return self._identity.problem

    def _refuse(self, problem: str) -> None:
        """Another cluster answers. What is known stays as it is, and nothing is decided or written any more."""
        _log.critical(
            "%s. Nothing is decided, written or removed any more. See that the address and the kubeconfig are those of "
            "the right cluster, then start Berth again",
            problem[0].upper() + problem[1:],
            extra={"was": self._identity.uid},
        )
        self._is_open = False
        self._hears.clear()
        self.api.stopped_writing = "another cluster answers"
        if self.lead is not None:
            self.lead.is_silent = True
        self._scheduler.stand_by()
        self._cluster.withdraw_all()
        self._statuses.withdraw_all()
        if self._starting_over is not None:
            self._starting_over.cancel()
        self._starting_over = asyncio.create_task(self._fall_silent(), name="refusing")

    async def _fall_silent(self) -> None:
        """No kind is compared any more, and others may lead: our record is not renewed."""
        await self._cache_sync.stop()
        for task in self._tasks:
            if task.get_name() == LEADING:
                task.cancel()
        if self.lead is not None:
            await self.lead.stop()

    def _check_cluster(self) -> Finding:
        """Health is shown to every client, so no UID is named."""
        if self.refusal:
            return Finding("another cluster answers than the one that this process began with; start it again")
        if self._starting_over is not None and not self._starting_over.done():
            return Finding("the API server's store went back in time; starting over from fresh lists")
        return Finding()

    def _note_versions(self, words: str) -> None:
        self._cache_sync.tell_rewound(NAMESPACE_KIND, words)

    def _note_rewound(self, words: str) -> None:
        """The store has gone back in time: start over, once for all who notice."""
        if self.refusal or (self._starting_over is not None and not self._starting_over.done()):
            return
        _log.error(
            "The API server's store has gone back in time, as after a restore from a backup (%s): decisions stop until "
            "everything has been listed again",
            words,
        )
        self._is_open, self._has_started_over = False, True
        self._starting_over = asyncio.create_task(self._start_over(), name="starting-over")

    async def _start_over(self) -> None:
        """Nothing of the time that is undone may come after its versions have been given up: watching ends first."""
        self._scheduler.stand_by()
        self._cluster.withdraw_all()
        await self._scheduler.settle()
        self._hears.clear()
        self._watch_has_ended.clear()
        self.rewatch()
        await self._watch_has_ended.wait()
        self._fanout.start_over()
        self._identity.start_over()
        if self.lead is not None:
            self.lead.start_over()
        await self._cache_sync.start_over()
        self._hears.set()

    async def watch_ended(self) -> None:
        """Nothing is handed over by an earlier watch any more; returns when the next one may begin."""
        self._watch_has_ended.set()
        await self._hears.wait()

    # --- what the watches say --------------------------------------------------------------------------------------

    def on_event(self, kind: str, type_: str | None, body: Mapping[str, Any]) -> None:
        """An object as kopf hands it over: type None from a list, DELETED for the last word on it. Never raises."""
        if self._hears.is_set():
            self._hand_over(kind, type_, body)

    def begin_list(self, kind: str) -> ListInProgress:
        """The watch lists the kind, and hands the list over in bulk."""
        return self._cache_sync.begin_list(kind)

    def on_list(self, listed: ListInProgress, bodies: Sequence[Mapping[str, Any]]) -> None:
        """The next objects of such a list. Never raises."""
        if not self._hears.is_set():
            listed.is_sound = False
            return
        for body in bodies:
            if self._hand_over(listed.kind, None, body):
                listed.note(body)
            else:
                listed.is_sound = False

    def end_list(self, listed: ListInProgress) -> None:
        """The list is complete. Never raises."""
        if self._hears.is_set():
            self._cache_sync.end_list(listed)

    def on_changes(self, kind: str, changes: Sequence[tuple[str, Mapping[str, Any]]]) -> None:
        """What a watch says, many at a time and in its order. Never raises."""
        if self._hears.is_set():
            for type_, body in changes:
                self._hand_over(kind, type_, body)

    def _hand_over(self, kind: str, type_: str | None, body: Mapping[str, Any]) -> bool:
        """Whether it is an object, with a name and a UID."""
        uid = _uid_of(body)
        if uid is None:
            self._note_nameless(kind)
            return False
        try:
            if kind == NAMESPACE_KIND and body["metadata"]["name"] == SYSTEM:
                self._identity.note(uid)
            removed = type_ == "DELETED"
            if removed:
                self._fanout.remove(kind, body)
            else:
                self._fanout.observe(kind, body)
            self._cache_sync.note(kind, uid, listed=type_ is None, removed=removed)
        except OtherCluster:
            pass
        except Exception as error:
            # Its name and nothing else of it: annotations may hold a copy of the whole object.
            self._faults.note("handing over", f"{kind} {object_key(body)}", error, kind=kind)
        return True

    def on_watch(self, kind: str, version: str) -> None:
        """A watch is opened, or opened again, and goes on from this version."""
        number = version_number(version)
        if number is not None and self._hears.is_set() and self._tasks:
            task = asyncio.create_task(self._cache_sync.check_watch(kind, number), name=f"watch-{kind}")
            self._checks_of_watches[task] = None
            task.add_done_callback(self._checks_of_watches.pop)

    def _note_nameless(self, kind: str) -> None:
        """Without a UID the object is unknown. Logged once a kind, counted always."""
        self._nameless[kind] += 1
        if self._nameless[kind] == 1:
            said = "A %s without a name and a UID of its own was reported: it is left out"
            _log.warning(said, kind, extra={"kind": kind})

    def on_peering(self, type_: str | None, body: Mapping[str, Any]) -> None:
        """A peering object, ours or that of another installation. Never raises."""
        if not self._hears.is_set():
            return
        try:
            if self.lead is not None and body["metadata"]["name"] == self.lead.peering.name:
                self.lead.peering.show(body if type_ != "DELETED" else {}, jumped=type_ is None)
                self._neighbours.look(self.lead.leadership.others())
        except Exception as error:
            self._faults.note("handing over", f"{peering.KIND} {object_key(body)}", error, kind=peering.KIND)

    def _follow(self, kind: str, body: Mapping[str, Any], removed: bool) -> None:
        """An object has been handed over, by the watch or by the cache sync: what was to be said may be outdated."""
        if kind == "Pod":
            spec = body.get("spec")
            if removed or (isinstance(spec, dict | Mapping) and spec.get("nodeName")):
                self._cluster.pod_settled(str(body["metadata"]["uid"]))
        elif kind == POLICY and self._speaks:
            self._statuses.put(self._book.statuses())

    # --- housekeeping ----------------------------------------------------------------------------------------------

    async def _keep_house(self) -> None:
        outage = OutageLog()
        while True:
            await wait_for_signal(self._look_soon, self._clock, PROBE_SECONDS)
            self._look_soon.clear()
            try:
                if self._collector is not None:
                    self._collector.tend()
                outage.note(await self._ask(), self._clock.now())
                self._look_for_echoes()
            except Exception as error:
                self._faults.note("housekeeping", "for the scheduler", error)

    def _come_back(self) -> None:
        """The API server answers again: it may be another one, or in another time, and it has reported no changes."""
        self._look_soon.set()
        self._cache_sync.want()

    async def _keep_reporting(self) -> None:
        """What was done under the policies goes into their statuses now and then, not with every decision."""
        while True:
            await self._clock.sleep(REPORT_SECONDS)
            await self._report()

    @property
    def _speaks(self) -> bool:
        """Whether it is for us to say something of policies."""
        return self._is_synced and (self.lead is None or self.lead.is_leading)

    async def _report(self) -> None:
        if not self._speaks:
            return
        try:
            await self._scheduler.count_pending()
            self._book.report()
            self._statuses.put(self._book.statuses())
        except Exception as error:
            self._faults.note("reporting on", "policies", error)

    async def _ask(self) -> Exception | None:
        try:
            return await self.probe()
        except ApiError as error:
            return error

    async def probe(self) -> Unreachable | None:
        """Why the API server gives no answer; None when it gives one. ApiError: it does not know us (401)."""
        return await self._identity.probe(PROBE_LIMIT_SECONDS)

    def _look_for_echoes(self) -> None:
        missing = int(self._scheduler.statistics().get("echo_missing", 0))
        if missing > self._echoes_missing:
            self._cache_sync.want("Pod")
        self._echoes_missing = missing

    # --- what can be seen of it ------------------------------------------------------------------------------------

    def dump(self) -> None:
        """Write everything that decisions depend on to the log, and compare it with the API server soon."""
        if self._dumping is None or self._dumping.done():
            self._dumping = asyncio.create_task(self._dump(), name="dump")

    async def _dump(self) -> None:
        try:
            await dump.write(self.cache_lines(), self._clock)
            await dump.write(self.queue_lines(), self._clock)
            self._cache_sync.report()
        except Exception as error:
            self._faults.note("dumping", "what is known", error)

    def cache_lines(self) -> Iterator[str]:
        """Nodes and placed pods, as text."""
        return dump.cache_lines(self._cache)

    def queue_lines(self) -> Iterator[str]:
        """Pending pods, and why they are pending, as text."""
        return dump.queue_lines(self._queue, self._cache, self._book.serves, self._clock.now)

    def readiness(self) -> Readiness:
        findings = {name: check() for name, check in self.checks.items()}
        return Readiness(self._cache_sync.sync_state(), self._is_open, findings)

    def _check_loop(self) -> Finding:
        lag = self._pulse.lag_seconds
        if lag >= LAGGING_SECONDS:
            return Finding(f"it came round {lag:.1f} s late in the last half minute")
        return Finding(note=f"at most {lag:.3f} s late in the last half minute")

    def _check_api_server(self) -> Finding:
        """Never a problem: nobody is helped by a replica that is taken out because the API server is away."""
        age = self.api.last_answer_seconds
        if age is None:
            return Finding(note="it has not answered yet")
        return Finding(note=f"it last answered {age:.1f} s ago" + ("" if self.api.reachable else ", and is away now"))

    def _standing(self) -> Finding:
        """Whether this replica leads, as text. Health is shown to every client, so no replica is named."""
        lead = self.lead
        if lead is None:
            return Finding()
        if lead.is_leading:
            return Finding(note=f"leads, the fence is {'open' if lead.is_open else 'closed'}")
        return Finding(note=f"stands by behind {len(lead.leadership.seniors())}")

    def statistics(self) -> dict[str, Any]:
        return {
            "scheduler": self._scheduler.statistics(),
            "cluster": self._cluster.statistics(),
            "cache_sync": self._cache_sync.statistics(),
            "bodies": self._bodies.statistics(),
            "policies": {**self._book.statistics(), **self._policy_statistics()},
            "faults": dict(self._faults.counts),
            "features": stages(self.options.feature_gates),
            "leadership": self._lead_alone() if self.lead is None else self.lead.statistics(),
            "foreign_replicas": self._neighbours.count,
            "api_reachable": int(self.api.reachable),
            "last_api_success_seconds": self.api.last_answer_seconds,
            "loop_lag_seconds": self._pulse.lag_seconds,
            "nameless": dict(self._nameless),
            "serving": self._server.statistics() if self._server is not None else {},
            "watch_restarts": self.watch_restarts,
        }

    def _lead_alone(self) -> dict[str, int]:
        """Of the only replica: nobody takes the lead from it, and it writes once its cache is synced."""
        return {"leading": 1, "open": int(self._is_open), "changes": 0, "closings": 0}

    def _policy_statistics(self) -> dict[str, Any]:
        """By policy name, as many as have a label of their own; of the others, counters in one sum."""
        book, policies = self._book.usage, {policy.name: policy for policy in self._policies()}
        usage = book.statistics()
        labels = self._policy_labels.keep({*usage, *policies})
        summed: dict[str, Counter[str]] = {}
        for name, counts in usage.items():
            summed.setdefault(labels[name], Counter()).update(counts)
        shown = [policy for name, policy in policies.items() if labels[name] == name]
        failures = {policy.name: book.counts(policy.name, policy.uid).failures for policy in shown}
        return {
            "generation": {policy.name: policy.generation for policy in shown},
            "usage": {label: dict(counts) for label, counts in summed.items()},
            "errors": {name: {failure.source: failure.count for failure in each} for name, each in failures.items()},
        }


def _uid_of(body: object) -> str | None:
    """None where there is none, or no name: such a thing is no object of any API server."""
    metadata = body.get("metadata") if isinstance(body, dict | Mapping) else None
    if not isinstance(metadata, dict | Mapping):
        return None
    uid, name = metadata.get("uid"), metadata.get("name")
    return uid if isinstance(uid, str) and uid and isinstance(name, str) and name else None
