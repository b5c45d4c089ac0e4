"""Binding a pod to a node, and reading a pod when nobody knows how a bind ended.

A bind names the pod's UID, so that the API server refuses a namesake, and carries a time limit for the server that is
shorter than our own: when we give up waiting, the server has given up working. Every answer is a yes, a definite no
(4xx) or "unknown" (5xx, a timeout, a cut); see the scheduler's ports for what each means.

One definite no is not worth telling anybody at once: 429, the server has too much to do. Such a bind is sent again a
few times, after the pause that the server asks for or growing ones; the pod keeps its room meanwhile, and that its bind
holds one of the places for running binds slows us down as the server wants.
"""

from collections.abc import Mapping
from typing import Any

from berth.cluster.api import Api
from berth.cluster.delays import pause_seconds
from berth.cluster.errors import ApiError, Unreachable
from berth.cluster.fence import Fence
from berth.model import Pod
from berth.scheduler.object_events import identify
from berth.scheduler.ports import BindRefused, Clock, OutcomeUnknown, Unavailable

SERVER_SECONDS = 10
CLIENT_SECONDS = 15.0
ATTEMPTS = 5  # of a bind that is refused with 429


def pod_path(namespace: str, name: str, subresource: str = "") -> str:
    """The path of a pod or of one of its subresources."""
    path = f"/api/v1/namespaces/{namespace}/pods/{name}"
    return f"{path}/{subresource}" if subresource else path


class Binder:
    """Binds and reads pods; a request that may have been carried out is never repeated here."""

    def __init__(
        self,
        api: Api,
        clock: Clock,
        fence: Fence,
        *,
        client_seconds: float = CLIENT_SECONDS,
        server_seconds: float = SERVER_SECONDS,
    ) -> None:
        self._api = api
        self._clock = clock
        self._fence = fence
        self._client_seconds = client_seconds
        self._query = {"timeout": f"{server_seconds:g}s"}

    async def bind(self, pod: Pod, node_name: str, annotations: Mapping[str, str] | None = None) -> None:
        """Bind the pod of this UID; raises BindRefused, OutcomeUnknown or NotLeading.

        The API server copies the annotations of a Binding onto the pod in the same write.
        """
        metadata: dict[str, Any] = {"name": pod.name, "namespace": pod.namespace, "uid": pod.uid}
        if annotations:
            metadata["annotations"] = dict(annotations)
        body = {
            "apiVersion": "v1",
            "kind": "Binding",
            "metadata": metadata,
            "target": {"apiVersion": "v1", "kind": "Node", "name": node_name},
        }
        for attempt in range(1, ATTEMPTS + 1):
            try:
                return await self._post(pod, body)
            except ApiError as error:
                if error.status != 429 or attempt == ATTEMPTS:
                    raise _outcome(error) from error
                await self._clock.sleep(pause_seconds(attempt, error.retry_after_seconds))
            except Unreachable as error:
                raise OutcomeUnknown(error.reason) from error
        return None

    async def _post(self, pod: Pod, binding: Mapping[str, Any]) -> None:
        await self._api.request(
            "POST",
            pod_path(pod.namespace, pod.name, "binding"),
            body=binding,
            query=self._query,
            timeout_seconds=self._client_seconds,
            fence=self._fence,
        )

    async def read_pod(self, pod: Pod) -> Mapping[str, Any] | None:
        """The pod as it is now; None when it is gone or its name has another UID; raises Unavailable."""
        try:
            _, body = await self._api.request(
                "GET", pod_path(pod.namespace, pod.name), timeout_seconds=self._client_seconds
            )
        except ApiError as error:
            if error.status == 404 and error.is_status:  # and not a proxy that does not know the path
                return None
            raise Unavailable(str(error)) from error
        except Unreachable as error:
            raise Unavailable(error.reason) from error
        identity = identify(body)
        if identity is None:
            raise Unavailable("the answer is not a pod")
        return body if identity.uid == pod.uid else None


def _outcome(error: ApiError) -> BindRefused | OutcomeUnknown:
    """Only the API server itself refuses; what a proxy says leaves open whether the request got through to it."""
    if error.is_status and 400 <= error.status < 500 and error.status != 408:
        return BindRefused(error.status, error.message or error.reason)
    return OutcomeUnknown(str(error))
