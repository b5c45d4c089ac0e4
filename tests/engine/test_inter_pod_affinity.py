"""InterPodAffinity: what it does with single terms in words, and that it agrees with loops over every pod."""

import copy
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from berth.engine.plugin import NOTHING_ELSE, BadArgument, Query
from berth.engine.plugins.inter_pod_affinity import REASON_AFFINITY, REASON_ANTI_AFFINITY, REASON_EXISTING
from berth.engine.state.state import State
from berth.engine.verdict import Code, row_numbers
from berth.model import Pod, PodTerm, parse_namespace, parse_node, parse_pod
from engine.expecting import make_filter, make_score, node_of, row_of
from engine.worlds import state_of
from support.builders import Body, make_node, make_object, make_pod

LACKING = (Code.UNRESOLVABLE, REASON_AFFINITY)
AVOIDED = (Code.UNSCHEDULABLE, REASON_ANTI_AFFINITY)
FORBIDDEN = (Code.UNSCHEDULABLE, REASON_EXISTING)
SKIPPED = "skipped"
Refusals = dict[str, tuple[Code | str, ...]]
Shape = tuple[dict[str, str], str, Body | None]

NODES = [
    make_node("a1", labels={"zone": "a", "host": "a1"}),
    make_node("a2", labels={"zone": "a", "host": "a2"}),
    make_node("b1", labels={"zone": "b", "host": "b1"}),
    make_node("bare"),
]


def term(app: str, key: str = "zone", **fields: Any) -> Body:
    return {"labelSelector": {"matchLabels": {"app": app}}, "topologyKey": key, **fields}


def near(*required: Body, prefer: Iterable[tuple[int, Body]] = ()) -> Body:
    return {"podAffinity": _direction(required, prefer)}


def away(*required: Body, avoid: Iterable[tuple[int, Body]] = ()) -> Body:
    return {"podAntiAffinity": _direction(required, avoid)}


def _direction(required: Iterable[Body], preferred: Iterable[tuple[int, Body]]) -> Body:
    return {
        "requiredDuringSchedulingIgnoredDuringExecution": list(required),
        "preferredDuringSchedulingIgnoredDuringExecution": [
            {"weight": weight, "podAffinityTerm": wanted} for weight, wanted in preferred
        ],
    }


def app(name: str, node: str = "", affinity: Body | None = None, **fields: Any) -> Body:
    """A pod of this app; its own name is that of the app and the node."""
    return make_pod(f"{name}-{node}", node=node, labels={"app": name}, affinity=affinity, **fields)


def namespace(name: str, **labels: str) -> Body:
    return make_object("Namespace", name, metadata={"labels": labels})


def refused(objects: Iterable[Body], pod: Body) -> Refusals | str:
    """Nodes that the filter refuses, with code and reason; or that it has nothing to say."""
    return refusals(state_of([*NODES, *objects]), parse_pod(pod))


def refusals(state: State, pod: Pod) -> Refusals | str:
    plugin, query = make_filter("InterPodAffinity"), Query(pod, state.table)
    if plugin.pre_filter(query, state).skip:
        return SKIPPED
    rows = state.table.rows
    verdicts = plugin.filter(query, state, rows)
    return {
        state.table.name(int(row)): (Code(int(code)), *verdicts.reasons(i))
        for i, (row, code) in enumerate(zip(row_numbers(rows), verdicts.codes, strict=True))
        if code
    }


def scored(
    objects: Iterable[Body],
    pod: Body,
    args: Mapping[str, Any] | None = None,
    nodes: Sequence[str] = ("a1", "a2", "b1", "bare"),
) -> dict[str, int] | str:
    """Normalised scores of these nodes; or that it has nothing to say."""
    return scores(state_of([*NODES, *objects]), parse_pod(pod), args, nodes)


def scores(
    state: State, pod: Pod, args: Mapping[str, Any] | None = None, nodes: Sequence[str] = (), normal: bool = True
) -> dict[str, int] | str:
    plugin, query = make_score("InterPodAffinity", args or {}), Query(pod, state.table)
    if not plugin.pre_score(query, state):
        return SKIPPED
    column = plugin.score(query, state, np.array([row_of(state.table, name) for name in nodes], dtype=np.intp))
    return dict(zip(nodes, (plugin.normalize(column) if normal else column).tolist(), strict=True))


# --- required affinity -----------------------------------------------------------------------------------------------


def test_required_affinity_leaves_the_nodes_of_the_domains_where_such_a_pod_is() -> None:
    assert refused([app("db", "a1")], app("web", affinity=near(term("db")))) == {"b1": LACKING, "bare": LACKING}


def test_one_pod_must_meet_all_required_terms_at_once() -> None:
    db, cache = app("db", "a1"), app("cache", "a1")
    both = make_pod("both", node="b1", labels={"app": "db", "tier": "gold"})
    gold = {"labelSelector": {"matchLabels": {"tier": "gold"}}, "topologyKey": "host"}
    web = app("web", affinity=near(term("db"), gold))
    assert set(refused([db, cache], web)) == {"a1", "a2", "b1", "bare"}
    assert set(refused([db, cache, both], web)) == {"a1", "a2", "bare"}


def test_the_terms_look_at_the_domain_of_their_own_key() -> None:
    web = app("web", affinity=near(term("db"), term("db", "host")))
    assert set(refused([app("db", "a1")], web)) == {"a2", "b1", "bare"}


def test_the_first_pod_of_a_group_that_wants_itself_near_needs_only_the_label() -> None:
    assert refused([app("db", "a1")], app("web", affinity=near(term("web")))) == {"bare": LACKING}


def test_the_second_pod_of_such_a_group_goes_where_the_first_is() -> None:
    assert set(refused([app("web", "b1")], app("web", affinity=near(term("web"))))) == {"a1", "a2", "bare"}


def test_a_first_pod_that_does_not_meet_all_its_own_terms_goes_nowhere() -> None:
    assert len(refused([], app("web", affinity=near(term("web"), term("db"))))) == 4


def test_a_pod_of_the_group_on_a_node_without_the_label_leaves_the_next_one_the_first() -> None:
    assert refused([app("web", "bare")], app("web", affinity=near(term("web")))) == {"bare": LACKING}


def test_a_pod_on_a_node_that_is_not_known_is_near_nothing() -> None:
    assert len(refused([app("db", "gone")], app("web", affinity=near(term("db"))))) == 4


def test_a_term_without_a_selector_means_no_pod() -> None:
    nothing = {"topologyKey": "zone"}
    assert len(refused([app("web", "a1")], app("web", affinity=near(nothing)))) == 4
    assert refused([app("web", "a1", away(nothing))], app("web")) == SKIPPED


def test_a_pod_that_is_being_deleted_still_counts() -> None:
    assert "a2" not in refused([app("db", "a1", deleting=True)], app("web", affinity=near(term("db"))))


# --- required anti-affinity, both ways -------------------------------------------------------------------------------


def test_anti_affinity_keeps_away_from_the_domains_where_such_a_pod_is() -> None:
    assert refused([app("db", "a1")], app("web", affinity=away(term("db")))) == {"a1": AVOIDED, "a2": AVOIDED}


def test_a_pod_that_meets_one_of_several_anti_affinity_terms_is_enough() -> None:
    web = app("web", affinity=away(term("db", "host"), term("cache")))
    assert refused([app("db", "a1"), app("cache", "b1")], web) == {"a1": AVOIDED, "b1": AVOIDED}


def test_the_anti_affinity_of_a_pod_in_place_keeps_others_away() -> None:
    assert refused([app("db", "a1", away(term("web")))], app("web")) == {"a1": FORBIDDEN, "a2": FORBIDDEN}


def test_of_several_reasons_the_first_is_given() -> None:
    objects = [app("db", "a1"), app("cache", "a2", away(term("web", "host"))), app("guard", "a1", away(term("web")))]
    web = app("web", affinity={**near(term("db")), **away(term("db", "host"))})
    assert refused(objects, web) == {"a1": AVOIDED, "a2": FORBIDDEN, "b1": LACKING, "bare": LACKING}


def test_a_pod_that_nobody_minds_and_that_minds_nobody_is_not_looked_at() -> None:
    assert refused([app("db", "a1", away(term("cache"))), app("db", "b1", near(term("web")))], app("web")) == SKIPPED


def test_anti_affinity_of_a_pod_on_a_node_without_the_label_is_as_good_as_none() -> None:
    assert refused([app("db", "bare", away(term("web")))], app("web")) == SKIPPED


def test_preferences_refuse_nothing() -> None:
    web = app("web", affinity={**near(prefer=[(1, term("db"))]), **away(avoid=[(1, term("db"))])})
    assert refused([app("db", "a1")], web) == SKIPPED


# --- namespaces ------------------------------------------------------------------------------------------------------

TEAMS = [namespace("default"), namespace("red", team="red"), namespace("blue", team="blue")]


def where_db_of(other: str, **fields: Any) -> set[str]:
    """Nodes left to a pod that wants to be near a db, where there is one in the other namespace."""
    found = refused([*TEAMS, app("db", "a1", namespace=other)], app("web", affinity=near(term("db", **fields))))
    return {"a1", "a2", "b1", "bare"} - set(found)


def test_a_term_that_names_no_namespace_means_pods_of_its_own() -> None:
    assert where_db_of("default") == {"a1", "a2"}
    assert where_db_of("red") == set()


def test_a_term_means_pods_of_the_namespaces_that_it_names_or_selects() -> None:
    assert where_db_of("red", namespaces=["red"]) == {"a1", "a2"}
    assert where_db_of("default", namespaces=["red"]) == set()
    assert where_db_of("red", namespaceSelector={"matchLabels": {"team": "red"}}) == {"a1", "a2"}
    assert where_db_of("blue", namespaceSelector={"matchLabels": {"team": "red"}}) == set()
    assert where_db_of("blue", namespaces=["blue"], namespaceSelector={"matchLabels": {"team": "red"}}) == {"a1", "a2"}


def test_an_empty_namespace_selector_means_all_namespaces_even_those_that_are_not_known() -> None:
    assert where_db_of("red", namespaceSelector={}) == {"a1", "a2"}
    assert where_db_of("unheard-of", namespaceSelector={}) == {"a1", "a2"}


def test_a_selector_that_asks_for_labels_does_not_mean_a_namespace_that_is_not_known() -> None:
    exists = {"matchExpressions": [{"key": "team", "operator": "Exists"}]}
    assert where_db_of("unheard-of", namespaceSelector=exists) == set()


NOT_RED = {"matchExpressions": [{"key": "team", "operator": "NotIn", "values": ["red"]}]}


def test_a_selector_that_matches_no_labels_means_all_namespaces_as_kube_scheduler_has_it() -> None:
    assert where_db_of("red", namespaceSelector=NOT_RED) == {"a1", "a2"}


def test_the_same_selector_of_a_pod_in_place_means_what_it_says() -> None:
    guard = app("guard", "a1", away(term("web", namespaceSelector=NOT_RED)))
    assert refused([*TEAMS, guard], app("web", namespace="red")) == SKIPPED
    assert set(refused([*TEAMS, guard], app("web", namespace="blue"))) == {"a1", "a2"}
    assert set(refused([*TEAMS, guard], app("web", namespace="unheard-of"))) == {"a1", "a2"}


def test_a_namespace_that_gets_other_labels_is_meant_or_not_from_then_on() -> None:
    state = state_of([*NODES, *TEAMS, app("db", "a1", namespace="red")])
    web = parse_pod(app("web", affinity=near(term("db", namespaceSelector={"matchLabels": {"team": "red"}}))))
    assert set(refusals(state, web)) == {"b1", "bare"}
    state.put("Namespace", "red", parse_namespace(namespace("red", team="blue")))
    assert len(refusals(state, web)) == 4
    state.put("Namespace", "red", parse_namespace(namespace("red", team="red")))
    assert set(refusals(state, web)) == {"b1", "bare"}


# --- scores ----------------------------------------------------------------------------------------------------------


def test_the_lowest_sum_becomes_0_and_the_highest_100() -> None:
    web = app("web", affinity={**near(prefer=[(30, term("db"))]), **away(avoid=[(10, term("cache"))])})
    # 30 in zone a, -10 in zone b, 0 without a zone
    assert scored([app("db", "a1"), app("cache", "b1")], web) == {"a1": 100, "a2": 100, "b1": 0, "bare": 25}


def test_each_pod_near_counts() -> None:
    web = app("web", affinity=near(prefer=[(1, term("db"))]))
    three = [app("db", "a1"), app("db", "a2"), app("db", "b1")]
    assert scored(three, web) == {"a1": 100, "a2": 100, "b1": 50, "bare": 0}


def test_preferences_of_pods_in_place_count_for_a_pod_that_has_none() -> None:
    liked = scored([app("db", "a1", near(prefer=[(5, term("web"))]))], app("web"))
    disliked = scored([app("db", "a1", away(avoid=[(5, term("web"))]))], app("web"))
    assert isinstance(liked, dict)
    assert isinstance(disliked, dict)
    assert (liked["b1"], disliked["b1"]) == (0, 100)


def test_required_affinity_of_pods_in_place_counts_with_the_weight_that_the_policy_gives_it() -> None:
    objects = [app("db", "a1", near(term("web"))), app("cache", "b1", near(prefer=[(4, term("web"))]))]
    assert scored(objects, app("web")) == {"a1": 25, "a2": 25, "b1": 100, "bare": 0}
    assert scored(objects, app("web"), {"hardPodAffinityWeight": 8}) == {"a1": 100, "a2": 100, "b1": 50, "bare": 0}
    assert scored(objects[:1], app("web"), {"hardPodAffinityWeight": 0}) == SKIPPED


def test_pods_in_place_may_be_told_to_have_no_say_about_a_pod_that_prefers_nothing() -> None:
    objects, silent = [app("db", "a1", near(prefer=[(5, term("web"))]))], {"ignorePreferredTermsOfExistingPods": True}
    assert scored(objects, app("web"), silent) == SKIPPED
    prefers = app("web", affinity=near(prefer=[(1, term("nobody"))]))
    assert scored(objects, prefers, silent) == {"a1": 100, "a2": 100, "b1": 0, "bare": 0}


def test_weights_that_cancel_out_are_scored_all_the_same_and_weights_of_nothing_are_not() -> None:
    both = {**near(prefer=[(5, term("db"))]), **away(avoid=[(5, term("db"))])}
    found = scored([app("db", "a1")], app("web", affinity=both))
    assert isinstance(found, dict)
    assert set(found.values()) == {0}
    assert scored([app("db", "bare")], app("web", affinity=both)) == SKIPPED


def test_normalisation_is_over_the_nodes_that_are_left() -> None:
    web = app("web", affinity=near(prefer=[(1, term("db")), (2, term("db", "host"))]))
    assert scored([app("db", "a1")], web, nodes=("a2", "b1")) == {"a2": 100, "b1": 0}


def test_terms_by_more_keys_than_the_table_keeps_columns_of_are_scored_like_others(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("berth.engine.state.columns.KEPT_COLUMNS", 1)
    web = app("web", affinity=near(prefer=[(1, term("db")), (2, term("db", "host")), (4, term("cache"))]))
    state = state_of(NODES)
    state.table.label("zone")
    for node, zone in (("a1", "c"), ("a2", "b"), ("b1", "c")):  # the numbers of zones are others when given out anew
        state.table.set_node(parse_node(make_node(node, labels={"zone": zone, "host": node})))
    for pod in map(parse_pod, (app("db", "a2"), app("cache", "b1"))):
        state.table.add_pod(pod, pod.node_name)
    assert scores(state, parse_pod(web), nodes=("a1", "a2", "b1", "bare"), normal=False) == {
        "a1": 4,
        "a2": 3,
        "b1": 4,
        "bare": 0,
    }


# --- arguments -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("args", "field"),
    [
        ({"hardPodAffinityWeight": 101}, "hardPodAffinityWeight"),
        ({"hardPodAffinityWeight": -1}, "hardPodAffinityWeight"),
        ({"hardPodAffinityWeight": True}, "hardPodAffinityWeight"),
        ({"hardPodAffinityWeight": "1"}, "hardPodAffinityWeight"),
        ({"ignorePreferredTermsOfExistingPods": "yes"}, "ignorePreferredTermsOfExistingPods"),
        ({"hardPodAffinitySymmetricWeight": 1}, "hardPodAffinitySymmetricWeight"),
    ],
)
def test_arguments_that_make_no_sense_are_refused_by_name(args: Mapping[str, Any], field: str) -> None:
    with pytest.raises(BadArgument) as refusal:
        make_filter("InterPodAffinity", args)
    assert refusal.value.field == field


# --- what is kept ----------------------------------------------------------------------------------------------------


def versions_of(state: State, pod: Pod) -> Callable[[], Hashable]:
    """Asks, decision after decision, what the answers about the pod depend on now."""
    plugin, query = make_filter("InterPodAffinity"), Query(pod, state.table)

    def ask() -> Hashable:
        query.memo.clear()
        known = plugin.dependencies
        return known.filter_version(query, state), known.score_version(query, state)

    return ask


def test_a_pod_that_has_to_do_with_nobody_keeps_its_answers_whoever_comes() -> None:
    state, web = state_of(NODES), parse_pod(app("web"))
    basis = versions_of(state, web)
    before = basis()
    state.table.add_pod(parse_pod(app("db", affinity=away(term("cache")))), "a1")
    assert basis() == before == (NOTHING_ELSE, NOTHING_ELSE)


@pytest.mark.parametrize(
    "affinity", [near(term("db")), away(term("db")), near(prefer=[(1, term("db"))]), away(avoid=[(1, term("db"))])]
)
def test_answers_are_asked_anew_when_a_pod_comes_or_goes_that_they_hang_on(affinity: Body) -> None:
    state, web = state_of([*NODES, app("db", "a1")]), parse_pod(app("web", affinity=affinity))
    basis, db = versions_of(state, web), parse_pod(app("db"))
    before = basis()
    assert basis() == before
    state.table.add_pod(parse_pod(app("other")), "b1")
    assert basis() == before
    state.table.add_pod(db, "b1")
    with_another = basis()
    assert with_another != before
    state.table.remove_pod(db.uid)
    assert basis() != with_another


@pytest.mark.parametrize(
    "affinity", [near(term("web")), away(term("web")), near(prefer=[(1, term("web"))]), away(avoid=[(1, term("web"))])]
)
def test_answers_are_asked_anew_when_a_pod_comes_or_goes_that_minds_this_one(affinity: Body) -> None:
    state, web = state_of(NODES), parse_pod(app("web"))
    basis = versions_of(state, web)
    seen = [basis()]
    for node in ("a1", "b1"):
        state.table.add_pod(parse_pod(app("db", node, affinity)), node)
        seen.append(basis())
    assert len(set(seen)) == 3


def test_a_pod_taken_out_of_the_table_no_longer_counts_and_counts_again_when_it_is_back() -> None:
    state, web = state_of([*NODES, app("db", "a1")]), parse_pod(app("web", affinity=away(term("db"))))
    db = parse_pod(app("db", "a1"))
    state.table.remove_pod(db.uid)
    assert refusals(state, web) == {}
    state.table.add_pod(db, "a1")
    assert set(refusals(state, web)) == {"a1", "a2"}


# --- against loops over every pod ------------------------------------------------------------------------------------

VALUES = st.sampled_from(["x", "y"])
KEYS = st.sampled_from(["zone", "host", "rack"])
NAMES = st.sampled_from(["default", "red", "blue", "unheard-of"])
LABELS = st.dictionaries(st.sampled_from(["app", "tier"]), VALUES, max_size=2)
EXPRESSIONS = st.one_of(
    st.builds(lambda k, v: {"key": k, "operator": "In", "values": [v]}, st.sampled_from(["app", "tier"]), VALUES),
    st.builds(lambda k, v: {"key": k, "operator": "NotIn", "values": [v]}, st.sampled_from(["app", "tier"]), VALUES),
    st.builds(lambda k: {"key": k, "operator": "Exists"}, st.sampled_from(["app", "tier"])),
)
SELECTORS = st.one_of(st.none(), st.builds(lambda e: {"matchExpressions": e}, st.lists(EXPRESSIONS, max_size=2)))
NAMESPACE_SELECTORS = st.sampled_from(
    [
        None,
        None,
        {},
        {"matchLabels": {"team": "red"}},
        NOT_RED,
        {"matchExpressions": [{"key": "team", "operator": "Exists"}]},
    ]
)
TERMS = st.builds(
    lambda selector, key, names, chosen: {
        "labelSelector": selector,
        "topologyKey": key,
        "namespaces": names,
        "namespaceSelector": copy.deepcopy(chosen),
    },
    SELECTORS,
    KEYS,
    st.lists(NAMES, max_size=1),
    NAMESPACE_SELECTORS,
)
WEIGHTED = st.tuples(st.integers(1, 100), TERMS)
AFFINITIES = st.builds(
    lambda wanted, liked, unwanted, disliked: {**near(*wanted, prefer=liked), **away(*unwanted, avoid=disliked)},
    st.lists(TERMS, max_size=2),
    st.lists(WEIGHTED, max_size=2),
    st.lists(TERMS, max_size=2),
    st.lists(WEIGHTED, max_size=2),
)
PODS = st.tuples(LABELS, NAMES, st.one_of(st.none(), AFFINITIES))
NODE_LABELS = st.dictionaries(KEYS, VALUES, max_size=3)


@given(
    st.lists(NODE_LABELS, min_size=1, max_size=5),
    st.lists(st.tuples(PODS, st.integers(0, 5)), max_size=8),
    PODS,
    st.integers(0, 100),
    st.booleans(),
    st.data(),
)
def test_it_agrees_with_loops_over_every_pod(
    nodes: list[dict[str, str]],
    placed: list[tuple[Shape, int]],
    incoming: Shape,
    hard_weight: int,
    silent: bool,
    data: st.DataObject,
) -> None:
    state = state_of([*(make_node(f"n{i}", labels=labels) for i, labels in enumerate(nodes)), *TEAMS])
    pod, args = a_pod("incoming", incoming), {"hardPodAffinityWeight": hard_weight}
    args["ignorePreferredTermsOfExistingPods"] = silent
    there: dict[str, tuple[Pod, str]] = {}
    for number, (shape, place) in enumerate(placed):
        there[f"p{number}"] = (a_pod(f"p{number}", shape), f"n{place}")
        state.table.add_pod(*there[f"p{number}"])
    for _ in range(2):
        loops = Loops(state, list(there.values()))
        assert refusals(state, pod) == loops.refusals(pod)
        names = [node.name for node in state.table.nodes()]
        assert scores(state, pod, args, names, normal=False) == loops.scores(pod, hard_weight, silent)
        for name in data.draw(st.lists(st.sampled_from(sorted(there) or ["none"]), unique=True)):
            if name in there:
                state.table.remove_pod(there.pop(name)[0].uid)
        moved = data.draw(NODE_LABELS)
        state.table.set_node(replace(node_of(state.table, "n0"), labels=moved))


def a_pod(name: str, shape: Shape) -> Pod:
    labels, namespace, affinity = shape
    return parse_pod(make_pod(name, labels=labels, namespace=namespace, affinity=affinity))


class Loops:
    def __init__(self, state: State, placed: Iterable[tuple[Pod, str]]) -> None:
        self.nodes = {node.name: node.labels for node in state.table.nodes()}
        self.placed = [(pod, self.nodes[node]) for pod, node in placed if node in self.nodes]
        self.namespaces = {name: found.labels for name, found in state.objects["Namespace"].items()}

    def means(self, wanted: PodTerm, pod: Pod, carried: bool) -> bool:
        """Whether a term means the pod; `carried`: by a pod in place, not by the one to place."""
        if wanted.selector is None or not wanted.selector.matches(pod.labels):
            return False
        selector, labels = wanted.namespace_selector, self.namespaces.get(pod.namespace, {})
        if pod.namespace in wanted.namespaces or (selector is not None and selector.matches(labels)):
            return True
        return not carried and selector is not None and selector.matches({})

    def refusals(self, pod: Pod) -> Refusals | str:
        wanted: set[tuple[str, str]] = set()
        unwanted: set[tuple[str, str]] = set()
        forbidden: set[tuple[str, str]] = set()
        required, anti = pod.pod_affinity.required, pod.pod_anti_affinity.required
        for other, labels in self.placed:
            if all(self.means(t, other, carried=False) for t in required):
                wanted |= pairs(labels, required)
            unwanted |= pairs(labels, [t for t in anti if self.means(t, other, carried=False)])
            forbidden |= pairs(
                labels, [t for t in other.pod_anti_affinity.required if self.means(t, pod, carried=True)]
            )
        if not (required or anti or forbidden):
            return SKIPPED
        first = not wanted and all(self.means(t, pod, carried=False) for t in required)
        found: Refusals = {}
        for name, labels in self.nodes.items():
            here = pairs(labels, required)
            labelled = all(t.topology_key in labels for t in required)
            if not labelled or not (first or here <= wanted):
                found[name] = LACKING
            elif pairs(labels, anti) & unwanted:
                found[name] = AVOIDED
            elif set(labels.items()) & forbidden:
                found[name] = FORBIDDEN
        return found

    def scores(self, pod: Pod, hard_weight: int, silent: bool) -> dict[str, int] | str:
        worth: Counter[tuple[str, str]] = Counter()
        mine = [*signed(pod)]
        if silent and not mine:
            return SKIPPED
        for other, labels in self.placed:
            said = [(t, w) for t, w in mine if self.means(t, other, carried=False)]
            theirs = [*signed(other), *((t, hard_weight) for t in other.pod_affinity.required if hard_weight)]
            said += [(t, w) for t, w in theirs if self.means(t, pod, carried=True)]
            for opinion, weight in said:
                for pair in pairs(labels, [opinion]):
                    worth[pair] += weight
        if not worth:
            return SKIPPED
        return {name: sum(worth.get(pair, 0) for pair in labels.items()) for name, labels in self.nodes.items()}


def signed(pod: Pod) -> Iterator[tuple[PodTerm, int]]:
    for sign, affinity in ((1, pod.pod_affinity), (-1, pod.pod_anti_affinity)):
        yield from ((weighted.term, sign * weighted.weight) for weighted in affinity.preferred)


def pairs(labels: Mapping[str, str], terms: Iterable[PodTerm]) -> set[tuple[str, str]]:
    return {(t.topology_key, labels[t.topology_key]) for t in terms if t.topology_key in labels}
