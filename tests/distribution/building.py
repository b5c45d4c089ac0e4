"""Wheels of this checkout, built in copies of the sources: building leaves files behind."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

SOURCES = ("operator", "crds", "policies", "pyproject.toml", "setup.py", "README.md", "LICENSE")
OFFLINE = ("--no-index", "--no-deps", "--no-build-isolation", "--disable-pip-version-check", "--quiet")
LEFT_OUT = shutil.ignore_patterns("__pycache__", "*.egg-info")


def run(*command: str, folder: Path, **environment: str) -> str:
    """What the command prints, in an environment that knows nothing of this checkout."""
    ours = ("PYTHONPATH", "VIRTUAL_ENV", "KUBECONFIG")
    inherited = {name: value for name, value in os.environ.items() if name not in ours and "BERTH" not in name}
    done = subprocess.run(
        command, cwd=folder, env={**inherited, **environment}, capture_output=True, text=True, timeout=600
    )
    assert done.returncode == 0, f"{command} ended with {done.returncode}: {done.stdout}{done.stderr}"
    return done.stdout


def build(sources: Path, target: Path) -> Path:
    """Builds the wheel of a copy of the sources: building leaves files behind."""
    run(sys.executable, "-m", "pip", "wheel", *OFFLINE, f"--wheel-dir={target}", str(sources), folder=target)
    [wheel] = target.glob("*.whl")
    return wheel
