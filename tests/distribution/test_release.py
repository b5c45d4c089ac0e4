"""The workflow that publishes a release: what it may do, what it runs, and in which order."""

import re
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from berth import __version__
from support.repository import ROOT

FOLDER = ROOT / ".github" / "workflows"
TEXT = (FOLDER / "release.yml").read_text()
WORKFLOW: dict[Any, Any] = yaml.safe_load(TEXT)
JOBS: dict[str, dict[str, Any]] = WORKFLOW["jobs"]
STEPS = [(name, step) for name, job in JOBS.items() for step in job["steps"]]
SCRIPTS = [(f"{name}: {step.get('name', step['run'])}", step["run"]) for name, step in STEPS if "run" in step]
MAKEFILE = (ROOT / "Makefile").read_text()


def needed(name: str) -> set[str]:
    """All jobs that have to be done before this one."""
    direct = JOBS[name].get("needs", [])
    names = {direct} if isinstance(direct, str) else set(direct)
    return names | {before for each in names for before in needed(each)}


def script(job: str) -> str:
    return "\n".join(step["run"] for step in JOBS[job]["steps"] if "run" in step)


def test_it_runs_for_tags_of_versions_and_nothing_else() -> None:
    triggers = WORKFLOW[True]  # YAML 1.1 reads `on` so
    assert triggers == {"push": {"tags": ["v[0-9]+.[0-9]+.[0-9]+*"]}}


def test_nothing_is_published_before_the_versions_agree_and_the_release_comes_last() -> None:
    assert all("versions" in needed(name) for name in JOBS if name != "versions")
    assert needed("release") == {"versions", "image", "chart", "wheel"}


@pytest.mark.parametrize("uses", sorted({step["uses"] for _, step in STEPS if "uses" in step}))
def test_an_action_is_pinned_to_one_version(uses: str) -> None:
    assert re.fullmatch(r"[\w-]+/[\w-]+@v\d+\.\d+\.\d+", uses)


@pytest.mark.parametrize("name", JOBS)
def test_a_job_has_a_limit_and_only_the_rights_that_it_uses(name: str) -> None:
    rights = JOBS[name].get("permissions", WORKFLOW["permissions"])
    assert "timeout-minutes" in JOBS[name]
    assert (rights["contents"] == "write") is ("gh release" in script(name))
    signs = "cosign sign" in script(name) or any(
        "pypi-publish" in str(step.get("uses")) for step in JOBS[name]["steps"]
    )
    assert (rights.get("id-token") == "write") is signs


def test_image_chart_and_files_are_signed_and_the_image_has_its_bill_of_materials() -> None:
    assert 'cosign sign --yes "$IMAGE@$DIGEST"' in script("image")
    assert "cosign attest --yes --type cyclonedx --predicate sbom.cdx.json" in script("image")
    assert '"$IMAGE@$DIGEST" /opt/berth/sbom.cdx.json' in script("image")
    assert "/opt/berth/sbom.cdx.json" in (ROOT / "Dockerfile").read_text()
    assert "cosign sign --yes" in script("chart")
    assert "cosign sign-blob --yes" in script("release")
    [build] = [step for _, step in STEPS if "build-push" in str(step.get("uses"))]
    assert (build["with"]["sbom"], build["with"]["provenance"]) == (True, "mode=max")


def test_no_registry_is_named() -> None:
    assert "vars.REGISTRY" in TEXT
    assert not re.search(r"ghcr\.io|docker\.io|quay\.io|gcr\.io", TEXT)


def test_what_it_sets_in_the_chart_and_makes_is_there() -> None:
    assert re.search(r"^  repository: berth$", (ROOT / "charts" / "berth" / "values.yaml").read_text(), re.MULTILINE)
    targets = "".join(re.findall(r"\bmake ([\w ]+)", script("wheel"))).split()
    assert set(targets) <= set(re.findall(r"^(\w+):", MAKEFILE, re.MULTILINE))


@pytest.mark.parametrize(("where", "text"), SCRIPTS, ids=[where for where, _ in SCRIPTS])
def test_a_script_is_one_that_bash_can_read(where: str, text: str) -> None:
    done = subprocess.run(["bash", "-n"], input=text, capture_output=True, text=True)
    assert done.returncode == 0, f"{where}: {done.stderr}"
    assert "${{" not in text, f"{where}: text of a tag or a branch does not go into a script, but through env"


@pytest.mark.parametrize(
    ("tag", "registry", "said"),
    [
        (f"v{__version__}", "registry.example.com", f"version={__version__}"),
        ("v9.9.9", "registry.example.com", "release: the tag is v9.9.9, the program has"),
        (__version__, "registry.example.com", "release: the tag is"),
        (f"v{__version__}", "", "release: the repository variable REGISTRY is not set"),
    ],
)
def test_the_check_wants_one_version_and_a_registry(tag: str, registry: str, said: str) -> None:
    environment = {"PATH": "/usr/bin:/bin", "VERSION": tag, "REGISTRY": registry}
    done = subprocess.run(
        ["bash", str(ROOT / ".ci" / "release-check")], env=environment, capture_output=True, text=True
    )
    assert (done.stdout + done.stderr).startswith(said)
    assert (done.returncode == 0) is said.startswith("version=")


def test_the_chart_of_a_release_has_its_image_as_the_default(tmp_path: Path) -> None:
    """The edit of the workflow, on a copy of the values."""
    [edit] = [line for line in script("chart").splitlines() if line.startswith("sed ")]
    values = tmp_path / "charts" / "berth" / "values.yaml"
    values.parent.mkdir(parents=True)
    values.write_text((ROOT / "charts" / "berth" / "values.yaml").read_text())
    environment = {"PATH": "/usr/bin:/bin", "IMAGE": "registry.example.com/berth-scheduler/berth"}
    subprocess.run(["bash", "-c", edit], cwd=tmp_path, env=environment, check=True)
    assert yaml.safe_load(values.read_text())["image"]["repository"] == environment["IMAGE"]
