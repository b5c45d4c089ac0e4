"""Why a pod is pending: reasons, what comes closest, never or not now, preemption, advice."""

from typing import Any

import pytest

from berth.explain import Explanation, PodState
from berth.explain.records import Outlook, PreemptionCode
from explain.clusters import World, explain
from policy.builders import make_policy
from support.builders import make_node, make_object, make_pod

REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
ZONE = "topology.kubernetes.io/zone"
HOST = "kubernetes.io/hostname"


def near(app: str, key: str = ZONE) -> dict[str, object]:
    return {REQUIRED: [{"labelSelector": {"matchLabels": {"app": app}}, "topologyKey": key}]}


def details(said: Explanation) -> dict[str, list[str]]:
    """By code: the nodes that come closest, and what is in the way there."""
    return {reason.code: [f"{miss.node} {miss.detail}" for miss in reason.nearest] for reason in said.reasons}


# --- reasons ---------------------------------------------------------------------------------------------------------


def test_a_reason_has_the_nodes_that_come_closest_with_what_they_lack() -> None:
    said = explain(
        make_node("n1", cpu="1"),
        make_node("n2", cpu="2"),
        make_pod("other", cpu="1040m", node="n2"),
        make_pod("web", cpu="1200m"),
    )
    assert said.state is PodState.UNSCHEDULABLE
    assert said.scheduler_message == "0/2 nodes are available: 2 Insufficient cpu."
    (reason,) = said.reasons
    assert (reason.code, reason.plugin, reason.nodes, reason.alone) == (
        "InsufficientResource",
        "NodeResourcesFit",
        2,
        2,
    )
    assert [f"{miss.node} {miss.detail}" for miss in reason.nearest] == [
        "n1 lacks 200m cpu: 1200m asked for, 1 free",
        "n2 lacks 240m cpu: 1200m asked for, 960m free",
    ]
    assert [miss.lacking for miss in reason.nearest] == [200, 240]


def test_what_nominated_pods_will_use_is_not_free() -> None:
    said = explain(
        make_node("n1", cpu="2"), make_pod("first", cpu="1500m", nominated="n1", priority=5), make_pod("web", cpu="1")
    )
    assert said.reasons[0].nearest[0].detail == "lacks 500m cpu: 1 asked for, 500m free"


def test_every_kind_of_reason_says_what_is_in_the_way() -> None:
    nodes = [make_node("n1", labels={"disk": "hdd", ZONE: "a", HOST: "n1"}, taints=[("gpu", "a", "NoSchedule")])]
    assert details(explain(*nodes, make_pod("web"))) == {"UntoleratedTaint": ["n1 has the taint gpu=a:NoSchedule"]}
    plain = make_node("n1", labels={"disk": "hdd", ZONE: "a", HOST: "n1"})
    assert details(explain(make_node("n1", unschedulable=True), make_pod("web"))) == {
        "NodeUnschedulable": ["n1 is cordoned"]
    }
    assert details(explain(plain, make_pod("web", node_selector={"disk": "ssd", "arch": "arm"}))) == {
        "NodeAffinityMismatch": ["n1 has disk=hdd instead of ssd, no label arch (arm wanted)"]
    }
    assert details(explain(plain, make_pod("x", node="n1", ports=[80]), make_pod("web", ports=[80]))) == {
        "HostPortInUse": ["n1 has port 80/TCP in use by default/x"]
    }
    db = make_pod("db", node="n1", labels={"app": "db"})
    assert details(explain(plain, db, make_pod("web", affinity={"podAntiAffinity": near("db")}))) == {
        "PodAntiAffinity": [
            f"n1 has default/db near it on n1, which anti-affinity to app=db (topology key {ZONE}) forbids"
        ]
    }
    assert details(explain(plain, make_pod("web", affinity={"podAffinity": near("db")}))) == {
        "PodAffinity": [f"n1 has no pod near it that matches app=db (topology key {ZONE})"]
    }
    alone = make_pod("alone", node="n1", affinity={"podAntiAffinity": near("web")})
    assert details(explain(plain, alone, make_pod("web", labels={"app": "web"}))) == {
        "ExistingPodAntiAffinity": ["n1 has default/alone near it on n1, whose anti-affinity selects this pod"]
    }


def test_required_node_affinity_says_which_requirement_is_not_met() -> None:
    term = {
        "matchExpressions": [{"key": "gen", "operator": "Gt", "values": ["3"]}, {"key": "disk", "operator": "Exists"}]
    }
    affinity = {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": [term]}}}
    said = explain(make_node("n1", labels={"gen": "2", "disk": "x"}), make_pod("web", affinity=affinity))
    assert details(said) == {"NodeAffinityMismatch": ["n1 does not match gen > 3"]}


def test_a_cluster_without_nodes_is_a_reason_too() -> None:
    said = explain(make_pod("web"))
    assert [reason.code for reason in said.reasons] == ["NoNodes"]
    assert said.scheduler_message == "no nodes available to schedule pods"


# --- never or not now ------------------------------------------------------------------------------------------------


def test_never_is_said_if_no_node_is_large_enough() -> None:
    said = explain(make_node("n1", cpu="4"), make_pod("web", cpu="5"))
    assert said.prospect is not None
    assert said.prospect.outlook is Outlook.NEVER


def test_not_now_names_nodes_that_could_take_it_if_pods_left() -> None:
    said = explain(
        make_node("n1", cpu="4"), make_node("n2", cpu="1"), make_pod("x", cpu="3", node="n1"), make_pod("web", cpu="2")
    )
    assert said.prospect is not None
    assert (said.prospect.outlook, said.prospect.nodes) == (Outlook.NOT_NOW, 1)
    assert said.prospect.message == "Not now: 1 node of 2 could take it if pods left them, such as n1."


def test_a_pod_that_waits_for_another_to_come_is_not_said_to_fit_never() -> None:
    node = make_node("n1", labels={ZONE: "a"})
    said = explain(node, make_pod("web", affinity={"podAffinity": near("db")}))
    assert said.prospect is not None
    assert said.prospect.outlook is Outlook.NOT_NOW
    assert said.prospect.examples == ()


def test_a_missing_claim_is_not_never() -> None:
    volumes = [{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}]
    said = explain(make_node("n1"), make_pod("web", volumes=volumes))
    assert [reason.code for reason in said.reasons] == ["ClaimNotFound"]
    assert said.prospect is not None
    assert said.prospect.outlook is Outlook.NOT_NOW


# --- preemption ------------------------------------------------------------------------------------------------------


def test_preemption_says_whom_it_would_evict() -> None:
    said = explain(make_node("n1", cpu="2"), make_pod("low", cpu="2", node="n1"), make_pod("web", cpu="1", priority=9))
    note = said.preemption
    assert note is not None
    assert (note.code, note.node, note.victims) == (PreemptionCode.HELPS, "n1", ("default/low",))
    assert said.advice == ()


def test_preemption_says_which_budgets_it_violates() -> None:
    budget = make_object(
        "PodDisruptionBudget",
        "keep",
        namespace="default",
        spec={"selector": {"matchLabels": {"app": "low"}}},
        status={"disruptionsAllowed": 0},
    )
    low = make_pod("low", cpu="2", node="n1", labels={"app": "low"})
    said = explain(budget, make_node("n1", cpu="2"), low, make_pod("web", cpu="1", priority=9))
    assert said.preemption is not None
    assert said.preemption.violations == 1
    assert "of which disruption budgets protect 1" in said.preemption.message


@pytest.mark.parametrize(
    ("pod", "code"),
    [
        (make_pod("web", cpu="1"), PreemptionCode.NO_LOWER_PRIORITY),
        (make_pod("web", cpu="1", priority=9, preemptionPolicy="Never"), PreemptionCode.NEVER),
        (make_pod("web", cpu="3", priority=9), PreemptionCode.NOTHING_TO_GAIN),
        (make_pod("web", node_selector={"a": "b"}, priority=9), PreemptionCode.NOTHING_TO_GAIN),
    ],
)
def test_why_preemption_does_not_help(pod: dict[str, Any], code: PreemptionCode) -> None:
    said = explain(make_node("n1", cpu="2"), make_pod("low", cpu="2", node="n1"), pod)
    assert said.preemption is not None
    assert said.preemption.code is code


def test_a_policy_may_have_preemption_switched_off() -> None:
    policy = make_policy("calm", schedulerName="calm", preemption={"enabled": False})
    pod = make_pod("web", cpu="1", priority=9, scheduler="calm")
    said = explain(policy, make_node("n1", cpu="2"), make_pod("low", cpu="2", node="n1"), pod)
    assert said.preemption is not None
    assert said.preemption.code is PreemptionCode.DISABLED
    assert said.policy is not None
    assert said.policy.name == "calm"


def test_victims_that_are_leaving_are_waited_for() -> None:
    low = make_pod(
        "low",
        cpu="2",
        node="n1",
        deleting=True,
        status={"conditions": [{"type": "DisruptionTarget", "status": "True", "reason": "PreemptionByScheduler"}]},
    )
    said = explain(make_node("n1", cpu="2"), low, make_pod("web", cpu="1", priority=9, nominated="n1"))
    assert said.state is PodState.NOMINATED
    assert said.nominated_node == "n1"
    assert said.preemption is not None
    assert said.preemption.code is PreemptionCode.WAITING_FOR_VICTIMS


# --- advice ----------------------------------------------------------------------------------------------------------


def advice(*bodies: dict[str, Any]) -> list[str]:
    return [each.sentence for each in explain(*bodies).advice]


def test_the_largest_request_that_fits_is_advised_and_what_a_node_would_need() -> None:
    assert advice(
        make_node("n1", cpu="1"),
        make_node("n2", cpu="2"),
        make_pod("x", cpu="1040m", node="n2"),
        make_pod("web", cpu="1200m"),
    ) == [
        "Request 1 cpu in all instead of 1200m: it fits on n1.",
        "Raise its priority from 0 to 1 (with a PriorityClass): preemption would evict 1 pod on n2.",
        "Give node n2 240m cpu more, or free as much there: it fits on n2.",
        "Add a node like n2 (2 cpu, 16Gi memory): it fits there.",
    ]


def test_a_toleration_is_advised_before_the_removal_of_the_taint() -> None:
    node = make_node("n1", taints=[("gpu", "a", "NoSchedule")])
    assert advice(node, make_node("n2", cpu="0"), make_pod("web", cpu="1"))[:2] == [
        "Add a toleration for gpu=a:NoSchedule: it fits on n1.",
        "Remove from node n1 the taint gpu=a:NoSchedule: it fits on n1.",
    ]


def test_a_cordoned_node_is_uncordoned_rather_than_tolerated() -> None:
    node = make_node("n1", unschedulable=True, taints=[("node.kubernetes.io/unschedulable", "", "NoSchedule")])
    assert advice(node, make_pod("web"))[0] == "Uncordon node n1: it fits on n1."


def test_another_value_of_a_selector_is_advised_where_nodes_have_one() -> None:
    nodes = [make_node(f"n{i}", labels={"disk": "hdd"}) for i in range(3)]
    assert advice(*nodes, make_pod("web", node_selector={"disk": "sdd"}))[:2] == [
        "Change the nodeSelector disk=sdd to disk=hdd: it fits on 3 nodes, such as n0.",
        "Label node n0 with disk=sdd: it fits on n0.",
    ]


def test_spreading_is_relaxed_by_as_little_as_helps() -> None:
    constraint = {
        "maxSkew": 1,
        "topologyKey": ZONE,
        "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": {"matchLabels": {"app": "web"}},
    }
    bodies = [
        make_node("n1", labels={ZONE: "a"}),
        make_node("n2", labels={ZONE: "b"}, cpu="0"),
        *(make_pod(f"w{i}", node="n1", labels={"app": "web"}) for i in range(2)),
        make_pod("web", cpu="1", labels={"app": "web"}, topologySpreadConstraints=[constraint]),
    ]
    assert advice(*bodies)[0] == f"Raise maxSkew over {ZONE} from 1 to 3: it fits on n1."


def test_a_free_host_port_is_advised() -> None:
    bodies = [make_node("n1"), make_pod("x", node="n1", ports=[80]), make_pod("web", ports=[80])]
    assert advice(*bodies)[0] == "Use host port 81 instead of 80 (TCP): it fits on n1."


def test_several_changes_are_advised_together_where_no_single_one_helps() -> None:
    node = make_node("n1", cpu="1", taints=[("gpu", "a", "NoSchedule")])
    said = explain(node, make_pod("web", cpu="1200m"))
    assert said.advice[0].sentence == (
        "Add a toleration for gpu=a:NoSchedule, and request 1 cpu in all instead of 1200m: it fits on n1."
    )
    assert said.advice[0].code == "AddToleration+ReduceRequest"


def test_the_anti_affinity_of_others_is_answered_by_another_label() -> None:
    node = make_node("n1", labels={ZONE: "a"})
    alone = make_pod("alone", node="n1", affinity={"podAntiAffinity": near("web")})
    said = advice(node, alone, make_pod("web", labels={"app": "web"}))
    assert "Remove the label app=web, which the anti-affinity of other pods selects: it fits on n1." in said


# --- everything else that a pod may wait for -------------------------------------------------------------------------


def test_a_gated_pod_says_its_gates() -> None:
    said = explain(make_node("n1"), make_pod("web", gates=["quota"]))
    assert (said.state, said.waits_for) == (PodState.GATED, ("quota",))


def test_a_scheduler_name_with_a_slip_is_not_served_and_says_what_was_meant() -> None:
    policy = make_policy("berth-binpack", schedulerName="berth-binpack")
    said = explain(policy, make_node("n1"), make_pod("web", scheduler="berth-binpak"))
    assert (said.state, said.did_you_mean) == (PodState.NOT_SERVED, "berth-binpack")
    assert said.message == "nobody here serves the scheduler name berth-binpak. Did you mean berth-binpack?"


@pytest.mark.parametrize("scheduler", ["default-scheduler", "volcano"])
def test_a_pod_of_another_scheduler_is_not_ours(scheduler: str) -> None:
    said = explain(make_node("n1"), make_pod("web", scheduler=scheduler))
    assert (said.state, said.did_you_mean) == (PodState.OTHER_SCHEDULER, "")


def test_a_pod_that_no_policy_selects_is_not_served() -> None:
    policy = make_policy("shop", podSelector={"matchLabels": {"app": "shop"}}, schedulerName="shop")
    said = explain(policy, make_node("n1"), make_pod("web", scheduler="shop"))
    assert said.state is PodState.NOT_SERVED
    assert "these select other pods: shop (podSelector)" in said.message


def test_an_invalid_pod_and_one_that_is_being_deleted_are_not_judged() -> None:
    broken = make_pod("web", cpu="a lot")
    assert explain(make_node("n1"), broken).state is PodState.INVALID
    assert explain(make_node("n1"), make_pod("web", deleting=True)).state is PodState.TERMINATING


def test_a_pod_that_fits_says_where() -> None:
    said = explain(make_node("n1"), make_node("n2", cpu="0"), make_pod("web", cpu="1"))
    assert said.state is PodState.PENDING
    assert said.prospect is not None
    assert (said.prospect.outlook, said.prospect.examples) == (Outlook.FITS, ("n1",))


def test_extenders_are_not_asked_and_the_explanation_says_so() -> None:
    extender = {"urlPrefix": "https://extender.example.com", "filterVerb": "filter"}
    policy = make_policy("ext", schedulerName="ext", extenders=[extender])
    said = explain(policy, make_node("n1"), make_pod("web", scheduler="ext"))
    assert said.notes == ("SchedulingPolicy ext has extenders, which were not asked: they may reject more nodes.",)


def test_verdicts_of_all_plugins_on_every_node_are_there_on_request() -> None:
    world = World(
        make_node("n1", taints=[("gpu", "", "NoSchedule")]),
        make_node("n2", cpu="0", taints=[("gpu", "", "NoSchedule")]),
        make_pod("web", cpu="1"),
    )
    first, second = world.explain(every_node=True).verdicts
    assert (first.node, first.fits) == ("n1", False)
    said = {verdict.plugin: (verdict.status, verdict.codes) for verdict in second.plugins if verdict.codes}
    assert said == {
        "TaintToleration": ("UnschedulableAndUnresolvable", ("UntoleratedTaint",)),
        "NodeResourcesFit": ("UnschedulableAndUnresolvable", ("InsufficientResource",)),
    }
    assert [verdict.node for verdict in world.explain(verdicts_of=["n2", "nowhere"]).verdicts] == ["n2"]
