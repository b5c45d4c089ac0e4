"""One seed, from its first object to its last check.

storm      faults, acts, kills; after every step the invariants of the moment hold
calm       no more faults and acts: what was never told is found out, every pod that fits is bound soon, every other
           says why, nothing goes on turning
emptiness  every pod is deleted: nothing is left of them
end        it is stopped in order, and leaves no task behind
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from random import Random
from types import SimpleNamespace
from typing import Any
from unittest import mock

from berth import model, runtime
from berth.engine.registry import OWN_PLUGINS
from berth.scheduler import cache as cache_module
from berth.sim.loop import SeededLoop, Stuck
from berth.sim.virtual_clock import VirtualClock
from simulation import endings
from simulation.actors import Actors
from simulation.berth_process import BerthProcess
from simulation.knowledge import Parser
from simulation.recording import RecordingStore
from simulation.trace import Trace, Violation
from simulation.usher import Usher, of_process
from simulation.watcher import LATE_SECONDS
from simulation.weather import Weather

STORM_SECONDS = (30.0, 100.0)
TROUBLE_SECONDS = 20.0  # on average, between two that hit Berth as a whole
INFORMED_SECONDS = 600.0  # until the regular comparison has found what was never told
CALM_SECONDS = 100.0  # until everything that fits is bound; less than the flush, which would hide a pod that was lost
LOOK_SECONDS = 10.0
LOOKS = 0.08  # at everything that is kept, for each act
FLUSH_SECONDS = 330.0
WATCH_SECONDS = 60.0  # in which nothing may go on turning
EMPTY_SECONDS = 60.0
MOST_STEPS = 400_000


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
    attempts: int = 0
    virtual_seconds: float = 0.0


class Scenario:
    """Everything of one run."""

    def __init__(self, seed: int, show: Callable[[str], None] | None = None, *, hints: bool = True) -> None:
        self.seed = seed
        self._hints = hints
        self.loop = SeededLoop(seed)
        self.trace = Trace(self.loop.time, show)
        self.random = Random(f"scenario/{seed}")
        self.weather = Weather(seed)
        self.clock = VirtualClock(self.loop)
        self.store = RecordingStore(self.clock.wall, seed, self.trace)
        self.actors = Actors(seed, self.store, self._under_way, self._held)
        self.counts: Counter[str] = Counter()
        self._parse = Parser()
        self._bound: dict[str, tuple[str, int]] = {}
        self.berths: list[BerthProcess] = []
        self._is_over = False

    @property
    def berth(self) -> BerthProcess:
        return self.berths[-1]

    def _under_way(self) -> list[str]:
        paths = [request.path.split("/") for request in self.berth.api.under_way if request.is_bind]
        return [f"{path[4]}/{path[6]}" for path in paths] if self.berths else []

    def _held(self) -> set[str]:
        assumed = self.berth.runtime._cache.assumed() if self.berths else {}
        return {assumption.node_name for assumption in assumed.values()}

    # --- the run -----------------------------------------------------------------------------------------------------

    def run(self) -> Result:
        asyncio.set_event_loop(self.loop)
        self.loop.on_step = self._after_step
        self.loop.set_exception_handler(self._on_exception)
        result = Result(self.seed)
        with _quiet_machine(self._on_log, self._parse):
            try:
                self.loop.run_until_complete(self._play())
            except Violation as violation:
                result.violation, result.lines = str(violation), self.trace.about(violation.subjects)
            except Stuck as stuck:
                result.violation, result.lines = f"10 liveness: {stuck}", self.trace.about(())
            finally:
                result.digest, result.steps = self.trace.digest(), self.loop.steps
                result.virtual_seconds = self.loop.time()
                result.decisions = sum(berth.overseer.decisions for berth in self.berths)
                result.attempts = sum(berth.overseer.attempts.total() for berth in self.berths)
                result.faults, result.acts = self.counts + self.weather.counts, self.actors.counts
                result.checks = sum((berth.overseer.pushing.counts for berth in self.berths), Counter())
                self._clear_away()
        return result

    async def _play(self) -> None:
        self.actors.furnish()
        self._start_berth()
        await self._storm()
        await self._calm()
        await self._emptiness()
        await self._end()

    def _start_berth(self) -> None:
        berth = BerthProcess(
            len(self.berths), self.loop, self.store, self.weather, self.trace, self._parse, self._bound
        )
        if not self._hints:
            berth.runtime._queue.hints = None
        self.berths.append(berth)
        berth.start()

    # --- storm -------------------------------------------------------------------------------------------------------

    async def _storm(self) -> None:
        end = self.loop.time() + self.random.uniform(*STORM_SECONDS)
        pace = self.random.choice((0.15, 0.4, 0.8))
        troubles = [trouble for trouble in self._troubles() if self.random.random() < 0.5]
        keeping = asyncio.ensure_future(self._keep_nodes())
        trouble = self.loop.time() + self.random.expovariate(1.0 / TROUBLE_SECONDS)
        while self.loop.time() < end:
            await asyncio.sleep(self.random.expovariate(1.0 / pace))
            self.actors.act()
            if troubles and self.loop.time() >= trouble:
                await self.random.choice(troubles)()
                trouble = self.loop.time() + self.random.expovariate(1.0 / TROUBLE_SECONDS)
            if self.random.random() < LOOKS:
                self.berth.overseer.check_columns()
                self.berth.overseer.check_parked()
        keeping.cancel()

    def _troubles(self) -> list[Callable[[], Any]]:
        return [self._kill, self._restart, self._freeze, self._outage, self._jump, self._watch_again, self._deafen]

    async def _keep_nodes(self) -> None:
        while True:
            await asyncio.sleep(1.0)
            self.actors.keep_nodes(finishing=not self.weather.calm)

    async def _kill(self) -> None:
        self.counts["kill"] += 1
        self.berth.kill()
        await asyncio.sleep(self.random.choice((0.0, 0.01, 3.0)))
        self._start_berth()

    async def _restart(self) -> None:
        self.counts["restart"] += 1
        berth = self.berth
        stopping = berth.process.start(berth.stop())
        await asyncio.wait([stopping], timeout=90.0)
        if not stopping.done():
            self.trace.violate("10 liveness", "a stop takes longer than 90 s")
        berth.process.kill()
        self._start_berth()

    async def _freeze(self) -> None:
        self.counts["freeze"] += 1
        berth = self.berth
        self.trace.note(f"{berth.name} is paused")
        berth.process.pause()
        seconds = self.random.choice((0.5, 5.0, 20.0))
        self.loop.call_outside(seconds, self._thaw, berth)

    def _thaw(self, berth: BerthProcess) -> None:
        if berth.process.is_paused:
            self.trace.note(f"{berth.name} goes on")
            berth.process.resume()

    async def _outage(self) -> None:
        self.counts["outage"] += 1
        seconds = self.random.choice((1.0, 5.0, 25.0))
        self.trace.note(f"the API server is away for {seconds:g} s")
        self.weather.outage_until = self.loop.time() + seconds

    async def _jump(self) -> None:
        self.counts["clock jump"] += 1
        seconds = self.random.choice((-3600.0, -5.0, 5.0, 3600.0))
        self.trace.note(f"the clock of {self.berth.name} jumps by {seconds:g} s")
        self.berth.clock.jump(seconds)

    async def _watch_again(self) -> None:
        self.counts["watching restarts"] += 1
        if not self.berth.process.is_paused:
            self.berth.watch_again()

    async def _deafen(self) -> None:
        self.counts["watch falls silent"] += 1
        self.berth.deafen(self.random.choice(("Pod", "Pod", "Node")), self.random.choice((5.0, 20.0, 60.0, 150.0)))

    # --- calm --------------------------------------------------------------------------------------------------------

    async def _calm(self) -> None:
        self.trace.note("--- calm")
        self.weather.calm = True
        self.weather.outage_until = 0.0
        self._thaw(self.berth)
        keeping = asyncio.ensure_future(self._keep_nodes())
        await self._be_informed()
        overseer = self.berth.overseer
        await asyncio.sleep(CALM_SECONDS)
        endings.check_settled(self.store, overseer, self.trace, flushed=False)
        pushers = endings.pushers(self.store, overseer)
        refused = any(overseer.was_refused_by_usher(item.uid) for item in overseer._queue.items())
        if pushers or refused:  # a pod that comes onto a node wakes nobody who could push it out: only the flush does
            await asyncio.sleep(FLUSH_SECONDS)
            endings.check_pushers(pushers, endings.pushers(self.store, overseer), self.trace)
            endings.check_settled(self.store, overseer, self.trace)
        before = endings.Turning.of(self.berth)
        await asyncio.sleep(WATCH_SECONDS)
        endings.check_rest(before, self.berth, self.trace)
        self.berth.overseer.check_columns()
        self.berth.overseer.check_parked()
        self._raise()
        keeping.cancel()

    async def _be_informed(self) -> None:
        """What was late arrives, and what was dropped for good is found by the comparison alone."""
        began = self.loop.time()
        await asyncio.sleep(LATE_SECONDS[1])
        while not endings.is_informed(self.store, self.berth.overseer):
            await asyncio.sleep(LOOK_SECONDS)
            passed = self.loop.time() - began
            self.berth.overseer.check_parked()
            self.berth.overseer.check_echoes(began)
            if passed > INFORMED_SECONDS:
                self.trace.violate("7 columns", f"{passed:.0f} s after the last fault it does not know everything")
            self._raise()
        self.trace.note(f"everything is known {self.loop.time() - began:.0f} s after the last fault")

    async def _emptiness(self) -> None:
        self.trace.note("--- every pod goes")
        self.actors.clear()
        await asyncio.sleep(EMPTY_SECONDS)
        endings.check_empty(self.berth, self.trace)
        self._raise()

    async def _end(self) -> None:
        berth = self.berth
        stopping = berth.process.start(berth.stop())
        await asyncio.wait([stopping], timeout=90.0)
        if not stopping.done():
            self.trace.violate("10 liveness", "a stop takes longer than 90 s")
        endings.check_tasks(berth, self.trace)
        self._raise()

    # --- after every step --------------------------------------------------------------------------------------------

    def _after_step(self) -> None:
        if self._is_over:
            return
        if self.berths and self.berth.is_alive:
            self.berth.overseer.check_step()
        self._raise()
        if self.loop.steps > MOST_STEPS:
            raise Violation("10 liveness", f"{MOST_STEPS} steps, and no end")

    def _raise(self) -> None:
        if self.trace.violation is not None:
            raise self.trace.violation

    def _on_exception(self, _: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        if not self._is_over:
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
def _quiet_machine(on_error: Callable[[logging.LogRecord], None], parse: Parser) -> Iterator[None]:
    """While a run goes on: Berth leaves the collector alone, and what it logs as an error is told to `on_error`.

    Records are frozen, so that the cache may get those that were made for the check; unless its parser is mutated.
    """
    logger, teller = logging.getLogger("berth"), _Teller(on_error)
    before = logger.propagate, logger.level
    logger.propagate = False
    logger.setLevel(logging.ERROR)
    logger.addHandler(teller)
    shipped = vars(cache_module)["parse"]
    idle = {"collect": int, "freeze": int, "get_threshold": lambda: (0, 0, 0), "set_threshold": lambda *_: None}
    try:
        with (
            mock.patch.object(runtime, "gc", SimpleNamespace(**idle)),
            mock.patch.dict(OWN_PLUGINS, {Usher.name: Usher}),
            mock.patch.object(cache_module, "parse", parse.shared if shipped is model.parse else shipped),
        ):
            yield
    finally:
        logger.removeHandler(teller)
        logger.propagate, logger.level = before


def run_seed(seed: int, show: Callable[[str], None] | None = None, *, hints: bool = True) -> Result:
    """`hints`: whether plugins may look at what has changed before a parked pod is woken."""
    return Scenario(seed, show, hints=hints).run()
