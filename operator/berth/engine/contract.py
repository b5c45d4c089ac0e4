"""The contract suite: what every plugin must fulfil, checked on a cluster of manifests.

    for check in CHECKS:
        check(ContractCase(kind, args, bodies, pods))        raises AssertionError, with the violation in words

Three things are checked:

    answers         the same for the same input, in any order of nodes; nothing that a plugin is given is changed
    dependencies    what the plugin declares is true: decisions with cached answers are those without, while the cluster
                    changes; pods that do not matter, by its declaration, change no verdict
    fast paths      each returns what the required methods return
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from copy import deepcopy
from dataclasses import dataclass, replace
from itertools import count
from random import Random
from typing import Any, Final

import numpy as np

from berth.engine.answer_cache.entries import knows_bounds
from berth.engine.answer_cache.equivalence import EquivalenceGroups
from berth.engine.diagnosis import Diagnosis
from berth.engine.pipeline import Pipeline, TieBreak
from berth.engine.plugin import BadArgument, FilterPlugin, Plugin, Query, ScorePlugin
from berth.engine.queueing.marks import LABEL, NODE, Mark
from berth.engine.state.nominated_rows import NominatedRows
from berth.engine.state.state import State
from berth.engine.trial import moved
from berth.engine.verdict import Code, Rows, Verdicts, row_numbers
from berth.model import Node, Pod, parse

Body = Mapping[str, Any]
Answer = tuple[int, tuple[str, ...]]
"""A verdict: its code and, if it rejects, its reasons."""

_STEPS: Final = 40


@dataclass(frozen=True)
class ContractCase:
    """A plugin's class with arguments, and the pods and clusters that it is tried on.

    `make` returns a new plugin from arguments; `cluster` a new state, from the manifests in another order if `reverse`,
    and with so many of its nodes only if `nodes` is given.
    """

    make: Callable[[Body], Plugin]
    args: Body
    cluster: Callable[..., State]
    pods: Sequence[Pod]

    def plugin(self) -> Plugin:
        return self.make(self.args)

    def filter(self) -> FilterPlugin | None:
        plugin = self.plugin()
        return plugin if isinstance(plugin, FilterPlugin) and plugin.filters else None

    def scorer(self) -> ScorePlugin | None:
        plugin = self.plugin()
        return plugin if isinstance(plugin, ScorePlugin) and plugin.scores else None


# --- answers of a plugin ---------------------------------------------------------------------------------------------


def verdicts(plugin: Plugin, pod: Pod, state: State, rows: Rows | None = None) -> dict[str, tuple[str, ...]] | str:
    """Returns, by node, why the pod is rejected there (empty: it fits); or the result of PreFilter as text."""
    assert isinstance(plugin, FilterPlugin), f"{plugin.name} does not filter"
    said = _answers(plugin, pod, state, rows)
    return said if isinstance(said, str) else {name: reasons for name, (_, reasons) in said.items()}


def scores(plugin: Plugin, pod: Pod, state: State, rows: Rows | None = None, raw: bool = False) -> dict[str, int]:
    """Returns the scores by node, 0 to 100 (`raw`: before normalisation); empty if PreScore skips the pod."""
    assert isinstance(plugin, ScorePlugin), f"{plugin.name} does not score"
    query, rows = Query(pod, state.table), state.table.rows if rows is None else rows
    if not plugin.concerns(pod) or not plugin.pre_score(query, state):
        return {}
    column = plugin.score(query, state, rows)
    given = (column if raw else plugin.normalize(column)).tolist()
    assert raw or all(0 <= score <= 100 for score in given), (
        f"scores are from 0 to 100, not {min(given)} to {max(given)}"
    )
    return dict(zip(map(state.table.name, row_numbers(rows).tolist()), given, strict=True))


def _answers(plugin: FilterPlugin, pod: Pod, state: State, rows: Rows | None = None) -> dict[str, Answer] | str:
    """Returns the verdicts by node, or the result of PreFilter as text."""
    query, rows = Query(pod, state.table), state.table.rows if rows is None else rows
    before = plugin.pre_filter(query, state)
    if before.skip or before.code is not Code.FITS or not plugin.concerns(pod):
        return "nothing to say" if before.code is Code.FITS else ", ".join(before.reasons)
    said = plugin.filter(query, state, rows)
    return {state.table.name(row): _answer(said, at) for at, row in enumerate(row_numbers(rows).tolist())}


def _answer(said: Verdicts, at: int) -> Answer:
    code = int(said.codes[at])
    return code, said.reasons(at) if code else ()


def _all_answers(plugin: Plugin, pod: Pod, state: State) -> tuple[object, object]:
    filters = isinstance(plugin, FilterPlugin) and plugin.filters
    judged = _answers(plugin, pod, state) if isinstance(plugin, FilterPlugin) and filters else None
    return judged, scores(plugin, pod, state) if isinstance(plugin, ScorePlugin) and plugin.scores else None


def _judging(case: ContractCase) -> Iterator[tuple[FilterPlugin, Query, State, dict[str, Answer]]]:
    """Yields, for each pod that the filter judges, the plugin, the query, a new state, and the verdicts by node."""
    plugin = case.filter()
    if plugin is None:
        return
    for pod in case.pods:
        state = case.cluster()
        said = _answers(plugin, pod, state)
        if isinstance(said, dict):
            query = Query(pod, state.table)
            plugin.pre_filter(query, state)
            yield plugin, query, state, said


def _scoring(case: ContractCase) -> Iterator[tuple[ScorePlugin, Query, State]]:
    """Yields, for each pod that the plugin scores, the plugin, the query, and a new state that has nodes."""
    plugin = case.scorer()
    if plugin is None:
        return
    for pod in case.pods:
        state = case.cluster()
        query = Query(pod, state.table)
        if len(state.table) and plugin.concerns(pod) and plugin.pre_score(query, state):
            yield plugin, query, state


# --- answers ---------------------------------------------------------------------------------------------------------


def check_arguments(case: ContractCase) -> None:
    """An argument that the plugin does not know is refused."""
    with suppress(BadArgument):
        case.make({**case.args, "no-such-argument": 1})
        raise AssertionError("it takes an argument that it does not know: raise BadArgument for it")


def check_same_answers(case: ContractCase) -> None:
    """The same question gets the same answer, from the same plugin and from another one of its class."""
    plugin = case.plugin()
    for pod in case.pods:
        state = case.cluster()
        said = _all_answers(plugin, pod, state)
        assert said == _all_answers(plugin, pod, state), "asked again it gives another answer"
        assert said == _all_answers(case.plugin(), pod, state), "another one of its kind gives another answer"


def check_order_of_nodes(case: ContractCase) -> None:
    """The order of the nodes in the table does not matter."""
    plugin = case.plugin()
    for pod in case.pods:
        said = _all_answers(plugin, pod, case.cluster())
        turned = _all_answers(plugin, pod, case.cluster(reverse=True))
        assert said == turned, "the order of the nodes changes its answer"


def check_some_rows(case: ContractCase) -> None:
    """Asked about some nodes, it gives them the verdicts that they have among all; scores too, if they are local."""
    for plugin, query, state, said in _judging(case):
        some = _answers(plugin, query.pod, state, row_numbers(state.table.rows)[1::2])
        assert isinstance(some, dict)
        problem = "asked about some nodes it gives them other verdicts"
        assert some == {name: said[name] for name in some}, problem
    for scorer, query, state in _scoring(case):
        if scorer.dependencies.node_local or knows_bounds(scorer):
            all_scores = scores(scorer, query.pod, state, raw=True)
            fewer = scores(scorer, query.pod, state, row_numbers(state.table.rows)[1::2], raw=True)
            problem = "asked about some nodes it gives them other scores"
            assert fewer == {name: all_scores[name] for name in fewer}, problem


def check_few_nodes(case: ContractCase) -> None:
    """A cluster without nodes, or with one, is answered too."""
    for pod in case.pods:
        for number in (0, 1):
            _all_answers(case.plugin(), pod, case.cluster(nodes=number))


def check_nothing_changed(case: ContractCase) -> None:
    """Nothing that the plugin is given is changed."""
    for pod in case.pods:
        plugin, state = case.plugin(), case.cluster()
        _all_answers(plugin, pod, state)  # what is asked for the first time may add columns
        before, was = _columns(state), deepcopy(pod)
        _all_answers(plugin, pod, state)
        unchanged = all(np.array_equal(a, b) for a, b in zip(before, _columns(state), strict=True))
        assert unchanged, "it writes into the table"
        assert pod == was, "it changes the pod"


def _columns(state: State) -> list[np.ndarray[Any, Any]]:
    table = state.table
    every = (table.allocatable, table.used, table.nonzero, table.taint_sets, table.unschedulable)
    return [column.copy() for column in every]


def check_events(case: ContractCase) -> None:
    """Local events are among the events that the plugin is retried for, and belong to verdicts on single nodes."""
    plugin = case.plugin()
    assert plugin.local_events <= plugin.retry_events, "local_events has events that retry_events lacks"
    local = plugin.dependencies.node_local or plugin.dependencies.static_key is not None
    assert local or not plugin.local_events, "it has local_events, and its verdicts depend on other nodes"


# --- dependencies ----------------------------------------------------------------------------------------------------


def check_node_local(case: ContractCase) -> None:
    """If it is node_local, it says the same of a node when other nodes are not there."""
    for plugin, query, state, said in _judging(case):
        if not plugin.dependencies.node_local:
            continue
        for name in state.table.sorted_names[::2]:
            state.table.remove_node(name)
        fewer = _answers(plugin, query.pod, state)
        if isinstance(fewer, dict):
            problem = "it is node_local, and without other nodes it gives a node another verdict"
            assert fewer == {name: said[name] for name in fewer}, problem


def check_pods_that_leave(case: ContractCase) -> None:
    """Pods that leave change only the verdicts that depend on pods, by what the plugin declares."""
    for plugin, query, state, said in _judging(case):
        declared = plugin.dependencies
        known = None if declared.rows_with_pods is None else declared.rows_with_pods(query, state)
        for name in state.table.sorted_names:
            row, pods = state.table.row(name), [(pod, name) for pod in state.table.pods_on(name).values()]
            assert row is not None
            for leaving in (pods, pods[::2]):
                with moved(query, state.table, remove=leaving):
                    now = _answer(plugin.filter(query, state, np.array([row], dtype=np.intp)), 0)
                same = now == said[name]
                assert same or declared.reads_pods, f"it reads no pods, and judges node {name} otherwise without them"
                outside = known is not None and not known[row]
                assert same or not outside, f"rows_with_pods lacks node {name}, which gets another verdict without pods"
                refused = said[name][0] == Code.FITS and now[0] != Code.FITS
                assert not (refused and declared.node_local), f"it is node_local, and rejects {name} when pods leave"


def check_cached_answers(case: ContractCase) -> None:
    """While the cluster changes, decisions with cached answers are those without."""
    _compare_decisions(case, _changes)


def check_growing_table(case: ContractCase) -> None:
    """The same while the table grows, shrinks, and gets nodes in slots that were used before."""
    _compare_decisions(case, _growth)


def _compare_decisions(case: ContractCase, changes: Callable[[State, Random], Iterator[None]]) -> None:
    state, caching = case.cluster(), _pipeline(case)
    for step, _ in enumerate(changes(state, Random(0))):
        for number, pod in enumerate(case.pods):
            one = replace(pod, uid=f"pod-{step}-{number}", name=f"pod-{step}-{number}", node_name="")
            cached, fresh = (made.decide(one, state, Random(0)) for made in (caching, _pipeline(case)))
            problem = f"its dependencies are not true: {cached} with cached answers, {fresh} without"
            assert cached == fresh, problem
            if not isinstance(cached, Diagnosis):
                state.table.add_pod(one, cached.node)


def _pipeline(case: ContractCase) -> Pipeline:
    judge, scorer = case.filter(), case.scorer()
    return Pipeline([] if judge is None else [judge], [] if scorer is None else [(scorer, 1)], TieBreak.FIRST)


def _changes(state: State, random: Random) -> Iterator[None]:
    """Changes the cluster: columns grow, pods leave, and nodes swap labels, annotations, taints and resources."""
    fill(state)
    yield
    add_stranger(state)
    yield
    for _ in range(_STEPS):
        nodes = sorted(state.table.nodes(), key=lambda node: node.name)
        if len(nodes) < 2:
            return
        one, other = random.sample(nodes, 2)
        leaving = sorted(state.table.pods_on(one.name))
        what = random.choice(("pods", "pods", "labels", "annotations", "taints", "allocatable", "images", "conditions"))
        if what == "pods":
            for uid in leaving[: random.randint(0, 2)]:
                state.table.remove_pod(uid)
        else:
            state.table.set_node(replace(one, **{what: getattr(other, what)}))
            state.table.set_node(replace(other, **{what: getattr(one, what)}))
        yield


def _growth(state: State, random: Random) -> Iterator[None]:
    fill(state)
    yield
    for number in range(_STEPS // 4):
        nodes = sorted(state.table.nodes(), key=lambda node: node.name)
        if not nodes:
            return
        one = random.choice(nodes)
        what = random.choice(("stranger", "joins", "leaves", "returns"))
        if what == "stranger":
            add_stranger(state)
        elif what == "joins":
            state.table.set_node(replace(one, name=f"joined-{number}"))
        elif what == "leaves" and len(nodes) > 2:
            state.table.remove_node(one.name)
        else:
            state.table.remove_node(one.name)
            state.table.set_node(one)
        yield


def fill(state: State) -> None:
    """Binds pods to unknown nodes, until one more row would make the columns of the table grow."""
    while len(state.table.names()) < state.table.capacity:
        add_stranger(state)


def add_stranger(state: State) -> None:
    """Binds a pod to an unknown node that has no other pod."""
    table = state.table
    number = next(number for number in count(table.span) if not table.pods_on(f"unknown-{number}"))
    metadata = {"name": f"stranger-{number}", "namespace": "strangers", "uid": f"stranger-{number}"}
    pod = parse("Pod", {"kind": "Pod", "metadata": metadata, "spec": {"nodeName": f"unknown-{number}"}})
    assert isinstance(pod, Pod)
    table.add_pod(pod, pod.node_name)


# --- fast paths ------------------------------------------------------------------------------------------------------


def check_single_rows(case: ContractCase) -> None:
    """`fits_row` and `score_row` agree with `filter` and `score`."""
    for plugin, query, state, said in _judging(case):
        for row in row_numbers(state.table.rows).tolist():
            name = state.table.name(row)
            fits = plugin.fits_row(query, state, row)
            assert fits == (said[name][0] == Code.FITS), f"fits_row says {fits} of node {name}, filter says otherwise"
    for scorer, query, state in _scoring(case):
        if scorer.dependencies.node_local or knows_bounds(scorer):
            column = scorer.score(query, state, state.table.rows).tolist()
            for at, row in enumerate(row_numbers(state.table.rows).tolist()):
                score = scorer.score_row(query, state, row)
                problem = f"score_row gives node {state.table.name(row)} {score}, score gives it {column[at]}"
                assert score == column[at], problem


def check_bounds(case: ContractCase) -> None:
    """`scale` with the `bounds` of some scores agrees with `normalize`."""
    for scorer, query, state in _scoring(case):
        if knows_bounds(scorer):
            column = scorer.score(query, state, state.table.rows)
            for part in (column, column[1::2]):
                scaled = scorer.scale(part, scorer.bounds(part))
                assert np.array_equal(scaled, scorer.normalize(part)), (
                    "bounds and scale do not give what normalize does"
                )


def check_groups(case: ContractCase) -> None:
    """The scores by groups agree with `score` and `normalize`."""
    for scorer, query, state in _scoring(case):
        axes_of, rows = scorer.dependencies.score_axes, state.table.rows
        axes = None if axes_of is None else axes_of(query, state)
        fits = np.ones(len(state.table), dtype=np.bool_)
        groups = None if axes is None else EquivalenceGroups.by(axes, rows, fits)
        if groups is None or len(groups.inhabited) < 2:
            continue
        by_group = dict(zip(groups.inhabited, scorer.normalized_groups(query, state, groups), strict=True))
        grouped = [by_group[group] for group in groups.of.tolist()]
        alone = scorer.normalize(scorer.score(query, state, rows)).tolist()
        assert grouped == alone, f"by groups its scores are {grouped}, by nodes {alone}"


def check_filter_with_free(case: ContractCase) -> None:
    """`filter_with_free` agrees with `filter` on the amounts that are free now, and on nodes without pods."""
    for plugin, query, state, said in _judging(case):
        if not plugin.dependencies.reads_only_usage:
            continue
        table, rows = state.table, row_numbers(state.table.rows)
        allocatable = table.allocatable.take(rows, axis=1)
        now = plugin.filter_with_free(query, table.free.take(rows, axis=1), allocatable)
        for at, row in enumerate(rows.tolist()):
            name = table.name(row)
            assert _answer(now, at) == said[name], f"filter_with_free says otherwise than filter of node {name}"
            with moved(query, table, remove=[(pod, name) for pod in table.pods_on(name).values()]):
                alone = _answer(plugin.filter(query, state, np.array([row], dtype=np.intp)), 0)
                free = plugin.filter_with_free(query, table.free.take([row], axis=1), allocatable[:, at : at + 1])
            assert _answer(free, 0) == alone, f"filter_with_free says otherwise than filter of node {name}, emptied"


def check_nominated(case: ContractCase) -> None:
    """`filter_with_nominated` agrees with `filter` with the pods added to the table; one pod of each node is nominated.

    Where `affected_by_nominated` is False, they change nothing.
    """
    for plugin, query, state, _ in _judging(case):
        nominated = _nominate_some(query.pod, state)
        if (
            nominated is None
            or not plugin.dependencies.reads_pods
            or isinstance(_answers(plugin, query.pod, state), str)
        ):
            continue
        query = Query(query.pod, state.table)
        said = plugin.filter_with_nominated(query, state, nominated)
        without, affected = plugin.filter(query, state, nominated.rows), plugin.affected_by_nominated(query, nominated)
        for at, row in enumerate(nominated.rows.tolist()):
            name = state.table.name(row)
            with moved(query, state.table, add=[(other, name) for other in state.nominated[name].values()]):
                alone = _answer(plugin.filter(query, state, np.array([row], dtype=np.intp)), 0)
            if said is not None:
                problem = f"with the nominated pods on node {name} its columns say otherwise than its filter"
                assert _answer(said, at) == alone, problem
            elif not affected[at]:
                problem = f"affected_by_nominated leaves node {name} out, where nominated pods change the verdict"
                assert _answer(without, at) == alone, problem


def _nominate_some(pod: Pod, state: State) -> NominatedRows | None:
    table = state.table
    for name in table.sorted_names:
        for other in list(table.pods_on(name).values())[:1]:
            table.remove_pod(other.uid)
            state.nominate(replace(other, priority=max(other.priority, pod.priority)), name)
    return state.nominated_pods.beside(pod, row_numbers(table.rows))


def check_admitted_nodes(case: ContractCase) -> None:
    """A node that the plugin does not admit is rejected; `named_nodes` and `node_marks` have every admitted node."""
    for plugin, query, state, said in _judging(case):
        named, marks = plugin.named_nodes(query.pod), plugin.node_marks(query, state)
        for name, (code, _) in said.items():
            node = state.table.node(name)
            assert node is not None
            admits = plugin.admits(query, state, node)
            assert admits or code != Code.FITS, f"it does not admit the pod to node {name}, and accepts it there"
            assert not admits or named is None or name in named, f"named_nodes lacks node {name}, which it admits"
            assert not admits or marks is None or marks & marks_of(node), (
                f"node_marks lacks node {name}, which it admits"
            )


def marks_of(node: Node) -> set[Mark]:
    labels = node.labels.items()
    return {(NODE, node.name, ""), *((LABEL, key, "") for key, _ in labels), *((LABEL, *label) for label in labels)}


def check_emptied_nodes(case: ContractCase) -> None:
    """Where the pod fits once all pods of a node are gone, `fits_without` says so, and the resources suffice."""
    for plugin, query, state, said in _judging(case):
        needed = plugin.needed_resources(query.pod) or {}
        for name, (code, _) in said.items():
            row, pods = state.table.row(name), list(state.table.pods_on(name).values())
            node = state.table.node(name)
            assert row is not None
            assert node is not None
            with moved(query, state.table, remove=[(pod, name) for pod in pods]):
                fits = plugin.fits_row(query, state, row)
            if fits and code == Code.UNSCHEDULABLE and pods:
                query.memo.clear()
                problem = f"fits_without says no of node {name}, where the pod fits without the pods"
                assert plugin.fits_without(query, state, row, pods), problem
            lacking = [resource for resource, amount in needed.items() if amount > node.allocatable.get(resource, 0)]
            assert not fits or not lacking, f"needed_resources has more {lacking} than node {name}, where the pod fits"


CHECKS: Final[tuple[Callable[[ContractCase], None], ...]] = (
    check_arguments,
    check_same_answers,
    check_order_of_nodes,
    check_some_rows,
    check_few_nodes,
    check_nothing_changed,
    check_events,
    check_node_local,
    check_pods_that_leave,
    check_cached_answers,
    check_growing_table,
    check_single_rows,
    check_bounds,
    check_groups,
    check_filter_with_free,
    check_nominated,
    check_admitted_nodes,
    check_emptied_nodes,
)
