"""PerNode: asked about one node at a time, and no more often than what it reads makes necessary."""

from collections.abc import Callable
from dataclasses import replace
from random import Random
from typing import Any, ClassVar

import pytest

from berth.engine.diagnosis import Diagnosis
from berth.engine.events import ANY
from berth.engine.per_node import NodeView, PerNode, Reads
from berth.engine.pipeline import Pipeline, Placement, TieBreak
from berth.engine.plugin import Plugin, PluginFailed, Query
from berth.engine.preemption.preemption import Preemption
from berth.engine.preemption.victims import Nomination
from berth.engine.state.state import State
from berth.engine.testing import check_contract, cluster, make, scores, verdicts
from berth.engine.verdict import Code
from berth.model import Pod, parse_node, parse_pod
from engine.expecting import as_placement, make_filter, node_of
from support.builders import Body, make_node, make_pod

NODES = [make_node(name, labels={"disk": disk}) for name, disk in (("a", "ssd"), ("b", "hdd"), ("c", "ssd"))]


def a_pod(name: str = "p", **more: Any) -> Pod:
    return parse_pod(make_pod(name, **{"cpu": "1", "uid": name, **more}))


def kind(**body: object) -> type[PerNode]:
    return type("Odd", (PerNode,), body)


def verdicts_by_node(plugin: Plugin, pod: Pod, state: State) -> dict[str, tuple[str, ...]]:
    found = verdicts(plugin, pod, state)
    assert isinstance(found, dict)
    return found


class Counting(PerNode):
    """Writes down the nodes that it was asked about."""

    asked: ClassVar[list[str]]
    liked: ClassVar[list[str]]

    def fits(self, pod: Pod, node: NodeView) -> bool | str:
        self.asked.append(node.name)
        return node.labels["disk"] == "ssd" or "node(s) were slow"

    def points(self, pod: Pod, node: NodeView) -> int:
        self.liked.append(node.name)
        return 50


def test_a_node_is_refused_for_the_reason_given_or_the_classes_own() -> None:
    state = cluster(NODES)
    slow = kind(fits=lambda self, pod, node: node.labels["disk"] == "ssd" or "node(s) were slow")
    assert verdicts(make(slow), a_pod(), state) == {"a": (), "b": ("node(s) were slow",), "c": ()}
    plain = kind(fits=lambda self, pod, node: node.name == "a")
    assert verdicts_by_node(make(plain), a_pod(), state)["b"] == ("node(s) were refused by Odd",)
    spoken = kind(fits=lambda self, pod, node: False, refusal="node(s) were not for me")
    assert verdicts_by_node(make(spoken), a_pod(), state)["b"] == ("node(s) were not for me",)


def test_reasons_are_counted_as_those_of_any_filter() -> None:
    plugin = make(kind(fits=lambda self, pod, node: f"node(s) had {node.labels['disk']}"))
    said = Pipeline([plugin], []).decide(a_pod(), cluster(NODES), Random(0))
    assert isinstance(said, Diagnosis)
    assert said.message == "0/3 nodes are available: 1 node(s) had hdd, 2 node(s) had ssd."
    assert said.retry_events == ANY


def test_points_are_the_score() -> None:
    plugin = make(kind(points=lambda self, pod, node: 80 if node.labels["disk"] == "ssd" else 7))
    assert scores(plugin, a_pod(), cluster(NODES)) == {"a": 80, "b": 7, "c": 80}


def test_it_is_a_predicate_where_it_has_fits_and_a_priority_where_it_has_points() -> None:
    judging, liking = kind(fits=lambda *given: True), kind(points=lambda *given: 1)
    assert (judging.filters, judging.scores) == (True, False)
    assert (liking.filters, liking.scores) == (False, True)
    assert (Counting.filters, Counting.scores) == (True, True)


@pytest.mark.parametrize("answer", [None, "", 1, ["no"]])
def test_what_is_neither_yes_nor_no_nor_a_reason_is_a_failure(answer: object) -> None:
    with pytest.raises(PluginFailed, match=r"filter\(\) raised TypeError: fits\(\) gave .* for node a"):
        verdicts(make(kind(fits=lambda *given: answer)), a_pod(), cluster(NODES))


@pytest.mark.parametrize("answer", [None, 1.0, True, -1, 101, "50"])
def test_points_that_are_no_number_from_0_to_100_are_a_failure(answer: object) -> None:
    with pytest.raises(PluginFailed, match=r"score\(\) raised TypeError: points\(\) gave .* for node a"):
        scores(make(kind(points=lambda *given: answer)), a_pod(), cluster(NODES))


# --- the view --------------------------------------------------------------------------------------------------------


def view_of(body: Body, *pods: Body, reads: Reads = Reads.ANYTHING) -> NodeView:
    seen: list[NodeView] = []

    def fits(self: PerNode, pod: Pod, node: NodeView) -> bool:
        seen.append(node)
        return True

    plugin = make(kind(fits=fits, reads=reads))
    verdicts(plugin, a_pod(), cluster([body, *pods]))
    return seen[0]


def test_a_view_shows_what_the_node_is_and_has() -> None:
    node = make_node(
        "n",
        cpu="4",
        memory="1Gi",
        pods=10,
        labels={"disk": "ssd"},
        annotations={"note": "x"},
        taints=[("gpu", "", "NoSchedule")],
        unschedulable=True,
        images={"app": 7},
        extended={"example.com/gpu": 2},
    )
    view = view_of(node, make_pod("old", uid="old", node="n", requests={"cpu": "500m", "example.com/gpu": "1"}))
    assert (view.name, view.labels, view.annotations) == ("n", {"disk": "ssd"}, {"note": "x"})
    assert [taint.key for taint in view.taints] == ["gpu"]
    assert (view.unschedulable, view.images, view.conditions) == (True, {"app": 7}, {"Ready": "True"})
    some = ("cpu", "memory", "pods", "example.com/gpu", "example.com/none")
    assert [view.allocatable[name] for name in some] == [4000, 2**30, 10, 2, 0]
    assert [view.used[name] for name in some] == [500, 0, 1, 1, 0]
    assert [view.free[name] for name in some] == [3500, 2**30, 9, 1, 0]
    assert "" not in view.allocatable
    assert dict(view.free) == {
        "cpu": 3500,
        "memory": 2**30,
        "ephemeral-storage": 0,
        "pods": 9,
        "example.com/gpu": 1,
    }
    assert len(view.free) == 5
    assert [pod.name for pod in view.pods] == ["old"]


def test_a_view_cannot_be_written() -> None:
    view = view_of(make_node("n", labels={"a": "b"}, annotations={"a": "b"}))
    for mapping in (view.labels, view.annotations, view.images, view.conditions, view.allocatable, view.free):
        with pytest.raises(TypeError):
            mapping["a"] = "c"  # type: ignore[index]  # a mapping cannot be written: mypy says so too


@pytest.mark.parametrize(
    ("reads", "hidden"),
    [
        (Reads.ANYTHING, ()),
        (Reads.PODS, ("annotations",)),
        (Reads.LABELS, ("annotations", "allocatable", "used", "free", "pods")),
    ],
)
def test_a_view_hides_what_the_class_does_not_say_that_it_reads(reads: Reads, hidden: tuple[str, ...]) -> None:
    view = view_of(make_node("n"), reads=reads)
    for field in ("labels", "taints", "unschedulable", "conditions", "images"):
        getattr(view, field)
    for field in ("annotations", "allocatable", "used", "free", "pods"):
        if field in hidden:
            with pytest.raises(AttributeError, match=rf"node.{field} is not to be read .* covers it"):
                getattr(view, field)
        else:
            getattr(view, field)


# --- how often it is asked -------------------------------------------------------------------------------------------


def asked_for_each_pod(reads: Reads, meanwhile: Callable[[State], None] = lambda state: None) -> list[str]:
    """Whether it fits, and for how many points: the nodes asked about for three pods alike, each of which goes to node
    a, and for one of another kind.
    """
    counting: type[Counting] = type("Counted", (Counting,), {"reads": reads, "asked": [], "liked": []})
    pipeline = Pipeline([make(counting)], [(make(counting), 1)], TieBreak.FIRST)
    state, each = cluster(NODES), []
    for name, labels in (("p1", {}), ("p2", {}), ("p3", {}), ("q", {"app": "q"})):
        pod = a_pod(name, labels=labels)
        said = as_placement(pipeline.decide(pod, state, Random(0)))
        assert said == Placement("a", 3, 2)
        state.table.add_pod(pod, said.node)
        each.append(f"{''.join(counting.asked)}/{''.join(counting.liked)}")
        counting.asked.clear()
        counting.liked.clear()
        meanwhile(state)
    return each


def test_one_that_reads_anything_is_asked_about_every_node_each_time() -> None:
    assert asked_for_each_pod(Reads.ANYTHING) == ["abc/ac", "abc/ac", "abc/ac", "abc/ac"]


def test_one_that_reads_pods_is_asked_again_about_nodes_that_changed() -> None:
    assert asked_for_each_pod(Reads.PODS) == ["abc/ac", "a/a", "a/a", "abc/ac"]


def test_one_that_reads_labels_is_asked_once_a_kind_of_pod_until_a_label_changes() -> None:
    assert asked_for_each_pod(Reads.LABELS) == ["abc/abc", "/", "/", "abc/abc"]

    def relabel(state: State) -> None:
        node = node_of(state.table, "c")
        state.table.set_node(replace(node, labels={**node.labels, "pods": str(len(state.table.pods_on("a")))}))

    assert asked_for_each_pod(Reads.LABELS, relabel) == ["abc/abc"] * 4


@pytest.mark.parametrize("known", [True, False])
def test_points_that_are_kept_follow_the_table_as_it_grows(known: bool) -> None:
    """Past 64, 128 and 256 rows, by nodes that join or by pods that are bound to nodes which are not known."""
    plugin = make(kind(points=lambda self, pod, node: max(0, 100 - len(node.pods)), reads=Reads.PODS))
    pipeline, state = Pipeline([], [(plugin, 1)], TieBreak.FIRST), cluster(NODES)
    for number in range(300):
        if known:
            state.table.set_node(parse_node(make_node(f"z{number:03}")))
        state.table.add_pod(a_pod(f"bound-{number}"), f"z{number:03}")
        pod = a_pod(f"p{number}")
        said = as_placement(pipeline.decide(pod, state, Random(0)))
        assert said == Pipeline([], [(plugin, 1)], TieBreak.FIRST).decide(pod, state, Random(0))
        state.table.add_pod(pod, said.node)
    assert state.table.capacity == 512


@pytest.mark.parametrize("reads", list(Reads))
def test_answers_are_kept_no_longer_than_they_are_right(reads: Reads) -> None:
    class Mixed(PerNode):
        def fits(self, pod: Pod, node: NodeView) -> bool | str:
            if node.labels.get("disk") == "hdd":
                return "node(s) were slow"
            if self.reads is Reads.LABELS:
                return True
            note = node.annotations.get("full") if self.reads is Reads.ANYTHING else None
            return note is None and len(node.pods) != 3

        def points(self, pod: Pod, node: NodeView) -> int:
            if self.reads is Reads.LABELS:
                return 10 * len(node.taints)
            return max(0, 100 - 7 * len(node.pods) - node.used["cpu"] // 1000)

    bodies = [
        *NODES,
        make_node("d", labels={"disk": "ssd"}, annotations={"full": "yes"}),
        make_node("e", taints=[("x", "", "PreferNoSchedule")]),
        *(make_pod(f"old-{number}", uid=f"old-{number}", node="ace"[number % 3], cpu="1") for number in range(7)),
    ]
    pods = [a_pod("one"), a_pod("two", cpu="2"), a_pod("three", labels={"app": "three"})]
    check_contract(type("Reading", (Mixed,), {"reads": reads}), {}, bodies, pods)


@pytest.mark.parametrize(
    ("reads", "code"),
    [
        (Reads.LABELS, Code.UNRESOLVABLE),
        (Reads.PODS, Code.UNSCHEDULABLE),
        (Reads.ANYTHING, Code.UNSCHEDULABLE),
    ],
)
def test_only_what_hangs_on_pods_may_be_mended_by_pods_that_leave(reads: Reads, code: Code) -> None:
    state, plugin = cluster(NODES), make(kind(fits=lambda *given: False, reads=reads))
    assert plugin.filter(Query(a_pod(), state.table), state, state.table.rows).codes.tolist() == [code] * 3
    assert plugin.dependencies.reads_pods == (code is Code.UNSCHEDULABLE)


@pytest.mark.parametrize("reads", [Reads.PODS, Reads.ANYTHING])
def test_preemption_asks_it_whether_the_pod_fits_once_its_victims_are_gone(reads: Reads) -> None:
    """On node a it wants company: without its pods, the node is no good for the pod that preempts them."""
    fits = kind(fits=lambda self, pod, node: node.name != "a" or len(node.pods) > 0, reads=reads)
    bodies = [
        *(make_node(name, cpu="1") for name in "ab"),
        make_pod("low-a", uid="low-a", node="a", cpu="1", priority=1),
        make_pod("low-b", uid="low-b", node="b", cpu="1", priority=5),
    ]
    pipeline = Pipeline([make_filter("NodeResourcesFit"), make(fits)], [])
    state, pod = cluster(bodies), a_pod("high", priority=10)
    assert isinstance(pipeline.decide(pod, state, Random(0)), Diagnosis)
    query = Query(pod, state.table)
    found = Preemption().preempt(pipeline, query, pipeline.survey(query, state), state, Random(0))
    assert isinstance(found, Nomination)
    assert found.node == "b"
