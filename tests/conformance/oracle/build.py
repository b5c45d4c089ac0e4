"""Builds the two oracles into the cache folder outside the repository: `make oracle`.

    oracle           current/   the kube-scheduler whose decisions are Berth's
    oracle-legacy    legacy/    v1.17, for the predicates and priorities that later ones dropped

A program is kept under its Kubernetes version and a hash of its sources: it is built when it is missing, and anew when
go.mod, go.sum or a Go file changes. The first build takes minutes, most of them for fetching and compiling Kubernetes.

Exit status: 0 both there, 1 a build failed (go's last words are shown), 2 go is missing. With --optional a missing go
is said, and no error.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import sys
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path

from control_plane.go_build import BuildFailed, build_program, locked
from control_plane.programs import MissingPrograms, cache_base, go_platform

HERE = Path(__file__).resolve().parent


@dataclass(frozen=True, slots=True)
class Oracle:
    """A Go module in this folder, and the program that it becomes."""

    name: str
    module_folder: Path

    @property
    def kubernetes_version(self) -> str:
        """The version that its go.mod requires, like "v1.36.4"."""
        text = (self.module_folder / "go.mod").read_text()
        found = re.search(r"^\s*k8s\.io/kubernetes (v\S+)$", text, re.MULTILINE)
        if found is None:
            raise MissingPrograms(f"{self.module_folder}/go.mod does not require k8s.io/kubernetes: restore it")
        return found[1]

    @property
    def program(self) -> Path:
        """Where the program is, or will be."""
        digest = sha256()
        for source in sorted([*self.module_folder.glob("go.*"), *self.module_folder.glob("*.go")]):
            digest.update(source.name.encode() + b"\0" + source.read_bytes() + b"\0")
        version = f"{self.kubernetes_version}-{digest.hexdigest()[:12]}"
        return cache_base() / "oracle" / "-".join(go_platform()) / version / self.name

    @property
    def built(self) -> bool:
        return os.access(self.program, os.X_OK)


CURRENT = Oracle("oracle", HERE / "current")
LEGACY = Oracle("oracle-legacy", HERE / "legacy")


def require_oracles() -> None:
    """Builds what is missing. Raises MissingPrograms without go, BuildFailed when a build fails."""
    missing = [oracle for oracle in (CURRENT, LEGACY) if not oracle.built]
    if missing and shutil.which("go") is None:
        names = " and ".join(f"{oracle.name} {oracle.kubernetes_version}" for oracle in missing)
        raise MissingPrograms(f"go is not installed and {names} not built yet: install go, run `make oracle`")
    for oracle in missing:
        with locked(oracle.program.parent):
            if not oracle.built:  # another run may have built it while we waited
                build_program(".", oracle.module_folder, oracle.program)


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="make oracle", description="Build the oracles from Kubernetes' own code.")
    parser.add_argument("--optional", action="store_true", help="a missing go is no error")
    optional = parser.parse_args(arguments).optional
    try:
        require_oracles()
    except MissingPrograms as error:
        print(f"oracle: {error}", file=sys.stderr)
        return 0 if optional else 2
    except BuildFailed as error:
        print(f"oracle: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("\noracle: interrupted; what is finished is kept", file=sys.stderr)
        return 130
    for oracle in (CURRENT, LEGACY):
        print(f"{oracle.name}: Kubernetes {oracle.kubernetes_version} in {oracle.program.parent}", file=sys.stderr)
    return 0


if __name__ == "__main__":
    sys.exit(main())
