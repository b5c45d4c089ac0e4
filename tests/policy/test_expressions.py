"""Predicates and priorities as CEL expressions: what they say, what they are refused for, and what failing means."""

import time
from collections.abc import Mapping
from random import Random
from types import MappingProxyType
from typing import Any

import numpy as np
import pytest

from berth.engine.diagnosis import Diagnosis
from berth.engine.events import ANY
from berth.engine.pipeline import Pipeline, TieBreak
from berth.engine.plugin import BadArgument, FilterPlugin, Query, ScorePlugin
from berth.engine.state.state import State
from berth.engine.verdict import Code
from berth.model import Pod, parse_node, parse_pod
from berth.policy.expressions import evaluation as evaluation_module
from berth.policy.expressions import make_predicate, make_priority
from berth.policy.expressions.language import Program
from berth.policy.records import Predicate, Priority
from support.builders import make_node, make_pod

GI = 2**30


def predicate(expression: str, message: str = "", **parameters: Any) -> FilterPlugin:
    return make_predicate(Predicate("rule", expression=expression, message=message), parameters)


def priority(expression: str, normalized: bool = False, **parameters: Any) -> ScorePlugin:
    return make_priority(Priority("points", expression=expression, normalized=normalized), parameters)


def small_cluster() -> State:
    state = State()
    for body in (
        make_node("a", cpu=4, memory="8Gi", labels={"zone": "z1", "disk": "ssd", "rank": "3"}),
        make_node("b", cpu=8, labels={"zone": "z2"}, taints=[("dedicated", "gpu", "NoSchedule")]),
        make_node("c", cpu=2, labels={"zone": "z1"}, unschedulable=True, annotations={"owner": "team-a"}),
        make_node("d", cpu=16, ready=False, extended={"example.com/gpu": 2}),
    ):
        state.table.set_node(parse_node(body))
    for name, node, cpu in (("p1", "a", "1"), ("p2", "a", "500m"), ("p3", "d", "4")):
        state.table.add_pod(parse_pod(make_pod(name, node=node, cpu=cpu, memory="1Gi")), node)
    return state


def a_pod(name: str = "web", **more: Any) -> Pod:
    return parse_pod(make_pod(name, **{"cpu": "250m", "labels": {"app": "web", "zone": "z1"}, **more}))


def fitting(plugin: FilterPlugin, pod: Pod | None = None, state: State | None = None) -> str:
    """The names of the nodes that the predicate leaves, as one word; "!" after those on which it failed."""
    state = state or small_cluster()
    verdicts = plugin.filter(Query(pod or a_pod(), state.table), state, state.table.rows)
    names = [state.table.name(row) for row in range(len(state.table))]
    failed = [cause > 1 for cause in verdicts.causes.tolist()]
    return "".join(
        name + "!" * bad for name, fits, bad in zip(names, verdicts.fits.tolist(), failed, strict=True) if fits or bad
    )


def points(plugin: ScorePlugin, pod: Pod | None = None, state: State | None = None) -> list[int]:
    state = state or small_cluster()
    scores = plugin.score(Query(pod or a_pod(), state.table), state, state.table.rows)
    return [int(points) for points in plugin.normalize(scores)]


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("true", "abcd"),
        ("false", ""),
        ("node.name == 'b' || node.name.startsWith('d')", "bd"),
        ("has(node.labels.zone) && node.labels.zone == 'z1'", "ac"),
        ("node.labels['zone'] == 'z1'", "acd!"),
        ("node.labels[?'zone'].orValue('') != 'z1'", "bd"),
        ("node.labels.?disk.orValue('hdd') == 'ssd'", "a"),
        ("'disk' in node.labels", "a"),
        ("!('disk' in node.labels)", "bcd"),
        ("node.labels.exists(k, k.startsWith('ra'))", "a"),
        ("size(node.labels) == 1", "bc"),
        ("int(node.labels[?'rank'].orValue('0')) > 2", "a"),
        ("node.taints.exists(t, t.key == 'dedicated' && t.effect == 'NoSchedule')", "b"),
        ("node.taints.size() == 0", "acd"),
        ("node.taints.all(t, pod.tolerations.exists(o, o.key == t.key))", "acd"),
        ("!node.unschedulable", "abd"),
        ("node.conditions['Ready'] == 'True'", "abc"),
        ("node.annotations[?'owner'].orValue('') == 'team-a'", "c"),
        ("node.allocatable.cpu >= 4000", "abd"),
        ("node.used.cpu == 1500", "a"),
        ("node.free.cpu == 2500", "a"),
        ("node.free['memory'] == 6 * 1024 * 1024 * 1024", "a"),
        ("node.used.pods == 2 && node.free.pods == 108", "a"),
        ("node.allocatable['example.com/gpu'] == 0", "abc"),
        ("'example.com/gpu' in node.allocatable", "d"),
        ("has(node.used.cpu)", "ad"),
        ("node.free[?'example.com/gpu'].orValue(7) == 7", "abc"),
        ("node.allocatable.exists(r, r.endsWith('/gpu'))", "d"),
        ("node.used.size() == 0", "bc"),
        ("node.free.cpu - pod.requests.cpu >= 2250", "abd"),
        ("pod.requests['example.com/gpu'] == 0 && !has(pod.requests.memory)", "abcd"),
        ("pod.labels.app == 'web'", "abcd"),
        ("pod.labels[?'zone'] == node.labels[?'zone']", "ac"),
        ("node.labels[?pod.labels.app].hasValue()", ""),
        ("pod.namespace == 'default' && pod.schedulerName == 'berth'", "abcd"),
        ("pod.name == 'web' && pod.priority == 0", "abcd"),
        ("pod.nodeSelector.size() == 0 && pod.limits.cpu == 0 && !has(pod.controller.kind)", "abcd"),
        ("pod.images.all(i, i.contains(':'))", "abcd"),
        ("node.labels[?policy.parameters.key].orValue('') in policy.parameters.zones", "ac"),
        ("policy.parameters.least <= node.allocatable.cpu / 1000", "bd"),
        ("has(policy.parameters.missing)", ""),
        ("policy.parameters.?missing.orValue(true)", "abcd"),
        ("cel.bind(z, node.labels[?'zone'], z.hasValue() && z.value() == 'z2')", "b"),
        ("math.greatest(node.allocatable.cpu, 5000) > 5000", "bd"),
    ],
)
def test_an_expression_says_of_each_node_whether_it_fits(expression: str, expected: str) -> None:
    assert fitting(predicate(expression, key="zone", zones=["z1", "z9"], least=8)) == expected


@pytest.mark.parametrize(
    ("expression", "normalized", "expected"),
    [
        ("node.allocatable.cpu / 1000", False, [4, 8, 2, 16]),
        ("node.allocatable.cpu / 1000", True, [25, 50, 12, 100]),
        ("node.allocatable.cpu", False, [100, 100, 100, 100]),
        ("node.allocatable.cpu / 1000 - 4", False, [0, 4, 0, 12]),
        ("node.allocatable.cpu / 1000 - 4", True, [0, 33, 0, 100]),
        ("int(node.labels.rank) * 10", False, [30, 0, 0, 0]),
        ("-5", True, [0, 0, 0, 0]),
        ("node.labels[?'zone'].orValue('') == pod.labels.zone ? 100 : 0", False, [100, 0, 100, 0]),
        ("policy.parameters.weights[?node.labels[?'zone'].orValue('')].orValue(1)", False, [7, 1, 7, 1]),
        ("9223372036854775807 - node.allocatable.cpu", True, [100, 100, 100, 100]),
    ],
)
def test_an_expression_gives_points(expression: str, normalized: bool, expected: list[int]) -> None:
    assert points(priority(expression, normalized, weights={"z1": 7})) == expected


@pytest.mark.parametrize(
    ("expression", "said"),
    [
        ("", "it is empty"),
        ("node.labels.a ==", "line 1, column 17: the expression ends where a value is expected"),
        ("node.name ==\n  'a' &&& true", "line 2, column 9: & has no meaning in CEL; write &&"),
        ("node.labls.a == 'x'", "line 1, column 5: node has no field 'labls'; did you mean 'labels'?"),
        ("pod.priorityClassName == 'x'", "pod has no field 'priorityClassName'; did you mean 'priority'?"),
        ("policy.name == 'x'", "policy has no field 'name'"),
        ("nod.name == 'x'", "there is no variable nod.name; variables are node, pod and policy"),
        ("node == pod", "line 1, column 1: name a field of node: node.name, labels"),
        ("has(node.labels)", "node.labels is always there"),
        (".node.name == 'a'", "write node without the dot before it"),
        ("pod['name'] == 'a'", "name a field of pod: pod.name, namespace"),
        ("node.taints.exists(t, t.kee == 'x')", "an entry of node.taints has no 'kee'; did you mean 'key'?"),
        ("node.taints[0].effct == 'x'", "an entry of node.taints has no 'effct'; did you mean 'effect'?"),
        ("pod.controller.kynd == 'Job'", "pod.controller has no 'kynd'; did you mean 'kind'?"),
        ("policy.parameters.zoen == 'x'", "there is no parameter 'zoen'; did you mean 'zone'?"),
        ("policy.parameters.deep.er == 'x'", "there is no parameter 'er'"),
        ("node.free.cpu > 1.5", "> does not take int and double"),
        ("node.name + 1 == 'x'", "+ does not take string and int; convert one with int(...) or string(...)"),
        ("node.name.nope()", "there is no function nope"),
        ("node.labels.zone", "it gives a string; a predicate has to give a bool"),
        ("1 + 1", "it gives an int; a predicate has to give a bool"),
        ("['a'].exists(node, node == 'a')", "node has a meaning already"),
        ("true" + " && true" * 2000, "it has 16004 characters, and 2048 is the most"),
        ("(" * 40 + "true" + ")" * 40, "it goes more than 32 levels deep"),
        ("1" + " + 1" * 40 + " > 0", "it goes more than 32 levels deep, and each operand of + and the like is one"),
        ("node.name.matches('a(')", "line 1, column 19: invalid regular expression: missing ): a("),
        ("[1].all(x, 'a'.matches('((a{100}){100}){100}'))", "invalid repetition size"),
        ("node.name == '\ud800'", "it has half of a surrogate pair in it"),
        ("[optional.of(1)" + ".optMap(x, x)" * 12 + "].size() > 0", "optMap and optFlatMap"),
        ("'a'" + ".replace('a', 'aaaaaaaaaa')" * 8 + " == ''", "ms for each node, and 2 ms is the most"),
        ("node.labels.all(a, node.labels.all(b, node.labels.all(c, a + b != c)))", "put fewer loops into each other"),
        ("node.labels.map(a, node.labels.map(b, a + b)).size() > 0", "2 ms is the most"),
        ("node.annotations.all(k, node.annotations[k].matches(pod.name))", "2 ms is the most"),
    ],
)
def test_an_invalid_predicate_is_refused_with_a_message(expression: str, said: str) -> None:
    with pytest.raises(BadArgument) as refused:
        predicate(expression, zone="z1", deep={"a": 1})
    assert refused.value.field == "expression"
    assert said in refused.value.problem


@pytest.mark.parametrize("expression", ["true", "1.5", "'x'", "node.labels", "node.free.cpu > 3", "2u"])
def test_a_priority_that_gives_no_int_is_refused(expression: str) -> None:
    with pytest.raises(BadArgument, match="a priority has to give an int"):
        priority(expression)


def test_an_expression_takes_no_arguments() -> None:
    with pytest.raises(BadArgument, match="unknown argument"):
        make_predicate(Predicate("rule", {"a": 1}, expression="true"), {})


# --- words


def said_of(plugin: FilterPlugin, state: State) -> Mapping[str, tuple[str, ...]]:
    verdicts = plugin.filter(Query(a_pod(), state.table), state, state.table.rows)
    refused = [row for row in range(len(state.table)) if not verdicts.fits[row]]
    return {state.table.name(row): verdicts.reasons(row) for row in refused}


def test_a_refused_node_is_told_in_the_words_of_the_policy() -> None:
    state = small_cluster()
    assert said_of(predicate("node.name != 'a'"), state) == {"a": ("node(s) didn't satisfy predicate rule",)}
    assert said_of(predicate("node.name != 'a'", "node(s) retire soon"), state) == {"a": ("node(s) retire soon",)}


def test_a_diagnosis_counts_refusals_and_each_error_apart() -> None:
    state = small_cluster()
    pipeline = Pipeline([predicate("node.labels.disk == 'hdd'", "node(s) without a slow disk")], [], TieBreak.FIRST)
    said = pipeline.decide(a_pod(), state, Random(0))
    assert isinstance(said, Diagnosis)
    assert not said.error
    assert said.message == (
        '0/4 nodes are available: 1 node(s) without a slow disk, 3 node(s) without a slow disk (no such key: "disk").'
    )


# --- failing


def test_an_error_on_one_node_refuses_that_node_alone_and_is_counted_with_its_name() -> None:
    plugin = predicate("1000 / (node.allocatable.cpu - 8000) != 77")
    assert plugin.take_failures() == (0, "")
    assert fitting(plugin) == "ab!cd"
    assert plugin.take_failures() == (1, "node b: divide by zero")
    assert plugin.take_failures() == (0, "node b: divide by zero")


def test_an_error_in_a_priority_is_no_points_and_counted() -> None:
    plugin = priority("100000 / (node.allocatable.cpu - 8000) + 60")
    assert points(plugin) == [35, 0, 44, 72]
    assert plugin.take_failures() == (1, "node b: divide by zero")


@pytest.mark.parametrize(
    ("expression", "error"),
    [
        ("policy.parameters.text", "it gave a string, not a bool"),
        ("policy.parameters.number", "it gave an int, not a bool"),
        ("policy.parameters.number < policy.parameters.text", "No matching overloads found"),
        ("policy.parameters.list[5]", "Index error"),
        ("int(node.name) > 1", "cannot convert string to int"),
        ("9223372036854775807 + node.allocatable.cpu > 0", "integer overflow"),
    ],
)
def test_what_is_wrong_only_when_evaluated_is_an_error_of_the_node(expression: str, error: str) -> None:
    plugin = predicate(expression, text="x", number=1, list=[1])
    assert fitting(plugin) == "a!b!c!d!"
    count, message = plugin.take_failures()
    assert count == 4
    assert message.startswith("node a: ")
    assert error in message


def test_a_bool_is_no_points() -> None:
    assert points(priority("policy.parameters.flag", flag=True)) == [0, 0, 0, 0]


def test_preemption_is_tried_only_where_pods_that_leave_may_help() -> None:
    state = small_cluster()
    query = Query(a_pod(), state.table)
    for expression, code in (
        ("node.name == 'x'", Code.UNRESOLVABLE),
        ("node.labels.nope == 'x'", Code.UNRESOLVABLE),
        ("node.allocatable.cpu > 99000", Code.UNRESOLVABLE),
        ("node.free.cpu > 99000", Code.UNSCHEDULABLE),
        ("node.used.cpu / 0 > 1", Code.UNSCHEDULABLE),
    ):
        plugin = predicate(expression)
        assert set(plugin.filter(query, state, state.table.rows).codes.tolist()) == {code}
        assert plugin.dependencies.reads_pods == (code is Code.UNSCHEDULABLE)


@pytest.mark.parametrize("expression", ["node.labels.a == 'x'", "pod.labels.a == 'x'", "node.free.cpu > 1"])
def test_a_pod_that_a_predicate_refuses_is_woken_by_anything(expression: str) -> None:
    assert predicate(expression).retry_events == ANY


# --- cost


def counted_evaluations(monkeypatch: pytest.MonkeyPatch) -> list[Mapping[str, Any]]:
    """What programs are given to evaluate from now on."""
    seen: list[Mapping[str, Any]] = []
    evaluate = Program.evaluate

    def recording(self: Program, data: Mapping[str, Any]) -> object:
        seen.append(data)
        return evaluate(self, data)

    monkeypatch.setattr(Program, "evaluate", recording)
    return seen


def many_nodes(count: int = 300) -> State:
    state = State()
    for number in range(count):
        labels = {"zone": f"z{number % 3}", "host": f"h{number}"}
        taints = [("a", "b", "NoSchedule")] if number % 10 == 0 else []
        state.table.set_node(parse_node(make_node(f"n{number}", labels=labels, taints=taints, cpu=1 + number % 4)))
    return state


@pytest.mark.parametrize(
    ("expression", "inputs"),
    [
        ("pod.labels.app == 'web'", 1),
        ("node.labels.zone == 'z1'", 3),
        ("node.labels.zone == 'z1' && node.taints.size() == 0", 6),
        ("node.taints.size() == 0", 2),
        ("node.allocatable.cpu > 2000", 4),
        ("node.free.cpu > 2000 && node.labels.zone == 'z1'", 12),
        ("node.labels[policy.parameters.key] == 'z1'", 3),
        ("node.labels.host == 'h7'", 300),
        ("node.labels.exists(k, k == 'x')", 300),
    ],
)
def test_an_expression_is_evaluated_once_a_distinct_input(
    expression: str, inputs: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    state, plugin = many_nodes(), predicate(expression, key="zone")
    seen = counted_evaluations(monkeypatch)
    fitting(plugin, state=state)
    assert len(seen) == inputs
    fitting(plugin, state=state)
    state.table.set_node(parse_node(make_node("n0", labels={"zone": "z1", "host": "h0"}, cpu=1)))
    fitting(plugin, state=state)
    assert len(seen) <= inputs + 1


@pytest.mark.parametrize("expression", ["node.labels.zone == 'z1'", "node.free.cpu > 2000", "node.name.endsWith('7')"])
def test_asking_about_some_rows_gives_the_verdicts_of_those_rows(expression: str) -> None:
    state, plugin = many_nodes(), predicate(expression)
    query, some = Query(a_pod(), state.table), np.arange(5, 300, 2, dtype=np.intp)
    everywhere = plugin.filter(query, state, state.table.rows)
    for rows in (some, some[:3]):
        assert plugin.filter(query, state, rows).codes.tolist() == everywhere.codes[rows].tolist()
        assert plugin.filter(query, state, rows).causes.tolist() == everywhere.causes[rows].tolist()


def test_a_verdict_stays_what_it_was_when_the_cluster_changes() -> None:
    state, plugin = many_nodes(), predicate("node.free.cpu >= 1000")
    query = Query(a_pod(), state.table)
    before = plugin.filter(query, state, state.table.rows)
    state.table.add_pod(parse_pod(make_pod("big", node="n0", cpu="1")), "n0")
    after = plugin.filter(query, state, state.table.rows)
    assert (before.causes[0], after.causes[0]) == (0, 1)


def test_parameters_may_be_read_only_mappings_and_tuples() -> None:
    frozen = MappingProxyType({"zones": ("z1",), "deep": MappingProxyType({"least": 1})})
    entry = Predicate("rule", expression="node.labels[?'zone'].orValue('') in policy.parameters.zones")
    assert fitting(make_predicate(entry, frozen)) == "ac"


def test_pods_alike_in_what_an_expression_reads_share_its_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    state, plugin = many_nodes(), predicate("node.labels.zone == pod.labels.zone")
    seen = counted_evaluations(monkeypatch)
    for number in range(5):
        fitting(plugin, a_pod(f"web-{number}", labels={"zone": "z1", "number": str(number)}), state)
    assert len(seen) == 3


def test_a_runaway_ends_soon_and_is_an_error() -> None:
    numbers = list(range(100))
    plugin = predicate("policy.parameters.all(k, policy.parameters[k].exists(a, a < 0))", numbers=numbers)
    assert fitting(plugin) == ""
    with pytest.raises(BadArgument, match="2 ms is the most"):
        predicate("policy.parameters.n.all(a, policy.parameters.n.all(b, policy.parameters.n.all(c, true)))", n=numbers)


def test_a_node_with_far_more_labels_than_usual_is_not_evaluated_where_that_costs_too_much() -> None:
    state = small_cluster()
    expression = "node.labels.map(k, k + 'x').size() > 0"
    state.table.set_node(parse_node(make_node("a", labels={f"label-{n}": "x" for n in range(1000)})))
    plugin = predicate(expression)
    assert fitting(plugin, state=state) == "a!bc"
    assert evaluation_module.TOO_LARGE in plugin.take_failures()[1]


def test_an_annotation_that_is_too_long_to_read_is_an_error() -> None:
    state = small_cluster()
    state.table.set_node(parse_node(make_node("a", annotations={"owner": "x" * 5000, "other": "y" * 5000})))
    assert fitting(predicate("node.annotations[?'owner'].orValue('') != ''"), state=state) == "a!c"
    assert fitting(predicate("node.annotations[?'nope'].orValue('') == ''"), state=state) == "abcd"


@pytest.mark.parametrize("expression", ["node.labels.host != ''", "node.free.cpu > 0 && node.labels.host != ''"])
def test_inputs_beyond_the_budget_of_a_decision_are_errors(expression: str, monkeypatch: pytest.MonkeyPatch) -> None:
    state, plugin = many_nodes(100), predicate(expression)
    cost = Program(expression, bool, {}).cost({})
    monkeypatch.setattr(evaluation_module, "BUDGET", 60 * cost)
    monkeypatch.setattr(evaluation_module, "LASTING_BUDGET", 60 * cost)
    seen = counted_evaluations(monkeypatch)
    said = fitting(plugin, state=state)
    assert said.count("!") == 40
    assert len(seen) == 60
    query = Query(a_pod(), state.table)
    alone = [plugin.fits_row(query, state, row) for row in range(100)]
    assert alone == plugin.filter(query, state, state.table.rows).fits.tolist()


def test_the_costliest_expression_that_is_taken_stays_within_its_bound() -> None:
    loops = "node.labels.exists(a, node.labels.exists(b, a == b + 'x'))"
    many = " || ".join(["node.labels.exists(k, node.labels[k].startsWith('q'))"] * 30)
    state = State()
    labels = {f"example.com/label-{n}": "x" * 60 for n in range(64)}
    state.table.set_node(parse_node(make_node("a", labels=labels)))
    taken = 0
    for expression in (loops, many, "node.labels.map(k, node.labels[k]).join(',').size() > 1"):
        try:
            plugin = predicate(expression)
        except BadArgument:
            continue
        taken += 1
        started = time.thread_time()
        fitting(plugin, state=state)
        assert time.thread_time() - started < 0.05  # 2 ms by its bound, on a machine of any speed
    assert taken
