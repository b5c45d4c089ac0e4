"""Builds the image with docker or podman, and loads it into a cluster on this machine: kind, k3d or minikube.

    python tools/image.py build             `make image`
    python tools/image.py load [CLUSTER]    `make load`

The image is called localhost/berth:VERSION: a name that no node tries to pull from anywhere. CLUSTER is kind, k3d or
minikube with the cluster's name after a colon, such as kind:dev; without it, the current context of kubectl says it.
"""

import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
ENGINES = ("docker", "podman")
CONTEXT = re.compile(r"(?:(kind|k3d)-(.+)|(minikube))")


class CannotDo(Exception):
    """What is missing, and the way out."""


def version() -> str:
    """Returns the version of Berth, without importing it."""
    found = re.search(r'__version__ = "(.+)"', (ROOT / "operator" / "berth" / "__init__.py").read_text())
    assert found is not None
    return found[1]


def image() -> str:
    return os.environ.get("IMAGE") or f"localhost/berth:{version()}"


def engine() -> str:
    """Returns the program that builds images: $ENGINE, docker or podman."""
    wanted = os.environ.get("ENGINE")
    for name in (wanted,) if wanted else ENGINES:
        if shutil.which(name):
            return name
    raise CannotDo(
        f"there is no {wanted or ' and no '.join(ENGINES)} here: install one of them, or name it: ENGINE=..."
    )


def build() -> None:
    revision = _output("git", "-C", str(ROOT), "rev-parse", "HEAD") or "unknown"
    arguments = [f"--build-arg=VERSION={version()}", f"--build-arg=REVISION={revision}", f"--tag={image()}"]
    _run(engine(), "build", *arguments, str(ROOT))
    print(f"built {image()}; load it with: make load")


def load(cluster: str) -> None:
    kind, _, name = (cluster or _current_cluster()).partition(":")
    if kind not in LOADERS:
        raise CannotDo(f'"{kind}" must be one of {", ".join(LOADERS)}')
    if not shutil.which(kind):
        raise CannotDo(f"there is no {kind} here: install it, or push the image to a registry (docs/install.md)")
    if not _output(engine(), "image", "inspect", "--format={{.Id}}", image()):
        raise CannotDo(f"there is no image {image()} yet: build it with make image")
    with tempfile.TemporaryDirectory() as folder:
        archive = Path(folder) / "berth.tar"
        _run(engine(), "save", "--output", str(archive), image())  # docker and podman alike, and all three can read it
        _run(*LOADERS[kind](str(archive), name))
    print(f"loaded {image()} into {kind}; install it with -f charts/berth/values-kind.yaml")


def _kind(archive: str, name: str) -> Sequence[str]:
    return ("kind", "load", "image-archive", archive, f"--name={name or 'kind'}")


def _k3d(archive: str, name: str) -> Sequence[str]:
    return ("k3d", "image", "import", archive, f"--cluster={name or 'k3s-default'}")


def _minikube(archive: str, name: str) -> Sequence[str]:
    return ("minikube", "image", "load", archive, f"--profile={name or 'minikube'}")


LOADERS = {"kind": _kind, "k3d": _k3d, "minikube": _minikube}


def _current_cluster() -> str:
    """Returns kind:NAME, k3d:NAME or minikube, by the name that these give to the context of a cluster."""
    context = _output("kubectl", "config", "current-context")
    found = CONTEXT.fullmatch(context)
    if found is None:
        said = f'the current context "{context}" is none of them' if context else "kubectl has no current context"
        raise CannotDo(f"which cluster: {', '.join(LOADERS)}? {said}: name it, such as make load CLUSTER=kind:dev")
    return found[3] or f"{found[1]}:{found[2]}"


def _output(*command: str) -> str:
    """Returns what the command prints; "" if it fails or is not there."""
    try:
        done = subprocess.run(command, capture_output=True, text=True)
    except FileNotFoundError:
        return ""
    return done.stdout.strip() if done.returncode == 0 else ""


def _run(*command: str) -> None:
    print("+", " ".join(command), flush=True)
    if subprocess.run(command).returncode != 0:
        raise CannotDo(f"{' '.join(command[:2])} failed: see above")


def main(words: Sequence[str]) -> int:
    try:
        match words:
            case ["build"]:
                build()
            case ["load"]:
                load("")
            case ["load", cluster]:
                load(cluster)
            case _:
                raise CannotDo("usage: image.py build | load [CLUSTER]")
    except CannotDo as problem:
        print(f"image: {problem}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
