"""Three replicas under a stream of pods, whose leader is killed, frozen and cut off: nobody notices.

On the real API server they have the chart's configuration and the rights of its service account, and no others.

Nothing is lost, nothing bound twice, no node over its capacity, although the cluster is filled to the last pod, and 50
more, while the lead changes; and by what the API server was asked, no bind comes from a replica later than one request
timeout after its fence closed. How long the takeovers took is printed (`-s` shows it) and goes into the report.
"""

from __future__ import annotations

import asyncio
import base64
import json
import signal
import subprocess
from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import ExitStack, asynccontextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from statistics import median

import pytest
import yaml

from berth.cluster.leadership import LONGEST_LIFETIME_SECONDS, Terms
from berth.cluster.peering import LEADER
from chart.applying import account_token, apply_rights, write_kubeconfig
from chart.rendering import CHART, render
from control_plane.berth_process import BerthProcess, berth_command
from control_plane.client import PODS, Client, Object
from control_plane.embedded import EmbeddedPlane
from control_plane.launcher import Bind, ControlPlane
from control_plane.replicas import Replica, Replicas
from end_to_end.watching import Plane, bound, names, overfull_nodes, pending, refusal
from support.builders import make_node, make_pod

SHORT_LIFETIME_SECONDS = 5
PODS_A_NODE = 10
MORE_PODS = 50
PACE_SECONDS = 0.1
SLACK = timedelta(seconds=0.1)  # between our clock's reading and the API server's

pytestmark = pytest.mark.usefixtures("crds")


@dataclass(frozen=True)
class Rounds:
    """How often, and for how long."""

    kills: int
    freezes: int
    cuts: int
    outage_seconds: float
    nodes: int
    lifetime_seconds: int = SHORT_LIFETIME_SECONDS


FEW_EMBEDDED = Rounds(kills=2, freezes=1, cuts=2, outage_seconds=8, nodes=15)
FEW = Rounds(kills=10, freezes=5, cuts=5, outage_seconds=20, nodes=50)


@pytest.fixture
def rounds(control_plane: Plane, request: pytest.FixtureRequest) -> Rounds:
    if isinstance(control_plane, EmbeddedPlane):
        return FEW_EMBEDDED
    return full_rounds() if request.config.getoption("--rounds") == "full" else FEW


def full_rounds() -> Rounds:
    """As promised; and with the chart's lifetime of records, so that the takeovers take as long as users see them."""
    values = yaml.safe_load((CHART / "values.yaml").read_text())
    return replace(FEW, outage_seconds=300, lifetime_seconds=values["leaderElection"]["lifetimeSeconds"])


class Stream:
    """Pods at a steady pace; the oldest end when the cluster is nearly full. Names are never used twice."""

    def __init__(self, api: Client, room: int) -> None:
        self._api = api
        self._room = room
        self._made = 0
        self._is_full = False
        self.there: list[str] = []

    async def run(self) -> None:
        """Until the cluster is to be filled; then to the last pod, and some more."""
        while not self._is_full:
            await self._make(1)
            if len(self.there) > 0.8 * self._room:
                ending, self.there = self.there[: self._room // 5], self.there[self._room // 5 :]
                for name in ending:
                    await self._api.delete(f"/api/v1/namespaces/default/pods/{name}")
            await asyncio.sleep(PACE_SECONDS)

        await self._make(self._room + MORE_PODS - len(self.there))

    def fill(self) -> None:
        self._is_full = True

    async def _make(self, count: int) -> None:
        fresh = [f"pod-{number:05}" for number in range(self._made, self._made + count)]
        self._made += count
        self.there += fresh
        await self._api.create_many((make_pod(name, cpu="400m") for name in fresh), concurrency=8)


@dataclass(frozen=True)
class Fault:
    """What is done to a leader, and how it is undone."""

    name: str
    begin: Callable[[Replica], None]
    end: Callable[[Replica], None]


def _thaw(replica: Replica) -> None:
    replica.berth.process.signal(signal.SIGCONT)


def _start(replica: Replica) -> None:
    replica.berth.start()


KILL = Fault("kill -9", Replica.kill, _start)
FREEZE = Fault("SIGSTOP", lambda replica: replica.berth.process.signal(signal.SIGSTOP), _thaw)
CUT = Fault("cut", lambda replica: replica.proxy.cut(), lambda replica: replica.proxy.heal())
SWALLOW = Fault("cut off in silence", lambda replica: replica.proxy.swallow(), lambda replica: replica.proxy.heal())


@pytest.mark.slow
async def test_a_leader_may_be_killed_frozen_and_cut_off_and_nobody_notices(
    control_plane: Plane, api: Client, tmp_path: Path, rounds: Rounds, record_property: Callable[[str, object], None]
) -> None:
    room = rounds.nodes * PODS_A_NODE
    await api.create_many(make_node(f"node-{number:03}", cpu="4") for number in range(rounds.nodes))
    faults = [KILL] * rounds.kills + [FREEZE] * rounds.freezes + ([CUT, SWALLOW] * rounds.cuts)[: rounds.cuts]
    faults = faults[1::2] + faults[::2]  # mixed
    stream = Stream(api, room)
    took: list[tuple[str, datetime, Replica]] = []
    began = datetime.now(UTC)
    async with running(control_plane, tmp_path, lifetime_seconds=rounds.lifetime_seconds) as replicas:
        flow = asyncio.create_task(stream.run())
        for number, fault in enumerate(faults, 1):
            leader = await bind_by(replicas)
            took.append((fault.name, datetime.now(UTC), leader))
            await asyncio.to_thread(fault.begin, leader)
            if number == len(faults):  # while nobody leads
                stream.fill()
                await flow
            await bind_by(replicas, leader)
            await asyncio.to_thread(fault.end, leader)
            await until(lambda leader=leader: leader.berth.ready and not leader.leads)  # type: ignore[misc]
        pods = await api.wait_until(
            PODS,
            lambda pods: len(bound(pods)) == room and all(map(refusal, pending(pods))),
            timeout_seconds=120,
        )
        assert await asyncio.to_thread(replicas.finish) == [0, 0, 0], replicas.tails()
    assert names(pods.values()) == set(stream.there)
    assert await overfull_nodes(api) == []
    binds = [bind for bind in replicas.binds() if bind.received >= began]
    assert bound_more_than_once(binds) == []
    assert too_late(binds, replicas, Terms(rounds.lifetime_seconds)) == []
    times = takeovers(took, binds)
    report = (
        f"takeovers with a lifetime of {rounds.lifetime_seconds} s: median {median(times.values()):.1f} s, "
        f"worst {max(times.values()):.1f} s: {times}"
    )
    record_property("takeovers", report)
    print(f"\n{len(binds)} binds; {report}")


@pytest.mark.slow
async def test_a_leader_that_was_frozen_and_goes_on_takes_the_lead_from_nobody(
    control_plane: Plane, api: Client, tmp_path: Path
) -> None:
    """With real processes; `tests/simulation/test_thawing.py` has it in every order of what waited for them."""
    lifetime_seconds = SHORT_LIFETIME_SECONDS
    await api.create_many(make_node(f"node-{number:03}", cpu="4") for number in range(5))
    stream = Stream(api, 5 * PODS_A_NODE)
    async with running(control_plane, tmp_path, lifetime_seconds=lifetime_seconds) as replicas:
        flow = asyncio.create_task(stream.run())
        frozen = await bind_by(replicas)
        FREEZE.begin(frozen)
        leader = await bind_by(replicas, frozen)  # a lifetime later
        openings = leader.openings()
        FREEZE.end(frozen)
        thawed = datetime.now(UTC)
        await asyncio.sleep(1.2 * lifetime_seconds)
        assert leader.openings() == openings  # its fence has been open all the time
        assert openings[-1].end is None
        assert all(opening.begin < thawed for each in replicas.each for opening in each.openings())
        assert leader.leads
        await until(lambda: frozen.berth.ready and not frozen.leads)
        assert await bind_by(replicas) is leader
        flow.cancel()


def test_the_full_run_shows_takeovers_as_users_of_the_chart_see_them() -> None:
    rounds = full_rounds()

    assert rounds.lifetime_seconds == render().configuration["peeringLifetimeSeconds"] == Terms().lifetime_seconds
    assert (rounds.kills, rounds.freezes, rounds.cuts, rounds.outage_seconds) == (10, 5, 5, 300)


@asynccontextmanager
async def running(
    plane: Plane, folder: Path, *, count: int = 3, lifetime_seconds: int = SHORT_LIFETIME_SECONDS
) -> AsyncIterator[Replicas]:
    """Replicas that are ready; their logs are shown if the block fails. Starting and ending them blocks."""
    if isinstance(plane, ControlPlane):
        make = partial(of_the_chart, plane, folder, count)
    else:
        make = partial(Replicas, plane, folder, count=count)
    replicas = await asyncio.to_thread(partial(make, lifetime_seconds=lifetime_seconds))
    await asyncio.to_thread(replicas.__enter__)
    try:
        yield replicas
    except BaseException:
        print(replicas.tails())
        raise
    finally:
        await asyncio.to_thread(replicas.__exit__, None, None, None)


def of_the_chart(plane: ControlPlane, folder: Path, count: int, *, lifetime_seconds: int) -> Replicas:
    """Each with a token of its own, by which the audit log tells them apart."""
    chart = apply_rights(plane)
    tokens = [account_token(plane) for _ in range(count)]
    configuration = folder / "berth.yaml"
    configuration.write_text(yaml.safe_dump(chart.configuration))

    def kubeconfig(number: int, port: int) -> Path:
        return write_kubeconfig(folder / f"{number}.kubeconfig", f"https://127.0.0.1:{port}", tokens[number])

    return Replicas(
        plane,
        folder,
        count=count,
        lifetime_seconds=lifetime_seconds,
        kubeconfig=kubeconfig,
        users=[credential_of(token) for token in tokens],
        # In a cluster each replica has an address of its own, here all share one.
        arguments=[f"--config={configuration}", "--explain-address=127.0.0.1:0"],
    )


def credential_of(token: str) -> str:
    """What the audit log calls a token of a service account."""
    claims = token.split(".")[1]
    decoded = json.loads(base64.urlsafe_b64decode(claims + "=" * (-len(claims) % 4)))
    return f"JTI={decoded['jti']}"


async def bind_by(replicas: Replicas, *others: Replica) -> Replica:
    """Whoever leads and is none of these, when he has bound something; on a slow machine the lead may wander."""
    since = datetime.now(UTC)
    found: list[Replica] = []

    def look() -> bool:
        binders = {bind.user for bind in replicas.binds() if bind.received > since}
        found[:] = [each for each in replicas.each if each not in others and each.name in binders and each.leads]
        return bool(found)

    await until(look, timeout_seconds=120)
    return found[0]


async def until(condition: Callable[[], bool], *, timeout_seconds: float = 60) -> None:
    async with asyncio.timeout(timeout_seconds):
        while not await asyncio.to_thread(condition):  # noqa: ASYNC110, it happens in another process
            await asyncio.sleep(0.05)


def bound_more_than_once(binds: list[Bind]) -> list[str]:
    """Of the embedded cluster the answers are not known here; the contract tests show that it refuses a second bind."""
    times = Counter(bind.pod for bind in binds if bind.status == 201)
    return [pod for pod, count in times.items() if count > 1]


def too_late(binds: list[Bind], replicas: Replicas, terms: Terms) -> list[Bind]:
    """Those that came from a replica later than one request timeout after its fence closed, or before it opened."""
    timeout = timedelta(seconds=terms.request_seconds) + SLACK
    openings = {replica.name: replica.openings() for replica in replicas.each}
    return [
        bind
        for bind in binds
        if not any(
            opening.begin - SLACK <= bind.received and (opening.end is None or bind.received <= opening.end + timeout)
            for opening in openings[bind.user]
        )
    ]


def takeovers(took: list[tuple[str, datetime, Replica]], binds: list[Bind]) -> dict[str, float]:
    """Seconds from what happened to the leader to the first bind by another one."""
    found = {}
    for number, (name, moment, leader) in enumerate(took):
        first = next(bind for bind in binds if bind.received > moment and bind.user != leader.name)
        found[f"{name} #{number}"] = round((first.received - moment).total_seconds(), 1)
    return found


async def test_when_the_api_server_was_away_all_replicas_go_on_and_one_leads(
    control_plane: Plane, api: Client, tmp_path: Path, rounds: Rounds
) -> None:
    await api.create_many(make_node(f"node-{number}", cpu="4") for number in range(5))
    async with running(control_plane, tmp_path, lifetime_seconds=rounds.lifetime_seconds) as replicas:
        await asyncio.to_thread(replicas.wait_leader)
        pids = [replica.berth.process.pid for replica in replicas.each]
        await api.create_many(make_pod(f"before-{number}", cpu="400m") for number in range(20))
        await api.wait_until(PODS, lambda pods: len(bound(pods)) == 20, timeout_seconds=30)
        await asyncio.to_thread(control_plane.stop_api_server)
        await asyncio.sleep(rounds.outage_seconds)
        assert [replica.berth.get("/livez")[0] for replica in replicas.each] == [200] * 3
        assert replicas.leader is None
        await asyncio.to_thread(control_plane.start_api_server)
        await api.create_many(make_pod(f"after-{number}", cpu="400m") for number in range(20))
        await api.wait_until(PODS, lambda pods: len(bound(pods)) == 40, timeout_seconds=90)
        await until(lambda: all(replica.berth.ready for replica in replicas.each) and replicas.leader is not None)
        assert sum(replica.leads for replica in replicas.each) == 1
        assert [replica.berth.process.pid for replica in replicas.each] == pids
        assert await asyncio.to_thread(replicas.finish) == [0, 0, 0], replicas.tails()
    assert await overfull_nodes(api) == []


async def test_a_leader_that_is_stopped_hands_over_at_once(control_plane: Plane, api: Client, tmp_path: Path) -> None:
    await api.create(make_node("n"))
    lifetime_seconds = LONGEST_LIFETIME_SECONDS
    async with running(control_plane, tmp_path, count=2, lifetime_seconds=lifetime_seconds) as replicas:
        leader = await asyncio.to_thread(replicas.wait_leader)
        status = await asyncio.to_thread(leader.berth.stop)
        await api.create(make_pod("p"))
        # Half a lifetime, and mostly this machine's doing: without a word from the leader it would take a whole one.
        await api.wait_until(PODS, lambda pods: len(bound(pods)) == 1, timeout_seconds=lifetime_seconds / 2)
        assert status == 0
        (other,) = [replica for replica in replicas.each if replica is not leader]
        assert other.leads
        assert await asyncio.to_thread(other.berth.stop) == 0
    (peering,) = await api.list("/apis/kopf.dev/v1/clusterkopfpeerings")
    assert peering.get("status", {}) == {}
    assert LEADER not in (peering["metadata"].get("annotations") or {})


def only_embedded(plane: Plane) -> None:
    if isinstance(plane, ControlPlane):
        pytest.skip(
            "what goes through a connection to the real API server cannot be read, so no watch can be told apart"
        )


async def test_a_leader_whose_watch_of_pods_alone_is_dead_leaves_the_lead_to_others(
    control_plane: Plane, api: Client, tmp_path: Path
) -> None:
    only_embedded(control_plane)
    async with running(control_plane, tmp_path) as replicas:
        leader = await asyncio.to_thread(replicas.wait_leader)
        await api.create_many(make_pod(f"pod-{number:02}", cpu="400m") for number in range(15))
        await api.wait_until(PODS, lambda pods: all(map(refusal, pods.values())), timeout_seconds=30)
        leader.proxy.mute(b"GET /api/v1/pods?", b"watch=")
        await api.create(make_node("one", cpu="4"))
        await api.wait_until(PODS, lambda pods: len(bound(pods)) == 10, timeout_seconds=30)
        await asyncio.to_thread(replicas.wait_leader, leader)
        await api.create(make_node("two", cpu="4"))
        await api.wait_until(PODS, lambda pods: len(bound(pods)) == 15, timeout_seconds=30)
        assert not leader.leads
        leader.proxy.heal()
        assert await asyncio.to_thread(replicas.finish) == [0, 0, 0], replicas.tails()
    assert await overfull_nodes(api) == []
    assert "the watch has not shown a bind that was acknowledged" in leader.berth.process.log_text()


async def test_berth_leader_shows_who_leads_and_who_stands_by(
    control_plane: Plane, kubeconfig: Path, tmp_path: Path
) -> None:
    async with running(control_plane, tmp_path, count=2) as replicas:
        await asyncio.to_thread(replicas.wait_leader)
        status, shown = await ask_until(kubeconfig, lambda shown: shown["leader"] and len(shown["standbys"]) == 1)
        assert status == 0
        assert shown["leader"]["since"] <= shown["leader"]["lastSeen"]
        text = await asyncio.to_thread(run_berth, "leader", f"--kubeconfig={kubeconfig}")
        assert [line.split()[0] for line in text.stdout.splitlines()[1:]] == ["leads", "standby"]
        await asyncio.to_thread(replicas.finish)
        assert await ask_until(kubeconfig, lambda _: True) == (3, {"leader": None, "standbys": []})


async def test_two_installations_with_one_peering_name_elect_one_leader_and_both_say_so(
    control_plane: Plane, kubeconfig: Path, tmp_path: Path
) -> None:
    with ExitStack() as running_ones:
        both = []
        for name in ("blue", "green"):
            arguments = (f"--installation={name}/berth", "--peering-lifetime-seconds=5")
            berth = BerthProcess(kubeconfig, *arguments, log=tmp_path / f"{name}.log", standalone=False)
            both.append(await asyncio.to_thread(running_ones.enter_context, berth))
        status, shown = await ask_until(kubeconfig, lambda shown: shown["leader"] and len(shown["standbys"]) == 1)
        owners = {seat["identity"].rpartition("/")[0] for seat in (shown["leader"], *shown["standbys"])}
        assert (status, owners) == (0, {"blue/berth", "green/berth"})
        for berth, other in zip(both, ("green", "blue"), strict=True):
            words = f"Replicas of another installation ({other}/berth)"
            await until(lambda berth=berth, words=words: words in berth.process.log_text())  # type: ignore[misc]
            assert berth.get("/readyz")[0] == 200


async def ask_until(kubeconfig: Path, is_wanted: Callable[[Object], bool]) -> tuple[int, Object]:
    answers: list[tuple[int, Object]] = []

    def look() -> bool:
        answers.append(ask(kubeconfig))
        return bool(is_wanted(answers[-1][1]))

    await until(look)
    return answers[-1]


def ask(kubeconfig: Path) -> tuple[int, Object]:
    done = run_berth("leader", f"--kubeconfig={kubeconfig}", "-o", "json")
    return done.returncode, json.loads(done.stdout)


def run_berth(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([*berth_command(), *arguments], capture_output=True, text=True, timeout=60)


async def test_without_the_kind_a_replica_says_what_to_do(tmp_path: Path) -> None:
    with EmbeddedPlane(tmp_path) as plane:
        berth = BerthProcess(plane.kubeconfig, log=tmp_path / "berth.log", standalone=False)
        berth.process.start()
        await until(lambda: not berth.process.running)
        assert berth.process.exit_code == 1
        assert "crds/clusterkopfpeerings.kopf.dev.yaml" in berth.process.log_text()
        assert run_berth("leader", f"--kubeconfig={plane.kubeconfig}").returncode == 1
