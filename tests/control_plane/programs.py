"""Where the programs of the control plane are.

With KUBEBUILDER_ASSETS set, that folder is used and nothing else: it must hold etcd, kube-apiserver and kubectl, as
the folders of Kubernetes' envtest do; kube-scheduler is only needed to compare with it. Otherwise it is a cache folder
outside the repository, keyed by Kubernetes version and platform, which `make control-plane` fills (build.py).

The Kubernetes version is the one that go.mod requires: there is no second place to change.
"""

from __future__ import annotations

import os
import platform
import re
import sys
from dataclasses import dataclass
from pathlib import Path

MODULE_FOLDER = Path(__file__).resolve().parent
KUBECTL_BEFORE_FOLDER = MODULE_FOLDER / "kubectl_before"
BUILT_PROGRAMS = ("kubectl", "kube-scheduler", "kube-apiserver")
ALL_PROGRAMS = ("etcd", *BUILT_PROGRAMS)
ASSETS_VARIABLE = "KUBEBUILDER_ASSETS"


class MissingPrograms(Exception):
    """The control plane cannot be started; the text says in one line what is missing and what to do."""


@dataclass(frozen=True, slots=True)
class Programs:
    """Paths of executables; `kube_scheduler` is None when the folder of KUBEBUILDER_ASSETS has none."""

    etcd: Path
    kube_apiserver: Path
    kubectl: Path
    kube_scheduler: Path | None


def kubernetes_version() -> str:
    """The version that go.mod requires, like "v1.36.4"."""
    found = re.search(r"^require k8s\.io/kubernetes (v\S+)$", (MODULE_FOLDER / "go.mod").read_text(), re.MULTILINE)
    if found is None:
        raise MissingPrograms("tests/control_plane/go.mod does not require k8s.io/kubernetes: restore it")
    return found[1]


def kubectl_before_version() -> str:
    """The version of the kubectl before that one, like "v1.35.10": k8s.io/kubectl v0.35.10 is Kubernetes v1.35.10."""
    text = (KUBECTL_BEFORE_FOLDER / "go.mod").read_text()
    found = re.search(r"k8s\.io/kubectl v0\.(\S+)$", text, re.MULTILINE)
    if found is None:
        raise MissingPrograms("tests/control_plane/kubectl_before/go.mod does not require k8s.io/kubectl: restore it")
    return f"v1.{found[1]}"


def kubectl_before() -> Path:
    """Where it is, whether or not it is there yet; no test needs it."""
    return cache_base() / "kubectl" / kubectl_before_version() / "-".join(go_platform()) / "kubectl"


def go_platform() -> tuple[str, str]:
    """This machine as Go names it: ("linux", "amd64")."""
    machine = platform.machine().lower()
    return sys.platform, {"x86_64": "amd64", "aarch64": "arm64"}.get(machine, machine)


def cache_base() -> Path:
    """Where everything is kept that is built once and lies outside the repository."""
    base = os.environ.get("BERTH_CACHE")
    if not base:
        user_cache = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
        base = os.path.join(user_cache, "berth")
    return Path(base).absolute()


def cache_folder() -> Path:
    """Where built programs are kept, whether or not they are there yet."""
    return cache_base() / "control-plane" / kubernetes_version() / "-".join(go_platform())


def assets_folder() -> Path | None:
    """The folder that the user wants used instead of the cache."""
    value = os.environ.get(ASSETS_VARIABLE)
    return Path(value).absolute() if value else None


def missing_in(folder: Path, names: tuple[str, ...] = ALL_PROGRAMS) -> list[str]:
    return [name for name in names if not os.access(folder / name, os.X_OK)]


def find_programs(*, with_scheduler: bool = False) -> Programs:
    """The programs, checked to be there; raises MissingPrograms."""
    assets = assets_folder()
    folder = assets or cache_folder()
    needed = tuple(name for name in ALL_PROGRAMS if with_scheduler or name != "kube-scheduler")
    missing = ", ".join(missing_in(folder, needed))
    if missing and assets:
        raise MissingPrograms(f"{ASSETS_VARIABLE}={assets} lacks {missing}: add it, or unset that to have it built")
    if missing:
        raise MissingPrograms(f"{missing} not in {folder}: run `make control-plane`")
    return Programs(
        etcd=folder / "etcd",
        kube_apiserver=folder / "kube-apiserver",
        kubectl=folder / "kubectl",
        kube_scheduler=None if missing_in(folder, ("kube-scheduler",)) else folder / "kube-scheduler",
    )
