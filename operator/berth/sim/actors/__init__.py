"""Simulated actors: what else lives in a cluster beside its scheduler, on any API server, embedded or real.

    api = HttpApi(server.url)                # a real one: token and tls too
    actors = [Kubelets(api, clock, Random(1)), Workloads(api, clock), Disruption(api, clock), Provisioner(api, clock)]
    tasks = [asyncio.create_task(actor.run()) for actor in actors]

Each has `run()`, which lasts until `stop()`. None knows any other: they meet in the objects, as the real ones do.
"""

from berth.sim.actors.api import ActorApi, HttpApi, Refused, ServerUnreachable
from berth.sim.actors.controller import Controller
from berth.sim.actors.disruption import Disruption
from berth.sim.actors.kubelets import Kubelets
from berth.sim.actors.mirror import Mirror
from berth.sim.actors.namespaces import Namespaces
from berth.sim.actors.provisioner import Provisioner
from berth.sim.actors.workloads import Workloads

__all__ = [
    "ActorApi",
    "Controller",
    "Disruption",
    "HttpApi",
    "Kubelets",
    "Mirror",
    "Namespaces",
    "Provisioner",
    "Refused",
    "ServerUnreachable",
    "Workloads",
]
