"""Rollout after rollout the engine counts the pods that are there, and keeps nothing of those that are gone."""

import gc
import tracemalloc
from collections.abc import Iterable, Mapping
from random import Random

import numpy as np
import pytest

from berth.engine.pipeline import Placement
from berth.engine.state.pod_counts import KEPT_QUESTIONS
from berth.engine.state.state import State
from berth.model import Pod, parse_node, parse_pod
from berth.policy import BUILT_IN, compile_policy
from support.builders import REVISION, Body, make_node, make_pod, revision_rules

DEPLOYMENTS = 40
ROLLOUTS = 10
CROWD, STAYING = 4000, 400
ZONE = "topology.kubernetes.io/zone"
HOSTNAME = "kubernetes.io/hostname"


class Fleet:
    """Deployments of two pods, with selectors of their own and new ones in each revision."""

    def __init__(self) -> None:
        self.state = State()
        for number in range(12):
            labels = {HOSTNAME: f"n{number}", ZONE: f"z{number % 3}"}
            self.state.table.set_node(parse_node(make_node(f"n{number}", cpu="64", memory="256Gi", labels=labels)))
        self._pipeline, self._random = compile_policy(BUILT_IN), Random(0)
        self._placed: dict[int, list[str]] = {}

    def roll_out(self, deployments: Iterable[int], revision: int) -> None:
        for deployment in deployments:
            old, self._placed[deployment] = self._placed.get(deployment, []), []
            for replica in range(2):
                self._place(deployment, parse_pod(_pod(deployment, revision, replica)))
                if old:
                    self.state.table.remove_pod(old.pop())

    def _place(self, deployment: int, pod: Pod) -> None:
        decision = self._pipeline.decide(pod, self.state, self._random)
        assert isinstance(decision, Placement), decision
        self.state.table.add_pod(pod, decision.node)
        self._placed[deployment].append(pod.uid)

    def remove(self) -> None:
        for uids in self._placed.values():
            for uid in uids:
                self.state.table.remove_pod(uid)
        self._placed.clear()

    @property
    def statistics(self) -> Mapping[str, int]:
        return self.state.table.statistics()


def _pod(deployment: int, revision: int, replica: int) -> Body:
    app, template = f"fleet-{deployment}", f"{deployment}-{revision}"
    return make_pod(
        f"fleet-{template}-{replica}",
        labels={"app": app, REVISION: template},
        cpu="10m",
        image=f"example.com/{app}:v{revision}",
        **revision_rules(app, template),
    )


@pytest.fixture
def fleet() -> Fleet:
    return Fleet()


def test_what_is_counted_of_pods_is_bounded_by_the_pods_that_are_there(fleet: Fleet) -> None:
    for revision in range(ROLLOUTS + 1):
        fleet.roll_out(range(DEPLOYMENTS), revision)
        found = fleet.statistics
        assert found["pods"] == 2 * DEPLOYMENTS
        assert found["pod_groups"] == DEPLOYMENTS
        assert found["carried_terms"] == DEPLOYMENTS
        assert found["pod_questions"] <= KEPT_QUESTIONS


def test_nothing_is_counted_of_pods_that_are_gone(fleet: Fleet) -> None:
    fleet.roll_out(range(DEPLOYMENTS), 0)
    fleet.remove()
    found = fleet.statistics
    assert (found["pods"], found["pod_groups"], found["carried_terms"]) == (0, 0, 0)


def test_room_for_many_pods_is_given_back_when_most_are_gone() -> None:
    table = State().table
    pods = [parse_pod(_pod(number, 0, 0)) for number in range(CROWD)]
    gc.collect()
    tracemalloc.start()
    try:
        for number, pod in enumerate(pods):
            table.add_pod(pod, f"n{number % 12}")
        full, _ = tracemalloc.get_traced_memory()
        for pod in pods[STAYING:]:
            table.remove_pod(pod.uid)
        left, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert left < full * 2 * STAYING / CROWD
    assert len(table.pods.row) < CROWD // 4
    staying = {uid: pod for number in range(12) for uid, pod in table.pods_on(f"n{number}").items()}
    assert staying == {pod.uid: pod for pod in pods[:STAYING]}
    slots = np.flatnonzero(table.pods.row >= 0).tolist()
    assert {table.pods.record(slot).uid for slot in slots} == set(staying)


def test_slots_of_pods_stay_while_pods_are_moved_tentatively() -> None:
    table = State().table
    pods = [parse_pod(_pod(number, 0, 0)) for number in range(CROWD)]
    for pod in pods:
        table.add_pod(pod, "n")
    slots = len(table.pods.row)
    with table.trying():
        for pod in pods:
            table.remove_pod(pod.uid)
        assert len(table.pods.row) == slots
        for pod in pods:
            table.add_pod(pod, "n")
    assert len(table.pods.row) == slots


def test_a_second_fleet_leaves_no_more_behind_than_the_first(fleet: Fleet) -> None:
    for revision in range(2 * ROLLOUTS):
        fleet.roll_out(range(DEPLOYMENTS), revision)
    fleet.remove()
    first = fleet.statistics
    for revision in range(ROLLOUTS):
        fleet.roll_out(range(DEPLOYMENTS, 3 * DEPLOYMENTS), revision)
    fleet.remove()
    assert fleet.statistics == first
