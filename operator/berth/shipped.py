"""The files that come with Berth: the kinds (crds/) and the policy library (policies/).

A wheel has them in berth/data/ (setup.py puts them there), a checkout at its top.
"""

from collections.abc import Mapping
from pathlib import Path

import berth

PACKAGE = Path(berth.__file__).resolve().parent


def folder(name: str, package: Path = PACKAGE) -> Path:
    """Returns the folder "crds" or "policies"."""
    in_wheel = package / "data" / name
    return in_wheel if in_wheel.is_dir() else package.parents[1] / name


def crd_files() -> list[Path]:
    """Returns the files of the kinds, by name."""
    return sorted(folder("crds").glob("*.yaml"))


def policy_files() -> Mapping[str, Path]:
    """Returns the files of the policy library by the name of their policy, in alphabetical order."""
    return {file.stem: file for file in sorted(folder("policies").glob("*.yaml"))}


def policy_path(text: str) -> str:
    """Returns the file of the library's policy if the text is its name and no file of the user's; else the text."""
    file = None if Path(text).exists() else policy_files().get(text)
    return text if file is None else str(file)
