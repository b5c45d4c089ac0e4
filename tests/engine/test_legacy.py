"""Predicates and priorities that Kubernetes has dropped: what they say, case by case, in the words of their time."""

import json
from collections.abc import Collection, Mapping, Sequence
from random import Random
from typing import Any

import pytest

from berth.engine.legacy import OLD_PLUGINS
from berth.engine.legacy.aliases import PREDICATES, PRIORITIES
from berth.engine.pipeline import Pipeline, Placement
from berth.engine.plugin import BadArgument, Query
from berth.engine.registry import PLUGINS, make_plugin
from berth.engine.state.state import State
from berth.engine.verdict import Code, row_numbers
from berth.model import parse, parse_node, parse_pod
from engine.expecting import as_placement, make_filter, make_score
from engine.worlds import point_of, state_of
from support.builders import Body, make_node, make_object, make_pod


def node(
    name: str, conditions: Mapping[str, str] | None = None, limits: Mapping[str, int] | None = None, **fields: Any
) -> Body:
    """A node; conditions as type to status, limits as attachable volumes."""
    body = make_node(name, extended=limits, **fields)
    if conditions is not None:
        body["status"]["conditions"] = [{"type": kind, "status": status} for kind, status in conditions.items()]
    return body


def refusals(
    name: str, objects: Sequence[Body], pod: Body, args: Mapping[str, Any] | None = None, state: State | None = None
) -> dict[str, tuple[Code, tuple[str, ...]]]:
    """node -> (code, reasons) of the nodes that the predicate refuses."""
    state = state or state_of(objects)
    plugin, query = make_filter(name, args or {}), Query(parse_pod(pod), state.table)
    if plugin.pre_filter(query, state).skip:
        return {}
    verdicts = plugin.filter(query, state, state.table.rows)
    return {
        state.table.name(int(row)): (Code(int(code)), verdicts.reasons(position))
        for position, (row, code) in enumerate(zip(row_numbers(state.table.rows), verdicts.codes, strict=True))
        if code
    }


def scores(
    name: str,
    objects: Sequence[Body],
    pod: Body,
    args: Mapping[str, Any] | None = None,
    only: Collection[str] | None = None,
) -> dict[str, int]:
    """node -> score, over all nodes or `only` these."""
    state = state_of(objects)
    plugin, query = make_score(name, args or {}), Query(parse_pod(pod), state.table)
    rows = row_numbers(state.table.rows)
    if only is not None:
        rows = rows[[state.table.name(int(row)) in only for row in rows]]
    if not plugin.pre_score(query, state):
        return dict.fromkeys((state.table.name(int(row)) for row in rows), 0)
    column = plugin.normalize(plugin.score(query, state, rows))
    return {state.table.name(int(row)): int(score) for row, score in zip(rows, column, strict=True)}


def service(name: str, selector: Mapping[str, str], namespace: str = "default") -> Body:
    return make_object("Service", name, namespace=namespace, spec={"selector": selector})


def owner(kind: str, name: str, labels: Mapping[str, str], namespace: str = "default") -> Body:
    selector = labels if kind == "ReplicationController" else {"matchLabels": labels}
    return make_object(kind, name, namespace=namespace, spec={"selector": selector})


def disks(kind: str, *names: str) -> list[Body]:
    return [{"name": f"v-{name}", kind: disk(kind, name)} for name in names]


def disk(kind: str, name: str) -> Body:
    field = {"gcePersistentDisk": "pdName", "azureDisk": "diskName"}.get(kind, "volumeID")
    return {field: name, **({"diskURI": "u"} if kind == "azureDisk" else {})}


class TestNodeConditions:
    """From kube-scheduler 1.11; no oracle has them."""

    @pytest.mark.parametrize(
        ("conditions", "cordoned", "reasons"),
        [
            ({"Ready": "True"}, False, None),
            ({}, False, None),
            ({"Ready": "False"}, False, ("node(s) were not ready",)),
            ({"Ready": "Unknown"}, False, ("node(s) were not ready",)),
            ({"Ready": "True", "OutOfDisk": "False"}, False, None),
            ({"Ready": "True", "OutOfDisk": "True"}, False, ("node(s) were out of disk space",)),
            ({"Ready": "True", "OutOfDisk": "Unknown"}, False, ("node(s) were out of disk space",)),
            ({"Ready": "True", "NetworkUnavailable": "False"}, False, None),
            ({"Ready": "True", "NetworkUnavailable": "True"}, False, ("node(s) had unavailable network",)),
            ({"Ready": "True", "NetworkUnavailable": "Unknown"}, False, ("node(s) had unavailable network",)),
            ({"Ready": "True", "MemoryPressure": "True", "DiskPressure": "True", "PIDPressure": "True"}, False, None),
            ({"Ready": "True"}, True, ("node(s) were unschedulable",)),
            (
                {"Ready": "False", "OutOfDisk": "True", "NetworkUnavailable": "True"},
                True,
                (
                    "node(s) were not ready",
                    "node(s) were out of disk space",
                    "node(s) had unavailable network",
                    "node(s) were unschedulable",
                ),
            ),
        ],
    )
    def test_a_node_must_be_ready_with_disk_and_network_and_not_cordoned(
        self, conditions: Mapping[str, str], cordoned: bool, reasons: tuple[str, ...] | None
    ) -> None:
        found = refusals("CheckNodeCondition", [node("a", conditions, unschedulable=cordoned)], make_pod("p"))
        assert found == ({} if reasons is None else {"a": (Code.UNRESOLVABLE, reasons)})

    def test_no_toleration_helps_on_a_cordoned_node(self) -> None:
        pod = make_pod("p", tolerations=[{"operator": "Exists"}])
        assert "a" in refusals("CheckNodeCondition", [node("a", unschedulable=True)], pod)

    @pytest.mark.parametrize(
        ("name", "condition", "reason"),
        [
            ("CheckNodeMemoryPressure", "MemoryPressure", "node(s) had memory pressure"),
            ("CheckNodeDiskPressure", "DiskPressure", "node(s) had disk pressure"),
            ("CheckNodePIDPressure", "PIDPressure", "node(s) had pid pressure"),
        ],
    )
    def test_a_node_under_pressure_is_refused_and_an_unknown_one_is_not(
        self, name: str, condition: str, reason: str
    ) -> None:
        objects = [node(status, {condition: status}) for status in ("True", "False", "Unknown")] + [node("silent", {})]
        assert refusals(name, objects, make_pod("p")) == {"True": (Code.UNRESOLVABLE, (reason,))}

    @pytest.mark.parametrize(
        ("pod", "refused"),
        [
            (make_pod("p"), True),
            (make_pod("p", overhead={"memory": "1Gi"}), True),
            (make_pod("p", requests={"ephemeral-storage": "1Gi"}), True),
            (make_pod("p", cpu="1m"), False),
            (make_pod("p", memory="1"), False),
            (make_pod("p", containers=[{"name": "c", "resources": {"limits": {"cpu": "1"}}}]), False),
        ],
        ids=["nothing named", "overhead alone", "storage alone", "cpu", "memory", "a limit"],
    )
    def test_memory_pressure_keeps_only_best_effort_pods_away(self, pod: Body, refused: bool) -> None:
        found = refusals("CheckNodeMemoryPressure", [node("a", {"MemoryPressure": "True"})], pod)
        assert bool(found) is refused

    @pytest.mark.parametrize("name", ["CheckNodeDiskPressure", "CheckNodePIDPressure"])
    def test_other_pressure_keeps_every_pod_away(self, name: str) -> None:
        condition = name.removeprefix("CheckNode")
        assert refusals(name, [node("a", {condition: "True"})], make_pod("p", cpu="1", memory="1Gi"))

    def test_a_condition_is_followed_as_it_changes(self) -> None:
        state = state_of([node("a", {"Ready": "True"}), node("b", {"Ready": "True"})])
        pipeline = Pipeline([make_filter("CheckNodeCondition")], [])
        pod = parse_pod(make_pod("p"))
        assert as_placement(pipeline.decide(pod, state, Random(0))).feasible == 2
        state.table.set_node(parse_node(node("a", {"Ready": "False"})))
        assert pipeline.decide(pod, state, Random(0)) == Placement("b", 2, 1)
        state.table.remove_node("a")
        state.table.set_node(parse_node(node("a", {"Ready": "True"})))
        assert as_placement(pipeline.decide(pod, state, Random(0))).feasible == 2


class TestVolumeCounts:
    KINDS = (
        ("MaxEBSVolumeCount", "awsElasticBlockStore", "attachable-volumes-aws-ebs", "kubernetes.io/aws-ebs", 39),
        ("MaxGCEPDVolumeCount", "gcePersistentDisk", "attachable-volumes-gce-pd", "kubernetes.io/gce-pd", 16),
        ("MaxAzureDiskVolumeCount", "azureDisk", "attachable-volumes-azure-disk", "kubernetes.io/azure-disk", 16),
        ("MaxCinderVolumeCount", "cinder", "attachable-volumes-cinder", "kubernetes.io/cinder", 256),
    )
    REFUSED = (Code.UNSCHEDULABLE, ("node(s) exceed max volume count",))

    @pytest.mark.parametrize(("name", "kind", "limit", "_provisioner", "_default"), KINDS)
    def test_a_node_takes_as_many_distinct_disks_as_it_says(
        self, name: str, kind: str, limit: str, _provisioner: str, _default: int
    ) -> None:
        objects = [
            node("a", limits={limit: 2}),
            make_pod("x", node="a", volumes=disks(kind, "d1")),
            make_pod("y", node="a", volumes=disks(kind, "d1")),
        ]
        assert refusals(name, objects, make_pod("p", volumes=disks(kind, "d2"))) == {}
        assert refusals(name, objects, make_pod("p", volumes=disks(kind, "d2", "d3"))) == {"a": self.REFUSED}
        assert refusals(name, objects, make_pod("p", volumes=disks(kind, "d1", "d3"))) == {}

    @pytest.mark.parametrize(("name", "kind", "_limit", "_provisioner", "default"), KINDS)
    def test_a_node_that_says_nothing_takes_the_usual_number(
        self, name: str, kind: str, _limit: str, _provisioner: str, default: int
    ) -> None:
        pod = make_pod("p", volumes=disks(kind, *(f"d{i}" for i in range(default))))
        more = make_pod("p", volumes=disks(kind, *(f"d{i}" for i in range(default + 1))))
        assert refusals(name, [node("a")], pod) == {}
        assert refusals(name, [node("a")], more) == {"a": self.REFUSED}

    @pytest.mark.parametrize(("name", "kind", "_limit", "_provisioner", "_default"), KINDS)
    def test_the_policy_sets_the_number_where_the_node_says_nothing(
        self, name: str, kind: str, _limit: str, _provisioner: str, _default: int
    ) -> None:
        objects = [node("a"), node("b", limits={_limit: 5})]
        assert refusals(name, objects, make_pod("p", volumes=disks(kind, "x", "y")), {"maxVolumes": 1}) == {
            "a": self.REFUSED
        }

    @pytest.mark.parametrize(
        ("instance", "refused"), [("m5.large", True), ("c5d.metal", True), ("t3.small", True), ("m4.large", False)]
    )
    def test_nitro_machines_take_25_ebs_disks(self, instance: str, refused: bool) -> None:
        pod = make_pod("p", volumes=disks("awsElasticBlockStore", *(f"d{i}" for i in range(26))))
        for label in ("beta.kubernetes.io/instance-type", "node.kubernetes.io/instance-type"):
            found = refusals("MaxEBSVolumeCount", [node("a", labels={label: instance})], pod)
            assert found == ({"a": self.REFUSED} if refused else {})

    def test_a_limit_of_nothing_is_a_limit(self) -> None:
        objects = [node("a", limits={"attachable-volumes-gce-pd": 0})]
        assert refusals("MaxGCEPDVolumeCount", objects, make_pod("p", volumes=disks("gcePersistentDisk", "d")))

    def test_a_pod_without_such_a_disk_is_welcome_on_a_node_that_has_too_many(self) -> None:
        full = [
            node("a", limits={"attachable-volumes-gce-pd": 1}),
            make_pod("x", node="a", volumes=disks("gcePersistentDisk", "d1", "d2")),
        ]
        assert refusals("MaxGCEPDVolumeCount", full, make_pod("p")) == {}
        assert refusals("MaxGCEPDVolumeCount", full, make_pod("p", volumes=disks("cinder", "d"))) == {}
        assert refusals("MaxGCEPDVolumeCount", full, make_pod("p", volumes=disks("gcePersistentDisk", "d1")))

    @pytest.mark.parametrize(("name", "kind", "limit", "provisioner", "_default"), KINDS)
    def test_disks_behind_claims_count_and_claims_that_will_get_one_too(
        self, name: str, kind: str, limit: str, provisioner: str, _default: int
    ) -> None:
        spec = {"accessModes": ["ReadWriteOnce"]}
        claims = {
            "bound": {**spec, "volumeName": "pv"},
            "waiting": {**spec, "storageClassName": "ours"},
            "lost": {**spec, "storageClassName": "ours", "volumeName": "gone"},
            "foreign": {**spec, "storageClassName": "theirs"},
        }
        objects = [
            node("a", limits={limit: 1}),
            make_object("PersistentVolume", "pv", spec={"capacity": {"storage": "1Gi"}, kind: disk(kind, "d1")}),
            make_object("StorageClass", "ours", provisioner=provisioner),
            make_object("StorageClass", "theirs", provisioner="example.com/other"),
            *(make_object("PersistentVolumeClaim", c, namespace="default", spec=s) for c, s in claims.items()),
            make_pod("x", node="a", volumes=disks(kind, "d1")),
        ]

        def with_claim(claim: str) -> Body:
            return make_pod("p", volumes=[{"name": "v", "persistentVolumeClaim": {"claimName": claim}}])

        found = {claim: bool(refusals(name, objects, with_claim(claim))) for claim in (*claims, "missing")}
        assert found == {"bound": False, "waiting": True, "lost": True, "foreign": False, "missing": False}

    def test_a_disk_that_leaves_makes_room(self) -> None:
        state = state_of(
            [
                node("a", limits={"attachable-volumes-cinder": 1}),
                make_pod("x", node="a", uid="x", volumes=disks("cinder", "d1")),
            ]
        )
        pod = make_pod("p", volumes=disks("cinder", "d2"))
        assert refusals("MaxCinderVolumeCount", (), pod, state=state)
        state.table.remove_pod("x")
        assert refusals("MaxCinderVolumeCount", (), pod, state=state) == {}

    @pytest.mark.parametrize("value", [0, -1, "3", 1.5, True])
    def test_a_number_that_makes_no_sense_is_refused(self, value: object) -> None:
        with pytest.raises(BadArgument, match="maxVolumes"):
            make_filter("MaxEBSVolumeCount", {"maxVolumes": value})


class TestLabels:
    NODES = (node("both", labels={"x": "1", "y": ""}), node("one", labels={"x": "2"}), node("none"))

    @pytest.mark.parametrize(
        ("presence", "refused"), [(True, {"one", "none"}), (False, {"both", "one"}), (None, {"both", "one"})]
    )
    def test_labels_must_all_be_there_or_none_of_them(self, presence: bool | None, refused: set[str]) -> None:
        args = {"labels": ["x", "y"], **({} if presence is None else {"presence": presence})}
        found = refusals("CheckNodeLabelPresence", self.NODES, make_pod("p"), args)
        assert found == dict.fromkeys(refused, (Code.UNSCHEDULABLE, ("node(s) didn't have the requested labels",)))

    @pytest.mark.parametrize("name", ["CheckNodeLabelPresence", "CheckServiceAffinity"])
    def test_no_labels_ask_for_nothing(self, name: str) -> None:
        assert refusals(name, self.NODES, make_pod("p", node_selector={"x": "1"}), {"labels": []}) == {}

    def test_a_label_is_preferred_by_its_presence_or_its_absence(self) -> None:
        liked = {"both": 100, "one": 0, "none": 0}
        assert scores("LabelPreference", self.NODES, make_pod("p"), {"label": "y", "presence": True}) == liked
        assert scores("LabelPreference", self.NODES, make_pod("p"), {"label": "y"}) == {
            name: 100 - score for name, score in liked.items()
        }

    @pytest.mark.parametrize(
        ("name", "args", "field"),
        [
            ("CheckNodeLabelPresence", {}, "labels"),
            ("CheckNodeLabelPresence", {"labels": "x"}, "labels"),
            ("CheckNodeLabelPresence", {"labels": ["x", 1]}, r"labels\[1\]"),
            ("CheckNodeLabelPresence", {"labels": ["x"], "presence": "yes"}, "presence"),
            ("CheckServiceAffinity", {}, "labels"),
            ("LabelPreference", {}, "label"),
            ("LabelPreference", {"label": ""}, "label"),
            ("LabelPreference", {"label": "x", "presence": 1}, "presence"),
            ("ServiceAntiAffinity", {"label": ["rack"]}, "label"),
        ],
    )
    def test_an_argument_that_makes_no_sense_is_named(self, name: str, args: Mapping[str, Any], field: str) -> None:
        with pytest.raises(BadArgument, match=f"^{field}: "):
            make_plugin(name, args, point_of(name))


class TestNoExecuteTaints:
    @pytest.mark.parametrize(
        ("taint", "toleration", "refused"),
        [
            (("k", "v", "NoExecute"), None, True),
            (("k", "v", "NoExecute"), {"key": "k", "operator": "Exists"}, False),
            (("k", "v", "NoExecute"), {"key": "k", "value": "v", "effect": "NoExecute"}, False),
            (("k", "v", "NoExecute"), {"key": "k", "operator": "Exists", "effect": "NoSchedule"}, True),
            (("k", "v", "NoSchedule"), None, False),
            (("k", "v", "PreferNoSchedule"), None, False),
        ],
    )
    def test_only_no_execute_taints_must_be_tolerated(
        self, taint: tuple[str, str, str], toleration: Body | None, refused: bool
    ) -> None:
        pod = make_pod("p", tolerations=[toleration] if toleration else [])
        found = refusals("PodToleratesNodeNoExecuteTaints", [node("a", taints=[taint])], pod)
        reason = "node(s) had taints that the pod didn't tolerate"
        assert found == ({"a": (Code.UNSCHEDULABLE, (reason,))} if refused else {})


class TestServiceAffinity:
    NODES = (
        node("a", labels={"region": "r1", "rack": "k1"}),
        node("b", labels={"region": "r1", "rack": "k2"}),
        node("c", labels={"region": "r2", "rack": "k1"}),
        node("d"),
    )
    ARGS = {"labels": ["region"]}  # noqa: RUF012
    SERVICE = service("web", {"app": "web"})

    def refused(self, *more: Body, pod: Body | None = None, labels: Sequence[str] = ("region",)) -> set[str]:
        pod = pod or make_pod("p", labels={"app": "web"})
        found = refusals("CheckServiceAffinity", [*self.NODES, *more], pod, {"labels": list(labels)})
        assert set(found.values()) <= {(Code.UNSCHEDULABLE, ("node(s) didn't match service affinity",))}
        return set(found)

    def test_the_first_pod_of_a_service_goes_anywhere(self) -> None:
        assert self.refused(self.SERVICE) == set()

    def test_the_next_goes_where_the_labels_are_those_of_the_first_ones_node(self) -> None:
        placed = make_pod("x", labels={"app": "web"}, node="b")
        assert self.refused(self.SERVICE, placed) == {"c", "d"}
        assert self.refused(self.SERVICE, placed, labels=("region", "rack")) == {"a", "c", "d"}

    def test_of_several_nodes_with_such_pods_the_first_by_name_counts(self) -> None:
        placed = [make_pod(name, labels={"app": "web"}, node=on) for name, on in (("x", "c"), ("y", "b"))]
        assert self.refused(self.SERVICE, *placed) == {"c", "d"}

    def test_a_pod_counts_that_has_all_labels_of_this_one_in_its_namespace_even_while_it_is_deleted(self) -> None:
        mine = make_pod("p", labels={"app": "web", "tier": "front"})
        others = [
            make_pod("x", labels={"app": "web"}, node="b"),
            make_pod("y", labels={"app": "web", "tier": "front"}, node="b", namespace="other"),
        ]
        assert self.refused(self.SERVICE, *others, pod=mine) == set()
        leaving = make_pod("z", labels={"app": "web", "tier": "front", "x": "y"}, node="c", deleting=True)
        assert self.refused(self.SERVICE, *others, leaving, pod=mine) == {"a", "b", "d"}

    def test_without_a_service_only_the_node_selector_binds(self) -> None:
        placed = make_pod("x", labels={"app": "web"}, node="b")
        assert self.refused(placed) == set()
        pod = make_pod("p", labels={"app": "web"}, node_selector={"region": "r2", "disk": "ssd"})
        assert self.refused(placed, pod=pod) == {"a", "b", "d"}

    def test_the_node_selector_goes_before_what_other_pods_say(self) -> None:
        placed = make_pod("x", labels={"app": "web"}, node="b")
        pod = make_pod("p", labels={"app": "web"}, node_selector={"region": "r2"})
        assert self.refused(self.SERVICE, placed, pod=pod) == {"a", "b", "d"}
        assert self.refused(self.SERVICE, placed, pod=pod, labels=("region", "rack")) == {"a", "b", "c", "d"}

    def test_a_label_that_the_node_of_the_others_does_not_have_stays_open(self) -> None:
        placed = make_pod("x", labels={"app": "web"}, node="d")
        assert self.refused(self.SERVICE, placed) == set()


class TestSpreading:
    OLD, NEW = "failure-domain.beta.kubernetes.io/", "topology.kubernetes.io/"
    WEB = {"app": "web"}  # noqa: RUF012
    SERVICE = service("web", WEB)

    def pods(self, **counts: int) -> list[Body]:
        return [
            make_pod(f"{name}-{i}", node=name, labels=self.WEB) for name, count in counts.items() for i in range(count)
        ]

    def test_nodes_with_fewer_pods_of_the_service_are_liked_more(self) -> None:
        objects = [node("a"), node("b"), node("c"), self.SERVICE, *self.pods(a=3, b=1)]
        pod = make_pod("p", labels=self.WEB)
        assert scores("SelectorSpreadPriority", objects, pod) == {"a": 0, "b": 66, "c": 100}
        assert scores("ServiceSpreadingPriority", objects, pod) == {"a": 0, "b": 66, "c": 100}

    def test_only_feasible_nodes_make_the_scale(self) -> None:
        objects = [node("a"), node("b"), node("c"), self.SERVICE, *self.pods(a=3, b=1)]
        found = scores("SelectorSpreadPriority", objects, make_pod("p", labels=self.WEB), only=("b", "c"))
        assert found == {"b": 0, "c": 100}

    def test_zones_make_two_thirds_of_the_score(self) -> None:
        zone = self.OLD + "zone"
        nodes = [node("a", labels={zone: "z1"}), node("b", labels={zone: "z1"}), node("c", labels={zone: "z2"})]
        objects = [*nodes, node("bare"), self.SERVICE, *self.pods(a=2, c=1, bare=1)]
        assert scores("SelectorSpreadPriority", objects, make_pod("p", labels=self.WEB)) == {
            "a": 0,
            "b": 33,
            "c": 50,
            "bare": 50,
        }

    @pytest.mark.parametrize(
        ("first", "second", "same"),
        [
            ({OLD + "zone": "z"}, {NEW + "zone": "z"}, True),
            ({OLD + "zone": "z", NEW + "zone": "y"}, {NEW + "zone": "z"}, True),
            ({OLD + "zone": "z", OLD + "region": "r"}, {OLD + "zone": "z", NEW + "region": "r"}, True),
            ({OLD + "zone": "z", OLD + "region": "r"}, {OLD + "zone": "z"}, False),
            ({OLD + "zone": "z", OLD + "region": "r"}, {OLD + "zone": "z", OLD + "region": "q"}, False),
            ({OLD + "region": "r"}, {NEW + "region": "r"}, True),
        ],
    )
    def test_a_zone_is_region_and_zone_by_old_labels_or_else_by_new_ones(
        self, first: dict[str, str], second: dict[str, str], same: bool
    ) -> None:
        objects = [node("a", labels=first), node("b", labels=second), self.SERVICE, *self.pods(a=1)]
        assert scores("SelectorSpreadPriority", objects, make_pod("p", labels=self.WEB))["b"] == (33 if same else 100)

    def test_an_empty_zone_label_is_no_zone(self) -> None:
        objects = [node("a", labels={self.OLD + "zone": ""}), node("b"), self.SERVICE, *self.pods(a=1)]
        assert scores("SelectorSpreadPriority", objects, make_pod("p", labels=self.WEB)) == {"a": 0, "b": 100}

    def test_very_many_zones_are_told_apart_too(self) -> None:
        labels = [{self.OLD + "zone": f"z{i}", self.OLD + "region": f"r{i}"} for i in range(70)]
        nodes = [node(f"n{i}", labels=own) for i, own in enumerate(labels)]
        found = scores(
            "SelectorSpreadPriority", [*nodes, self.SERVICE, *self.pods(n3=1)], make_pod("p", labels=self.WEB)
        )
        assert found == {f"n{i}": 0 if i == 3 else 100 for i in range(70)}

    @pytest.mark.parametrize("kind", ["ReplicationController", "ReplicaSet", "StatefulSet"])
    def test_owners_count_by_their_selector_in_one_priority_and_not_in_the_other(self, kind: str) -> None:
        objects = [node("a"), node("b"), owner(kind, "own", self.WEB), *self.pods(a=1)]
        pod = make_pod("p", labels=self.WEB)
        assert scores("SelectorSpreadPriority", objects, pod) == {"a": 0, "b": 100}
        assert scores("ServiceSpreadingPriority", objects, pod) == {"a": 100, "b": 100}

    def test_a_pod_that_one_of_the_services_selects_counts_once_where_services_alone_count(self) -> None:
        front = {**self.WEB, "tier": "front"}
        services = [self.SERVICE, service("front", {"tier": "front"}), service("both", front)]
        others = [
            make_pod("web", node="a", labels=self.WEB),
            make_pod("tier", node="a", labels={"tier": "front"}),
            make_pod("whole", node="b", labels=front),
            make_pod("stranger", node="c", labels={"app": "db"}),
        ]
        found = scores(
            "ServiceSpreadingPriority",
            [node("a"), node("b"), node("c"), *services, *others],
            make_pod("p", labels=front),
        )
        assert found == {"a": 0, "b": 50, "c": 100}

    def test_pods_must_meet_all_selectors_at_once(self) -> None:
        front = {**self.WEB, "tier": "front"}
        objects = [
            node("a"),
            node("b"),
            self.SERVICE,
            owner("ReplicaSet", "own", front),
            make_pod("x", node="a", labels=self.WEB),
            make_pod("y", node="b", labels=front),
        ]
        assert scores("SelectorSpreadPriority", objects, make_pod("p", labels=front)) == {"a": 100, "b": 0}

    def test_pods_of_other_namespaces_and_pods_being_deleted_do_not_count(self) -> None:
        objects = [
            node("a"),
            node("b"),
            self.SERVICE,
            make_pod("x", node="a", labels=self.WEB, namespace="other"),
            make_pod("y", node="a", labels=self.WEB, deleting=True),
            make_pod("z", node="b", labels=self.WEB),
        ]
        assert scores("SelectorSpreadPriority", objects, make_pod("p", labels=self.WEB)) == {"a": 100, "b": 0}

    @pytest.mark.parametrize(
        "others",
        [
            [service("db", {"app": "db"})],
            [service("none", {})],
            [service("web", {"app": "web"}, namespace="other")],
            [owner("ReplicaSet", "own", {})],
            [make_object("StatefulSet", "own", namespace="default", spec={})],
        ],
    )
    def test_a_pod_that_nothing_selects_is_liked_everywhere(self, others: list[Body]) -> None:
        objects = [node("a"), node("b"), *others, *self.pods(a=1)]
        assert scores("SelectorSpreadPriority", objects, make_pod("p", labels=self.WEB)) == {"a": 100, "b": 100}

    def test_owners_that_change_or_go_are_followed(self) -> None:
        state = state_of([owner("ReplicaSet", "own", self.WEB)])
        pod = parse_pod(make_pod("p", labels=self.WEB))
        assert len(list(state.owners.selectors_of(pod))) == 1
        changed = parse("ReplicaSet", owner("ReplicaSet", "own", {"app": "db"}))
        state.put("ReplicaSet", "default/own", changed)
        assert list(state.owners.selectors_of(pod)) == []
        state.put("ReplicaSet", "default/own", parse("ReplicaSet", owner("ReplicaSet", "own", self.WEB)))
        state.drop("ReplicaSet", "default/own")
        assert list(state.owners.selectors_of(pod)) == []
        assert len(state.owners) == 0


class TestServiceAntiAffinity:
    RACKS = (
        node("a", labels={"rack": "1"}),
        node("b", labels={"rack": "1"}),
        node("c", labels={"rack": "2"}),
        node("bare"),
    )
    ARGS = {"label": "rack"}  # noqa: RUF012
    WEB = {"app": "web"}  # noqa: RUF012

    def test_values_of_the_label_with_fewer_pods_of_the_service_are_liked_more(self) -> None:
        placed = [make_pod(name, node=on, labels=self.WEB) for name, on in (("x", "a"), ("y", "b"), ("z", "c"))]
        objects = [*self.RACKS, service("web", self.WEB), *placed]
        pod = make_pod("p", labels=self.WEB)
        assert scores("ServiceAntiAffinity", objects, pod, self.ARGS) == {"a": 33, "b": 33, "c": 66, "bare": 0}

    def test_pods_on_nodes_without_the_label_count_in_the_whole(self) -> None:
        placed = [make_pod(name, node=on, labels=self.WEB) for name, on in (("x", "a"), ("y", "bare"))]
        objects = [*self.RACKS, service("web", self.WEB), *placed]
        found = scores("ServiceAntiAffinity", objects, make_pod("p", labels=self.WEB), self.ARGS)
        assert found == {"a": 50, "b": 50, "c": 100, "bare": 0}

    def test_only_feasible_nodes_are_looked_at(self) -> None:
        placed = [make_pod(name, node=on, labels=self.WEB) for name, on in (("x", "a"), ("z", "c"))]
        objects = [*self.RACKS, service("web", self.WEB), *placed]
        pod = make_pod("p", labels=self.WEB)
        assert scores("ServiceAntiAffinity", objects, pod, self.ARGS, only=("b", "c")) == {"b": 100, "c": 0}

    def test_without_a_service_every_node_with_the_label_is_liked(self) -> None:
        found = scores("ServiceAntiAffinity", self.RACKS, make_pod("p", labels=self.WEB), self.ARGS)
        assert found == {"a": 100, "b": 100, "c": 100, "bare": 0}

    def test_of_several_services_the_first_by_name_counts(self) -> None:
        front = {**self.WEB, "tier": "front"}
        objects = [
            *self.RACKS,
            service("b-all", self.WEB),
            service("a-front", {"tier": "front"}),
            make_pod("x", node="a", labels=self.WEB),
            make_pod("y", node="c", labels=front),
        ]
        found = scores("ServiceAntiAffinity", objects, make_pod("p", labels=front), self.ARGS)
        assert found == {"a": 100, "b": 100, "c": 0, "bare": 0}


class TestAvoidedPods:
    def node(self, name: str, *controllers: tuple[str, str], text: str | None = None) -> Body:
        listed = [{"podSignature": {"podController": {"kind": kind, "uid": uid}}} for kind, uid in controllers]
        value = text if text is not None else json.dumps({"preferAvoidPods": listed})
        return node(name, annotations={"scheduler.alpha.kubernetes.io/preferAvoidPods": value})

    @staticmethod
    def pod(kind: str = "ReplicaSet", uid: str = "u1", controller: bool = True) -> Body:
        owner = {"apiVersion": "apps/v1", "kind": kind, "name": "own", "uid": uid, "controller": controller}
        return make_pod("p", owner=owner)

    def test_a_node_that_asks_to_be_spared_the_pods_of_the_controller_gets_nothing(self) -> None:
        objects = [
            self.node("asks", ("Job", "x"), ("ReplicaSet", "u1")),
            self.node("other-uid", ("ReplicaSet", "u2")),
            self.node("other-kind", ("ReplicationController", "u1")),
            node("silent"),
        ]
        assert scores("NodePreferAvoidPodsPriority", objects, self.pod()) == {
            "asks": 0,
            "other-uid": 100,
            "other-kind": 100,
            "silent": 100,
        }

    @pytest.mark.parametrize("pod", [pod("StatefulSet"), pod(controller=False), make_pod("p")])
    def test_only_replica_sets_and_replication_controllers_are_looked_for(self, pod: Body) -> None:
        objects = [self.node("asks", ("StatefulSet", "u1"), ("ReplicaSet", "u1"))]
        assert scores("NodePreferAvoidPodsPriority", objects, pod) == {"asks": 100}

    @pytest.mark.parametrize(
        "text", ["", "{", "[]", "null", "7", '{"preferAvoidPods": 7}', '{"preferAvoidPods": [7]}', "[" * 5000]
    )
    def test_an_annotation_that_cannot_be_read_asks_for_nothing(self, text: str) -> None:
        assert scores("NodePreferAvoidPodsPriority", [self.node("a", text=text)], self.pod()) == {"a": 100}

    def test_a_controller_made_again_under_its_name_is_another_one(self) -> None:
        pipeline = Pipeline([], [(make_score("NodePreferAvoidPodsPriority"), 1)])
        state = state_of([self.node("a", ("ReplicaSet", "u1")), self.node("b", ("ReplicaSet", "u2"))])
        first, second = (parse_pod(self.pod(uid=uid)) for uid in ("u1", "u2"))
        found = [as_placement(pipeline.decide(pod, state, Random(0))).node for pod in (first, second, first, second)]
        assert found == ["b", "a", "b", "a"]

    def test_an_annotation_is_followed_as_it_comes_and_goes(self) -> None:
        pipeline = Pipeline([], [(make_score("NodePreferAvoidPodsPriority"), 1)])
        state, pod = state_of([self.node("a", ("ReplicaSet", "u1")), node("b")]), parse_pod(self.pod())
        assert {as_placement(pipeline.decide(pod, state, Random(seed))).node for seed in range(8)} == {"b"}
        state.table.set_node(parse_node(node("a")))
        assert {as_placement(pipeline.decide(pod, state, Random(seed))).node for seed in range(8)} == {"a", "b"}


class TestLimitsAndEquality:
    def pod(self, **limits: str) -> Body:
        return make_pod("p", containers=[{"name": "c", "resources": {"limits": limits}}])

    @pytest.mark.parametrize(
        ("limits", "expected"),
        [
            ({}, {"small": 0, "big": 0}),
            ({"cpu": "2"}, {"small": 1, "big": 1}),
            ({"cpu": "3"}, {"small": 0, "big": 1}),
            ({"cpu": "3", "memory": "1Gi"}, {"small": 1, "big": 1}),
            ({"cpu": "9", "memory": "9Gi"}, {"small": 0, "big": 0}),
            ({"cpu": "0", "memory": "0"}, {"small": 0, "big": 0}),
        ],
    )
    def test_a_limit_that_fits_the_whole_node_earns_one_point(
        self, limits: dict[str, str], expected: dict[str, int]
    ) -> None:
        objects = [node("small", cpu=2, memory="2Gi"), node("big", cpu=8, memory="8Gi")]
        taken = make_pod("x", node="big", cpu="8", memory="8Gi")
        assert scores("ResourceLimitsPriority", [*objects, taken], self.pod(**limits)) == expected

    def test_nodes_are_equal_before_equal_priority(self) -> None:
        assert scores("EqualPriority", [node("a"), node("b", cpu=1)], make_pod("p")) == {"a": 1, "b": 1}


class TestNames:
    def test_every_old_plugin_is_known_by_its_name(self) -> None:
        for plugin in OLD_PLUGINS:
            assert PLUGINS[plugin.name] is plugin

    def test_every_alias_stands_for_plugins_that_serve_and_take_its_arguments(self) -> None:
        assert not {*PREDICATES, *PRIORITIES} & PLUGINS.keys()
        for alias in PREDICATES.values():
            for plugin in alias.plugins:
                make_filter(plugin, alias.args)
        for alias in PRIORITIES.values():
            for plugin in alias.plugins:
                make_score(plugin, alias.args)

    def test_a_plugin_answers_to_the_name_that_it_is_called(self) -> None:
        plugin = make_plugin("LabelPreference", {"label": "ssd"}, "score", called="ssd-first")
        assert plugin.name == "ssd-first"
        assert PLUGINS["LabelPreference"].name == "LabelPreference"
