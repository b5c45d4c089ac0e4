"""The picture: what watch events make of it."""

import pytest

from berth.demo.picture import BUCKETS, Picture, bucket
from demo.toys import REFUSAL, make_node, make_picture, make_pod, make_policy, refused


def test_a_pod_that_is_given_a_node_is_one_decision_however_often_it_is_seen() -> None:
    picture = make_picture(make_node("n1", "a"), make_pod("p"))
    for phase in ("Pending", "Running"):
        picture.observe("Pod", "MODIFIED", make_pod("p", node="n1", phase=phase), 2.0)
    (decision,) = picture.decisions
    assert (decision.pod, decision.node, decision.percent) == ("demo/p", "n1", 10.0)
    assert picture.placed == picture.on_nodes == picture.running == 1


def test_a_pod_that_leaves_gives_its_room_back_and_stays_counted() -> None:
    picture = make_picture(make_node("n1", "a"), make_pod("p", node="n1"), make_pod("q", node="n1"))
    assert picture.fullness().cpu_percent == 20.0
    picture.observe("Pod", "DELETED", make_pod("p", node="n1"), 3.0)
    picture.observe("Pod", "MODIFIED", make_pod("q", node="n1", phase="Succeeded"), 3.0)
    picture.observe("Pod", "DELETED", make_pod("q", node="n1", phase="Succeeded"), 4.0)
    assert (picture.fullness().cpu_percent, picture.fullness().empty, picture.placed) == (0.0, 1, 2)


def test_pods_of_other_schedulers_take_room_and_are_no_decisions() -> None:
    pod = make_pod("other", node="n1")
    pod["spec"]["schedulerName"] = "default-scheduler"
    picture = make_picture(make_node("n1", "a"), pod)
    assert (picture.placed, picture.on_nodes, picture.fullness().cpu_percent) == (0, 0, 10.0)


def test_a_waiting_pod_says_why_and_stops_saying_so_once_it_has_a_node() -> None:
    picture = make_picture(make_node("n1", "a"), make_pod("quiet"), refused(make_pod("p")))
    assert [(pod.key, pod.refusal) for pod in picture.waiting()] == [("demo/p", REFUSAL), ("demo/quiet", "")]
    picture.observe("Pod", "MODIFIED", make_pod("p", node="n1"), 2.0)
    assert [pod.key for pod in picture.waiting()] == ["demo/quiet"]


def test_a_node_that_is_asked_for_too_much_is_remembered() -> None:
    picture = make_picture(make_node("n1", "a", cores=1), make_pod("p", node="n1"))
    assert picture.overfull == set()
    picture.observe("Pod", "ADDED", make_pod("q", node="n1", cpu_millicores=1), 2.0)
    assert picture.overfull == {"n1"}


def test_a_pod_that_a_kubelet_turned_away_is_remembered_with_its_words() -> None:
    picture = make_picture(make_node("n1", "a"), make_pod("p", node="n1"))
    failed = make_pod("p", node="n1") | {"status": {"phase": "Failed", "reason": "OutOfcpu", "message": "no room"}}
    picture.observe("Pod", "MODIFIED", failed, 2.0)
    picture.observe("Pod", "MODIFIED", failed, 2.0)
    assert picture.failed == ["demo/p: no room"]
    assert picture.fullness().empty == 1


def test_a_node_that_is_seen_again_keeps_what_is_on_it() -> None:
    picture = make_picture(make_node("n1", "a"), make_pod("p", node="n1"))
    picture.observe("Node", "MODIFIED", make_node("n1", "a", cores=2), 2.0)
    assert picture.fullness().cpu_percent == 50.0
    picture.observe("Node", "DELETED", make_node("n1", "a"), 3.0)
    picture.observe("Pod", "DELETED", make_pod("p", node="n1"), 3.0)
    assert picture.fullness().nodes == 0


def test_nodes_stand_in_their_zones_by_name() -> None:
    picture = make_picture(make_node("b2", "b"), make_node("a1", "a"), make_node("b1", "b"))
    zones = {zone: [node.name for node in nodes] for zone, nodes in picture.zones().items()}
    assert zones == {"a": ["a1"], "b": ["b1", "b2"]}
    assert list(zones) == ["a", "b"]


def test_the_shape_tells_nodes_in_use_from_empty_ones() -> None:
    picture = make_picture(
        make_node("n1", "a"), make_node("n2", "a"), make_node("n3", "a"), make_pod("p", node="n1", cpu_millicores=9000)
    )
    fullness = picture.fullness()
    assert (fullness.nodes, fullness.in_use, fullness.empty) == (3, 1, 2)
    assert (fullness.cpu_percent, fullness.in_use_percent) == (30.0, 90.0)
    assert fullness.histogram == (2, 0, 0, 0, 0, 1)


@pytest.mark.parametrize(
    ("pods", "percent", "name"),
    [(0, 0.0, "empty"), (1, 0.0, "to 20 %"), (1, 20.0, "to 20 %"), (1, 20.1, "to 40 %"), (1, 100.0, "to 100 %")],
)
def test_a_node_falls_into_the_bucket_that_its_name_says(pods: int, percent: float, name: str) -> None:
    assert BUCKETS[bucket(pods, percent)] == name


def test_the_rate_is_of_the_last_two_seconds_and_the_peak_of_the_best_one() -> None:
    picture = make_picture(make_node("n1", "a"))
    for number, at_seconds in enumerate((1.0, 1.2, 1.9, 3.5)):
        picture.observe("Pod", "ADDED", make_pod(f"p{number}", node="n1", cpu_millicores=10), at_seconds)
    assert picture.rate(3.6) == 1.0  # those at 1.9 and at 3.5
    assert picture.rate(9.0) == 0.0
    assert (picture.peak_rate(), picture.busy_seconds()) == (3, 2)
    assert picture.rates(4.0, 4) == [0, 3, 0, 1]


def test_the_curve_of_waiting_pods_keeps_the_most_of_each_second() -> None:
    picture = make_picture(make_node("n1", "a"), make_pod("p"), make_pod("q"))
    picture.note_waiting(1.1)
    picture.observe("Pod", "MODIFIED", make_pod("p", node="n1"), 1.5)
    picture.note_waiting(1.6)
    picture.note_waiting(2.1)
    assert picture.waits(3.0, 3) == [0, 2, 1]


def test_decisions_are_told_apart_by_the_generation_that_was_in_force() -> None:
    picture = make_picture(make_node("n1", "a"), make_node("n2", "a"), make_policy(1), make_pod("p", node="n1"))
    picture.observe("SchedulingPolicy", "MODIFIED", make_policy(2, active=1, packing=True), 2.0)
    assert policy_of(picture) == (True, False)
    picture.observe("Pod", "ADDED", make_pod("q", node="n2"), 2.0)
    picture.observe("SchedulingPolicy", "MODIFIED", make_policy(2, packing=True), 3.0)
    picture.observe("Pod", "ADDED", make_pod("r", node="n2"), 3.0)
    assert policy_of(picture) == (True, True)
    assert {generation: tally.pods for generation, tally in picture.tallies.items()} == {1: 2, 2: 1}
    assert picture.tallies[1].nodes == {"n1", "n2"}


def policy_of(picture: Picture) -> tuple[bool, bool]:
    assert picture.policy is not None
    return picture.policy.is_packing, picture.policy.in_force


def test_bookmarks_and_other_kinds_change_nothing() -> None:
    picture = make_picture(make_node("n1", "a"))
    picture.observe("Pod", "BOOKMARK", {"metadata": {"resourceVersion": "7"}}, 1.0)
    picture.observe("Lease", "ADDED", {"metadata": {"name": "x", "uid": "u"}}, 1.0)
    assert picture.fullness().nodes == 1
    assert not picture.waiting()


def test_a_policy_that_is_deleted_is_no_longer_shown() -> None:
    picture = make_picture(make_policy(1))
    picture.observe("SchedulingPolicy", "DELETED", make_policy(1), 1.0)
    assert picture.policy is None
