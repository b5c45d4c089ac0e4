"""Pods and nodes in full, for extenders that want to see them: the cache keeps what decisions read, and no more.

Nothing is kept unless a policy in force has extenders; then it is the pods that wait under its scheduler name and, if
an extender does not keep nodes itself, the nodes: as JSON, in the version that the watch showed last. What is missing
because the watch showed it earlier is read from the API server: a pod alone, nodes all at once.

Objects go out as kube-scheduler sends them, without apiVersion and kind, and without managedFields, which can be
longer than all the rest.
"""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import orjson

from berth.cluster.api import Api
from berth.cluster.errors import ApiError, Unreachable
from berth.cluster.listing import WatchedResource, list_objects
from berth.model import Node, Pod
from berth.scheduler.extenders.extender_protocol import Needs
from berth.scheduler.object_events import ObjectEvent
from berth.scheduler.ports import Cluster, Unavailable

NODES = WatchedResource("Node", "", "v1", "nodes", namespaced=False)

Kept = tuple[str, orjson.Fragment]  # the UID, and the object


class ObjectBodies:
    """Implements `berth.scheduler.extenders.extender_protocol.Bodies`."""

    def __init__(self, api: Api, cluster: Cluster, needs: Callable[[], Needs]) -> None:
        """`needs` is called by `follow_policies`, when they may have changed."""
        self._api = api
        self._cluster = cluster
        self._ask_needs = needs
        self._needs = Needs()
        self._pods: dict[str, orjson.Fragment] = {}  # by UID
        self._nodes: dict[str, Kept] = {}  # by name
        self._filling = asyncio.Lock()
        self._since_filling: set[str] = set()  # names of the nodes that the watch spoke of since the list was asked for

    # --- what the cluster says ---------------------------------------------------------------------------------------

    def follow_policies(self) -> None:
        """Other policies are in force: keep what their extenders need."""
        self._needs = self._ask_needs()
        if not self._needs.scheduler_names:
            self._pods.clear()
        if not self._needs.nodes:
            self._nodes.clear()

    def on_event(self, event: ObjectEvent) -> None:
        """Keep the object as it is now, if extenders need it, or forget it."""
        if event.kind == "Node" and self._needs.nodes:
            self._since_filling.add(event.identity.key)
            self._follow_node(event)
        elif event.kind == "Pod" and self._needs.scheduler_names:
            self._follow_pod(event)

    def _follow_node(self, event: ObjectEvent) -> None:
        name, uid = event.identity.key, event.identity.uid
        if not event.is_removal:
            self._keep_node(name, uid, event.body)
        elif self._nodes.get(name, ("",))[0] == uid:
            del self._nodes[name]

    def _follow_pod(self, event: ObjectEvent) -> None:
        is_kept = not event.is_removal and self._is_wanted(event.body.get("spec"))
        fragment = _fragment(event.body) if is_kept else None
        if fragment is None:
            self._pods.pop(event.identity.uid, None)
        else:
            self._pods[event.identity.uid] = fragment

    def _is_wanted(self, spec: object) -> bool:
        if not isinstance(spec, Mapping) or spec.get("nodeName"):
            return False
        name = spec.get("schedulerName")
        return isinstance(name, str) and name in self._needs.scheduler_names

    def statistics(self) -> dict[str, int]:
        return {"pods": len(self._pods), "nodes": len(self._nodes)}

    # --- what extenders are shown ------------------------------------------------------------------------------------

    async def pod(self, pod: Pod) -> object:
        kept = self._pods.get(pod.uid)
        if kept is not None:
            return kept
        body = await self._cluster.read_pod(pod)
        return None if body is None else _fragment(body)

    async def nodes(self, nodes: Sequence[Node]) -> Mapping[str, object]:
        async with self._filling:
            if any(not self._has(node) for node in nodes):
                await self._fill()
        return {node.name: self._nodes[node.name][1] for node in nodes if self._has(node)}

    def _has(self, node: Node) -> bool:
        return self._nodes.get(node.name, ("",))[0] == node.uid

    async def _fill(self) -> None:
        """Every node; what the watch says meanwhile is newer than the list."""
        self._since_filling.clear()
        for body in await self._list_nodes():
            name, uid = body["metadata"]["name"], body["metadata"]["uid"]
            if name not in self._since_filling:
                self._keep_node(name, uid, body)

    async def _list_nodes(self) -> list[dict[str, Any]]:
        try:
            return await list_objects(self._api, NODES)
        except (ApiError, Unreachable) as error:
            raise Unavailable(f"the nodes cannot be listed: {error}") from error

    def _keep_node(self, name: str, uid: str, body: Mapping[str, Any]) -> None:
        fragment = _fragment(body)
        if fragment is None:
            self._nodes.pop(name, None)
        else:
            self._nodes[name] = (uid, fragment)


def _fragment(body: Mapping[str, Any]) -> orjson.Fragment | None:
    """The object as a piece of JSON that can be put into a larger one as it is; None where it is no JSON."""
    metadata = {key: value for key, value in body["metadata"].items() if key != "managedFields"}
    shown = {key: value for key, value in body.items() if key not in ("apiVersion", "kind")}
    try:
        return orjson.Fragment(orjson.dumps({**shown, "metadata": metadata}))
    except TypeError:  # half a surrogate pair, numbers beyond 64 bits, too deep: no API server has sent that
        return None
