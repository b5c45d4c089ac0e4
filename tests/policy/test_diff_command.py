"""`berth policy diff`: which decisions change between two policies, for cases and for the pods of a cluster."""

import asyncio
import gzip
import io
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from berth.cli import main
from berth.cluster.api import Api
from berth.cluster.credentials import Credentials, Source
from berth.whatif import progress
from control_plane.embedded import EmbeddedPlane
from policy.builders import make_policy
from support.builders import make_node, make_pod

Captured = pytest.CaptureFixture[str]

CRDS = Path(__file__).parents[2] / "crds"
FIT: dict[str, Any] = {"base": "Empty", "predicates": [{"name": "NodeResourcesFit"}]}
MOST = {"scoringStrategy": {"type": "MostAllocated", "resources": [{"name": "cpu", "weight": 1}]}}
SPREAD = make_policy("spread", **FIT, priorities=[{"name": "NodeResourcesFit"}])
PACK = make_policy("pack", **FIT, priorities=[{"name": "NodeResourcesFit", "args": MOST}])
OBJECTS = [make_node("empty"), make_node("full"), make_pod("there", node="full", cpu=2)]


@pytest.fixture(autouse=True)
def nothing_around(monkeypatch: pytest.MonkeyPatch) -> None:
    for variable in ("KUBECONFIG", "BERTH_KUBECONFIG", "BERTH_CONTEXT"):
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.setenv("HOME", "/nonexistent")


def diff(*arguments: str) -> int:
    try:
        return main(("policy", "diff", *arguments))
    except SystemExit as end:
        return int(end.code or 0)


def write(folder: Path, name: str, *documents: object) -> str:
    path = folder / name
    path.write_text(yaml.safe_dump_all(documents))
    return str(path)


def make_case(name: str, pod: dict[str, Any], objects: list[dict[str, Any]] = OBJECTS) -> dict[str, Any]:
    return {"id": name, "objects": objects, "pod": pod, "config": "is not looked at"}


def write_cases(folder: Path, *cases: object) -> str:
    path = folder / "cases.jsonl"
    path.write_text("".join(json.dumps(case) + "\n" for case in cases))
    return str(path)


@pytest.fixture
def files(tmp_path: Path) -> tuple[str, str]:
    return write(tmp_path, "spread.yaml", SPREAD), write(tmp_path, "pack.yaml", PACK)


SMALL, LARGE = make_pod("small", cpu=1), make_pod("large", cpu=9)


class TestCases:
    def test_differences_are_a_table_and_3(self, tmp_path: Path, files: tuple[str, str], capsys: Captured) -> None:
        cases = write_cases(tmp_path, make_case("moves", SMALL), make_case("stays", LARGE))
        assert diff(*files, "--cases", cases) == 3
        head, row, blank, summary = capsys.readouterr().out.splitlines()
        assert head.split() == ["CASE", "PODS", "CHANGE", "A:", files[0], "B:", files[1]]
        assert row.split()[:4] == ["moves", "1", "other", "node"]
        assert row.index("empty") < row.index("full")
        assert (blank, summary) == ("", "1 of 2 pods decided otherwise: 1 other node")

    def test_no_difference_is_0(self, tmp_path: Path, files: tuple[str, str], capsys: Captured) -> None:
        tie = make_case("tie", SMALL, [make_node("a"), make_node("b")])
        assert diff(*files, "--cases", write_cases(tmp_path, tie, make_case("pending", LARGE))) == 0
        assert capsys.readouterr().out == "no decision changes, of 2 pods\n"
        assert diff(*files, "--cases", write_cases(tmp_path)) == 0
        assert capsys.readouterr().out == "nothing to compare: no pod is in question\n"

    def test_pods_that_wait_have_their_reasons_below_them(
        self, tmp_path: Path, files: tuple[str, str], capsys: Captured
    ) -> None:
        closed = [make_node("closed", unschedulable=True)]
        case = write_cases(tmp_path, make_case("lost", SMALL, closed))
        assert diff(files[0], "KubernetesDefault", "--cases", case) == 3
        out = capsys.readouterr().out
        assert "no longer placed   closed" in out
        assert "pending\n  B: 0/1 nodes are available: 1 node(s) were unschedulable.\n" in out
        assert diff("KubernetesDefault", files[0], "--cases", case) == 3
        assert "now placed" in capsys.readouterr().out

    def test_json_has_everything(self, tmp_path: Path, files: tuple[str, str], capsys: Captured) -> None:
        cases = write_cases(tmp_path, make_case("moves", SMALL), make_case("stays", LARGE))
        assert diff(*files, "-o", "json", "--cases", cases) == 3
        found = json.loads(capsys.readouterr().out)
        [difference] = found.pop("differences")
        assert found == {"a": files[0], "b": files[1], "compared": 2, "same": 1, "workloads": [], "skipped": []}
        assert (difference["pod"], difference["change"]) == ("moves", "other node")
        assert (difference["a"]["nodes"], difference["b"]["nodes"]) == (["empty"], ["full"])
        assert [top["node"] for top in difference["a"]["top"]] == ["empty", "full"]
        assert difference["a"]["message"] == ""

    def test_a_packed_file_and_standard_input_are_read(
        self, tmp_path: Path, files: tuple[str, str], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        text = json.dumps(make_case("moves", SMALL))
        packed = tmp_path / "cases.gz"
        with gzip.open(packed, "wt") as file:
            file.write(text)
        assert diff(*files, "--cases", str(packed)) == 3
        monkeypatch.setattr("sys.stdin", io.StringIO(text))
        assert diff(*files, "--cases", "-") == 3

    def test_a_case_that_cannot_be_read_is_named_and_1_and_the_others_are_decided(
        self, tmp_path: Path, files: tuple[str, str], capsys: Captured
    ) -> None:
        broken = make_case("broken", SMALL, [{"kind": "ConfigMap"}])
        assert diff(*files, "--cases", write_cases(tmp_path, broken, 7, make_case("moves", SMALL))) == 1
        out, err = capsys.readouterr()
        assert "skipped broken: objects[0].kind: 'ConfigMap' is not one of" in out
        assert "skipped case 2: line 2 is not a case" in out
        assert "1 of 1 pod decided otherwise" in out
        assert err == "berth policy diff: 2 of the cases could not be decided\n"

    def test_extenders_are_said_not_to_be_asked(self, tmp_path: Path, files: tuple[str, str], capsys: Captured) -> None:
        extended = make_policy("x", extenders=[{"urlPrefix": "http://x", "filterVerb": "filter"}])
        path = write(tmp_path, "extended.yaml", extended)
        assert diff(files[0], path, "--cases", write_cases(tmp_path)) == 0
        assert capsys.readouterr().err == f"berth policy diff: {path} has extenders: they are not asked\n"

    def test_colours_are_for_terminals(
        self, tmp_path: Path, files: tuple[str, str], capsys: Captured, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        cases = write_cases(tmp_path, make_case("moves", SMALL))
        diff(*files, "--cases", cases)
        assert "\033" not in capsys.readouterr().out
        monkeypatch.setattr("sys.stdout.isatty", lambda: True, raising=False)
        diff(*files, "--cases", cases)
        assert "\033[33mmoves" in capsys.readouterr().out
        monkeypatch.setenv("NO_COLOR", "1")
        diff(*files, "--cases", cases)
        assert "\033" not in capsys.readouterr().out

    def test_progress_is_for_terminals_and_for_long_runs(
        self, tmp_path: Path, files: tuple[str, str], capsys: Captured, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        cases = write_cases(tmp_path, make_case("a", SMALL), make_case("b", SMALL))
        monkeypatch.setattr("sys.stderr.isatty", lambda: True, raising=False)
        diff(*files, "--cases", cases)
        assert capsys.readouterr().err == ""
        monkeypatch.setattr(progress, "AFTER_SECONDS", 0.0)
        monkeypatch.setattr(progress, "EVERY_SECONDS", 0.0)
        diff(*files, "--cases", cases)
        assert capsys.readouterr().err == "\r\033[K0 pods\r\033[K1 pod\r\033[K"

    def test_cases_of_which_the_same_is_said_are_one_row(
        self, tmp_path: Path, files: tuple[str, str], capsys: Captured
    ) -> None:
        diff(*files, "--cases", write_cases(tmp_path, *(make_case(f"case-{number}", SMALL) for number in range(9))))
        out = capsys.readouterr().out.splitlines()
        assert len(out) == 4
        assert out[1].startswith("case-0 and 8 more      9   other node   1 node (9 each)")


class TestPolicies:
    def test_one_of_several_in_a_file_is_chosen_by_name_and_based_on_another_one_of_them(
        self, tmp_path: Path, capsys: Captured
    ) -> None:
        leaf = make_policy("leaf", base="pack", priorities=[{"name": "NodeResourcesFit", "weight": 2}])
        path = write(tmp_path, "all.yaml", leaf, SPREAD, PACK)
        cases = write_cases(tmp_path, make_case("moves", SMALL))
        assert diff(f"{path}#spread", f"{path}#leaf", "--cases", cases) == 3
        assert diff(f"{path}#pack", f"{path}#leaf", "--cases", cases) == 0
        capsys.readouterr()
        assert diff(path, f"{path}#leaf", "--cases", cases) == 1
        assert "has 3 policies: choose one with #NAME; there is leaf, spread, pack" in capsys.readouterr().err

    @pytest.mark.parametrize(
        ("text", "words"),
        [
            ("", "has no policy in it"),
            ("a: [", "is not YAML: line 1"),
            ("[1]", "holds something that is no policy"),
            (yaml.safe_dump(make_policy(base="other")), "is not valid: spec.base: there is no valid SchedulingPolicy"),
            (yaml.safe_dump(make_policy(priorities=[{"name": "Magic"}])), 'is not valid: spec.priorities[0].name: "Ma'),
        ],
    )
    def test_what_is_no_policy_is_one_line_and_1(
        self, tmp_path: Path, files: tuple[str, str], capsys: Captured, text: str, words: str
    ) -> None:
        path = tmp_path / "x.yaml"
        path.write_text(text)
        assert diff(files[0], str(path), "--cases", write_cases(tmp_path)) == 1
        out, err = capsys.readouterr()
        assert (out, err.count("\n")) == ("", 1)
        assert err.startswith(f"berth policy diff: {path}: {words}")

    def test_a_file_that_is_not_there_is_one_line_and_1(
        self, tmp_path: Path, files: tuple[str, str], capsys: Captured
    ) -> None:
        assert diff(files[0], "batch", "--cases", write_cases(tmp_path)) == 1
        assert "berth policy diff: batch: cannot be read" in capsys.readouterr().err
        assert diff(*files, "--cases", "/nowhere") == 1
        assert "/nowhere" in capsys.readouterr().err

    @pytest.mark.parametrize(
        "arguments",
        [
            (),
            ("--cases", "x", "--cluster"),
            ("--cases", "x", "--all"),
            ("--cases", "x", "--context", "y"),
            ("--snapshot", "x", "--kubeconfig", "y"),
            ("--snapshot", "x", "--cluster"),
        ],
    )
    def test_a_wrong_question_is_2(self, files: tuple[str, str], arguments: tuple[str, ...]) -> None:
        assert diff(*files, *arguments) == 2


# --- a cluster


async def _post(plane: EmbeddedPlane, *bodies: dict[str, Any]) -> None:
    paths = {
        "Node": "/api/v1/nodes",
        "Pod": "/api/v1/namespaces/default/pods",
        "SchedulingPolicy": "/apis/berth.dev/v1alpha1/schedulingpolicies",
    }
    api = Api(Credentials(Source(str(plane.kubeconfig), None)))
    await api.open()
    try:
        for body in bodies:
            await api.request("POST", paths[body["kind"]], body=body)
    finally:
        await api.close()


@pytest.fixture(scope="module")
def plane(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedPlane]:
    with EmbeddedPlane(tmp_path_factory.mktemp("plane")) as plane:
        plane.apply_crds(CRDS)
        pods = [
            make_pod("there", node="full", cpu=2, scheduler="other"),
            make_pod("mine", node="empty", cpu=1),
            make_pod("waiting", cpu=1, labels={"team": "a"}),
            make_pod("not-ours", cpu=1, scheduler="other"),
            make_pod("gated", cpu=1, gates=["x"]),
        ]
        policies = [
            SPREAD,
            make_policy("pack", base="spread", priorities=[{"name": "NodeResourcesFit", "args": MOST}]),
            make_policy("team", base="pack", podSelector={"matchLabels": {"team": "b"}}),
        ]
        asyncio.run(_post(plane, make_node("empty"), make_node("full"), *pods, *policies))
        yield plane


def differing(capsys: Captured) -> tuple[int, list[str]]:
    found = json.loads(capsys.readouterr().out)
    return found["compared"], [item["pod"] for item in found["differences"]]


class TestCluster:
    def test_the_pods_that_wait_are_decided_by_policies_of_the_cluster(
        self, plane: EmbeddedPlane, capsys: Captured
    ) -> None:
        there = ("--cluster", "--kubeconfig", str(plane.kubeconfig), "-o", "json")
        assert diff("spread", "pack", *there) == 3
        assert differing(capsys) == (1, ["default/waiting"])
        assert diff("pack", "pack", *there) == 0
        assert differing(capsys) == (1, [])

    def test_pods_that_have_a_node_are_decided_anew(self, plane: EmbeddedPlane, capsys: Captured) -> None:
        there = ("--cluster", "--all", "--kubeconfig", str(plane.kubeconfig), "-o", "json")
        assert diff("spread", "pack", *there) == 3
        assert differing(capsys) == (2, ["default/mine", "default/waiting"])

    def test_a_file_may_be_an_edited_copy_of_what_is_there_and_is_based_on_it(
        self, plane: EmbeddedPlane, tmp_path: Path, capsys: Captured
    ) -> None:
        there = ("--cluster", "--kubeconfig", str(plane.kubeconfig), "-o", "json")
        copy = make_policy("pack", base="spread", generation=1)
        assert diff("pack", write(tmp_path, "pack.yaml", copy), *there) == 3
        assert differing(capsys) == (1, ["default/waiting"])
        assert diff("spread", str(tmp_path / "pack.yaml"), *there) == 0
        capsys.readouterr()

    def test_pods_that_neither_selects_are_not_decided(
        self, plane: EmbeddedPlane, tmp_path: Path, capsys: Captured
    ) -> None:
        there = ("--cluster", "--kubeconfig", str(plane.kubeconfig), "-o", "json")
        assert diff("team", "KubernetesDefault", *there) == 0
        assert differing(capsys) == (0, [])
        assert diff("KubernetesDefault", "KubernetesDefault", *there) == 0
        assert differing(capsys) == (1, [])

    def test_nothing_is_written(self, plane: EmbeddedPlane, capsys: Captured) -> None:
        before = plane.store.revision
        diff("spread", "pack", "--cluster", "--all", "--kubeconfig", str(plane.kubeconfig))
        assert "default     pod/waiting" in capsys.readouterr().out
        assert plane.store.revision == before

    def test_what_keeps_us_from_the_policies_is_one_line_and_1(self, plane: EmbeddedPlane, capsys: Captured) -> None:
        there = ("--cluster", "--kubeconfig", str(plane.kubeconfig))
        for arguments, words in (
            (
                ("spread", "other", *there),
                "other: is no file, nor KubernetesDefault, nor a policy of the library or the cluster; there",
            ),
            (("spread", "pack", "--cluster", "--kubeconfig", "/nowhere"), "there is no kubeconfig at /nowhere"),
            (("spread", "./x", *there), "./x: cannot be read"),
        ):
            assert diff(*arguments) == 1
            out, err = capsys.readouterr()
            assert (out, err.count("\n"), words in err) == ("", 1, True), err


class TestSnapshot:
    def test_the_pods_and_policies_of_a_file_are_decided_and_compared(self, tmp_path: Path, capsys: Captured) -> None:
        pods = [make_pod("there", node="full", cpu=2), *(make_pod(f"w{number}", cpu="500m") for number in range(3))]
        objects = {"apiVersion": "v1", "kind": "List", "items": [make_node("empty"), make_node("full"), *pods, SPREAD]}
        path = write(tmp_path, "cluster.yaml", objects)
        pack = write(tmp_path, "pack.yaml", PACK)
        assert diff("spread", pack, "--snapshot", path) == 3
        out = capsys.readouterr().out
        assert "default     pod/w0        3   other node   1 node (3 each)" in out
        assert diff("spread", pack, "--snapshot", path, "--all", "-o", "json") == 3
        assert differing(capsys)[0] == 4
        assert diff("spread", pack, "--snapshot", "/nowhere") == 1
        assert "/nowhere: cannot be read" in capsys.readouterr().err
