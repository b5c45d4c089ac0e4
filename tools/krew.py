"""Packs `kubectl berth` for krew: an archive, and the manifest that names its hash. `make krew`.

    python tools/krew.py FOLDER     FOLDER has the wheel, and gets kubectl-berth.tar.gz and berth.yaml

The archive has the wheel, the pinned versions of what it needs, and a script that installs both on the first call
(tools/kubectl-berth). The same files make the same archive: no time and no user is in it.
"""

import gzip
import hashlib
import io
import sys
import tarfile
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).resolve().parents[1]
ARCHIVE = "kubectl-berth.tar.gz"
MANIFEST = "berth.yaml"
RELEASES = "https://github.com/berth-scheduler/berth/releases/download"
DESCRIPTION = """\
Says why a pod is pending or on its node, and what would help; what would happen if a node
were drained, a zone lost or a Deployment scaled; which decisions a policy would change; and
shows the scheduler live. Most of it works with any scheduler, with your own rights.
"""
CAVEATS = """\
Needs Python 3.11 or later. The first call installs Berth into a folder of its own below
~/.cache/kubectl-berth, which takes a minute.
"""


def pack(wheel: Path, version: str) -> bytes:
    """Returns the archive."""
    script = (ROOT / "tools" / "kubectl-berth").read_text().replace("@VERSION@", version).replace("@WHEEL@", wheel.name)
    files = {
        "LICENSE": ((ROOT / "LICENSE").read_bytes(), 0o644),
        "constraints.txt": ((ROOT / "constraints.txt").read_bytes(), 0o644),
        "kubectl-berth": (script.encode(), 0o755),
        wheel.name: (wheel.read_bytes(), 0o644),
    }
    packed = io.BytesIO()
    with gzip.GzipFile(fileobj=packed, mode="wb", mtime=0) as zipped, tarfile.open(fileobj=zipped, mode="w") as archive:
        for name, (content, mode) in files.items():
            entry = tarfile.TarInfo(name)
            entry.size, entry.mode = len(content), mode
            archive.addfile(entry, io.BytesIO(content))
    return packed.getvalue()


def manifest(version: str, sha256: str) -> dict[str, Any]:
    """Returns the manifest of krew's index."""
    return {
        "apiVersion": "krew.googlecontainertools.github.com/v1alpha2",
        "kind": "Plugin",
        "metadata": {"name": "berth"},
        "spec": {
            "version": f"v{version}",
            "homepage": "https://github.com/berth-scheduler/berth",
            "shortDescription": "Say why a pod is pending, and what would help",
            "description": DESCRIPTION,
            "caveats": CAVEATS,
            "platforms": [
                {
                    "selector": {"matchLabels": {"os": system, "arch": arch}},
                    "uri": f"{RELEASES}/v{version}/{ARCHIVE}",
                    "sha256": sha256,
                    "bin": "kubectl-berth",
                }
                for system in ("linux", "darwin")
                for arch in ("amd64", "arm64")
            ],
        },
    }


def main(folder: Path) -> None:
    wheels = sorted(folder.glob("berth_scheduler-*.whl"))
    if len(wheels) != 1:
        raise SystemExit(f"krew: {folder} has {len(wheels)} wheels of Berth, and must have one: make clean wheel")
    [wheel] = wheels
    version = wheel.name.split("-")[1]
    archive = pack(wheel, version)
    (folder / ARCHIVE).write_bytes(archive)
    body = manifest(version, hashlib.sha256(archive).hexdigest())
    (folder / MANIFEST).write_text(yaml.safe_dump(body, sort_keys=False, allow_unicode=True, width=100))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
