"""A cache that lived through a history equals one that is shown the end of it, in whatever order the reports came."""

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from berth.scheduler import Cache
from scheduler.memory_cluster import MemoryCluster, Report
from support.builders import make_node, make_pod
from support.examples import examples

NODES = ("a", "b", "c")
PODS = ("p", "q", "r", "s")


def tell(cache: Cache, report: Report) -> None:
    (cache.remove if report.gone else cache.observe)(report.kind, report.body)


def picture(cache: Cache) -> dict[str, Any]:
    """Everything that the table says, by names instead of rows."""
    table = cache.state.table
    picture: dict[str, Any] = {}
    for name in NODES:
        pods = {uid: (dict(pod.usage), dict(pod.labels)) for uid, pod in table.pods_on(name).items()}
        picture[name] = {"pods": pods}
        row = table.row(name)
        if row is not None:
            for resource, index in table.resource_index.items():
                amounts = int(table.allocatable[index, row]), int(table.used[index, row])
                if any(amounts):
                    picture[name][resource] = amounts
            picture[name]["used"] = [table.used_of(f"example.com/{short}", row) for short in ("gpu", "fpga")]
            picture[name]["nonzero"] = table.nonzero[:, row].tolist()
            picture[name]["unschedulable"] = bool(table.unschedulable[row])
            picture[name]["taints"] = table.taints_of[int(table.taint_sets[row])]
    picture["pending"] = set(cache.pending)
    picture["known"] = {kind: dict(cache.known(kind)) for kind in ("Pod", "Node")}
    picture["invalid"] = set(cache.invalid)
    return picture


class History:
    """A random life of a small cluster."""

    def __init__(self, data: st.DataObject) -> None:
        self.data = data
        self.cluster = MemoryCluster()
        self.generation = 0

    def draw(self, strategy: st.SearchStrategy[Any]) -> Any:
        return self.data.draw(strategy)

    def step(self) -> None:
        self.draw(st.sampled_from([self.write_node, self.write_pod, self.write_pod, self.delete]))()

    def write_node(self) -> None:
        name = self.draw(st.sampled_from(NODES))
        node = make_node(
            name,
            cpu=self.draw(st.sampled_from(["1", "4", "nonsense"])),
            unschedulable=self.draw(st.booleans()),
            extended=self.draw(st.sampled_from([{}, {"example.com/gpu": "2"}, {"example.com/fpga": "1"}])),
        )
        node["metadata"]["uid"] = self.uid("Node", name)
        self.cluster.write("Node", node)

    def write_pod(self) -> None:
        name = self.draw(st.sampled_from(PODS))
        key = f"default/{name}"
        known = self.cluster.objects["Pod"].get(key)
        bound = known["spec"].get("nodeName", "") if known else ""
        node = bound or self.draw(st.sampled_from(("", *NODES)))  # Kubernetes never unbinds and never moves
        pod = make_pod(
            name,
            node=node,
            requests={
                "cpu": self.draw(st.sampled_from(["100m", "1"])),
                **self.draw(st.sampled_from([{}, {"example.com/gpu": "1"}, {"example.com/fpga": "1"}])),
            },
            labels=self.draw(st.sampled_from([{}, {"app": "web"}])),
            phase=self.draw(st.sampled_from(["Pending", "Running", "Running", "Failed"])),
            uid=self.uid("Pod", key),
        )
        self.cluster.write("Pod", pod)

    def uid(self, kind: str, key: str) -> str:
        known = self.cluster.objects[kind].get(key)
        if known is not None:
            return str(known["metadata"]["uid"])
        self.generation += 1
        return f"{key}-{self.generation}"

    def delete(self) -> None:
        kind = self.draw(st.sampled_from(["Pod", "Node"]))
        if self.cluster.objects[kind]:
            self.cluster.delete(kind, self.draw(st.sampled_from(sorted(self.cluster.objects[kind]))))


@given(st.data())
@settings(max_examples=examples(150))
def test_the_order_of_reports_does_not_matter(data: st.DataObject) -> None:
    history = History(data)
    for _ in range(data.draw(st.integers(1, 25))):
        history.step()
    lived = Cache()
    for report in data.draw(st.permutations(history.cluster.feed)):
        tell(lived, report)
        if data.draw(st.booleans()):
            tell(lived, report)  # a relist says everything again
    assert picture(lived) == picture(rebuilt(history.cluster))


@given(st.data())
@settings(max_examples=examples(150))
def test_assumptions_leave_no_trace_but_their_own_room(data: st.DataObject) -> None:
    history = History(data)
    lived = Cache()
    for _ in range(data.draw(st.integers(1, 25))):
        history.step()
        if data.draw(st.booleans()):
            for report in history.cluster.feed:
                tell(lived, report)
            history.cluster.feed.clear()
        assume_or_forget(lived, data)
    for report in history.cluster.feed:
        tell(lived, report)
    expected = rebuilt(history.cluster)
    for uid, held in lived.assumed().items():
        expected.assume(expected.pending[uid], held.node_name)
    assert picture(lived) == picture(expected)


def assume_or_forget(cache: Cache, data: st.DataObject) -> None:
    if len(cache.pending) and data.draw(st.booleans()):
        uid = data.draw(st.sampled_from(sorted(cache.pending)))
        cache.assume(cache.pending[uid], data.draw(st.sampled_from(NODES)))
    if len(cache.assumed()) and data.draw(st.booleans()):
        uid = data.draw(st.sampled_from(sorted(cache.assumed())))
        data.draw(st.sampled_from([cache.forget, cache.confirm]))(uid)


def rebuilt(cluster: MemoryCluster) -> Cache:
    cache = Cache()
    for kind, objects in cluster.objects.items():
        for body in objects.values():
            cache.observe(kind, body)
    return cache
