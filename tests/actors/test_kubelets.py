"""Simulated kubelets: pods run, finish, end and are rejected."""

from __future__ import annotations

from random import Random

from actors.conftest import Act
from actors.worlds import DEFAULT_PODS, all_in_phase, bind, phases, until_pods
from berth.cluster.clock import RealClock
from berth.sim.actors import HttpApi, Kubelets
from berth.sim.actors.kubelets import DURATION, EXIT_CODE
from control_plane.client import Client
from support.builders import make_node, make_pod

AT_ONCE = (0.0, 0.01)


def kubelets(api: HttpApi, clock: RealClock, **options: str) -> Kubelets:
    return Kubelets(api, clock, Random(1), start_seconds=AT_ONCE, stop_seconds=AT_ONCE, job_seconds=AT_ONCE, **options)


async def test_a_bound_pod_becomes_running_and_ready_and_keeps_its_other_conditions(
    client: Client, api: HttpApi, clock: RealClock, act: Act
) -> None:
    act(kubelets(api, clock))
    await client.create(make_node("n"))
    await client.create(make_pod("web"))
    await bind(client, "web", "n")

    pods = await until_pods(client, all_in_phase("Running", 1))

    status = pods["default/web"]["status"]
    conditions = {condition["type"]: condition["status"] for condition in status["conditions"]}
    assert {"PodScheduled": "True", "Ready": "True", "ContainersReady": "True"}.items() <= conditions.items()
    assert status["startTime"]
    assert "running" in status["containerStatuses"][0]["state"]


async def test_pods_on_nodes_that_the_selector_does_not_choose_are_left_alone(
    client: Client, api: HttpApi, clock: RealClock, act: Act
) -> None:
    act(kubelets(api, clock, node_selector="simulated=yes"))
    await client.create(make_node("real"))
    await client.create(make_node("simulated", labels={"simulated": "yes"}))
    for name, node in (("theirs", "real"), ("ours", "simulated")):
        await client.create(make_pod(name))
        await bind(client, name, node)

    pods = await until_pods(client, lambda pods: "Running" in phases(pods))

    assert pods["default/ours"]["status"]["phase"] == "Running"
    assert pods["default/theirs"]["status"]["phase"] == "Pending"


async def test_a_pod_with_a_duration_succeeds_or_fails_as_its_exit_code_says(
    client: Client, api: HttpApi, clock: RealClock, act: Act
) -> None:
    act(kubelets(api, clock))
    await client.create(make_node("n"))
    for name, notes in (("good", {DURATION: "0"}), ("bad", {DURATION: "0s", EXIT_CODE: "3"})):
        pod = make_pod(name, restartPolicy="Never")
        pod["metadata"]["annotations"] = notes
        await client.create(pod)
        await bind(client, name, "n")

    pods = await until_pods(client, lambda pods: phases(pods) == ["Failed", "Succeeded"])

    assert pods["default/good"]["status"]["phase"] == "Succeeded"
    state = pods["default/bad"]["status"]["containerStatuses"][0]["state"]
    assert state["terminated"]["exitCode"] == 3


async def test_a_deleted_pod_ends_within_its_grace(client: Client, api: HttpApi, clock: RealClock, act: Act) -> None:
    act(kubelets(api, clock))
    await client.create(make_node("n"))
    await client.create(make_pod("web"))
    await bind(client, "web", "n")
    await until_pods(client, all_in_phase("Running", 1))

    await client.delete(f"{DEFAULT_PODS}/web", grace_period_seconds=30)

    await until_pods(client, lambda pods: not pods)


async def test_a_pod_that_does_not_fit_beside_those_admitted_before_it_is_rejected_in_a_kubelets_words(
    client: Client, api: HttpApi, clock: RealClock, act: Act
) -> None:
    act(kubelets(api, clock))
    await client.create(make_node("n", cpu="1", pods=2))
    for name, cpu in (("first", "700m"), ("second", "400m"), ("third", "100m"), ("fourth", "100m")):
        await client.create(make_pod(name, cpu=cpu))
        await bind(client, name, "n")
        pods = await until_pods(client, lambda pods: "Pending" not in phases(pods))

    statuses = {name: pods[f"default/{name}"]["status"] for name in ("first", "second", "third", "fourth")}
    assert [status["phase"] for status in statuses.values()] == ["Running", "Failed", "Running", "Failed"]
    assert statuses["second"]["reason"] == "OutOfcpu"
    assert statuses["second"]["message"].endswith("cpu, requested: 400, used: 700, capacity: 1000")
    assert statuses["fourth"]["reason"] == "OutOfpods"


async def test_the_room_of_a_pod_that_is_gone_can_be_taken_again(
    client: Client, api: HttpApi, clock: RealClock, act: Act
) -> None:
    act(kubelets(api, clock))
    await client.create(make_node("n", cpu="1"))
    for name in ("first", "second"):
        await client.create(make_pod(name, cpu="1"))
        await bind(client, name, "n")
        await until_pods(client, all_in_phase("Running", 1))
        await client.delete(f"{DEFAULT_PODS}/{name}", grace_period_seconds=1)
        await until_pods(client, lambda pods: not pods)


async def test_pods_that_were_bound_before_their_node_was_seen_run_once_it_is(
    client: Client, api: HttpApi, clock: RealClock, act: Act
) -> None:
    await client.create(make_pod("early"))
    await bind(client, "early", "late")
    act(kubelets(api, clock))
    await client.create(make_node("late"))

    await until_pods(client, all_in_phase("Running", 1))


def test_delays_are_the_same_for_the_same_seed_in_whatever_order_pods_arrive(clock: RealClock) -> None:
    def draw(keys: list[str], seed: int) -> dict[str, float]:
        actor = Kubelets(HttpApi("http://nowhere.example"), clock, Random(seed), start_seconds=(0.0, 100.0))
        return {key: actor.start_delay_seconds(key) for key in keys}

    names = [f"default/{i}" for i in range(20)]
    assert draw(names, 1) == draw(names[::-1], 1)
    assert draw(names, 1) != draw(names, 2)
    assert len(set(draw(names, 1).values())) == 20
