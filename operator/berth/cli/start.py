"""How `berth run` begins: the API server is asked first, and what else is needed is imported while it answers.

    credentials --> client --> first request ------------------------> answer
                          +--> engine, kopf, ... imported in a thread ---+--> `process`

So an import of half a second is not added to the time that the connection takes.
"""

import asyncio
from dataclasses import dataclass

from berth.cli.common import FAILED, complain
from berth.client import make_client
from berth.cluster.api import Api
from berth.cluster.credentials import Credentials, Source
from berth.cluster.errors import ApiError, CredentialsError
from berth.cluster.identity import ClusterIdentity, SeenCluster
from berth.configuration import Options
from berth.configuration.introduction import introduce
from berth.later import import_at_once
from berth.signals import take_signals


@dataclass(frozen=True, slots=True)
class Beginning:
    """What is there before the runtime: the client, the question that is on its way, and whether to stop."""

    credentials: Credentials
    api: Api
    seen_cluster: SeenCluster
    contact: "asyncio.Task[str | None]"  # what no waiting would repair
    stopping: asyncio.Event


async def run_until_stopped(options: Options) -> int:
    """The exit code."""
    introduce(options)
    stopping = asyncio.Event()
    take_signals(stopping, FAILED)
    credentials = Credentials(Source(options.kubeconfig, options.context))
    api = make_client(options, credentials)
    try:
        await api.open()
    except CredentialsError as error:
        return complain(f"berth run: {error}")
    seen_cluster = SeenCluster()
    identity = ClusterIdentity(api, seen_cluster)
    contact = asyncio.create_task(_first_contact(identity, credentials), name="first-contact")
    process = await asyncio.to_thread(import_at_once, "berth.cli.process")
    code: int = await process.operate(options, Beginning(credentials, api, seen_cluster, contact, stopping))
    return code


async def _first_contact(identity: ClusterIdentity, credentials: Credentials) -> str | None:
    """What no waiting would repair. A server that is merely down is waited for."""
    try:
        problem = await identity.probe()
    except ApiError as error:
        return f"{credentials.server} does not accept our credentials: {error}"
    if problem is not None and problem.is_misconfigured:
        return f"{credentials.server} cannot be reached: {problem}"
    return None
