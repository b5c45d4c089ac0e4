"""The contract of plugins for Reserve, Permit, PreBind, Bind and PostBind: between the decision and the bound pod.

    a node is chosen, the pod assumed  --> reserve --> permit --> pre_bind --> bind --> post_bind
                                              |           |           |          |
                                              +-----------+-----------+----------+--> unreserve

Plugins are called in the order of the policy's predicates, one extension point after another. If any of them fails,
`unreserve` is called on every plugin in reverse order, also on the one that failed and on those that were not called
yet. Then the pod is forgotten. So for every plugin, an assignment ends exactly once: with `post_bind` or `unreserve`.

Methods that may wait are coroutines. The engine does not run them, and has neither timeouts nor a clock.
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
    """Whether it can be shown to a user as a reason."""
    return isinstance(text, str) and bool(text)


@dataclass(frozen=True, slots=True)
class Permit:
    """The result of `permit`: one of `allow()`, `reject(reason)` and `wait(seconds)`."""

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
        """The pod is unschedulable, until an event of the plugin's `retry_events`."""
        return Permit("reject", reason=reason)

    @staticmethod
    def wait(seconds: float) -> Permit:
        """The pod stays assumed and waits to be allowed; it is rejected after `seconds`, at most 900."""
        return Permit("wait", seconds=seconds)


_ALLOWED = Permit("allow")


@dataclass(frozen=True, slots=True)
class WaitingPod:
    """A pod that is assumed on a node and waits to be allowed by these plugins."""

    pod: Pod
    node_name: str
    plugins: tuple[str, ...]


class WaitingPods(Protocol):
    """The waiting pods, as a plugin sees them. `allow` and `reject` take effect after the plugin has returned."""

    def pods(self) -> Sequence[WaitingPod]:
        """Returns the waiting pods of all policies, in the order in which they began to wait."""
        ...

    def allow(self, uid: str) -> bool:
        """Allows the pod on behalf of this plugin; False if the pod does not wait for this plugin."""
        ...

    def reject(self, uid: str, reason: str) -> bool:
        """Rejects the pod, whichever plugin it waits for; False if it does not wait."""
        ...


class _Nobody:
    def pods(self) -> Sequence[WaitingPod]:
        return ()

    def allow(self, uid: str) -> bool:
        return False

    def reject(self, uid: str, reason: str) -> bool:
        return False


class BindingPlugin(Plugin):
    """A plugin with some of these extension points: a predicate that need not filter. Each method is optional.

    When a policy is edited, new plugin instances are made, but pods that are already assumed stay with the old ones. So
    state that must survive an edit belongs in class attributes, or is derived from the waiting pods.
    """

    waiting: WaitingPods = _Nobody()
    """Set before the first call of the plugin."""

    def reserve(self, pod: Pod, node_name: str) -> str | None:
        """Reserves what the pod needs on the node; or returns the reason why it cannot: the pod is unschedulable."""
        return None

    def unreserve(self, pod: Pod, node_name: str) -> None:
        """Releases what `reserve` reserved. It is also called if nothing was reserved, and must not fail then."""

    def permit(self, pod: Pod, node_name: str) -> Permit:
        """Returns whether the pod may be bound."""
        return _ALLOWED

    async def pre_bind(self, pod: Pod, node_name: str) -> str | None:
        """Prepares what the pod needs before it is bound; or returns the reason why not: the pod is retried later."""
        return None

    async def bind(self, pod: Pod, node_name: str) -> bool:
        """Binds the pod and returns True; or does nothing and returns False: another plugin, or Berth, binds it."""
        return False

    def post_bind(self, pod: Pod, node_name: str) -> None:
        """The pod is bound."""


def takes_part(kind: type[Plugin], *points: str) -> bool:
    """Whether the class overrides one of these methods; without `points`, any of them."""
    if not issubclass(kind, BindingPlugin):
        return False
    return any(getattr(kind, point) is not getattr(BindingPlugin, point) for point in points or (*_AT_ONCE, *_IN_TIME))


def problem_with_stages(kind: type[Plugin]) -> str:
    """Returns what is wrong with the methods of a class, "" if nothing is."""
    for point in _AT_ONCE if issubclass(kind, BindingPlugin) else ():
        if inspect.iscoroutinefunction(getattr(kind, point)):
            return f"{kind.__name__}.{point}() is a coroutine: only pre_bind() and bind() may wait"
    for point in _IN_TIME if issubclass(kind, BindingPlugin) else ():
        if not inspect.iscoroutinefunction(getattr(kind, point)):
            return f"{kind.__name__}.{point}() is not a coroutine: write async def {point}(...)"
    return ""
