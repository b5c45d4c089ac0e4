"""Where the answer of `berth why` comes from: the API of explanations, the cluster itself, or a snapshot."""

import argparse
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

from berth.cluster.api import Api
from berth.cluster.errors import ApiError
from berth.explain import Explainer, Explanation, NoComparison, NodeComparison, find_subject, finish
from berth.explain.objects import API_VERSION
from berth.explain.reading import from_object
from berth.snapshots.offline import OfflineCluster
from berth.snapshots.reading import read_snapshot

Key = tuple[str, str]
"""Namespace and name of a pod."""

IN_THIS_PROCESS: Final = "judged by this command with your own rights, not by the running scheduler"
NO_QUEUE: Final = "Judged by this command: the queue and recorded decisions are not known."
NOT_LEADING: Final = "answered by a replica that does not lead: it does not know the queue"
NOT_ANSWERING: Final[Mapping[int, str]] = {
    403: "you may not read explanations there",
    404: "its API of explanations is not installed",
    429: "its API of explanations has too many requests",
    503: "its API of explanations does not answer",
}
API_SECONDS: Final = 60.0  # verdicts on thousands of nodes are computed in the pauses of the scheduler


class NoAnswer(Exception):
    """The question has no answer; the message says why."""


class NotAnswering(Exception):
    """The running scheduler does not answer this user; the message says why."""


@dataclass(frozen=True, slots=True)
class Answer:
    """`note`: what the user should know of where it comes from. `body`: the object, if an API has given it."""

    said: Explanation | NodeComparison
    note: str = ""
    body: Mapping[str, Any] | None = None


def explanation_path(key: Key) -> str:
    """Returns where the API of explanations has the one of a pod."""
    return f"/apis/{API_VERSION}/namespaces/{key[0]}/explanations/{key[1]}"


async def from_api(api: Api, key: Key, options: argparse.Namespace) -> Answer:
    """Returns the answer of the running scheduler. Raises NotAnswering, or NoAnswer if there is no such pod or node."""
    nodes = "*" if options.output == "wide" else options.node
    query = {"node": nodes} if nodes else None
    try:
        _, body = await api.request("GET", explanation_path(key), query=query, timeout_seconds=API_SECONDS)
        said = from_object(body)
    except ApiError as error:
        if error.names_missing_object:
            raise _no_pod(key) from error
        if error.status in NOT_ANSWERING:
            raise NotAnswering(NOT_ANSWERING[error.status]) from error
        raise
    except (KeyError, TypeError, ValueError) as error:
        raise NoAnswer(f"the API of explanations gave an answer that this version cannot read: {error!r}") from error
    if options.node and said.policy is not None and not said.verdicts:
        raise NoAnswer(f"there is no node {options.node}")
    return Answer(said, "" if body["status"].get("leads", True) else NOT_LEADING, body)


async def from_cluster(api: Api, key: Key, options: argparse.Namespace, reason: str = "") -> Answer:
    """Returns the answer of the engine in this process, on the cluster as the user may read it.

    `reason`: why the running scheduler does not answer.
    """
    snapshot = await read_snapshot(api, tell, for_new_pods=False)
    answer = from_items(snapshot.items, key, options)
    return Answer(answer.said, f"{IN_THIS_PROCESS}: {reason}" if reason else IN_THIS_PROCESS)


def from_items(items: Iterable[Mapping[str, Any]], key: Key, options: argparse.Namespace) -> Answer:
    """Returns the answer of the engine in this process, on these objects. Raises NoAnswer."""
    cluster = OfflineCluster(items)
    subject = find_subject(cluster.cache, *key)
    if subject is None:
        raise _no_pod(key)
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


def _no_pod(key: Key) -> NoAnswer:
    return NoAnswer(f"there is no pod {'/'.join(key)}, or it is finished: check the name, and the namespace (-n)")


def _noted(said: Explanation) -> Explanation:
    return replace(said, notes=(*said.notes, NO_QUEUE))


def tell(text: str) -> None:
    """Shows what is read next, on a terminal: a large cluster takes seconds. "" clears the line."""
    if sys.stderr.isatty():
        print(f"\r\033[K{text}", end="", file=sys.stderr, flush=True)
