"""Prints a software bill of materials (CycloneDX 1.6, JSON) of Berth and of what it needs. `make sbom`.

    python sbom.py [FILE]

It lists Berth, every package that it needs at run time and is installed beside the Python that runs this, what needs
what, and that Python. Packages of the base image's system are not in it: scanners of images find those. The same
packages give the same text: no time and no serial number are in it.

Made from the packages' own metadata with the standard library alone: the tools that do the same bring dozens of
packages, each of which would have to be locked and trusted in the build of the image.
"""

import json
import platform
import re
import sys
from importlib.metadata import Distribution, distributions
from pathlib import Path

ROOT = "berth-scheduler"


def canonical(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def needs(found: Distribution, installed: dict[str, Distribution]) -> list[str]:
    """What it needs, of what is installed; what belongs to an extra is left out."""
    names = set()
    for text in found.requires or ():
        requirement, _, marker = text.partition(";")
        match = re.match(r"[A-Za-z0-9._-]+", requirement.strip())
        if match is not None and "extra" not in marker:
            names.add(canonical(match[0]))
    return sorted(names & installed.keys())


def closure(installed: dict[str, Distribution]) -> list[str]:
    waiting, seen = [ROOT], set()
    while waiting:
        name = waiting.pop()
        if name not in seen:
            seen.add(name)
            waiting += needs(installed[name], installed)
    return sorted(seen)


def reference(found: Distribution) -> str:
    return f"pkg:pypi/{canonical(found.name)}@{found.version}"


def licenses(found: Distribution) -> list[dict[str, object]]:
    for expression in found.metadata.get_all("License-Expression") or ():
        return [{"expression": expression}]
    prefix = "License :: "
    named = [text.rpartition(" :: ")[2] for text in found.metadata.get_all("Classifier") or () if prefix in text]
    if not named:
        named = [text for text in found.metadata.get_all("License") or () if text and "\n" not in text]
    return [{"license": {"name": name}} for name in named if name != "OSI Approved"]


def component(found: Distribution) -> dict[str, object]:
    entry: dict[str, object] = {
        "type": "application" if canonical(found.name) == ROOT else "library",
        "bom-ref": reference(found),
        "name": canonical(found.name),
        "version": found.version,
        "purl": reference(found),
    }
    return entry | ({"licenses": licenses(found)} if licenses(found) else {})


def bill() -> dict[str, object]:
    installed = {canonical(found.name): found for found in distributions()}
    if ROOT not in installed:
        raise SystemExit(f"sbom: {ROOT} is not installed here")
    names = closure(installed)
    python = {
        "type": "platform",
        "bom-ref": f"python@{platform.python_version()}",
        "name": "python",
        "version": platform.python_version(),
        "cpe": f"cpe:2.3:a:python:python:{platform.python_version()}:*:*:*:*:*:*:*",
    }
    return {
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "version": 1,
        "metadata": {"component": component(installed[ROOT])},
        "components": [*(component(installed[name]) for name in names if name != ROOT), python],
        "dependencies": [
            {
                "ref": reference(installed[name]),
                "dependsOn": [reference(installed[other]) for other in needs(installed[name], installed)],
            }
            for name in names
        ],
    }


def main(words: list[str]) -> None:
    text = json.dumps(bill(), indent=2, sort_keys=True) + "\n"
    if words:
        Path(words[0]).write_text(text)
    else:
        sys.stdout.write(text)


if __name__ == "__main__":
    main(sys.argv[1:])
