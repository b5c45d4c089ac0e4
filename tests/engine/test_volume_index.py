"""VolumeIndex follows pods, nodes and storage objects: after any history it is what a rebuild from scratch would be."""

from collections import Counter
from typing import Any

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from berth.engine.plugins.common.volume_matching import match_claims
from berth.engine.state.state import State
from berth.engine.verdict import BoolColumn, Int64Column
from berth.model import Claim, Node, Pod, Volume, object_key, parse, parse_node, parse_pod
from engine.expecting import row_of
from engine.storage import make_capacity, make_claim, make_class, make_csi_node, make_volume, pod_with
from support.builders import Body, make_node

NAMES = ("n0", "n1", "n2")
DRIVERS = ("d", "ebs.csi.aws.com", "e")
SOURCES = ("awsElasticBlockStore", "gcePersistentDisk")
EPHEMERAL: Body = {"ephemeral": {"volumeClaimTemplate": {"spec": {}}}}


def ebs(name: str) -> Body:
    return {"awsElasticBlockStore": {"volumeID": name}}


def gce(name: str, read_only: bool) -> Body:
    return {"gcePersistentDisk": {"pdName": name, "readOnly": read_only}}


OBJECTS: dict[str, list[Body]] = {
    "c0": [make_claim("c0", "v0"), make_claim("c0", "v1"), make_claim("c0"), make_claim("c0", storage_class="ebs")],
    "c1": [make_claim("c1", "v1"), make_claim("c1", storage_class=None), make_claim("c1", storage_class="ebs")],
    "p0-v0": [make_claim("p0-v0", "v0", owner="p0"), make_claim("p0-v0", "v0", owner="somebody")],
    "v0": [
        make_volume("v0"),
        make_volume("v0", phase="Bound", claim="c0"),
        make_volume("v0", "z1", storage_class="other"),
    ],
    "v1": [
        make_volume("v1", source=ebs("vol-1")),
        make_volume("v1", source={"csi": {"driver": "e", "volumeHandle": "v0"}}),
        make_volume("v1", source=gce("disk", False), claim="c1"),
    ],
    "slow": [make_class("slow"), make_class("slow", provisioner="e")],
    "ebs": [make_class("ebs", provisioner="kubernetes.io/aws-ebs"), make_class("ebs", provisioner="e")],
    "n0": [make_csi_node("n0", d=1), make_csi_node("n0", "kubernetes.io/aws-ebs", d=None, e=2)],
    "n1": [make_csi_node("n1", "kubernetes.io/aws-ebs", e=1)],
    "k0": [
        make_capacity("k0", "1Gi", {"matchLabels": {"zone": "z1"}}),
        make_capacity("k0", "3Gi", {"matchLabels": {"zone": "z2"}}),
        make_capacity("k0", "9Gi", {"matchExpressions": [{"key": "zone", "operator": "Exists"}]}),
    ],
    "k1": [make_capacity("k1", "2Gi", {"matchLabels": {"zone": "z1"}}), make_capacity("k1", "2Gi", None, "ebs")],
}
PODS = [
    pod_with("c0", "c0", name="p0", uid="p0"),
    pod_with("c0", "c1", ebs("vol-1"), name="p1", uid="p1"),
    pod_with(gce("disk", True), gce("other", False), name="p2", uid="p2"),
    pod_with(gce("disk", False), "c1", name="p3", uid="p3"),
    pod_with(EPHEMERAL, name="p0", uid="p4"),
    pod_with(EPHEMERAL, "missing", name="p0", uid="p0-again"),
]
NODES = [[make_node(name, labels=labels) for labels in ({"zone": "z1"}, {"zone": "z2"}, {})] for name in NAMES]

steps = st.one_of(
    st.tuples(st.just("put"), st.sampled_from(sorted(OBJECTS)), st.integers(0, 3)),
    st.tuples(st.just("drop"), st.sampled_from(sorted(OBJECTS)), st.just(0)),
    st.tuples(st.just("node"), st.sampled_from(range(len(NAMES))), st.integers(0, 2)),
    st.tuples(st.just("no node"), st.sampled_from(range(len(NAMES))), st.just(0)),
    st.tuples(st.just("pod"), st.sampled_from(range(len(PODS))), st.sampled_from(range(len(NAMES)))),
    st.tuples(st.just("no pod"), st.sampled_from(range(len(PODS))), st.just(0)),
    st.tuples(st.just("look"), st.just(0), st.just(0)),
)


class History:
    """A state that lives through the steps, and what is there at the end."""

    def __init__(self) -> None:
        self.state = State()
        self.objects: dict[str, Body] = {}
        self.nodes: dict[str, Body] = {}
        self.pods: dict[str, tuple[Pod, str]] = {}

    def take(self, what: str, which: Any, how: int) -> None:
        table = self.state.table
        if what == "put":
            body = OBJECTS[which][how % len(OBJECTS[which])]
            self.objects[which] = body
            self.state.put(body["kind"], object_key(body), parse(body["kind"], body))
        elif what == "drop" and which in self.objects:
            body = self.objects.pop(which)
            self.state.drop(body["kind"], object_key(body))
        elif what == "node":
            self.nodes[NAMES[which]] = NODES[which][how]
            table.set_node(parse_node(NODES[which][how]))
        elif what == "no node":
            self.nodes.pop(NAMES[which], None)
            table.remove_node(NAMES[which])
        elif what in ("pod", "no pod"):
            pod = parse_pod(PODS[which])
            table.remove_pod(pod.uid)
            self.pods.pop(pod.uid, None)
            if what == "pod":
                self.pods[pod.uid] = pod, NAMES[how]
                table.add_pod(pod, NAMES[how])
        elif what == "look":
            view(self.state)  # columns that have been asked for follow what comes

    def rebuilt(self) -> State:
        state = State()
        for body in self.objects.values():
            state.put(body["kind"], object_key(body), parse(body["kind"], body))
        for body in self.nodes.values():
            state.table.set_node(parse_node(body))
        for pod, node in self.pods.values():
            state.table.add_pod(pod, node)
        return state


def by_name(state: State, column: Int64Column | BoolColumn) -> dict[str, int]:
    return {name: int(column[row]) for name in NAMES if (row := state.table.row(name)) is not None}


def names(state: State, rows: NDArray[np.intp]) -> list[str]:
    return sorted(name for name in NAMES if state.table.row(name) in rows.tolist())


def view(state: State) -> dict[str, Any]:
    """Everything that the index says, with names in place of rows."""
    index = state.volumes
    disks = [volume for pod in map(parse_pod, PODS) for volume in pod.volumes if volume.claim is None]
    return {
        "attached": [by_name(state, index.attached(driver)) for driver in DRIVERS],
        "where": [names(state, index.rows_attached(d, h)) for d in DRIVERS for h in ("v0", "v1", "vol-1")],
        "disks": [by_name(state, index.disks(source)) for source in SOURCES],
        "where disks": [names(state, index.rows_with_disk(SOURCES[0], "vol-1"))],
        "conflicts": [names(state, index.rows_in_conflict(volume)) for volume in disks],
        "users": [sorted(pod.uid for pod in index.users(f"default/{name}")) for name in ("c0", "c1", "p0-v0")],
        "failures": sorted((state.table.name(row), why) for row, why in index.failures()),
        "limits": [by_name(state, index.csi_nodes.limit(driver)) for driver in DRIVERS],
        "csi nodes": [by_name(state, index.csi_nodes.known()), by_name(state, index.csi_nodes.limited())],
        "migrated": by_name(state, index.csi_nodes.migrated("kubernetes.io/aws-ebs")),
        "free": [sorted(v.name for v in index.reservations.free(name) or ()) for name in ("slow", "other")],
        "kept": [[v.name for v in index.reservations.kept(c)] for c in state.objects["PersistentVolumeClaim"].values()],
        "space": [by_name(state, index.space.largest(name)) for name in ("slow", "ebs")],
    }


@settings(max_examples=150, deadline=None)
@given(st.lists(steps, max_size=40))
def test_after_any_history_the_index_is_what_a_rebuild_would_be(history: list[tuple[Any, ...]]) -> None:
    lived = History()
    for step in history:
        lived.take(*step)
    state, rebuilt = lived.state, lived.rebuilt()
    assert {**view(state), "kept": None} == {**view(rebuilt), "kept": None}
    assert Counter(map(str, view(state)["kept"])) == Counter(map(str, view(rebuilt)["kept"]))
    assert state.volumes.statistics() == rebuilt.volumes.statistics()


@settings(max_examples=50, deadline=None)
@given(st.lists(steps, max_size=40))
def test_when_everything_is_gone_nothing_is_kept(history: list[tuple[Any, ...]]) -> None:
    lived = History()
    for step in history:
        lived.take(*step)
    for which in range(len(PODS)):
        lived.take("no pod", which, 0)
    for name in list(lived.objects):
        lived.take("drop", name, 0)
    assert set(lived.state.volumes.statistics().values()) == {0}


def test_columns_grow_with_the_table() -> None:
    state = State()
    for number in range(150):  # more than a table begins with
        body = make_csi_node(f"n{number}", d=number)
        state.put(body["kind"], object_key(body), parse(body["kind"], body))
        state.table.set_node(parse_node(make_node(f"n{number}")))
        state.table.add_pod(parse_pod(pod_with(ebs(f"vol-{number}"), name=f"p{number}")), f"n{number}")
        limits, held = state.volumes.csi_nodes.limit("d"), state.volumes.attached("ebs.csi.aws.com")
        assert len(limits) == len(held) == state.table.capacity
        row = row_of(state.table, f"n{number}")
        assert (int(limits[row]), int(held[row]), int(held.sum())) == (number, 1, number + 1)


def test_an_unbound_claim_stands_for_a_disk_of_the_plugin_that_its_class_names() -> None:
    state = State()
    for body in (OBJECTS["ebs"][0], make_claim("c0", storage_class="ebs")):
        state.put(body["kind"], object_key(body), parse(body["kind"], body))
    pod = parse_pod(pod_with("c0", ebs("vol-9")))
    assert [source for source, _ in state.volumes.disks_of(pod)] == ["awsElasticBlockStore"] * 2


# --- what claims get, node by node as kube-scheduler asks ------------------------------------------------------------

volumes = st.lists(
    st.tuples(st.integers(1, 4), st.sampled_from(["z1", "z2", None, "z1 or z2", "not z1"]), st.booleans()), max_size=7
)
claims = st.lists(st.integers(1, 4), min_size=1, max_size=3)
_TERMS: dict[str | None, list[tuple[str, list[str]]]] = {
    "z1": [("In", ["z1"])],
    "z2": [("In", ["z2"])],
    "z1 or z2": [("In", ["z1"]), ("In", ["z2"])],
    "not z1": [("NotIn", ["z1"])],
}


def _some_volume(number: int, size: int, where: str | None, kept: bool) -> Body:
    terms: list[Body] = [
        {"matchExpressions": [{"key": "zone", "operator": operator, "values": values}]}
        for operator, values in _TERMS.get(where, [])
    ]
    claim = "c0" if kept and number == 0 else None
    return make_volume(f"v{number}", terms=terms or None, size=f"{size * 100 + number}", claim=claim)


def _claims(pod: Pod, state: State) -> list[Claim]:
    names = [volume.claim for volume in pod.volumes if volume.claim is not None]
    return [claim for name in names if (claim := state.claim("default", name)) is not None]


def _naive(pod: Pod, state: State, node: Node) -> dict[str, str]:
    """One node, one claim after the other, one volume after the other."""
    chosen: dict[str, str] = {}
    for claim in sorted(_claims(pod, state), key=lambda c: c.requested_bytes):
        best: Volume | None = None
        for volume in state.objects["PersistentVolume"].values():
            if volume.name in chosen.values() or volume.capacity_bytes < claim.requested_bytes:
                continue
            reached = volume.node_affinity is None or volume.node_affinity.matches(node.name, node.labels)
            if volume.claim_ref is not None:
                if volume.claim_ref.name == claim.name:
                    best = volume if reached else None
                    break
            elif reached and (best is None or volume.capacity_bytes < best.capacity_bytes):
                best = volume
        if best is not None:
            chosen[claim.name] = best.name
    return chosen


@settings(max_examples=200, deadline=None)
@given(claims, volumes)
def test_claims_get_on_every_node_what_they_would_get_on_it_alone(
    sizes: list[int], offered: list[tuple[int, str | None, bool]]
) -> None:
    state = State()
    for name, zone in (("n0", "z1"), ("n1", "z2"), ("n2", None)):
        state.table.set_node(parse_node(make_node(name, labels={"zone": zone} if zone else {})))
    bodies = [make_claim(f"c{i}", size=str(size * 100)) for i, size in enumerate(sizes)]
    bodies += [_some_volume(number, *how) for number, how in enumerate(offered)]
    for body in bodies:
        state.put(body["kind"], object_key(body), parse(body["kind"], body))
    pod = parse_pod(pod_with(*(f"c{i}" for i in range(len(sizes)))))
    match = match_claims(_claims(pod, state), state)
    for node in state.table.nodes():
        bindings, missing = match.on(row_of(state.table, node.name))
        expected = _naive(pod, state, node)
        assert {claim.name: volume.name for claim, volume in bindings} == expected
        assert {claim.name for claim in missing} == {f"c{i}" for i in range(len(sizes))} - set(expected)
