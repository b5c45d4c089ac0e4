"""Why a pod is on its node, and two nodes compared, plugin by plugin."""

import pytest

from berth.explain import NoComparison, PodState
from berth.explain.records import Evidence
from explain.clusters import World, explain
from policy.builders import make_policy
from support.builders import make_node, make_pod


def cluster() -> World:
    return World(
        make_node("n1", cpu="4"),
        make_node("n2", cpu="4"),
        make_node("n3", cpu="4", taints=[("gpu", "", "NoSchedule")]),
        make_pod("busy", cpu="2", node="n2"),
        make_pod("web", cpu="1", node="n1"),
    )


def test_a_bound_pod_is_judged_again_as_if_it_were_not_there() -> None:
    said = cluster().explain()
    choice = said.choice
    assert (said.state, said.node) == (PodState.BOUND, "n1")
    assert choice is not None
    assert choice.chosen is not None
    assert (choice.evidence, choice.evaluated, choice.feasible) == (Evidence.JUDGED_AGAIN, 3, 2)
    assert (choice.chosen.node, [other.node for other in choice.others]) == ("n1", ["n2"])
    assert choice.chosen.total == sum(score.points for score in choice.chosen.scores) > choice.others[0].total
    assert choice.message == (
        f"Judged again, as if it had no node: n1 has {choice.chosen.total} points, the most of 2 nodes that fit."
    )


def test_the_scores_have_their_weights() -> None:
    choice = cluster().explain().choice
    assert choice is not None
    assert choice.chosen is not None
    weights = {score.plugin: score.weight for score in choice.chosen.scores}
    assert weights["TaintToleration"] == 3
    assert weights["NodeResourcesFit"] == 1


def test_a_node_that_is_worse_today_is_said_to_be() -> None:
    said = World(
        make_node("n1", cpu="4"),
        make_node("n2", cpu="4"),
        make_pod("x", cpu="3", node="n1"),
        make_pod("web", node="n1"),
    ).explain()
    assert said.choice is not None
    assert "and 1 of the 2 nodes that fit have more today" in said.choice.message


def test_a_node_that_would_not_take_the_pod_any_more_says_why() -> None:
    said = explain(make_node("n1", unschedulable=True), make_node("n2"), make_pod("web", node="n1"))
    assert said.choice is not None
    assert said.choice.chosen is None
    assert said.choice.message == "n1 would not take it today: node(s) were unschedulable."


def test_a_node_that_is_gone_is_not_known() -> None:
    said = explain(make_node("n2"), make_pod("web", node="n1"))
    assert said.choice is not None
    assert said.choice.message == "Node n1 is not known."


def test_the_only_node_that_fits_has_no_others_beside_it() -> None:
    said = explain(make_node("n1"), make_node("n2", cpu="0"), make_pod("web", cpu="1", node="n1"))
    assert said.choice is not None
    assert said.choice.message.endswith("n1 is the only node that fits.")


def test_a_tie_says_how_it_is_broken() -> None:
    policy = make_policy("first", schedulerName="first", tieBreak="First")
    said = explain(policy, make_node("n1"), make_node("n2"), make_pod("web", node="n1", scheduler="first"))
    assert said.choice is not None
    assert said.choice.message.endswith("as many as 1 other node; the first by name is taken.")


def test_a_bound_pod_of_another_scheduler_is_not_ours() -> None:
    said = explain(make_node("n1"), make_pod("web", node="n1", scheduler="default-scheduler"))
    assert said.state is PodState.OTHER_SCHEDULER
    assert (said.node, said.choice) == ("n1", None)


def test_the_pod_is_back_on_its_node_afterwards() -> None:
    world = cluster()
    before = world.cache.state.table.used.copy()
    world.explain(every_node=True)
    world.compare("n1", "n2")
    assert (world.cache.state.table.used == before).all()
    assert world.cache.state.table.placed("pod-default-web") is not None


# --- two nodes -------------------------------------------------------------------------------------------------------


def test_two_nodes_are_compared_plugin_by_plugin() -> None:
    comparison = cluster().compare("n2", "n1")
    assert (comparison.first.node, comparison.second.node) == ("n2", "n1")
    assert comparison.first.total is not None
    assert comparison.second.total is not None
    assert comparison.first.total < comparison.second.total
    gap = comparison.first.total - comparison.second.total
    assert sum(plugin.difference for plugin in comparison.plugins) == gap
    assert comparison.plugins[0].plugin == "NodeResourcesFit"
    assert comparison.message.endswith("most of them by NodeResourcesFit.")


def test_a_node_that_is_rejected_says_by_whom() -> None:
    comparison = cluster().compare("n1", "n3")
    assert (comparison.first.fits, comparison.second.fits) == (True, False)
    assert [(said.plugin, said.codes) for said in comparison.second.refusals] == [
        ("TaintToleration", ("UntoleratedTaint",))
    ]
    assert comparison.message == f"n1 fits with {comparison.first.total} points, n3 does not fit."


def test_what_cannot_be_compared_is_said() -> None:
    with pytest.raises(NoComparison, match="node nowhere is not known"):
        cluster().compare("n1", "nowhere")
    world = World(make_node("n1"), make_node("n2"), make_pod("web", scheduler="other"))
    with pytest.raises(NoComparison, match="no SchedulingPolicy decides for pod default/web"):
        world.compare("n1", "n2")
