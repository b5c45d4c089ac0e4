"""Policies beside and on top of each other: selectors, bases, modes, shadows, and the built-in one behind them."""

from __future__ import annotations

from control_plane.client import POLICIES, Client, Object
from end_to_end.policing import (
    GENERATION,
    NAME,
    PACK,
    apply,
    condition,
    decided,
    in_namespace,
    is_decided,
    node_of,
    policy,
    pool,
    relabel,
    told_by,
    wait_bound,
    wait_for_condition,
    wait_for_policies,
    wait_forgotten,
    wait_in_force,
    wait_judged,
    wait_refused,
)
from end_to_end.watching import Plane, StartBerth
from support.builders import make_node, make_pod


async def make_pools(api: Client, *numbers: int) -> None:
    """A node for each, with label pool."""
    await api.create_many(make_node(f"n{number}", labels={"pool": f"p{number}"}) for number in numbers)


# --- selectors -------------------------------------------------------------------------------------------------------


async def test_namespaces_and_labels_choose_the_policy_and_more_selectors_come_first(
    control_plane: Plane, api: Client, berth_process: StartBerth
) -> None:
    await make_pools(api, 1, 2, 3)
    await api.create(in_namespace("research", team="research"))
    team = {"matchLabels": {"team": "research"}}
    urgent = {"matchExpressions": [{"key": "urgent", "operator": "Exists"}]}
    await apply(
        control_plane,
        api,
        pool("everybody", "shared", 1),
        pool("research", "shared", 2, namespaceSelector=team),
        pool("urgent", "shared", 3, namespaceSelector=team, podSelector=urgent),
    )
    berth_process()
    for number, (namespace, labels) in enumerate(
        (("default", {}), ("research", {}), ("research", {"urgent": "yes"}), ("default", {"urgent": "yes"}))
    ):
        pod = await decided(api, make_pod(f"p{number}", namespace=namespace, labels=labels, scheduler="shared"))
        expected = ["everybody", "research", "urgent", "everybody"][number]
        assert (node_of(pod), pod["metadata"]["annotations"][NAME]) == (f"n{[1, 2, 3, 1][number]}", expected)


async def test_a_pod_that_waits_goes_to_the_policy_that_its_new_labels_choose(
    control_plane: Plane, api: Client, berth_process: StartBerth
) -> None:
    await make_pools(api, 2, 3)
    await api.create(in_namespace("research"))
    await apply(
        control_plane,
        api,
        pool("everybody", "shared", 1),  # which no node is in
        pool("labelled", "shared", 2, podSelector={"matchLabels": {"urgent": "yes"}}),
        pool("research", "shared", 3, namespaceSelector={"matchLabels": {"team": "research"}}),
    )
    berth_process()
    first = await decided(api, make_pod("first", scheduler="shared"))
    second = await decided(api, make_pod("second", namespace="research", scheduler="shared"))
    assert (node_of(first), node_of(second)) == ("", "")

    await relabel(api, first, urgent="yes")
    assert (await wait_bound(api, first))["metadata"]["annotations"][NAME] == "labelled"
    await relabel(api, in_namespace("research"), team="research")
    assert (await wait_bound(api, second))["metadata"]["annotations"][NAME] == "research"


async def test_a_pod_that_no_policy_of_its_name_selects_waits_and_is_told_why(
    control_plane: Plane, api: Client, berth_process: StartBerth
) -> None:
    await api.create(make_node("n"))
    selector = {"matchLabels": {"urgent": "yes"}}
    await apply(control_plane, api, policy("urgent", "shared", podSelector=selector))
    berth_process()
    pod = await decided(api, make_pod("calm", scheduler="shared"))
    told = await wait_refused(api, pod, "no SchedulingPolicy with schedulerName shared decides for this pod")
    assert "urgent (podSelector)" in str(told["status"]["conditions"])
    await relabel(api, pod, urgent="yes")
    await wait_bound(api, pod)


# --- bases -----------------------------------------------------------------------------------------------------------


async def test_an_edit_of_a_base_reaches_what_stands_on_it_and_a_bad_one_does_not(
    control_plane: Plane, api: Client, berth_process: StartBerth
) -> None:
    await make_pools(api, 1, 2)
    bottom = pool("bottom", "nobody", 1, mode="Disabled")
    middle, top = policy("middle", "nobody-else", base="bottom"), policy("top", "mine", base="middle")
    await apply(control_plane, api, top, middle, bottom)
    berth = berth_process()
    before = (await wait_in_force(api, "top"))["status"]
    pod = await decided(api, make_pod("first", scheduler="mine"))
    assert (node_of(pod), pod["metadata"]["annotations"]) == ("n1", {NAME: "top", GENERATION: "1"})

    await apply(control_plane, api, pool("bottom", "nobody", 2, mode="Disabled"))
    found = await wait_for_policies(api, lambda all_: all_["top"]["status"]["activeHash"] != before["activeHash"])
    assert found["top"]["status"]["activeGeneration"] == 1
    pod = await decided(api, make_pod("second", scheduler="mine"))
    assert (node_of(pod), pod["metadata"]["annotations"]) == ("n2", {NAME: "top", GENERATION: "1"})

    await apply(control_plane, api, policy("bottom", "nobody", {"name": "Astrology"}, mode="Disabled"))
    await wait_for_condition(api, "bottom", "Accepted", "False", "Invalid")
    assert node_of(await decided(api, make_pod("third", scheduler="mine"))) == "n2"

    await api.delete(f"{POLICIES}/bottom")
    await wait_for_condition(api, "middle", "Accepted", "False", "Invalid")
    assert node_of(await decided(api, make_pod("fourth", scheduler="mine"))) == "n2"
    assert berth.stop() == 0
    last = await api.get(f"{POLICIES}/middle")
    assert "spec.base: there is no valid SchedulingPolicy bottom" in told_by(last, "Accepted")["message"]
    assert condition(last, "Active") == ("True", "LastGoodInForce")


# --- modes -----------------------------------------------------------------------------------------------------------


async def test_a_disabled_policy_makes_its_pods_wait_until_it_is_active_again(
    control_plane: Plane, api: Client, berth_process: StartBerth
) -> None:
    await api.create(make_node("n"))
    await apply(control_plane, api, policy("mine", "mine", mode="Disabled"))
    berth_process()
    pod = await decided(api, make_pod("waits", scheduler="mine"))
    await wait_refused(api, pod, "disabled: mine")
    await wait_for_condition(api, "mine", "Active", "False", "Disabled")
    await apply(control_plane, api, policy("mine", "mine"))
    await wait_bound(api, pod)


async def test_a_shadow_judges_what_it_matches_binds_nothing_and_reports_with_examples(
    control_plane: Plane, api: Client, berth_process: StartBerth
) -> None:
    await api.create_many(make_node(f"n{number}", cpu=10, memory="10Gi") for number in (1, 2))
    nowhere = {"name": "nowhere", "expression": "false", "message": "node(s) are not for this"}
    everywhere = [{"name": "NodeResourcesFit", "enabled": False}]
    await apply(
        control_plane,
        api,
        policy("packing", "berth", PACK, mode="Shadow"),
        policy("strict", "berth", mode="Shadow", predicates=[nowhere]),
        policy("lax", "berth", mode="Shadow", predicates=everywhere),
        policy("elsewhere", "others", mode="Shadow"),
    )
    berth = berth_process()
    for number in range(4):
        assert node_of(await decided(api, make_pod(f"p{number}", cpu=1, memory="1Gi")))
        await wait_judged(berth, number + 1, "packing", "strict", "lax")  # before the next pod changes the cluster
    assert node_of(await decided(api, make_pod("huge", cpu=100))) == ""
    await wait_judged(berth, 5, "packing", "strict", "lax")
    assert berth.stop() == 0

    found = {each["metadata"]["name"]: each["status"] for each in await api.list(POLICIES)}
    shadows = {name: status["shadow"] for name, status in found.items()}
    assert {name: status["placed"] for name, status in found.items()} == dict.fromkeys(found, 0)
    assert (shadows["strict"]["unplaced"], shadows["strict"]["same"]) == (4, 1)  # the huge one has no place with either
    assert (shadows["lax"]["gained"], shadows["lax"]["judged"]) == (1, 5)
    assert shadows["packing"]["different"] == 2  # the second and the fourth go to the node with less on it
    assert shadows["elsewhere"]["judged"] == 0
    example = shadows["strict"]["examples"][-1]
    assert (example["pod"], example["shadow"]) == ("default/p3", "")
    assert "2 node(s) are not for this" in example["message"]
    [example] = shadows["lax"]["examples"]
    assert (example["pod"], example["active"]) == ("default/huge", "")
    assert example["shadow"] in ("n1", "n2")


async def test_pods_of_a_name_that_only_a_shadow_has_are_left_alone(
    control_plane: Plane, api: Client, berth_process: StartBerth
) -> None:
    await api.create(make_node("n"))
    await apply(control_plane, api, policy("watching", "theirs", mode="Shadow"))
    berth_process()
    await api.create(make_pod("theirs", scheduler="theirs"))
    await decided(api, make_pod("ours"))
    assert not is_decided(await api.get("/api/v1/namespaces/default/pods/theirs"))


# --- the built-in policy ---------------------------------------------------------------------------------------------


async def test_the_built_in_policy_serves_its_name_while_no_policy_has_it(
    control_plane: Plane, api: Client, berth_process: StartBerth
) -> None:
    await make_pools(api, 1, 2)
    berth_process()
    assert NAME not in (await decided(api, make_pod("before")))["metadata"].get("annotations", {})
    await apply(control_plane, api, pool("a", "berth", 1), pool("b", "berth", 2))
    await wait_in_force(api, "a")
    assert (await decided(api, make_pod("first")))["metadata"]["annotations"][NAME] == "a"
    await api.delete(f"{POLICIES}/a")
    await wait_in_force(api, "b")
    assert (await decided(api, make_pod("second")))["metadata"]["annotations"][NAME] == "b"
    stuck = await decided(api, make_pod("stuck", node_selector={"pool": "p1"}))
    assert node_of(stuck) == ""
    await api.delete(f"{POLICIES}/b")  # the last one
    after = await wait_bound(api, stuck)
    assert node_of(after) == "n1"
    assert NAME not in after["metadata"].get("annotations", {})


async def test_switched_off_it_serves_nobody_and_pods_are_told(
    control_plane: Plane, api: Client, berth_process: StartBerth
) -> None:
    await api.create(make_node("n"))
    berth = berth_process("--no-built-in-policy")
    pod = await decided(api, make_pod("early"))
    await wait_refused(
        api,
        pod,
        "no SchedulingPolicy with schedulerName berth decides for this pod: there is none; "
        "the built-in policy is switched off",
    )
    await apply(control_plane, api, policy("mine", "berth"))
    await wait_bound(api, pod)
    await api.delete(f"{POLICIES}/mine")
    await wait_forgotten(berth, "mine")  # Berth watches pods apart: one that is seen first is the policy's still
    late = await decided(api, make_pod("late"))
    await wait_refused(api, late, "the built-in policy is switched off")


# --- preemption ------------------------------------------------------------------------------------------------------


async def test_a_policy_says_whether_its_pods_push_others_out_and_its_status_counts_them(
    control_plane: Plane, api: Client, berth_process: StartBerth
) -> None:
    await api.create_many(make_node(name, cpu=2, labels={"kept-for": name}) for name in ("gentle", "firm"))
    kind = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass"}
    await api.create_many({**kind, "metadata": {"name": name}, "value": value} for name, value in CLASSES.items())
    await apply(
        control_plane,
        api,
        policy("firm", "firm"),
        policy("gentle", "gentle", base="firm", preemption={"enabled": False}),
    )
    berth = berth_process()
    for name in ("gentle", "firm"):
        for number in (1, 2):
            await decided(api, _ranked(f"{name}-low-{number}", name, "low"))
    stuck, pushing = _ranked("gentle-high", "gentle", "high"), _ranked("firm-high", "firm", "high")
    assert node_of(await decided(api, stuck)) == ""
    await decided(api, pushing)
    assert node_of(await wait_bound(api, pushing)) == "firm"
    assert berth.stop() == 0

    found = {each["metadata"]["name"]: each["status"] for each in await api.list(POLICIES)}
    assert {name: status["preempted"] for name, status in found.items()} == {"firm": 1, "gentle": 0}
    assert (found["firm"]["placed"], found["gentle"]["placed"], found["gentle"]["pending"]) == (3, 2, 1)


CLASSES = {"low": 1, "high": 1000}


def _ranked(name: str, scheduler: str, rank: str) -> Object:
    """A pod for the node of its policy that, deleted, is gone at once: nobody has to end it."""
    return make_pod(
        name,
        cpu=1,
        scheduler=scheduler,
        node_selector={"kept-for": scheduler},
        priorityClassName=rank,
        terminationGracePeriodSeconds=0,
    )
