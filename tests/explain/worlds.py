"""Random clusters with a pod that fits nowhere, from the generator of the conformance vectors."""

from collections.abc import Iterator
from dataclasses import dataclass
from random import Random
from typing import Any

import orjson

from berth.explain.judgement import Judgement
from berth.judge import policy_of_configuration
from berth.judge.cases import cluster_of
from berth.model import Pod, parse_pod
from berth.policy import ActivePolicy
from berth.scheduler.cache.cache import Cache
from conformance.oracle.generator import current_cases

SIZE, EACH = 10, 40


@dataclass(frozen=True)
class Case:
    id: str
    body: dict[str, Any]
    pod: Pod
    active: ActivePolicy

    def cluster(self) -> Cache:
        """A new cache with the objects of the case."""
        return cluster_of(self.body)


def cases(seed: str, each: int) -> Iterator[Case]:
    """Yields so many cases of each theme, mixed."""
    for body in Random(seed).sample(found := list(current_cases(seed, each, SIZE)), len(found)):
        config = orjson.dumps(body.get("config") or {}, option=orjson.OPT_SORT_KEYS)
        yield Case(body["id"], body, parse_pod(body["pod"]), policy_of_configuration(config))


def infeasible(seed: str, wanted: int) -> Iterator[Case]:
    """Yields so many cases whose pod fits nowhere; about one in five does."""
    found, batch = 0, 0
    while found < wanted:
        for case in cases(f"{seed}-{batch}", EACH):
            judgement = Judgement(case.pod, case.active.pipeline, case.cluster().state)
            if judgement.survey is None or judgement.fits or judgement.diagnosis.error:
                continue
            yield case
            found += 1
            if found == wanted:
                return
        batch += 1
