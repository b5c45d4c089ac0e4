"""Berth cannot do without any of its rights: it is refused each one that the role lacks, and goes on when it is there.

A replica starts with the chart's service account and a role without a single rule. Whatever the API server refuses to
it is granted then, right by right, out of the chart's own rules, until Berth has done everything that it does. So every
right has been missed, and used: nobody else grants it, and one that the chart does not grant is noticed as soon as it
is asked for. With the whole role Berth asks for each of them as well (test_rights_used.py): whichever one is taken out
of it, that request is refused.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from chart.applying import (
    USER,
    Asked,
    AuditedPlane,
    account_token,
    berth_as_account,
    wait_allowed,
    wait_for_rights_lost,
)
from chart.conftest import Install
from chart.doing import have_everything_done
from chart.needed import CREATES_PEERING, NEEDED, WEBHOOK, Right
from chart.rendering import NAMESPACE, READS_FRONT_PROXY, Manifest, Rendered, Values, rights
from chart.silence import Silence
from control_plane.berth_process import BerthProcess
from control_plane.client import Client
from control_plane.process import http_get

pytestmark = pytest.mark.cluster

RBAC = "/apis/rbac.authorization.k8s.io/v1"
ROLES = f"{RBAC}/clusterroles"
# Nobody reaches the webhook here, and every policy waits for it.
EVERY_RIGHT: Values = {
    "leaderElection": {"createPeering": False},
    "webhook": {"enabled": True, "timeoutSeconds": 1},
}
READER, STRANGER = "prometheus", "stranger"
GROWN_SECONDS = 300.0
DENIED_SECONDS = 60.0
LOOK_SECONDS = 0.2
SHOW_SECONDS = 0.5


class Role:
    """The chart's roles, with as many of the chart's rules as they are allowed to have.

    The role that reads the front proxy's authority is the API server's own: its binding is what is made or left out.
    """

    def __init__(self, api: Client, chart: Rendered) -> None:
        self._api = api
        of_namespace = f"{RBAC}/namespaces/{NAMESPACE}/roles"
        self._rules = {f"{ROLES}/berth": chart.rules} | {
            f"{of_namespace}/{role['metadata']['name']}": role["rules"] for role in chart.all("Role")
        }
        [self._binding] = [each for each in chart.all("RoleBinding") if each["metadata"]["namespace"] == "kube-system"]
        self._granted: set[Right] = set()

    async def grant(self, more: set[Right]) -> None:
        """These as well, as far as the chart grants them at all."""
        self._granted |= more
        for path, rules in self._rules.items():
            parts = [part for rule in rules for part in split(rule)]
            await self._api.patch(path, {"rules": [part for part in parts if rights([part]) <= self._granted]})
        name = self._binding["metadata"]["name"]
        if rights([READS_FRONT_PROXY]) <= self._granted:
            await self._api.apply(self._binding)
        else:
            await self._api.delete(f"{RBAC}/namespaces/kube-system/rolebindings/{name}")


def split(rule: Manifest) -> list[Manifest]:
    """A rule for each right of the rule."""
    return [
        {**rule, "verbs": [verb], "apiGroups": [group], "resources": [resource]}
        for verb, group, resource in sorted(rights([rule]))
    ]


async def test_berth_is_refused_every_right_that_the_role_lacks_and_uses_it_when_it_is_granted(
    audited: AuditedPlane, api: Client, installed: Install, tmp_path: Path
) -> None:
    chart = installed(EVERY_RIGHT)
    role = Role(api, chart)
    await role.grant(set())
    await asyncio.to_thread(wait_for_rights_lost, audited, "list", "pods")
    needed = NEEDED | WEBHOOK | {CREATES_PEERING}
    asked = Asked(audited.audit_log, USER)
    async with Silence(audited.url) as proxy:
        berth = berth_as_account(audited, chart, tmp_path, "--resync-seconds=1", url=proxy.url)
        async with started_again_and_again(berth), at_work(api, berth, account_token(audited)):
            with contextlib.suppress(TimeoutError):  # the comparison says what is missing
                async with asyncio.timeout(GROWN_SECONDS):
                    while not asked.used >= needed:
                        await asyncio.sleep(LOOK_SECONDS)
                        before = set(asked.forbidden)
                        asked.look()
                        assert asked.forbidden <= rights(chart.granted), "asked for, and not in the chart"
                        if asked.forbidden - before:
                            await role.grant(asked.forbidden)

    assert asked.used == needed
    assert asked.forbidden == needed


@asynccontextmanager
async def started_again_and_again(berth: BerthProcess) -> AsyncIterator[None]:
    """As a kubelet would: a replica that may not take part in the election ends, and says why."""

    async def keep_running() -> None:
        while True:
            if not berth.process.running:
                await asyncio.to_thread(berth.process.start)
            await asyncio.sleep(LOOK_SECONDS)

    keeper = asyncio.create_task(keep_running())
    try:
        yield
    finally:
        await end(keeper)
        await asyncio.to_thread(berth.stop)


@asynccontextmanager
async def at_work(api: Client, berth: BerthProcess, token: str) -> AsyncIterator[None]:
    """Once it is ready there is everything to do; and all the time somebody shows it a token."""

    async def work() -> None:
        while not await asyncio.to_thread(lambda: berth.ready):  # noqa: ASYNC110, it happens in another process
            await asyncio.sleep(LOOK_SECONDS)
        await have_everything_done(api)

    async def show_token() -> None:
        while True:
            await asyncio.to_thread(http_get, f"{berth.https_url}/metrics", token)
            await asyncio.sleep(SHOW_SECONDS)

    tasks = [asyncio.create_task(work()), asyncio.create_task(show_token())]
    try:
        yield
    finally:
        for task in tasks:
            await end(task)


async def end(task: asyncio.Task[None]) -> None:
    task.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await task


# --- what is granted to others ---------------------------------------------------------------------------------------


async def test_metrics_are_read_with_the_role_for_readers_and_not_without_its_rule(
    audited: AuditedPlane, api: Client, installed: Install, tmp_path: Path
) -> None:
    chart = installed({**EVERY_RIGHT, "metrics": {"readers": [{"namespace": NAMESPACE, "name": READER}]}})
    for account in (READER, STRANGER):
        audited.kubectl("create", "serviceaccount", account, "-n", NAMESPACE)
    wait_allowed(audited, f"system:serviceaccount:{NAMESPACE}:{READER}", "get", "/metrics")
    reader, stranger = (account_token(audited, account) for account in (READER, STRANGER))
    asked = Asked(audited.audit_log, USER)
    with berth_as_account(audited, chart, tmp_path) as berth:
        assert http_get(f"{berth.https_url}/metrics", reader)[0] == 200
        assert http_get(f"{berth.https_url}/configz", reader)[0] == 403
        assert http_get(f"{berth.https_url}/metrics", stranger)[0] == 403

        await api.patch(f"{ROLES}/berth-metrics-reader", {"rules": []})
        await wait_denied(f"{berth.https_url}/metrics", reader)

    asked.look()
    assert asked.forbidden == set()
    assert CREATES_PEERING in asked.used


async def wait_denied(url: str, token: str) -> None:
    """What was allowed is remembered for some seconds."""
    async with asyncio.timeout(DENIED_SECONDS):
        while (await asyncio.to_thread(http_get, url, token))[0] != 403:  # noqa: ASYNC110, in another process
            await asyncio.sleep(SHOW_SECONDS)
