"""Cases from a file, a JSON object a line, and the cluster that one describes."""

import gzip
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from random import Random
from typing import Any

import orjson

from berth.judge.history import history
from berth.model import KIND, parse
from berth.scheduler.cache.cache import Cache

Json = dict[str, Any]


class CannotJudge(Exception):
    """The case is broken, or asks for what this version does not do."""


@contextmanager
def open_cases(path: str | None) -> Iterator[Iterable[str]]:
    """The lines of a file (.gz too), or of standard input."""
    if path is None or path == "-":
        yield sys.stdin
        return
    with gzip.open(path, "rt", encoding="utf-8") if path.endswith(".gz") else open(path, encoding="utf-8") as file:
        yield file


def read_cases(lines: Iterable[str]) -> Iterator[Json]:
    """Every case; a line that is none gives one with nothing but an `error`."""
    for number, line in enumerate(lines, 1):
        if line.strip():
            yield _read_case(number, line)


def cluster_of(case: Json, seed: int = 0) -> Cache:
    """The objects of the case, after a random past that ends with them; raises CannotJudge or InvalidObject."""
    cache = Cache()
    for kind, gone, body in history(_objects(case), Random(f"{seed}/{case.get('id')}")):
        (cache.remove if gone else cache.observe)(kind, body)
    for problem in cache.invalid.values():
        raise problem
    return cache


def _read_case(number: int, line: str) -> Json:
    try:
        case = orjson.loads(line)
    except ValueError as error:
        return {"error": f"line {number} is not JSON: {error}"}
    return case if isinstance(case, dict) else {"error": f"line {number} is not a case: a case is a JSON object"}


def _objects(case: Json) -> list[Json]:
    """The case's objects, each of a known kind and readable."""
    objects = case.get("objects") or []
    if not isinstance(objects, list):
        raise CannotJudge("objects: must be a list")
    for index, body in enumerate(objects):
        kind = str(body.get("kind")) if isinstance(body, dict) else None
        if kind is None or kind not in KIND:
            raise CannotJudge(f"objects[{index}].kind: {kind!r} is not one of {', '.join(sorted(KIND))}")
        parse(kind, body)
    return objects
