"""Nominated pods in columns: every verdict is the one that moving them in the table, node after node, gives."""

from collections.abc import Sequence
from contextlib import AbstractContextManager
from functools import cache
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from berth.engine import pipeline as pipeline_module
from berth.engine.diagnosis import Survey
from berth.engine.per_node import NodeView, PerNode, Reads
from berth.engine.pipeline import Pipeline
from berth.engine.plugin import FilterPlugin, PluginFailed, Query
from berth.engine.preemption.preemption import NoNomination, Preemption
from berth.engine.state.node_table import PODS, NodeTable
from berth.engine.state.nominated_rows import NominatedRows
from berth.engine.state.pod_counts import PodMatch
from berth.engine.state.state import State
from berth.engine.testing import check_contract, make
from berth.engine.trial import moved
from berth.engine.verdict import Code, Rows, Verdicts, refuse_where, row_numbers
from berth.judge.verdicts import verdict_on
from berth.model import LabelSelector, Pod, Requirement, object_key, parse, parse_namespace, parse_node, parse_pod
from berth.policy import import_configuration, load_policy
from berth.policy.defaults import DEFAULT_PREDICATES
from berth.policy.expressions.plugins import make_predicate
from berth.policy.records import Predicate
from berth.scheduler.cache.cache import Cache
from conformance.agreement import differences
from conformance.oracle.generator import nominated_cases
from engine.expecting import as_nomination, make_filter
from engine.storage import make_claim
from engine.test_preemption import image_of, preempt
from reference import engine as reference
from reference.profile import profile_of
from reference.world import World
from support.builders import Body, make_node, make_object, make_pod
from support.examples import examples

HOSTNAME, ZONE, RACK = "kubernetes.io/hostname", "topology.kubernetes.io/zone", "rack"
WEB = {"app": "web"}
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"


class Lonely(PerNode):
    """A predicate of a user's own that reads the pods of a node."""

    name = "Lonely"
    reads = Reads.PODS

    def fits(self, pod: Pod, node: NodeView) -> bool | str:
        return len(node.pods) < 3 or "node(s) had company"


HALF_FREE = make_predicate(
    Predicate(name="half-free", expression="node.free.cpu >= 500 && node.used.pods < 4 && node.free['x/none'] < 1"), {}
)


@cache
def readers() -> Pipeline:
    """The predicates by default, and others that read pods in all the ways that there are."""
    legacy: list[tuple[str, Body]] = [
        ("CheckServiceAffinity", {"labels": [RACK]}),
        ("MaxGCEPDVolumeCount", {"maxVolumes": 2}),
        ("MaxEBSVolumeCount", {"maxVolumes": 1}),
    ]
    return Pipeline(
        [
            *(make_filter(entry.name) for entry in DEFAULT_PREDICATES),
            *(make_filter(name, args) for name, args in legacy),
            HALF_FREE,
            Lonely({}),
        ],
        [],
    )


Refusals = dict[str, tuple[str, Code, tuple[str, ...]]]
"""The plugin, the code and the reasons, by node."""


def one_by_one(pipeline: Pipeline, pod: Pod, state: State, survey: Survey) -> Refusals:
    """The first refusal of each node, with its nominated pods moved there, else without them."""
    found: Refusals = {}
    for row in row_numbers(survey.rows).tolist():
        refusal = pipeline.refusal(Query(pod, state.table), state, row, survey.opinions)
        if refusal is not None:
            assert refusal.verdicts is not None
            found[state.table.name(row)] = (
                refusal.plugin.name,
                Code(int(refusal.verdicts.codes[0])),
                refusal.verdicts.reasons(0),
            )
    return found


def in_columns(state: State, survey: Survey) -> Refusals:
    found: Refusals = {}
    for position, row in enumerate(row_numbers(survey.rows).tolist()):
        for opinion in survey.opinions:
            if opinion.verdicts is not None and opinion.verdicts.codes[position] != Code.FITS:
                said = Code(int(opinion.verdicts.codes[position])), opinion.verdicts.reasons(position)
                found[state.table.name(row)] = (opinion.plugin.name, *said)
                break
    return found


def check_both_ways(pipeline: Pipeline, pod: Pod, state: State) -> None:
    before = image_of(state)
    survey = pipeline.survey(Query(pod, state.table), state)
    assert image_of(state) == before
    refused = in_columns(state, survey)
    fitting = [state.table.name(row) for row in row_numbers(survey.rows)[survey.fits].tolist()]
    if survey.stopped_by is None:
        assert refused == one_by_one(pipeline, pod, state, survey)
        assert sorted([*fitting, *refused]) == sorted(state.table.name(r) for r in row_numbers(survey.rows).tolist())


# --- clusters of every theme -----------------------------------------------------------------------------------------


@cache
def cases() -> list[Body]:
    return list(nominated_cases("columns", 24, 7))


def state_of_case(case: Body) -> State:
    cached = Cache()
    for body in case["objects"]:
        cached.observe(body["kind"], body)
    return cached.state


@pytest.mark.parametrize("part", range(4))
def test_in_clusters_of_every_theme_columns_say_what_moving_the_pods_says(part: int) -> None:
    for case in cases()[part::4]:
        pipeline = load_policy(import_configuration(case["config"]).manifests[0]).pipeline
        check_both_ways(pipeline, parse_pod(case["pod"]), state_of_case(case))


@pytest.mark.parametrize("part", range(4))
def test_in_clusters_of_every_theme_columns_say_what_plain_loops_say(part: int) -> None:
    for case in cases()[part::4]:
        pipeline = load_policy(import_configuration(case["config"]).manifests[0]).pipeline
        pod, state = parse_pod(case["pod"]), state_of_case(case)
        want = reference.judge(World.of(case["objects"]), profile_of(case["config"]), pod)
        assert list(differences(want, verdict_on(pod, pipeline, state, Preemption()))) == []


# --- small clusters in which everything meets ------------------------------------------------------------------------


def namespace(name: str, team: str) -> Body:
    return make_object("Namespace", name, metadata={"labels": {"team": team}})


def term(draw: st.DrawFn) -> Body:
    labels = draw(st.sampled_from([{"app": "web"}, {"app": "db"}, {}]))
    found = {
        "labelSelector": {"matchLabels": labels},
        "topologyKey": draw(st.sampled_from([HOSTNAME, ZONE, RACK, "nowhere"])),
    }
    namespaces = draw(st.sampled_from(["own", "named", "selected", "all"]))
    if namespaces == "named":
        found["namespaces"] = ["other"]
    elif namespaces == "selected":
        found["namespaceSelector"] = {"matchLabels": {"team": "blue"}}
    elif namespaces == "all":
        found["namespaceSelector"] = {}
    return found


def constraint(draw: st.DrawFn) -> Body:
    found = {
        "maxSkew": draw(st.integers(1, 2)),
        "topologyKey": draw(st.sampled_from([HOSTNAME, ZONE, RACK])),
        "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": draw(st.sampled_from([{}, {"matchLabels": {"app": "web"}}, {"matchLabels": {"app": "db"}}])),
        "nodeTaintsPolicy": draw(st.sampled_from(["Honor", "Ignore"])),
        "nodeAffinityPolicy": draw(st.sampled_from(["Honor", "Ignore"])),
    }
    fewest = draw(st.sampled_from([None, 2, 3]))
    return found | ({} if fewest is None else {"minDomains": fewest})


PORTS = st.sampled_from(
    [80, 81, {"containerPort": 80, "hostPort": 80, "hostIP": "10.0.0.1"}, {"hostPort": 80, "protocol": "UDP"}]
)
VOLUMES = st.sampled_from(
    [
        {"name": "v", "gcePersistentDisk": {"pdName": "one"}},
        {"name": "v", "gcePersistentDisk": {"pdName": "two", "readOnly": True}},
        {"name": "v", "awsElasticBlockStore": {"volumeID": "three"}},
        {"name": "v", "persistentVolumeClaim": {"claimName": "alone"}},
    ]
)


TAKES, MEETS, HOLDS = "takes resources", "meets others", "holds ports and disks"
EVERYTHING = frozenset({TAKES, MEETS, HOLDS})


def some_pod(draw: st.DrawFn, name: str, manners: frozenset[str], **more: Any) -> Body:
    """A pod that may have to do with others in these manners; `more` in the words of make_pod."""
    said: Body = {"priority": draw(st.sampled_from([0, 1, 1]))}
    said["labels"] = draw(st.sampled_from([{}, WEB, WEB, {"app": "db"}]))
    said["namespace"] = draw(st.sampled_from(["default", "default", "default", "other", "unknown"]))
    if TAKES in manners:
        said["cpu"] = draw(st.sampled_from(["0", "500m", "1"]))
        said["deleting"] = draw(st.integers(0, 5)) == 0
    if MEETS in manners:
        ways = [way for way, odds in (("podAffinity", 3), ("podAntiAffinity", 1)) if not draw(st.integers(0, odds))]
        said["affinity"] = {way: {REQUIRED: [term(draw) for _ in range(draw(st.integers(1, 2)))]} for way in ways}
    if HOLDS in manners:
        said |= {"ports": draw(st.lists(PORTS, max_size=1)), "volumes": draw(st.lists(VOLUMES, max_size=1))}
    return make_pod(name, **said, **more)


@st.composite
def clusters(draw: st.DrawFn, manners: frozenset[str], spreads: int = 0) -> tuple[State, Pod]:
    """A state with nodes, placed and nominated pods; and a pod to place, with so many constraints at least."""
    state = State()
    for body in (
        namespace("default", "blue"),
        namespace("other", draw(st.sampled_from(["blue", "red"]))),
        make_object("Service", "web", namespace="default", spec={"selector": WEB}),
        make_claim("alone", modes=["ReadWriteOncePod"]),
    ):
        state.put(body["kind"], object_key(body), parse(body["kind"], body))
    names = [f"n{number}" for number in range(draw(st.integers(1, 4)))]
    for name in names:
        labels = {HOSTNAME: name, ZONE: draw(st.sampled_from("ab")), RACK: draw(st.sampled_from("xy"))}
        without = draw(st.sampled_from([None, None, None, ZONE, RACK]))
        labels = {key: value for key, value in labels.items() if key != without}
        taints = [("dedicated", "x", "NoSchedule")] if draw(st.integers(0, 5)) == 0 else ()
        cpu = draw(st.integers(1, 4))
        state.table.set_node(parse_node(make_node(name, cpu=cpu, pods=6, labels=labels, taints=taints)))
    for number in range(draw(st.integers(0, 5))):
        name = draw(st.sampled_from(names))
        state.table.add_pod(parse_pod(some_pod(draw, f"placed-{number}", manners, node=name)), name)
    nominated = [some_pod(draw, f"nominated-{number}", manners) for number in range(draw(st.integers(1, 5)))]
    for body in nominated:
        state.nominate(parse_pod(body), draw(st.sampled_from([*names, *names, "gone"])))
    if draw(st.integers(0, 9)) == 0:
        state.withdraw(nominated.pop()["metadata"]["uid"])
    constraints = [constraint(draw) for _ in range(draw(st.integers(spreads, spreads + 1)))]
    distinct = {(spread["topologyKey"], str(spread["labelSelector"])): spread for spread in constraints}
    wish = {
        "topologySpreadConstraints": list(distinct.values()),
        "node_selector": draw(st.sampled_from([None, None, None, {RACK: "x"}])),
    }
    is_nominated = nominated and draw(st.integers(0, 3)) == 0  # the pod itself is, and does not count for itself
    own = {"uid": nominated[0]["metadata"]["uid"]} if is_nominated else {}
    return state, parse_pod(some_pod(draw, "new", manners, **wish, **own))


def alone(name: str) -> Pipeline:
    return Pipeline([make_filter(name)], [])


@given(clusters(frozenset(), spreads=1))
@settings(max_examples=examples(200))
def test_by_spreading_columns_say_what_moving_the_pods_says(cluster: tuple[State, Pod]) -> None:
    state, pod = cluster
    check_both_ways(alone("PodTopologySpread"), pod, state)


@given(clusters(frozenset({MEETS})))
@settings(max_examples=examples(200))
def test_by_affinity_columns_say_what_moving_the_pods_says(cluster: tuple[State, Pod]) -> None:
    state, pod = cluster
    check_both_ways(alone("InterPodAffinity"), pod, state)


@given(clusters(frozenset({TAKES, HOLDS})))
@settings(max_examples=examples(100))
def test_by_resources_ports_and_disks_columns_say_what_moving_the_pods_says(cluster: tuple[State, Pod]) -> None:
    state, pod = cluster
    for name in ("NodeResourcesFit", "NodePorts", "VolumeRestrictions", "MaxGCEPDVolumeCount"):
        check_both_ways(alone(name), pod, state)
    check_both_ways(Pipeline([HALF_FREE], []), pod, state)


@given(clusters(EVERYTHING))
@settings(max_examples=examples(100))
def test_columns_say_of_each_node_what_moving_its_nominated_pods_says(cluster: tuple[State, Pod]) -> None:
    state, pod = cluster
    check_both_ways(readers(), pod, state)


# --- what is moved, and what is not ----------------------------------------------------------------------------------


def crowd(count: int, **more: Any) -> State:
    """As many nodes, and a nominated pod on each."""
    state = State()
    for number in range(count):
        labels = {HOSTNAME: f"n{number}", ZONE: f"z{number % 3}"}
        state.table.set_node(parse_node(make_node(f"n{number}", cpu=4, labels=labels)))
        state.nominate(parse_pod(make_pod(f"nominated-{number}", labels={"app": "web"}, **more)), f"n{number}")
    return state


def keeps_away(app: str) -> Body:
    terms = [{"labelSelector": {"matchLabels": {"app": app}}, "topologyKey": HOSTNAME}]
    return {"podAntiAffinity": {REQUIRED: terms}}


SPREAD = [
    {
        "maxSkew": 1,
        "topologyKey": ZONE,
        "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": {"matchLabels": {"app": "web"}},
    }
]


@pytest.mark.parametrize(
    "wish",
    [
        {"topologySpreadConstraints": SPREAD},
        {"affinity": keeps_away("web")},
        {"ports": [80]},
        {"volumes": [{"name": "v", "gcePersistentDisk": {"pdName": "one"}}]},
    ],
    ids=["spreading", "anti-affinity", "ports", "volumes"],
)
def test_no_pod_is_moved_for_a_decision_that_columns_can_make(wish: Body, monkeypatch: pytest.MonkeyPatch) -> None:
    state = crowd(20, ports=[80], affinity=keeps_away("db"))
    pipeline = Pipeline([make_filter(entry.name) for entry in DEFAULT_PREDICATES], [])
    monkeypatch.setattr(pipeline_module, "moved", None)
    pod = parse_pod(make_pod("new", labels={"app": "web"}, **wish))
    assert pipeline.survey(Query(pod, state.table), state).with_nominated


def test_only_pods_with_volumes_are_moved_for_a_pod_with_volumes(monkeypatch: pytest.MonkeyPatch) -> None:
    state = crowd(20)
    disk = {"name": "v", "gcePersistentDisk": {"pdName": "one"}}
    state.nominate(parse_pod(make_pod("has-disk", volumes=[disk])), "n7")
    pipeline = Pipeline([make_filter(entry.name) for entry in DEFAULT_PREDICATES], [])
    moves: list[set[str]] = []

    def watched(
        query: Query, table: NodeTable, add: Sequence[tuple[Pod, str]] = (), remove: Sequence[tuple[Pod, str]] = ()
    ) -> AbstractContextManager[None]:
        moves.append({node for _, node in add})
        return moved(query, table, add, remove)

    monkeypatch.setattr(pipeline_module, "moved", watched)
    survey = pipeline.survey(Query(parse_pod(make_pod("new", volumes=[disk])), state.table), state)
    assert {node for nodes in moves for node in nodes} == {"n7"}
    assert np.flatnonzero(~survey.fits).tolist() == [state.table.row("n7")]


def test_nominated_pods_are_found_by_the_labels_that_their_namespaces_have_now() -> None:
    state = State()
    state.table.set_node(parse_node(make_node("n", labels={HOSTNAME: "n"})))
    state.put("Namespace", "other", parse_namespace(namespace("other", "blue")))
    state.nominate(parse_pod(make_pod("nominated", namespace="other")), "n")
    newcomer, rows = parse_pod(make_pod("new")), row_numbers(state.table.rows)
    blue = LabelSelector((Requirement("team", "In", ("blue",)),))
    question = (PodMatch(LabelSelector(()), frozenset(), blue),)

    def meeting() -> list[int]:
        nominated = state.nominated_pods.beside(newcomer, rows)
        assert nominated is not None
        return [int(count) for count in nominated.meeting(question)]

    assert meeting() == [1]
    state.put("Namespace", "other", parse_namespace(namespace("other", "red")))
    assert meeting() == [0]


def test_nothing_is_kept_of_nominated_pods_that_are_withdrawn() -> None:
    state = crowd(200, ports=[80], affinity=keeps_away("db"))
    for number in range(200):
        state.withdraw(f"pod-default-nominated-{number}")
    nominated = state.nominated_pods
    assert nominated.beside(parse_pod(make_pod("new")), row_numbers(state.table.rows)) is None
    assert set(nominated.statistics().values()) == {0}


# --- plugins of users ------------------------------------------------------------------------------------------------


class Pairs(FilterPlugin):
    """At most two pods on a node; `counts_nominated` is whether its columns for nominated pods are right."""

    name = "Pairs"
    counts_nominated = True

    def filter(self, query: Query, state: State, rows: Rows) -> Verdicts:
        return refuse_where(state.table.used[PODS, rows] > 1, Code.UNSCHEDULABLE, "node(s) had a pair")

    def filter_with_nominated(self, query: Query, state: State, nominated: NominatedRows) -> Verdicts | None:
        pods = state.table.used[PODS, nominated.rows]
        pods = pods + nominated.taking(PODS) if self.counts_nominated else pods
        return refuse_where(pods > 1, Code.UNSCHEDULABLE, "node(s) had a pair")


def test_the_contract_is_checked_for_nominated_pods() -> None:
    nodes = [make_node(name) for name in "ab"]
    pods = [make_pod("one", node="a"), make_pod("two", node="a"), make_pod("three", node="b")]
    newcomer = parse_pod(make_pod("new"))
    check_contract(Pairs, {}, [*nodes, *pods], [newcomer])
    with pytest.raises(AssertionError, match="on node a its columns say otherwise"):
        check_contract(type("Wrong", (Pairs,), {"counts_nominated": False}), {}, [*nodes, *pods], [newcomer])


@pytest.mark.parametrize("answer", [np.zeros(1, np.bool_), "all"])
def test_columns_for_nominated_pods_that_are_none_are_a_failure_of_the_plugin(answer: object) -> None:
    kind = type("Odd", (Pairs,), {"filter_with_nominated": lambda self, query, state, nominated: answer})
    state = crowd(3)
    with pytest.raises(PluginFailed, match="filter_with_nominated"):
        Pipeline([make(kind)], []).survey(Query(parse_pod(make_pod("new")), state.table), state)


def test_nobody_is_evicted_on_a_node_that_fits_only_with_the_pods_that_are_nominated_to_it() -> None:
    near_db = [{"labelSelector": {"matchLabels": {"app": "db"}}, "topologyKey": HOSTNAME}]
    state = State()
    state.table.set_node(parse_node(make_node("n", cpu=4, labels={HOSTNAME: "n"})))
    state.table.add_pod(parse_pod(make_pod("low", cpu=4, node="n", priority=0)), "n")
    state.nominate(parse_pod(make_pod("nominated", cpu=1, labels={"app": "db"}, priority=100)), "n")
    wish: Body = {"affinity": {"podAffinity": {REQUIRED: near_db}}}
    assert isinstance(preempt(state, make_pod("new", cpu=1, priority=10, **wish)), NoNomination)
    assert as_nomination(preempt(state, make_pod("new", cpu=1, priority=10))).node == "n"
