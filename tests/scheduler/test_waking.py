"""Whatever makes room for a pod wakes it: each change that can help, and the plugins that turn pods away.

A change that helps and wakes nobody leaves a pod waiting for the flush, five minutes later. So every row of the table
is a cluster in which one plugin refuses the pod everywhere, and a change after which it does not; what the cache says
of the change must be among what the plugin wakes on. In the other direction, nothing that a plugin wakes on is there
without a row that needs it. The walk at the end makes changes of every kind in clusters of every flavour, both ways.
"""

import copy
from collections.abc import Iterator
from dataclasses import dataclass, field
from random import Random
from typing import Any

import pytest

from berth.engine.diagnosis import Diagnosis
from berth.engine.events import Event
from berth.engine.pipeline import Pipeline, Placement
from berth.engine.plugin import FilterPlugin, Query
from berth.engine.registry import PLUGINS
from berth.engine.verdict import row_numbers
from berth.model import Pod, parse_pod
from berth.scheduler import Cache
from berth.scheduler.cache.changes import Changes
from berth.scheduler.queue.queued_pod import QueuedPod
from berth.scheduler.queue.unschedulable import UnschedulablePods, profile_of
from engine.expecting import make_filter
from engine.storage import (
    make_capacity,
    make_claim,
    make_class,
    make_csi_node,
    make_driver,
    make_volume,
    pod_with,
)
from engine.worlds import World, make_filter_for, worlds
from scheduler.event_cache import events_of
from support.builders import make_node, make_object, make_pod

Body = dict[str, Any]

ZONE = "topology.kubernetes.io/zone"
GCE_ZONE = "topology.gke.io/zone"
UNJUDGED = "DynamicResources"  # what it refuses, nothing but another policy helps
FILTERS = [name for name, plugin in PLUGINS.items() if plugin.filters and name != UNJUDGED]


@dataclass(frozen=True)
class Gone:
    """The object is deleted."""

    body: Body


@dataclass(frozen=True)
class Case:
    """`plugin` refuses `pod` among `objects`; after `change`, a new version of an object, it does not."""

    plugin: str
    what: str
    objects: list[Body]
    pod: Body
    change: Any
    args: dict[str, Any] = field(default_factory=dict)


# --- words for the table ---------------------------------------------------------------------------------------------


REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"


def zoned(name: str, zone: str | None = None, **node: Any) -> Body:
    return make_node(name, labels={**({"zone": zone, ZONE: zone} if zone else {}), **node.pop("labels", {})}, **node)


def near(app: str, *, kind: str = "podAffinity", **term: Any) -> Body:
    wanted = {"labelSelector": {"matchLabels": {"app": app}}, "topologyKey": "zone", **term}
    return {kind: {REQUIRED: [wanted]}}


def away(app: str, **term: Any) -> Body:
    return near(app, kind="podAntiAffinity", **term)


def placed(name: str, node: str, app: str = "web", **pod: Any) -> Body:
    return make_pod(name, node=node, labels={"app": app} if app else None, **pod)


def even(key: str = "zone", **constraint: Any) -> Body:
    """The pods of the app web lie evenly over the values of a label."""
    selector = {"matchLabels": {"app": "web"}}
    hard = {"maxSkew": 1, "topologyKey": key, "whenUnsatisfiable": "DoNotSchedule", "labelSelector": selector}
    return hard | constraint


def spread(*constraints: Body, **pod: Any) -> Body:
    return make_pod("p", labels={"app": "web"}, topologySpreadConstraints=list(constraints), **pod)


def selecting(kind: str, selector: Body, **body: Any) -> Body:
    return make_object(kind, "web", namespace="default", spec={"selector": selector}, **body)


def conditions(**statuses: str) -> Body:
    node = make_node("a")
    node["status"]["conditions"] = [{"type": kind, "status": status} for kind, status in statuses.items()]
    return node


def cases() -> Iterator[Case]:
    yield from nodes()
    yield from resources()
    yield from between_pods()
    yield from spreading()
    yield from disks()
    yield from volumes()
    yield from old_ones()
    yield from old_disks()


def nodes() -> Iterator[Case]:
    cordoned, plain = make_node("a", unschedulable=True), make_pod("p")
    yield Case("NodeUnschedulable", "a node comes", [cordoned], plain, make_node("b"))
    yield Case("NodeUnschedulable", "the node is uncordoned", [cordoned], plain, make_node("a"))

    named = make_pod("p", node="b")
    yield Case("NodeName", "the node that is named comes", [make_node("a")], named, make_node("b"))

    tainted = make_node("a", taints=[("k", "v", "NoSchedule")])
    yield Case("TaintToleration", "a node comes", [tainted], plain, make_node("b"))
    yield Case("TaintToleration", "the taint goes", [tainted], plain, make_node("a"))

    choosy = make_pod("p", node_selector={"zone": "z1"})
    by_name = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["b"]}]}
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [by_name]}}
    pinned = make_pod("p", affinity={"nodeAffinity": required})
    yield Case("NodeAffinity", "a node comes", [make_node("a")], choosy, zoned("b", "z1"))
    yield Case("NodeAffinity", "the node gets the label", [make_node("a")], choosy, zoned("a", "z1"))
    yield Case("NodeAffinity", "the node that is named comes", [make_node("a")], pinned, make_node("b"))

    feature = "UserNamespacesHostNetworkSupport"
    relying = make_pod("p", hostNetwork=True, hostUsers=False)
    declaring = make_node("a", declared_features=[feature])
    yield Case("NodeDeclaredFeatures", "the node declares it", [make_node("a")], relying, declaring)
    yield Case(
        "NodeDeclaredFeatures", "a node comes", [make_node("a")], relying, make_node("b", declared_features=[feature])
    )


def resources() -> Iterator[Case]:
    node, big = make_node("a", cpu="2"), make_pod("p", cpu="2")
    other = make_pod("other", node="a", cpu="1")
    waiting = make_pod("other", cpu="1", nominated="a")
    for what, objects, change in (
        ("a node comes", [make_node("a", cpu="1")], make_node("b", cpu="2")),
        ("the node grows", [make_node("a", cpu="1")], make_node("a", cpu="2")),
        ("a pod goes", [node, other], Gone(other)),
        ("a pod is finished", [node, other], make_pod("other", node="a", cpu="1", phase="Succeeded")),
        ("a pod shrinks", [node, make_node("b", cpu="1"), other], make_pod("other", node="a")),
        ("a nominated pod goes", [node, waiting], Gone(waiting)),
        ("a nominated pod gives up", [node, waiting], make_pod("other", cpu="1")),
        ("a nominated pod turns elsewhere", [node, waiting], make_pod("other", cpu="1", nominated="b")),
        ("a nominated pod is bound elsewhere", [node, waiting], make_pod("other", cpu="1", nominated="a", node="b")),
        ("a nominated pod asks for less", [node, waiting], make_pod("other", cpu="0", nominated="a")),
        ("a nominated pod makes no sense", [node, waiting], make_pod("other", cpu="1x", nominated="a")),
    ):
        yield Case("NodeResourcesFit", what, objects, big, change)
    greedy = make_pod("p", requests={"example.com/gpu": 1})
    gifted = make_node("a", extended={"example.com/gpu": 1})
    yield Case("NodeResourcesFit", "the node has something new", [make_node("a")], greedy, gifted)

    listening, holder = make_pod("p", ports=[80]), make_pod("holder", node="a", ports=[80])
    awaited = make_pod("holder", ports=[80], nominated="a")
    yield Case("NodePorts", "a node comes", [make_node("a"), holder], listening, make_node("b"))
    yield Case("NodePorts", "a pod goes", [make_node("a"), holder], listening, Gone(holder))
    yield Case("NodePorts", "a nominated pod goes", [make_node("a"), awaited], listening, Gone(awaited))


def between_pods() -> Iterator[Case]:
    plugin, here, there = "InterPodAffinity", zoned("a", "z1"), zoned("b", "z1")
    friendly, shy = make_pod("p", affinity=near("web")), make_pod("p", affinity=away("web"))
    web, hermit = placed("web", "a"), placed("hermit", "a", "", affinity=away("p"))
    hated = make_pod("p", labels={"app": "p"})
    yield Case(plugin, "a friend comes", [here], friendly, web)
    yield Case(plugin, "a friend gets its label", [here, placed("web", "a", "")], friendly, web)
    yield Case(plugin, "a node comes", [here, web], shy, zoned("b", "z2"))
    yield Case(plugin, "a node gets the label", [make_node("a"), web], friendly, here)
    yield Case(plugin, "a node moves to another zone", [here, there, web], shy, zoned("b", "z2"))
    yield Case(plugin, "the node of another goes", [here, there, web], shy, Gone(here))
    yield Case(plugin, "one that it avoids goes", [here, web], shy, Gone(web))
    yield Case(plugin, "one that it avoids gets another label", [here, web], shy, placed("web", "a", "db"))
    yield Case(plugin, "one that avoids it goes", [here, hermit], hated, Gone(hermit))
    racked = [zoned(name, zone, labels={"rack": rack}) for name, zone, rack in (("a", "z1", "1"), ("b", "z2", "1"))]
    both = away("web")
    both["podAntiAffinity"][REQUIRED] += away("web", topologyKey="rack")["podAntiAffinity"][REQUIRED]
    crossed = make_pod("p", affinity=both)
    beside = [zoned("c", "z1", labels={"rack": "2"}), placed("more", "c")]
    yield Case(plugin, "one goes of two that share one domain", [*racked, *beside, web], crossed, Gone(web))
    social = make_pod("p", labels={"app": "web"}, affinity=near("web") | away("db"))
    friend, beyond = placed("web", "b"), [here, zoned("b", "z2"), placed("db", "b", "db")]
    yield Case(plugin, "the last friend goes, and it is the first", [*beyond, friend], social, Gone(friend))
    awaited = make_pod("web", labels={"app": "web"}, nominated="a")
    yield Case(plugin, "a nominated one that it avoids goes", [here, awaited], shy, Gone(awaited))

    def team(*labels: str) -> Body:
        return make_object("Namespace", "team", metadata={"labels": dict.fromkeys(labels, "yes")})

    theirs = make_pod("web", namespace="team", node="a", labels={"app": "web"})
    selector: Body = {"namespaceSelector": {"matchLabels": {"open": "yes"}}}
    visiting, fleeing = make_pod("p", affinity=near("web", **selector)), make_pod("p", affinity=away("web", **selector))
    yield Case(plugin, "a namespace gets the label", [here, theirs, team()], visiting, team("open"))
    yield Case(plugin, "a namespace comes", [here, theirs], visiting, team("open"))
    yield Case(plugin, "a namespace loses the label", [here, theirs, team("open")], fleeing, team())
    yield Case(plugin, "a namespace goes", [here, theirs, team("open")], fleeing, Gone(team("open")))


def spreading() -> Iterator[Case]:
    def racked(name: str, zone: str, rack: str) -> Body:
        return zoned(name, zone, labels={"rack": rack})

    plugin, web = "PodTopologySpread", placed("web", "c")
    # The zone without a pod of the app has only nodes of the rack with one, and the other way round.
    torn = [racked("a", "z1", "r1"), racked("b", "z2", "r2"), racked("c", "z1", "r2"), web]
    pod = spread(even("zone"), even("rack"))
    for what, change in (
        ("a node comes", racked("d", "z2", "r1")),
        ("a node goes", Gone(torn[1])),
        ("a node moves", racked("a", "z2", "r1")),
        ("a pod comes to the other zone", placed("more", "b")),
        ("a pod goes", Gone(web)),
        ("a pod gets another label", placed("web", "c", "db")),
        ("a pod begins to terminate", placed("web", "c", deleting=True)),
    ):
        yield Case(plugin, what, torn, pod, change)
    yield Case(plugin, "the node gets the label", [make_node("a")], spread(even()), zoned("a", "z1"))
    waiting = make_pod("web", labels={"app": "web"}, nominated="a")
    two_zones = spread(even(minDomains=2))
    yield Case(plugin, "a nominated pod goes", [zoned("a", "z1"), waiting], two_zones, Gone(waiting))
    tainted = zoned("b", "z2", labels={"rack": "r2"}, taints=[("k", "v", "NoSchedule")])
    crowded = [racked("a", "z1", "r1"), tainted, placed("one", "a"), placed("two", "b"), placed("three", "b")]
    honoring = spread(even(minDomains=2, nodeTaintsPolicy="Honor"), even("rack"))
    yield Case(plugin, "a taint goes", crowded, honoring, racked("b", "z2", "r2"))

    defaults = [
        {key: value for key, value in even(label).items() if key != "labelSelector"} for label in ("zone", "rack")
    ]
    args = {"defaultingType": "List", "defaultConstraints": defaults}
    service = selecting("Service", {"app": "web"})
    plain = make_pod("p", labels={"app": "web"})
    yield Case(plugin, "the service goes", [*torn, service], plain, Gone(service), args)
    owner = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web", "uid": "rs", "controller": True}
    owned = make_pod("p", labels={"app": "web"}, owner=owner)
    replicas = selecting("ReplicaSet", {"matchLabels": {"app": "web"}})
    others = selecting("ReplicaSet", {"matchLabels": {"app": "db"}})
    yield Case(plugin, "the owner selects others", [*torn, replicas], owned, others, args)


def disks() -> Iterator[Case]:
    plugin, node = "VolumeRestrictions", make_node("a")
    disk = {"gcePersistentDisk": {"pdName": "disk"}}
    wanting, holding = pod_with(disk), pod_with(disk, name="holder", node="a")
    yield Case(plugin, "a node comes", [node, holding], wanting, make_node("b"))
    yield Case(plugin, "the pod with the disk goes", [node, holding], wanting, Gone(holding))
    claim = make_claim("c", "v", modes=["ReadWriteOncePod"])
    user = pod_with("c", name="user", node="b")
    yield Case(plugin, "the claim comes", [node], pod_with("c"), claim)
    yield Case(plugin, "the pod with the claim goes", [node, make_node("b"), claim, user], pod_with("c"), Gone(user))
    away_node = make_node("b")
    yield Case(plugin, "its node goes", [node, away_node, claim, user], pod_with("c"), Gone(away_node))

    plugin, limited = "NodeVolumeLimits", make_csi_node("a", d=1)
    base = [node, limited, make_claim("c1", "v1"), make_volume("v1"), make_claim("c2", "v2"), make_volume("v2")]
    holding = pod_with("c1", name="holder", node="a")
    yield Case(plugin, "a node comes", [*base, holding], pod_with("c2"), make_node("b"))
    yield Case(plugin, "a pod goes", [*base, holding], pod_with("c2"), Gone(holding))
    yield Case(plugin, "the limit rises", [*base, holding], pod_with("c2"), make_csi_node("a", d=2))
    yield Case(plugin, "the limit goes", [*base, holding], pod_with("c2"), Gone(limited))
    yield Case(plugin, "the claim comes", [node, limited], pod_with("c2"), make_claim("c2", "v2"))
    same = make_volume("v2", source={"csi": {"driver": "d", "volumeHandle": "v1"}})
    yield Case(plugin, "it is the same volume", [*base, holding], pod_with("c2"), same)
    unbound = [node, limited, make_claim("c1", "v1"), make_volume("v1"), make_claim("c2"), make_class(), holding]
    yield Case(plugin, "its class goes", unbound, pod_with("c2"), Gone(make_class()))


def volumes() -> Iterator[Case]:
    plugin, node, there = "VolumeBinding", zoned("a", "z1"), zoned("b", "z2")
    bound = [node, make_claim("c", "v"), make_volume("v", "z2")]
    yield Case(plugin, "a node comes", bound, pod_with("c"), there)
    yield Case(plugin, "the node gets the label", bound, pod_with("c"), zoned("a", "z2"))
    yield Case(plugin, "the volume can be reached", bound, pod_with("c"), make_volume("v", "z1"))
    yield Case(plugin, "the claim comes", [node, make_volume("v")], pod_with("c"), make_claim("c", "v"))
    immediate = [node, make_claim("c"), make_volume("v"), make_class(immediate=True)]
    yield Case(plugin, "the claim is bound", immediate, pod_with("c"), make_claim("c", "v"))
    yield Case(plugin, "the volume comes", [node, make_claim("c", "v")], pod_with("c"), make_volume("v"))
    yield Case(plugin, "the class comes", [node, make_claim("c")], pod_with("c"), make_class())
    by_hand = make_class(provisioner="kubernetes.io/no-provisioner")
    yield Case(plugin, "a free volume comes", [node, make_claim("c"), by_hand], pod_with("c"), make_volume("v"))
    narrow = make_class(
        allowedTopologies=[{"matchLabelExpressions": [{"key": "zone", "values": ["z2"]}]}],
    )
    yield Case(plugin, "the class widens", [node, make_claim("c"), narrow], pod_with("c"), make_class())
    short = [node, make_claim("c", size="2Gi"), make_class(), make_driver()]
    space = make_capacity("s", "1Gi", {})
    yield Case(plugin, "there is space", short, pod_with("c"), make_capacity("s", "2Gi", {}))
    yield Case(plugin, "there is more space", [*short, space], pod_with("c"), make_capacity("s", "2Gi", {}))
    yield Case(plugin, "nobody counts the space", short, pod_with("c"), make_driver(capacity=False))
    old = make_volume(
        "v",
        source={"gcePersistentDisk": {"pdName": "disk"}},
        terms=[{"matchExpressions": [{"key": ZONE, "operator": "In", "values": ["z1"]}]}],
    )
    moved = [make_node("a", labels={GCE_ZONE: "z1"}), make_csi_node("a"), make_claim("c", "v"), old]
    taken_over = make_csi_node("a", migrated="kubernetes.io/gce-pd")
    yield Case(plugin, "the driver takes over", moved, pod_with("c"), taken_over)

    plugin = "VolumeZone"
    bound = [node, make_claim("c", "v"), make_volume("v", labels={ZONE: "z2"})]
    yield Case(plugin, "a node comes", bound, pod_with("c"), there)
    yield Case(plugin, "the node gets the label", bound, pod_with("c"), zoned("a", "z2"))
    yield Case(plugin, "the volume gets the label", bound, pod_with("c"), make_volume("v", labels={ZONE: "z1"}))
    yield Case(plugin, "the volume comes", [node, make_claim("c", "v")], pod_with("c"), make_volume("v"))
    yield Case(plugin, "the claim comes", [node, make_volume("v")], pod_with("c"), make_claim("c", "v"))
    yield Case(plugin, "the claim is bound", immediate, pod_with("c"), make_claim("c", "v"))
    yield Case(plugin, "the class comes", [node, make_claim("c")], pod_with("c"), make_class())


def old_ones() -> Iterator[Case]:
    plain = make_pod("p")
    for plugin, condition, pod in (
        ("CheckNodeMemoryPressure", "MemoryPressure", plain),
        ("CheckNodeDiskPressure", "DiskPressure", plain),
        ("CheckNodePIDPressure", "PIDPressure", plain),
    ):
        pressed = conditions(**{condition: "True"})
        yield Case(plugin, "a node comes", [pressed], pod, make_node("b"))
        yield Case(plugin, "the pressure goes", [pressed], pod, conditions(**{condition: "False"}))
    plugin = "CheckNodeCondition"
    yield Case(plugin, "a node comes", [conditions(Ready="False")], plain, make_node("b"))
    yield Case(plugin, "the node is ready", [conditions(Ready="False")], plain, conditions(Ready="True"))
    yield Case(plugin, "the node is uncordoned", [make_node("a", unschedulable=True)], plain, make_node("a"))

    plugin, tainted = "PodToleratesNodeNoExecuteTaints", make_node("a", taints=[("k", "v", "NoExecute")])
    yield Case(plugin, "a node comes", [tainted], plain, make_node("b"))
    yield Case(plugin, "the taint goes", [tainted], plain, make_node("a"))

    plugin, args = "CheckNodeLabelPresence", {"labels": ["zone"], "presence": True}
    yield Case(plugin, "a node comes", [make_node("a")], plain, zoned("b", "z1"), args)
    yield Case(plugin, "the node gets the label", [make_node("a")], plain, zoned("a", "z1"), args)

    plugin, args = "CheckServiceAffinity", {"labels": ["region", "rack"]}
    here = make_node("b", labels={"region": "x", "rack": "r1"})
    there = make_node("c", labels={"region": "y", "rack": "r2"})
    web, service = placed("web", "c"), selecting("Service", {"app": "web"})
    pod = make_pod("p", labels={"app": "web"}, node_selector={"rack": "r1"})
    objects = [here, there, web, service]
    for what, change in (
        ("a node comes", make_node("d", labels={"region": "y", "rack": "r1"})),
        ("the node of the other goes", Gone(there)),
        ("a node moves", make_node("b", labels={"region": "y", "rack": "r1"})),
        ("one comes to a node before", placed("more", "b")),
        ("the other goes", Gone(web)),
        ("the other gets another label", placed("web", "c", "db")),
        ("the service goes", Gone(service)),
    ):
        yield Case(plugin, what, objects, pod, change, args)


def old_disks() -> Iterator[Case]:
    for plugin, source, field_name, resource in (
        ("MaxEBSVolumeCount", "awsElasticBlockStore", "volumeID", "attachable-volumes-aws-ebs"),
        ("MaxGCEPDVolumeCount", "gcePersistentDisk", "pdName", "attachable-volumes-gce-pd"),
        ("MaxAzureDiskVolumeCount", "azureDisk", "diskName", "attachable-volumes-azure-disk"),
        ("MaxCinderVolumeCount", "cinder", "volumeID", "attachable-volumes-cinder"),
    ):

        def disk(name: str, source: str = source, field_name: str = field_name) -> Body:
            return {source: {field_name: name}}

        full = make_node("a", extended={resource: 1})
        holding, wanting = pod_with(disk("one"), name="holder", node="a"), pod_with(disk("two"))
        for what, change in (
            ("a node comes", make_node("b")),
            ("the limit rises", make_node("a", extended={resource: 2})),
            ("the limit is not named any more", make_node("a")),
            ("a pod goes", Gone(holding)),
        ):
            yield Case(plugin, what, [full, holding], wanting, change)
        claimed = [full, holding, make_claim("c", "v"), make_volume("v", source=disk("two"))]
        yield Case(plugin, "it is another volume", claimed, pod_with("c"), make_volume("v"))
        another = [*claimed, make_volume("w")]
        yield Case(plugin, "the claim is for another volume", another, pod_with("c"), make_claim("c", "w"))
        made = {"EBS": "aws-ebs", "GCE": "gce-pd", "Azu": "azure-disk", "Cin": "cinder"}[plugin[3:6]]
        in_tree = make_class(provisioner=f"kubernetes.io/{made}")
        unbound = [full, holding, make_claim("c"), in_tree]
        yield Case(plugin, "the class makes others", unbound, pod_with("c"), make_class())

    nitro = make_node("a", labels={"node.kubernetes.io/instance-type": "m5.large"})
    many = [pod_with({"awsElasticBlockStore": {"volumeID": f"{i}"}}, name=f"p{i}", node="a") for i in range(25)]
    one_more = pod_with({"awsElasticBlockStore": {"volumeID": "more"}})
    yield Case("MaxEBSVolumeCount", "the machine is of another kind", [nitro, *many], one_more, make_node("a"))


CASES = list(cases())


# --- the table -------------------------------------------------------------------------------------------------------


def cache_of(objects: list[Body]) -> Cache:
    cache = Cache()
    for body in objects:
        cache.observe(body["kind"], body)
    return cache


def apply(cache: Cache, change: Any) -> Changes:
    if isinstance(change, Gone):
        return cache.remove(change.body["kind"], change.body)
    return cache.observe(change["kind"], change)


def helping(changes: Changes, plugin: FilterPlugin, pod: Pod, cache: Cache) -> bool:
    """Whether the plugin, having refused the pod, says that one of the changes may help."""
    return any(
        change.events & plugin.retry_events and plugin.hint(Query(pod, cache.state.table), cache.state, change)
        for change in changes
    )


def kept(plugin: FilterPlugin, pod: Pod, cache: Cache) -> UnschedulablePods:
    """The pod, which the plugin refused, as the queue keeps it for changes to find it."""
    unschedulable, profile = UnschedulablePods(), profile_of(pod, plugin.retry_events, [plugin], cache.state)
    unschedulable.add(
        QueuedPod(pod, 0, 0.0, retry_events=plugin.retry_events, plugins=(plugin,), profile=profile), (0.0,)
    )
    return unschedulable


def is_found(unschedulable: UnschedulablePods, changes: Changes, cache: Cache) -> bool:
    return any(any(unschedulable.concerned(change, cache.state)) for change in changes)


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case.plugin}: {case.what}")
def test_a_change_that_helps_is_one_that_the_plugin_is_retried_for(case: Case) -> None:
    cache, pod = cache_of(case.objects), parse_pod(case.pod)
    plugin = make_filter(case.plugin, case.args)
    pipeline = Pipeline([plugin], [])
    refused = pipeline.decide(pod, cache.state, Random(0))
    assert isinstance(refused, Diagnosis)
    unschedulable = kept(plugin, pod, cache)

    changes = apply(cache, case.change)

    assert isinstance(pipeline.decide(pod, cache.state, Random(0)), Placement)
    assert events_of(changes) & refused.retry_events
    assert helping(changes, plugin, pod, cache)
    assert is_found(unschedulable, changes, cache)


@pytest.mark.parametrize("plugin", FILTERS)
def test_every_filter_is_retried_for_nothing_but_what_can_help(plugin: str) -> None:
    seen: set[Event] = set()
    for case in CASES:
        if case.plugin == plugin:
            seen |= events_of(apply(cache_of(case.objects), case.change))
    assert PLUGINS[plugin].retry_events <= seen


@pytest.mark.parametrize("plugin", FILTERS)
def test_every_filter_is_retried_for_a_new_node_and_one_that_looks_at_pods_on_a_pod_that_goes(plugin: str) -> None:
    assert Event.NODE_ADDED in PLUGINS[plugin].retry_events
    reads_pods = make_filter_for(plugin, worlds()[0]).dependencies.reads_pods
    assert Event.POD_REMOVED in PLUGINS[plugin].retry_events or not reads_pods


# --- the walk --------------------------------------------------------------------------------------------------------


def variants(body: Body) -> Iterator[Any]:
    """The object gone, and with one part less or one more; of a pod, its volumes and what else cannot change stay."""
    yield Gone(body)
    for section in ("metadata", "status") if body["kind"] == "Pod" else ("metadata", "spec", "status"):
        for part in body.get(section) or {}:
            if part not in ("name", "namespace", "uid", "resourceVersion"):
                changed = copy.deepcopy(body)
                del changed[section][part]
                yield changed
    if body["kind"] == "Pod":
        changed = copy.deepcopy(body)
        changed["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
        yield changed
        changed = copy.deepcopy(body)
        for container in changed["spec"]["containers"]:
            container.pop("resources", None)
        yield changed


def taken_by(plugins: dict[str, Pipeline], pod: Pod, cache: Cache) -> dict[str, tuple[frozenset[str], bool]]:
    """The nodes that each filter, asked alone, leaves to the pod, and whether it refuses any."""
    table = cache.state.table
    found = {}
    for name, pipeline in plugins.items():
        survey = pipeline.survey(Query(pod, table), cache.state)
        fits = frozenset(table.name(int(row)) for row in row_numbers(survey.rows)[survey.fits])
        found[name] = fits, len(fits) < len(table)
    return found


def hinted_by(
    plugins: dict[str, Pipeline], unschedulable: dict[str, UnschedulablePods], changes: Changes, pod: Pod, cache: Cache
) -> set[str]:
    """The filters that say that one of the changes, which found the pod, may help."""
    return {
        name
        for name, only in plugins.items()
        if helping(changes, only.filters[0], pod, cache) and is_found(unschedulable[name], changes, cache)
    }


@pytest.mark.parametrize("world", worlds()[::6], ids=lambda world: world.id)
def test_whatever_makes_a_node_fit_wakes_whom_it_was_refused_by(world: World) -> None:
    cache = cache_of([dict(body) for body in world.objects])
    plugins = {name: Pipeline([make_filter_for(name, world)], []) for name in FILTERS}
    before = taken_by(plugins, world.pod, cache)
    for body in map(dict, world.objects):
        for variant in variants(body):
            unschedulable = {name: kept(only.filters[0], world.pod, cache) for name, only in plugins.items()}
            there = hinted_by(plugins, unschedulable, apply(cache, variant), world.pod, cache)
            changed = taken_by(plugins, world.pod, cache)
            unschedulable = {name: kept(only.filters[0], world.pod, cache) for name, only in plugins.items()}
            back = hinted_by(plugins, unschedulable, apply(cache, body), world.pod, cache)
            assert taken_by(plugins, world.pod, cache) == before
            for name in FILTERS:
                for (old, refuses), (new, _), hinted in (
                    (before[name], changed[name], there),
                    (changed[name], before[name], back),
                ):
                    helps = refuses and bool(new - old)
                    assert not helps or name in hinted, f"{name}: {variant}"
