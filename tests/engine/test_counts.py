"""Counts by row are what a walk over all placed pods would count, whatever came, went and was asked in between."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from berth.engine.state.pod_counts import KEPT_QUESTIONS, PodMatch
from berth.engine.state.state import State
from berth.model import LabelSelector, Namespace, Pod, Requirement, Role, parse_namespace, parse_node, parse_pod
from engine.expecting import node_of
from support.builders import Body, make_node, make_object, make_pod

NODES = ("a", "b", "c")
NAMESPACES = ("shop", "bank", "void")
EVERYTHING = LabelSelector(())


def selects(key: str, operator: str, *values: str) -> LabelSelector:
    return LabelSelector((Requirement(key, operator, values),))


def a_namespace(name: str, team: str) -> Namespace:
    body = make_object("Namespace", name)
    body["metadata"]["labels"] = {"team": team}
    return parse_namespace(body)


SELECTORS = (
    EVERYTHING,
    selects("app", "In", "web"),
    selects("app", "In", "db", "web"),
    selects("app", "NotIn", "web"),
    selects("app", "Exists"),
    selects("app", "DoesNotExist"),
    LabelSelector((Requirement("app", "In", ("web",)), Requirement("tier", "In", ("1", "2")))),
    None,
)
MATCHES = st.builds(
    PodMatch,
    st.sampled_from(SELECTORS),
    st.frozensets(st.sampled_from(NAMESPACES), max_size=2),
    st.sampled_from([None, EVERYTHING, selects("team", "In", "a")]),
)
LABELS = st.fixed_dictionaries({}, optional={"app": st.sampled_from(["web", "db"]), "tier": st.sampled_from("12")})
STEPS = st.one_of(
    st.tuples(st.just("pod"), st.sampled_from(NODES), st.sampled_from(NAMESPACES), LABELS, st.booleans()),
    st.tuples(st.just("gone"), st.integers(0, 30)),
    st.tuples(st.just("namespace"), st.sampled_from(NAMESPACES[:2]), st.sampled_from(["a", "b", None])),
    st.tuples(st.just("relabel"), st.sampled_from(NODES), st.sampled_from(["z1", "z2", None])),
    st.tuples(st.just("ask"), st.lists(MATCHES, min_size=1, max_size=2).map(tuple), st.booleans(), st.booleans()),
)


class Counting:
    """A state, and beside it a plain list of what is in it."""

    def __init__(self) -> None:
        self.state = State()
        self.placed: list[Pod] = []
        self.serial = 0
        for name in NODES:
            self.relabel(name, "z1")

    def pod(self, node: str, namespace: str, labels: dict[str, str], deleting: bool) -> None:
        self.serial += 1
        pod = parse_pod(make_pod(f"p{self.serial}", namespace=namespace, labels=labels, node=node, deleting=deleting))
        self.state.table.add_pod(pod, node)
        self.placed.append(pod)

    def gone(self, number: int) -> None:
        if self.placed:
            self.state.table.remove_pod(self.placed.pop(number % len(self.placed)).uid)

    def namespace(self, name: str, team: str | None) -> None:
        if team is None:
            self.state.drop("Namespace", name)
        else:
            self.state.put("Namespace", name, a_namespace(name, team))

    def relabel(self, node: str, zone: str | None) -> None:
        labels = {} if zone is None else {"zone": zone}
        self.state.table.set_node(parse_node(make_node(node, labels=labels)))

    def ask(self, matches: tuple[PodMatch, ...], terminating: bool, any_of: bool) -> None:
        if any_of and any(match.selector is None for match in matches):
            return
        table = self.state.table
        counts = table.counts.of(matches, terminating, any_of)
        column = counts.column()
        want = {name: sum(self._matches(p, matches, terminating, any_of) for p in self._on(name)) for name in NODES}
        assert {name: int(column[table.row(name)]) for name in NODES} == want
        assert bool(counts) == any(want.values())
        ids, vocabulary = table.label("zone")
        sums = counts.per_domain(ids, len(vocabulary.ids))
        by_zone = {value: int(sums[number]) for value, number in vocabulary.ids.items()}
        for value in by_zone:
            inside = [name for name in NODES if node_of(table, name).labels.get("zone") == value]
            assert by_zone[value] == sum(want[name] for name in inside)

    def _on(self, node: str) -> list[Pod]:
        return [pod for pod in self.placed if pod.node_name == node]

    def _matches(self, pod: Pod, matches: tuple[PodMatch, ...], terminating: bool, any_of: bool) -> bool:
        if pod.deleting and not terminating:
            return False
        return (any if any_of else all)(
            m.selector is not None
            and m.selector.matches(pod.labels)
            and (pod.namespace in m.namespaces or self._chosen(m, pod.namespace))
            for m in matches
        )

    def _chosen(self, match: PodMatch, name: str) -> bool:
        namespace = self.state.namespace(name)
        return (
            namespace is not None
            and match.namespace_selector is not None
            and match.namespace_selector.matches(namespace.labels)
        )


@settings(max_examples=200, deadline=None)
@given(st.lists(STEPS, max_size=40))
def test_counts_are_what_a_walk_over_all_pods_counts(steps: list[tuple[Any, ...]]) -> None:
    counting = Counting()
    asked = []
    for what, *args in steps:
        getattr(counting, what)(*args)
        if what == "ask":
            asked.append(args)
    for args in asked:
        counting.ask(*args)


def test_a_count_over_many_rows_stays_right_as_pods_come_and_go() -> None:
    state = State()
    for number in range(300):
        state.table.set_node(parse_node(make_node(f"n{number}")))
    pods = [parse_pod(make_pod(f"p{n}", labels={"app": "web"}, node=f"n{n % 300}")) for n in range(600)]
    counts = state.table.counts.of((PodMatch(selects("app", "In", "web"), frozenset({"default"})),))
    for pod in pods:
        state.table.add_pod(pod, pod.node_name)
    assert counts.column()[: len(state.table)].tolist() == [2] * 300
    for pod in pods[:300]:
        state.table.remove_pod(pod.uid)
    assert counts.column()[: len(state.table)].tolist() == [1] * 300
    rows, numbers = counts.counted()
    assert (len(rows), set(numbers.tolist())) == (300, {1})


def test_domains_are_settled_otherwise_when_one_gets_its_first_pod_or_loses_its_last() -> None:
    state = State()
    for name, zone in (("a", "z1"), ("b", "z1"), ("c", "z2")):
        state.table.set_node(parse_node(make_node(name, labels={"zone": zone})))
    counts = state.table.counts.of((PodMatch(EVERYTHING, frozenset({"default"})),))

    def settlement() -> int:
        domains = state.table.domains("zone")
        counts.per_domain(domains.ids, domains.size)
        return counts.settlement

    comes, goes = (("p1", "a"), ("p2", "a"), ("p3", "b"), ("p4", "c")), (("p1", ""), ("p4", ""), ("p2", ""), ("p3", ""))
    moved, before = [], settlement()
    for name, node in comes + goes:
        if node:
            state.table.add_pod(parse_pod(make_pod(name, uid=name)), node)
        else:
            state.table.remove_pod(name)
        moved.append(settlement() != before)
        before = settlement()

    assert moved == [True, False, False, True, False, True, False, True]
    state.table.set_node(parse_node(make_node("d", labels={"zone": "z3"})))
    assert settlement() != before  # nodes are others: what was settled is looked at anew


def test_questions_that_nobody_asks_any_more_are_dropped_and_right_when_asked_again() -> None:
    state = State()
    state.table.set_node(parse_node(make_node("a")))
    state.table.add_pod(parse_pod(make_pod("p", labels={"app": "web"}, node="a")), "a")
    first = PodMatch(selects("app", "In", "web"), frozenset({"default"}))
    state.table.counts.of((first,))
    for number in range(KEPT_QUESTIONS + 10):
        state.table.counts.of((PodMatch(selects("app", "In", f"v{number}"), frozenset({"default"})),))
    assert state.table.statistics()["pod_questions"] == KEPT_QUESTIONS
    state.table.add_pod(parse_pod(make_pod("q", labels={"app": "web"}, node="a")), "a")
    assert state.table.counts.of((first,)).column()[0] == 2


def test_groups_and_terms_go_with_their_last_pod() -> None:
    state = State()
    term = {"labelSelector": {"matchLabels": {"app": "web"}}, "topologyKey": "zone"}
    anti = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    pods = [parse_pod(make_pod(f"p{n}", labels={"app": f"a{n}"}, node="a", affinity=anti)) for n in range(5)]
    for pod in pods:
        state.table.add_pod(pod, "a")
    assert state.table.statistics() | {"pod_groups": 5, "carried_terms": 1} == state.table.statistics()
    for pod in pods:
        state.table.remove_pod(pod.uid)
    assert state.table.statistics() | {"pod_groups": 0, "carried_terms": 0} == state.table.statistics()


@pytest.mark.parametrize(
    ("selector", "namespaces", "namespace_selector", "found"),
    [
        ({"matchLabels": {"app": "web"}}, ["default"], None, True),
        ({"matchLabels": {"app": "db"}}, ["default"], None, False),
        ({"matchExpressions": [{"key": "app", "operator": "Exists"}]}, ["default"], None, True),
        ({}, ["other"], None, False),
        ({}, [], {}, True),
        ({}, [], {"matchLabels": {"team": "a"}}, True),
        ({}, [], {"matchLabels": {"team": "b"}}, False),
        (None, ["default"], None, False),
    ],
)
def test_a_carried_term_is_found_by_the_pod_that_it_selects(
    selector: Body | None, namespaces: list[str], namespace_selector: Body | None, found: bool
) -> None:
    state = State()
    state.put("Namespace", "default", a_namespace("default", "a"))
    term: Body = {"topologyKey": "zone", "namespaces": namespaces}
    if selector is not None:
        term["labelSelector"] = selector
    if namespace_selector is not None:
        term["namespaceSelector"] = namespace_selector
    anti = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    carrier = parse_pod(make_pod("carrier", node="a", affinity=anti))
    state.table.set_node(parse_node(make_node("a", labels={"zone": "z"})))
    state.table.add_pod(carrier, "a")
    asking = parse_pod(make_pod("asking", labels={"app": "web"}))
    terms = state.table.terms.matching(asking)
    assert [(c.role, int(np.sum(c.rows.column()))) for c in terms] == ([(Role.FORBIDDEN, 1)] if found else [])


def test_a_namespace_that_is_not_known_counts_as_one_without_labels_for_carried_terms_only() -> None:
    state = State()
    term = {"labelSelector": {}, "topologyKey": "zone", "namespaceSelector": {}}
    anti = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    state.table.set_node(parse_node(make_node("a", labels={"zone": "z"})))
    state.table.add_pod(parse_pod(make_pod("carrier", node="a", affinity=anti)), "a")
    asking = parse_pod(make_pod("asking", namespace="unknown"))
    assert len(state.table.terms.matching(asking)) == 1
    state.table.add_pod(parse_pod(make_pod("there", namespace="unknown", node="a")), "a")
    assert not state.table.counts.of((PodMatch(EVERYTHING, frozenset(), EVERYTHING),))
