"""Answers by columns, kept from earlier decisions, are those of the expression evaluated anew for each single node."""

from dataclasses import replace
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from berth.engine.pipeline import Pipeline, Placement, TieBreak
from berth.engine.plugin import FilterPlugin, Query, ScorePlugin
from berth.engine.preemption.preemption import Preemption
from berth.engine.preemption.victims import Nomination
from berth.engine.state.state import State
from berth.model import Node, Pod, parse_node, parse_pod
from berth.policy.expressions import make_predicate, make_priority
from berth.policy.expressions.evaluation import Evaluation
from berth.policy.expressions.language import EvaluationFailed, Program
from berth.policy.records import Predicate, Priority
from engine.expecting import as_placement, make_filter, node_of, row_of
from support.builders import make_node, make_pod
from support.examples import examples

GPU = "example.com/gpu"
PARAMETERS = {"key": "zone", "least": 1500, "weights": {"z1": 3, "z2": 9}}

CONDITIONS = [
    "node.labels.zone == 'z1'",
    "has(node.labels.zone)",
    "node.labels[?'disk'].orValue('') != pod.labels[?'disk'].orValue('x')",
    "node.labels[policy.parameters.key] != 'z2'",
    "node.labels.exists(k, node.labels[k] == 'z3')",
    "size(node.labels) < 2",
    "node.taints.all(t, t.effect != 'NoSchedule')",
    "node.taints.exists(t, pod.tolerations.exists(o, o.key == t.key))",
    "node.unschedulable",
    "node.conditions.Ready == 'True'",
    "node.conditions.exists(c, node.conditions[c] == 'False')",
    "node.annotations[?'team'].orValue('') == 'a'",
    "node.annotations.size() == 0",
    "node.name.endsWith('1')",
    "node.allocatable.cpu > policy.parameters.least",
    "node.free.cpu > pod.requests.cpu",
    "node.free.cpu < 2000",
    "node.used.pods > 0",
    "node.used.size() > 2",
    f"node.free['{GPU}'] > 0",
    f"'{GPU}' in node.allocatable",
    f"node.allocatable[?'{GPU}'].orValue(5) == 5",
    "1000 / (node.used.pods - 1) > 0",
    "pod.priority > 5",
    "pod.name.endsWith('1')",
    "pod.namespace == 'default'",
]
AMOUNTS = [
    "node.allocatable.cpu / 100",
    "node.free.cpu / 100 - pod.requests.cpu / 100",
    "node.used.pods * 10",
    "size(node.labels)",
    "policy.parameters.weights[node.labels.zone]",
    "policy.parameters.weights[?node.labels[?'zone'].orValue('')].orValue(1)",
    "pod.priority",
    "size(pod.name) * int(node.name.endsWith('1') ? 3 : 1)",
    "node.free.cpu / node.used.pods",
    "-3",
]

conditions = st.sampled_from(CONDITIONS)
combined = st.one_of(
    conditions,
    st.tuples(conditions, st.sampled_from(["&&", "||"]), conditions).map(lambda parts: f"({' '.join(parts)})"),
    conditions.map(lambda condition: f"!({condition})"),
)
amounts = st.one_of(
    st.sampled_from(AMOUNTS),
    st.tuples(combined, st.sampled_from(AMOUNTS), st.sampled_from(AMOUNTS)).map(lambda p: f"{p[0]} ? {p[1]} : {p[2]}"),
)
seeds = st.integers(0, 2**32)


def random_node(name: str, random: Random) -> Node:
    labels = {key: value for key in ("zone", "disk") if (value := random.choice(["", "z1", "z2", "z3"]))}
    taints = [("a", "", "NoSchedule"), ("b", "", "PreferNoSchedule")][: random.randrange(3)]
    body = make_node(
        name,
        cpu=random.choice([1, 2, 4]),
        labels=labels,
        taints=taints,
        unschedulable=random.random() < 0.2,
        ready=random.random() < 0.8,
        annotations=random.choice([{}, {"team": "a"}, {"team": "b", "more": "x"}]),
        extended=random.choice([{}, {GPU: 2}]),
    )
    return parse_node(body)


def random_pod(name: str, random: Random, **more: Any) -> Pod:
    tolerations = random.choice([[], [{"key": "a", "operator": "Exists"}]])
    cpu, priority = random.choice(["100m", "1"]), random.choice([0, 10])
    labels = random.choice([{}, {"disk": "z1"}])
    return parse_pod(make_pod(name, cpu=cpu, priority=priority, labels=labels, tolerations=tolerations, **more))


def random_state(random: Random) -> State:
    state = State()
    for number in range(random.choice([*range(2, 9), 40])):  # 40: more than are looked at one by one
        state.table.set_node(random_node(f"n{number}", random))
    for number in range(random.randrange(12)):
        name = f"n{random.randrange(10)}"  # some of them on nodes that are not known
        state.table.add_pod(random_pod(f"placed-{number}", random, node=name), name)
    return state


def disturb(state: State, random: Random, serial: int) -> None:
    """Something happens in the cluster."""
    node = random.choice(sorted(state.table.nodes(), key=lambda node: node.name))
    placed = sorted(state.table.pods_on(node.name))
    match random.randrange(9):
        case 0 if placed:
            state.table.remove_pod(random.choice(placed))
        case 1 | 2:
            pod = random_pod(f"more-{serial}", random, node=node.name)
            state.table.add_pod(pod, node.name)
        case 3:
            state.table.set_node(replace(node, labels={**node.labels, "zone": random.choice(["z1", "z2", "z9"])}))
        case 4:
            state.table.set_node(replace(node, annotations={"team": random.choice(["a", "b"])}))
        case 5:
            state.table.set_node(replace(node, conditions={"Ready": random.choice(["True", "False"])}))
        case 6:
            state.table.set_node(replace(node, allocatable={**node.allocatable, GPU: random.randrange(3)}))
        case 7 if len(state.table) > 2:
            state.table.remove_node(node.name)
        case 8:
            state.table.set_node(random_node(f"new-{serial}", random))


# --- the naive way


def plainly(program: Program, pod: Pod, node: Node, state: State) -> int | None:
    """The expression evaluated for one node with all there is to read; None: it failed."""
    pods = state.table.pods_on(node.name).values()
    used: dict[str, int] = {"pods": len(pods)}
    for placed in pods:
        for name, amount in placed.usage.items():
            used[name] = used.get(name, 0) + amount
    names = {*node.allocatable, *used, *("cpu", "memory", "ephemeral-storage", GPU)}
    free = {name: node.allocatable.get(name, 0) - used.get(name, 0) for name in names}
    asks = {field for field, _ in program.reads.asked} | program.reads.whole

    def resources(field: str, amounts: dict[str, int], there: dict[str, int]) -> dict[str, int]:
        if field in asks:
            return {name: amounts[name] for name in names if there.get(name, 0) > 0}
        return {name: amounts.get(name, 0) for name in names}

    allocatable = dict(node.allocatable)
    data = {
        "node.name": node.name,
        "node.labels": dict(node.labels),
        "node.annotations": dict(node.annotations),
        "node.conditions": dict(node.conditions),
        "node.taints": [{"key": t.key, "value": t.value, "effect": t.effect} for t in node.taints],
        "node.unschedulable": node.unschedulable,
        "node.allocatable": resources("node.allocatable", allocatable, allocatable),
        "node.used": resources("node.used", used, used),
        "node.free": resources("node.free", free, allocatable),
        "pod.name": pod.name,
        "pod.namespace": pod.namespace,
        "pod.labels": dict(pod.labels),
        "pod.priority": pod.priority,
        "pod.requests": dict(pod.requests),
        "pod.tolerations": [
            {"key": t.key, "operator": t.operator, "value": t.value, "effect": t.effect} for t in pod.tolerations
        ],
        "policy.parameters": PARAMETERS,
    }
    try:
        return program.evaluate(data)
    except EvaluationFailed:
        return None


def predicate(expression: str) -> FilterPlugin:
    return make_predicate(Predicate("rule", expression=expression), PARAMETERS)


def priority(expression: str, normalized: bool = False) -> ScorePlugin:
    return make_priority(Priority("points", expression=expression, normalized=normalized), PARAMETERS)


def is_separable(expression: str) -> bool:
    """Whether the naive way may give whole maps and single resources at once."""
    reads = Program(f"[{expression}].size() > 0", bool, PARAMETERS).reads
    fields = [field for field, _ in reads.asked]
    plain = [field for field, keys in reads.keys.items() if any((field, key) not in reads.asked for key in keys)]
    return not ({*fields, *reads.whole} & set(plain) & {"node.allocatable", "node.used", "node.free"})


@settings(max_examples=examples(80), deadline=None)
@given(combined, seeds)
def test_a_predicate_by_columns_is_the_expression_evaluated_for_each_node(expression: str, seed: int) -> None:
    if not is_separable(expression):
        return
    random = Random(seed)
    state, plugin, program = random_state(random), predicate(expression), Program(expression, bool, PARAMETERS)
    for serial in range(12):
        query = Query(random_pod("asking", random), state.table)
        verdicts = plugin.filter(query, state, state.table.rows)
        rows = range(state.table.span)[state.table.rows] if isinstance(state.table.rows, slice) else state.table.rows
        for position, row in enumerate(rows):
            node = node_of(state.table, state.table.name(int(row)))
            expected = plainly(program, query.pod, node, state)
            assert verdicts.fits[position] == (expected is True)
            assert min(int(verdicts.causes[position]), 2) == (2 if expected is None else 1 - expected)
            assert plugin.fits_row(query, state, int(row)) == (expected is True)
        disturb(state, random, serial)


@settings(max_examples=examples(50), deadline=None)
@given(amounts, seeds)
def test_a_priority_by_columns_is_the_expression_evaluated_for_each_node(expression: str, seed: int) -> None:
    if not is_separable(expression):
        return
    random = Random(seed)
    state, plugin, program = random_state(random), priority(expression), Program(expression, int, PARAMETERS)
    for serial in range(12):
        query = Query(random_pod("asking", random), state.table)
        nodes = sorted(state.table.nodes(), key=lambda node: state.table.row(node.name) or 0)
        given_points = plugin.score(query, state, state.table.rows).tolist()
        expected = [min(max(plainly(program, query.pod, node, state) or 0, 0), 100) for node in nodes]
        assert given_points == expected
        assert [plugin.score_row(query, state, row_of(state.table, node.name)) for node in nodes] == expected
        disturb(state, random, serial)


# --- kept answers


def pipeline(condition: str, points: str, normalized: bool) -> Pipeline:
    fit = make_filter("NodeResourcesFit")
    return Pipeline([predicate(condition), fit], [(priority(points, normalized), 3)], TieBreak.FIRST)


@settings(max_examples=examples(100), deadline=None)
@given(combined, amounts, st.booleans(), seeds)
def test_a_pipeline_that_has_decided_before_decides_as_a_new_one_does(
    condition: str, points: str, normalized: bool, seed: int
) -> None:
    random = Random(seed)
    state, old = random_state(random), pipeline(condition, points, normalized)
    kinds = [random_pod(f"kind-{number}", random) for number in range(2)]
    for serial in range(25):
        name = f"asking-{serial}"
        pod = replace(random.choice(kinds), uid=name, name=name, priority=random.choice([0, 10]))
        said = old.decide(pod, state, Random(0))
        assert said == pipeline(condition, points, normalized).decide(pod, state, Random(0))
        if isinstance(said, Placement) and random.random() < 0.7:
            state.table.add_pod(pod, said.node)
        elif random.random() < 0.5:
            disturb(state, random, serial)


@pytest.mark.parametrize("nodes_have_it", [True, False])
def test_what_pods_use_is_read_whether_or_not_a_node_has_the_resource(nodes_have_it: bool) -> None:
    state = State()
    for name in ("a", "b"):
        state.table.set_node(parse_node(make_node(name, extended={GPU: 1} if nodes_have_it else {})))
    state.table.add_pod(parse_pod(make_pod("user", requests={GPU: "3"})), "b")
    plugin = make_predicate(Predicate("busy", expression=f"node.used['{GPU}'] == 3"), {})
    assert fitting(plugin, state) == ["b"]
    state.table.remove_pod("pod-default-user")
    assert fitting(plugin, state) == []


def test_amounts_of_one_resource_are_not_taken_for_those_of_another() -> None:
    """An expression that goes through all resources is remembered by their amounts, which have no names."""
    state = State()
    plugin = make_predicate(Predicate("named", expression="node.allocatable.exists(r, r.endsWith('/first'))"), {})
    state.table.set_node(parse_node(make_node("a", extended={"example.com/first": 1})))
    assert fitting(plugin, state) == ["a"]
    state.table.set_node(parse_node(make_node("a", extended={"example.com/other": 1})))
    assert fitting(plugin, state) == []


def fitting(plugin: FilterPlugin, state: State) -> list[str]:
    rows = state.table.rows
    fits = plugin.filter(Query(parse_pod(make_pod("asks")), state.table), state, rows).fits
    return [state.table.name(row) for row, fit in enumerate(fits) if fit]


def test_annotations_that_change_all_the_time_are_not_remembered_for_ever() -> None:
    state, pod, text = State(), parse_pod(make_pod("asking")), "x" * 4000
    evaluation = Evaluation(Program("node.annotations.size() > 0", bool, {}), highest=1)
    for number in range(7000):
        state.table.set_node(parse_node(make_node("a", annotations={"report": f"{text}{number}"})))
        assert evaluation.answers(pod, state.table, state.table.rows).all()
    assert evaluation.statistics()["remembered"] < 6700


@pytest.mark.parametrize(
    "condition", ["pod.name == 'two'", "pod.priority == 2", "pod.priority == 2 && node.free.cpu > 0"]
)
def test_pods_of_one_signature_that_differ_in_what_is_read_get_their_own_answers(condition: str) -> None:
    state = State()
    for name in ("a", "b", "c"):
        state.table.set_node(parse_node(make_node(name)))
    made = Pipeline([predicate(f"{condition} || node.name != 'a'")], [(priority(f"{condition} ? 1 : 0"), 1)])
    one = parse_pod(make_pod("one", priority=1))
    two = replace(one, name="two", uid="two", priority=2)
    assert one.signature == two.signature
    for pod, feasible in ((one, 2), (one, 2), (two, 3), (one, 2), (two, 3), (two, 3)):
        assert as_placement(made.decide(pod, state, Random(0))).feasible == feasible


@settings(max_examples=examples(40), deadline=None)
@given(st.sampled_from([c for c in CONDITIONS if "used" in c or "free" in c]), seeds)
def test_preemption_makes_room_only_where_the_predicate_then_holds(condition: str, seed: int) -> None:
    """Pods that leave may turn such a predicate either way."""
    random = Random(seed)
    state = State()
    for number in range(5):
        state.table.set_node(parse_node(make_node(f"n{number}", cpu=1, labels={"zone": "z1"})))
        for place in range(random.randrange(1, 4)):
            pod = parse_pod(make_pod(f"p-{number}-{place}", node=f"n{number}", cpu="300m", priority=-5))
            state.table.add_pod(pod, f"n{number}")
    fit = make_filter("NodeResourcesFit")
    made = Pipeline([predicate(condition), fit], [])
    query = Query(parse_pod(make_pod("asking", cpu="900m", priority=100)), state.table)
    survey = made.survey(query, state)
    if survey.fits.any():
        return
    nomination = Preemption().preempt(made, query, survey, state, Random(0))
    if not isinstance(nomination, Nomination):
        return
    for victim in nomination.victims:
        state.table.remove_pod(victim.uid)
    row = row_of(state.table, nomination.node)
    assert all(plugin.fits_row(query, state, row) for plugin in made.filters)
