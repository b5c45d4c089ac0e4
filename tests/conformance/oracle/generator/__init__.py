"""Random clusters for the oracle, by theme.

A theme is a family of cases that leans on some plugins; `mix` draws from most of them at once. A case is a function of
theme, seed, number and size: the same ones always give the same case, so the order of draws in here is part of what
the packed vectors stand on. Whoever changes it makes them anew.
"""

from collections.abc import Iterator
from random import Random

from .case import Body, Case
from .devices import dra
from .legacy import legacy
from .themes import THEMES

LEGACY = "legacy"
DEVICES = "dra"
NOMINATED = 0.3


def current_cases(seed: str, count: int, size: int) -> Iterator[Body]:
    """`count` cases of each theme that today's kube-scheduler can answer, of `size` nodes at most."""
    return (_made(theme, seed, number, size) for theme in THEMES for number in range(count))


def nominated_cases(seed: str, count: int, size: int) -> Iterator[Body]:
    """The same, but that some of the placed pods are still on their way: pending, and nominated to their node."""
    for body in current_cases(seed, count, size):
        random = Random(f"nominated/{body['id']}")
        for pod in body["objects"]:
            if pod["kind"] == "Pod" and "nodeName" in pod["spec"] and random.random() < NOMINATED:
                pod.setdefault("status", {})["nominatedNodeName"] = pod["spec"].pop("nodeName")
        yield body


def legacy_cases(seed: str, count: int, size: int) -> Iterator[Body]:
    """`count` cases of what only old kube-schedulers had."""
    return (_made(LEGACY, seed, number, size) for number in range(count))


def device_cases(seed: str, count: int, size: int) -> Iterator[Body]:
    """`count` cases of pods that claim devices: today's kube-scheduler answers them, Berth's plugin not yet."""
    return (_made(DEVICES, seed, number, size) for number in range(count))


def _made(theme: str, seed: str, number: int, size: int) -> Body:
    case = Case(theme, seed, number, size)
    apart = {LEGACY: legacy, DEVICES: dra}
    pod = (apart.get(theme) or THEMES[theme])(case)
    return {"id": case.id, "config": case.config(), "objects": case.objects, "pod": pod}
