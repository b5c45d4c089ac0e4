"""One seed, from its first object to its last check.

storm      faults, acts, kills; after every step the invariants of the moment hold
calm       no more faults and acts: what was never told is found out, every pod that fits is bound soon, every other
           says why, nothing goes on turning
emptiness  every pod is deleted: nothing is left of them
end        it is stopped in order, and leaves no task behind
"""

from __future__ import annotations

import asyncio
import itertools
import logging
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from random import Random
from types import SimpleNamespace
from typing import Any
from unittest import mock

from berth.cluster import peering
from berth.engine.registry import OWN_PLUGINS
from berth.runtime import wiring
from berth.scheduler.cache import cache as cache_module
from berth.sim.loop import SeededLoop, Stuck
from berth.sim.virtual_clock import VirtualClock
from simulation import endings
from simulation.actors import Actors
from simulation.berth_process import LIFETIME_SECONDS, BerthProcess
from simulation.electing import is_left_behind, kopf_on_virtual_time
from simulation.knowledge import Parser
from simulation.recording import RecordingStore
from simulation.seats import Seats
from simulation.trace import Trace, Violation
from simulation.usher import Usher, of_process
from simulation.volumes import check_bound
from simulation.watcher import LATE_SECONDS
from simulation.weather import Weather

REPLICAS_EVERY = 4  # seeds: of these, one has several replicas
VOLUMES_EVERY = 3
FAIR_BEGINNINGS = 0.75  # of the seeds: without faults until pods are decided on
STORM_SECONDS = (30.0, 100.0)
REPLICA_STORM_SECONDS = (60.0, 120.0)
TROUBLE_SECONDS = 20.0  # on average, between two that hit Berth as a whole
REPLICA_TROUBLE_SECONDS = 12.0
LEADER_SECONDS = 240.0  # until a replica leads, once faults have stopped: a watch may say nothing for long
INFORMED_SECONDS = 600.0  # until the regular comparison has found what was never told
CALM_SECONDS = 100.0  # until everything that fits is bound; less than the flush, which would hide a pod that was lost
LOOK_SECONDS = 10.0
LOOKS = 0.08  # at everything that is kept, for each act
FLUSH_SECONDS = 330.0
WATCH_SECONDS = 60.0  # in which nothing may go on turning
EMPTY_SECONDS = 60.0
MOST_STEPS = 400_000


def has_replicas(seed: int) -> bool:
    """Whether several replicas run side by side."""
    return seed % REPLICAS_EVERY == 0


def has_volumes(seed: int) -> bool:
    return seed % VOLUMES_EVERY == 1


@dataclass
class Result:
    """What came of a seed."""

    seed: int
    violation: str = ""
    lines: list[str] = field(default_factory=list)
    digest: str = ""
    faults: Counter[str] = field(default_factory=Counter)
    acts: Counter[str] = field(default_factory=Counter)
    checks: Counter[str] = field(default_factory=Counter)
    steps: int = 0
    decisions: int = 0
    decisions_among_faults: int = 0
    attempts: int = 0
    virtual_seconds: float = 0.0


class Scenario:
    """Everything of one run."""

    def __init__(
        self, seed: int, show: Callable[[str], None] | None = None, *, hints: bool = True, replicas: int | None = None
    ) -> None:
        """`replicas`: how many run side by side; None: as the seed has it."""
        self.seed = seed
        self._hints = hints
        self.loop = SeededLoop(seed)
        self.trace = Trace(self.loop.time, show)
        self.random = Random(f"scenario/{seed}")
        self.weather = Weather(seed)
        self.clock = VirtualClock(self.loop)
        self.store = RecordingStore(self.clock.wall, seed, self.trace)
        self.actors = Actors(seed, self.store, self._under_way, self._held, has_volumes=has_volumes(seed))
        self.counts: Counter[str] = Counter()
        self._parse = Parser()
        self._bound: dict[str, tuple[str, int]] = {}
        self.berths: list[BerthProcess] = []  # all that ever ran
        self.replicas: list[BerthProcess] = []  # those that run
        self._count = replicas or (self.random.choice((2, 3)) if has_replicas(seed) else 1)
        self._seats = Seats(self.loop.time, self.trace, lambda: self.replicas)
        self._decided_among_faults = 0
        self._is_over = False

    @property
    def berth(self) -> BerthProcess:
        """The one that leads, or else the one that has run for longest."""
        return next((berth for berth in self.replicas if berth.leads), self.replicas[0])

    def _under_way(self) -> list[str]:
        requests = [request for berth in self.replicas for request in berth.api.under_way if request.is_bind]
        return [f"{path[4]}/{path[6]}" for path in (request.path.split("/") for request in requests)]

    def _held(self) -> set[str]:
        """The nodes that pods were given and are not bound to yet; with several replicas, or are nominated to."""
        caches = [berth.runtime.components.cache for berth in self.replicas]
        held = {assumption.node_name for cache in caches for assumption in cache.assumed().values()}
        return held.union(*(cache.state.nominated for cache in caches)) if self._count > 1 else held

    # --- the run -----------------------------------------------------------------------------------------------------

    def run(self) -> Result:
        asyncio.set_event_loop(self.loop)
        self.loop.on_step = self._after_step
        self.loop.set_exception_handler(self._on_exception)
        result = Result(self.seed)
        with _quiet_machine(self._on_log, self._parse, self.seed), kopf_on_virtual_time():
            try:
                self.loop.run_until_complete(self._play())
            except Violation as violation:
                result.violation, result.lines = str(violation), self.trace.about(violation.subjects)
            except Stuck as stuck:
                result.violation, result.lines = f"10 liveness: {stuck}", self.trace.about(())
            finally:
                result.digest, result.steps = self.trace.digest(), self.loop.steps
                result.virtual_seconds = self.loop.time()
                result.decisions = self._decided()
                result.decisions_among_faults = self._decided_among_faults
                result.attempts = sum(berth.overseer.attempts.total() for berth in self.berths)
                result.faults, result.acts = self.counts + self.weather.counts, self.actors.counts
                result.checks = sum((berth.overseer.pushing.counts for berth in self.berths), Counter())
                self._clear_away()
        return result

    async def _play(self) -> None:
        self.actors.furnish()
        self._start_berths()
        if Random(f"beginning/{self.seed}").random() < FAIR_BEGINNINGS:
            await self._begin()
        before = self._decided()
        await self._storm()
        self._decided_among_faults = self._decided() - before
        await self._calm()
        await self._emptiness()
        await self._end()

    def _decided(self) -> int:
        return sum(berth.overseer.decisions for berth in self.berths)

    def _start_berths(self) -> None:
        if self._count > 1:
            kind = self.store.find(peering.GROUP, peering.VERSION, peering.PLURAL)
            assert kind is not None
            self.store.create(kind, {"metadata": {"name": "berth"}})
        for _ in range(self._count):
            self._start_berth()

    def _start_berth(self) -> None:
        berth = BerthProcess(
            len(self.berths),
            self.loop,
            self.store,
            self.weather,
            self.trace,
            self._parse,
            self._bound,
            has_peers=self._count > 1,
            has_hints=self._hints,
            on_landed=self._seats.on_landed,
        )
        self.berths.append(berth)
        self.replicas.append(berth)
        berth.start()

    def _end_berth(self, berth: BerthProcess) -> None:
        berth.kill()
        self.replicas.remove(berth)

    async def _begin(self) -> None:
        """Faults begin when somebody decides: with them the first sync may last for as long as they do."""
        self.weather.calm = True
        end = self.loop.time() + LEADER_SECONDS
        while not any(berth.is_open and berth.runtime.components.decisions.is_open for berth in self.replicas):
            await asyncio.sleep(0.1)
            if self.loop.time() >= end:
                self.trace.violate("10 liveness", f"{LEADER_SECONDS:.0f} s after the start nobody decides")
            self._raise()
        self.weather.calm = False

    # --- storm -------------------------------------------------------------------------------------------------------

    async def _storm(self) -> None:
        is_alone = self._count == 1
        end = self.loop.time() + self.random.uniform(*(STORM_SECONDS if is_alone else REPLICA_STORM_SECONDS))
        pause_seconds = TROUBLE_SECONDS if is_alone else REPLICA_TROUBLE_SECONDS
        pace = self.random.choice((0.15, 0.4, 0.8))
        troubles = [trouble for trouble in self._troubles() if self.random.random() < 0.5]
        keeping = asyncio.ensure_future(self._keep_nodes())
        trouble = self.loop.time() + self.random.expovariate(1.0 / pause_seconds)
        while self.loop.time() < end:
            await asyncio.sleep(self.random.expovariate(1.0 / pace))
            self.actors.act()
            if troubles and self.loop.time() >= trouble:
                await self.random.choice(troubles)()
                trouble = self.loop.time() + self.random.expovariate(1.0 / pause_seconds)
            if self.random.random() < LOOKS:
                for berth in self.replicas:
                    berth.overseer.check_columns()
                self.berth.overseer.check_unschedulable()
        keeping.cancel()

    def _troubles(self) -> list[Callable[[], Any]]:
        troubles = [self._kill, self._restart, self._freeze, self._outage, self._jump, self._watch_again, self._deafen]
        return troubles if self._count == 1 else [*troubles, self._cut_off, self._freeze_leader]

    def _choose(self) -> BerthProcess:
        """One of the replicas, and rather the one that leads."""
        return self.berth if self.random.random() < 0.5 else self.random.choice(self.replicas)

    async def _keep_nodes(self) -> None:
        while True:
            await asyncio.sleep(1.0)
            self.actors.keep_nodes(finishing=not self.weather.calm)

    async def _kill(self) -> None:
        self.counts["kill"] += 1
        berth = self._choose()
        berth.kill()
        await asyncio.sleep(self.random.choice((0.0, 0.01, 3.0)))
        self.replicas.remove(berth)
        self._start_berth()

    async def _restart(self) -> None:
        self.counts["restart"] += 1
        berth = self._choose()
        if self._count > 1:
            berth.go_on()
        await self._stop(berth)
        self._end_berth(berth)
        self._start_berth()

    async def _stop(self, berth: BerthProcess) -> None:
        stopping = berth.process.start(berth.stop())
        await asyncio.wait([stopping], timeout=90.0)
        if not stopping.done():
            self.trace.violate("10 liveness", "a stop takes longer than 90 s")

    async def _freeze(self) -> None:
        self._freeze_for(self._choose(), self.random.choice((0.5, 5.0, 20.0)))

    async def _freeze_leader(self) -> None:
        """For longer than its record lives."""
        self._freeze_for(self.berth, 2.5 * LIFETIME_SECONDS)

    def _freeze_for(self, berth: BerthProcess, seconds: float) -> None:
        self.counts["freeze"] += 1
        berth.pause()
        self.loop.call_outside(seconds, berth.go_on)

    async def _cut_off(self) -> None:
        self.counts["cut off"] += 1
        self._choose().cut_off(self.random.choice((2.0, 8.0, 25.0)))

    async def _outage(self) -> None:
        self.counts["outage"] += 1
        seconds = self.random.choice((1.0, 5.0, 25.0))
        self.trace.note(f"the API server is away for {seconds:g} s")
        self.weather.outage_until = self.loop.time() + seconds

    async def _jump(self) -> None:
        self.counts["clock jump"] += 1
        self._choose().jump(self.random.choice((-3600.0, -5.0, 5.0, 3600.0)))

    async def _watch_again(self) -> None:
        self.counts["watching restarts"] += 1
        berth = self._choose()
        if not berth.process.is_paused:
            berth.watch_again()

    async def _deafen(self) -> None:
        self.counts["watch falls silent"] += 1
        self._choose().deafen(self.random.choice(("Pod", "Pod", "Node")), self.random.choice((5.0, 20.0, 60.0, 150.0)))

    # --- calm --------------------------------------------------------------------------------------------------------

    async def _calm(self) -> None:
        self.trace.note("--- calm")
        self.weather.calm = True
        self.weather.outage_until = 0.0
        for berth in self.replicas:
            berth.go_on()
            berth.link.join()
        keeping = asyncio.ensure_future(self._keep_nodes())
        if self._count > 1:
            await self._be_led()
        await self._be_informed()
        leader = self.berth
        overseer = leader.overseer
        await asyncio.sleep(CALM_SECONDS)
        endings.check_settled(self.store, overseer, self.trace, flushed=False)
        pushers = endings.pushers(self.store, overseer)
        refused = any(overseer.was_refused_by_usher(item.uid) for item in overseer.queue.items())
        if pushers or refused:  # a pod that comes onto a node wakes nobody who could push it out: only the flush does
            await asyncio.sleep(FLUSH_SECONDS)
            endings.check_pushers(pushers, endings.pushers(self.store, overseer), self.trace)
            endings.check_settled(self.store, overseer, self.trace)
        before = {berth: endings.Turning.of(berth) for berth in self.replicas}
        await asyncio.sleep(WATCH_SECONDS)
        for berth in self.replicas:
            endings.check_rest(before[berth], berth, self.trace)
            berth.overseer.check_columns()
        overseer.check_unschedulable()
        check_bound(self.store, self.trace)
        if not leader.is_open:
            self.trace.violate("20 seats", f"{leader.name} leads no more, and nothing has happened to it")
        self._raise()
        keeping.cancel()

    async def _be_led(self) -> None:
        """Soon after the last fault one of the replicas leads."""
        end = self.loop.time() + LEADER_SECONDS
        while not any(berth.is_open for berth in self.replicas):
            await asyncio.sleep(1.0)
            if self.loop.time() >= end:
                self.trace.violate("10 liveness", f"{LEADER_SECONDS:.0f} s after the last fault nobody leads")
            self._raise()
        self.trace.note(f"{self.berth.name} leads in calm weather")

    async def _be_informed(self) -> None:
        """What was late arrives, and what was dropped for good is found by the comparison alone."""
        began = self.loop.time()
        await asyncio.sleep(LATE_SECONDS[1])
        while not all(endings.is_informed(self.store, berth.overseer) for berth in self.replicas):
            await asyncio.sleep(LOOK_SECONDS)
            passed = self.loop.time() - began
            self.berth.overseer.check_unschedulable()
            self.berth.overseer.check_echoes(began)
            if passed > INFORMED_SECONDS:
                self.trace.violate("7 columns", f"{passed:.0f} s after the last fault it does not know everything")
            self._raise()
        self.trace.note(f"everything is known {self.loop.time() - began:.0f} s after the last fault")

    async def _emptiness(self) -> None:
        self.trace.note("--- every pod goes")
        self.actors.clear()
        await asyncio.sleep(EMPTY_SECONDS)
        for berth in self.replicas:
            endings.check_empty(berth, self.trace)
        self._raise()

    async def _end(self) -> None:
        for berth in self.replicas:
            await self._stop(berth)
            endings.check_tasks(berth, self.trace)
            self._raise()

    # --- after every step --------------------------------------------------------------------------------------------

    def _after_step(self) -> None:
        if self._is_over:
            return
        for berth in self.replicas:
            if berth.is_alive:
                berth.overseer.check_step()
        if self._count > 1:
            self._seats.check_step()
        self._raise()
        if self.loop.steps > MOST_STEPS:
            raise Violation("10 liveness", f"{MOST_STEPS} steps, and no end")

    def _raise(self) -> None:
        if self.trace.violation is not None:
            raise self.trace.violation

    def _on_exception(self, _: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        if not self._is_over and not is_left_behind(context):
            self.trace.violate("14 faults", f"{context.get('message')}: {context.get('exception')!r}")

    def _on_log(self, record: logging.LogRecord) -> None:
        if not self._is_over:
            self.trace.violate("14 faults", f"logged: {record.getMessage()}")

    def _clear_away(self) -> None:
        """Let everything end, so that nothing of this run is left for the next."""
        self._is_over = True
        for berth in self.berths:
            berth.kill()
        for _ in range(20):
            tasks = asyncio.all_tasks(self.loop)
            if not tasks:
                break
            for berth in self.berths:
                berth.process.exhume()
            for task in tasks:
                task.cancel()
            with suppress(Stuck, RuntimeError):  # a stop that an earlier wait had asked for
                self.loop.run_until_complete(asyncio.wait(tasks, timeout=30.0))
        of_process.clear()
        asyncio.set_event_loop(None)
        self.loop.close()


class _Teller(logging.Handler):
    """Errors that are logged are told to somebody."""

    def __init__(self, on_error: Callable[[logging.LogRecord], None]) -> None:
        super().__init__(logging.ERROR)
        self._on_error = on_error

    def emit(self, record: logging.LogRecord) -> None:
        self._on_error(record)


@contextmanager
def _quiet_machine(on_error: Callable[[logging.LogRecord], None], parse: Parser, seed: object) -> Iterator[None]:
    """While a run goes on, what Berth logs as an error is told to `on_error`, and the names and the chance that it
    makes for itself come from the seed.

    Records are frozen, so that the cache may get those that were made for the check.
    """
    numbers = itertools.count()
    chance = SimpleNamespace(Random=lambda given=None: Random(f"{seed}/{next(numbers)}" if given is None else given))
    logger, teller = logging.getLogger("berth"), _Teller(on_error)
    before = logger.propagate, logger.level
    logger.propagate = False
    logger.setLevel(logging.ERROR)
    logger.addHandler(teller)
    try:
        with (
            mock.patch.object(wiring, "random", chance),
            mock.patch.object(wiring, "secrets", SimpleNamespace(token_hex=lambda _: f"{next(numbers):08x}")),
            mock.patch.object(wiring, "socket", SimpleNamespace(gethostname=lambda: "sim")),
            mock.patch.dict(OWN_PLUGINS, {Usher.name: Usher}),
            mock.patch.object(cache_module, "parse", parse.shared),
        ):
            yield
    finally:
        logger.removeHandler(teller)
        logger.propagate, logger.level = before


def run_seed(seed: int, show: Callable[[str], None] | None = None, *, hints: bool = True) -> Result:
    """`hints`: whether plugins may look at what has changed before an unschedulable pod is woken."""
    return Scenario(seed, show, hints=hints).run()
