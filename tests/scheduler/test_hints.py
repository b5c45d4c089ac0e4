"""What does not help a pod leaves it unschedulable: for every plugin, changes of its retry events that do not help.

The other direction, that what helps is never passed over, is in `test_waking` (each plugin alone, each kind of change)
and in `test_hints_lose_nothing` (whole policies, any change).
"""

from collections.abc import Iterator
from typing import Any

import pytest

from berth.engine.diagnosis import Diagnosis
from berth.engine.events import Change, Event
from berth.engine.extender_result import EXTENDERS
from berth.engine.per_node import PerNode
from berth.engine.pipeline import Pipeline
from berth.engine.plugin import Query
from berth.engine.pre_filter_only import PreFilterOnly
from berth.engine.registry import PLUGINS
from berth.model import parse_node, parse_pod
from berth.scheduler import Cache
from berth.scheduler.error_log import ErrorLog
from berth.scheduler.queue.queueing_hints import QueueingHints, rejecting
from engine.expecting import make_filter
from engine.storage import make_capacity, make_claim, make_class, make_csi_node, make_driver, make_volume, pod_with
from scheduler.event_cache import events_of
from scheduler.harness import Harness, running
from scheduler.recording_plugins import Recording, known_change
from scheduler.test_waking import (
    FILTERS,
    REQUIRED,
    ZONE,
    Case,
    Gone,
    apply,
    away,
    cache_of,
    conditions,
    even,
    helping,
    near,
    placed,
    selecting,
    spread,
    taken_by,
    zoned,
)
from support.builders import make_node, make_object, make_pod


def useless() -> Iterator[Case]:
    yield from on_nodes()
    yield from on_resources()
    yield from between_pods()
    yield from on_volumes()
    yield from of_old()


def on_nodes() -> Iterator[Case]:
    cordoned, plain = make_node("a", unschedulable=True), make_pod("p")
    yield Case("NodeUnschedulable", "a cordoned node comes", [cordoned], plain, make_node("b", unschedulable=True))
    stained = make_node("b", taints=[("k", "v", "NoSchedule")])
    yield Case("NodeUnschedulable", "another node gets a taint", [cordoned, make_node("b")], plain, stained)

    yield Case("NodeName", "another node comes", [make_node("a")], make_pod("p", node="b"), make_node("c"))

    tainted, milder = (
        make_node("a", taints=[("k", "v", "NoSchedule")]),
        make_node("a", taints=[("k", "", "NoSchedule")]),
    )
    yield Case("TaintToleration", "a tainted node comes", [tainted], plain, stained)
    yield Case("TaintToleration", "one taint becomes another", [tainted], plain, milder)
    uncordoned = [tainted, make_node("b", unschedulable=True)]
    yield Case("TaintToleration", "a node without taints is uncordoned", uncordoned, plain, make_node("b"))

    choosy = make_pod("p", node_selector={"zone": "z1"})
    yield Case("NodeAffinity", "a node of another zone comes", [make_node("a")], choosy, zoned("b", "z2"))
    yield Case("NodeAffinity", "the node gets another label", [make_node("a")], choosy, zoned("a", "z2"))
    there = [make_node("a"), zoned("b", "z1")]
    more = zoned("b", "z1", labels={"disk": "ssd"})
    yield Case("NodeAffinity", "one that matched before gets a label", there, choosy, more)

    relying = make_pod("p", hostNetwork=True, hostUsers=False)
    yield Case("NodeDeclaredFeatures", "a node without it comes", [make_node("a")], relying, make_node("b"))
    other = make_node("a", declared_features=["Other"])
    yield Case("NodeDeclaredFeatures", "the node declares another", [make_node("a")], relying, other)


def on_resources() -> Iterator[Case]:
    plugin, big = "NodeResourcesFit", make_pod("p", cpu="2")
    small, other = make_node("a", cpu="1"), make_pod("other", node="a", cpu="500m")
    yield Case(plugin, "a node comes that is too small", [small], big, make_node("b", cpu="1"))
    guest = make_pod("guest", node="b", cpu="1")
    yield Case(plugin, "a node comes with pods on it", [small, guest], big, make_node("b", cpu="2"))
    yield Case(plugin, "the node grows too little", [small], big, make_node("a", cpu="1500m"))
    roomy = [small, make_node("b", cpu="4")]
    gifted = make_node("b", cpu="4", extended={"example.com/gpu": 1})
    yield Case(plugin, "it grows in what nobody asked for", roomy, big, gifted)
    yield Case(plugin, "a pod goes and leaves too little", [small, other], big, Gone(other))
    yield Case(plugin, "a pod shrinks by too little", [small, other], big, make_pod("other", node="a", cpu="100m"))
    waiting = make_pod("other", cpu="500m", nominated="a")
    yield Case(plugin, "a nominated pod leaves too little", [small, waiting], big, Gone(waiting))

    plugin, listening = "NodePorts", make_pod("p", ports=[80])
    holder, second = make_pod("holder", node="a", ports=[80]), make_pod("second", node="a", ports=[81])
    node, there = make_node("a"), make_pod("there", node="b", ports=[80])
    yield Case(plugin, "a pod without the port goes", [node, holder, second], listening, Gone(second))
    yield Case(plugin, "a node comes where it is taken", [node, holder, there], listening, make_node("b"))


def between_pods() -> Iterator[Case]:
    plugin, here = "InterPodAffinity", zoned("a", "z1")
    friendly, shy = make_pod("p", affinity=near("web")), make_pod("p", affinity=away("web"))
    web, db = placed("web", "a"), placed("db", "a", "db")
    yield Case(plugin, "a stranger comes", [here], friendly, db)
    yield Case(plugin, "a stranger goes", [here, web, db], shy, Gone(db))
    yield Case(plugin, "one of two that it avoids goes", [here, web, placed("more", "a")], shy, Gone(web))
    anybody = away("", labelSelector={"matchExpressions": [{"key": "app", "operator": "Exists"}]})
    anybody["podAntiAffinity"][REQUIRED] += away("web")["podAntiAffinity"][REQUIRED]
    shyer = make_pod("p", affinity=anybody)
    yield Case(plugin, "one that it avoids twice goes, and another stays", [here, web, db], shyer, Gone(web))
    hermits = [placed(name, "a", "", affinity=away("p")) for name in ("one", "two")]
    hated = make_pod("p", labels={"app": "p"})
    yield Case(plugin, "one of two that avoid it goes", [here, *hermits], hated, Gone(hermits[0]))
    friends = [here, make_node("b"), web, placed("more", "a")]
    social = make_pod("p", labels={"app": "web"}, affinity=near("web"))
    yield Case(plugin, "one of its friends goes", friends, social, Gone(web))
    yield Case(plugin, "another that it avoids comes", [here, web], shy, placed("more", "a"))
    yield Case(
        plugin,
        "one that it avoids gets a label",
        [here, web],
        shy,
        make_pod("web", node="a", labels={"app": "web", "tier": "1"}),
    )
    yield Case(plugin, "a node of no zone comes", [here], friendly, make_node("b"))
    yield Case(
        plugin, "a node gets a label that is no zone", [here, web], shy, zoned("a", "z1", labels={"disk": "ssd"})
    )
    yield Case(plugin, "an empty node goes", [here, zoned("b", "z1"), web], shy, Gone(zoned("b", "z1")))
    lost, stray = [here, make_node("b"), web, placed("stray", "b")], placed("stray", "b")
    yield Case(plugin, "one that it avoids goes from a node of no zone", lost, shy, Gone(stray))
    yield Case(plugin, "one that it wants comes to a node of no zone", [here, make_node("b")], friendly, stray)
    namespace = make_object("Namespace", "team")
    yield Case(plugin, "a namespace comes that nobody asks for", [here, web], shy, namespace)
    theirs = make_pod("theirs", namespace="team", node="a", labels={"app": "web"})
    yield Case(plugin, "one of another namespace comes", [here], friendly, theirs)

    plugin, pod = "PodTopologySpread", spread(even(minDomains=2))
    base = [here, web]
    yield Case(plugin, "a node without the label comes", base, pod, make_node("b"))
    bare = make_node("b")
    yield Case(plugin, "a node without the label goes", [*base, bare], pod, Gone(bare))
    yield Case(plugin, "a node gets another label", base, pod, zoned("a", "z1", labels={"disk": "ssd"}))
    yield Case(
        plugin, "a taint comes that nobody honours", base, pod, zoned("a", "z1", taints=[("k", "v", "NoExecute")])
    )
    yield Case(plugin, "a stranger comes", base, pod, db)
    yield Case(plugin, "a stranger goes", [*base, db], pod, Gone(db))
    yield Case(plugin, "one of another namespace comes", base, pod, theirs)
    yield Case(
        plugin, "its pod gets another label", base, pod, make_pod("web", node="a", labels={"app": "web", "tier": "1"})
    )
    leaving = placed("web", "a", deleting=True)
    spreading = [here, placed("more", "a"), leaving]
    yield Case(plugin, "one that was being deleted goes", spreading, pod, Gone(leaving))
    yield Case(
        plugin, "a service comes, and it has its own constraints", base, pod, selecting("Service", {"app": "web"})
    )
    owner = selecting("ReplicaSet", {"matchLabels": {"app": "web"}})
    yield Case(plugin, "an owner comes, and it has its own constraints", base, pod, owner)


def on_volumes() -> Iterator[Case]:
    plugin, node = "VolumeRestrictions", make_node("a")
    disk = {"gcePersistentDisk": {"pdName": "disk"}}
    wanting, holding = pod_with(disk), pod_with(disk, name="holder", node="a")
    bystander, elsewhere = make_pod("other", node="a"), make_node("b")
    yield Case(plugin, "a pod without disks goes", [node, holding, bystander], wanting, Gone(bystander))
    yield Case(plugin, "an empty node goes", [node, elsewhere, holding], wanting, Gone(elsewhere))
    yield Case(plugin, "another claim comes", [node], pod_with("c"), make_claim("d"))
    taken = [node, holding, pod_with(disk, name="there", node="b")]
    yield Case(plugin, "a node comes where it is taken", taken, wanting, make_node("b"))

    plugin, limited = "NodeVolumeLimits", make_csi_node("a", d=1)
    base = [node, limited, make_claim("c1", "v1"), make_volume("v1"), make_claim("c2", "v2"), make_volume("v2")]
    full = [*base, pod_with("c1", name="holder", node="a"), bystander]
    wanting = pod_with("c2")
    yield Case(plugin, "a pod without volumes goes", full, wanting, Gone(bystander))
    yield Case(plugin, "the limit of another driver rises", full, wanting, make_csi_node("a", d=1, e=9))
    yield Case(plugin, "a claim comes that nobody uses", full, wanting, make_claim("c3", "v3"))
    yield Case(plugin, "a volume comes that nobody uses", full, wanting, make_volume("v3"))
    yield Case(plugin, "a class comes that nobody uses", full, wanting, make_class("fast"))
    full_too = [make_csi_node("b", d=0), *full]
    yield Case(plugin, "a node comes that takes none", full_too, wanting, make_node("b"))

    plugin, here, there = "VolumeBinding", zoned("a", "z1"), zoned("b", "z1")
    bound = [here, make_claim("c", "v"), make_volume("v", "z2")]
    yield Case(plugin, "a node comes that does not reach it", bound, pod_with("c"), there)
    yield Case(plugin, "the node gets another label", bound, pod_with("c"), zoned("a", "z1", labels={"disk": "ssd"}))
    yield Case(plugin, "another claim comes", bound, pod_with("c"), make_claim("d"))
    yield Case(plugin, "another volume comes", bound, pod_with("c"), make_volume("w"))
    yield Case(plugin, "another class comes", bound, pod_with("c"), make_class("fast"))
    yield Case(plugin, "a driver comes", bound, pod_with("c"), make_driver("e"))
    yield Case(plugin, "a CSINode comes", bound, pod_with("c"), make_csi_node("a"))
    by_hand = [here, make_claim("c"), make_class(provisioner="kubernetes.io/no-provisioner")]
    yield Case(plugin, "there is space in another class", by_hand, pod_with("c"), make_capacity("s", "1Gi", {}, "fast"))
    fast = make_volume("v", storage_class="fast")
    yield Case(plugin, "a volume of another class comes", by_hand, pod_with("c"), fast)

    plugin = "VolumeZone"
    bound = [here, make_claim("c", "v"), make_volume("v", labels={ZONE: "z2"})]
    yield Case(plugin, "a node of another zone comes", bound, pod_with("c"), there)
    yield Case(plugin, "the node gets another label", bound, pod_with("c"), zoned("a", "z1", labels={"disk": "ssd"}))
    yield Case(plugin, "another claim comes", bound, pod_with("c"), make_claim("d"))
    yield Case(plugin, "another volume comes", bound, pod_with("c"), make_volume("w"))
    yield Case(plugin, "another class comes", bound, pod_with("c"), make_class("fast"))


def of_old() -> Iterator[Case]:
    plain = make_pod("p")
    for plugin, condition in (
        ("CheckNodeMemoryPressure", "MemoryPressure"),
        ("CheckNodeDiskPressure", "DiskPressure"),
        ("CheckNodePIDPressure", "PIDPressure"),
    ):
        pressed, still = conditions(**{condition: "True"}), conditions(**{condition: "True", "Ready": "True"})
        yield Case(plugin, "another condition comes", [pressed], plain, still)
    unready = conditions(Ready="False")
    yield Case("CheckNodeCondition", "another condition comes", [unready], plain, conditions(Ready="Unknown"))
    plugin, tainted = "PodToleratesNodeNoExecuteTaints", make_node("a", taints=[("k", "v", "NoExecute")])
    yield Case(plugin, "a tainted node comes", [tainted], plain, make_node("b", taints=[("k", "v", "NoExecute")]))
    args = {"labels": ["zone"], "presence": True}
    yield Case("CheckNodeLabelPresence", "a node without it comes", [make_node("a")], plain, make_node("b"), args)

    plugin, args = "CheckServiceAffinity", {"labels": ["region", "rack"]}
    nodes = [make_node("b", labels={"region": "x", "rack": "r1"}), make_node("c", labels={"region": "y", "rack": "r2"})]
    objects = [*nodes, placed("web", "c"), selecting("Service", {"app": "web"})]
    pod = make_pod("p", labels={"app": "web"}, node_selector={"rack": "r1"})
    theirs = make_pod("web", namespace="team", node="b", labels={"app": "web"})
    yield Case(plugin, "one of another namespace comes", objects, pod, theirs, args)

    for plugin, source, field_name, resource in (
        ("MaxEBSVolumeCount", "awsElasticBlockStore", "volumeID", "attachable-volumes-aws-ebs"),
        ("MaxGCEPDVolumeCount", "gcePersistentDisk", "pdName", "attachable-volumes-gce-pd"),
        ("MaxAzureDiskVolumeCount", "azureDisk", "diskName", "attachable-volumes-azure-disk"),
        ("MaxCinderVolumeCount", "cinder", "volumeID", "attachable-volumes-cinder"),
    ):
        full, bystander = make_node("a", extended={resource: 1}), make_pod("other", node="a")
        holding = pod_with({source: {field_name: "one"}}, name="holder", node="a")
        wanting = pod_with({source: {field_name: "two"}})
        objects = [full, holding, bystander]
        yield Case(plugin, "a pod without disks goes", objects, wanting, Gone(bystander))
        yield Case(plugin, "a claim comes that nobody uses", objects, wanting, make_claim("c", "v"))
        bigger = make_node("a", cpu="64", extended={resource: 1})
        yield Case(plugin, "the node grows in something else", objects, wanting, bigger)


USELESS = list(useless())


@pytest.mark.parametrize("case", USELESS, ids=lambda case: f"{case.plugin}: {case.what}")
def test_a_change_that_does_not_help_wakes_nobody(case: Case) -> None:
    cache, pod = cache_of(case.objects), parse_pod(case.pod)
    plugin = make_filter(case.plugin, case.args)
    alone = {case.plugin: Pipeline([plugin], [])}
    let, refuses = taken_by(alone, pod, cache)[case.plugin]
    assert refuses, "on the other nodes, somebody else turns the pod away"

    changes = apply(cache, case.change)

    assert events_of(changes) & plugin.retry_events, "without hints it would be woken"
    assert not helping(changes, plugin, pod, cache)
    assert taken_by(alone, pod, cache)[case.plugin][0] <= let


@pytest.mark.parametrize("plugin", FILTERS)
def test_every_filter_of_ours_has_a_hint_that_says_no_to_something(plugin: str) -> None:
    assert plugin in {case.plugin for case in USELESS}


@pytest.mark.parametrize("plugin", sorted(PLUGINS))
def test_pods_that_are_alike_get_the_same_answer(plugin: str) -> None:
    """One key for one signature, whoever else of the pod differs."""
    kind = next((case for case in USELESS if case.plugin == plugin), None)
    if kind is not None:
        made = make_filter(plugin, kind.args)
        one, other = parse_pod(kind.pod), parse_pod({**kind.pod, "metadata": {**kind.pod["metadata"], "uid": "other"}})
        assert made.hint_key(one) == made.hint_key(other)
        hash(made.hint_key(one))


# --- where pods could be preempted ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("priority", "policy", "helps"),
    [
        (100, "PreemptLowerPriority", True),
        (10, "PreemptLowerPriority", False),  # those who are left are as important
        (100, "Never", False),
    ],
)
@pytest.mark.parametrize("wants", [{"cpu": "2"}, {"ports": [80]}], ids=["room", "a port"])
def test_one_that_could_not_be_pushed_out_goes_and_leaves_one_that_can(
    wants: dict[str, Any], priority: int, policy: str, helps: bool
) -> None:
    strong = make_pod("strong", node="a", cpu="1", ports=[80], priority=1000)
    weak = make_pod("weak", node="a", cpu="1", ports=[80], priority=10)
    cache = cache_of([make_node("a", cpu="2"), strong, weak])
    pod = parse_pod(make_pod("p", priority=priority, preemptionPolicy=policy, **wants))
    plugin = make_filter("NodePorts" if "ports" in wants else "NodeResourcesFit")
    assert helping(apply(cache, Gone(strong)), plugin, pod, cache) is helps


def test_one_that_goes_and_leaves_too_little_even_without_those_who_could_be_pushed_out_does_not_help() -> None:
    strong, stronger = (make_pod(name, node="a", cpu="1", priority=1000) for name in ("strong", "stronger"))
    weak = make_pod("weak", node="a", cpu="1", priority=10)
    cache = cache_of([make_node("a", cpu="3"), strong, stronger, weak])
    pod, plugin = parse_pod(make_pod("p", cpu="3", priority=100)), make_filter("NodeResourcesFit")
    assert not helping(apply(cache, Gone(strong)), plugin, pod, cache)
    assert helping(apply(cache, Gone(stronger)), plugin, pod, cache)


def test_pods_of_different_priority_are_not_alike_to_plugins_that_look_at_pods() -> None:
    low, high = (parse_pod(make_pod("p", priority=priority)) for priority in (0, 1))
    for name, plugin in PLUGINS.items():
        if plugin.filters and name not in ("CheckNodeLabelPresence", "CheckServiceAffinity"):
            made = make_filter(name)
            assert (made.hint_key(low) == made.hint_key(high)) is not made.dependencies.reads_pods


# --- who is asked ----------------------------------------------------------------------------------------------------


def test_any_of_the_plugins_may_say_that_a_change_helps() -> None:
    hints, pod = QueueingHints(Cache().state, ErrorLog()), parse_pod(make_pod("p"))
    assert not hints.may_help(pod, [Recording(False)], known_change())
    assert hints.may_help(pod, [Recording(False), Recording(True)], known_change())


def test_a_plugin_is_asked_once_a_change_for_all_pods_that_are_alike_to_it() -> None:
    hints, plugin, change = QueueingHints(Cache().state, ErrorLog()), Recording(False), known_change()
    for name in ("one", "two"):
        hints.may_help(parse_pod(make_pod(name)), [plugin], change)
    assert plugin.asked == 1
    hints.may_help(parse_pod(make_pod("one")), [plugin], known_change())
    hints.may_help(parse_pod(make_pod("three", cpu="3")), [plugin], known_change())
    assert plugin.asked == 3


def test_a_plugin_that_does_not_listen_to_the_event_is_not_asked() -> None:
    plugin = Recording(True)
    gone = Change(frozenset({Event.NODE_REMOVED}), parse_node(make_node("a")), None, "a")
    assert not QueueingHints(Cache().state, ErrorLog()).may_help(parse_pod(make_pod("p")), [plugin], gone)
    assert plugin.asked == 0


def test_a_hint_that_fails_counts_as_help() -> None:
    faults = ErrorLog()
    assert QueueingHints(Cache().state, faults).may_help(
        parse_pod(make_pod("p")), [Recording(RuntimeError("no"))], known_change()
    )
    assert faults.counts == {"asking for a hint": 1}


def test_rules_from_outside_wake_on_anything() -> None:
    class Mine(PerNode):
        name = "Mine"

        def fits(self, pod: Any, node: Any) -> bool:
            return False

    query = Query(parse_pod(make_pod("p")), Cache().state.table)
    narrowing = PreFilterOnly(make_filter("NodeAffinity"))
    for plugin in (Mine({}), EXTENDERS, narrowing):
        assert plugin.hint(query, Cache().state, known_change())


def test_where_not_everybody_is_known_who_refused_nobody_is_asked() -> None:
    pipeline = Pipeline([make_filter("NodeResourcesFit")], [])
    known = Diagnosis("", 1, frozenset({"NodeResourcesFit", "Extenders"}), frozenset())
    assert [plugin.name for plugin in rejecting(pipeline, known)] == ["NodeResourcesFit", "Extenders"]
    assert rejecting(pipeline, Diagnosis("", 1, frozenset({"NodeResourcesFit", "Unheard"}), frozenset())) == ()
    assert rejecting(pipeline, Diagnosis("", 0, frozenset(), frozenset())) == ()


# --- in the scheduler ------------------------------------------------------------------------------------------------


def attempts(harness: Harness) -> int:
    return int(harness.scheduler.statistics()["attempts"].get("unschedulable", 0))


async def test_a_node_that_is_too_small_does_not_wake_a_pod_and_one_that_is_not_does() -> None:
    async with running() as harness:
        harness.write(make_node("a", cpu="1"), make_pod("web", cpu="2"))
        await harness.go()
        await harness.pass_time(30)
        assert attempts(harness) == 1
        harness.write(make_node("b", cpu="1"))
        await harness.pass_time(30)
        assert attempts(harness) == 1
        harness.write(make_node("c", cpu="2"))
        await harness.go()
        assert harness.cluster.objects["Pod"]["default/web"]["spec"].get("nodeName") == "c"


async def test_without_hints_every_node_wakes_it() -> None:
    async with running(hints=False) as harness:
        harness.write(make_node("a", cpu="1"), make_pod("web", cpu="2"))
        await harness.go()
        await harness.pass_time(30)
        harness.write(make_node("b", cpu="1"))
        await harness.pass_time(30)
        assert attempts(harness) == 2
        assert harness.scheduler.statistics()["hints"] == {}


async def test_a_parked_pod_says_who_turned_it_away() -> None:
    async with running() as harness:
        harness.write(make_node("a", cpu="1", taints=[("k", "v", "NoSchedule")]), make_node("b", cpu="1"))
        harness.write(make_pod("web", cpu="2"))
        await harness.go()
        (item,) = harness.queue.items()
        assert [plugin.name for plugin in item.plugins] == ["TaintToleration", "NodeResourcesFit"]
