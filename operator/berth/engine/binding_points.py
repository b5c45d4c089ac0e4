"""The stages between a decision and a bound pod, for plugins that take part in them.

    a node is chosen, its room is held --> reserve --> permit --> pre_bind --> bind --> post_bind
                                              |           |           |          |
                                              +-----------+-----------+----------+--> unreserve

Plugins are asked in the order of the policy's predicates, stage by stage. Whatever goes wrong in a stage, every plugin
of the assignment hears `unreserve`, in reverse order, also the one that refused and those that were not asked yet; then
the room is given back. So an assignment ends once for a plugin: with `post_bind` or with `unreserve`.

What may wait is a coroutine. Who runs it, how long it may take, and what time it is are not known here.
"""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Literal, Protocol

from berth.engine.plugin import Plugin
from berth.model import Pod

LONGEST_WAIT_SECONDS: Final = 900.0
_AT_ONCE = ("reserve", "unreserve", "permit", "post_bind")
_IN_TIME = ("pre_bind", "bind")


def is_reason(text: object) -> bool:
    """Whether it can be shown to somebody as why."""
    return isinstance(text, str) and bool(text)


@dataclass(frozen=True, slots=True)
class Permit:
    """What `permit` answers: one of `allow()`, `reject(reason)` and `wait(seconds)`."""

    verdict: Literal["allow", "reject", "wait"]
    reason: str = ""
    seconds: float = 0.0

    def __post_init__(self) -> None:
        if self.verdict not in ("allow", "reject", "wait"):
            raise ValueError(f"a permit is allow, reject or wait, not {self.verdict!r}")
        if self.verdict == "reject" and not is_reason(self.reason):
            raise ValueError(f"a rejection has a reason, not {self.reason!r}")
        if self.verdict == "wait" and not self.seconds > 0:
            raise ValueError(f"a pod waits for more than 0 seconds, not {self.seconds!r}")

    @staticmethod
    def allow() -> Permit:
        return _ALLOWED

    @staticmethod
    def reject(reason: str) -> Permit:
        """The pod is unschedulable, until something happens that the plugin wakes on."""
        return Permit("reject", reason=reason)

    @staticmethod
    def wait(seconds: float) -> Permit:
        """The pod keeps its room and waits to be allowed; it is rejected after so many seconds, 900 at most."""
        return Permit("wait", seconds=seconds)


_ALLOWED = Permit("allow")


@dataclass(frozen=True, slots=True)
class WaitingPod:
    """A pod that has been given a node and waits to be allowed there by these plugins."""

    pod: Pod
    node_name: str
    plugins: tuple[str, ...]


class WaitingPods(Protocol):
    """The pods that wait, as a plugin sees them. A change takes effect after the plugin has returned."""

    def pods(self) -> Sequence[WaitingPod]:
        """Of all policies, in the order in which they began to wait."""
        ...

    def allow(self, uid: str) -> bool:
        """As far as this plugin is concerned, the pod need not wait; False where it does not wait for this plugin."""
        ...

    def reject(self, uid: str, reason: str) -> bool:
        """The pod, whichever plugin it waits for, is unschedulable; False where it does not wait."""
        ...


class _Nobody:
    def pods(self) -> Sequence[WaitingPod]:
        return ()

    def allow(self, uid: str) -> bool:
        return False

    def reject(self, uid: str, reason: str) -> bool:
        return False


class BindingPlugin(Plugin):
    """A plugin that takes part in stages: a predicate that need not filter. Each method may be left out.

    It is told the pod and the name of its node. An edit of the policy makes a new plugin, while pods that have been
    given a node stay with the one that they had: what has to outlive that is found among the pods that wait, or is kept
    by the class.
    """

    waiting: WaitingPods = _Nobody()
    """Set before the plugin is first asked."""

    def reserve(self, pod: Pod, node_name: str) -> str | None:
        """Take what the pod needs there; or the reason why it cannot have it, and it is unschedulable."""
        return None

    def unreserve(self, pod: Pod, node_name: str) -> None:
        """The pod does not get the node. Also where nothing was reserved: what is not there need not be given back."""

    def permit(self, pod: Pod, node_name: str) -> Permit:
        """Whether the pod may go on."""
        return _ALLOWED

    async def pre_bind(self, pod: Pod, node_name: str) -> str | None:
        """Prepare what the pod needs before it is bound; or the reason why not, and it is tried again later."""
        return None

    async def bind(self, pod: Pod, node_name: str) -> bool:
        """Bind the pod and return True; False, and nothing done: somebody else binds it."""
        return False

    def post_bind(self, pod: Pod, node_name: str) -> None:
        """The pod is bound."""


def takes_part(kind: type[Plugin], *points: str) -> bool:
    """Whether the class has one of these methods of its own; without any, of all of them."""
    if not issubclass(kind, BindingPlugin):
        return False
    return any(getattr(kind, point) is not getattr(BindingPlugin, point) for point in points or (*_AT_ONCE, *_IN_TIME))


def problem_with_stages(kind: type[Plugin]) -> str:
    """What is wrong with the methods of a class, "" if nothing is."""
    for point in _AT_ONCE if issubclass(kind, BindingPlugin) else ():
        if inspect.iscoroutinefunction(getattr(kind, point)):
            return f"{kind.__name__}.{point}() is a coroutine: only pre_bind() and bind() may wait"
    for point in _IN_TIME if issubclass(kind, BindingPlugin) else ():
        if not inspect.iscoroutinefunction(getattr(kind, point)):
            return f"{kind.__name__}.{point}() is not a coroutine: write async def {point}(...)"
    return ""
