"""Every bad policy of the table beside a good one: refused or degraded in words, and the good one goes on."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from itertools import count

from control_plane.client import POLICIES, ApiError, Client, Object
from end_to_end.policing import condition, decided, node_of, policy, told_by, wait_for_policies, wait_in_force
from end_to_end.watching import StartBerth
from policy.bad_policies import BAD_POLICIES, Bad, By
from support.builders import make_node, make_pod

STRICTLY = {"fieldValidation": "Strict"}  # as kubectl asks for it


async def test_sixty_bad_policies_are_told_so_in_words_and_the_pods_of_others_are_placed_meanwhile(
    api: Client, berth_process: StartBerth
) -> None:
    await api.create_many(make_node(name, cpu=1000, pods=100_000) for name in ("n1", "n2"))  # one alone is not scored
    await api.create(policy("good", "good"))
    berth = berth_process("--extender-networks=127.0.0.0/8")
    await wait_in_force(api, "good")
    stream = asyncio.create_task(_place_without_end(api))
    refused = {bad.name: said for bad in BAD_POLICIES if (said := await _apply(api, bad))}
    judged = [bad for bad in BAD_POLICIES if bad.by is not By.DEGRADED and bad.name not in refused]
    await wait_for_policies(
        api, lambda found: all(condition(found[bad.name], "Accepted")[0] == "False" for bad in judged)
    )
    degraded = [bad for bad in BAD_POLICIES if bad.by is By.DEGRADED]
    for bad in degraded:
        await decided(api, make_pod(f"of-{bad.name}", scheduler=bad.scheduler_name))
    await decided(api, make_pod("last", scheduler="good"))
    stream.cancel()
    [placed] = await asyncio.gather(stream, return_exceptions=True)
    assert isinstance(placed, asyncio.CancelledError)
    assert berth.stop() == 0

    found = {each["metadata"]["name"]: each for each in await api.list(POLICIES)}
    assert len(BAD_POLICIES) >= 60
    for bad in BAD_POLICIES:
        assert not (problem := _unlike(bad, refused.get(bad.name, ""), found)), f"{bad.title}: {problem}"
    good = found["good"]
    assert condition(good, "Active") == ("True", "InForce")
    assert condition(good, "Degraded") == ("False", "Healthy")
    pods = [pod for pod in await api.list("/api/v1/pods") if pod["spec"]["schedulerName"] == "good" and node_of(pod)]
    assert good["status"]["placed"] == len(pods) > 1
    print(f"\nrefused by the API server: {len(refused)}, by Berth: {len(judged)}, degraded: {len(degraded)}")


async def _apply(api: Client, bad: Bad) -> str:
    """What the API server says where it refuses one of the manifests, "" where it takes them."""
    for manifest in bad.manifests:
        try:
            await api.request("POST", POLICIES, manifest, parameters=STRICTLY)
        except ApiError as error:
            if error.status in (400, 422):
                return str(error)
            raise
    return ""


async def _place_without_end(api: Client) -> None:
    for number in count():
        assert node_of(await decided(api, make_pod(f"good-{number}", cpu="1m", scheduler="good")))


def _unlike(bad: Bad, refusal: str, found: Mapping[str, Object]) -> str:
    """How what became of the policy differs from what the table says, if it does."""
    if bad.by is By.SERVER:
        return "" if bad.server_field in refusal else f"{bad.server_field} is not in {refusal!r}"
    if refusal:
        return f"the API server said {refusal}"
    kind, status = ("Degraded", "True") if bad.by is By.DEGRADED else ("Accepted", "False")
    told = told_by(found[bad.name], kind)
    right = told.get("status") == status and bad.field in told["message"] and bad.words in told["message"]
    return "" if right else f"{kind} says {told}"
