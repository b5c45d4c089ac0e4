"""The peering object: where replicas find each other. Made here when it is missing, read, and written about ourselves.

kopf renews our record; what it cannot say is written here: that we are about to lead, that we lead and since when, and
that we do so no more. The leader removes records that nobody renews any more, which kopf is kept from doing.

A record of ours is always written whole, since a piece of one would be a replica without an end to kopf. Its status is
a part of the object like any other, or a subresource, depending on who has defined the kind; the answer shows which.
"""

from typing import Any, Final

from berth.cluster.api import JSON_PATCH, MERGE_PATCH, Api
from berth.cluster.errors import ApiError
from berth.cluster.leadership import Leadership, write_leader, write_record
from berth.scheduler.object_events import version_number
from berth.scheduler.ports import Clock

GROUP, VERSION, PLURAL, KIND = "kopf.dev", "v1", "clusterkopfpeerings", "ClusterKopfPeering"
PATH: Final = f"/apis/{GROUP}/{VERSION}/{PLURAL}"
LEADING_SINCE: Final = "leadingSince"
LEADER: Final = "berth.dev/leader"  # an annotation: the last leader that has not stepped down
NO_KIND = (
    f"the API server does not know the kind {KIND}, by which replicas elect a leader: apply "
    "crds/clusterkopfpeerings.kopf.dev.yaml, or run one replica with --standalone"
)


class NoPeering(Exception):
    """Replicas cannot elect a leader here, and waiting will not help; the message is for people."""


class Peering:
    """The object of this name."""

    def __init__(self, api: Api, clock: Clock, name: str, leadership: Leadership) -> None:
        self._api = api
        self._clock = clock
        self._path = f"{PATH}/{name}"
        self.name = name
        self._leadership = leadership
        self._seconds = leadership.terms.request_seconds

    async def ensure(self) -> None:
        """Make the object if it is missing, and see that we may write to it.

        Raises NoPeering; Unreachable or ApiError for what may pass by itself.
        """
        try:
            await self._ensure()
        except ApiError as error:
            if error.is_transient:
                raise
            if error.status == 403:
                raise NoPeering(self._forbidden(error)) from error
            raise NoPeering(f"{KIND} {self.name}: {error}") from error

    async def _ensure(self) -> None:
        for _ in range(2):
            try:
                await self._api.request("PATCH", self._path, body={}, content_type=MERGE_PATCH)
                return
            except ApiError as error:
                if error.status != 404:
                    raise
            await self._create()

    async def _create(self) -> None:
        body = {"apiVersion": f"{GROUP}/{VERSION}", "kind": KIND, "metadata": {"name": self.name}}
        try:
            await self._api.request("POST", PATH, body=body)
        except ApiError as error:
            if error.status == 404:
                raise NoPeering(NO_KIND) from error
            if error.status != 409:  # another replica was faster
                raise

    def _forbidden(self, error: ApiError) -> str:
        return (
            f"{KIND} {self.name}, by which replicas elect a leader, may not be used: {error.message}; allow get, list, "
            f"watch and patch of {PLURAL}.{GROUP}, and create where the object is not made by another client, or run "
            "one replica with --standalone"
        )

    async def look(self) -> None:
        """Read the records as they are now; raises ApiError or Unreachable."""
        question = self._leadership.ask()
        _, body = await self._api.request("GET", self._path, timeout_seconds=self._seconds)
        version, leader = _facts(body)
        self._leadership.answer(question, version, body.get("status"), leader)

    def show(self, body: Any, *, jumped: bool = False) -> None:
        """The object is, or was, in this form; `jumped`: it may have had others before that were not shown."""
        version, leader = _facts(body)
        self._leadership.observe(version, body.get("status"), leader, jumped=jumped)

    async def claim(self) -> int:
        """Write that we are about to lead; the version that has it. Raises ApiError or Unreachable."""
        leader = write_leader(self._leadership.identity, self._leadership.terms)
        _, body = await self._patch(self._path, {"metadata": {"annotations": {LEADER: leader}}})
        return version_number(body["metadata"].get("resourceVersion")) or 0

    async def disclaim(self) -> None:
        """Nothing of ours is under way: nobody has to wait for us, unless another has claimed the lead meanwhile."""
        path = "/metadata/annotations/" + LEADER.replace("/", "~1")
        leader = write_leader(self._leadership.identity, self._leadership.terms)
        steps = [{"op": "test", "path": path, "value": leader}, {"op": "remove", "path": path}]
        try:
            await self._api.request(
                "PATCH", self._path, body=steps, content_type=JSON_PATCH, timeout_seconds=self._seconds
            )
        except ApiError as error:
            if error.status != 422:  # it is not our name that stands there
                raise

    async def announce(self, *, leading: bool) -> None:
        """Write our record, and whether we lead from now on; raises ApiError or Unreachable."""
        priority = self._leadership.renew()
        wall = self._clock.wall()
        record = write_record(priority, self._leadership.terms, wall)
        record[LEADING_SINCE] = wall.strftime("%Y-%m-%dT%H:%M:%SZ") if leading else None
        await self._write(record)

    async def remove(self, identity: str, stamp: str) -> None:
        """Remove the record of another, unless it was renewed meanwhile; raises ApiError or Unreachable."""
        path = "/status/" + identity.replace("~", "~0").replace("/", "~1")
        steps = [{"op": "test", "path": f"{path}/lastseen", "value": stamp}, {"op": "remove", "path": path}]
        for where in (self._path, f"{self._path}/status"):
            try:
                _, body = await self._api.request(
                    "PATCH", where, body=steps, content_type=JSON_PATCH, timeout_seconds=self._seconds
                )
            except ApiError as error:
                if error.status != 422:  # it was renewed, or is gone
                    raise
                return
            if identity not in (body.get("status") or {}):
                return

    async def _write(self, record: dict[str, Any]) -> None:
        identity = self._leadership.identity
        patch = {"status": {identity: record}}
        _, body = await self._patch(self._path, patch)
        found = (body.get("status") or {}).get(identity) or {}
        if found.get("lastseen") != record["lastseen"]:
            await self._patch(f"{self._path}/status", patch)

    async def _patch(self, path: str, patch: dict[str, Any]) -> tuple[int, dict[str, Any]]:
        return await self._api.request(
            "PATCH", path, body=patch, content_type=MERGE_PATCH, timeout_seconds=self._seconds
        )


def _facts(body: Any) -> tuple[str, str]:
    """The version of the object, and the name beside its records."""
    metadata = body.get("metadata") or {}
    leader = (metadata.get("annotations") or {}).get(LEADER)
    return str(metadata.get("resourceVersion") or ""), leader if isinstance(leader, str) else ""
