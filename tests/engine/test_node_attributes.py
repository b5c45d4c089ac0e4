"""Facts about nodes always equal what reading every node anew would give."""

from hypothesis import given
from hypothesis import strategies as st

from berth.engine.state.node_table import NodeTable
from berth.model import Node, parse_node
from support.builders import make_node


def zone(node: Node) -> str | None:
    return node.labels.get("zone")


def facts_of(table: NodeTable) -> dict[str, object]:
    fact = table.fact("zone", zone)
    return {node.name: fact.values[fact.ids[table.row(node.name)]] for node in table.nodes()}


NAMES = st.sampled_from([f"n{i}" for i in range(80)])  # more than the first columns hold


@given(
    st.lists(st.tuples(NAMES, st.none() | st.sampled_from(["", "a", "b"]), st.booleans()), max_size=200), st.integers(0)
)
def test_a_fact_follows_nodes_as_they_come_change_and_go(
    steps: list[tuple[str, str | None, bool]], first_asked: int
) -> None:
    table = NodeTable()
    known: dict[str, str | None] = {}
    for number, (name, value, stays) in enumerate(steps):
        if number == first_asked % 200:
            assert facts_of(table) == known
        if stays:
            table.set_node(parse_node(make_node(name, labels=None if value is None else {"zone": value})))
            known[name] = value
        else:
            table.remove_node(name)
            known.pop(name, None)
    assert facts_of(table) == known


def test_values_that_no_node_has_any_more_take_no_memory() -> None:
    table = NodeTable()
    for number in range(1000):
        table.set_node(parse_node(make_node("n", labels={"zone": str(number)})))
        fact = table.fact("zone", zone)
    assert len(fact.values) <= 3
    table.remove_node("n")
    assert set(fact.values) == {None}


def test_a_fact_costs_nothing_until_it_is_asked_for() -> None:
    table = NodeTable()
    table.set_node(parse_node(make_node("n")))
    assert table.statistics()["facts"] == 0
    table.fact("zone", zone)
    assert table.statistics()["facts"] == 1


def test_kept_answers_are_asked_for_anew_when_a_fact_changes_that_somebody_asked_for() -> None:
    table = NodeTable()
    table.set_node(parse_node(make_node("n", annotations={"team": "a"})))
    unread = table.static_version
    table.set_node(parse_node(make_node("n", annotations={"team": "b"})))
    assert table.static_version == unread
    table.fact("team", lambda node: node.annotations.get("team"))
    table.set_node(parse_node(make_node("n", annotations={"team": "c"})))
    assert table.static_version > unread
