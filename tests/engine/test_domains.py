"""Domains: the nodes by the value of a label, as they are now."""

from berth.engine.state.node_table import NodeTable
from berth.model import Node, parse_node, parse_pod
from support.builders import make_node, make_pod

ZONE = "zone"


def table_of(**zones: str | None) -> NodeTable:
    table = NodeTable()
    for name, zone in zones.items():
        table.set_node(node(name, zone))
    return table


def node(name: str, zone: str | None) -> Node:
    return parse_node(make_node(name, labels={} if zone is None else {ZONE: zone}))


def values(table: NodeTable) -> dict[str, list[str]]:
    """The domains that have a node, by their value, with the names of these."""
    domains = table.domains(ZONE)
    found: dict[str, list[str]] = {}
    for value, number in domains.vocabulary.ids.items():
        names = sorted(one.name for one in table.nodes() if domains.ids[table.row(one.name)] == number)
        assert bool(names) == domains.present[number]
        found |= {value: names} if names else {}
    assert domains.count == len(found)
    assert domains.nodes == sum(map(len, found.values())) == domains.labelled.sum()
    return found


def test_nodes_of_one_value_are_a_domain_and_those_without_the_label_are_in_none() -> None:
    assert values(table_of(a="1", b="2", c="1", d=None)) == {"1": ["a", "c"], "2": ["b"]}


def test_domains_follow_the_nodes() -> None:
    table = table_of(a="1", b="2")
    table.domains(ZONE)
    table.set_node(node("a", "3"))
    table.set_node(node("c", "2"))
    assert values(table) == {"2": ["b", "c"], "3": ["a"]}
    table.remove_node("a")
    table.set_node(node("b", None))
    assert values(table) == {"2": ["c"]}


def test_domains_stay_the_same_object_while_nodes_stay_as_they_are() -> None:
    table = table_of(a="1")
    before = table.domains(ZONE)
    table.add_pod(parse_pod(make_pod("p")), "a")
    assert table.domains(ZONE) is before


def test_domains_are_as_long_as_the_columns_when_pods_come_before_their_nodes() -> None:
    table = table_of(a="1")
    table.domains(ZONE)
    for number in range(100):
        table.add_pod(parse_pod(make_pod(f"p{number}")), f"unknown-{number}")
    assert len(table.domains(ZONE).ids) == table.capacity
    assert values(table) == {"1": ["a"]}


def test_what_nobody_asks_for_any_more_is_not_kept() -> None:
    table = table_of(a="1")
    keys = [f"key-{number}" for number in range(100)]
    table.set_node(parse_node(make_node("b", labels=dict.fromkeys(keys, "x"))))
    before = table.domains(ZONE)
    for key in keys:
        table.domains(key)
    assert table.domains(ZONE) is not before
    assert values(table) == {"1": ["a"]}


def test_keys_that_no_node_has_share_one_column_and_push_out_nothing() -> None:
    table = table_of(a="1")
    before = table.domains(ZONE)
    for number in range(1000):
        assert table.domains(f"key-{number}").nodes == 0
        assert table.label(f"key-{number}")[0] is table.label("another")[0]
    assert table.domains(ZONE) is before
    assert table.statistics()["label_columns"] == 1


def test_a_key_gets_its_column_with_the_first_node_that_has_it_and_loses_it_with_the_last() -> None:
    table = table_of(a="1")
    assert table.domains("rack").count == 0
    table.set_node(parse_node(make_node("b", labels={"rack": "r"})))
    domains = table.domains("rack")
    assert (domains.count, domains.nodes, list(domains.vocabulary.ids)) == (1, 1, ["r"])
    table.remove_node("b")
    assert table.domains("rack").count == 0
    assert table.statistics() | {"label_columns": 0, "label_keys": 1} == table.statistics()


def test_columns_of_keys_that_no_node_has_grow_with_the_table() -> None:
    table = table_of(a="1")
    table.domains("rack")
    for number in range(200):
        table.set_node(node(f"n{number}", "1"))
    assert len(table.domains("rack").ids) == len(table.label("rack")[0]) == table.capacity
