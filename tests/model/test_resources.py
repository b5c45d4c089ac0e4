"""What a pod asks for, what it takes, and what it counts with in scores."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, ClassVar

import pytest
from hypothesis import given
from hypothesis import strategies as st

from berth.model import InvalidObject, Pod, is_counted_resource, parse_pod
from support.builders import make_pod

Mi = 1024**2
Gi = 1024**3
Requests = Mapping[str, str]


def container(name: str = "main", requests: Requests | None = None, *, sidecar: bool = False) -> dict[str, Any]:
    body: dict[str, Any] = {"name": name, "image": "app"}
    if requests is not None:
        body["resources"] = {"requests": requests}
    if sidecar:
        body["restartPolicy"] = "Always"
    return body


def cpu(amount: str) -> Requests:
    return {"cpu": amount}


def pod(*containers: dict[str, Any], init: list[dict[str, Any]] | None = None, **more: Any) -> Pod:
    return parse_pod(make_pod("p", containers=list(containers), initContainers=init, **more))


def status(
    name: str = "main", *, actuated: Requests | None = None, allocated: Requests | None = None
) -> dict[str, Any]:
    report: dict[str, Any] = {"name": name, "allocatedResources": allocated}
    if actuated is not None:
        report["resources"] = {"requests": actuated}
    return report


def test_containers_add_up() -> None:
    both = pod(container("a", {"cpu": "500m", "memory": "1Gi"}), container("b", {"cpu": "1", "memory": "1.5Gi"}))
    assert both.requests == {"cpu": 1500, "memory": 5 * Gi // 2}
    assert both.usage == both.requests


def test_a_pod_that_asks_for_nothing_needs_nothing() -> None:
    assert pod(container()).requests == {}
    assert pod(container(requests={"cpu": "0", "memory": "0"})).requests == {}


def test_sums_are_rounded_once_at_the_end() -> None:
    parts = [container(str(i), {"cpu": "0.1m", "memory": "100m"}) for i in range(20)]
    assert pod(*parts).requests == {"cpu": 2, "memory": 2}


def test_an_init_container_counts_where_it_needs_more_than_the_rest() -> None:
    init = [container("i", {"cpu": "2", "memory": "64Mi"}), container("j", {"cpu": "1"})]
    assert pod(container(requests={"cpu": "1", "memory": "128Mi"}), init=init).requests == {
        "cpu": 2000,
        "memory": 128 * Mi,
    }


def test_a_sidecar_runs_beside_the_containers() -> None:
    assert pod(container(requests=cpu("1")), init=[container("s", cpu("500m"), sidecar=True)]).requests == {"cpu": 1500}


def test_an_init_container_runs_beside_the_sidecars_declared_before_it() -> None:
    init = [
        container("before", cpu("500m"), sidecar=True),
        container("init", cpu("3")),
        container("after", cpu("1"), sidecar=True),
    ]
    assert pod(container(requests=cpu("100m")), init=init).requests == {"cpu": 3500}


def test_sidecars_together_can_be_the_peak_of_a_resource_that_containers_do_not_name() -> None:
    init = [container("a", {"memory": "1Gi"}, sidecar=True), container("b", {"memory": "1Gi"}, sidecar=True)]
    assert pod(container(requests=cpu("1")), init=init).requests == {"cpu": 1000, "memory": 2 * Gi}


def test_overhead_is_added() -> None:
    assert pod(container(requests=cpu("1")), overhead={"cpu": "50m", "memory": "100Mi"}).requests == {
        "cpu": 1050,
        "memory": 100 * Mi,
    }


def test_pod_level_requests_replace_the_sum_and_overhead_still_comes_on_top() -> None:
    whole = pod(
        container(requests={"cpu": "4", "memory": "1Gi", "ephemeral-storage": "1Gi"}),
        init=[container("i", cpu("8"))],
        resources={"requests": {"cpu": "2", "hugepages-2Mi": "4Mi"}},
        overhead=cpu("50m"),
    )
    assert whole.requests == {"cpu": 2050, "memory": Gi, "ephemeral-storage": Gi, "hugepages-2Mi": 4 * Mi}


def test_resources_that_cannot_be_set_at_pod_level_are_ignored_there() -> None:
    level = {"requests": {"ephemeral-storage": "8Gi", "example.com/gpu": "3"}, "limits": {"cpu": "9"}}
    assert pod(container(requests=cpu("1")), resources=level).requests == {"cpu": 1000}


@pytest.mark.parametrize(
    "name",
    [
        "cpu",
        "memory",
        "ephemeral-storage",
        "example.com/gpu",
        "hugepages-2Mi",
        "attachable-volumes-aws-ebs",
        "kubernetes.io/thing",
        "x.kubernetes.io/thing",
    ],
)
def test_resources_that_the_scheduler_counts(name: str) -> None:
    assert is_counted_resource(name)


@pytest.mark.parametrize(
    "name",
    [
        "pods",
        "storage",
        "gpu",
        "requests.example.com/gpu",
        "example.com/",
        "/gpu",
        "Example.com/gpu",
        "a/b/c",
        "-a/b",
        "example.com/" + "x" * 64,
        "x" * 250 + "/gpu",
        "example.com/gpu\n",
        "",
    ],
)
def test_resources_that_the_scheduler_does_not_count(name: str) -> None:
    assert not is_counted_resource(name)
    assert pod(container(requests={name: "1"})).requests == {}


def test_a_resized_container_takes_the_largest_of_asked_allocated_and_in_force() -> None:
    reports = [status(actuated={"cpu": "1", "memory": "3Gi"}, allocated={"cpu": "3", "memory": "1Gi"})]
    resized = pod(
        container(requests={"cpu": "2", "memory": "2Gi", "ephemeral-storage": "1Gi"}),
        status={"containerStatuses": reports},
    )
    assert resized.usage == {"cpu": 3000, "memory": 3 * Gi, "ephemeral-storage": Gi}
    assert resized.requests == {"cpu": 2000, "memory": 2 * Gi, "ephemeral-storage": Gi}


def test_a_status_below_zero_which_the_api_server_accepts_counts_for_nothing() -> None:
    reports = [status(actuated=cpu("-5"), allocated={"cpu": "-1", "memory": "-1Gi"})]
    assert pod(container(requests=cpu("1")), status={"containerStatuses": reports}).usage == {"cpu": 1000}


def test_an_infeasible_resize_does_not_count() -> None:
    resized = pod(
        container(requests=cpu("8")),
        status={
            "containerStatuses": [status(actuated=cpu("1"), allocated=cpu("2"))],
            "conditions": [{"type": "PodResizePending", "status": "True", "reason": "Infeasible"}],
        },
    )
    assert resized.usage == {"cpu": 2000}
    assert resized.requests == {"cpu": 8000}


def test_a_deferred_resize_counts() -> None:
    resized = pod(
        container(requests=cpu("8")),
        status={
            "containerStatuses": [status(actuated=cpu("1"), allocated=cpu("2"))],
            "conditions": [{"type": "PodResizePending", "status": "True", "reason": "Deferred"}],
        },
    )
    assert resized.usage == {"cpu": 8000}


def test_a_status_without_resources_counts_for_nothing() -> None:
    assert pod(container(requests=cpu("1")), status={"containerStatuses": [status(allocated=cpu("5"))]}).usage == {
        "cpu": 1000
    }


def test_empty_resources_in_a_status_are_resources() -> None:
    assert pod(
        container(requests=cpu("1")), status={"containerStatuses": [status(actuated={}, allocated=cpu("5"))]}
    ).usage == {"cpu": 5000}


def test_a_resized_sidecar_counts_and_a_finished_init_container_does_not() -> None:
    resized = pod(
        container(requests=cpu("1")),
        init=[container("s", cpu("1"), sidecar=True), container("i", cpu("1"))],
        status={"initContainerStatuses": [status("s", actuated=cpu("2")), status("i", actuated=cpu("9"))]},
    )
    assert resized.usage == {"cpu": 3000}


def test_pod_level_requests_can_be_resized() -> None:
    resized = pod(
        container(requests=cpu("1")),
        resources={"requests": {"cpu": "2", "memory": "1Gi"}},
        status={"resources": {"requests": {"cpu": "3"}}, "allocatedResources": {"cpu": "1", "hugepages-2Mi": "2Mi"}},
    )
    assert resized.usage == {"cpu": 3000, "memory": Gi}
    assert resized.requests == {"cpu": 2000, "memory": Gi}


def test_an_infeasible_resize_at_pod_level_leaves_what_is_in_force() -> None:
    resized = pod(
        container(requests=cpu("1")),
        resources={"requests": {"cpu": "4", "memory": "1Gi"}},
        status={
            "resources": {"requests": cpu("2")},
            "conditions": [{"type": "PodResizePending", "reason": "Infeasible"}],
        },
    )
    assert resized.usage == {"cpu": 2000}


def test_containers_that_name_nothing_count_in_scores() -> None:
    assert pod(container("a"), container("b", cpu("1"))).usage_nonzero == (1100, 400 * Mi)


def test_a_request_of_zero_is_a_request() -> None:
    assert pod(container(requests={"cpu": "0", "memory": "0"})).usage_nonzero == (0, 0)


def test_init_containers_and_sidecars_have_scoring_defaults_too() -> None:
    init = [container("s", sidecar=True), container("i", {"memory": "1Gi"})]
    assert pod(container(), init=init).usage_nonzero == (200, Gi + 200 * Mi)


def test_overhead_comes_on_top_of_scoring_defaults() -> None:
    assert pod(container(), overhead=cpu("50m")).usage_nonzero == (150, 200 * Mi)


def test_pod_level_requests_make_scoring_defaults_unnecessary() -> None:
    whole = pod(container("a"), container("b"), resources={"requests": {"cpu": "2", "memory": "1Gi"}})
    assert whole.usage_nonzero == (2000, Gi)


def test_a_placed_pod_with_pod_level_memory_counts_only_the_cpu_that_is_named() -> None:
    named = pod(container("a", cpu("1")), container("b"), resources={"requests": {"memory": "1Gi"}})
    assert named.usage_nonzero == (1000, Gi)
    nobody = pod(container("a"), container("b"), resources={"requests": {"memory": "1Gi"}})
    assert nobody.usage_nonzero == (200, Gi)


def test_a_resize_shows_in_scores() -> None:
    resized = pod(container(requests=cpu("1")), status={"containerStatuses": [status(actuated=cpu("3"))]})
    assert resized.usage_nonzero == (3000, 200 * Mi)


def test_amounts_beyond_64_bits_are_capped() -> None:
    huge = pod(container("a", {"cpu": "8Ei", "memory": "8Ei"}), container("b", {"memory": "8Ei"}))
    assert huge.requests == {"cpu": 2**63 - 1, "memory": 2**63 - 1}


def test_the_pod_being_scored_counts_with_its_containers_and_not_with_pod_level_requests() -> None:
    scored = pod(
        container("a", cpu("1")),
        container("b", {"example.com/gpu": "1"}),
        resources={"requests": {"cpu": "8", "memory": "8Gi"}},
        overhead=cpu("50m"),
        status={"containerStatuses": [status("a", actuated=cpu("9"))]},
    ).scored
    assert scored == {"cpu": 1150, "memory": 400 * Mi, "example.com/gpu": 1}


def limited(name: str, **amounts: str) -> dict[str, Any]:
    return {"name": name, "image": "app", "resources": {"limits": amounts}}


def test_limits_of_containers_add_up_each_rounded_up_by_itself() -> None:
    parts = [limited(str(i), cpu="0.1m", memory="100m") for i in range(3)]
    assert pod(*parts).limits == {"cpu": 3, "memory": 3}


def test_an_init_container_or_sidecar_raises_the_limits_where_it_has_more() -> None:
    small, big = limited("small", cpu="1", memory="1Gi"), limited("big", cpu="3", memory="512Mi")
    assert pod(small, small, init=[big]).limits == {"cpu": 3000, "memory": 2 * Gi}
    assert pod(small, small, init=[{**big, "restartPolicy": "Always"}]).limits == {"cpu": 3000, "memory": 2 * Gi}


def test_only_cpu_and_memory_are_limited_and_nothing_is_no_limit() -> None:
    assert pod(limited("a", **{"ephemeral-storage": "1Gi", "cpu": "0"})).limits == {}
    assert pod(container()).limits == {}


def test_a_limit_that_makes_no_sense_is_named_with_its_field() -> None:
    with pytest.raises(InvalidObject, match=r"spec\.containers\[0\]\.resources\.limits\.cpu"):
        pod(limited("a", cpu="much"))


@pytest.mark.parametrize(
    ("fields", "best_effort"),
    [
        ({"containers": [container()]}, True),
        ({"containers": [container(requests={"cpu": "0", "ephemeral-storage": "1Gi"})]}, True),
        ({"containers": [container()], "overhead": {"cpu": "100m"}}, True),
        ({"containers": [container(), container("b", {"memory": "1"})]}, False),
        ({"containers": [limited("a", cpu="1m")]}, False),
        ({"containers": [container()], "initContainers": [container("i", {"cpu": "1"})]}, False),
        ({"containers": [container()], "resources": {"limits": {"memory": "1Gi"}}}, False),
        ({"containers": [container()], "resources": {"requests": {"cpu": "1"}}}, False),
    ],
    ids=str,
)
def test_a_pod_is_best_effort_when_nothing_in_it_names_cpu_or_memory(fields: Any, best_effort: bool) -> None:
    assert parse_pod(make_pod("p", **fields)).best_effort is best_effort


NAMES = ("cpu", "memory", "example.com/a", "example.com/b")
ASKED = st.dictionaries(st.sampled_from(NAMES), st.integers(0, 5), max_size=3)


@given(main=st.lists(ASKED, min_size=1, max_size=3), init=st.lists(st.tuples(ASKED, st.booleans()), max_size=5))
def test_a_pod_asks_for_the_most_that_runs_at_once(main: list[dict[str, int]], init: list[tuple[Any, bool]]) -> None:
    """At each step of its start: an init container beside the sidecars before it, and at last all that stay."""
    sidecars = [asked for asked, sidecar in init if sidecar]
    steps = [[*(a for a, s in init[:at] if s), asked] for at, (asked, _) in enumerate(init)]
    wanted = {
        name: max(sum(asked.get(name, 0) for asked in step) for step in [[*main, *sidecars], *steps]) for name in NAMES
    }
    bodies = [container(f"m{number}", texts(asked)) for number, asked in enumerate(main)]
    inits = [container(f"i{number}", texts(asked), sidecar=sidecar) for number, (asked, sidecar) in enumerate(init)]
    requests = pod(*bodies, init=inits).requests
    assert {name: amount // (1000 if name == "cpu" else 1) for name, amount in requests.items()} == {
        name: amount for name, amount in wanted.items() if amount
    }


def texts(asked: Mapping[str, int]) -> Requests:
    return {name: str(amount) for name, amount in asked.items()}


class Name(str):
    """The name of a resource that counts how often any is looked up in a table, or compared."""

    __slots__ = ()
    looks: ClassVar[int] = 0

    def __hash__(self) -> int:
        Name.looks += 1
        return super().__hash__()

    def __eq__(self, other: object) -> bool:
        Name.looks += 1
        return super().__eq__(other)


def many(names: int) -> dict[str, Any]:
    asked = {Name(f"example.com/r{number}"): "1" for number in range(names)}
    return make_pod("p", containers=[{"name": "a", "image": "app", "resources": {"requests": asked, "limits": asked}}])


def many_sidecars(names: int) -> dict[str, Any]:
    """A pod may have 1,000 init containers, so fewer than names."""
    inits = [container(f"s{at}", {Name(f"example.com/r{at}"): "1"}, sidecar=True) for at in range(names // 16)]
    return make_pod("p", containers=[container()], initContainers=inits)


@pytest.mark.parametrize("body", [many, many_sidecars])
def test_reading_a_pod_looks_at_each_name_as_often_however_many_there_are(
    body: Callable[[int], dict[str, Any]],
) -> None:
    """Sixteen times the names: far from the 256 times that comparing each with all others takes."""

    def looks(names: int) -> int:
        made = body(names)
        before = Name.looks
        parse_pod(made)
        return Name.looks - before

    few, many_more = looks(1000), looks(16_000)
    assert 0 < many_more <= 20 * few
