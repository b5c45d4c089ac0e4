"""What Berth shows of itself, and to whom: tokens and rights as the API server knows them."""

from __future__ import annotations

import asyncio
import json
import urllib.error
import urllib.request

import pytest

from control_plane.accounts import make_account, user_name
from control_plane.berth_process import BerthProcess
from control_plane.client import PODS, Client
from control_plane.process import http_get, unverified_tls
from end_to_end.watching import Plane, StartBerth, are_bound
from support.builders import make_node, make_pod

HEALTH = ("/healthz", "/livez", "/readyz", "/readyz?verbose")
GUARDED = ("/metrics", "/configz", "/log-level", "/debug/cache", "/debug/queue", "/nothing", "/")
BAD_TOKENS = ("nonsense", "eyJhbGciOiJSUzI1NiJ9.e30.c2lnbmF0dXJl", "a" * 5000)


async def ask(berth: BerthProcess, path: str, token: str = "") -> tuple[int, str]:
    return await asyncio.to_thread(http_get, berth.https_url + path, token, 30.0)


def put(url: str, token: str, body: bytes) -> int:
    headers = {"Authorization": f"Bearer {token}"}
    request = urllib.request.Request(url, data=body, method="PUT", headers=headers)
    handlers = (urllib.request.ProxyHandler({}), urllib.request.HTTPSHandler(context=unverified_tls()))
    try:
        with urllib.request.build_opener(*handlers).open(request, timeout=30) as answer:
            return int(answer.status)
    except urllib.error.HTTPError as error:
        with error:
            return error.code


async def test_only_who_has_the_right_sees_more_than_health(
    control_plane: Plane, api: Client, berth_process: StartBerth
) -> None:
    await api.create(make_node("n"))
    await api.create(make_pod("p"))
    berth = await asyncio.to_thread(berth_process, "--debug-endpoints")
    await api.wait_until(PODS, are_bound(1), timeout_seconds=60)
    powerless = await make_account(control_plane, api, "powerless", ("get", "/something-else"))
    monitor = await make_account(control_plane, api, "monitor", ("get", "/metrics"))
    keeper = await make_account(control_plane, api, "keeper", ("get", "/*"), ("put", "/log-level"))

    for path in HEALTH:
        assert (await ask(berth, path))[0] == 200
    for path in GUARDED:
        assert (await ask(berth, path))[0] == 401, path
        for bad in BAD_TOKENS:
            assert (await ask(berth, path, bad))[0] == 401, path
        assert (await ask(berth, path, powerless))[0] == 403, path
        assert (await ask(berth, path, monitor))[0] == (200 if path == "/metrics" else 403), path

    assert "berth_binds_total" in (await ask(berth, "/metrics", monitor))[1]
    shown = json.loads((await ask(berth, "/configz", keeper))[1])["berth"]
    assert shown["options"]["debugEndpoints"] is True
    assert [policy["name"] for policy in shown["policies"]]
    assert "Node n:" in (await ask(berth, "/debug/cache", keeper))[1]
    assert (await ask(berth, "/debug/queue", keeper))[1].startswith("Queue: ")
    assert (await ask(berth, "/nothing", keeper))[0] == 404

    assert await ask(berth, "/log-level", keeper) == (200, "info\n")
    url = f"{berth.https_url}/log-level"
    assert await asyncio.to_thread(put, url, monitor, b"debug") == 403
    assert await asyncio.to_thread(put, url, keeper, b"debug") == 200
    assert await ask(berth, "/log-level", keeper) == (200, "debug\n")
    log = berth.process.log_text()
    assert f"The log level was info and is debug, as '{user_name('keeper')}' has asked" in log
    assert not any(token in log for token in (powerless, monitor, keeper, *BAD_TOKENS))


async def test_nobody_is_let_in_while_nobody_can_be_asked(
    control_plane: Plane, api: Client, berth_process: StartBerth
) -> None:
    berth = await asyncio.to_thread(berth_process)
    caller = await make_account(control_plane, api, "caller", ("get", "/metrics"))
    stranger = await make_account(control_plane, api, "stranger", ("get", "/metrics"))
    assert (await ask(berth, "/metrics", caller))[0] == 200
    assert (await ask(berth, "/debug/cache", caller))[0] == 403  # and it would not be there for others
    await asyncio.to_thread(control_plane.stop_api_server)
    try:
        assert (await ask(berth, "/metrics", stranger))[0] == 401
        assert (await ask(berth, "/livez"))[0] == 200
        status, text = await ask(berth, "/readyz?verbose")
        assert (status, "[+]api-server ok: it last answered" in text) == (200, True), text
    finally:
        await asyncio.to_thread(control_plane.start_api_server)
    assert (await ask(berth, "/metrics", stranger))[0] == 200


@pytest.mark.parametrize("address", ["--https-address", "--http-address"])
async def test_a_taken_address_ends_berth_with_1_and_its_flag(
    berth_process: StartBerth, api: Client, address: str
) -> None:
    first = await asyncio.to_thread(berth_process)
    url = first.https_url if address == "--https-address" else first.url
    taken = f"{address}={url.partition('://')[2]}"
    with pytest.raises(Exception, match=f"berth run: {address} .*: Address already in use"):
        await asyncio.to_thread(berth_process, taken)
