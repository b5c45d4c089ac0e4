"""Writes requirements.lock: what the image installs, with the hash of every wheel that may be taken. `make lock`.

The versions are those of constraints.txt, so this chooses none: it takes what Berth needs at run time, and setuptools
to build it, from the metadata of what `make install` has installed, and asks the package index that pip is configured
with for the hashes. Wheels for other interpreters and systems than those of the image and its tests are left out. The
file names no index: where packages come from is for the builder to say, and the hashes hold wherever that is.
"""

import os
import re
import ssl
import subprocess
import sys
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from html.parser import HTMLParser
from importlib.metadata import distribution
from pathlib import Path
from urllib.parse import unquote, urlsplit
from urllib.request import Request, urlopen

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name, parse_wheel_filename

ROOT = Path(__file__).resolve().parents[1]
LOCK = ROOT / "requirements.lock"
BUILD = ("setuptools",)
PYTHONS = ((3, 11), (3, 12), (3, 13))
MACHINES = ("x86_64", "aarch64")
SECONDS = 60.0
HEAD = """\
# What the image installs, with the hashes of all wheels that may be taken. Made by `make lock` from pyproject.toml and
# constraints.txt; edit those.
"""


def pins(path: Path = ROOT / "constraints.txt") -> dict[str, str]:
    """The pinned versions by canonical name."""
    lines = [line.strip() for line in path.read_text().splitlines() if line.strip() and line[0] != "#"]
    return {canonicalize_name(name): version for name, _, version in (line.partition("==") for line in lines)}


def needed() -> list[str]:
    """The canonical names of all that Berth needs at run time on any Python and machine, and of what builds it."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    waiting = [Requirement(text) for text in (*project["dependencies"], *BUILD)]
    found: dict[str, set[str]] = {}
    while waiting:
        requirement = waiting.pop()
        name = canonicalize_name(requirement.name)
        extras = {"", *requirement.extras}
        if name in found and extras <= found[name]:
            continue
        found[name] = found.get(name, set()) | extras
        waiting += _requirements(name, extras)
    return sorted(found)


def _requirements(name: str, extras: Iterable[str]) -> Iterator[Requirement]:
    for text in distribution(name).requires or ():
        requirement = Requirement(text)
        if requirement.marker is None or any(
            requirement.marker.evaluate({**environment, "extra": extra})
            for environment in _environments()
            for extra in extras
        ):
            yield requirement


def _environments() -> Iterator[dict[str, str]]:
    for major, minor in PYTHONS:
        for machine in MACHINES:
            yield {
                "python_version": f"{major}.{minor}",
                "python_full_version": f"{major}.{minor}.0",
                "platform_machine": machine,
                "platform_system": "Linux",
                "sys_platform": "linux",
                "os_name": "posix",
                "implementation_name": "cpython",
                "platform_python_implementation": "CPython",
            }


def fits(filename: str) -> bool:
    """Whether the wheel may be taken by one of the Pythons on one of the machines."""
    return any(
        _fits_python(tag.interpreter, tag.abi) and _fits_platform(tag.platform)
        for tag in parse_wheel_filename(filename)[3]
    )


def _fits_python(interpreter: str, abi: str) -> bool:
    if interpreter == "py3":
        return True
    found = re.fullmatch(r"cp3(\d+)", interpreter)
    if found is None:
        return False
    minor = int(found[1])
    if abi == "abi3":
        return minor <= PYTHONS[-1][1]
    return (3, minor) in PYTHONS and abi in (interpreter, "none")


def _fits_platform(platform: str) -> bool:
    return platform == "any" or (platform.startswith("manylinux") and platform.endswith(MACHINES))


# --- the index -------------------------------------------------------------------------------------------------------


class _Links(HTMLParser):
    """The files of a project's page (PEP 503), with their hashes."""

    def __init__(self) -> None:
        super().__init__()
        self.hashes: dict[str, str] = {}

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        parts = urlsplit(dict(attrs).get("href") or "")
        kind, _, value = parts.fragment.partition("=")
        if tag == "a" and kind == "sha256":
            self.hashes[unquote(parts.path.rpartition("/")[2])] = value


def index_url() -> str:
    """Where pip would look."""
    for name in ("install.index-url", "global.index-url"):
        done = subprocess.run([sys.executable, "-m", "pip", "config", "get", name], capture_output=True, text=True)
        if done.returncode == 0 and done.stdout.strip():
            return done.stdout.strip()
    from pip._internal.models.index import PyPI  # its default has no public name

    return str(os.environ.get("PIP_INDEX_URL") or PyPI.simple_url)


def wheels(index: str, name: str) -> Mapping[str, str]:
    """The wheels of a project, by file name, with their hashes."""
    request = Request(f"{index.rstrip('/')}/{name}/", headers={"Accept": "text/html"})
    context = ssl.create_default_context(cafile=os.environ.get("PIP_CERT") or None)
    with urlopen(request, timeout=SECONDS, context=context) as answer:
        links = _Links()
        links.feed(answer.read().decode())
    return {name: value for name, value in links.hashes.items() if name.endswith(".whl")}


def entry(name: str, version: str, found: Mapping[str, str]) -> str:
    hashes = sorted({value for file, value in found.items() if _is_of(file, version) and fits(file)})
    if not hashes:
        raise SystemExit(f"lock: the index has no wheel of {name} {version}")
    return " \\\n    ".join([f"{name}=={version}", *(f"--hash=sha256:{value}" for value in hashes)])


def _is_of(filename: str, version: str) -> bool:
    try:
        return str(parse_wheel_filename(filename)[1]) == version
    except ValueError:  # names of long ago that are none
        return False


def main() -> None:
    pinned, index = pins(), index_url()
    entries = [entry(name, pinned[name], wheels(index, name)) for name in needed()]
    LOCK.write_text(HEAD + "\n".join(entries) + "\n")


if __name__ == "__main__":
    main()
