"""The custom resources of crds/, as objects to create in an API server."""

import copy
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

import yaml

FOLDER = Path(__file__).resolve().parents[2] / "crds"
POLICIES = "schedulingpolicies.berth.dev"
PEERINGS = "clusterkopfpeerings.kopf.dev"


def crd(name: str) -> dict[str, Any]:
    """The definition of this name, as a copy that the caller may change."""
    return copy.deepcopy(_read()[name])


def crds() -> list[dict[str, Any]]:
    """All of them."""
    return [crd(name) for name in _read()]


@cache
def _read() -> dict[str, dict[str, Any]]:
    """By name. Read once: a hundred tests and more define them, and reading them takes longer than many of these."""
    found: Sequence[dict[str, Any]] = [
        body for path in sorted(FOLDER.glob("*.yaml")) for body in yaml.safe_load_all(path.read_text()) if body
    ]
    return {body["metadata"]["name"]: body for body in found}
