"""Decisions made live, each held against the reference engine: its node is one of the best, its refusal says the same.

Everything that decisions read is listed from the API right before a pod is made, and the plain engine of
tests/reference judges the pod on it. Objects that a decision reads are there before Berth starts, or a pod waits for
them; so what is listed is what Berth knows.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from berth.model import KINDS, parse_pod
from berth.policy.compile import load_policy
from control_plane.client import NAMESPACES, NODES, PODS, POLICIES, Client, Object, key_of, path_of
from end_to_end.watching import StartBerth, refusal
from reference.engine import judge, take_survey
from reference.profile import Profile, default_profile
from reference.world import World
from support.builders import make_node, make_pod

ZONE, HOSTNAME = "topology.kubernetes.io/zone", "kubernetes.io/hostname"
BIG_IMAGE = "registry.example/big:v1"
BOUND: Object = {"metadata": {"annotations": {"pv.kubernetes.io/bind-completed": "yes"}}}
CLAIMS = f"{NAMESPACES}/default/persistentvolumeclaims"


class Referee:
    """Makes pods one after another, and checks what becomes of each."""

    def __init__(self, api: Client, profile: Profile | None = None) -> None:
        self._api = api
        self._profile = profile or default_profile()

    async def place(self, body: Object) -> str:
        """The node that the pod was bound to, "" where it was refused."""
        before = await everything(self._api)
        key = key_of(await self._api.create(body))
        return self._check(before, await self._wait(key, lambda pod: is_bound(pod) or refusal(pod) is not None))

    async def place_all(self, *bodies: Object) -> list[str]:
        return [await self.place(body) for body in bodies]

    async def place_after(self, change: Awaitable[object], key: str) -> str:
        """The node that a pod which was refused is bound to after a change."""
        await change
        before = [body for body in await everything(self._api) if (body["kind"], key_of(body)) != ("Pod", key)]
        return self._check(before, await self._wait(key, is_bound))

    async def _wait(self, key: str, decided: Callable[[Object], bool]) -> Object:
        pods = await self._api.wait_until(PODS, lambda pods: key in pods and decided(pods[key]), timeout_seconds=30)
        return pods[key]

    def _check(self, before: list[Object], body: Object) -> str:
        node = str(body["spec"].pop("nodeName", ""))
        world, pod = World.of(before), parse_pod(body)
        verdict = judge(world, self._profile, pod)
        if node:
            assert node in verdict.get("best", []), f"{pod.key} went to {node}: {verdict}"
        else:
            assert not verdict["feasible"], f"{pod.key} was refused: {refusal(body)}"
            reason, message = refusal(body) or ("", "")
            assert reason == "Unschedulable"
            assert message.startswith(why_not(world, self._profile, body))
        return node


async def everything(api: Client) -> list[Object]:
    """Every object that decisions read."""
    found: list[Object] = []
    for kind in KINDS:
        root = f"/apis/{kind.group}/{kind.version}" if kind.group else f"/api/{kind.version}"
        found += [{**body, "kind": kind.name} for body in await api.list(f"{root}/{kind.plural}")]
    return found


def is_bound(pod: Object) -> bool:
    return bool(pod["spec"].get("nodeName"))


def why_not(world: World, profile: Profile, body: Object) -> str:
    """The message, from what the reference engine says of each node."""
    survey = take_survey(world, profile, parse_pod(body))
    if survey.refused is not None:
        said = list(survey.refused[1].reasons)
    else:
        counts = Counter(reason for _, refused in survey.refusals.values() for reason in refused.reasons)
        said = sorted(f"{count} {reason}" for reason, count in counts.items())
    return f"0/{len(world.nodes)} nodes are available: {', '.join(said)}."


# --- the cluster -----------------------------------------------------------------------------------------------------


def service(name: str, app: str) -> Object:
    spec = {"selector": {"app": app}, "ports": [{"port": 80}]}
    return {"apiVersion": "v1", "kind": "Service", "metadata": {"name": name, "namespace": "default"}, "spec": spec}


def located(name: str, zone: str, rack: str, **node: Any) -> Object:
    labels = {HOSTNAME: name, ZONE: zone, "rack": rack, "housed": "yes"}
    return make_node(name, labels=labels, cpu="4", memory="8Gi", **node)


def town() -> list[Object]:
    """Three zones, three racks across them, a node that is kept for few, one with an image, one that is nowhere."""
    return [
        located("a1", "a", "r1"),
        located("a2", "a", "r2"),
        located("b1", "b", "r1"),
        located("b2", "b", "r2", taints=[("kept", "yes", "NoSchedule")]),
        located("c1", "c", "r3", images={BIG_IMAGE: 800_000_000}),
        make_node("bare", labels={"lot": "empty"}, cpu="4", memory="8Gi"),
    ]


def housed(name: str, **pod: Any) -> Object:
    """A pod that stays on nodes that are somewhere."""
    return make_pod(name, cpu="100m", node_selector={"housed": "yes", **pod.pop("node_selector", {})}, **pod)


def term(key: str, labels: Mapping[str, str], **more: Any) -> Object:
    return {"labelSelector": {"matchLabels": dict(labels)}, "topologyKey": key, **more}


def affinity(
    near: Object | None = None,
    away: Object | None = None,
    like: tuple[int, Object] | None = None,
    dislike: tuple[int, Object] | None = None,
) -> Object:
    """Terms of all four kinds: required and preferred, towards and away."""
    found: Object = {}
    for kind, required, preferred in (("podAffinity", near, like), ("podAntiAffinity", away, dislike)):
        terms: Object = {}
        if required is not None:
            terms["requiredDuringSchedulingIgnoredDuringExecution"] = [required]
        if preferred is not None:
            weighted = {"weight": preferred[0], "podAffinityTerm": preferred[1]}
            terms["preferredDuringSchedulingIgnoredDuringExecution"] = [weighted]
        if terms:
            found[kind] = terms
    return found


def spread(name: str, app: str, *constraints: Object, **pod: Any) -> Object:
    selector = {"matchLabels": {"app": app}}
    wishes = [{"maxSkew": 1, "labelSelector": selector, **constraint} for constraint in constraints]
    labels = {"app": app, **pod.pop("labels", {})}
    return housed(name, labels=labels, topologySpreadConstraints=wishes, **pod)


def hard(key: str, **more: Any) -> Object:
    return {"topologyKey": key, "whenUnsatisfiable": "DoNotSchedule", **more}


def soft(key: str, **more: Any) -> Object:
    return {"topologyKey": key, "whenUnsatisfiable": "ScheduleAnyway", **more}


def namespace(name: str, **labels: str) -> Object:
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": labels}}


def volume(name: str, zone: str) -> Object:
    where = {"matchExpressions": [{"key": ZONE, "operator": "In", "values": [zone]}]}
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {"name": name, "labels": {ZONE: zone}},
        "spec": {
            "accessModes": ["ReadWriteOnce"],
            "storageClassName": "by-hand",
            "capacity": {"storage": "1Gi"},
            "csi": {"driver": "disks.example", "volumeHandle": name},
            "nodeAffinity": {"required": {"nodeSelectorTerms": [where]}},
        },
    }


def claim(name: str, volume_name: str = "") -> Object:
    spec = {"accessModes": ["ReadWriteOnce"], "storageClassName": "by-hand"}
    body: Object = {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {**spec, "resources": {"requests": {"storage": "1Gi"}}},
    }
    if volume_name:
        body["spec"]["volumeName"] = volume_name
        body["metadata"] |= BOUND["metadata"]
    return body


STORAGE_CLASS: Object = {
    "apiVersion": "storage.k8s.io/v1",
    "kind": "StorageClass",
    "metadata": {"name": "by-hand"},
    "provisioner": "kubernetes.io/no-provisioner",
    "volumeBindingMode": "Immediate",
}


def with_claim(name: str, *claims: str) -> Object:
    volumes = [{"name": f"v{i}", "persistentVolumeClaim": {"claimName": claimed}} for i, claimed in enumerate(claims)]
    return make_pod(name, cpu="100m", volumes=volumes)


async def nominate(api: Client, name: str, node: str | None) -> None:
    await api.patch(f"{NAMESPACES}/default/pods/{name}/status", {"status": {"nominatedNodeName": node}})


# --- decisions -------------------------------------------------------------------------------------------------------


async def test_pods_look_for_each_other_and_keep_away_as_the_reference_has_it(
    api: Client, berth_process: StartBerth
) -> None:
    await api.create_many([*town(), namespace("blue", team="blue"), namespace("red", team="red")])
    berth_process()
    referee = Referee(api)
    lonely = affinity(away=term(ZONE, {"app": "web"}))
    web = [housed(f"web-{i}", labels={"app": "web"}, affinity=lonely) for i in range(4)]
    assert [bool(node) for node in await referee.place_all(*web)] == [True, True, True, False]

    await referee.place_all(
        housed("db", labels={"app": "db"}, affinity=affinity(near=term("rack", {"app": "web"}))),
        housed("cache", affinity=affinity(like=(80, term(HOSTNAME, {"app": "db"})))),
        housed("batch", affinity=affinity(dislike=(50, term(ZONE, {"app": "web"})), like=(10, term("rack", {})))),
        housed("hermit", affinity=affinity(away=term("rack", {"noise": "loud"}))),
        housed("loud-0", labels={"noise": "loud"}),
        housed("loud-1", labels={"noise": "loud"}),
        housed("snob", affinity=affinity(dislike=(100, term(ZONE, {"app": "guest"})))),
        housed("host", affinity=affinity(like=(30, term(ZONE, {"app": "guest"})))),
        housed("guest-0", labels={"app": "guest"}),
        housed("guest-1", labels={"app": "guest"}),
        housed("first", labels={"app": "club"}, affinity=affinity(near=term(ZONE, {"app": "club"}))),
        housed("second", labels={"app": "club"}, affinity=affinity(near=term(ZONE, {"app": "club"}))),
        housed("third", labels={"app": "club"}, affinity=affinity(near=term(HOSTNAME, {"app": "club"}))),
    )
    assert not await referee.place(housed("orphan", affinity=affinity(near=term(ZONE, {"app": "nobody"}))))

    blue = {"namespaceSelector": {"matchLabels": {"team": "blue"}}}
    everybody: Object = {"namespaceSelector": {}}
    theirs = {"app": "theirs"}
    await referee.place_all(
        housed("theirs", namespace="blue", labels=theirs),
        housed("theirs", namespace="red", labels=theirs),
        housed("friend", affinity=affinity(near=term(HOSTNAME, theirs, **blue))),
        housed("named", affinity=affinity(near=term(HOSTNAME, theirs, namespaces=["red"]))),
        housed("foe", affinity=affinity(away=term(HOSTNAME, theirs, **everybody))),
    )
    assert not await referee.place(housed("stranger", affinity=affinity(near=term(HOSTNAME, theirs))))


async def test_pods_spread_as_the_reference_has_it(api: Client, berth_process: StartBerth) -> None:
    template = {"metadata": {"labels": {"app": "rs"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
    await api.create_many([*town(), service("svc", "svc")])
    replicas = await api.create(
        {
            "apiVersion": "apps/v1",
            "kind": "ReplicaSet",
            "metadata": {"name": "rs", "namespace": "default"},
            "spec": {"replicas": 0, "selector": {"matchLabels": {"app": "rs"}}, "template": template},
        }
    )
    berth_process()
    referee = Referee(api)
    zones = await referee.place_all(*(spread(f"hard-{i}", "hard", hard(ZONE)) for i in range(4)))
    assert {node[0] for node in zones} == {"a", "b", "c"}
    assert not await referee.place(spread("many", "hard", hard(ZONE, minDomains=9)))

    by_version = {"matchLabelKeys": ["version"]}
    for version in ("v1", "v2"):
        pods = (
            spread(f"{version}-{i}", "versioned", hard(ZONE, **by_version), labels={"version": version})
            for i in range(3)
        )
        assert {node[0] for node in await referee.place_all(*pods)} == {"a", "b", "c"}

    await referee.place_all(
        *(spread(f"soft-{i}", "soft", soft(ZONE), soft(HOSTNAME, maxSkew=2)) for i in range(5)),
        *(spread(f"kept-{i}", "kept", hard(HOSTNAME, nodeTaintsPolicy="Honor")) for i in range(5)),
        spread("wide", "kept", hard(ZONE, nodeAffinityPolicy="Ignore"), node_selector={"rack": "r1"}),
        *(make_pod(f"svc-{i}", labels={"app": "svc"}) for i in range(4)),
    )
    owner = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "rs", "uid": replicas["metadata"]["uid"]}
    owned = (make_pod(f"rs-{i}", labels={"app": "rs"}, owner=owner | {"controller": True}) for i in range(4))
    await referee.place_all(*owned)


async def test_ports_taints_images_claims_and_nominated_pods_decide_as_the_reference_has_it(
    api: Client, berth_process: StartBerth
) -> None:
    await api.create_many([*town(), STORAGE_CLASS, volume("disk-b", "b"), volume("disk-c", "c")])
    await api.create_many([claim("data", "disk-b"), claim("other", "disk-c"), claim("unbound")])
    await api.create(make_pod("awaited", scheduler="another", cpu="3"))
    await nominate(api, "awaited", "c1")
    berth_process()
    referee = Referee(api)
    ports = [housed(f"port-{i}", ports=[8080], node_selector={"rack": "r1"}) for i in range(3)]
    assert [bool(node) for node in await referee.place_all(*ports)] == [True, True, False]

    assert await referee.place(make_pod("pictures", image=BIG_IMAGE, cpu="100m")) == "c1"
    tolerations = [{"key": "kept", "operator": "Exists"}]
    await referee.place_all(
        make_pod("few", tolerations=tolerations, cpu="100m"),
        make_pod("kept", tolerations=tolerations, node_selector={ZONE: "b", "rack": "r2"}),
    )
    assert await referee.place(with_claim("db", "data")) == "b1"
    assert not await referee.place(with_claim("torn", "data", "other"))
    assert not await referee.place(with_claim("early", "unbound"))
    assert not await referee.place(with_claim("lost", "nowhere"))
    assert not await referee.place(make_pod("large", cpu="2", node_selector={ZONE: "c"}))


OLD_POLICY: Object = {
    "apiVersion": "berth.dev/v1alpha1",
    "kind": "SchedulingPolicy",
    "metadata": {"name": "old"},
    "spec": {
        "schedulerName": "berth",
        "predicates": [
            {"name": "CheckNodeLabelPresence", "args": {"labels": ["rack"], "presence": True}},
            {"name": "together", "plugin": "CheckServiceAffinity", "args": {"labels": [ZONE]}},
            {"name": "CheckNodeMemoryPressure"},
            {"name": "PodFitsHostPorts"},
        ],
        "priorities": [
            {"name": "SelectorSpreadPriority", "weight": 3},
            {"name": "apart", "plugin": "ServiceAntiAffinity", "weight": 2, "args": {"label": "rack"}},
            {"name": "MostRequestedPriority", "weight": 5},
            {"name": "PodTopologySpread", "enabled": False},
        ],
    },
}


def profile_of(manifest: Object) -> Profile:
    policy = load_policy(manifest).policy
    return Profile(
        tuple((entry.plugin, entry.args) for entry in policy.predicates),
        tuple((entry.plugin, entry.args, entry.weight) for entry in policy.priorities),
    )


async def test_old_predicates_and_priorities_of_a_policy_decide_as_the_reference_has_it(
    api: Client, berth_process: StartBerth
) -> None:
    tired = located("c2", "c", "r4")
    tired["status"]["conditions"] = [{"type": "MemoryPressure", "status": "True"}]
    await api.create_many([*town(), tired, service("old", "old"), OLD_POLICY])
    berth_process()
    await api.wait_until(
        POLICIES, lambda found: found["old"].get("status", {}).get("activeGeneration") == 1, timeout_seconds=30
    )
    referee = Referee(api, profile_of(OLD_POLICY))

    together = await referee.place_all(*(make_pod(f"old-{i}", labels={"app": "old"}, cpu="500m") for i in range(4)))
    assert len({node[0] for node in together}) == 1
    await referee.place_all(*(make_pod(f"new-{i}", labels={"app": "new"}, cpu="200m") for i in range(3)))
    assert await referee.place(make_pod("asking", cpu="100m", node_selector={"rack": "r4"})) == "c2"

    assert not await referee.place(make_pod("best-effort", node_selector={"rack": "r4"}))
    relieved = {"status": {"conditions": [{"type": "MemoryPressure", "status": "False"}]}}
    assert await referee.place_after(api.patch(f"{NODES}/c2/status", relieved), "default/best-effort") == "c2"

    assert not await referee.place(make_pod("settler", cpu="100m", node_selector={"lot": "empty"}))
    racked = {"metadata": {"labels": {"rack": "r9"}}}
    assert await referee.place_after(api.patch(f"{NODES}/bare", racked), "default/settler") == "bare"


# --- what helps ------------------------------------------------------------------------------------------------------


async def test_a_pod_that_waits_is_placed_when_what_it_waits_for_happens(
    api: Client, berth_process: StartBerth
) -> None:
    awaited = make_pod("awaited", scheduler="another", cpu="3")
    await api.create_many([*town(), STORAGE_CLASS, volume("disk", "b"), claim("data"), namespace("team"), awaited])
    await nominate(api, "awaited", "c1")
    berth_process()
    referee = Referee(api)

    async def helps(change: Awaitable[object], body: Object) -> str:
        assert not await referee.place(body)
        return await referee.place_after(change, key_of(body))

    rivals = [housed(f"rival-{i}", labels={"app": "rival"}, node_selector={"rack": "r3"}) for i in range(2)]
    for rival in rivals:
        rival["spec"]["affinity"] = affinity(away=term("rack", {"app": "rival"}))
    assert await referee.place(rivals[0]) == "c1"
    assert await helps(api.delete(path_of(rivals[0])), rivals[1]) == "c1"

    await referee.place(housed("theirs", namespace="team", labels={"app": "theirs"}))
    selector = {"namespaceSelector": {"matchLabels": {"open": "yes"}}}
    friend = housed("friend", affinity=affinity(near=term(HOSTNAME, {"app": "theirs"}, **selector)))
    await helps(api.patch(f"{NAMESPACES}/team", {"metadata": {"labels": {"open": "yes"}}}), friend)

    faraway = make_pod("faraway", node_selector={ZONE: "d"}, cpu="100m")
    assert await helps(api.patch(f"{NODES}/bare", {"metadata": {"labels": {ZONE: "d"}}}), faraway) == "bare"

    bind = api.patch(f"{CLAIMS}/data", {**BOUND, "spec": {"volumeName": "disk"}})
    assert await helps(bind, with_claim("db", "data")) == "b1"

    kept = make_pod("kept", node_selector={ZONE: "b", "rack": "r2"})
    assert await helps(api.patch(f"{NODES}/b2", {"spec": {"taints": None}}), kept) == "b2"

    large = make_pod("large", cpu="2", node_selector={ZONE: "c"})
    assert await helps(nominate(api, "awaited", None), large) == "c1"

    late = housed("late", labels={"app": "late"})
    eager = housed("eager", affinity=affinity(near=term(HOSTNAME, {"app": "late"})))
    assert await helps(referee.place(late), eager)

    ported = [housed(f"ported-{i}", ports=[9090], node_selector={"rack": "r3"}) for i in range(2)]
    assert await referee.place(ported[0]) == "c1"
    assert await helps(api.delete(path_of(ported[0])), ported[1]) == "c1"
