"""The validating webhook on a real API server: bad policies are refused at apply, and told of where it is away.

The Service is of type ExternalName: on the machine of the tests nobody routes addresses of a cluster. Everything else
of the registration is the chart's, and the leader has the API server trust the certificate that it has made.
"""

from __future__ import annotations

import asyncio
import copy
import json
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from typing import Any

import pytest

from chart.rendering import render
from control_plane.client import POLICIES, Client, Object
from control_plane.launcher import ControlPlane
from control_plane.process import free_port
from end_to_end.policing import LIMIT_SECONDS, condition, policy, told_by, wait_for_condition, wait_for_policies
from end_to_end.watching import EVENTS, StartBerth, only_real
from policy.bad_policies import BAD_POLICIES, By
from policy.builders import make_policy

pytestmark = only_real

SERVICE = "berth-webhook"
CONFIGURATIONS = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations"
NAME = "policies.berth.dev"
WAIT_SECONDS = 90.0
MERGE = "application/merge-patch+json"
SHAPE = [{"utilization": 50, "score": 1}, {"utilization": 10, "score": 2}]
RATIO = {"type": "RequestedToCapacityRatio", "requestedToCapacityRatio": {"shape": SHAPE}}
TERM = {"matchExpressions": [{"key": "a", "operator": "Inn"}]}


@dataclass(frozen=True)
class Refused:
    """A bad policy that only Berth finds, with the field and the words that have to be in the refusal."""

    manifest: Object
    field: str
    words: str


def of_operator(name: str, field: str, words: str, **spec: Any) -> Refused:
    return Refused(make_policy(name, **{"schedulerName": name, **spec}), field, words)


TABLE = [Refused(bad.manifests[-1], bad.field, bad.words) for bad in BAD_POLICIES if bad.by is By.BERTH]
MISSING_BASE = [row for row in TABLE if row.words.startswith("there is no valid")]
RING = [bad.manifests for bad in BAD_POLICIES if bad.by is By.BERTH and bad.words == "ring"]
REFUSED = [
    *(row for row in TABLE if row not in MISSING_BASE and row.words != "ring"),
    of_operator(
        "w1",
        "spec.priorities[0].name",
        "did you mean NodeResourcesFit?",
        priorities=[{"name": "NodeResourcesFitt"}],
    ),
    of_operator("w2", "spec.predicates[0].name", "did you mean NodeAffinity?", predicates=[{"name": "NodeAffinty"}]),
    of_operator("w3", "spec.schedulerName", "is reserved: --trusted-policies", schedulerName="default-scheduler"),
    of_operator(
        "w4",
        "spec.predicates[0].expression",
        "there is no parameter 'zone'",
        predicates=[{"name": "p", "expression": "node.labels['a'] == policy.parameters.zone"}],
    ),
    of_operator(
        "w5",
        "spec.predicates[0].expression",
        "did you mean 'labels'?",
        predicates=[{"name": "p", "expression": "node.labells['a'] == 'x'"}],
    ),
    of_operator(
        "w6",
        "spec.priorities[0].args.hardPodAffinityWeight",
        "from 0 to 100",
        priorities=[{"name": "InterPodAffinity", "args": {"hardPodAffinityWeight": 101}}],
    ),
    of_operator(
        "w7",
        "shape[1].utilization",
        "must be above that of the point before it",
        priorities=[{"name": "NodeResourcesFit", "args": {"scoringStrategy": RATIO}}],
    ),
    of_operator(
        "w8",
        "spec.predicates[0].args.bindTimeoutSeconds",
        "leave one of the two out",
        bindTimeoutSeconds=5,
        predicates=[{"name": "VolumeBinding", "args": {"bindTimeoutSeconds": 6}}],
    ),
    of_operator(
        "w9",
        "matchExpressions[0].operator",
        "is not one of In, NotIn",
        predicates=[
            {
                "name": "NodeAffinity",
                "args": {
                    "addedAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [TERM]}}
                },
            }
        ],
    ),
    of_operator(
        "w10",
        "spec.priorities[0].args.scoringStrategy.type",
        "means MostAllocated",
        priorities=[{"name": "MostRequestedPriority", "args": {"scoringStrategy": {"type": "LeastAllocated"}}}],
    ),
    of_operator(
        "w11",
        "spec.extenders[0].urlPrefix",
        "--extender-networks",
        extenders=[{"urlPrefix": "http://127.0.0.1:80", "filterVerb": "filter"}],
    ),
]


def plain(manifest: Object) -> Object:
    """The manifest as a user writes it."""
    return {**manifest, "metadata": {"name": manifest["metadata"]["name"]}}


def registration(port: int) -> list[Object]:
    configuration = copy.deepcopy(render({"webhook": {"enabled": True}}).one("ValidatingWebhookConfiguration"))
    [webhook] = configuration["webhooks"]
    webhook["clientConfig"]["service"] |= {"namespace": "default", "name": SERVICE, "port": port}
    webhook["timeoutSeconds"] = 10  # the machine of the tests may be slow
    service = {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": SERVICE, "namespace": "default"},
        "spec": {"type": "ExternalName", "externalName": "localhost"},
    }
    return [service, configuration]


class Users:
    """kubectl, and what it said; `port` is that of the webhook."""

    def __init__(self, plane: ControlPlane, port: int) -> None:
        self._plane = plane
        self.port = port

    async def apply(self, manifest: Object, *arguments: str) -> tuple[bool, str]:
        """Whether it was taken, and what kubectl wrote to stderr."""
        text = json.dumps(plain(manifest))
        said = await asyncio.to_thread(self._plane.kubectl, "apply", *arguments, "-f", "-", input=text, check=False)
        return said.returncode == 0, said.stderr

    async def run(self, *arguments: str) -> tuple[bool, str]:
        said = await asyncio.to_thread(self._plane.kubectl, *arguments, check=False)
        return said.returncode == 0, said.stderr


@pytest.fixture
async def registered(control_plane: ControlPlane, api: Client, berth_process: StartBerth) -> AsyncIterator[Users]:
    """A Berth that is asked about every policy."""
    port = free_port()
    for body in registration(port):
        await api.create(body)
    await asyncio.to_thread(
        berth_process, f"--webhook-address=127.0.0.1:{port}", f"--webhook-service=default/{SERVICE}"
    )
    users = Users(control_plane, port)
    try:
        await wait_asked(api, users)
        yield users
    finally:
        await api.delete(f"{CONFIGURATIONS}/{NAME}")


async def wait_asked(api: Client, users: Users) -> None:
    """Until the leader's certificate is trusted, and the API server has taken notice. Each kubectl takes a while."""

    def is_trusted(found: Mapping[str, Object]) -> bool:
        return bool(found[NAME]["webhooks"][0]["clientConfig"].get("caBundle"))

    await api.wait_until(CONFIGURATIONS, is_trusted, timeout_seconds=WAIT_SECONDS)
    probe = policy("probe", "probe", {"name": "NoSuchPlugin"})
    async with asyncio.timeout(WAIT_SECONDS):
        while (await users.apply(probe, "--dry-run=server"))[0]:
            continue


async def test_thirty_bad_policies_are_refused_at_apply_with_the_field_and_the_way_out(
    api: Client, registered: Users
) -> None:
    assert len(REFUSED) >= 30
    for row in REFUSED:
        taken, said = await registered.apply(row.manifest)
        assert not taken, row
        assert row.field in said, said
        assert row.words in said, said
    assert await api.list(POLICIES) == []
    taken, said = await registered.apply(REFUSED[0].manifest, "--dry-run=server")
    assert not taken
    [first] = [row for row in REFUSED if row.words == "did you mean NodeResourcesFit?"]
    assert await registered.apply(first.manifest) == (
        False,
        'The SchedulingPolicy "w1" is invalid: spec.priorities[0].name: "NodeResourcesFitt" is not a plugin; '
        "did you mean NodeResourcesFit?\n",
    )


async def test_good_policies_are_taken_and_what_is_worth_a_warning_is_said(api: Client, registered: Users) -> None:
    assert await registered.apply(policy("derived", "derived", base="common")) == (
        True,
        "Warning: spec.base: there is no valid SchedulingPolicy common; apply or fix it, or write one of "
        "KubernetesDefault, Empty (until there is one, this policy is refused)\n",
    )
    assert await registered.apply(policy("common", "common")) == (True, "")
    await wait_for_condition(api, "derived", "Ready", "True", "InForce")
    taken, said = await registered.apply(policy("later", "common"))
    assert taken
    assert "Warning: never decides: common comes first for every pod that it matches" in said

    taken, said = await registered.apply(policy("common", "common", base="derived"))
    assert not taken
    assert "spec.base: the bases form a ring" in said
    [(_, ring)] = RING
    assert not (await registered.apply({**ring, "spec": {**ring["spec"], "base": ring["metadata"]["name"]}}))[0]

    taken, said = await registered.run("delete", "sp", "common")
    assert taken
    assert "Warning: derived is based on SchedulingPolicy common" in said


async def test_an_edit_is_refused_and_metadata_of_an_invalid_policy_can_be_changed(
    api: Client, registered: Users
) -> None:
    assert (await registered.apply(policy("edited", "edited")))[0]
    taken, said = await registered.run(
        "patch", "sp", "edited", "--type=merge", "-p", '{"spec":{"predicateOrder":["x"]}}'
    )
    assert not taken
    assert 'spec.predicateOrder[0]: "x" is not among the predicates' in said

    await ask_at(api, free_port())
    broken = '{"spec":{"priorities":[{"name":"Astrology"}]}}'
    await wait_taken(registered, "patch", "sp", "edited", "--type=merge", "-p", broken)
    await wait_for_condition(api, "edited", "Ready", "False", "Invalid")
    await ask_at(api, registered.port)
    await wait_asked(api, registered)
    assert (await registered.run("label", "sp", "edited", "team=a"))[0]
    assert not (await registered.run("patch", "sp", "edited", "--type=merge", "-p", '{"spec":{"tieBreak":"First"}}'))[0]
    assert (await registered.run("delete", "sp", "edited"))[0]


async def ask_at(api: Client, port: int) -> None:
    """Have the API server ask at this port. Where nobody answers it goes on: the webhook fails open."""
    [webhook] = (await api.get(f"{CONFIGURATIONS}/{NAME}"))["webhooks"]
    webhook["clientConfig"]["service"]["port"] = port
    await api.request("PATCH", f"{CONFIGURATIONS}/{NAME}", {"webhooks": [webhook]}, content_type=MERGE)


async def wait_taken(users: Users, *arguments: str) -> None:
    async with asyncio.timeout(WAIT_SECONDS):
        while not (await users.run(*arguments))[0]:
            continue


async def test_where_the_webhook_is_away_bad_policies_are_stored_with_a_condition_and_an_event(
    api: Client, registered: Users
) -> None:
    await ask_at(api, free_port())
    wanted = {row.manifest["metadata"]["name"]: row for row in REFUSED}
    for row in REFUSED:
        async with asyncio.timeout(WAIT_SECONDS):
            while not (await registered.apply(row.manifest))[0]:
                continue
    found = await wait_for_policies(
        api, lambda found: all(condition(found[name], "Ready") == ("False", "Invalid") for name in wanted)
    )
    for name, row in wanted.items():
        for kind in ("Ready", "Accepted"):
            message = told_by(found[name], kind)["message"]
            assert row.field in message
            assert row.words in message

    def notes(events: Mapping[str, Object]) -> dict[str, str]:
        refused = [event for event in events.values() if event["reason"] == "Refused"]
        return {event["regarding"]["name"]: event["note"] for event in refused}

    events = await api.wait_until(
        EVENTS, lambda found: notes(found).keys() >= wanted.keys(), timeout_seconds=LIMIT_SECONDS
    )
    told = notes(events)
    for name, row in wanted.items():
        assert row.field in told[name]
        assert row.words in told[name]
