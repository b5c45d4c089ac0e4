"""`berth policy lint`: what is said of policies in files, where, and the exit code."""

import io
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from berth.cli import main
from berth.policy.documents import read_documents
from policy import certificates
from policy.builders import make_policy

Captured = pytest.CaptureFixture[str]

TEAM = {"matchLabels": {"team": "a"}}


def lint(*arguments: str) -> int:
    return main(("policy", "lint", *arguments))


def write(folder: Path, *documents: object, name: str = "policies.yaml") -> str:
    path = folder / name
    [first, *_] = documents
    path.write_text(first if isinstance(first, str) else yaml.safe_dump_all(documents))
    return str(path)


def lines(capsys: Captured) -> list[str]:
    return capsys.readouterr().out.splitlines()


def make_bad(name: str = "bad") -> dict[str, Any]:
    return make_policy(
        name, predicates=[{"name": "NoSuchPlugin"}], priorities=[{"name": "ImageLocality", "weight": -1}]
    )


def test_it_is_silent_about_nothing(tmp_path: Path, capsys: Captured) -> None:
    path = write(tmp_path, make_policy("good", schedulerName="other"), make_bad())
    assert lint(path) == 1
    good, *bad = lines(capsys)
    assert good == f"{path}: good: ok"
    assert [line.split(": ")[2] for line in bad] == ["spec.predicates[0].name", "spec.priorities[0].weight"]


def test_good_policies_are_0_and_json_has_the_same(tmp_path: Path, capsys: Captured) -> None:
    path = write(tmp_path, make_policy("good"))
    assert lint("-o", "json", path) == 0
    finding = {"file": path, "policy": "good", "field": "", "severity": "ok", "message": ""}
    assert json.loads(capsys.readouterr().out) == [finding]


def test_standard_input_is_a_dash(monkeypatch: pytest.MonkeyPatch, capsys: Captured) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO(yaml.safe_dump(make_policy("good"))))
    assert lint("-") == 0
    assert lines(capsys) == ["-: good: ok"]


def test_nothing_goes_to_standard_error(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    lint(write(tmp_path, make_bad()))
    assert capfd.readouterr().err == ""


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "has no policy in it"),
        ("a: 1\nb: [", "is not YAML: line 2, column 5: "),
        ("a: 1\nb: {c: 1,\n c: 2}", 'line 3: "c" is there twice'),
        (json.dumps(make_policy())[:-1] + ', "spec": {}}', '"spec" is there twice in one object'),
        ("- 1", "is not an object; a policy begins with apiVersion and kind"),
        ("kind: Pod", 'kind: "Pod" is not SchedulingPolicy'),
        ("metadata: {name: a}\nspec: {schedulerName: b}", "a: apiVersion: is required: berth.dev/v1alpha1"),
        (yaml.safe_dump(make_policy("A_b")), 'metadata.name: "A_b" is not the name of an object'),
        ("apiVersion: berth.dev/v1alpha1\nkind: SchedulingPolicy\nspec: {}", "spec.schedulerName: is required"),
    ],
)
def test_what_is_no_policy_is_said(tmp_path: Path, capsys: Captured, text: str, words: str) -> None:
    assert lint(write(tmp_path, text)) == 1
    assert words in capsys.readouterr().out


def test_a_file_that_is_not_there_does_not_hide_the_others(tmp_path: Path, capsys: Captured) -> None:
    path = write(tmp_path, make_policy("good"))
    assert lint("/nowhere.yaml", path) == 1
    missing, good = lines(capsys)
    assert missing.startswith("/nowhere.yaml: is no file")
    assert good == f"{path}: good: ok"


@pytest.mark.parametrize("kind", ["List", "SchedulingPolicyList"])
def test_lists_are_looked_into(tmp_path: Path, capsys: Captured, kind: str) -> None:
    items = [make_policy("good", schedulerName="other"), make_bad()]
    path = write(tmp_path, {"apiVersion": "v1", "kind": kind, "items": items})
    assert lint(path) == 1
    assert [line.split(": ")[1] for line in lines(capsys)] == ["good", "bad", "bad"]
    assert lint(write(tmp_path, {"apiVersion": "v1", "kind": kind, "items": []})) == 1
    assert "has no policy in it" in capsys.readouterr().out


class TestWhatTheApiServerRefuses:
    """Of a manifest, before the operator sees it."""

    @pytest.mark.parametrize(
        ("wrong", "said"),
        [
            ({"sepc": {}}, "sepc: unknown field; did you mean spec?"),
            ({"schedulerName": "x"}, "schedulerName: unknown field: it belongs into spec, as spec.schedulerName"),
            ({"metadata": {"name": "a", "nmae": "b"}}, "metadata.nmae: unknown field; did you mean name?"),
            ({"metadata": {"name": "a", "labels": ["x"]}}, "metadata.labels: a list is not a mapping"),
            ({"metadata": {"name": "a", "labels": {"x": 1}}}, "metadata.labels.x: 1 is not a text; put it in quotes"),
            ({"metadata": {"name": "a", "annotations": {"x": True}}}, "metadata.annotations.x: true is not a text"),
        ],
    )
    def test_it_is_said_with_its_field(self, tmp_path: Path, capsys: Captured, wrong: Any, said: str) -> None:
        path = write(tmp_path, {**make_policy("a"), **wrong})
        assert lint(path) == 1
        [line] = lines(capsys)
        assert line.startswith(f"{path}: a: {said}")

    def test_what_kubectl_prints_of_a_policy_is_none_of_it(self, tmp_path: Path, capsys: Captured) -> None:
        metadata = {
            "name": "a",
            "resourceVersion": "7",
            "creationTimestamp": "2026-01-01T00:00:00Z",
            "labels": {"x": "y"},
        }
        assert lint(write(tmp_path, {**make_policy("a"), "metadata": metadata, "status": {"placed": 1}})) == 0

    def test_a_key_that_is_not_that_of_the_certificate_is_said(self, tmp_path: Path, capsys: Captured) -> None:
        tls = {"certificate": certificates.CERTIFICATE, "key": certificates.OTHER_KEY}
        extender = {"urlPrefix": "https://a", "filterVerb": "filter", "tls": tls}
        assert lint(write(tmp_path, make_policy("a", extenders=[extender], tieBreak="Coin"))) == 1
        assert any(": spec.extenders[0].tls.key: is not the key of certificate" in line for line in lines(capsys))

    def test_expressions_that_are_switched_off_do_not_count(self, tmp_path: Path, capsys: Captured) -> None:
        entries = [{"name": f"e{number}", "expression": "true", "enabled": False} for number in range(17)]
        assert lint(write(tmp_path, make_policy("a", predicates=entries))) == 0


class TestWhatCannotBeShown:
    @pytest.mark.parametrize("output", ["text", "json"])
    @pytest.mark.parametrize("key", ['"k\\ud800": 1', '"k": ["\\udc00"]'])
    def test_half_of_a_surrogate_pair_is_refused(self, tmp_path: Path, capsys: Captured, key: str, output: str) -> None:
        path = tmp_path / "policy.json"
        for text in (f"{{{key}}}", key):  # JSON, YAML
            path.write_text(text)
            assert lint(str(path), "-o", output) == 1
            assert "has half of a surrogate pair in it" in capsys.readouterr().out

    def test_a_name_is_on_one_line_without_what_moves_the_cursor(self, tmp_path: Path, capsys: Captured) -> None:
        assert lint(write(tmp_path, make_policy("a\n\x1b[31mb"))) == 1
        [line] = lines(capsys)
        assert ": a\\n\\x1b[31mb: metadata.name: " in line

    @pytest.mark.parametrize("many", [False, True])
    def test_output_that_cannot_be_written_is_one_line_and_1(self, tmp_path: Path, many: bool) -> None:
        path = write(tmp_path, make_policy("a"))
        program = "import sys; from berth.cli import main; sys.exit(main())"
        command = [sys.executable, "-c", program, "policy", "lint", *[path] * (500 if many else 1)]
        with open("/dev/full", "w") as full:
            done = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True, timeout=60)
        assert (done.returncode, done.stderr) == (
            1,
            "berth: cannot write to standard output: No space left on device\n",
        )

    def test_output_that_is_closed_is_one_line_and_1(
        self, tmp_path: Path, capsys: Captured, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        path = write(tmp_path, make_policy("a"))
        monkeypatch.setattr(sys, "stdout", None)
        assert lint(path) == 1
        assert capsys.readouterr().err == "berth: standard output is closed: there is nowhere to write to\n"


class TestBases:
    def test_one_of_berth_in_other_letters_is_said(self, tmp_path: Path, capsys: Captured) -> None:
        assert lint(write(tmp_path, make_policy("a", base="empty"))) == 1
        assert lines(capsys)[0].endswith(": spec.base: no policy empty among the files; did you mean Empty?")

    def test_a_base_may_be_in_any_file_and_come_last(self, tmp_path: Path, capsys: Captured) -> None:
        leaf = write(tmp_path, make_policy("leaf", base="middle", schedulerName="a"), name="1.yaml")
        middle = write(tmp_path, make_policy("middle", base="root", schedulerName="b"), name="2.yaml")
        root = write(tmp_path, make_policy("root", schedulerName="c"), name="3.yaml")
        assert lint(leaf, middle, root) == 0
        assert lines(capsys) == [f"{leaf}: leaf: ok", f"{middle}: middle: ok", f"{root}: root: ok"]

    def test_one_that_is_not_among_the_files_is_said(self, tmp_path: Path, capsys: Captured) -> None:
        path = write(tmp_path, make_policy("leaf", base="batch"))
        assert lint(path) == 1
        assert lines(capsys) == [
            f"{path}: leaf: spec.base: no policy batch among the files: lint the file that it is in along with this one"
        ]

    def test_one_that_is_wrong_is_another_matter(self, tmp_path: Path, capsys: Captured) -> None:
        assert lint(write(tmp_path, make_policy("leaf", base="bad"), make_bad())) == 1
        assert "leaf: spec.base: there is no valid SchedulingPolicy bad" in capsys.readouterr().out

    def test_a_ring_is_said_of_each_in_it(self, tmp_path: Path, capsys: Captured) -> None:
        assert lint(write(tmp_path, make_policy("a", base="b"), make_policy("b", base="a"))) == 1
        first, second = lines(capsys)
        assert "a: spec.base: the bases form a ring, a -> b -> a" in first
        assert "b: spec.base: the bases form a ring, b -> a -> b" in second

    def test_what_differs_is_judged_over_the_base(self, tmp_path: Path, capsys: Captured) -> None:
        base = make_policy("base", base="Empty", schedulerName="a", backoff={"maxSeconds": 60})
        leaf = make_policy("leaf", base="base", schedulerName="b", backoff={"initialSeconds": 30})
        alone = make_policy("alone", schedulerName="c", backoff={"initialSeconds": 30})
        assert lint(write(tmp_path, leaf, base, alone)) == 1
        assert [line.split(": ")[1:3] for line in lines(capsys)] == [
            ["leaf", "ok"],
            ["base", "ok"],
            ["alone", "spec.backoff.initialSeconds"],
        ]


class TestTogether:
    def test_a_name_that_is_there_twice_is_an_error(self, tmp_path: Path, capsys: Captured) -> None:
        first = write(tmp_path, make_policy("one"), name="1.yaml")
        second = write(tmp_path, make_bad("one"), name="2.yaml")
        assert lint(first, second) == 1
        assert lines(capsys) == [
            f"{first}: one: ok",
            f"{second}: one: metadata.name: there is a policy one already, in {first}",
        ]

    def test_policies_that_conflict_with_each_other_are_warned_of(self, tmp_path: Path, capsys: Captured) -> None:
        path = write(tmp_path, make_policy("a", podSelector=TEAM), make_policy("b", namespaceSelector=TEAM))
        assert lint(path) == 0
        said = lines(capsys)
        assert [line.split(": ")[1:3] for line in said] == [
            ["a", "ok"],
            ["a", "warning"],
            ["b", "ok"],
            ["b", "warning"],
        ]
        assert "some pods may match b as well, of the same rank: then the first by name decides" in said[1]

    def test_a_policy_that_never_decides_is_warned_of(self, tmp_path: Path, capsys: Captured) -> None:
        path = write(tmp_path, make_policy("b"), make_policy("a"))
        assert lint("-o", "json", path) == 0
        told = [item for item in json.loads(capsys.readouterr().out) if item["severity"] == "warning"]
        assert [(item["policy"], item["message"]) for item in told] == [
            ("b", "never decides: a comes first for every pod that it matches"),
            (
                "a",
                "some pods may match b as well, of the same rank: then the first by name decides; more selectors, or "
                "more requirements in them, come first",
            ),
        ]

    def test_policies_that_leave_each_other_alone_are_not(self, tmp_path: Path, capsys: Captured) -> None:
        policies = [
            make_policy("a"),
            make_policy("b", schedulerName="other"),
            make_policy("c", podSelector=TEAM),
            make_policy("d", mode="Shadow"),
            make_policy("e", mode="Disabled"),
        ]
        assert lint(write(tmp_path, *policies)) == 0
        assert "warning" not in capsys.readouterr().out


@pytest.mark.parametrize(
    ("written", "read"),
    [
        ("1e3", 1000),
        ("10.0", 10),
        ("1_000", 1000),
        ("010", 8),
        ("0o17", 15),
        ("0x1F", 31),
        ("08", 8),
        ("-.5", -0.5),
        ("+7", 7),
        ("0", 0),
        ("1:30", "1:30"),
        ("2020-01-01", "2020-01-01"),
        ("1e", "1e"),
        ("yes", True),
    ],
)
def test_numbers_are_what_kubectl_reads(written: str, read: object) -> None:
    [document] = read_documents(f"value: {written}")
    assert document == {"value": read}
    assert isinstance(document, dict)
    assert type(document["value"]) is type(read)


class TestFoldersAndPatterns:
    @pytest.fixture
    def folder(self, tmp_path: Path) -> Path:
        (tmp_path / "below").mkdir()
        write(tmp_path, make_policy("a", schedulerName="a"), name="a.yaml")
        write(tmp_path / "below", make_policy("b", schedulerName="b"), name="b.yml")
        write(tmp_path, {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c"}}, name="c.json")
        (tmp_path / "notes.txt").write_text("no policy")
        return tmp_path

    def test_a_folder_is_all_policies_in_it_and_below(self, folder: Path, capsys: Captured) -> None:
        assert lint(str(folder)) == 0
        assert lines(capsys) == [f"{folder}/a.yaml: a: ok", f"{folder}/below/b.yml: b: ok"]

    def test_a_pattern_is_the_files_that_match_it(self, folder: Path, capsys: Captured) -> None:
        assert lint(f"{folder}/**/b*") == 0
        assert lines(capsys) == [f"{folder}/below/b.yml: b: ok"]

    def test_a_file_that_is_named_twice_is_read_once(self, folder: Path, capsys: Captured) -> None:
        assert lint(str(folder), f"{folder}/a.yaml", f"{folder}/*.yaml") == 0
        assert len(lines(capsys)) == 2

    def test_a_file_of_another_kind_that_is_named_is_an_error(self, folder: Path, capsys: Captured) -> None:
        assert lint(f"{folder}/c.json") == 1
        assert "kind" in lines(capsys)[0]

    @pytest.mark.parametrize(
        ("argument", "said"),
        [
            ("*.nope", "matches no file"),
            ("empty", "has no file in it that ends in .yaml, .yml, .json"),
            ("binpak", "is no file, and no policy of the library (berth policy show); did you mean binpack?"),
        ],
    )
    def test_what_means_no_file_is_an_error(
        self, folder: Path, capsys: Captured, monkeypatch: pytest.MonkeyPatch, argument: str, said: str
    ) -> None:
        monkeypatch.chdir(folder)
        (folder / "empty").mkdir()
        assert lint(argument) == 1
        assert lines(capsys) == [f"{argument}: {said}"]


class TestTraps:
    def test_a_key_without_a_guard_is_a_warning_with_the_guarded_form(self, tmp_path: Path, capsys: Captured) -> None:
        rules = [
            {"name": "unguarded", "expression": "node.labels['zone'] == 'a'"},
            {"name": "guarded", "expression": "'zone' in node.labels && node.labels['zone'] == 'a'"},
            {"name": "off", "expression": "node.labels['zone'] == 'b'", "enabled": False},
        ]
        path = write(tmp_path, make_policy("a", predicates=rules))
        assert lint(path) == 0
        good, warning = lines(capsys)
        assert good == f"{path}: a: ok"
        assert warning == (
            f"{path}: a: spec.predicates[0].expression: warning: line 1, column 12: fails on nodes without the label "
            "zone; write node.labels[?'zone'].orValue(''), or test 'zone' in node.labels before"
        )
