"""Plugins that take part in stages, found by their entry points as anybody's are; tests say what they answer."""

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from berth.engine.binding_points import BindingPlugin, Permit
from berth.engine.per_node import NodeView, PerNode
from berth.engine.plugin import refuse_unknown
from berth.model import Pod
from engine.packages import Site

Answer = Callable[[Any, Pod], Any]


class Script:
    """What happened, and what is answered: (name of the plugin, stage) -> answer."""

    def __init__(self) -> None:
        self.calls: list[tuple[str, str, str]] = []
        self.answers: dict[tuple[str, str], Answer] = {}
        self.made: dict[str, list[Actor]] = {}

    def says(self, plugin: str, stage: str, answer: Any) -> None:
        self.answers[plugin, stage] = answer if callable(answer) else lambda *_: answer

    def of(self, pod: str) -> list[str]:
        """What the plugins heard of the pod, in order."""
        return [f"{plugin} {stage}" for plugin, stage, subject in self.calls if subject == pod]

    def play(self, plugin: "Actor", stage: str, pod: Pod, default: Any) -> Any:
        self.calls.append((plugin.name, stage, pod.name))
        self.made.setdefault(plugin.name, []).append(plugin)
        answer = self.answers.get((plugin.name, stage))
        return default if answer is None else answer(plugin, pod)


script = Script()


class Actor(BindingPlugin):
    """Answers as the script says."""

    def reserve(self, pod: Pod, node_name: str) -> str | None:
        answer: str | None = script.play(self, "reserve", pod, None)
        return answer

    def unreserve(self, pod: Pod, node_name: str) -> None:
        script.play(self, "unreserve", pod, None)

    def permit(self, pod: Pod, node_name: str) -> Permit:
        answer: Permit = script.play(self, "permit", pod, Permit.allow())
        return answer

    async def pre_bind(self, pod: Pod, node_name: str) -> str | None:
        answer: str | None = await _awaited(script.play(self, "pre_bind", pod, None))
        return answer

    async def bind(self, pod: Pod, node_name: str) -> bool:
        answer: bool = await _awaited(script.play(self, "bind", pod, False))
        return answer

    def post_bind(self, pod: Pod, node_name: str) -> None:
        script.play(self, "post_bind", pod, None)


async def _awaited(answer: Any) -> Any:
    return await answer if isinstance(answer, Awaitable) else answer


class Gang(BindingPlugin):
    """Pods of one group are bound together, when there are enough of them, or not at all."""

    def __init__(self, args: Mapping[str, Any]) -> None:
        refuse_unknown(args, "size")
        self._size = int(args["size"])

    def concerns(self, pod: Pod) -> bool:
        return "gang" in pod.labels

    def permit(self, pod: Pod, node_name: str) -> Permit:
        others = self._others(pod)
        if len(others) + 1 < self._size:
            return Permit.wait(30)
        for uid in others:
            self.waiting.allow(uid)
        return Permit.allow()

    def unreserve(self, pod: Pod, node_name: str) -> None:
        for uid in self._others(pod):
            self.waiting.reject(uid, f"its gang has lost {pod.name}")

    def _others(self, pod: Pod) -> list[str]:
        gang = pod.labels["gang"]
        return [other.pod.uid for other in self.waiting.pods() if other.pod.labels.get("gang") == gang]


class Quiet(PerNode, BindingPlugin):
    """A filter of single nodes that reserves as well."""

    def fits(self, pod: Pod, node: NodeView) -> bool | str:
        return node.name != "loud" or "node(s) were loud"

    def reserve(self, pod: Pod, node_name: str) -> str | None:
        script.calls.append((self.name, "reserve", pod.name))
        return None


@contextmanager
def installed(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Script]:
    """The plugins of this module can be named by policies."""
    monkeypatch.syspath_prepend(folder)
    Site(folder).offer("staged", "1.0", {name: f"{__name__}:{name}" for name in ("Actor", "Gang", "Quiet")})
    script.__init__()  # type: ignore[misc]
    yield script


async def never() -> None:
    """Does not come back, and ends when it is told to."""
    await asyncio.Event().wait()
