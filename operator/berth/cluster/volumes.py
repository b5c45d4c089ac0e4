"""What the scheduler writes about volumes: for which claim one is kept, and for which node a claim's is made.

Both are patches of one version of the object: if another client has changed it meanwhile, the patch is refused (409),
and the next attempt goes by what is there then. The rest, binding claim and volume to each other or making one, is for
the volume controller and the provisioner, who watch for exactly these fields.
"""

from collections.abc import Mapping
from typing import Any

from berth.cluster.api import MERGE_PATCH, Api
from berth.cluster.delays import pause_seconds
from berth.cluster.errors import ApiError, Unreachable
from berth.cluster.fence import Fence
from berth.model import Claim, Volume
from berth.scheduler.ports import Clock, NotLeading, NotWritten

CLIENT_SECONDS = 15.0
ATTEMPTS = 5  # of a write that is refused with 429
SELECTED_NODE = "volume.kubernetes.io/selected-node"
BOUND_BY_CONTROLLER = "pv.kubernetes.io/bound-by-controller"


class VolumeWriter:
    """Writes the two fields; a write that may have been carried out is never repeated here."""

    def __init__(self, api: Api, clock: Clock, fence: Fence) -> None:
        self._api = api
        self._clock = clock
        self._fence = fence

    async def keep(self, volume: Volume, claim: Claim) -> None:
        """A volume that a user had kept for the claim by hand is not marked as bound by us."""
        reference = {
            "apiVersion": "v1",
            "kind": "PersistentVolumeClaim",
            "namespace": claim.namespace,
            "name": claim.name,
            "uid": claim.uid,
            "resourceVersion": claim.resource_version,
        }
        marks = {} if volume.claim_ref is not None else {BOUND_BY_CONTROLLER: "yes"}
        path = f"/api/v1/persistentvolumes/{volume.name}"
        await self._patch(path, volume, marks, {"spec": {"claimRef": reference}})

    async def select(self, claim: Claim, node_name: str) -> None:
        path = f"/api/v1/namespaces/{claim.namespace}/persistentvolumeclaims/{claim.name}"
        await self._patch(path, claim, {SELECTED_NODE: node_name}, {})

    async def _patch(
        self, path: str, record: Claim | Volume, annotations: Mapping[str, str], rest: Mapping[str, Any]
    ) -> None:
        version = {"uid": record.uid, "resourceVersion": record.resource_version}
        body = {"metadata": {**version, "annotations": annotations} if annotations else version, **rest}
        for attempt in range(1, ATTEMPTS + 1):
            try:
                await self._api.request(
                    "PATCH",
                    path,
                    body=body,
                    content_type=MERGE_PATCH,
                    timeout_seconds=CLIENT_SECONDS,
                    fence=self._fence,
                )
                return
            except ApiError as error:
                if error.status != 429 or attempt == ATTEMPTS:
                    raise NotWritten(error.message or str(error)) from error
                await self._clock.sleep(pause_seconds(attempt, error.retry_after_seconds))
            except Unreachable as error:
                raise NotWritten(error.reason) from error
            except NotLeading as error:
                raise NotWritten(str(error)) from error
