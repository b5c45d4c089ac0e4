"""Test helpers for authors of plugins: a cluster from manifests, and one call that checks the plugin contract.

    state = cluster([node_manifest, ..., pod_manifest, ...])
    check_contract(RackPower, {"maxWatts": 8000}, manifests, pods)

`check_contract` raises an AssertionError that names the violation, for example that a cached answer is out of date.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from copy import deepcopy
from dataclasses import replace
from itertools import count
from random import Random
from typing import Any

import numpy as np

from berth.engine.answer_cache.entries import knows_bounds
from berth.engine.custom_plugins.sandbox import guarded, problem_of
from berth.engine.diagnosis import Diagnosis
from berth.engine.pipeline import Pipeline, TieBreak
from berth.engine.plugin import BadArgument, Plugin, Query
from berth.engine.state.state import State
from berth.engine.trial import moved
from berth.engine.verdict import Code, Rows, Verdicts, row_numbers
from berth.model import Node, Pod, object_key, parse

Body = Mapping[str, Any]
_STEPS = 40


def cluster(bodies: Iterable[Body]) -> State:
    """Returns a state with the objects of these manifests, which need no UID; pods without a node are left out."""
    state = State()
    for body in sorted(map(_with_uid, bodies), key=lambda body: bool(body["kind"] == "Pod")):
        record = parse(body["kind"], body)
        if isinstance(record, Node):
            state.table.set_node(record)
        elif not isinstance(record, Pod):
            state.put(body["kind"], object_key(body), record)
        elif record.node_name:
            state.table.add_pod(record, record.node_name)
    return state


def _with_uid(body: Body) -> Body:
    return {**body, "metadata": {"uid": f"{body['kind']} {object_key(body)}", **body["metadata"]}}


def make(kind: type[Plugin], args: Body | None = None, name: str = "") -> Plugin:
    """Returns a plugin as in a policy: sandboxed, and with the name of its entry point (by default, of its class)."""
    problem = problem_of(kind)
    assert not problem, problem
    return guarded(kind, name or kind.__name__)(deepcopy(dict(args or {})))


def check_contract(kind: type[Plugin], args: Body | None, bodies: Sequence[Body], pods: Sequence[Pod]) -> None:
    """Checks that the plugin fulfils the contract for these pods on this cluster."""
    plugin = make(kind, args)
    with suppress(BadArgument):
        make(kind, {**(args or {}), "no-such-argument": 1})
        raise AssertionError(f"{kind.__name__} takes an argument that it does not know: raise BadArgument for it")
    for pod in pods:
        state = cluster(bodies)
        said = _all_said(plugin, pod, state)
        assert said == _all_said(plugin, pod, state), "asked again it gives another answer"
        assert said == _all_said(make(kind, args), pod, state), "another one of its kind gives another answer"
        assert said == _all_said(plugin, pod, cluster(reversed(bodies))), "the order of the nodes changes its answer"
        _check_some_rows(plugin, pod, state)
        _check_nothing_changed(plugin, pod, state)
        check_free(plugin, pod, state)
        _check_nominated(plugin, pod, cluster(bodies))
        for number in (0, 1):
            nodes = [body for body in bodies if body["kind"] == "Node"][:number]
            _all_said(plugin, pod, cluster([*nodes, *(body for body in bodies if body["kind"] != "Node")]))
    _check_what_is_kept(kind, args, bodies, pods)


# --- answers of a plugin ---------------------------------------------------------------------------------------------


def verdicts(plugin: Plugin, pod: Pod, state: State, rows: Rows | None = None) -> dict[str, tuple[str, ...]] | str:
    """Returns, by node, why the pod is rejected there (empty: it fits); or the result of PreFilter as text."""
    query, rows = Query(pod, state.table), state.table.rows if rows is None else rows
    before = plugin.pre_filter(query, state)
    if before.skip or before.code is not Code.FITS or not plugin.concerns(pod):
        return "nothing to say" if before.code is Code.FITS else ", ".join(before.reasons)
    said = plugin.filter(query, state, rows)
    numbers = row_numbers(rows).tolist()
    return {state.table.name(row): said.reasons(at) if said.codes[at] else () for at, row in enumerate(numbers)}


def scores(plugin: Plugin, pod: Pod, state: State, rows: Rows | None = None, raw: bool = False) -> dict[str, int]:
    """Returns the scores by node, 0 to 100 (`raw`: before normalisation); empty if PreScore skips the pod."""
    query, rows = Query(pod, state.table), state.table.rows if rows is None else rows
    if not plugin.concerns(pod) or not plugin.pre_score(query, state):
        return {}
    column = plugin.score(query, state, rows)
    given = (column if raw else plugin.normalize(column)).tolist()
    assert raw or all(0 <= score <= 100 for score in given), (
        f"scores are from 0 to 100, not {min(given)} to {max(given)}"
    )
    return dict(zip(map(state.table.name, row_numbers(rows).tolist()), given, strict=True))


def _all_said(plugin: Plugin, pod: Pod, state: State) -> tuple[object, object]:
    return (
        verdicts(plugin, pod, state) if plugin.filters else None,
        scores(plugin, pod, state) if plugin.scores else None,
    )


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


# --- the contract ----------------------------------------------------------------------------------------------------


def _check_some_rows(plugin: Plugin, pod: Pod, state: State) -> None:
    some = row_numbers(state.table.rows)[1::2]
    if plugin.filters:
        whole, part = verdicts(plugin, pod, state), verdicts(plugin, pod, state, some)
        if isinstance(whole, dict) and isinstance(part, dict):
            assert part == {name: whole[name] for name in part}, "asked about some nodes it gives them other verdicts"
    if plugin.scores and (plugin.node_local or knows_bounds(plugin)):
        points, fewer = scores(plugin, pod, state, raw=True), scores(plugin, pod, state, some, raw=True)
        assert fewer == {name: points[name] for name in fewer}, "asked about some nodes it gives them other scores"


def _verdict_at(said: Verdicts, place: int) -> tuple[int, tuple[str, ...]]:
    code = int(said.codes[place])
    return code, said.reasons(place) if code else ()


def check_free(plugin: Plugin, pod: Pod, state: State) -> None:
    """Asserts that `filter_with_free` agrees with `filter` on the amounts that are free now."""
    table, query = state.table, Query(pod, state.table)
    if not (plugin.filters and plugin.reads_only_usage) or isinstance(verdicts(plugin, pod, state), str):
        return
    rows = row_numbers(table.rows)
    whole, free = plugin.filter(query, state, rows), table.free.take(rows, axis=1)
    said = plugin.filter_with_free(query, free, table.allocatable.take(rows, axis=1))
    for place, row in enumerate(rows.tolist()):
        problem = f"filter_with_free says otherwise than filter of node {table.name(row)}"
        assert _verdict_at(said, place) == _verdict_at(whole, place), problem


def _check_nominated(plugin: Plugin, pod: Pod, state: State) -> None:
    """Checks that `filter_with_nominated` returns what `filter` returns with the pods added to the table.

    One pod of each node becomes a nominated pod.
    """
    table, query = state.table, Query(pod, state.table)
    for name in table.sorted_names:
        for other in list(table.pods_on(name).values())[:1]:
            table.remove_pod(other.uid)
            state.nominate(replace(other, priority=max(other.priority, pod.priority)), name)
    nominated = state.guests.beside(pod, row_numbers(table.rows))
    if nominated is None or not plugin.reads_pods or isinstance(verdicts(plugin, pod, state), str):
        return
    said = plugin.filter_with_nominated(query, state, nominated)
    if said is None:
        return
    for place, row in enumerate(nominated.rows.tolist()):
        name = table.name(row)
        with moved(query, table, add=[(other, name) for other in state.nominated[name].values()]):
            alone = plugin.filter(query, state, np.array([row], dtype=np.intp))
        problem = f"with the nominated pods on node {name} its columns say otherwise than its filter"
        assert _verdict_at(said, place) == _verdict_at(alone, 0), problem


def _check_nothing_changed(plugin: Plugin, pod: Pod, state: State) -> None:
    def columns() -> list[np.ndarray[Any, Any]]:
        table = state.table
        every = (table.allocatable, table.used, table.nonzero, table.taint_sets, table.unschedulable)
        return [column.copy() for column in every]

    before, was = columns(), deepcopy(pod)
    _all_said(plugin, pod, state)
    unchanged = all(np.array_equal(a, b) for a, b in zip(before, columns(), strict=True))
    assert unchanged, "it writes into the table"
    assert pod == was, "it changes the pod"


def _check_what_is_kept(kind: type[Plugin], args: Body | None, bodies: Sequence[Body], pods: Sequence[Pod]) -> None:
    """Checks that, while the cluster changes, decisions with cached answers are those without."""

    def pipeline() -> Pipeline:
        filters = [make(kind, args)] if kind.filters else []
        return Pipeline(filters, [(make(kind, args), 1)] if kind.scores else [], TieBreak.FIRST)

    state, keeping = cluster(bodies), pipeline()
    for step, _ in enumerate(_changes(state, Random(0))):
        for number, pod in enumerate(pods):
            one = replace(pod, uid=f"pod-{step}-{number}", name=f"pod-{step}-{number}", node_name="")
            kept, anew = (made.decide(one, state, Random(0)) for made in (keeping, pipeline()))
            assert kept == anew, f"it is asked too rarely: {kept} with answers that were kept, {anew} without"
            if not isinstance(kept, Diagnosis):
                state.table.add_pod(one, kept.node)


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
        what = random.choice(("pods", "pods", "labels", "annotations", "taints", "allocatable"))
        if what == "pods":
            for uid in leaving[: random.randint(0, 2)]:
                state.table.remove_pod(uid)
        else:
            state.table.set_node(replace(one, **{what: getattr(other, what)}))
            state.table.set_node(replace(other, **{what: getattr(one, what)}))
        yield
