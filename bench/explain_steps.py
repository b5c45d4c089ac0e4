"""The longest step of the event loop while the API of explanations is asked, in a large cluster.

    make bench-explain-steps ARGS='--nodes 5000'

The same runtime and the same figures as in `bench.loop_steps`. Each question runs in the scheduler's loop, in pieces:
lists, views, and explanations of pods that are rejected for various reasons, with verdicts on every node.

    seconds   of processor time, until the question is answered
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from typing import Any, Final

from bench import worlds
from bench.loop_steps import Body, Course, report
from bench.terminal import say
from berth.explain_api.live import LiveExplanations
from berth.explain_api.port import MOST_ITEMS, Detail, Wanted
from berth.explain_api.sources import Sources
from berth.runtime import Runtime

BUDGET_MS: Final = 5.0
PLAIN = Detail()


class ExplainCourse(Course):
    """Reads the cluster, lets pods wait, and asks."""

    def __init__(self, runtime: Runtime, objects: dict[str, list[Body]]) -> None:
        super().__init__(runtime, objects, BUDGET_MS)
        self._port = LiveExplanations(Sources(runtime.components.scheduler, lambda: True))

    def phases(self) -> Sequence[Callable[[], Coroutine[Any, Any, None]]]:
        return (
            self.read_lists,
            self.become_ready,
            self.stop_comparing,
            self.place_pods,
            self.add_rejected,
            self.list_explanations,
            self.list_nodes,
            self.list_decisions,
            self.view_cluster,
            self.view_node,
            self.explain_never,
            self.explain_selector,
            self.explain_affinity,
            self.explain_preemption,
            self.explain_placed,
            self.explain_every_node,
        )

    async def stop_comparing(self) -> None:
        """The lists of the API server stay as they are, whatever changes from here on."""
        await self.runtime.components.cache_sync.stop()

    async def add_rejected(self) -> None:
        """Pods that no node takes, each for another reason."""
        labels, image = worlds.labels_of(0), worlds.image_of(0)
        spread = {"maxSkew": 1, "topologyKey": worlds.ZONE, "whenUnsatisfiable": "DoNotSchedule"}
        selector = {"labelSelector": {"matchLabels": labels}}
        everything = {"affinity": worlds.anti_affinity({}, required=True)}
        for name, cpu_millicores, spec in (
            ("never", 1_000_000, {}),
            ("selector", 100, {"nodeSelector": {"example.com/disk": "tape"}}),
            ("affinity", 100, {**everything, "topologySpreadConstraints": [{**spread, **selector}]}),
            ("urgent", 63_000, {"priority": 1000}),
        ):
            body = worlds.pod_body(name, cpu_millicores=cpu_millicores, labels=labels, image=image, **spec)
            body["metadata"]["resourceVersion"] = self.next_version()
            self.runtime.watch_intake.on_changes("Pod", [("ADDED", body)])
        attempts = self.attempts()
        await self.wait(lambda: self.attempts() >= attempts + 4)

    async def list_explanations(self) -> None:
        await self._page_through(self._port.pending)

    async def list_nodes(self) -> None:
        await self._page_through(self._port.node_views)

    async def list_decisions(self) -> None:
        await self._page_through(self._port.decisions)

    async def view_cluster(self) -> None:
        await self._port.cluster_view()

    async def view_node(self) -> None:
        await self._port.node_view("node-0")

    async def explain_never(self) -> None:
        await self._explain("never")

    async def explain_selector(self) -> None:
        await self._explain("selector")

    async def explain_affinity(self) -> None:
        await self._explain("affinity")

    async def explain_preemption(self) -> None:
        await self._explain("urgent")

    async def explain_placed(self) -> None:
        await self._explain("placed-0-0")

    async def explain_every_node(self) -> None:
        await self._explain("affinity", Detail(every_node=True))

    async def _explain(self, name: str, detail: Detail = PLAIN) -> None:
        begun = time.process_time()
        body = await self._port.explanation("default", name, detail)
        assert body is not None, name
        said = f"{body['status']['state']}: {body['status']['message'][:70]}"
        say(f"  {time.process_time() - begun:.2f} s  {said}")

    async def _page_through(self, read: Callable[[Wanted], Awaitable[Any]]) -> None:
        begun, count, after = time.process_time(), 0, ("", "")
        while True:
            found = await read(Wanted(after=after, limit=MOST_ITEMS))
            count += len(found.items)
            if not found.rest or not found.items:
                break
            last = found.items[-1]["metadata"]
            after = (last.get("namespace", ""), last["name"])
        say(f"  {time.process_time() - begun:.2f} s  {count} objects")


def main() -> None:
    report("bench.explain_steps", __doc__.partition("\n")[0], ExplainCourse)


if __name__ == "__main__":
    main()
