"""Fixtures of the chart's tests that need a real API server: a control plane that writes an audit log.

audited     an AuditedPlane, started once for these tests
api         an asyncio client for it
installed   call it with values: the chart is applied as `helm template` renders it; returns what was applied
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator

import pytest

from chart.applying import AuditedPlane, apply_in_two_steps
from chart.rendering import Rendered, Values
from control_plane.cleaning import remove_everything
from control_plane.client import Client
from control_plane.programs import MissingPrograms, find_programs

# What would outlive the namespace and the cluster's cleaning: an API that nobody serves keeps namespaces from going.
LEFT_BEHIND = (
    *("APIService", "ValidatingWebhookConfiguration", "EndpointSlice"),
    *("ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding"),
)

Install = Callable[[Values], Rendered]


@pytest.fixture(scope="session")
def audited(tmp_path_factory: pytest.TempPathFactory) -> Iterator[AuditedPlane]:
    try:
        plane = AuditedPlane(find_programs(), logs=tmp_path_factory.mktemp("control-plane"))
    except MissingPrograms as error:
        pytest.exit(f"control plane: {error}", returncode=2)
    with plane:
        yield plane


@pytest.fixture
async def api(audited: AuditedPlane) -> AsyncIterator[Client]:
    async with Client(audited.url, audited.token) as client:
        yield client
        await remove_everything(client)


@pytest.fixture
def installed(audited: AuditedPlane, api: Client) -> Iterator[Install]:
    """After `api`, so that the kinds are still served when the cluster is emptied of their objects."""
    applied: list[Rendered] = []

    def install(values: Values) -> Rendered:
        applied.append(apply_in_two_steps(audited, values))
        return applied[-1]

    yield install
    for rendered in applied:
        for manifest in rendered.manifests:
            if manifest["kind"] in LEFT_BEHIND:
                place = ["-n", manifest["metadata"].get("namespace", "default")]
                audited.kubectl("delete", manifest["kind"], manifest["metadata"]["name"], *place, "--ignore-not-found")
