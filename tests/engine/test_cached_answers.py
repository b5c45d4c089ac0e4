"""What is kept of earlier decisions never changes a later one."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from random import Random
from typing import Any

import numpy as np
import pytest

from berth.engine.diagnosis import Diagnosis
from berth.engine.pipeline import Pipeline, Placement, TieBreak
from berth.engine.plugin import Dependencies, FilterPlugin, Query
from berth.engine.registry import PLUGINS, make_plugin
from berth.engine.state.state import State
from berth.engine.verdict import Code, Rows, Verdicts, row_numbers
from berth.model import Pod, parse_namespace, parse_node, parse_pod
from berth.policy.defaults import DEFAULT_PREDICATES, DEFAULT_PRIORITIES
from engine.expecting import as_diagnosis, as_placement, make_filter, make_score, node_of
from engine.worlds import World, state_of, worlds
from support.builders import Body, make_node, make_pod


def pipeline(world: World | None = None) -> Pipeline:
    args = world.args if world is not None else {}
    return Pipeline(
        [make_filter(entry.name, args.get(entry.name, {})) for entry in DEFAULT_PREDICATES],
        [(make_score(e.name, args.get(e.name, {})), e.weight) for e in DEFAULT_PRIORITIES],
        TieBreak.FIRST,
    )


def disturb(state: State, random: Random, serial: int) -> None:
    """Something happens in the cluster."""
    nodes = sorted(node.name for node in state.table.nodes())
    node = node_of(state.table, random.choice(nodes))
    placed = sorted(state.table.pods_on(node.name))
    match random.randrange(8):
        case 0 if placed:
            state.table.remove_pod(random.choice(placed))
        case 1:
            labels = {**node.labels, "topology.kubernetes.io/zone": random.choice(["z1", "z2", "z9"])}
            state.table.set_node(replace(node, labels=labels))
        case 2:
            more = {name: amount // 2 for name, amount in node.allocatable.items()}
            state.table.set_node(replace(node, allocatable=more))
        case 3 if len(nodes) > 3:
            state.table.remove_node(node.name)
        case 4:
            state.table.set_node(parse_node(make_node(f"new-{serial}", labels=dict(node.labels))))
        case 5:
            state.table.add_pod(parse_pod(make_pod(f"lost-{serial}", node="nowhere", cpu="1")), "nowhere")
        case 6:
            namespace = state.namespace("default")
            if namespace is not None:
                labels = {"team": random.choice(["default", "team-a"])}
                state.put("Namespace", "default", replace(namespace, labels=labels))


@pytest.mark.parametrize("world", worlds(), ids=lambda world: world.id)
def test_a_pipeline_that_has_decided_before_decides_as_a_new_one_does(world: World) -> None:
    state, random, old = state_of(world.objects), Random(world.id), pipeline(world)
    for serial in range(14):
        pod = replace(world.pod, uid=f"again-{serial}", name=f"again-{serial}")
        said = old.decide(pod, state, Random(0))
        assert said == pipeline(world).decide(pod, state, Random(0))
        if isinstance(said, Placement):
            state.table.add_pod(pod, said.node)
        if random.random() < 0.4:
            disturb(state, random, serial)


@pytest.mark.parametrize("world", worlds(), ids=lambda world: world.id)
def test_the_totals_of_the_chosen_node_and_of_the_runner_up_are_those_of_a_full_ranking(
    world: World,
) -> None:
    state, random, deciding = state_of(world.objects), Random(world.id), pipeline(world)
    for serial in range(8):
        pod = replace(world.pod, uid=f"again-{serial}", name=f"again-{serial}")
        said = deciding.decide(pod, state, Random(0))
        if not isinstance(said, Placement):
            return
        margin = deciding.margin(state, said.node)
        if said.feasible == 1:
            assert margin is None
        else:
            assert margin is not None
            query = Query(pod, state.table)
            survey = deciding.survey(query, state)
            ranking = deciding.rank(query, state, row_numbers(survey.rows)[survey.fits])
            totals = {state.table.name(int(row)): int(n) for row, n in zip(ranking.rows, ranking.totals, strict=True)}
            assert margin.total == totals[said.node]
            assert margin.runner_up != said.node
            assert margin.runner_up_total == totals[margin.runner_up]
            assert margin.runner_up_total == sorted(totals.values())[-2]
        state.table.add_pod(pod, said.node)
        if random.random() < 0.4:
            disturb(state, random, serial)


@pytest.mark.parametrize("world", worlds(), ids=lambda world: world.id)
def test_the_node_that_is_chosen_has_the_highest_total_of_a_full_ranking(world: World) -> None:
    state, deciding = state_of(world.objects), pipeline(world)
    for serial in range(4):
        pod = replace(world.pod, uid=f"again-{serial}", name=f"again-{serial}")
        said = deciding.decide(pod, state, Random(0))
        if not isinstance(said, Placement):
            return
        query = Query(pod, state.table)
        survey = deciding.survey(query, state)
        ranking = deciding.rank(query, state, row_numbers(survey.rows)[survey.fits])
        best = [state.table.name(int(row)) for row in deciding.best(ranking, state.table)]
        assert said.node == best[0]
        assert said.feasible == len(ranking.rows)
        state.table.add_pod(pod, said.node)


def test_every_built_in_plugin_says_what_its_answers_depend_on_for_a_plain_pod() -> None:
    state = state_of([make_node("a"), make_node("b")])
    query = Query(parse_pod(make_pod("web", cpu="1")), state.table)
    made = [make_plugin(e.name, {}, "filter" if PLUGINS[e.name].filters else "score") for e in DEFAULT_PREDICATES]
    for plugin in made:
        declared = plugin.dependencies
        known = declared.static_key is not None or declared.filter_version(query, state) is not None
        assert known or not plugin.concerns(query.pod), plugin.name


def test_the_second_pod_of_a_kind_sees_the_room_that_the_first_took() -> None:
    state, deciding = state_of([make_node("a", cpu="1"), make_node("b", cpu="1")]), pipeline()
    chosen = []
    for name in ("one", "two", "three"):
        pod = parse_pod(make_pod(name, cpu="600m"))
        said = deciding.decide(pod, state, Random(0))
        chosen.append(said.node if isinstance(said, Placement) else said.message)
        if isinstance(said, Placement):
            state.table.add_pod(pod, said.node)
    assert chosen == ["a", "b", "0/2 nodes are available: 2 Insufficient cpu."]


def nominated(state: State, node: str, priority: int, cpu: str = "1") -> Pod:
    pod = parse_pod(make_pod("nominee", cpu=cpu, priority=priority, nominated=node))
    state.nominate(pod, node)
    return pod


def test_a_pod_that_is_nominated_to_a_node_keeps_its_room_there_from_pods_of_no_higher_priority() -> None:
    state = state_of([make_node("a", cpu="1")])
    nominee = nominated(state, "a", priority=5)
    equal = parse_pod(make_pod("equal", cpu="500m", priority=5))
    higher = parse_pod(make_pod("higher", cpu="500m", priority=6))
    said = as_diagnosis(pipeline().decide(equal, state, Random(0)))
    assert said.message == "0/1 nodes are available: 1 Insufficient cpu."
    assert said.plugins == {"NodeResourcesFit"}
    assert as_placement(pipeline().decide(higher, state, Random(0))).node == "a"
    assert as_placement(pipeline().decide(nominee, state, Random(0))).node == "a"
    state.withdraw(nominee.uid)
    assert as_placement(pipeline().decide(equal, state, Random(0))).node == "a"


def test_a_node_must_fit_without_the_nominated_pods_too_as_they_may_never_come() -> None:
    zone = {"topology.kubernetes.io/zone": "z1"}
    term = {"labelSelector": {"matchLabels": {"app": "db"}}, "topologyKey": "topology.kubernetes.io/zone"}
    wants = {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    state = state_of([make_node("a", labels=zone)])
    nominee = parse_pod(make_pod("nominee", labels={"app": "db"}, priority=5, nominated="a"))
    state.nominate(nominee, "a")
    said = as_diagnosis(pipeline().decide(parse_pod(make_pod("web", affinity=wants)), state, Random(0)))
    assert said.message == "0/1 nodes are available: 1 node(s) didn't match pod affinity rules."
    state.withdraw(nominee.uid)
    state.table.add_pod(nominee, "a")
    assert as_placement(pipeline().decide(parse_pod(make_pod("web", affinity=wants)), state, Random(0))).node == "a"


def test_deciding_with_nominated_pods_leaves_the_table_as_it_was() -> None:
    state = state_of([make_node("a"), make_node("b"), make_pod("there", node="a", cpu="1")])
    before = state.table.statistics(), state.table.used.copy()
    nominated(state, "a", priority=5, cpu="3")
    pipeline().decide(parse_pod(make_pod("web", cpu="2")), state, Random(0))
    assert (state.table.statistics(), state.table.used.tolist()) == (before[0], before[1].tolist())


def test_a_pod_goes_to_the_node_that_was_made_free_for_it_whatever_others_are_worth() -> None:
    objects = [make_node("a", cpu="4"), make_node("b", cpu="4"), make_pod("there", node="b", cpu="2")]
    state = state_of(objects)
    pod = parse_pod(make_pod("web", cpu="1", nominated="b", priority=5))
    state.nominate(pod, "b")
    said = as_placement(pipeline().decide(pod, state, Random(0)))
    assert (said.node, said.evaluated, said.feasible) == ("b", 1, 1)
    elsewhere = parse_pod(make_pod("big", cpu="3", nominated="b", priority=5))
    assert as_placement(pipeline().decide(elsewhere, state, Random(0))).node == "a"
    gone = parse_pod(make_pod("late", cpu="1", nominated="gone", priority=5))
    assert as_placement(pipeline().decide(gone, state, Random(0))).node == "a"


FAILURE = 'running "Failing" filter plugin: no such disk'


class Failing(FilterPlugin):
    name = "Failing"

    def __init__(self, on: str) -> None:
        self._on = on

    def filter(self, query: Query, state: State, rows: Rows) -> Verdicts:
        failed = np.array([state.table.name(int(row)) == self._on for row in row_numbers(rows)])
        return Verdicts(failed * np.int8(Code.ERROR), failed.astype(np.int64), lambda cause: (FAILURE,))


def test_a_filter_that_fails_on_a_node_ends_the_attempt_with_its_words() -> None:
    state = state_of([make_node("a"), make_node("b"), make_node("c", unschedulable=True)])
    pod = parse_pod(make_pod("web", cpu="1"))
    before = make_filter("NodeUnschedulable")
    said = as_diagnosis(Pipeline([before, Failing("a")], []).decide(pod, state, Random(0)))
    assert (said.message, said.error) == (FAILURE, True)
    refused_already = Pipeline([before, Failing("c")], []).decide(pod, state, Random(0))
    assert isinstance(refused_already, Placement)


def test_a_filter_that_failed_on_a_node_refused_before_it_ends_the_attempt_once_the_node_has_room() -> None:
    state = state_of([make_node("a"), make_node("b"), make_node("c", cpu="1")])
    state.table.add_pod(parse_pod(make_pod("old", uid="old", cpu="1")), "c")
    failing = Failing("c")
    failing.dependencies = Dependencies(node_local=True, version=lambda query, state: ())
    deciding = Pipeline([make_filter("NodeResourcesFit"), failing], [])
    assert isinstance(deciding.decide(parse_pod(make_pod("one", cpu="1")), state, Random(0)), Placement)
    state.table.remove_pod("old")
    said = as_diagnosis(deciding.decide(parse_pod(make_pod("two", cpu="1")), state, Random(0)))
    assert (said.message, said.error) == (FAILURE, True)


def decided_twice(
    plugin: str, state: State, spec: Mapping[str, Any], meanwhile: Callable[[Pipeline], None]
) -> tuple[Placement | Diagnosis, Placement | Diagnosis]:
    """What is decided for the second of two pods alike, between which something happens; and by a new pipeline."""

    def new() -> Pipeline:
        return Pipeline([make_filter(name) for name in ("NodeAffinity", plugin)], [], TieBreak.FIRST)

    one, two = (parse_pod(make_pod(name, labels={"app": "web"}, **spec)) for name in ("one", "two"))
    deciding = new()
    assert isinstance(deciding.decide(one, state, Random(0)), Placement)
    meanwhile(deciding)
    return deciding.decide(two, state, Random(0)), new().decide(two, state, Random(0))


def wanting(**term: Any) -> Body:
    term = {"topologyKey": "zone", "labelSelector": {"matchLabels": {"app": "web"}}, **term}
    return {"affinity": {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}}


def test_a_pod_is_no_longer_the_first_of_its_group_when_its_namespace_is_no_longer_meant() -> None:
    state = state_of([make_node(name, labels={"zone": name}) for name in "abc"])

    def name_team(*team: str) -> None:
        body = {"metadata": {"name": "default", "uid": "ns", "labels": dict.fromkeys(team, "")}}
        state.put("Namespace", "default", parse_namespace(body))

    name_team("team")
    spec = wanting(namespaceSelector={"matchLabels": {"team": ""}})
    kept, new = decided_twice("InterPodAffinity", state, spec, lambda deciding: name_team())
    assert kept == new
    assert not isinstance(new, Placement)


SPREAD = {"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule"}


@pytest.mark.parametrize(
    ("plugin", "spec", "asked"),
    [
        ("InterPodAffinity", wanting(), {"node_selector": {"key": "value"}}),
        (
            "PodTopologySpread",
            {"topologySpreadConstraints": [{**SPREAD, "labelSelector": {"matchLabels": {"app": "web"}}}]},
            {"topologySpreadConstraints": [{**SPREAD, "topologyKey": "key", "labelSelector": {}}]},
        ),
    ],
)
def test_answers_by_domain_are_asked_for_anew_when_domains_get_other_numbers(
    plugin: str, spec: Mapping[str, Any], asked: Mapping[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """They do when so many other labels are asked about that the domains' own is forgotten."""
    monkeypatch.setattr("berth.engine.state.columns.KEPT_COLUMNS", 1)
    monkeypatch.setattr("berth.engine.state.domains.KEPT_KEYS", 0)
    state = state_of([make_node(name, labels={"zone": zone}) for name, zone in zip("abcd", "xyxy", strict=True)])
    state.table.label("zone")
    for name, zone in zip("abcd", "yxyx", strict=True):
        state.table.set_node(parse_node(make_node(name, labels={"zone": zone})))
    web = parse_pod(make_pod("web", labels={"app": "web"}))
    state.table.add_pod(web, "a")

    def other_labels_are_asked_about_and_the_pod_moves(deciding: Pipeline) -> None:
        deciding.decide(parse_pod(make_pod("other", **asked)), state, Random(0))
        state.table.remove_pod(web.uid)
        state.table.add_pod(web, "b")

    kept, new = decided_twice(plugin, state, spec, other_labels_are_asked_about_and_the_pod_moves)
    assert kept == new


def test_resources_that_no_node_has_take_no_memory_however_many_pods_ask_for_them() -> None:
    state, deciding = state_of([make_node("a"), make_node("b")]), pipeline()
    before = state.table.allocatable.nbytes
    for number in range(50):
        pod = parse_pod(make_pod("p", requests={f"example.com/{number}": 1}))
        said = as_diagnosis(deciding.decide(pod, state, Random(0)))
        assert said.message == f"0/2 nodes are available: 2 Insufficient example.com/{number}."
    assert state.table.allocatable.nbytes == before


def test_a_resource_counts_from_the_moment_that_a_node_has_it() -> None:
    gpu = "example.com/gpu"
    state = state_of([make_node("a"), make_node("b")])
    ignoring = make_filter("NodeResourcesFit", {"ignoredResources": [gpu]})
    strategy = {"type": "LeastAllocated", "resources": [{"name": gpu}]}
    scoring = make_score("NodeResourcesFit", {"scoringStrategy": strategy})
    deciding = Pipeline([ignoring], [(scoring, 1)], TieBreak.FIRST)
    chosen = []
    for extended in ({}, {gpu: 4}):
        state.table.set_node(parse_node(make_node("b", extended=extended)))
        chosen.append(as_placement(deciding.decide(parse_pod(make_pod("p", requests={gpu: 1})), state, Random(0))).node)
    assert chosen == ["a", "b"]
