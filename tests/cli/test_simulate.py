"""`berth simulate`: options, forms of output and exit codes, on files and on a cluster."""

import asyncio
import gzip
import io
import json
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
import yaml

from berth.cluster.api import Api
from berth.cluster.credentials import Credentials, Source
from berth.whatif import progress
from control_plane.embedded import EmbeddedPlane
from policy.builders import make_policy
from support.builders import Body, make_node, make_pod
from support.commands import exit_code, forget_settings
from whatif.clusters import make_deployment, owned_pod, priority_class, replica_set, zoned_nodes

Captured = pytest.CaptureFixture[str]

CRDS = Path(__file__).parents[2] / "crds"


@pytest.fixture(autouse=True)
def nothing_around(monkeypatch: pytest.MonkeyPatch) -> None:
    forget_settings(monkeypatch)
    monkeypatch.setenv("HOME", "/nonexistent")


def write(folder: Path, name: str, *bodies: object) -> str:
    path = folder / name
    path.write_text(yaml.safe_dump_all(bodies))
    return str(path)


@pytest.fixture
def snapshot(tmp_path: Path) -> str:
    """Three zones with a node each, a Deployment with three pods of two cpus, and a pod that nothing fits."""
    pods = [owned_pod("shop", place, f"{zone}-0", cpu=2) for place, zone in enumerate("abc")]
    items = [*zoned_nodes(), replica_set("shop"), *pods]
    path = tmp_path / "snapshot.json"
    path.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "metadata": {}, "items": items}))
    return str(path)


@pytest.fixture
def web(tmp_path: Path) -> str:
    return write(tmp_path, "web.yaml", make_deployment("web", 3, cpu=1))


def simulate(*arguments: str) -> int:
    return exit_code("simulate", *arguments)


def found(capsys: Captured) -> dict[str, Any]:
    said: dict[str, Any] = json.loads(capsys.readouterr().out)
    return said


class TestOptions:
    def test_what_fits_is_0_and_a_table(self, snapshot: str, web: str, capsys: Captured) -> None:
        assert simulate("--snapshot", snapshot, "-f", web) == 0
        out, err = capsys.readouterr()
        assert out.splitlines()[:2] == [
            "NAMESPACE   WORKLOAD         PODS   PLACED   PENDING   ZONES           NODES        SKEW",
            "default     deployment/web      3        3         0   a 1, b 1, c 1   3 (1 each)   0",
        ]
        assert out.splitlines()[-1] == "3 of 3 pods placed"
        assert err == ""

    def test_what_does_not_fit_is_3_and_says_why(self, snapshot: str, tmp_path: Path, capsys: Captured) -> None:
        big = write(tmp_path, "big.yaml", make_deployment("big", 4, cpu=2))
        assert simulate("--snapshot", snapshot, "-f", big) == 3
        out = capsys.readouterr().out
        assert "3 of 4 pods placed, 1 pending" in out
        assert "0/3 nodes are available: 3 Insufficient cpu." in out

    def test_fill_says_how_many_more_fit(self, snapshot: str, tmp_path: Path, capsys: Captured) -> None:
        pod = write(tmp_path, "pod.yaml", make_pod("small", cpu="500m"))
        assert simulate("--snapshot", snapshot, "--fill", "-f", pod) == 0
        out = capsys.readouterr().out
        assert "12 more of pod/small fit: a 4, b 4, c 4" in out
        assert "then: 0/3 nodes are available: 3 Insufficient cpu." in out
        large = write(tmp_path, "large.yaml", make_pod("large", cpu=5))
        assert simulate("--snapshot", snapshot, "--fill", "-f", large) == 3
        assert "0 more of pod/large fit" in capsys.readouterr().out

    def test_scale_drain_fail_zone_and_add_nodes_are_combined(self, snapshot: str, capsys: Captured) -> None:
        question = ("--drain", "b-0", "--fail-zone", "a", "--add-nodes", "like=c-0,count=2", "--scale", "deploy/shop=6")
        assert simulate("--snapshot", snapshot, *question, "-o", "json") == 0
        said = found(capsys)
        assert said["steps"] == [
            "2 nodes like c-0 added",
            "zone a failed, with 1 node",
            "1 node drained: b-0",
            "deployment/shop scaled to 6",
        ]
        assert said["workloads"][0]["after"]["nodes"] == {"c-0": 2, "c-0-new-1": 2, "c-0-new-2": 2}

    def test_a_policy_replaces_what_decides(self, snapshot: str, web: str, tmp_path: Path, capsys: Captured) -> None:
        most = {"scoringStrategy": {"type": "MostAllocated", "resources": [{"name": "cpu", "weight": 1}]}}
        rules = [{"name": "NodeResourcesFit", "args": most}]
        pack = make_policy("pack", base="Empty", predicates=[{"name": "NodeResourcesFit"}], priorities=rules)
        policy = write(tmp_path, "pack.yaml", pack)
        assert simulate("--snapshot", snapshot, "-f", web, "--policy", policy, "-o", "json") == 0
        assert sorted(found(capsys)["workloads"][0]["after"]["nodes"].values()) == [1, 2]

    def test_the_namespace_is_that_of_manifests_without_one(
        self, snapshot: str, tmp_path: Path, capsys: Captured
    ) -> None:
        body = make_deployment("web")
        del body["metadata"]["namespace"]
        assert simulate("--snapshot", snapshot, "-f", write(tmp_path, "x.yaml", body), "-n", "team", "-o", "json") == 0
        assert found(capsys)["workloads"][0]["namespace"] == "team"

    def test_the_seed_is_that_of_the_tie_break(self, snapshot: str, tmp_path: Path, capsys: Captured) -> None:
        pod = write(tmp_path, "pod.yaml", make_pod("one", cpu=1))
        nodes = set()
        for seed in range(8):
            simulate("--snapshot", snapshot, "-f", pod, "--seed", str(seed), "-o", "json")
            nodes.add(found(capsys)["workloads"][0]["pods"][0]["node"])
        assert len(nodes) > 1

    def test_standard_input_and_several_files_are_read(
        self, snapshot: str, web: str, monkeypatch: pytest.MonkeyPatch, capsys: Captured
    ) -> None:
        text = yaml.safe_dump(make_pod("one")).encode()
        monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(text)))
        assert simulate("--snapshot", snapshot, "-f", web, "-f", "-", "-o", "name") == 0
        assert capsys.readouterr().out.splitlines() == ["deployment.apps/web", "pod/one"]

    @pytest.mark.parametrize(
        "arguments",
        [
            ("--fill",),
            ("--scale", "web=3"),
            ("--scale", "deploy/web"),
            ("--scale", "deploy/web=many"),
            ("--scale", "configmap/web=3"),
            ("--add-nodes", "like=x"),
            ("--add-nodes", "like=x,count=-1"),
            ("--add-nodes", "x"),
            ("--snapshot", "x", "--kubeconfig", "y"),
            ("--snapshot", "-", "-f", "-"),
            ("-o", "text"),
            ("--seed", "x"),
            ("--nonsense",),
        ],
    )
    def test_a_usage_error_is_2_and_names_what_is_wrong(self, arguments: tuple[str, ...], capsys: Captured) -> None:
        assert simulate(*arguments) == 2
        assert "berth simulate: " in capsys.readouterr().err  # argparse: "berth simulate: error: ..."

    @pytest.mark.parametrize(
        ("arguments", "words"),
        [
            (("--snapshot", "/nowhere"), "/nowhere: cannot be read: No such file or directory"),
            (("-f", "/nowhere"), "/nowhere: cannot be read"),
            (("--drain", "d-0"), '--drain: there is no node "d-0"'),
            (("--fail-zone", "d"), '--fail-zone: no node is in zone "d"; there is a, b, c'),
            (("--scale", "deploy/none=3"), "--scale: Deployment default/none has no pods and is not in the input"),
            (("--html", "/nowhere/x.html"), "--html /nowhere/x.html: cannot be written"),
        ],
    )
    def test_what_cannot_be_answered_is_one_line_and_1(
        self, snapshot: str, capsys: Captured, arguments: tuple[str, ...], words: str
    ) -> None:
        given = arguments if arguments[0] == "--snapshot" else ("--snapshot", snapshot, *arguments)
        assert simulate(*given) == 1
        out, err = capsys.readouterr()
        assert (out, err.count("\n")) == ("", 1)
        assert f"berth simulate: {words}" in err

    @pytest.mark.parametrize(
        ("text", "words"),
        [
            ("", "has no object in it"),
            ("a: [", "is not YAML: line 1"),
            ("[1]", "holds something that is no object: each has apiVersion, kind and metadata"),
            ("kind: Pod", "?: apiVersion and kind are required"),
        ],
    )
    def test_what_is_no_manifest_is_one_line_and_1(
        self, snapshot: str, tmp_path: Path, capsys: Captured, text: str, words: str
    ) -> None:
        path = tmp_path / "x.yaml"
        path.write_text(text)
        assert simulate("--snapshot", snapshot, "-f", str(path)) == 1
        assert words in capsys.readouterr().err

    def test_a_policy_file_with_something_else_in_it_is_refused(
        self, snapshot: str, web: str, capsys: Captured
    ) -> None:
        assert simulate("--snapshot", snapshot, "--policy", web) == 1
        assert "Deployment default/web is no SchedulingPolicy: give it with -f" in capsys.readouterr().err

    def test_a_policy_that_is_neither_a_file_nor_in_the_library_is_refused(
        self, snapshot: str, capsys: Captured
    ) -> None:
        assert simulate("--snapshot", snapshot, "--policy", "binpak") == 1
        said = capsys.readouterr().err
        assert "--policy binpak: is no file, and no policy of the library (berth policy show)" in said
        assert "binpack" in said

    def test_no_node_more_is_a_usage_error(self, snapshot: str, capsys: Captured) -> None:
        assert simulate("--snapshot", snapshot, "--add-nodes", "like=a-0,count=0") == 2
        assert '"like=a-0,count=0" is not like=NODE,count=N' in capsys.readouterr().err

    def test_a_list_as_the_api_server_writes_it_is_read(self, tmp_path: Path, web: str) -> None:
        nodes = [{key: value for key, value in make_node("n", cpu=9).items() if key in ("metadata", "status")}]
        path = write(tmp_path, "nodes.yaml", {"apiVersion": "v1", "kind": "NodeList", "items": nodes})
        assert simulate("--snapshot", path, "-f", web) == 0

    def test_packed_files_and_json_documents_that_follow_one_another_are_read(self, tmp_path: Path, web: str) -> None:
        path, packed = tmp_path / "nodes.json", tmp_path / "nodes.json.gz"
        text = "\n".join(json.dumps(make_node(name)) for name in "abc") + "\n"
        path.write_text(text)
        packed.write_bytes(gzip.compress(text.encode()))
        assert simulate("--snapshot", str(path), "-f", web) == simulate("--snapshot", str(packed), "-f", web) == 0
        packed.write_bytes(packed.read_bytes()[:-20])
        assert simulate("--snapshot", str(packed), "-f", web) == 1
        path.write_text(text + "{")
        assert simulate("--snapshot", str(path), "-f", web) == 1

    def test_yaml_that_begins_like_json_is_read(self, tmp_path: Path) -> None:
        path = tmp_path / "pod.yaml"
        path.write_text("{apiVersion: v1, kind: Node, metadata: {name: n}, status: {capacity: {cpu: 1, pods: 9}}}")
        assert simulate("--snapshot", str(path)) == 0


class TestOutput:
    def test_json_and_yaml_say_the_same(self, snapshot: str, web: str, capsys: Captured) -> None:
        simulate("--snapshot", snapshot, "-f", web, "--drain", "a-0", "-o", "json")
        said = found(capsys)
        simulate("--snapshot", snapshot, "-f", web, "--drain", "a-0", "-o", "yaml")
        assert yaml.safe_load(capsys.readouterr().out) == said
        assert said["summary"] == {
            "fits": False,
            "pods": 4,
            "placed": 3,
            "pending": 1,
            "departed": 1,
            "lost": 0,
            "blocked": 0,
        }
        [shop] = [each for each in said["workloads"] if each["name"] == "shop"]
        [left], [moved] = shop["departed"], shop["pods"]
        assert left == {
            "name": "shop-1-0",
            "node": "a-0",
            "cause": "drained",
            "by": None,
            "lost": False,
            "successor": moved["name"],
            "successorNode": moved["node"],
        }
        assert (moved["origin"], moved["replaces"]) == ("moved", "shop-1-0")
        assert said["utilisation"]["before"]["zones"]["a"]["resources"]["cpu"] == {
            "requested": 2000,
            "allocatable": 4000,
            "share": 0.5,
        }

    def test_wide_names_every_pod_and_node(self, snapshot: str, tmp_path: Path, capsys: Captured) -> None:
        big = write(tmp_path, "big.yaml", make_deployment("big", 6, cpu=2))
        simulate("--snapshot", snapshot, "-f", big)
        assert "and 2 more)" in capsys.readouterr().out
        simulate("--snapshot", snapshot, "-f", big, "-o", "wide")
        out = capsys.readouterr().out
        assert "on a-0, b-0, c-0" in out
        assert " more)" not in out

    def test_colours_are_for_terminals(
        self, snapshot: str, web: str, capsys: Captured, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        arguments = ("--snapshot", snapshot, "-f", web)
        simulate(*arguments)
        assert "\033" not in capsys.readouterr().out
        monkeypatch.setattr("sys.stdout.isatty", lambda: True, raising=False)
        simulate(*arguments)
        assert "\033[32m3 of 3 pods placed\033[0m" in capsys.readouterr().out
        monkeypatch.setenv("NO_COLOR", "1")
        simulate(*arguments)
        assert "\033" not in capsys.readouterr().out

    def test_progress_is_for_terminals_and_for_long_runs(
        self, snapshot: str, web: str, capsys: Captured, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        arguments = ("--snapshot", snapshot, "-f", web)
        monkeypatch.setattr(progress, "AFTER_SECONDS", 0.0)
        monkeypatch.setattr(progress, "EVERY_SECONDS", 0.0)
        simulate(*arguments)
        assert capsys.readouterr().err == ""
        monkeypatch.setattr("sys.stderr.isatty", lambda: True, raising=False)
        simulate(*arguments)
        err = capsys.readouterr().err
        assert "\033[Kplacing pods: 3 of 3" in err
        assert err.endswith("\r\033[K")
        monkeypatch.setattr(progress, "AFTER_SECONDS", 60.0)
        simulate(*arguments)
        assert capsys.readouterr().err == ""

    def test_the_page_is_one_file_that_loads_nothing(self, snapshot: str, tmp_path: Path, capsys: Captured) -> None:
        name = "<script>alert(1)</script>"
        evil = make_deployment("web", 9, cpu=2, node_selector={"x": "y"})
        evil["spec"]["template"]["spec"]["schedulerName"] = name
        page = tmp_path / "report.html"
        assert simulate("--snapshot", snapshot, "-f", write(tmp_path, "x.yaml", evil), "--html", str(page)) == 3
        assert capsys.readouterr().out
        text = page.read_text(encoding="utf-8")
        reader = Reader()
        reader.feed(text)
        assert reader.open == []
        assert {"svg", "table", "style", "figure"} <= reader.tags
        assert not {"script", "link", "img", "iframe", "object"} & reader.tags
        assert not {"src", "href", "xlink:href"} & reader.attributes
        assert "://" not in text
        assert "url(" not in text
        assert "@import" not in text
        assert "prefers-color-scheme: dark" in text
        assert "a-0: cpu 50%, 1 pod" in text


class Reader(HTMLParser):
    """The tags and attributes of a page, and which tags are still open at its end."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: set[str] = set()
        self.attributes: set[str] = set()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self.attributes |= {name for name, _ in attrs}
        if tag != "meta":
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self.attributes |= {name for name, _ in attrs}

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


# --- a cluster


async def _post(plane: EmbeddedPlane, *bodies: Body) -> None:
    api = Api(Credentials(Source(str(plane.kubeconfig), None)))
    await api.open()
    try:
        for body in bodies:
            await api.request("POST", _path(body), body=body)
    finally:
        await api.close()


def _path(body: Body) -> str:
    namespaced = {"Pod": "/api/v1/{}/pods", "ReplicaSet": "/apis/apps/v1/{}/replicasets"}
    paths = {
        "Node": "/api/v1/nodes",
        "Deployment": "/apis/apps/v1/namespaces/default/deployments",
        "PriorityClass": "/apis/scheduling.k8s.io/v1/priorityclasses",
        **{kind: path.format("namespaces/default") for kind, path in namespaced.items()},
    }
    return paths[body["kind"]]


@pytest.fixture(scope="module")
def plane(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedPlane]:
    with EmbeddedPlane(tmp_path_factory.mktemp("plane")) as plane:
        plane.apply_crds(CRDS)
        owner = replica_set("shop")
        owner["spec"] = make_deployment("shop")["spec"]
        pods = [owned_pod("shop", place, f"{zone}-0", cpu=2) for place, zone in enumerate("abc")]
        idle = make_deployment("idle", 0, cpu=1)
        asyncio.run(_post(plane, *zoned_nodes(), owner, *pods, idle, priority_class("high", 9)))
        yield plane


class TestCluster:
    def test_a_cluster_is_read_and_nothing_is_written(
        self, plane: EmbeddedPlane, tmp_path: Path, capsys: Captured
    ) -> None:
        before = plane.store.revision
        web = write(tmp_path, "web.yaml", make_deployment("web", 4, cpu=2, priorityClassName="high"))
        there = ("--kubeconfig", str(plane.kubeconfig))
        assert simulate(*there, "-f", web, "--drain", "a-0", "-o", "json") == 3
        said = found(capsys)
        assert said["source"] == "live cluster"
        causes = {left["name"]: left["cause"] for each in said["workloads"] for left in each["departed"]}
        assert causes == {"shop-1-0": "drained", "shop-1-1": "preempted", "shop-1-2": "preempted"}
        assert plane.store.revision == before

    def test_a_workload_without_pods_is_scaled_by_its_template(self, plane: EmbeddedPlane, capsys: Captured) -> None:
        there = ("--kubeconfig", str(plane.kubeconfig))
        assert simulate(*there, "--scale", "deploy/idle=3", "-o", "json") == 0
        assert found(capsys)["workloads"][0]["placed"] == 3
        assert simulate(*there, "--scale", "deploy/none=3") == 1
        assert "--scale: there is no Deployment default/none: check the name, and" in capsys.readouterr().err
        assert simulate(*there, "--scale", "rs/shop-1=5") == 1
        assert "ReplicaSet default/shop-1 is managed by Deployment default/shop" in capsys.readouterr().err

    def test_a_snapshot_answers_as_the_cluster_does(
        self, plane: EmbeddedPlane, tmp_path: Path, capsys: Captured
    ) -> None:
        there, path = ("--kubeconfig", str(plane.kubeconfig)), str(tmp_path / "snapshot.json.gz")
        assert exit_code("snapshot", *there, "-o", path) == 0
        web = write(tmp_path, "web.yaml", make_deployment("web", 4, cpu=2, priorityClassName="high"))
        question = ("-f", web, "--drain", "a-0", "--scale", "deploy/idle=2", "-o", "json")
        answers = []
        for source in (there, ("--snapshot", path)):
            assert simulate(*source, *question) == 3
            answers.append({**found(capsys), "source": ""})
        assert answers[0] == answers[1]

    def test_the_namespace_of_the_context_is_used(self, plane: EmbeddedPlane, tmp_path: Path, capsys: Captured) -> None:
        config = yaml.safe_load(plane.kubeconfig.read_text())
        config["contexts"][0]["context"]["namespace"] = "kube-public"
        path = write(tmp_path, "kubeconfig", config)
        assert simulate("--kubeconfig", path, "--scale", "deploy/idle=3") == 1
        assert "there is no Deployment kube-public/idle" in capsys.readouterr().err

    @pytest.mark.parametrize(
        ("kubeconfig", "words"), [("/nowhere", "there is no kubeconfig at /nowhere"), ("", "no kubeconfig")]
    )
    def test_what_keeps_us_from_the_cluster_is_one_line_and_1(
        self, kubeconfig: str, words: str, capsys: Captured
    ) -> None:
        assert simulate(*(("--kubeconfig", kubeconfig) if kubeconfig else ())) == 1
        out, err = capsys.readouterr()
        assert (out, err.count("\n"), words in err) == ("", 1, True), err
