"""Binding a pod to a node, and reading a pod when nobody knows how a bind ended.

A bind names the pod's UID, so that the API server refuses a namesake, and carries a time limit for the server that is
shorter than our own: when we give up waiting, the server has given up working. Every answer is a yes, a definite no
(4xx) or "unknown" (5xx, a timeout, a cut); see the scheduler's ports for what each means.
"""

from collections.abc import Mapping
from typing import Any

from berth.cluster.api import Api
from berth.cluster.errors import ApiError, Unreachable
from berth.model import Pod
from berth.scheduler.ports import BindRefused, OutcomeUnknown, Unavailable

SERVER_SECONDS = 10
CLIENT_SECONDS = 15.0


def pod_path(namespace: str, name: str, subresource: str = "") -> str:
    """The path of a pod or of one of its subresources."""
    path = f"/api/v1/namespaces/{namespace}/pods/{name}"
    return f"{path}/{subresource}" if subresource else path


class Binder:
    """Binds and reads pods; one request each, never retried here."""

    def __init__(
        self, api: Api, *, client_seconds: float = CLIENT_SECONDS, server_seconds: int = SERVER_SECONDS
    ) -> None:
        self._api = api
        self._client_seconds = client_seconds
        self._query = {"timeout": f"{server_seconds}s"}

    async def bind(self, pod: Pod, node_name: str) -> None:
        """Bind the pod of this UID; raises BindRefused or OutcomeUnknown."""
        body = {
            "apiVersion": "v1",
            "kind": "Binding",
            "metadata": {"name": pod.name, "namespace": pod.namespace, "uid": pod.uid},
            "target": {"apiVersion": "v1", "kind": "Node", "name": node_name},
        }
        try:
            await self._api.request(
                "POST",
                pod_path(pod.namespace, pod.name, "binding"),
                body=body,
                query=self._query,
                timeout_seconds=self._client_seconds,
            )
        except ApiError as error:
            if 400 <= error.status < 500 and error.status != 408:
                raise BindRefused(error.status, error.message or error.reason) from error
            raise OutcomeUnknown(str(error)) from error
        except Unreachable as error:
            raise OutcomeUnknown(error.reason) from error

    async def read_pod(self, pod: Pod) -> Mapping[str, Any] | None:
        """The pod as it is now; None when it is gone or its name has another UID; raises Unavailable."""
        try:
            _, body = await self._api.request(
                "GET", pod_path(pod.namespace, pod.name), timeout_seconds=self._client_seconds
            )
        except ApiError as error:
            if error.status == 404:
                return None
            raise Unavailable(str(error)) from error
        except Unreachable as error:
            raise Unavailable(error.reason) from error
        return body if body.get("metadata", {}).get("uid") == pod.uid else None
