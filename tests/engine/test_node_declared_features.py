"""NodeDeclaredFeatures: a pod that relies on features of the kubelet goes where the node declares them all."""

from random import Random
from typing import Any

from berth.engine.diagnosis import Diagnosis
from berth.engine.pipeline import Pipeline, Placement
from berth.engine.state.state import State
from berth.model import parse_node, parse_pod
from engine.expecting import as_diagnosis, make_filter
from engine.worlds import state_of
from support.builders import Body, make_node, make_pod

USER_NAMESPACES = "UserNamespacesHostNetworkSupport"
RESTART_ALL = "RestartAllContainersOnContainerExits"
REFUSED = "0/2 nodes are available: 2 node(s) didn't match Pod's required features."


def decide(pipeline: Pipeline, state: State, pod: Body) -> Placement | Diagnosis:
    return pipeline.decide(parse_pod(pod), state, Random(0))


def pipeline() -> Pipeline:
    return Pipeline([make_filter("NodeDeclaredFeatures")], [])


def in_user_namespace(**spec: Any) -> Body:
    return make_pod("p", hostNetwork=True, hostUsers=False, **spec)


def restarting() -> list[Body]:
    rules = [{"action": "RestartAllContainers", "exitCodes": {"operator": "In", "values": [1]}}]
    return [{"name": "init", "image": "i", "restartPolicyRules": rules}]


def test_a_pod_goes_to_the_node_that_declares_what_it_relies_on() -> None:
    nodes = [make_node("a", declared_features=["Other"]), make_node("b", declared_features=["Other", USER_NAMESPACES])]
    assert decide(pipeline(), state_of(nodes), in_user_namespace()) == Placement("b", 2, 1)


def test_every_feature_that_the_pod_relies_on_has_to_be_declared() -> None:
    nodes = [make_node("a", declared_features=[USER_NAMESPACES]), make_node("b", declared_features=[RESTART_ALL])]
    pod = in_user_namespace(initContainers=restarting())
    answer = decide(pipeline(), state_of(nodes), pod)
    assert isinstance(answer, Diagnosis)
    assert answer.message == REFUSED


def test_a_pod_that_relies_on_nothing_goes_anywhere() -> None:
    for pod in (make_pod("p"), make_pod("p", hostNetwork=True), make_pod("p", hostUsers=False)):
        assert isinstance(decide(pipeline(), state_of([make_node("a")]), pod), Placement)


def test_a_node_that_begins_to_declare_a_feature_takes_the_pod_from_then_on() -> None:
    state, asked = state_of([make_node("a"), make_node("b")]), pipeline()
    assert as_diagnosis(decide(asked, state, in_user_namespace())).message == REFUSED
    state.table.set_node(parse_node(make_node("b", declared_features=[USER_NAMESPACES])))
    assert decide(asked, state, in_user_namespace()) == Placement("b", 2, 1)
    state.table.set_node(parse_node(make_node("b")))
    assert as_diagnosis(decide(asked, state, in_user_namespace())).message == REFUSED
