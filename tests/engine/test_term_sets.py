"""The terms that select a pod, and the totals of many, beside a walk over all pods in place."""

from collections import Counter
from collections.abc import Iterator, Mapping
from random import Random

import pytest

from berth.engine.state.state import State
from berth.engine.state.term_sets import FEW_TERMS, Matched, Total
from berth.model import Pod, PodTerm, Role, parse_namespace, parse_node, parse_pod
from berth.model.affinity import carried_terms
from support.builders import Body, make_node, make_object, make_pod

REQUIRED, PREFERRED = (f"{word}DuringSchedulingIgnoredDuringExecution" for word in ("required", "preferred"))
NODES = 5
Near = dict[tuple[Role, int, PodTerm], Counter[str]]
Sums = Counter[tuple[Role, str, str]]


def expression(random: Random) -> Body:
    operator = random.choice(["In", "NotIn", "NotIn", "Exists", "DoesNotExist"])
    values = sorted(random.sample("123", random.randint(1, 2))) if operator.endswith("In") else []
    return {"key": random.choice("abc"), "operator": operator, "values": values}


def term(random: Random) -> Body:
    chosen = {"labelSelector": {"matchExpressions": [expression(random) for _ in range(random.randint(0, 2))]}}
    where: Body = random.choice([{"namespaceSelector": {}}, {"namespaceSelector": {"matchLabels": {"t": "x"}}}, {}])
    return {**chosen, **where, "topologyKey": random.choice(["zone", "host", "none"])}


def affinity(random: Random) -> Body:
    return {
        direction: {
            REQUIRED: [term(random) for _ in range(random.randint(0, 1))],
            PREFERRED: [
                {"weight": random.randint(1, 3), "podAffinityTerm": term(random)} for _ in range(random.randint(0, 2))
            ],
        }
        for direction in ("podAffinity", "podAntiAffinity")
    }


def labels(random: Random) -> dict[str, str]:
    return {key: random.choice("1234") for key in "abcd" if random.random() < 0.6}


def set_node(state: State, random: Random, number: int) -> None:
    there = {"zone": f"z{number % 2}", "host": f"n{number}"}
    kept = {key: value for key, value in there.items() if random.random() < 0.8}
    state.table.set_node(parse_node(make_node(f"n{number}", labels=kept)))


def selects(term: PodTerm, pod: Pod, state: State) -> bool:
    covered = term.namespace_selector is not None and term.namespace_selector.matches(
        state.namespace_labels(pod.namespace) or {}
    )
    assert term.selector is not None
    return term.selector.matches(pod.labels) and (pod.namespace in term.namespaces or covered)


def carried_near(state: State, placed: Mapping[str, tuple[Pod, str]], probe: Pod) -> Near:
    """How often each term is carried on each node; terms without a carrier in a domain are left out."""
    table = state.table
    found: Near = {}
    for pod, node in placed.values():
        for role, weight, term in carried_terms(pod.pod_affinity, pod.pod_anti_affinity):
            if selects(term, probe, state):
                found.setdefault((role, weight, term), Counter())[node] += 1

    def has_label(node: str, label: str) -> bool:
        row = table.row(node)
        return row is not None and table.has_label(row, label)

    return {key: nodes for key, nodes in found.items() if any(has_label(node, key[2].topology_key) for node in nodes)}


def by_role(terms: Near) -> Sums:
    sums: Sums = Counter()
    for (role, weight, term), nodes in terms.items():
        for node, pods in nodes.items():
            sums[role, term.topology_key, node] += pods * (weight or 1)
    return sums


def sums_of(matched: Matched, state: State) -> Sums:
    """The same sums, from the terms that matched or their totals."""
    sums: Sums = Counter()
    for speaker in matched.speakers:
        rows, pods = speaker.rows.counted()
        factor = 1 if speaker.role in (Role.REQUIRED, Role.FORBIDDEN) else speaker.weight
        for row, count in zip(rows.tolist(), pods.tolist(), strict=True):
            sums[speaker.role, speaker.topology_key, state.table.name(row)] += count * factor
    return sums


@pytest.mark.parametrize("seed", range(12))
def test_matched_terms_and_their_totals_are_those_of_the_pods_in_place(seed: int) -> None:
    random, state, summed = Random(seed), State(), 0
    placed: dict[str, tuple[Pod, str]] = {}
    for number in range(NODES):
        set_node(state, random, number)
    for step in range(250):
        chance = random.random()
        if placed and chance < 0.3:
            uid = random.choice(list(placed))
            state.table.remove_pod(uid)
            del placed[uid]
        elif chance < 0.85:
            body = make_pod(f"p{step}", namespace=random.choice("mn"), labels=labels(random), affinity=affinity(random))
            node = f"n{random.randrange(NODES + 1)}"
            placed[f"pod-{body['metadata']['namespace']}-p{step}"] = parse_pod(body), node
            state.table.add_pod(parse_pod(body), node)
        elif chance < 0.95:
            set_node(state, random, random.randrange(NODES))
        else:
            namespace = make_object("Namespace", random.choice("mn"))
            namespace["metadata"]["labels"] = {"t": random.choice("xy")}
            state.put("Namespace", namespace["metadata"]["name"], parse_namespace(namespace))
        for _ in range(2):
            probe = parse_pod(make_pod("probe", namespace=random.choice("mno"), labels=labels(random)))
            matched, right = state.table.terms.matching(probe), carried_near(state, placed, probe)
            assert Counter((c.role, c.weight, c.term) for c in matched) == Counter(dict.fromkeys(right, 1))
            assert sums_of(matched, state) == by_role(right)
            summed += any(isinstance(speaker, Total) for speaker in matched.speakers)
    assert summed > 20


def test_pods_of_which_the_same_wide_terms_are_true_share_the_set() -> None:
    state = State()
    state.table.set_node(parse_node(make_node("n", labels={"host": "n"})))
    for number in range(FEW_TERMS + 1):
        away = {
            "labelSelector": {"matchExpressions": [{"key": "a", "operator": "NotIn", "values": [f"v{number}"]}]},
            "namespaceSelector": {},
            "topologyKey": "host",
        }
        named = {**away, "labelSelector": {"matchLabels": {"a": f"w{number}"}}}
        terms = {"podAntiAffinity": {REQUIRED: [away, named]}}
        state.table.add_pod(parse_pod(make_pod(f"p{number}", affinity=terms)), "n")
    first, second, other = (
        state.table.terms.matching(parse_pod(make_pod("p", namespace=namespace, labels={"a": value})))
        for namespace, value in (("m", "w1"), ("n", "w2"), ("m", "v1"))
    )
    assert first.wide is second.wide
    assert first.named is not second.named
    assert (len(first.wide.terms), len(other.wide.terms)) == (FEW_TERMS + 1, FEW_TERMS)


def test_what_was_matched_before_many_terms_went_is_not_held() -> None:
    state = State()
    state.table.set_node(parse_node(make_node("n", labels={"host": "n"})))
    everybody = {"labelSelector": {}, "namespaceSelector": {}, "topologyKey": "host"}

    def pods(name: str, count: int) -> Iterator[Pod]:
        for number in range(count):
            term = {
                **everybody,
                "labelSelector": {
                    "matchExpressions": [{"key": "a", "operator": "NotIn", "values": [f"{name}{number}"]}]
                },
            }
            yield parse_pod(make_pod(f"{name}{number}", affinity={"podAntiAffinity": {REQUIRED: [term]}}))

    stays = list(pods("stays", 1))
    state.table.add_pod(stays[0], "n")
    flood = list(pods("flood", 300))
    for pod in flood:
        state.table.add_pod(pod, "n")
    probe = parse_pod(make_pod("probe"))
    assert len(state.table.terms.matching(probe)) == 301
    for pod in flood:
        state.table.remove_pod(pod.uid)
    terms = state.table.terms
    assert terms.cached_matches == 0
    assert len(terms.matching(probe)) == 1


def test_totals_are_right_after_more_moves_than_the_journal_holds() -> None:
    state = State()
    state.table.set_node(parse_node(make_node("n", labels={"host": "n"})))

    def carrier(name: str, number: int) -> Pod:
        unlike = {"matchExpressions": [{"key": "a", "operator": "NotIn", "values": [f"v{number}"]}]}
        term = {"labelSelector": unlike, "namespaceSelector": {}, "topologyKey": "host"}
        return parse_pod(make_pod(name, affinity={"podAntiAffinity": {REQUIRED: [term]}}))

    for number in range(FEW_TERMS + 1):
        state.table.add_pod(carrier(f"p{number}", number), "n")
    probe = parse_pod(make_pod("probe"))
    [total] = state.table.terms.matching(probe).speakers
    for count in range(1100):
        state.table.add_pod(carrier(f"q{count}", 0), "n")
    assert list(state.table.terms.matching(probe).speakers) == [total]
    assert total.rows.at(0) == FEW_TERMS + 1 + 1100
