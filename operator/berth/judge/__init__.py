"""`berth judge`: what Berth says of cases, in the format of the conformance oracle.

A case is a cluster, a configuration and a pod, one JSON object on a line; the answer is what every plugin says of every
node, what the whole pipeline makes of it, and why (tests/conformance/README.md has the format). It goes the way of the
operator: the configuration through the import, the objects as events into the cache (`cases`, `history`), so that what
answers is the incremental state.

Pods that are nominated to a node count as present for others, in kube-scheduler as in Berth; in the packed vectors they
do not, because of how those were made. So they count here on request only.

A case that needs something which this version cannot judge is answered with `error`, and so is one that is broken.
"""

import sys
from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache
from typing import Any, TextIO

import orjson

from berth.judge.cases import CannotJudge, cluster_of, open_cases, read_cases
from berth.judge.summary import Summary
from berth.judge.verdicts import verdict_on
from berth.model import InvalidObject, parse_pod
from berth.policy import ActivePolicy, PolicyError, import_configuration, load_policy

Json = dict[str, Any]

_KEPT_POLICIES = 256

__all__ = ["CannotJudge", "judge", "judge_lines", "run_judge"]


def run_judge(
    path: str | None, out: TextIO, seed: int = 0, *, nominated: bool = False, summarise: TextIO | None = None
) -> int:
    """Judges the cases of a file (.gz too), or of standard input, to `out`; 0 if every case got a verdict, else 1.

    With `summarise` a summary goes there, and a case whose verdict is not the one that it expects makes it 1 too.
    """
    summary = Summary()
    with open_cases(path) as lines:
        for case, verdict in _judged(lines, seed, nominated):
            out.write(orjson.dumps(verdict).decode() + "\n")
            summary.add(case, verdict, compared=summarise is not None)
    if summarise is not None:
        summarise.write(summary.text())
    elif summary.errors:
        text = f'berth judge: {summary.errors} of {summary.cases} cases got no verdict; see their "error"'
        print(text, file=sys.stderr)
    return 1 if summary.errors or summary.differing else 0


def judge_lines(lines: Iterable[str], seed: int = 0, *, nominated: bool = False) -> Iterator[Json]:
    return (verdict for _, verdict in _judged(lines, seed, nominated))


def _judged(lines: Iterable[str], seed: int, nominated: bool) -> Iterator[tuple[Json, Json]]:
    """Each case with its verdict."""
    for case in read_cases(lines):
        try:
            yield case, case if "error" in case else judge(case, seed, nominated=nominated)
        except (CannotJudge, InvalidObject, PolicyError) as error:
            yield case, {"id": case.get("id"), "error": str(error)}
        except Exception as error:  # a fault of ours in one case must not cost the verdicts on the others
            yield case, {"id": case.get("id"), "error": f"Berth failed: {error!r}"}


def judge(case: Json, seed: int = 0, *, nominated: bool = False) -> Json:
    """The verdict on one case; `nominated`: with pods that wait for a node to be made free counted as if on it."""
    config = case.get("config")
    active = policy_of_configuration(
        orjson.dumps(config if isinstance(config, Mapping) else {}, option=orjson.OPT_SORT_KEYS)
    )
    pod = parse_pod(case.get("pod") or {})
    cache = cluster_of(case, seed)
    if not nominated:
        for uid in cache.pending:
            cache.state.withdraw(uid)
    # The schedulers that read a Policy are asked for what they say of nodes, not for what they preempt.
    is_old = isinstance(config, Mapping) and config.get("kind") == "Policy"
    preemption = None if is_old else active.preemption
    return {"id": case.get("id"), **verdict_on(pod, active.pipeline, cache.state, preemption)}


@lru_cache(maxsize=_KEPT_POLICIES)
def policy_of_configuration(config: bytes) -> ActivePolicy:
    """The policy that a KubeSchedulerConfiguration or a Policy, given as JSON, stands for; raises CannotJudge."""
    imported = import_configuration(orjson.loads(config))
    if imported.errors:
        raise CannotJudge("; ".join(map(str, imported.errors)))
    active = load_policy(imported.manifests[0])
    if active.policy.extenders:
        raise CannotJudge("config.extenders: extenders are not asked here, and decide with the rest")
    return active
