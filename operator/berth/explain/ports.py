"""What an explanation needs to know besides the state: which policy decides, and what the queue knows."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Protocol

from berth.explain.records import Choice, PodState
from berth.model import Pod
from berth.policy.compile import ActivePolicy


class Policies(Protocol):
    """Which policy decides for which pod; `berth.policy.PolicyStore` is one."""

    def for_pod(self, pod: Pod, namespace_labels: Mapping[str, str]) -> ActivePolicy | None: ...

    def serves(self, scheduler_name: str) -> bool: ...

    def scheduler_names(self) -> Collection[str]: ...

    def unserved(self, pod: Pod, namespace_labels: Mapping[str, str]) -> str: ...


@dataclass(frozen=True, slots=True)
class Waiting:
    """What the scheduler knows of a pod that waits: `node` if it has one already and is not bound yet."""

    state: PodState
    since: str = ""
    attempts: int | None = None
    place: int | None = None
    next_try: str = ""
    retried_on: tuple[str, ...] = ()
    waits_for: tuple[str, ...] = ()
    node: str = ""


class Knowledge(Protocol):
    """What a running scheduler knows and the state does not show. Offline there is none."""

    def waiting(self, pod: Pod) -> Waiting | None:
        """Returns what the queue and the binding cycle know of the pod; None if it is in neither."""
        ...

    def choice(self, pod: Pod) -> Choice | None:
        """Returns the recorded decision for the pod; None if the memory does not have it."""
        ...
