"""The status of disruption budgets, and what evictions make of it."""

from __future__ import annotations

from typing import Any

import pytest

from actors.conftest import Act
from actors.test_kubelets import kubelets
from actors.worlds import BUDGETS, DEFAULT_PODS, Objects, all_in_phase, budget, deployment, template, until, until_pods
from berth.cluster.clock import RealClock
from berth.sim.actors import Disruption, HttpApi, Workloads
from control_plane.client import ApiError, Client
from support.builders import make_node, make_pod


@pytest.fixture
async def four_pods(client: Client, api: HttpApi, clock: RealClock, act: Act) -> None:
    await client.create(make_node("n"))
    act(kubelets(api, clock))
    act(Workloads(api, clock))
    await client.create(deployment("web", 4, template=template(nodeName="n")))
    await until_pods(client, all_in_phase("Running", 4))


def allowed(budgets: Objects) -> int | None:
    status: dict[str, Any] = budgets["default/b"].get("status", {})
    return None if "disruptionsAllowed" not in status else int(status["disruptionsAllowed"])


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        ({"minAvailable": 3}, 1),
        ({"minAvailable": "50%"}, 2),
        ({"minAvailable": "60%"}, 1),
        ({"maxUnavailable": 3}, 3),
        ({"maxUnavailable": "30%"}, 2),
        ({"minAvailable": 9}, 0),
    ],
)
async def test_as_many_disruptions_are_allowed_as_the_budget_leaves(
    client: Client, api: HttpApi, clock: RealClock, act: Act, four_pods: None, spec: dict[str, Any], expected: int
) -> None:
    act(Disruption(api, clock))
    await client.create(budget("b", **spec))

    found = await until(client, BUDGETS, lambda found: found["default/b"].get("status", {}).get("currentHealthy") == 4)

    status = found["default/b"]["status"]
    assert (status["disruptionsAllowed"], status["expectedPods"]) == (expected, 4)
    [condition] = status["conditions"]
    assert condition["status"] == ("True" if expected else "False")


async def test_an_eviction_uses_the_budget_up_and_the_pod_that_takes_its_place_gives_it_back(
    client: Client, api: HttpApi, clock: RealClock, act: Act, four_pods: None
) -> None:
    act(Disruption(api, clock))
    await client.create(budget("b", minAvailable=3))
    await until(client, BUDGETS, lambda found: allowed(found) == 1)
    victim = (await client.list(DEFAULT_PODS))[0]["metadata"]["name"]
    eviction = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": victim, "namespace": "default"}}

    await client.request("POST", f"{DEFAULT_PODS}/{victim}/eviction", eviction)

    await until_pods(client, lambda pods: len(pods) == 4 and f"default/{victim}" not in pods)
    await until(client, BUDGETS, lambda found: allowed(found) == 1)


async def test_an_eviction_that_the_budget_forbids_is_refused(
    client: Client, api: HttpApi, clock: RealClock, act: Act
) -> None:
    act(Disruption(api, clock))
    await client.create(make_pod("lonely", labels={"app": "web"}))
    await client.create(budget("b", minAvailable=1))
    await until(client, BUDGETS, lambda found: allowed(found) == 0)
    await client.create(make_node("n"))
    act(kubelets(api, clock))
    body = {"metadata": {"name": "lonely"}, "target": {"kind": "Node", "name": "n"}}
    await client.request("POST", f"{DEFAULT_PODS}/lonely/binding", {"apiVersion": "v1", "kind": "Binding", **body})
    await until(client, BUDGETS, lambda found: found["default/b"]["status"].get("currentHealthy") == 1)

    eviction = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": "lonely", "namespace": "default"}}
    with pytest.raises(ApiError) as refused:
        await client.request("POST", f"{DEFAULT_PODS}/lonely/eviction", eviction)
    assert refused.value.status == 429
