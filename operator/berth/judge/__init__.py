"""`berth judge`: what Berth says of cases, in the format of the conformance oracle.

A case is a cluster, a configuration and a pod, one JSON object on a line; the answer is what every plugin says of every
node, what the whole pipeline makes of it, and why (tests/conformance/README.md has the format). It goes the way of the
operator: the configuration through the import, the objects as events into the cache (`history`), so that what answers
is the incremental state.

Pods that are nominated to a node count as present for others, in kube-scheduler as in Berth; in the packed vectors they
do not, because of how those were made. So they count here on request only.

A case that needs something which this version cannot judge is answered with `error`, and so is one that is broken.
"""

import gzip
import sys
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import lru_cache
from random import Random
from typing import Any, TextIO

import orjson

from berth.engine.pipeline import Pipeline
from berth.judge.history import history
from berth.judge.summary import Summary
from berth.judge.verdicts import CannotJudge, verdict_on
from berth.model import KIND, InvalidObject, parse, parse_pod
from berth.policy import PolicyError, import_configuration, load_policy
from berth.scheduler.cache import Cache

Json = dict[str, Any]

_KEPT_PIPELINES = 256

__all__ = ["CannotJudge", "judge", "judge_lines", "run_judge"]


def run_judge(
    path: str | None, out: TextIO, seed: int = 0, *, nominated: bool = False, summarise: TextIO | None = None
) -> int:
    """Judges the cases of a file (.gz too), or of standard input, to `out`; 0 if every case got a verdict, else 1.

    With `summarise` a summary goes there, and a case whose verdict is not the one that it expects makes it 1 too.
    """
    summary = Summary()
    with _lines(path) as lines:
        for case, verdict in _judged(lines, seed, nominated):
            out.write(orjson.dumps(verdict).decode() + "\n")
            summary.add(case, verdict, compared=summarise is not None)
    if summarise is not None:
        summarise.write(summary.text())
    elif summary.errors:
        text = f'berth judge: {summary.errors} of {summary.cases} cases got no verdict; see their "error"'
        print(text, file=sys.stderr)
    return 1 if summary.errors or summary.differing else 0


@contextmanager
def _lines(path: str | None) -> Iterator[Iterable[str]]:
    if path is None or path == "-":
        yield sys.stdin
        return
    with gzip.open(path, "rt", encoding="utf-8") if path.endswith(".gz") else open(path, encoding="utf-8") as file:
        yield file


def judge_lines(lines: Iterable[str], seed: int = 0, *, nominated: bool = False) -> Iterator[Json]:
    return (verdict for _, verdict in _judged(lines, seed, nominated))


def _judged(lines: Iterable[str], seed: int, nominated: bool) -> Iterator[tuple[Json, Json]]:
    """Each case with its verdict."""
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        case = _case(number, line)
        try:
            yield case, case if "error" in case else judge(case, seed, nominated=nominated)
        except (CannotJudge, InvalidObject, PolicyError) as error:
            yield case, {"id": case.get("id"), "error": str(error)}
        except Exception as error:  # a fault of ours in one case must not cost the verdicts on the others
            yield case, {"id": case.get("id"), "error": f"Berth failed: {error!r}"}


def _case(number: int, line: str) -> Json:
    try:
        case = orjson.loads(line)
    except ValueError as error:
        return {"error": f"line {number} is not JSON: {error}"}
    return case if isinstance(case, dict) else {"error": f"line {number} is not a case: a case is a JSON object"}


def judge(case: Json, seed: int = 0, *, nominated: bool = False) -> Json:
    """The verdict on one case; `nominated`: with pods that wait for a node to be made free counted as if on it."""
    config = case.get("config")
    pipeline = _pipeline(orjson.dumps(config if isinstance(config, Mapping) else {}, option=orjson.OPT_SORT_KEYS))
    cache = Cache()
    pod = parse_pod(case.get("pod") or {})
    for kind, gone, body in history(_objects(case), Random(f"{seed}/{case.get('id')}")):
        (cache.remove if gone else cache.observe)(kind, body)
    for problem in cache.invalid.values():
        raise problem
    if not nominated:
        for uid in cache.pending:
            cache.state.withdraw(uid)
    # The schedulers that read a Policy are asked for what they say of nodes, not for what they preempt.
    preempts = not (isinstance(config, Mapping) and config.get("kind") == "Policy")
    return {"id": case.get("id"), **verdict_on(pod, pipeline, cache.state, preempts=preempts)}


@lru_cache(maxsize=_KEPT_PIPELINES)
def _pipeline(config: bytes) -> Pipeline:
    imported = import_configuration(orjson.loads(config))
    if imported.errors:
        raise CannotJudge("; ".join(map(str, imported.errors)))
    return load_policy(imported.manifests[0]).pipeline


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
