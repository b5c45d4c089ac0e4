"""Where the answer of `berth why` comes from: the engine in this process, on a cluster or on a snapshot."""

import argparse
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

from berth.cluster.api import Api
from berth.explain import Explainer, Explanation, NoComparison, NodeComparison, find_subject, finish
from berth.snapshots.offline import OfflineCluster
from berth.snapshots.reading import read_snapshot

Key = tuple[str, str]
"""Namespace and name of a pod."""

IN_THIS_PROCESS: Final = "judged by this command with your own rights, not by the running scheduler"
NO_QUEUE: Final = "Judged by this command: the queue and recorded decisions are not known."


class NoAnswer(Exception):
    """The question has no answer; the message says why."""


@dataclass(frozen=True, slots=True)
class Answer:
    """`note`: what the user should know of where it comes from."""

    said: Explanation | NodeComparison
    note: str = ""


async def from_cluster(api: Api, key: Key, options: argparse.Namespace) -> Answer:
    """Returns the answer of the engine in this process, on the cluster as the user may read it."""
    snapshot = await read_snapshot(api, tell, for_new_pods=False)
    answer = from_items(snapshot.items, key, options)
    return Answer(answer.said, IN_THIS_PROCESS)


def from_items(items: Iterable[Mapping[str, Any]], key: Key, options: argparse.Namespace) -> Answer:
    """Returns the answer of the engine in this process, on these objects. Raises NoAnswer."""
    cluster = OfflineCluster(items)
    subject = find_subject(cluster.cache, *key)
    if subject is None:
        raise NoAnswer(f"there is no pod {'/'.join(key)}, or it is finished: check the name, and the namespace (-n)")
    table = cluster.cache.state.table
    if options.node and table.row(options.node) is None:
        raise NoAnswer(f"there is no node {options.node}")
    explainer = Explainer(cluster.cache.state, cluster.policies)
    if options.compare:
        try:
            return Answer(finish(explainer.compare(subject, *options.compare)))
        except NoComparison as error:
            raise NoAnswer(str(error)) from error
    verdicts_of = [options.node] if options.node else []
    said = finish(explainer.explain(subject, verdicts_of=verdicts_of, every_node=options.output == "wide"))
    return Answer(_noted(said))


def _noted(said: Explanation) -> Explanation:
    return replace(said, notes=(*said.notes, NO_QUEUE))


def tell(text: str) -> None:
    """Shows what is read next, on a terminal: a large cluster takes seconds. "" clears the line."""
    if sys.stderr.isatty():
        print(f"\r\033[K{text}", end="", file=sys.stderr, flush=True)
