"""The conformance vectors: cases with what the real kube-scheduler says of them."""

import gzip
import json
from collections.abc import Collection, Iterator
from functools import cache
from pathlib import Path
from typing import Any

VECTORS = Path(__file__).parent / "vectors" / "public.jsonl.gz"


@cache
def _all() -> tuple[dict[str, Any], ...]:
    with gzip.open(VECTORS, "rt", encoding="utf-8") as lines:
        return tuple(json.loads(line) for line in lines)


def theme(vector: dict[str, Any]) -> str:
    return str(vector["id"].split("-")[0])


def vectors(*themes: str) -> Iterator[dict[str, Any]]:
    """The vectors of these themes, or all of them."""
    return (vector for vector in _all() if not themes or theme(vector) in themes)


def some_of_each_theme(count: int, without: Collection[str] = ()) -> Iterator[dict[str, Any]]:
    """The first `count` vectors of every theme: small clusters of every flavour."""
    seen: dict[str, int] = {}
    for vector in _all():
        name = theme(vector)
        seen[name] = seen.get(name, 0) + 1
        if seen[name] <= count and name not in without:
            yield vector
