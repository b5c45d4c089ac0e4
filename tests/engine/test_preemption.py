"""Whom a pod that fits nowhere pushes out, where, and what is said when it may not or cannot."""

from collections.abc import Iterable, Mapping, Sequence
from random import Random
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from berth.engine.diagnosis import diagnose
from berth.engine.pipeline import Pipeline
from berth.engine.plugin import BadArgument, FilterPlugin, Query
from berth.engine.plugins.node_resources_fit import NodeResourcesFit
from berth.engine.preemption.preemption import NoNomination, Preemption, cheapest
from berth.engine.preemption.victims import Candidate, Candidates, Nomination
from berth.engine.state.amounts import Amounts
from berth.engine.state.budgets import Budgets
from berth.engine.state.state import State
from berth.engine.verdict import Code, Rows, Verdicts, refuse_where
from berth.model import Pod, parse_pod
from berth.policy.defaults import DEFAULT_PREDICATES
from engine.expecting import as_no_nomination, as_nomination, make_filter, row_of
from engine.worlds import state_of
from support.builders import Body, make_node, make_object, make_pod

DELETED_FOR_ANOTHER = [{"type": "DisruptionTarget", "status": "True", "reason": "PreemptionByScheduler"}]


class Bystander(FilterPlugin):
    """Might mind any pod and never does: the search has to move pods in the table, and ends as it does on columns."""

    name = "Bystander"

    def filter(self, query: Query, state: State, rows: Rows) -> Verdicts:
        return refuse_where(np.zeros(len(state.table.taint_sets[rows]), np.bool_), Code.UNSCHEDULABLE, "never")


class Choking(NodeResourcesFit):
    """Raises when asked for the n-th time."""

    def __init__(self, times: int) -> None:
        super().__init__({})
        self.times = times

    def filter(self, query: Query, state: State, rows: Rows) -> Verdicts:
        self._swallow()
        return super().filter(query, state, rows)

    def filter_with_free(self, query: Query, free: Amounts, allocatable: Amounts) -> Verdicts:
        self._swallow()
        return super().filter_with_free(query, free, allocatable)

    def fits_row(self, query: Query, state: State, row: int) -> bool:
        self._swallow()
        return super().fits_row(query, state, row)

    def _swallow(self) -> None:
        self.times -= 1
        if not self.times:
            raise RuntimeError("choked")


def pipeline(*others: FilterPlugin) -> Pipeline:
    return Pipeline([*(make_filter(entry.name) for entry in DEFAULT_PREDICATES), *others], [])


def preempt(
    state: State, pod: Body, args: Mapping[str, Any] | None = None, seed: int = 0, filters: Pipeline | None = None
) -> Nomination | NoNomination:
    filters, query = filters or pipeline(), Query(parse_pod(pod), state.table)
    survey = filters.survey(query, state)
    assert not survey.fits.any()
    return Preemption(args).preempt(filters, query, survey, state, Random(seed))


def candidates(state: State, pod: Body, filters: Pipeline | None = None) -> dict[str, tuple[list[str], int]]:
    """Victims and violations by node."""
    filters, query = filters or pipeline(), Query(parse_pod(pod), state.table)
    survey = filters.survey(query, state)
    found = [candidate.nominate() for candidate in Preemption().candidates(filters, query, survey, state)]
    return {n.node: ([pod.name for pod in n.victims], n.violations) for n in found}


def node(name: str, cpu: str | int = 4, **others: Any) -> Body:
    return make_node(name, cpu=cpu, **others)


def placed(name: str, on: str, cpu: str | int = 1, priority: int = 0, minute: int = 0, **others: Any) -> Body:
    """A pod on a node, that has run since that minute."""
    status = {"startTime": f"2026-01-01T00:{minute:02d}:00Z", **others.pop("status", {})}
    return make_pod(name, node=on, cpu=cpu, priority=priority, status=status, **others)


def newcomer(cpu: str | int = 2, priority: int = 100, **others: Any) -> Body:
    return make_pod("new", cpu=cpu, priority=priority, **others)


def budget(name: str, allowed: int, selector: Body | None = None, disrupted: Iterable[str] = ()) -> Body:
    wanted = {"matchLabels": {"app": "web"}} if selector is None else selector
    status = {"disruptionsAllowed": allowed, "disruptedPods": dict.fromkeys(disrupted, "2026-01-01T00:00:00Z")}
    return make_object("PodDisruptionBudget", name, namespace="default", spec={"selector": wanted}, status=status)


def image_of(state: State) -> dict[str, object]:
    """Everything that a search might have disturbed."""
    table = state.table
    names = sorted(node.name for node in table.nodes())
    rows = [row_of(table, name) for name in names]
    slots = np.flatnonzero(table.pods.row >= 0).tolist()
    columns = sorted(
        (
            table.pods.record(slot).uid,
            int(table.pods.row[slot]),
            int(table.pods.priority[slot]),
            int(table.pods.started[slot]),
            table.pods.usage[:, slot].tolist(),
        )
        for slot in slots
    )
    return {
        "allocatable": table.allocatable[:, rows].tolist(),
        "used": table.used[:, rows].tolist(),
        "free": table.free[:, rows].tolist(),
        "nonzero": table.nonzero[:, rows].tolist(),
        "pods": {name: dict(table.pods_on(name)) for name in names},
        "columns": columns,
        "tried": list(table.tried),
        "groups": table.statistics()["pod_groups"],
    }


# --- victims ---------------------------------------------------------------------------------------------------------

BOTH_WAYS = pytest.mark.parametrize("filters", [pipeline(), pipeline(Bystander({}))], ids=["columns", "one by one"])


@BOTH_WAYS
def test_pods_come_back_by_priority_and_then_by_the_time_they_have_run(filters: Pipeline) -> None:
    state = state_of(
        [
            node("a"),
            placed("high", "a", priority=50, minute=9),
            placed("old", "a", priority=10, minute=1),
            placed("young", "a", priority=10, minute=8),
            placed("low", "a", priority=1, minute=0),
        ]
    )
    assert candidates(state, newcomer(cpu=2), filters) == {"a": (["young", "low"], 0)}


@BOTH_WAYS
def test_a_smaller_pod_comes_back_though_a_more_important_one_could_not(filters: Pipeline) -> None:
    state = state_of([node("a"), placed("big", "a", cpu=3, priority=50), placed("small", "a", cpu=1, priority=1)])
    assert candidates(state, newcomer(cpu=3), filters) == {"a": (["big"], 0)}


@BOTH_WAYS
def test_a_pod_that_has_not_started_goes_before_one_that_runs(filters: Pipeline) -> None:
    waiting = make_pod("waiting", node="a", cpu=2, priority=1)
    state = state_of([node("a"), waiting, placed("running", "a", cpu=2, priority=1, minute=59)])
    assert candidates(state, newcomer(cpu=2), filters) == {"a": (["waiting"], 0)}


@BOTH_WAYS
def test_of_pods_that_started_together_the_one_made_first_comes_back_first(filters: Pipeline) -> None:
    second = placed("b", "a", cpu=2, created="2026-01-01T00:00:01Z")
    first = placed("z", "a", cpu=2, created="2026-01-01T00:00:00Z")
    assert candidates(state_of([node("a"), second, first]), newcomer(cpu=2), filters) == {"a": (["b"], 0)}
    twins = [placed(name, "a", cpu=2) for name in ("y", "x")]
    assert candidates(state_of([node("a"), *twins]), newcomer(cpu=2), filters) == {"a": (["y"], 0)}


@BOTH_WAYS
def test_the_order_holds_for_the_lowest_and_the_highest_priority_and_any_time_of_start(filters: Pipeline) -> None:
    shapes = [
        ("highest", 2**31 - 2, "9999-12-31T23:59:59Z"),
        ("ancient", 0, "0001-01-01T00:00:00Z"),
        ("today", 0, "2026-01-01T00:00:00Z"),
        ("future", 0, "9999-12-31T23:59:59Z"),
        ("waiting", 0, None),
        ("lowest", -(2**31), "0001-01-01T00:00:00Z"),
    ]
    pods = [placed(name, "a", priority=priority, status={"startTime": at}) for name, priority, at in reversed(shapes)]
    state = state_of([node("a", cpu=6), *pods])
    for cpu in range(1, 7):
        victims = [name for name, _, _ in shapes[-cpu:]]
        assert candidates(state, newcomer(cpu=cpu, priority=2**31 - 1), filters) == {"a": (victims, 0)}


@BOTH_WAYS
def test_pods_of_equal_or_higher_priority_stay(filters: Pipeline) -> None:
    state = state_of([node("a"), placed("equal", "a", cpu=3, priority=100), placed("low", "a", cpu=1)])
    assert candidates(state, newcomer(cpu=2), filters) == {}


@BOTH_WAYS
def test_the_number_of_pods_makes_victims_as_any_resource_does(filters: Pipeline) -> None:
    state = state_of([node("a", pods=2), placed("one", "a", minute=1), placed("two", "a", minute=2)])
    assert candidates(state, newcomer(cpu="100m"), filters) == {"a": (["two"], 0)}


def test_a_pod_is_pushed_out_for_its_port_and_one_for_its_anti_affinity() -> None:
    term = {"labelSelector": {"matchLabels": {"app": "new"}}, "topologyKey": "kubernetes.io/hostname"}
    dislikes = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    state = state_of(
        [
            node("a", labels={"kubernetes.io/hostname": "a"}),
            placed("holder", "a", ports=[80]),
            placed("hater", "a", affinity=dislikes),
            placed("friend", "a"),
        ]
    )
    before = image_of(state)
    pod = newcomer(cpu=1, ports=[80], labels={"app": "new"})
    assert candidates(state, pod) == {"a": (["hater", "holder"], 0)}
    assert image_of(state) == before


def test_a_pod_is_pushed_out_so_that_the_pods_lie_evenly() -> None:
    spread = {
        "maxSkew": 1,
        "topologyKey": "zone",
        "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": {"matchLabels": {"app": "web"}},
    }
    state = state_of(
        [
            node("a", labels={"zone": "1"}),
            node("b", labels={"zone": "2"}, unschedulable=True),
            placed("first", "a", labels={"app": "web"}),
            placed("other", "a"),
        ]
    )
    pod = newcomer(cpu=1, labels={"app": "web"}, topologySpreadConstraints=[spread])
    assert candidates(state, pod) == {"a": (["first"], 0)}


# --- disruption budgets ----------------------------------------------------------------------------------------------


def web(name: str, priority: int = 1, **others: Any) -> Body:
    return placed(name, "a", priority=priority, labels={"app": "web"}, **others)


@BOTH_WAYS
def test_a_pod_that_a_budget_protects_comes_back_before_a_more_important_one(filters: Pipeline) -> None:
    state = state_of([node("a"), web("guarded", cpu=2), placed("other", "a", cpu=2, priority=50), budget("none", 0)])
    assert candidates(state, newcomer(cpu=2), filters) == {"a": (["other"], 0)}


@BOTH_WAYS
def test_a_budget_lets_the_most_important_pods_go_first(filters: Pipeline) -> None:
    state = state_of([node("a"), web("x", 3), web("y", 2), web("z", 1), placed("other", "a"), budget("one", 1)])
    assert candidates(state, newcomer(cpu=2), filters) == {"a": (["x", "other"], 0)}
    assert candidates(state, newcomer(cpu=3), filters) == {"a": (["x", "z", "other"], 1)}
    assert candidates(state, newcomer(cpu=4), filters) == {"a": (["x", "y", "z", "other"], 2)}


@BOTH_WAYS
def test_every_budget_that_matches_a_pod_has_its_say(filters: Pipeline) -> None:
    wide = budget("wide", 5, {"matchExpressions": [{"key": "app", "operator": "Exists"}]})
    state = state_of([node("a"), web("x", cpu=4), wide, budget("narrow", 0)])
    assert candidates(state, newcomer(cpu=2), filters) == {"a": (["x"], 1)}


@pytest.mark.parametrize(
    "harmless",
    [
        budget("disrupted", 0, disrupted=["x"]),
        budget("empty", 0, {}),
        budget("others", 0, {"matchLabels": {"app": "db"}}),
        {**budget("elsewhere", 0), "metadata": {"name": "b", "namespace": "other", "uid": "b"}},
    ],
    ids=lambda body: body["metadata"]["name"],
)
def test_a_budget_that_does_not_count_the_pod_does_not_protect_it(harmless: Body) -> None:
    state = state_of([node("a"), web("x", cpu=4), harmless])
    assert candidates(state, newcomer(cpu=2)) == {"a": (["x"], 0)}


def test_a_pod_without_labels_is_under_no_budget() -> None:
    absent = {"matchExpressions": [{"key": "app", "operator": "DoesNotExist"}]}
    state = state_of([node("a"), placed("x", "a", cpu=4), budget("absent", 0, absent)])
    assert candidates(state, newcomer(cpu=2)) == {"a": (["x"], 0)}


def test_a_change_of_a_budget_or_of_labels_counts_at_once() -> None:
    state, preemption, filters = state_of([node("a"), web("x", cpu=4), budget("none", 0)]), Preemption(), pipeline()

    def violations() -> int:
        query = Query(parse_pod(newcomer()), state.table)
        [only] = preemption.candidates(filters, query, filters.survey(query, state), state)
        return only.violations

    assert violations() == 1
    state.table.remove_pod("pod-default-x")
    state.table.add_pod(parse_pod(placed("x", "a", cpu=4, labels={"app": "db"})), "a")
    assert violations() == 0
    state.drop("PodDisruptionBudget", "default/none")
    state.table.remove_pod("pod-default-x")
    state.table.add_pod(parse_pod(web("x", cpu=4)), "a")
    assert violations() == 0


def test_what_is_kept_of_pods_under_budgets_is_bounded_by_the_pods_that_there_are() -> None:
    state = state_of([node("a"), budget("some", 1)])
    budgets, alone = Budgets(state), np.zeros(1, dtype=np.intp)
    for number in range(50):
        pod = parse_pod(web(f"x{number}", cpu=1))
        state.table.add_pod(pod, "a")
        budgets.protected([pod], alone)
        assert budgets.statistics()["pods"] <= 2 * len(state.table.pods)
        state.table.remove_pod(pod.uid)
    budgets.forget_gone()
    assert budgets.statistics()["pods"] == 0


def test_without_budgets_nothing_is_kept_of_pods() -> None:
    state = state_of([node("a"), web("x", cpu=4)])
    budgets = Budgets(state)
    assert budgets.of(parse_pod(web("x", cpu=4))) == []
    assert budgets.statistics() == {"budgets": 0, "pods": 0}


# --- the choice ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("worse", "better"),
    [
        ([{"labels": {"app": "web"}}], [{"priority": 90}]),
        ([{"priority": 20}], [{"priority": 10}]),
        ([{"cpu": 2, "priority": 10}, {"cpu": 2, "priority": 5}], [{"cpu": 2, "priority": 10}, {"cpu": 2}]),
        ([{"cpu": 2, "priority": -(2**31)}, {"cpu": 2, "priority": -5}], [{"priority": -5}]),
        ([{"minute": 3}], [{"minute": 4}]),
        ([{"minute": 3}], [{"status": {"startTime": None}}]),
    ],
    ids=["violations", "highest priority", "sum of priorities", "number", "start", "not started"],
)
def test_the_cheapest_node_is_chosen(worse: list[Body], better: list[Body]) -> None:
    pods = [
        placed(f"{on}{number}", on, **{"cpu": 4, **shape})
        for on, shapes in (("a", worse), ("b", better), ("c", worse))
        for number, shape in enumerate(shapes)
    ]
    state = state_of([node("a"), node("b"), node("c"), *pods, budget("none", 0)])
    chosen = as_nomination(preempt(state, newcomer(cpu=4)))
    assert (chosen.node, len(chosen.victims)) == ("b", len(better))


def test_among_equals_chance_decides() -> None:
    state = state_of([body for name in "abc" for body in (node(name), placed(f"on-{name}", name, cpu=4))])
    assert {as_nomination(preempt(state, newcomer(), seed=seed)).node for seed in range(40)} == {"a", "b", "c"}
    assert preempt(state, newcomer(), seed=7) == preempt(state, newcomer(), seed=7)


def test_what_is_found_is_a_sequence_and_so_is_a_part_of_it() -> None:
    state, filters = state_of(crowd(7)), pipeline()
    query = Query(parse_pod(newcomer()), state.table)
    found = Preemption().candidates(filters, query, filters.survey(query, state), state)
    names = [f"n{number:02d}" for number in range(7)]

    def nodes(candidates: Iterable[Candidate]) -> list[str]:
        return [candidate.nominate().node for candidate in candidates]

    assert (len(found), nodes(found), nodes([found[0], found[-1]])) == (7, names, [names[0], names[-1]])
    assert (nodes(found[2:]), nodes(found[2:][1:3]), nodes(found[::-2])) == (names[2:], names[3:5], names[::-2])
    assert isinstance(found, Candidates)
    joined = Candidates.joined([found[5:], found[:0], found[:2]])
    assert nodes(joined) == [*names[5:], *names[:2]]
    assert not Candidates.joined([])
    with pytest.raises(IndexError):
        found[7]


def test_the_cheapest_are_the_same_in_columns_and_in_a_list() -> None:
    pods = [placed(f"p{n}", f"n{n}", cpu=4, priority=n % 3, minute=n % 2) for n in range(12)]
    state, filters = state_of([*(node(f"n{n}") for n in range(12)), *pods]), pipeline()
    query = Query(parse_pod(newcomer()), state.table)
    found = Preemption().candidates(filters, query, filters.survey(query, state), state)
    assert [nomination.node for nomination in cheapest(found)] == ["n3", "n9"]
    assert cheapest(found) == cheapest(list(found))


def test_the_nomination_names_the_victims_by_importance() -> None:
    state = state_of([node("a"), placed("x", "a", cpu=2, priority=3), placed("y", "a", cpu=2, priority=7)])
    chosen = preempt(state, newcomer(cpu=4))
    assert isinstance(chosen, Nomination)
    assert (chosen.node, [pod.name for pod in chosen.victims], chosen.violations) == ("a", ["y", "x"], 0)


# --- how many nodes are looked at ------------------------------------------------------------------------------------


def crowd(number: int, **shape: Any) -> list[Body]:
    return [
        body for n in range(number) for body in (node(f"n{n:02d}"), placed(f"p{n:02d}", f"n{n:02d}", cpu=4, **shape))
    ]


class First(Random):
    """Takes the first, and writes down of how many."""

    def __init__(self) -> None:
        super().__init__(3)
        self.sizes: list[int] = []

    def randrange(self, start: int, stop: int | None = None, step: int = 1) -> int:
        self.sizes.append(start)
        return 0


def looked_at(state: State, args: Mapping[str, Any]) -> int:
    """How many nodes the choice can fall on, whatever the offset: those found are equal but for their names."""
    filters, query = pipeline(), Query(parse_pod(newcomer()), state.table)
    first = First()
    assert isinstance(Preemption(args).preempt(filters, query, filters.survey(query, state), state, first), Nomination)
    return first.sizes[1] if len(first.sizes) > 1 else 1


@pytest.mark.parametrize(
    ("percentage", "absolute", "wanted"), [(10, 100, 30), (10, 0, 3), (10, 5, 5), (0, 7, 7), (100, 0, 30), (1, 0, 1)]
)
def test_the_search_ends_when_enough_nodes_are_found(percentage: int, absolute: int, wanted: int) -> None:
    args = {"minCandidateNodesPercentage": percentage, "minCandidateNodesAbsolute": absolute}
    assert looked_at(state_of(crowd(30)), args) == wanted


def test_the_search_goes_on_while_every_node_found_violates_a_budget() -> None:
    bodies = crowd(200, labels={"app": "web"})
    last = [node("z"), placed("free", "z", cpu=4, priority=90)]
    state = state_of([*bodies, *last, budget("none", 0)])
    args = {"minCandidateNodesPercentage": 0, "minCandidateNodesAbsolute": 3}
    assert {as_nomination(preempt(state, newcomer(), args, seed)).node for seed in range(5)} == {"z"}


@pytest.mark.parametrize(
    ("args", "field"),
    [
        ({"minCandidateNodesPercentage": 101}, "minCandidateNodesPercentage"),
        ({"minCandidateNodesPercentage": -1}, "minCandidateNodesPercentage"),
        ({"minCandidateNodesPercentage": "10"}, "minCandidateNodesPercentage"),
        ({"minCandidateNodesAbsolute": -1}, "minCandidateNodesAbsolute"),
        ({"minCandidateNodesAbsolute": True}, "minCandidateNodesAbsolute"),
        ({"minCandidateNodesPercentage": 0, "minCandidateNodesAbsolute": 0}, "minCandidateNodesPercentage"),
        ({"candidates": 3}, "candidates"),
    ],
)
def test_an_argument_that_makes_no_sense_is_named(args: Mapping[str, Any], field: str) -> None:
    with pytest.raises(BadArgument) as caught:
        Preemption(args)
    assert caught.value.field == field


def test_the_limits_are_kubernetes_defaults_where_none_are_given() -> None:
    assert (Preemption().percentage, Preemption({}).absolute) == (10, 100)


# --- who may not, and what is said -----------------------------------------------------------------------------------


def test_a_pod_that_must_never_preempt_says_so() -> None:
    state = state_of([node("a"), placed("x", "a", cpu=4)])
    said = preempt(state, newcomer(preemptionPolicy="Never"))
    assert said == NoNomination("preemption: not eligible due to preemptionPolicy=Never.")


def leaving(name: str, on: str, priority: int = 0, conditions: Sequence[Body] = DELETED_FOR_ANOTHER) -> Body:
    return placed(name, on, cpu=4, priority=priority, deleting=True, status={"conditions": conditions})


def test_a_pod_waits_while_those_it_pushed_out_are_leaving() -> None:
    state = state_of([node("a"), node("b"), leaving("x", "a"), placed("y", "b", cpu=4)])
    said = preempt(state, newcomer(nominated="a"))
    assert said == NoNomination("preemption: not eligible due to a terminating pod on the nominated node.")


@pytest.mark.parametrize(
    "there",
    [
        placed("x", "a", cpu=4, priority=99),
        leaving("x", "a", 99, []),
        leaving("x", "a", 99, [{"type": "DisruptionTarget", "status": "True", "reason": "EvictionByEvictionAPI"}]),
        leaving("x", "a", 99, [{"type": "DisruptionTarget", "status": "False", "reason": "PreemptionByScheduler"}]),
        leaving("x", "a", 100),
    ],
    ids=["stays", "deleted", "evicted", "no longer", "not lower"],
)
def test_a_pod_preempts_again_unless_its_victims_are_leaving(there: Body) -> None:
    state = state_of([node("a"), node("b"), there, placed("y", "b", cpu=4)])
    assert as_nomination(preempt(state, newcomer(nominated="a"))).node == "b"


def test_a_pod_preempts_elsewhere_when_its_nominated_node_is_beyond_help_or_gone() -> None:
    state = state_of([node("a", unschedulable=True), node("b"), leaving("x", "a"), placed("y", "b", cpu=4)])
    assert as_nomination(preempt(state, newcomer(nominated="a"))).node == "b"
    assert as_nomination(preempt(state, newcomer(nominated="gone"))).node == "b"


def test_where_nothing_helps_the_message_counts_the_nodes_as_kubernetes_does() -> None:
    state = state_of(
        [
            node("a"),
            placed("equal", "a", cpu=4, priority=100),
            node("b"),
            placed("most", "b", cpu=3, priority=100),
            placed("low", "b", cpu=1),
            node("c", unschedulable=True),
            node("d", cpu=1),
        ]
    )
    said = preempt(state, newcomer(cpu=2))
    assert said == NoNomination(
        "preemption: 0/4 nodes are available: 1 Insufficient cpu, 1 No preemption victims found for incoming pod, "
        "2 Preemption is not helpful for scheduling.",
        withdraws=True,
    )


def test_the_message_follows_the_diagnosis() -> None:
    state, filters = state_of([node("a", unschedulable=True)]), pipeline()
    query = Query(parse_pod(newcomer(cpu=1)), state.table)
    survey = filters.survey(query, state)
    said = as_no_nomination(Preemption().preempt(filters, query, survey, state, Random(0)))
    assert f"{diagnose(survey, 1).message} {said.message}" == (
        "0/1 nodes are available: 1 node(s) were unschedulable. "
        "preemption: 0/1 nodes are available: 1 Preemption is not helpful for scheduling."
    )


def test_a_pod_that_was_refused_before_any_node_was_looked_at_preempts_nobody() -> None:
    missing = [{"name": "v", "persistentVolumeClaim": {"claimName": "missing"}}]
    state = state_of([node("a"), placed("x", "a", cpu=4)])
    said = preempt(state, newcomer(volumes=missing))
    text = "preemption: 0/1 nodes are available: 1 Preemption is not helpful for scheduling."
    assert said == NoNomination(text, withdraws=True)


def test_a_reader_of_pods_that_still_refuses_is_named_before_the_resources_that_are_short() -> None:
    state = state_of(
        [node("a"), placed("holder", "a", cpu=3, priority=100, ports=[80]), placed("low", "a", cpu=1)],
    )
    before = image_of(state)
    said = as_no_nomination(preempt(state, newcomer(cpu=2, ports=[80])))
    assert "1 node(s) didn't have free ports for the requested pod ports." in said.message
    assert image_of(state) == before


# --- nominated pods --------------------------------------------------------------------------------------------------


def nominate(state: State, name: str, on: str, cpu: str | int, priority: int, uid: str | None = None) -> None:
    state.nominate(parse_pod(make_pod(name, cpu=cpu, priority=priority, uid=uid)), on)


@BOTH_WAYS
def test_a_nominated_pod_of_equal_priority_takes_room(filters: Pipeline) -> None:
    bodies = [node("a"), placed("x", "a", cpu=2, priority=1), placed("y", "a", cpu=2, priority=2)]
    state = state_of(bodies)
    assert candidates(state, newcomer(cpu=2), filters) == {"a": (["x"], 0)}
    nominate(state, "rival", "a", 2, 100)
    assert candidates(state, newcomer(cpu=2), filters) == {"a": (["y", "x"], 0)}
    nominate(state, "rival", "a", 3, 100)
    assert candidates(state, newcomer(cpu=2), filters) == {}


@BOTH_WAYS
def test_a_nominated_pod_of_lower_priority_and_the_pod_itself_take_none(filters: Pipeline) -> None:
    state = state_of([node("a"), placed("x", "a", cpu=2, priority=1), placed("y", "a", cpu=2, priority=2)])
    nominate(state, "lower", "a", 3, 99)
    nominate(state, "new", "a", 3, 100, uid="pod-default-new")
    nominate(state, "elsewhere", "gone", 3, 100)
    assert candidates(state, newcomer(cpu=2), filters) == {"a": (["x"], 0)}


def test_a_nominated_pod_keeps_others_away_even_where_only_the_victims_had_done_so() -> None:
    term = {"labelSelector": {"matchLabels": {"app": "new"}}, "topologyKey": "kubernetes.io/hostname"}
    dislikes = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    state = state_of([node("a", labels={"kubernetes.io/hostname": "a"}), placed("hater", "a", affinity=dislikes)])
    hater = next(iter(state.table.pods_on("a").values()))
    pod, filters = parse_pod(newcomer(cpu=1, labels={"app": "new"})), pipeline()
    assert filters.fits_without(pod, state, "a", [hater])
    state.nominate(parse_pod(make_pod("rival", cpu=1, priority=100, affinity=dislikes)), "a")
    assert not filters.fits_without(pod, state, "a", [hater])


# --- what is never lost ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("others", [[], [Bystander({})]], ids=["columns", "one by one"])
@pytest.mark.parametrize("times", range(2, 7))
def test_the_table_is_as_it_was_even_where_a_plugin_raises(times: int, others: list[FilterPlugin]) -> None:
    state = state_of([node("a"), *(placed(f"p{n}", "a", priority=n) for n in range(4))])
    before = image_of(state)
    with pytest.raises(RuntimeError, match="choked"):
        preempt(state, newcomer(cpu=3), filters=Pipeline([Choking(times), *others], []))
    assert image_of(state) == before


# --- both ways give the same -----------------------------------------------------------------------------------------

LABELS = st.sampled_from([{}, {"app": "web"}, {"app": "db"}, {"app": "web", "tier": "1"}])
SHAPES: st.SearchStrategy[Body] = st.fixed_dictionaries(
    {
        "cpu": st.sampled_from(["0", "250m", "500m", "1", "1500m"]),
        "memory": st.sampled_from(["0", "1Gi", "3Gi"]),
        "priority": st.integers(-2, 4),
        "labels": LABELS,
        "minute": st.integers(0, 3),
    }
)
ZONE, HOSTNAME = "topology.kubernetes.io/zone", "kubernetes.io/hostname"
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"


def keeps(way: str, app: str, key: str) -> Body:
    """Required affinity to the pods of an app, or anti-affinity."""
    return {way: {REQUIRED: [{"labelSelector": {"matchLabels": {"app": app}}, "topologyKey": key}]}}


AFFINITIES = st.sampled_from(
    [
        None,
        None,
        None,
        keeps("podAntiAffinity", "web", HOSTNAME),
        keeps("podAntiAffinity", "db", ZONE),
        keeps("podAntiAffinity", "new", ZONE),
        keeps("podAffinity", "web", ZONE),
        keeps("podAffinity", "new", HOSTNAME),
    ]
)
SPREADS = st.lists(
    st.fixed_dictionaries(
        {
            "maxSkew": st.integers(1, 2),
            "topologyKey": st.sampled_from([ZONE, HOSTNAME]),
            "whenUnsatisfiable": st.just("DoNotSchedule"),
            "labelSelector": st.sampled_from([{}, {"matchLabels": {"app": "web"}}, {"matchLabels": {"app": "new"}}]),
        }
    ),
    max_size=2,
    unique_by=lambda spread: (spread["topologyKey"], str(spread["labelSelector"])),
)
PLAIN: st.SearchStrategy[Body] = st.just({})
MANNERS: st.SearchStrategy[Body] = st.fixed_dictionaries(
    {
        "affinity": AFFINITIES,
        "ports": st.sampled_from([[], [], [80], [81]]),
        "labels": st.sampled_from([{}, {"app": "web"}, {"app": "db"}, {"app": "new"}]),
        "deleting": st.sampled_from([False, False, True]),
    }
)
SELECTORS: st.SearchStrategy[Body] = st.sampled_from(
    [{}, {"matchLabels": {"app": "web"}}, {"matchExpressions": [{"key": "app", "operator": "Exists"}]}]
)


CrowdedWorld = tuple[list[Body], list[tuple[str, Pod]], Body]
"""What there is; pods that are nominated, by node; a pod to place."""


@st.composite
def crowded_worlds(draw: st.DrawFn, manners: st.SearchStrategy[Body] = PLAIN) -> CrowdedWorld:
    """Nodes with pods and disruption budgets; pods that are nominated, by node; a pod to place."""
    bodies = []
    for number in range(draw(st.integers(1, 5))):
        taints = [("dedicated", "x", "NoSchedule")] if draw(st.integers(0, 9)) == 0 else ()
        labels = {HOSTNAME: f"n{number}", ZONE: draw(st.sampled_from(["1", "2"]))}
        cpu = draw(st.integers(1, 4))
        bodies.append(make_node(f"n{number}", cpu=cpu, memory="4Gi", pods=8, taints=taints, labels=labels))
        for index, shape in enumerate(draw(st.lists(SHAPES, max_size=8))):
            bodies.append(placed(f"p{number}-{index}", f"n{number}", **shape | draw(manners)))
    for number in range(draw(st.integers(0, 3))):
        disrupted = draw(st.sets(st.sampled_from(["p0-0", "p0-1", "p1-0"])))
        bodies.append(budget(f"b{number}", draw(st.integers(0, 2)), draw(SELECTORS), disrupted))
    rivals = [
        (f"n{draw(st.integers(0, 4))}", parse_pod(placed(f"rival{number}", "", **shape | draw(manners))))
        for number, shape in enumerate(draw(st.lists(SHAPES, max_size=3)))
    ]
    wish = {"cpu": draw(st.sampled_from(["0", "500m", "2", "3"])), "priority": draw(st.integers(0, 4))}
    return bodies, rivals, draw(SHAPES) | draw(manners) | wish


FEW = {"minCandidateNodesPercentage": 0, "minCandidateNodesAbsolute": 2}


def outcome(filters: Pipeline, state: State, pod: Body) -> tuple[object, ...] | None:
    query = Query(parse_pod(pod), state.table)
    survey = filters.survey(query, state)
    if survey.fits.any():
        return None
    found = Preemption().candidates(filters, query, survey, state)
    said = Preemption().preempt(filters, query, survey, state, Random(1))
    few = Preemption(FEW).find(filters, query, survey, state, Random(1))
    return (
        {n.node: ([pod.uid for pod in n.victims], n.violations) for n in (c.nominate() for c in found)},
        sorted(candidate.cost for candidate in found),
        [n.node for n in cheapest(found)] if found else said,
        said,
        few if isinstance(few, NoNomination) else [(candidate.cost, candidate.nominate()) for candidate in few],
    )


def found_both_ways(bodies: Sequence[Body], rivals: Iterable[tuple[str, Pod]], pod: Body) -> tuple[object, object]:
    state = state_of(bodies)
    for on, rival in rivals:
        state.nominate(rival, on)
    before = image_of(state)
    fast = outcome(pipeline(), state, pod)
    assert image_of(state) == before
    slow = outcome(pipeline(Bystander({})), state, pod)
    assert image_of(state) == before
    return fast, slow


@given(crowded_worlds())
def test_columns_and_one_by_one_find_the_same_victims_on_every_node(
    world: CrowdedWorld,
) -> None:
    bodies, rivals, shape = world
    fast, slow = found_both_ways(bodies, rivals, placed("new", "", **shape))
    assert fast == slow


@given(crowded_worlds(MANNERS), SPREADS)
def test_nodes_whose_pods_no_filter_minds_need_not_be_tried_one_by_one(
    world: CrowdedWorld, spreads: list[Body]
) -> None:
    bodies, rivals, shape = world
    pod = placed("new", "", **shape, topologySpreadConstraints=spreads)
    fast, slow = found_both_ways(bodies, rivals, pod)
    assert fast == slow


@pytest.mark.parametrize("wanted", [1, 40, 120, 200])
@pytest.mark.parametrize("allowed", [0, 1])
def test_many_nodes_are_found_in_the_same_order_where_some_of_them_are_tried_one_by_one(
    wanted: int, allowed: int
) -> None:
    bodies = [budget("web", allowed)]
    for n in range(200):
        ports, labels = [80] if n % 7 == 3 else [], {"app": "web"} if n % 5 else {}
        bodies += [node(f"n{n}"), placed(f"p{n}", f"n{n}", cpu=3, priority=n % 3, labels=labels)]
        bodies.append(placed(f"q{n}", f"n{n}", priority=100 if n % 11 == 5 else 1, ports=ports, labels=labels))
    state, pod = state_of(bodies), parse_pod(newcomer(cpu=2, ports=[80]))

    def found(filters: Pipeline, seed: int) -> list[tuple[object, Nomination]]:
        query = Query(pod, state.table)
        limits = Preemption({"minCandidateNodesPercentage": 0, "minCandidateNodesAbsolute": wanted})
        some = limits.find(filters, query, filters.survey(query, state), state, Random(seed))
        assert not isinstance(some, NoNomination)
        return [(candidate.cost, candidate.nominate()) for candidate in some]

    for seed in range(3):
        assert found(pipeline(), seed) == found(pipeline(Bystander({})), seed)


@given(crowded_worlds())
def test_a_nomination_is_true(world: CrowdedWorld) -> None:
    """All victims are of lower priority; with them gone the pod fits, and with any one of them back it does not."""
    bodies, _, shape = world
    state, filters, pod = state_of(bodies), pipeline(), parse_pod(placed("new", "", **shape))
    query = Query(pod, state.table)
    survey = filters.survey(query, state)
    if survey.fits.any():
        return
    for nomination in (c.nominate() for c in Preemption().candidates(filters, query, survey, state)):
        gone = {victim.uid for victim in nomination.victims}
        left = [body for body in bodies if body["metadata"]["uid"] not in gone]
        others = [victim for victim in bodies if victim["metadata"]["uid"] in gone]
        assert fits(left, pod, nomination.node)
        assert all(victim["spec"]["priority"] < pod.priority for victim in others)
        assert not any(fits([*left, victim], pod, nomination.node) for victim in others)


def fits(bodies: Sequence[Body], pod: Pod, name: str) -> bool:
    state = state_of(bodies)
    survey = pipeline().survey(Query(pod, state.table), state)
    return bool(survey.fits[state.table.row(name)])
