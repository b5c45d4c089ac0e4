"""The node table's columns always equal a rebuild from what is known."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from berth.engine.state.node_selection import match_term
from berth.engine.state.node_table import MEMORY, PODS, NodeTable
from berth.engine.verdict import row_numbers
from berth.model import Node, NodeSelectorTerm, Pod, Requirement, parse_node, parse_pod
from support.builders import make_node, make_pod

NAMES = [f"n{i}" for i in range(90)]  # more than the first columns hold
RESOURCES = [f"example.com/r{number}" for number in range(6)]
LABELS = ["a", "b", "1", "7", "-3", "x"]


def test_a_pod_counts_before_its_node_is_known_and_after_it_is_gone() -> None:
    table = NodeTable()
    table.add_pod(parse_pod(make_pod("p", cpu="1", memory="1Gi")), "n")
    assert len(table) == 0
    table.set_node(parse_node(make_node("n")))
    row = table.row("n")
    assert table.used[0, row] == 1000
    assert table.used[MEMORY, row] == 2**30
    table.remove_node("n")
    assert table.row("n") is None
    table.set_node(parse_node(make_node("n")))
    assert table.used[PODS, table.row("n")] == 1
    assert list(table.pods_on("n")) == ["pod-default-p"]


def test_pods_that_ask_for_all_there_can_be_fill_their_node_and_leave_no_trace() -> None:
    table = NodeTable()
    table.set_node(parse_node(make_node("n", memory="8Gi")))
    row = table.row("n")
    greedy = [parse_pod(make_pod(f"p{i}", cpu="9e15", memory="8Ei", priority=i)) for i in range(5)]
    for pod in greedy:
        table.add_pod(pod, "n")
        assert table.free[MEMORY, row] < 0
        assert table.free[0, row] < 0
        assert table.nonzero[:, row].min() > 2**61
    table.add_pod(parse_pod(make_pod("modest", memory="1Gi")), "n")
    for pod in greedy:
        assert table.free[MEMORY, row] < 0
        table.remove_pod(pod.uid)
    assert table.used[MEMORY, row] == 2**30
    assert table.free[MEMORY, row] == 7 * 2**30
    assert list(table.nonzero[:, row]) == [100, 2**30]
    assert table.statistics()["saturated_sums"] == 0


def test_a_node_that_comes_and_goes_leaves_no_gap_and_the_names_in_order() -> None:
    table = NodeTable()
    for name in ("b", "d", "a"):
        table.set_node(parse_node(make_node(name)))
    before = table.sorted_names
    assert (before, table.rows_by_name.tolist()) == (["a", "b", "d"], [2, 0, 1])
    table.set_node(parse_node(make_node("c")))
    assert (table.sorted_names, table.rows_by_name.tolist()) == (["a", "b", "c", "d"], [2, 0, 3, 1])
    table.remove_node("c")
    assert (table.sorted_names, table.rows_by_name.tolist()) == (before, [2, 0, 1])
    assert table.rows == slice(0, 3)
    assert before == ["a", "b", "d"]  # whoever reads the names meanwhile is not disturbed


def test_a_pod_is_in_the_table_at_most_once() -> None:
    table = NodeTable()
    pod = parse_pod(make_pod("p"))
    table.add_pod(pod, "a")
    with pytest.raises(ValueError, match="default/p"):
        table.add_pod(pod, "b")


def test_a_resource_that_a_node_no_longer_has_is_gone_from_its_row() -> None:
    table = NodeTable()
    table.set_node(parse_node(make_node("n", extended={"example.com/gpu": 2})))
    table.set_node(parse_node(make_node("other", extended={"example.com/gpu": 1})))
    index = table.resource_index["example.com/gpu"]
    assert table.allocatable[index, table.row("n")] == 2
    table.set_node(parse_node(make_node("n")))
    assert table.allocatable[index, table.row("n")] == 0


def test_host_ports_that_nobody_holds_any_more_take_no_memory() -> None:
    table = NodeTable()
    table.add_pod(parse_pod(make_pod("p", ports=[{"containerPort": 80, "hostPort": 80}])), "n")
    assert len(table.ports) == 1
    table.remove_pod("pod-default-p")
    assert len(table.ports) == 0


def test_taint_sets_that_no_node_has_any_more_take_no_memory() -> None:
    table = NodeTable()
    for second in range(1000):  # as an autoscaler does, which writes the time into a taint's value
        table.set_node(parse_node(make_node("n", taints=[("candidate", str(second), "PreferNoSchedule")])))
    assert len(table.taints_of) <= 3
    table.remove_node("n")
    assert table.statistics()["taint_sets"] == 1
    assert not any(table.taints_of)


def test_label_values_of_nodes_of_the_past_take_no_memory() -> None:
    table = NodeTable()
    for number in range(1000):
        table.set_node(parse_node(make_node(f"n{number}", labels={"kubernetes.io/hostname": f"n{number}"})))
        _, vocabulary = table.label("kubernetes.io/hostname")
        table.remove_node(f"n{number}")
    assert len(vocabulary.ids) < 100


def test_columns_that_nobody_has_asked_for_lately_take_no_memory_and_come_back_right() -> None:
    table = NodeTable()
    keys = [f"key-{number}" for number in range(2000)]
    table.set_node(parse_node(make_node("n", labels={"disk": "ssd", **dict.fromkeys(keys, "x")})))
    assert table.label("disk")[0][0] == 0
    for key in keys:
        table.label(key)
    assert table.statistics()["label_columns"] == 512
    ids, vocabulary = table.label("disk")
    assert ids[0] == vocabulary.ids["ssd"]


def test_images_follow_the_nodes_that_have_them() -> None:
    table = NodeTable()
    table.set_node(parse_node(make_node("a", images={"app:1": 7, "app:2": 8})))
    table.set_node(parse_node(make_node("b", images={"app:1": 9})))

    def sizes(image: str) -> dict[str, int]:
        held = table.images.holders(image)
        return {table.name(int(row)): size for size, rows in held for row in rows}

    assert (sizes("app:1"), sizes("app:2"), sizes("app:3")) == ({"a": 7, "b": 9}, {"a": 8}, {})
    table.set_node(parse_node(make_node("a", images={"app:3": 5})))
    assert (sizes("app:1"), sizes("app:2"), sizes("app:3")) == ({"b": 9}, {}, {"a": 5})
    table.remove_node("a")
    table.remove_node("b")
    assert table.statistics()["images"] == 0


class TableMachine(RuleBasedStateMachine):
    """Nodes and pods come, change and go in any order; the columns are compared with a table made from scratch."""

    def __init__(self) -> None:
        super().__init__()
        self.table = NodeTable()
        self.nodes: dict[str, Node] = {}
        self.pods: dict[str, tuple[Pod, str]] = {}
        self.table.label("disk")

    @rule(
        name=st.sampled_from(NAMES),
        cpu=st.integers(1, 9),
        disk=st.none() | st.sampled_from(LABELS),
        taint=st.booleans(),
        image=st.none() | st.integers(0, 99),
        extended=st.dictionaries(st.sampled_from(RESOURCES), st.integers(0, 2), max_size=3),
        cordoned=st.booleans(),
    )
    def set_node(
        self,
        name: str,
        cpu: int,
        disk: str | None,
        taint: bool,
        image: int | None,
        extended: dict[str, int],
        cordoned: bool,
    ) -> None:
        self.nodes[name] = parse_node(
            make_node(
                name,
                cpu=cpu,
                labels={"disk": disk} if disk else {},
                taints=[("k", "v", "NoSchedule")] if taint else [],
                images={"app:1": image} if image is not None else None,
                extended=extended,
                unschedulable=cordoned,
            )
        )
        self.table.set_node(self.nodes[name])

    @rule(name=st.sampled_from(NAMES))
    def remove_node(self, name: str) -> None:
        self.nodes.pop(name, None)
        self.table.remove_node(name)

    @rule(
        number=st.integers(0, 30),
        name=st.sampled_from(NAMES),
        cpu=st.integers(0, 900),
        port=st.booleans(),
        extended=st.sets(st.sampled_from(RESOURCES), max_size=3),
    )
    def add_pod(self, number: int, name: str, cpu: int, port: bool, extended: set[str]) -> None:
        pod = parse_pod(
            make_pod(
                f"p{number}",
                requests={"cpu": f"{cpu}m", **dict.fromkeys(extended, "1")},
                ports=[{"containerPort": 80, "hostPort": 80 + number % 2}] if port else [],
            )
        )
        if pod.uid not in self.pods:
            self.pods[pod.uid] = (pod, name)
            self.table.add_pod(pod, name)

    @rule(number=st.integers(0, 30))
    def remove_pod(self, number: int) -> None:
        uid = f"pod-default-p{number}"
        self.pods.pop(uid, None)
        self.table.remove_pod(uid)

    @invariant()
    def equals_a_rebuild(self) -> None:
        rebuilt = NodeTable()
        for node in self.nodes.values():
            rebuilt.set_node(node)
        for pod, name in self.pods.values():
            rebuilt.add_pod(pod, name)
        assert len(self.table) == len(rebuilt) == len(self.nodes)
        assert self.view(self.table) == self.view(rebuilt)

    @staticmethod
    def view(table: NodeTable) -> dict[str, object]:
        disk, vocabulary = table.label("disk")
        values = {number: value for value, number in vocabulary.ids.items()}
        images = {row: size for size, rows in table.images.holders("app:1") for row in rows.tolist()}
        by_name: dict[str, object] = {}
        for row in table.rows_by_name:
            resources = {
                n: (int(table.allocatable[i, row]), int(table.used[i, row])) for n, i in table.resource_index.items()
            }
            assert all(used == table.used_of(name, int(row)) for name, (_, used) in resources.items())
            by_name[table.name(int(row))] = (
                {name: amounts for name, amounts in resources.items() if any(amounts)},
                [table.used_of(name, int(row)) for name in RESOURCES],
                table.nonzero[:, row].tolist(),
                table.taints_of[table.taint_sets[row]],
                bool(table.unschedulable[row]),
                values.get(int(disk[row])),
                images.get(int(row)),
                table.ports.held_on(int(row)),
            )
        assert sorted(by_name) == list(by_name)
        return by_name


TestTable = TableMachine.TestCase
TestTable.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)


@given(
    labels=st.lists(st.none() | st.sampled_from(LABELS), max_size=6),
    operator=st.sampled_from(["In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt"]),
    values=st.lists(st.sampled_from(LABELS), min_size=1, max_size=3),
    bound=st.integers(-5, 9),
)
def test_a_term_on_columns_matches_what_it_matches_node_by_node(
    labels: list[str | None], operator: str, values: list[str], bound: int
) -> None:
    given_values = {"Exists": (), "DoesNotExist": (), "Gt": (str(bound),), "Lt": (str(bound),)}.get(
        operator, tuple(values)
    )
    term = NodeSelectorTerm((Requirement("disk", operator, given_values),), ())
    table = NodeTable()
    nodes = [parse_node(make_node(f"n{i}", labels={"disk": v} if v else {})) for i, v in enumerate(labels)]
    for node in nodes:
        table.set_node(node)
    matched = match_term(table, term)
    assert [bool(matched[table.row(n.name)]) for n in nodes] == [term.matches(n.name, n.labels) for n in nodes]


def test_rows_are_numbers_of_known_nodes_only() -> None:
    table = NodeTable()
    for name in "abc":
        table.set_node(parse_node(make_node(name)))
    assert table.rows == slice(0, 3)
    table.remove_node("b")
    assert row_numbers(table.rows).tolist() == [0, 2]
    table.set_node(parse_node(make_node("d")))
    assert table.rows == slice(0, 3)
