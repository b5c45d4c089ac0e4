"""Replicas, a server and bad weather on virtual time: two fences are never open at once, and in the end one leads.

Every replica has clocks of its own, of which the time of day is wrong and may be set. Renewals and looks take their
time, get lost, or arrive long after their sender gave them up. Watches lag. Replicas are frozen, also between making a
renewal and sending it, cut off and killed. Some are of an earlier version: as kopf does, these remove the records that
are out of date by their own time of day. Of the others only the leader removes records, by its own clock.
"""

from __future__ import annotations

import copy
import heapq
import itertools
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from functools import partial
from random import Random
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from berth.cluster.leadership import Leadership, Question, Terms, parse_stamp, write_leader, write_record
from support.examples import examples

TERMS = Terms(10)
STEP_SECONDS = 0.05
STORM_SECONDS = 120.0
CALM_SECONDS = 60.0


class World:
    def __init__(self, seed: int, *, old_share: float = 0.3, is_calm: bool = False) -> None:
        self.random = Random(seed)
        self.now = 0.0
        self.is_calm = is_calm
        self.old_share = old_share
        self._due: list[tuple[float, int, Callable[[], None]]] = []
        self._numbers = itertools.count()
        self.records: dict[str, Any] = {}
        self.leader = ""
        self.version = 1
        self.replicas = [Replica(self, f"r{number}") for number in range(3)]

    def later(self, seconds: float, work: Callable[[], None]) -> None:
        heapq.heappush(self._due, (self.now + seconds, next(self._numbers), work))

    @property
    def view(self) -> tuple[str, Any, str]:
        return str(self.version), copy.deepcopy(self.records), self.leader

    def patch(self, changes: dict[str, Any]) -> None:
        for identity, record in changes.items():
            if record is None:
                self.records.pop(identity, None)
            else:
                self.records[identity] = record
        self.tell()

    def remove(self, identity: str, stamp: str) -> None:
        """Unless it was renewed meanwhile."""
        if self.records.get(identity, {}).get("lastseen") == stamp:
            self.patch({identity: None})

    def claim(self, leader: str) -> None:
        self.leader = leader
        self.tell()

    def tell(self) -> None:
        self.version += 1
        for replica in self.replicas:
            replica.notify(self.view)

    def step(self) -> None:
        self.now += STEP_SECONDS
        while self._due and self._due[0][0] <= self.now:
            heapq.heappop(self._due)[2]()
        for replica in self.replicas:
            replica.step()

    def open_fences(self) -> list[Replica]:
        return [replica for replica in self.replicas if replica.runs and replica.is_open]


class Replica:
    def __init__(self, world: World, name: str) -> None:
        self.world, self.name, self.random = world, name, world.random
        self.incarnation = 0
        self.frozen_until = self.cut_until = self.dead_until = 0.0
        self.skew = self.random.choice([0, 0, 0, 0, -0.5, 3, -30, 45, 3600])
        self.is_old = self.random.random() < world.old_share
        self.last_open = -100.0
        self._watched_until = 0.0  # the watch keeps its order
        self._events: list[tuple[str, Any, str]] = []
        self.start()

    def start(self) -> None:
        self.incarnation += 1
        self.identity = f"{self.name}-{self.incarnation}"
        self.is_leading = self.is_asking = False
        self.asked_as: int | None = None
        self.next_renewal = self.world.now + self.random.uniform(0, 3)
        self.next_entry = self.next_cleaning = 0.0
        self.has_entered = False
        self.unsent: dict[str, Any] | None = None
        self.leadership = Leadership(
            self.identity, TERMS, now=lambda: self.world.now, wall=self.wall, random=Random(self.random.random())
        )
        self.leadership.observe(*self.world.view)
        self._events = []

    def wall(self) -> datetime:
        return datetime(2026, 1, 1, tzinfo=UTC) + timedelta(seconds=self.world.now + self.skew)

    @property
    def runs(self) -> bool:
        return self.world.now >= max(self.frozen_until, self.dead_until)

    @property
    def is_open(self) -> bool:
        return self.is_leading and self.leadership.may_lead()

    # --- the network

    def delay(self) -> float:
        if self.world.is_calm:
            return self.random.uniform(0.001, 0.05)
        usual = self.random.uniform(0.001, 0.1) if self.random.random() < 0.97 else self.random.uniform(0.1, 12.0)
        return max(self.cut_until - self.world.now, 0.0) + usual

    def notify(self, view: tuple[str, Any, str]) -> None:
        """The watch will show this."""
        self._watched_until = max(self._watched_until, self.world.now + self.delay())
        incarnation = self.incarnation

        def arrive() -> None:
            if self.incarnation == incarnation:
                self._events.append(view)

        self.world.later(self._watched_until - self.world.now, arrive)

    def send(self, changes: dict[str, Any]) -> None:
        if self.world.is_calm or self.random.random() < 0.98:  # else it is lost
            self.world.later(self.delay(), lambda: self.world.patch(changes))

    # --- what a replica does

    def step(self) -> None:
        if self.world.now < self.dead_until:
            return
        if self.dead_until and self.identity.endswith("-dead"):
            self.start()
        if not self.runs:
            return
        self.weather()
        if self.runs:
            self.act()

    def act(self) -> None:
        self.send_late()
        self.look()
        if self.is_open:
            self.last_open = self.world.now
        events, self._events = self._events, []
        for view in events:
            self.leadership.observe(*view)
            if self.is_old:
                self.clean(view[1])
        if self.world.now >= self.next_renewal:
            self.next_renewal = self.world.now + self.random.randint(1, 5)
            self.renew()
        self.enter_soon()
        if not self.is_old and self.is_open and self.world.now >= self.next_cleaning:
            self.next_cleaning = self.world.now + TERMS.lifetime_seconds
            for identity, stamp in self.leadership.outdated().items():
                self.world.later(self.delay(), partial(self.world.remove, identity, stamp))

    def renew(self) -> None:
        self.send({self.identity: write_record(self.leadership.renew(), TERMS, self.wall())})

    def send_late(self) -> None:
        """A renewal that was made before a freeze."""
        unsent, self.unsent = self.unsent, None
        if unsent is not None and self.leadership.stands(unsent["priority"]):
            self.send({self.identity: unsent})

    def enter_soon(self) -> None:
        """Read the object if that has to be, and write our record."""
        if self.has_entered and self.leadership.is_outside and self.world.now >= self.next_entry:
            self.next_entry = self.world.now + 1
            if self.leadership.must_look:
                self.world.later(self.delay(), partial(self.read, self.leadership.ask(), self.incarnation))
            else:
                self.renew()
        self.has_entered = self.has_entered or not self.leadership.is_outside

    def read(self, question: Question, incarnation: int) -> None:
        view = self.world.view

        def answer() -> None:
            if self.incarnation == incarnation:
                if not self.runs:
                    return self.world.later(0.05, answer)
                self.leadership.answer(question, *view)
            return None

        self.world.later(self.delay(), answer)

    def clean(self, records: Any) -> None:
        """As kopf does it: by this replica's time of day."""
        out: dict[str, None] = {}
        for identity, record in records.items():
            stamp = parse_stamp(record["lastseen"])
            if stamp is not None and stamp + timedelta(seconds=record["lifetime"]) <= self.wall():
                out[identity] = None
        if out:
            self.send(out)

    def look(self) -> None:
        if self.is_leading:
            if not self.leadership.is_alive() or self.leadership.seniors():
                self.is_leading = False
        elif not self.is_asking and self.leadership.may_lead():
            self.is_asking = True
            self.asked_as = self.leadership.priority
            self.world.later(self.delay(), self.ask)

    def ask(self) -> None:
        self.world.claim(write_leader(self.identity, TERMS))
        view, incarnation = self.world.view, self.incarnation

        def answer() -> None:
            if self.incarnation == incarnation:
                if not self.runs or self.leadership.version < int(view[0]):  # until the watch shows what was written
                    return self.world.later(0.05, answer)
                self.is_asking = False
                self.is_leading = self.leadership.may_lead() and self.leadership.priority == self.asked_as
            return None

        self.world.later(self.delay(), answer)

    def weather(self) -> None:
        if self.world.is_calm:
            return
        now, chance = self.world.now, self.random.random() / STEP_SECONDS
        if chance < 0.02:
            if self.random.random() < 0.3:
                self.unsent = write_record(self.leadership.renew(), TERMS, self.wall())
            self.frozen_until = now + self.random.uniform(0, 25)
        elif chance < 0.04:
            self.cut_until = now + self.random.uniform(0, 25)
        elif chance < 0.05:
            self.skew += self.random.choice([-3600, -20, -5, -0.3, 0.3, 5, 20, 3600])
        elif chance < 0.07:
            self.dead_until, self.is_leading, self.identity = now + self.random.uniform(0, 5), False, "x-dead"


@given(st.integers(0, 2**32))
@settings(max_examples=examples(60))
def test_two_fences_are_never_open_at_once_and_in_the_end_one_leads(seed: int) -> None:
    world = World(seed)
    while world.now < STORM_SECONDS:
        world.step()
        check(world)
    world.is_calm = True
    for replica in world.replicas:
        replica.frozen_until = replica.cut_until = min(replica.frozen_until, world.now)
    while world.now < STORM_SECONDS + CALM_SECONDS:
        world.step()
        check(world)
    assert len(world.open_fences()) == 1


@given(st.integers(0, 2**32), st.sampled_from([12.0, 25.0, 60.0]))
@settings(max_examples=examples(30))
def test_a_leader_that_was_frozen_and_goes_on_takes_the_lead_from_nobody(seed: int, seconds: float) -> None:
    world = World(seed, old_share=0.0, is_calm=True)
    frozen = lead_of(world)
    if world.random.random() < 0.5:
        frozen.unsent = write_record(frozen.leadership.renew(), TERMS, frozen.wall())
    frozen.frozen_until = world.now + seconds
    play(world, seconds - 0.5)
    (leader,) = world.open_fences()
    assert leader is not frozen
    while world.now < frozen.frozen_until + 3 * TERMS.lifetime_seconds:
        world.step()
        check(world)
        assert world.open_fences() == [leader]
    priorities = {replica.name: replica.leadership.priority or 0 for replica in world.replicas}
    assert min(priorities, key=priorities.__getitem__) == frozen.name


@given(st.integers(0, 2**32))
@settings(max_examples=examples(20))
def test_a_record_that_nobody_renews_is_removed_and_no_other(seed: int) -> None:
    world = World(seed, old_share=0.0, is_calm=True)
    leader = lead_of(world)
    dead = next(replica for replica in world.replicas if replica is not leader)
    identity, dead.dead_until = dead.identity, world.now + 10 * TERMS.lifetime_seconds
    others = {replica.identity for replica in world.replicas if replica is not dead}
    play(world, TERMS.lifetime_seconds)
    assert identity in world.records
    play(world, 3 * TERMS.lifetime_seconds)
    assert world.records.keys() == others
    assert world.open_fences() == [leader]


def lead_of(world: World) -> Replica:
    """The replica that leads once all have settled."""
    play(world, CALM_SECONDS)
    (leader,) = world.open_fences()
    return leader


def play(world: World, seconds: float) -> None:
    end = world.now + seconds
    while world.now < end:
        world.step()
        check(world)


def check(world: World) -> None:
    for leader in world.open_fences():
        for other in world.replicas:
            if other is not leader:
                quiet = world.now - other.last_open
                assert quiet >= TERMS.request_seconds - 2 * STEP_SECONDS, (leader.identity, other.identity, quiet)
