"""The plan: what the numbers promise, for any numbers that are allowed."""

from collections import Counter
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from berth.demo.scenario import (
    FEWEST_PODS,
    LOAD_SHARE,
    MOST_PODS_A_NODE,
    PACKING,
    Plan,
    Workload,
    divide,
    make_plan,
    problem_with,
)
from berth.model import parse_node, parse_pod
from berth.policy import load_policy
from demo.toys import with_uid


def workloads(plan: Plan) -> Iterator[Workload]:
    for wave in (*plan.spreading, *plan.packing):
        yield from wave.arrive


@st.composite
def numbers(draw: st.DrawFn) -> tuple[int, int, int]:
    nodes = draw(st.integers(3, 400))
    return nodes, draw(st.integers(FEWEST_PODS, MOST_PODS_A_NODE * nodes)), draw(st.integers(0, 1000))


def test_the_same_seed_makes_the_same_plan_and_another_seed_another() -> None:
    assert make_plan(200, 1200, 4) == make_plan(200, 1200, 4)
    assert make_plan(200, 1200, 4) != make_plan(200, 1200, 5)


@given(numbers())
def test_a_plan_has_as_many_nodes_and_pods_as_were_asked_for(asked: tuple[int, int, int]) -> None:
    nodes, pods, seed = asked
    plan = make_plan(nodes, pods, seed)
    assert len({machine.name for machine in plan.machines}) == nodes
    assert plan.pods == sum(workload.replicas for workload in workloads(plan)) == pods
    assert all(workload.replicas > 0 for workload in workloads(plan))


@given(numbers())
def test_at_no_time_is_more_than_half_of_the_cluster_asked_for(asked: tuple[int, int, int]) -> None:
    """So that whatever the order of events, every pod fits."""
    plan = make_plan(*asked)
    whole = 1000 * sum(machine.cores for machine in plan.machines)
    live = {w.name: w for wave in plan.spreading for w in wave.arrive}
    for wave in plan.packing:
        live = {name: w for name, w in live.items() if name not in wave.leave} | {w.name: w for w in wave.arrive}
        assert sum(w.replicas * w.cpu_millicores for w in live.values()) <= max(0.6 * whole, len(live) * 10)


@given(numbers())
def test_every_pod_takes_at_most_half_of_the_smallest_machine(asked: tuple[int, int, int]) -> None:
    plan = make_plan(*asked)
    smallest = min(machine.cores for machine in plan.machines)
    assert max(workload.cpu_millicores for workload in workloads(plan)) <= 500 * smallest
    assert max(workload.memory_mib for workload in workloads(plan)) <= 512 * 4 * smallest


def test_an_act_of_the_usual_size_asks_for_a_third_of_the_cpu() -> None:
    plan = make_plan(200, 1200, 0)
    whole = 1000 * sum(machine.cores for machine in plan.machines)
    asked = sum(w.replicas * w.cpu_millicores for wave in plan.spreading for w in wave.arrive if not w.is_job)
    assert asked / whole == pytest.approx(LOAD_SHARE, abs=0.02)


def test_zones_are_of_equal_size_and_all_sizes_of_machines_are_there() -> None:
    plan = make_plan(200, 1200, 0)
    assert sorted(Counter(machine.zone for machine in plan.machines).values()) == [66, 67, 67]
    assert {machine.size for machine in plan.machines} == {"small", "medium", "large"}


def test_what_arrived_in_the_first_act_leaves_in_the_second_except_jobs_which_end_by_themselves() -> None:
    plan = make_plan(200, 1200, 0)
    came = {w.name for wave in plan.spreading for w in wave.arrive if not w.is_job}
    assert came == {name for wave in plan.packing for name in wave.leave}
    assert [w.name for w in workloads(plan) if w.is_job] == ["reports-v1", "reports-v2"]


def test_one_pod_fits_on_no_machine_and_only_one_zone_would_do() -> None:
    plan = make_plan(200, 1200, 0)
    (giant,) = [wave.giant for wave in plan.spreading if wave.giant is not None]
    pod = parse_pod(with_uid(giant))
    assert pod.requests["cpu"] > 1000 * max(machine.cores for machine in plan.machines)
    assert pod.node_selector == {"topology.kubernetes.io/zone": "zone-a"}


def test_bodies_are_what_the_model_reads() -> None:
    plan = make_plan(3, 20, 0)
    assert parse_node(with_uid(plan.machines[0].body())).allocatable["cpu"] == 1000 * plan.machines[0].cores
    for workload in workloads(plan):
        template = workload.body()["spec"]["template"]
        metadata = {"name": "p", "namespace": "n", "labels": template["metadata"]["labels"]}
        pod = parse_pod(with_uid({"kind": "Pod", "metadata": metadata, "spec": template["spec"]}))
        assert pod.scheduler_name == "berth"
        assert pod.requests["cpu"] == workload.cpu_millicores
        selector = workload.body()["spec"].get("selector") or {"matchLabels": {}}
        assert selector["matchLabels"].items() <= dict(pod.labels).items()


def test_the_pods_of_a_job_say_how_long_they_last() -> None:
    (job,) = [w for wave in make_plan(3, 100, 0).spreading for w in wave.arrive if w.is_job]
    body = job.body()
    assert body["kind"] == "Job"
    assert body["spec"]["completions"] == body["spec"]["parallelism"] == job.replicas
    assert body["spec"]["template"]["metadata"]["annotations"] == {"berth.dev/sim-duration": str(job.seconds)}


def test_the_patch_makes_a_valid_policy() -> None:
    body = {
        "apiVersion": "berth.dev/v1alpha1",
        "kind": "SchedulingPolicy",
        "metadata": {"name": "default", "uid": "u", "generation": 2},
        "spec": {"schedulerName": "berth", **PACKING["spec"]},
    }
    assert load_policy(body).policy.name == "default"


@pytest.mark.parametrize(
    ("nodes", "pods", "word"), [(2, 100, "--nodes: 2 "), (9999, 100, "--nodes"), (3, 19, "--pods"), (3, 181, "and 180")]
)
def test_invalid_numbers_are_refused(nodes: int, pods: int, word: str) -> None:
    assert word in (problem_with(nodes, pods) or "")
    with pytest.raises(ValueError, match="is not between"):
        make_plan(nodes, pods, 0)


@given(st.integers(0, 10_000), st.lists(st.floats(0.1, 10), min_size=1, max_size=9))
def test_a_total_is_divided_without_a_rest(total: int, shares: list[float]) -> None:
    parts = divide(total, shares)
    assert sum(parts) == total
    assert min(parts) >= 0
