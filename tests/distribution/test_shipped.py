"""The kinds and the policy library: `berth crds` and `berth policy` have them wherever Berth is installed."""

from pathlib import Path

import pytest
import yaml

from berth import shipped
from support.commands import exit_code, forget_settings
from support.repository import ROOT

Captured = pytest.CaptureFixture[str]
CLUSTER = str(ROOT / "examples" / "what-if" / "cluster.json")


@pytest.fixture(autouse=True)
def nothing_around(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    forget_settings(monkeypatch)
    monkeypatch.chdir(tmp_path)


def test_a_checkout_has_the_folders_at_its_top_and_a_wheel_inside_of_the_package(tmp_path: Path) -> None:
    package = tmp_path / "operator" / "berth"
    assert shipped.folder("crds", package) == tmp_path / "crds"
    (package / "data" / "crds").mkdir(parents=True)
    assert shipped.folder("crds", package) == package / "data" / "crds"


def test_crds_prints_the_definitions_of_both_kinds(capsys: Captured) -> None:
    assert exit_code("crds") == 0
    documents = list(yaml.safe_load_all(capsys.readouterr().out))
    assert [document["kind"] for document in documents] == ["CustomResourceDefinition"] * 2
    files = sorted((ROOT / "crds").iterdir())
    assert documents == [yaml.safe_load(file.read_text()) for file in files]


def test_show_lists_the_library_with_what_each_policy_does(capsys: Captured) -> None:
    assert exit_code("policy", "show") == 0
    heading, *rows = capsys.readouterr().out.splitlines()
    assert heading.split() == ["NAME", "WHAT", "IT", "DOES"]
    assert [row.split()[0] for row in rows] == sorted(file.stem for file in (ROOT / "policies").iterdir())
    assert all(20 < len(row.partition(" ")[2].strip()) < 125 for row in rows), rows


def test_show_prints_policies_that_lint_accepts(capsys: Captured, tmp_path: Path) -> None:
    assert exit_code("policy", "show", *shipped.policy_files()) == 0
    (tmp_path / "all.yaml").write_text(capsys.readouterr().out)
    assert exit_code("policy", "lint", "all.yaml") == 0
    assert capsys.readouterr().out.count(": ok") == 11


def test_show_names_the_library_if_it_has_no_such_policy(capsys: Captured) -> None:
    assert exit_code("policy", "show", "binpak") == 1
    assert "the library has no policy binpak; it has binpack, cost-saver," in capsys.readouterr().err


def test_lint_takes_a_policy_of_the_library_by_name(capsys: Captured) -> None:
    assert exit_code("policy", "lint", "binpack") == 0
    assert capsys.readouterr().out == "binpack: binpack: ok\n"


def test_a_file_of_the_user_comes_before_a_policy_of_the_library(capsys: Captured, tmp_path: Path) -> None:
    (tmp_path / "binpack").write_text("{}")
    assert exit_code("policy", "lint", "binpack") == 1
    assert "binpack: metadata.name" in capsys.readouterr().out


def test_diff_and_simulate_take_a_policy_of_the_library_by_name(capsys: Captured) -> None:
    assert exit_code("policy", "diff", "KubernetesDefault", "binpack", "--snapshot", CLUSTER, "--all") in (0, 1)
    assert exit_code("policy", "diff", "binpack", "team-namespaces#team-batch", "--snapshot", CLUSTER) in (0, 1)
    assert exit_code("simulate", "--policy", "binpack", "--snapshot", CLUSTER) in (0, 3)
    assert capsys.readouterr().err == ""
