"""Berth uses every right that it needs, asks for no other, and says what it misses where one is switched off.

Berth runs as the chart's service account, on a real API server, through everything that it does; the API server's audit
log says what it asked for. That it cannot do without any of them shows in test_rights_needed.py.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from pathlib import Path

import pytest

from chart.applying import USER, Asked, AuditedPlane, account_token, berth_as_account, wait_for_rights_lost
from chart.conftest import Install
from chart.doing import have_everything_done, have_volumes_bound, impatient, is_bound, pod, priority_classes
from chart.needed import NEEDED
from chart.silence import Silence
from chart.value_sets import WITHOUT_RIGHTS
from control_plane.client import PODS, Client, Object
from control_plane.process import http_get
from end_to_end.watching import refusal
from support.builders import make_node

pytestmark = pytest.mark.cluster

RESYNC_SECONDS = 2
USED_SECONDS = 120.0
LOOK_SECONDS = 0.2


async def test_berth_asks_for_everything_that_it_needs_and_for_nothing_else(
    audited: AuditedPlane, api: Client, installed: Install, tmp_path: Path
) -> None:
    chart = installed({})
    asked = Asked(audited.audit_log, USER)
    async with Silence(audited.url) as proxy:
        berth = berth_as_account(audited, chart, tmp_path, f"--resync-seconds={RESYNC_SECONDS}", url=proxy.url)
        await asyncio.to_thread(berth.start)
        try:
            await have_everything_done(api)
            await have_tokens_reviewed(audited, berth.https_url)
            await wait_used(asked)
        finally:
            await asyncio.to_thread(berth.stop)

    asked.look()
    assert asked.forbidden == set()
    assert asked.used == NEEDED


async def wait_used(asked: Asked) -> None:
    """Until all that is needed was used, or the time is up, or a right is missed: the comparison says which."""
    try:
        async with asyncio.timeout(USED_SECONDS):
            while not asked.used >= NEEDED and not asked.forbidden:
                await asyncio.sleep(LOOK_SECONDS)
                asked.look()
    except TimeoutError:
        pass


async def have_tokens_reviewed(plane: AuditedPlane, url: str) -> None:
    """Somebody shows a token that is known, and has no right to what he asks for."""
    status, _ = await asyncio.to_thread(http_get, f"{url}/metrics", account_token(plane))
    assert status == 403


# --- what is switched off --------------------------------------------------------------------------------------------


async def test_a_right_that_is_switched_off_is_named_where_it_is_missed(
    audited: AuditedPlane, api: Client, installed: Install, tmp_path: Path
) -> None:
    """Of claims and volumes; preemption is off as a whole without its rights, and asks for none."""
    chart = installed(WITHOUT_RIGHTS)
    asked = Asked(audited.audit_log, USER)
    await api.create(impatient())
    await api.create_many(priority_classes())
    await api.create(make_node("small", cpu="1", labels={"kubernetes.io/hostname": "small"}))
    with berth_as_account(audited, chart, tmp_path):
        await have_volumes_bound(api)
        await api.create(pod("low", cpu="1", priorityClassName="low"))
        await api.wait_until(PODS, is_bound("default/low"), timeout_seconds=30)
        await api.create(pod("high", cpu="1", priorityClassName="high"))

        wanted = {
            "default/with-kept": f'User "{USER}" cannot patch resource "persistentvolumes"',
            "default/with-asked-for": f'User "{USER}" cannot patch resource "persistentvolumeclaims"',
            "default/high": "0/1 nodes are available: 1 Insufficient cpu.",
        }
        await api.wait_until(PODS, lambda pods: all_say(pods, wanted), timeout_seconds=60)
    asked.look()
    assert asked.forbidden == {("patch", "", "persistentvolumes"), ("patch", "", "persistentvolumeclaims")}


def all_say(pods: Mapping[str, Object], wanted: Mapping[str, str]) -> bool:
    return all(words in (refusal(pods[key]) or ("", ""))[1] for key, words in wanted.items())


async def test_an_account_without_a_right_to_list_a_kind_is_told_apart_from_one_that_is_ready(
    audited: AuditedPlane, api: Client, installed: Install, tmp_path: Path
) -> None:
    chart = installed({})
    fewer = [rule for rule in chart.rules if rule["apiGroups"] != ["policy"]]
    audited.kubectl("patch", "clusterrole", "berth", "--type=merge", "-p", json.dumps({"rules": fewer}))
    wait_for_rights_lost(audited, "list", "poddisruptionbudgets.policy")
    berth = berth_as_account(audited, chart, tmp_path)
    berth.process.start()
    try:
        forbidden = f'User "{USER}" cannot list resource "poddisruptionbudgets"'
        await asyncio.to_thread(
            berth.process.wait_ready, lambda: forbidden in berth.get("/readyz?verbose")[1], USED_SECONDS
        )
        assert not berth.ready
    finally:
        await asyncio.to_thread(berth.stop)
