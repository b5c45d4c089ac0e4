"""The state that lived through everything equals one made from scratch, and decides as the naive reference engine does.

A machine takes objects from random cases of every theme, as new objects and as new versions of old ones, takes them
away again, and asks about pods. Three things must hold at every moment: each column and counter is what a rebuild
gives; each verdict, reason by reason and score by score, is the reference's; and each decision, with all that is kept
between decisions, falls on one of the reference's best nodes.

CI sets more examples than a developer's run; `make test ARGS='-k incremental --hypothesis-profile=explore'` looks for
new ones.
"""

import copy
import os
from datetime import UTC, datetime, timedelta
from functools import cache as cached
from random import Random
from typing import Any

import numpy as np
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from berth.engine.pipeline import Pipeline, Placement
from berth.engine.preemption.preemption import Preemption
from berth.engine.state.pod_counts import PodMatch
from berth.engine.state.state import State
from berth.judge.verdicts import verdict_on
from berth.model import LabelSelector, Pod, Requirement, object_key, parse_pod
from berth.policy import import_configuration, load_policy
from berth.scheduler.cache.cache import Cache
from conformance.agreement import differences
from conformance.oracle.generator import current_cases
from engine.picture import picture
from reference import engine as reference
from reference.profile import profile_of
from reference.world import World
from support.examples import examples

EXAMPLES = 500 if os.environ.get("CI") else examples(40)
STEPS = 50
CASES_A_THEME = 6
NODES_A_CASE = 6

NUMBER = st.integers(0, 2**16)
LABEL_KEYS = ("kubernetes.io/hostname", "topology.kubernetes.io/zone", "rack", "disk")
QUESTIONS = tuple(
    (PodMatch(selector, namespaces, namespace_selector),)
    for selector in (
        LabelSelector(()),
        LabelSelector((Requirement("app", "In", ("web",)),)),
        LabelSelector((Requirement("tier", "NotIn", ("1",)),)),
    )
    for namespaces, namespace_selector in (
        (frozenset({"default"}), None),
        (frozenset[str](), LabelSelector((Requirement("team", "In", ("team-a", "default")),))),
    )
)


@cached
def pool() -> list[dict[str, Any]]:
    return list(current_cases("lives", CASES_A_THEME, NODES_A_CASE))


@cached
def configurations() -> list[dict[str, Any]]:
    """The default, and a few that differ from it in what their plugins do."""
    named = ("nodeaffinity", "interpod", "defaultspread", "mix")
    default = {"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration", "profiles": [{}]}
    return [default, *(next(c["config"] for c in pool() if c["id"].startswith(name) and _differs(c)) for name in named)]


def _differs(case: dict[str, Any]) -> bool:
    return len(case["config"]["profiles"][0]) > 1


def _time(seconds: int) -> str:
    return (datetime(2026, 1, 1, tzinfo=UTC) + timedelta(seconds=seconds)).strftime("%Y-%m-%dT%H:%M:%SZ")


@cached
def probes() -> list[Pod]:
    return [parse_pod(case["pod"]) for case in pool()[:: CASES_A_THEME * 2]]


def picture_of(state: State) -> dict[str, Any]:
    asked = [(question, terminating, False) for question in QUESTIONS for terminating in (True, False)]
    return picture(state, asked, LABEL_KEYS, probes())


class Lives(RuleBasedStateMachine):
    @initialize(first=NUMBER)
    def begin(self, first: int) -> None:
        self.cache = Cache()
        self.bodies: dict[tuple[str, str], dict[str, Any]] = {}
        self.version = 0
        self.serial = 0
        self.pipelines: dict[int, Pipeline] = {}
        for body in pool()[first % len(pool())]["objects"]:
            self._put(body)

    @rule(case=NUMBER, which=NUMBER)
    def an_object_comes_or_changes(self, case: int, which: int) -> None:
        objects = pool()[case % len(pool())]["objects"]
        self._put(objects[which % len(objects)])

    @rule(case=NUMBER)
    def pods_come(self, case: int) -> None:
        for body in [b for b in pool()[case % len(pool())]["objects"] if b["kind"] == "Pod"][:6]:
            self._put(body)

    @precondition(lambda self: self.bodies)
    @rule(which=NUMBER)
    def an_object_goes(self, which: int) -> None:
        kind, key = sorted(self.bodies)[which % len(self.bodies)]
        body = self.bodies.pop((kind, key))
        self.cache.remove(kind, self._stamped(body))

    @precondition(lambda self: self.bodies)
    @rule(which=NUMBER)
    def a_list_tells_it_again(self, which: int) -> None:
        kind, key = sorted(self.bodies)[which % len(self.bodies)]
        self.cache.observe(kind, self.bodies[kind, key])

    @rule()
    def what_was_held_for_pods_that_are_gone_is_given_back(self) -> None:
        self.cache.state.table.compact()

    @rule(case=NUMBER, configuration=NUMBER, then=st.sampled_from(["bound", "forgotten", "left"]))
    def a_pod_is_decided(self, case: int, configuration: int, then: str) -> None:
        self.serial += 1
        body = copy.deepcopy(pool()[case % len(pool())]["pod"])
        name = f"decided-{self.serial}"
        body["metadata"] |= {"uid": f"pod-{body['metadata']['namespace']}/{name}", "name": name}
        pod = parse_pod(body)
        number = configuration % len(configurations())
        config = configurations()[number]
        pipeline = self.pipelines.get(number) or load_policy(import_configuration(config).manifests[0]).pipeline
        self.pipelines[number] = pipeline
        want = reference.judge(World.of(self.bodies.values()), profile_of(config), pod)
        assert list(differences(want, verdict_on(pod, pipeline, self.cache.state, Preemption()))) == []
        said = pipeline.decide(pod, self.cache.state, Random(self.serial))
        if not isinstance(said, Placement):
            assert want["feasible"] == []
            return
        assert said.feasible == len(want["feasible"])
        assert said.node in (want["best"] if said.feasible > 1 else want["feasible"])
        self._follow(body, pod, said.node, then)

    def _follow(self, body: dict[str, Any], pod: Any, node: str, then: str) -> None:
        if then == "left":
            return
        self._put(body)
        self.cache.assume(pod, node)
        if then == "forgotten":
            self.cache.forget(pod.uid)
            return
        self._put({**body, "spec": {**body["spec"], "nodeName": node}, "status": {"phase": "Running"}})

    @invariant()
    def every_column_and_counter_is_what_a_rebuild_gives(self) -> None:
        if not hasattr(self, "cache"):
            return
        rebuilt = Cache()
        for (kind, _), body in sorted(self.bodies.items(), key=lambda item: item[0]):
            rebuilt.observe(kind, body)
        assert picture_of(self.cache.state) == picture_of(rebuilt.state)
        table = self.cache.state.table
        assert np.array_equal(table.free, table.allocatable - table.used)
        for column in ("allocatable", "used", "nonzero"):
            assert np.array_equal(getattr(table.floats, column), getattr(table, column))

    def _put(self, body: dict[str, Any]) -> None:
        """A new object, or a new version of the one of that name; Kubernetes never moves a pod."""
        place = (body["kind"], object_key(body))
        before = self.bodies.get(place)
        body = copy.deepcopy(body)
        if body["kind"] == "Pod":
            body["metadata"]["uid"] = f"pod-{place[1]}"
            if before is not None and before["spec"].get("nodeName"):
                body["spec"]["nodeName"] = before["spec"]["nodeName"]
            if body["spec"].get("nodeName"):  # no two at once: which of two is more important must not be a tie
                body["status"] = {**body["status"], "startTime": _time(self.version)}
        self.bodies[place] = self._stamped(body)
        self.cache.observe(body["kind"], self.bodies[place])

    def _stamped(self, body: dict[str, Any]) -> dict[str, Any]:
        self.version += 1
        return {**body, "metadata": {**body["metadata"], "resourceVersion": str(self.version)}}


TestIncremental = Lives.TestCase
TestIncremental.settings = settings(
    max_examples=EXAMPLES,
    stateful_step_count=STEPS,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
)
