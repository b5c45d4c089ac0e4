"""What answers are made from: a running scheduler, and what else a replica knows of itself."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from berth.model import Pod
from berth.policy.compile import ActivePolicy
from berth.policy.policy_store import PolicyStore
from berth.scheduler.cache.cache import Cache
from berth.scheduler.decision_memory import DecisionMemory
from berth.scheduler.ports import Clock
from berth.scheduler.queue.queue import Queue
from berth.scheduler.scheduler import Scheduler


@dataclass(frozen=True, slots=True)
class Sources:
    """Read in the scheduler's loop.

    `leads`: whether this replica makes the decisions; `replica` is its name; `problems`: why it is not ready, if so.
    """

    scheduler: Scheduler
    leads: Callable[[], bool]
    replica: str = ""
    problems: Callable[[], Sequence[str]] = tuple

    @property
    def cache(self) -> Cache:
        return self.scheduler.components.cache

    @property
    def queue(self) -> Queue:
        return self.scheduler.components.queue

    @property
    def policies(self) -> PolicyStore:
        return self.scheduler.components.policies

    @property
    def decisions(self) -> DecisionMemory:
        return self.scheduler.components.decision_memory

    @property
    def attempts(self) -> Mapping[str, int]:
        """The number of attempts by result."""
        return self.scheduler.components.measures.results

    @property
    def clock(self) -> Clock:
        return self.scheduler.components.clock

    def policy_for(self, pod: Pod) -> ActivePolicy | None:
        return self.policies.for_pod(pod, self.cache.namespace_labels(pod.namespace))

    def moment(self, seconds: float) -> str:
        """Returns a moment of the scheduler's clock as an API timestamp."""
        return timestamp(self.clock.wall() + timedelta(seconds=seconds - self.clock.now()))


def timestamp(moment: datetime) -> str:
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def metadata(
    name: str, namespace: str = "", uid: str = "", created: str = "", labels: Mapping[str, str] | None = None
) -> dict[str, object]:
    """Returns the metadata of an object; what is empty is left out."""
    fields = {
        "name": name,
        "namespace": namespace,
        "uid": uid,
        "creationTimestamp": created,
        "labels": dict(labels or {}),
    }
    return {key: value for key, value in fields.items() if value}
