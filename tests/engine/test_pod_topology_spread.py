"""PodTopologySpread: who counts, who is refused, who is liked, and what holds for pods without constraints."""

import itertools
import math
from collections import Counter
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from berth.engine.plugin import NOTHING_ELSE, BadArgument, FilterPlugin, Query
from berth.engine.plugins.pod_topology_spread import REASON_LABEL, REASON_SKEW, PodTopologySpread
from berth.engine.state.state import State
from berth.engine.verdict import Code, row_numbers
from berth.model import Pod, parse_node, parse_pod
from engine.worlds import state_of
from support.builders import Body, make_node, make_object, make_pod

ZONE, HOSTNAME = "topology.kubernetes.io/zone", "kubernetes.io/hostname"
WEB = {"app": "web"}
NUMBERS = itertools.count()
Refusal = tuple[Code, tuple[str, ...]]
Refusals = dict[str, Refusal]
SKEWED: Refusal = (Code.UNSCHEDULABLE, (REASON_SKEW,))
UNLABELLED: Refusal = (Code.UNRESOLVABLE, (REASON_LABEL,))


def nodes(**zones: str | None) -> list[Body]:
    """Nodes with a hostname, and a zone unless it is None."""
    return [
        make_node(name, labels={HOSTNAME: name} | ({} if zone is None else {ZONE: zone}))
        for name, zone in zones.items()
    ]


def pods(*on: str, labels: Mapping[str, str] = WEB, **kw: Any) -> list[Body]:
    return [make_pod(f"{node}-{next(NUMBERS)}", node=node, labels=labels, **kw) for node in on]


def hard(key: str = ZONE, skew: int = 1, labels: Mapping[str, str] | None = WEB, **kw: Any) -> Body:
    return constraint(key, "DoNotSchedule", skew, labels, **kw)


def soft(key: str = ZONE, skew: int = 1, labels: Mapping[str, str] | None = WEB, **kw: Any) -> Body:
    return constraint(key, "ScheduleAnyway", skew, labels, **kw)


def constraint(key: str, action: str, skew: int, labels: Mapping[str, str] | None, **kw: Any) -> Body:
    selector = {} if labels is None else {"labelSelector": {"matchLabels": labels}}
    return {"topologyKey": key, "maxSkew": skew, "whenUnsatisfiable": action, **selector, **kw}


def spread_pod(*constraints: Body, labels: Mapping[str, str] = WEB, **kw: Any) -> Pod:
    return parse_pod(make_pod("new", labels=labels, topologySpreadConstraints=list(constraints), **kw))


def refusals(objects: Iterable[Body], pod: Pod, **args: Any) -> Refusals | None:
    """What the filter says of the nodes that it refuses; None where it has nothing to say of the pod."""
    state, plugin = state_of(objects), PodTopologySpread(args)
    return asked(state, plugin, pod)


def asked(state: State, plugin: FilterPlugin, pod: Pod) -> Refusals | None:
    query = Query(pod, state.table)
    if plugin.pre_filter(query, state).skip:
        return None
    verdicts = plugin.filter(query, state, state.table.rows)
    names = [state.table.name(int(row)) for row in row_numbers(state.table.rows)]
    return {
        n: (Code(int(c)), verdicts.reasons(i)) for i, (n, c) in enumerate(zip(names, verdicts.codes, strict=True)) if c
    }


def scores(
    objects: Iterable[Body], pod: Pod, feasible: Sequence[str] | None = None, **args: Any
) -> dict[str, int] | None:
    """The normalised scores of the feasible nodes, all unless named; None where the plugin does not score the pod."""
    state, plugin = state_of(objects), PodTopologySpread(args)
    query, table = Query(pod, state.table), state.table
    if not plugin.pre_score(query, state):
        return None
    names = feasible or [node.name for node in table.nodes()]
    rows = np.array([table.row(name) for name in names], dtype=np.intp)
    return dict(zip(names, plugin.normalize(plugin.score(query, state, rows)).tolist(), strict=True))


# --- filter ----------------------------------------------------------------------------------------------------------


def test_a_domain_that_is_ahead_by_more_than_the_skew_is_refused() -> None:
    world = [*nodes(a="1", b="1", c="2"), *pods("a")]
    assert refusals(world, spread_pod(hard())) == {"a": SKEWED, "b": SKEWED}
    assert refusals(world, spread_pod(hard(skew=2))) == {}


def test_a_pod_that_its_own_selector_does_not_match_adds_nothing() -> None:
    assert refusals([*nodes(a="1", b="2"), *pods("a")], spread_pod(hard(), labels={"app": "db"})) == {}


def test_a_node_without_the_label_is_beyond_help_and_its_pods_do_not_count() -> None:
    world = [*nodes(a="1", b="2", c=None), *pods("c", "c", "c")]
    assert refusals(world, spread_pod(hard(), hard(HOSTNAME))) == {"c": UNLABELLED}


def test_the_first_constraint_that_refuses_a_node_gives_the_reason() -> None:
    racks = {"a": {"rack": "1", ZONE: "1"}, "b": {"rack": "2", ZONE: "2"}, "c": {"rack": "1"}}
    world = [*(make_node(name, labels=labels) for name, labels in racks.items()), *pods("a")]
    assert refusals(world, spread_pod(hard("rack"), hard(ZONE))) == {"a": SKEWED, "c": SKEWED}
    assert refusals(world, spread_pod(hard(ZONE), hard("rack"))) == {"a": SKEWED, "c": UNLABELLED}


def test_fewer_domains_than_asked_for_count_as_if_one_were_empty() -> None:
    world = [*nodes(a="1", b="2"), *pods("a", "b")]
    assert refusals(world, spread_pod(hard(minDomains=2))) == {}
    assert refusals(world, spread_pod(hard(minDomains=3))) == {"a": SKEWED, "b": SKEWED}


@pytest.mark.parametrize(
    "other",
    [
        pods("b", deleting=True),
        pods("b", namespace="elsewhere"),
        pods("b", labels={"app": "db"}),
        pods("gone"),
    ],
    ids=["terminating", "namespace", "labels", "node"],
)
def test_pods_that_do_not_count(other: list[Body]) -> None:
    world = [*nodes(a="1", b="2"), *pods("a")]
    assert refusals(world, spread_pod(hard())) == {"a": SKEWED}
    assert refusals([*world, *other], spread_pod(hard())) == {"a": SKEWED}
    assert refusals([*world, *pods("b")], spread_pod(hard())) == {}


def test_a_selector_without_requirements_counts_no_pod_but_the_new_one() -> None:
    world = [*nodes(a="1", b="2"), *pods("a", "a", "a")]
    assert refusals(world, spread_pod(hard(labels={}))) == {}
    assert refusals(world, spread_pod(hard(labels=None))) == {}


def test_a_match_label_key_narrows_the_selector_to_the_pods_own_value() -> None:
    world = [*nodes(a="1", b="2"), *pods("a", labels=WEB | {"rev": "1"})]
    same, other = ({"labels": WEB | {"rev": rev}} for rev in "12")
    assert refusals(world, spread_pod(hard(matchLabelKeys=["rev"]), **same)) == {"a": SKEWED}
    assert refusals(world, spread_pod(hard(matchLabelKeys=["rev"]), **other)) == {}


def test_nodes_that_the_pod_cannot_choose_are_no_domain_unless_it_says_so() -> None:
    world = [*nodes(a="1", b="2"), *pods("a")]
    only_a: Body = {"node_selector": {ZONE: "1"}}
    assert refusals(world, spread_pod(hard(), **only_a)) == {}
    assert refusals(world, spread_pod(hard(nodeAffinityPolicy="Ignore"), **only_a)) == {"a": SKEWED}


def test_tainted_nodes_are_a_domain_unless_the_pod_says_otherwise() -> None:
    tainted = make_node("b", labels={ZONE: "2"}, taints=[("dedicated", "gpu", "NoSchedule")])
    world = [*nodes(a="1"), tainted, *pods("a")]
    tolerating: Body = {"tolerations": [{"key": "dedicated", "operator": "Exists"}]}
    assert refusals(world, spread_pod(hard())) == {"a": SKEWED}
    assert refusals(world, spread_pod(hard(nodeTaintsPolicy="Honor"))) == {}
    assert refusals(world, spread_pod(hard(nodeTaintsPolicy="Honor"), **tolerating)) == {"a": SKEWED}


def test_pods_on_nodes_that_are_not_known_change_nothing() -> None:
    state, plugin, pod = state_of([*nodes(a="1", b="2"), *pods("a")]), PodTopologySpread({}), spread_pod(hard())
    assert asked(state, plugin, pod) == {"a": SKEWED}
    for number in range(100):
        state.table.add_pod(parse_pod(make_pod(f"early-{number}", labels=WEB)), f"unknown-{number}")
    assert asked(state, plugin, pod) == {"a": SKEWED}


def test_a_node_whose_label_changes_moves_its_pods_to_another_domain() -> None:
    state, plugin, pod = state_of([*nodes(a="1", b="2"), *pods("a")]), PodTopologySpread({}), spread_pod(hard())
    assert asked(state, plugin, pod) == {"a": SKEWED}
    state.table.set_node(parse_node(nodes(a="3")[0]))
    assert asked(state, plugin, pod) == {"a": SKEWED}
    state.table.set_node(parse_node(nodes(a="2")[0]))
    assert asked(state, plugin, pod) == {}
    state.table.set_node(parse_node(nodes(c="1")[0]))
    assert asked(state, plugin, pod) == {"a": SKEWED, "b": SKEWED}
    state.table.remove_node("c")
    assert asked(state, plugin, pod) == {}


def test_a_pod_without_hard_constraints_is_not_judged() -> None:
    assert refusals(nodes(a="1"), spread_pod(soft())) is None
    assert refusals(nodes(a="1"), parse_pod(make_pod("new"))) is None


def test_pods_that_are_moved_tentatively_count_even_if_they_are_being_deleted() -> None:
    state, plugin = state_of([*nodes(a="1", b="2"), *pods("a", "b")]), PodTopologySpread({})
    leaving = parse_pod(make_pod("leaving", node="b", labels=WEB, deleting=True))
    state.table.add_pod(leaving, "b")
    pod = spread_pod(hard())
    assert asked(state, plugin, pod) == {}
    with state.table.trying():
        state.table.remove_pod(leaving.uid)
        assert asked(state, plugin, pod) == {"a": SKEWED}  # as if b had one pod fewer, though it never counted
        state.table.add_pod(leaving, "b")
        assert asked(state, plugin, pod) == {}
    assert not state.table.tried


def test_by_a_selector_without_requirements_only_pods_that_are_moved_tentatively_count() -> None:
    state, plugin = state_of([*nodes(a="1", b="2"), *pods("a", "b")]), PodTopologySpread({})
    pod, other = spread_pod(hard(labels={})), parse_pod(make_pod("other", labels=WEB))
    with state.table.trying():
        state.table.add_pod(other, "a")
        assert asked(state, plugin, pod) == {"a": SKEWED}
        state.table.remove_pod(other.uid)
    assert asked(state, plugin, pod) == {}


# --- score -----------------------------------------------------------------------------------------------------------


def test_the_emptier_domain_is_liked_better() -> None:
    world = [*nodes(a="1", b="1", c="2"), *pods("a", "b")]
    weight = math.log(2 + 2)
    crowded = round(2 * weight)
    assert scores(world, spread_pod(soft())) == {"a": 0, "b": 0, "c": 100}
    assert scores([*world, *pods("c")], spread_pod(soft())) == {"a": 33, "b": 33, "c": 100}
    assert (100 * (crowded + round(weight) - crowded) // crowded) == 33


def test_by_hostname_only_the_pods_on_the_node_itself_count() -> None:
    same = [make_node(name, labels={HOSTNAME: "same"}) for name in "ab"]
    assert scores([*same, *pods("a")], spread_pod(soft(HOSTNAME))) == {"a": 0, "b": 100}


def test_a_node_without_one_of_the_labels_gets_nothing() -> None:
    assert scores(nodes(a="1", b=None), spread_pod(soft(), soft(HOSTNAME))) == {"a": 100, "b": 0}


def test_nodes_without_pods_are_all_liked() -> None:
    assert scores(nodes(a="1", b="2"), spread_pod(soft())) == {"a": 100, "b": 100}


def test_only_feasible_nodes_make_domains_but_pods_on_others_count() -> None:
    world = [*nodes(a="1", b="1", c="2", d="3"), *pods("b", "c", "c", "d")]
    assert scores(world, spread_pod(soft()), ["a", "c"]) == {"a": 100, "c": 33}


def test_a_pod_without_soft_constraints_is_not_scored() -> None:
    assert scores(nodes(a="1"), spread_pod(hard())) is None
    assert scores(nodes(a="1"), parse_pod(make_pod("new"))) is None


# --- defaults --------------------------------------------------------------------------------------------------------


def service(name: str = "svc", selector: Mapping[str, str] = WEB, namespace: str = "default") -> Body:
    return make_object("Service", name, namespace=namespace, spec={"selector": selector})


def controller(kind: str, selector: Mapping[str, str] = WEB, name: str = "own") -> Body:
    return make_object(
        kind,
        name,
        namespace="default",
        spec={"selector": selector if kind == "ReplicationController" else {"matchLabels": selector}},
    )


def owned(
    kind: str, version: str = "apps/v1", labels: Mapping[str, str] = WEB, controls: bool = True, **kw: Any
) -> Pod:
    owner = {"apiVersion": version, "kind": kind, "name": "own", "uid": "u", "controller": controls}
    return parse_pod(make_pod("new", labels=labels, owner=owner, **kw))


PLAIN = parse_pod(make_pod("new", labels=WEB))
CROWDED = [*nodes(a="1", b="2"), *pods("a", "a", "a")]
LISTED: Body = {
    "defaultingType": "List",
    "defaultConstraints": [{"maxSkew": 1, "topologyKey": ZONE, "whenUnsatisfiable": "DoNotSchedule"}],
}


@pytest.mark.parametrize(
    ("owner", "pod"),
    [
        (service(), PLAIN),
        (controller("ReplicaSet"), owned("ReplicaSet")),
        (controller("StatefulSet"), owned("StatefulSet")),
        (controller("ReplicationController"), owned("ReplicationController", "v1")),
    ],
)
def test_a_pod_is_spread_with_the_pods_of_its_service_and_its_controller(owner: Body, pod: Pod) -> None:
    assert scores([*CROWDED, owner], pod) == {"a": 42, "b": 100}
    assert refusals([*CROWDED, owner], pod) is None
    assert refusals([*CROWDED, owner], pod, **LISTED) == {"a": SKEWED}
    assert scores([*CROWDED, owner], pod, **LISTED) is None


@pytest.mark.parametrize(
    ("owner", "pod"),
    [
        (service(namespace="elsewhere"), PLAIN),
        (service(selector={"app": "db"}), PLAIN),
        (service(selector={}), PLAIN),
        (controller("ReplicaSet"), PLAIN),
        (controller("ReplicaSet"), owned("ReplicaSet", controls=False)),
        (controller("ReplicaSet"), owned("ReplicaSet", "extensions/v1beta1")),
        (controller("ReplicaSet", name="another"), owned("ReplicaSet")),
        (controller("ReplicaSet"), owned("Job", "batch/v1")),
    ],
)
def test_a_pod_that_nothing_selects_is_not_spread(owner: Body, pod: Pod) -> None:
    assert scores([*CROWDED, owner], pod) is None
    assert refusals([*CROWDED, owner], pod, **LISTED) is None


def test_a_pod_with_constraints_of_its_own_has_no_others() -> None:
    assert scores([*CROWDED, service()], spread_pod(hard())) is None
    assert refusals([*CROWDED, service()], spread_pod(soft()), **LISTED) is None


def test_the_selectors_of_all_services_and_of_the_controller_hold_together() -> None:
    pod = owned("ReplicaSet", labels=WEB | {"tier": "1", "rev": "7"})
    world = [service(), service("second", {"tier": "1"}), controller("ReplicaSet", {"rev": "7"}), *nodes(a="1", b="2")]
    some = [*pods("a", "a", labels=WEB | {"tier": "1"}), *pods("a", labels=WEB | {"rev": "7"})]
    assert scores([*world, *some], pod) == {"a": 100, "b": 100}
    assert scores([*world, *some, *pods("a", labels=dict(pod.labels))], pod) == {"a": 66, "b": 100}


def test_the_labels_of_a_replication_controller_take_the_place_of_a_services() -> None:
    pod = owned("ReplicationController", "v1")
    world = [service(), controller("ReplicationController", {"app": "db"}), *CROWDED]
    assert scores([*world, *pods("b", labels={"app": "db"})], pod) == {"a": 100, "b": 66}


def test_by_the_system_defaults_a_node_without_a_zone_is_spread_by_its_hostname() -> None:
    world = [*nodes(a=None, b=None), *pods("a"), service()]
    assert scores(world, PLAIN) == {"a": 66, "b": 100}


def test_by_the_system_defaults_nodes_without_a_zone_lie_in_the_zone_without_a_name() -> None:
    world = [*nodes(a=None, b="", c="1", d=None), *pods("a", "a"), service()]
    nameless, hosts, zones = scores(world, PLAIN), math.log(4 + 2), math.log(2 + 2)
    raw = {"a": round(2 * hosts + 2), "b": round(2 + 2 * zones + 4), "c": 2 + 4, "d": 2}
    highest, lowest = max(raw.values()), min(raw.values())
    assert nameless == {name: 100 * (highest + lowest - own) // highest for name, own in raw.items()}


def test_a_list_without_constraints_spreads_nothing() -> None:
    assert scores([*CROWDED, service()], PLAIN, defaultingType="List") is None


ENTRY = {"maxSkew": 1, "topologyKey": ZONE, "whenUnsatisfiable": "ScheduleAnyway"}


@pytest.mark.parametrize(
    ("args", "field"),
    [
        ({"defaultingType": "Cluster"}, "defaultingType"),
        ({"defaultingType": "System", "defaultConstraints": [ENTRY]}, "defaultingType"),
        ({"defaultConstraints": [ENTRY]}, "defaultingType"),
        ({"defaultConstraints": ENTRY}, "defaultConstraints"),
        ({"defaultConstraints": ["zone"]}, "defaultConstraints[0]"),
        ({"defaultConstraints": [ENTRY | {"maxSkew": 0}]}, "defaultConstraints[0].maxSkew"),
        ({"defaultConstraints": [ENTRY | {"topologyKey": ""}]}, "defaultConstraints[0].topologyKey"),
        ({"defaultConstraints": [ENTRY | {"topologyKey": "a/b/c"}]}, "defaultConstraints[0].topologyKey"),
        ({"defaultConstraints": [ENTRY | {"topologyKey": "x" * 64}]}, "defaultConstraints[0].topologyKey"),
        ({"defaultConstraints": [ENTRY | {"whenUnsatisfiable": "Never"}]}, "defaultConstraints[0].whenUnsatisfiable"),
        ({"defaultConstraints": [ENTRY | {"labelSelector": {}}]}, "defaultConstraints[0].labelSelector"),
        ({"defaultConstraints": [ENTRY | {"skew": 1}]}, "defaultConstraints[0].skew"),
        ({"defaultConstraints": [ENTRY, ENTRY | {"maxSkew": 2}]}, "defaultConstraints[1]"),
    ],
)
def test_defaults_that_make_no_sense_are_refused_with_their_field(args: Body, field: str) -> None:
    listed = {} if field == "defaultingType" else {"defaultingType": "List"}
    with pytest.raises(BadArgument) as refusal:
        PodTopologySpread(listed | args)
    assert refusal.value.field == field


# --- what answers depend on -------------------------------------------------------------------------------------------


def versions_of(state: State, pod: Pod) -> tuple[Hashable, Hashable]:
    known, query = PodTopologySpread({}).dependencies, Query(pod, state.table)
    return known.filter_version(query, state), known.score_version(query, state)


def test_the_answers_for_a_pod_without_constraints_hang_on_nothing_else() -> None:
    state = state_of(CROWDED)
    before = versions_of(state, PLAIN)
    state.table.add_pod(parse_pod(make_pod("other", labels=WEB)), "b")
    assert versions_of(state, PLAIN) == before == (NOTHING_ELSE, NOTHING_ELSE)


def test_the_scores_of_a_constrained_pod_hang_on_the_pods_that_count() -> None:
    state, pod = state_of(CROWDED), spread_pod(soft())
    before = versions_of(state, pod)
    state.table.add_pod(parse_pod(make_pod("other", labels={"app": "db"})), "b")
    assert versions_of(state, pod) == before
    state.table.add_pod(parse_pod(make_pod("another", labels=WEB)), "b")
    assert versions_of(state, pod) != before


def test_the_verdicts_on_a_constrained_pod_hang_on_which_domains_have_too_many() -> None:
    state, pod = state_of(CROWDED), spread_pod(hard())
    before = versions_of(state, pod)
    for name in ("one", "two"):  # a has three, and is refused until b has as many
        state.table.add_pod(parse_pod(make_pod(name, labels=WEB)), "b")
        assert versions_of(state, pod) == before
    state.table.add_pod(parse_pod(make_pod("three", labels=WEB)), "b")
    assert versions_of(state, pod) != before


# --- against plain loops ---------------------------------------------------------------------------------------------

VALUES = st.sampled_from(["1", "2", "3", "", None])
LABELLED = st.tuples(VALUES, VALUES)
PLACED = st.tuples(st.integers(0, 7), st.sampled_from(["web", "db"]), st.booleans())
CONSTRAINTS = st.lists(
    st.tuples(st.sampled_from(["zone", "rack"]), st.integers(1, 3), st.integers(1, 4)), min_size=1, max_size=2
)


@settings(deadline=None)
@given(st.lists(LABELLED, min_size=1, max_size=8), st.lists(PLACED, max_size=24), CONSTRAINTS)
def test_refusals_are_those_of_plain_loops(
    labelled: list[tuple[str | None, str | None]],
    placed: list[tuple[int, str, bool]],
    constraints: list[tuple[str, int, int]],
) -> None:
    labels = {
        f"n{i}": {key: value for key, value in zip(("zone", "rack"), values, strict=True) if value is not None}
        for i, values in enumerate(labelled)
    }
    state = state_of([])
    counted: Counter[str] = Counter()
    for name, own in labels.items():
        state.table.set_node(parse_node(make_node(name, labels=own)))
    for index, (node, app, deleting) in enumerate(placed):
        state.table.add_pod(parse_pod(make_pod(f"p{index}", labels={"app": app}, deleting=deleting)), f"n{node}")
        counted[f"n{node}"] += app == "web" and not deleting
    pod = spread_pod(*(hard(key, skew, minDomains=domains) for key, skew, domains in constraints))
    assert asked(state, PodTopologySpread({}), pod) == dict(_refused(labels, counted, constraints))


def _refused(
    labels: Mapping[str, Mapping[str, str]], counted: Counter[str], constraints: list[tuple[str, int, int]]
) -> Iterator[tuple[str, Refusal]]:
    complete = [name for name, own in labels.items() if all(key in own for key, _, _ in constraints)]
    sums = []
    for key, _, _ in constraints:
        domains = Counter({labels[name][key]: 0 for name in complete})
        for name in complete:
            domains[labels[name][key]] += counted[name]
        sums.append(domains)
    for name, own in labels.items():
        for (key, skew, least), domains in zip(constraints, sums, strict=True):
            if key not in own:
                yield name, UNLABELLED
                break
            fewest = min(domains.values()) if len(domains) >= least else 0
            if domains[own[key]] + 1 - fewest > skew:
                yield name, SKEWED
                break
