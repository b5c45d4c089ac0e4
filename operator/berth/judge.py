"""`berth judge`: what Berth says of cases, in the format of the conformance oracle.

A case is a cluster, a configuration and a pod, one JSON object on a line; the answer is what every plugin says of every
node, what the whole pipeline makes of it, and why (tests/conformance/README.md has the format). It goes the way of the
operator: the configuration through the import, the objects as events into the cache, in a random order and some of them
removed and added again or in an older form first, so that what answers is the incremental state.

A case that needs something which this version cannot judge is answered with `error`, and so is one that is broken.
"""

import copy
import gzip
import json
import sys
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from random import Random
from typing import Any, TextIO

from berth.engine.pipeline import Opinion, Pipeline, Ranking, row_numbers
from berth.engine.plugin import Plugin, Query
from berth.engine.plugins.unsupported import Unsupported
from berth.engine.state import State
from berth.engine.verdict import Code
from berth.model import KIND, InvalidObject, Pod, parse, parse_pod
from berth.policy import PolicyError, import_configuration, load_policy
from berth.scheduler.cache import Cache

Json = dict[str, Any]


class CannotJudge(Exception):
    """The case is broken, or asks for what this version does not do."""


def run_judge(path: str | None, out: TextIO, seed: int = 0) -> int:
    """Judges the cases of a file (.gz too), or of standard input, to `out`; 0 if every case got a verdict, else 1."""
    failed = judged = 0
    with _lines(path) as lines:
        for verdict in judge_lines(lines, seed):
            out.write(json.dumps(verdict, separators=(",", ":")) + "\n")
            judged += 1
            failed += "error" in verdict
    if failed:
        print(f'berth judge: {failed} of {judged} cases got no verdict; see their "error"', file=sys.stderr)
    return 1 if failed else 0


@contextmanager
def _lines(path: str | None) -> Iterator[Iterable[str]]:
    if path is None or path == "-":
        yield sys.stdin
        return
    with gzip.open(path, "rt", encoding="utf-8") if path.endswith(".gz") else open(path, encoding="utf-8") as file:
        yield file


def judge_lines(lines: Iterable[str], seed: int = 0) -> Iterator[Json]:
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            case = json.loads(line)
        except ValueError as error:
            case = {"error": f"line {number} is not JSON: {error}"}
        if not isinstance(case, dict):
            case = {"error": f"line {number} is not a case: a case is a JSON object"}
        try:
            yield case if "error" in case else judge(case, seed)
        except (CannotJudge, InvalidObject, PolicyError) as error:
            yield {"id": case.get("id"), "error": str(error)}


def judge(case: Json, seed: int = 0) -> Json:
    """The verdict on one case."""
    pipeline = _pipeline(case.get("config"))
    cache = Cache()
    pod = parse_pod(case.get("pod") or {})
    for kind, gone, body in history(_objects(case), Random(f"{seed}/{case.get('id')}")):
        (cache.remove if gone else cache.observe)(kind, body)
    for problem in cache.invalid.values():
        raise problem
    for other in cache.pending.values():
        if other.nominated_node_name:
            raise CannotJudge(f"pod {other.namespace}/{other.name} is nominated to a node, which is not counted yet")
    return {"id": case.get("id"), **_verdict(pipeline, pod, cache.state)}


def _pipeline(config: Any) -> Pipeline:
    imported = import_configuration(config if isinstance(config, Mapping) else {})
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


# --- the objects as a cluster would tell of them


def history(objects: Iterable[Json], random: Random) -> Iterator[tuple[str, bool, Json]]:
    """(kind, gone, body) in a random order that ends with exactly the given objects.

    Of four objects one was there before, under another UID and in another form, and was deleted; one has an older
    version that is updated; one is removed and comes back as it was. Versions are numbered so that no update looks like
    old news.
    """
    tracks = [list(_track(body, random)) for body in objects]
    turns = [index for index, track in enumerate(tracks) for _ in track]
    random.shuffle(turns)
    for version, index in enumerate(turns, 1):
        gone, body = tracks[index].pop(0)
        yield body["kind"], gone, {**body, "metadata": {**body["metadata"], "resourceVersion": str(version)}}


def _track(body: Json, random: Random) -> Iterator[tuple[bool, Json]]:
    choice = random.randrange(4)
    if choice == 0:
        before = _otherwise(body, random)
        before["metadata"]["uid"] = body["metadata"]["uid"] + "-before"
        yield False, before
        yield True, before
    elif choice == 1:
        yield False, _otherwise(body, random)
    elif choice == 2:
        yield False, body
        yield True, body
    yield False, body


def _otherwise(body: Json, random: Random) -> Json:
    """The same object in an older form: other labels, no taints, no images, other requests."""
    older = copy.deepcopy(body)
    older["metadata"]["labels"] = {"before": "yes", "disk": random.choice(["ssd", "hdd"])}
    if body["kind"] == "Node":
        older["spec"] = {"taints": [{"key": "before", "effect": "NoSchedule"}]}
        older["status"] = {"allocatable": {"cpu": "1", "memory": "1Gi", "pods": "1", "example.com/old": "1"}}
    if body["kind"] == "Pod":
        older.pop("status", None)
        for container in older["spec"]["containers"]:
            container["resources"] = {"requests": {"cpu": "3", "example.com/old": "1"}}
    return older


# --- the verdict


def _verdict(pipeline: Pipeline, pod: Pod, state: State) -> Json:
    query = Query(pod, state.table)
    opinions = [_alone(plugin, query, state) for plugin in pipeline.filters]
    for opinion in opinions:
        _require_judged(opinion, pod, state)
    names = [state.table.name(int(row)) for row in row_numbers(state.table.rows)]
    verdict: Json = {
        "preFilter": {o.plugin.name: _pre_filter(o) for o in opinions if _is_telling(o)},
        "filter": {o.plugin.name: refused for o in opinions if (refused := _refusals(o, names))},
    }
    survey = pipeline.survey(query, state)
    feasible = row_numbers(survey.rows)[survey.fits]
    verdict["feasible"] = sorted(state.table.name(int(row)) for row in feasible)
    if len(feasible):
        return verdict | _scores(pipeline, query, state, pipeline.rank(query, state, feasible))
    if any(other.priority < pod.priority for node in state.table.nodes() for other in _pods(state, node.name)):
        raise CannotJudge("no node is feasible and pods of lower priority are there: preemption is not judged yet")
    return verdict | {"preemption": {"candidates": {}, "selected": []}}


def _pods(state: State, node: str) -> Iterable[Pod]:
    return state.table.pods_on(node).values()


def _alone(plugin: Plugin, query: Query, state: State) -> Opinion:
    """The plugin asked by itself, on every node."""
    answer = plugin.pre_filter(query, state)
    asked = not answer.skip and answer.code is Code.FITS and len(state.table)
    return Opinion(plugin, answer, plugin.filter(query, state, state.table.rows) if asked else None)


def _require_judged(opinion: Opinion, pod: Pod, state: State) -> None:
    if opinion.pre_filter.unsupported:
        raise CannotJudge("; ".join(opinion.pre_filter.reasons))
    if isinstance(opinion.plugin, Unsupported) and opinion.plugin.reads_claims and not _has_its_claims(pod, state):
        raise CannotJudge(f"what {opinion.plugin.name} says of a claim that is not Bound is not judged yet")


def _has_its_claims(pod: Pod, state: State) -> bool:
    claims = [state.claim(pod.namespace, volume.claim) for volume in pod.volumes if volume.claim]
    return all(claim is not None and claim.phase == "Bound" for claim in claims)


def _is_telling(opinion: Opinion) -> bool:
    return opinion.pre_filter.code is not Code.FITS or opinion.pre_filter.nodes is not None


def _pre_filter(opinion: Opinion) -> Json:
    answer = opinion.pre_filter
    said: Json = {"code": answer.code.kubernetes_name, "reasons": list(answer.reasons)}
    return said | ({"nodes": sorted(answer.nodes)} if answer.nodes is not None else {})


def _refusals(opinion: Opinion, names: list[str]) -> Json:
    if opinion.verdicts is None:
        return {}
    return {
        names[position]: {
            "code": Code(int(code)).kubernetes_name,
            "reasons": list(opinion.verdicts.reasons(position)),
        }
        for position, code in enumerate(opinion.verdicts.codes)
        if code != Code.FITS
    }


def _scores(pipeline: Pipeline, query: Query, state: State, ranking: Ranking) -> Json:
    names = [state.table.name(int(row)) for row in ranking.rows]
    scores: Json = {}
    for (plugin, _), column in zip(pipeline.scores, ranking.scores, strict=True):
        if isinstance(plugin, Unsupported) and (missed := plugin.unscored(query.pod, state)):
            raise CannotJudge(f"{missed} is not scored yet (plugin {plugin.name})")
        if column is not None:
            scores[plugin.name] = dict(zip(names, column.tolist(), strict=True))
    return {
        "score": scores,
        "weight": {plugin.name: weight for plugin, weight in pipeline.scores},
        "total": dict(zip(names, ranking.totals.tolist(), strict=True)),
        "best": [state.table.name(int(row)) for row in pipeline.best(ranking, state.table)],
    }
