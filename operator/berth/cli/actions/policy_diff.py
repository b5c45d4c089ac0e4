"""`berth policy diff`: lets two policies decide, and prints which decisions change."""

import argparse
import asyncio
import os
import sys
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import orjson

from berth.cli.common import (
    FAILED,
    NO,
    OK,
    UNREADABLE,
    USAGE,
    complain,
    credentials_source,
    silence_logs,
)
from berth.cluster.api import Api
from berth.cluster.credentials import Credentials
from berth.cluster.errors import ApiError, CredentialsError, Unreachable
from berth.comparing import Comparison, Skipped, Subject, compare
from berth.comparing.cases import case_subjects
from berth.comparing.cluster import cluster_subjects
from berth.comparing.policies import (
    NoPolicy,
    default_policy,
    has_policy,
    is_default,
    policy_in_cluster,
    policy_in_file,
)
from berth.comparing.report import as_json, as_text
from berth.comparing.sequence import compare_in_sequence
from berth.judge.cases import open_cases
from berth.policy import ActivePolicy, Policy
from berth.policy.documents import BadDocument, read_documents, unwrapped
from berth.policy.linting import LISTS
from berth.policy.wording import count
from berth.shipped import policy_files, policy_path
from berth.whatif.cluster_objects import ClusterObjects
from berth.whatif.errors import CannotSimulate
from berth.whatif.files import read_files
from berth.whatif.live import read_cluster
from berth.whatif.progress import Progress

Manifest = Mapping[str, Any]


def run(options: argparse.Namespace) -> int:
    """Prints the differences."""
    silence_logs()
    if not options.cluster and (options.kubeconfig or options.context):
        return complain("berth policy diff: --kubeconfig and --context go with --cluster", USAGE)
    if options.cases and options.all:
        return complain("berth policy diff: --all goes with --cluster or --snapshot", USAGE)
    try:
        comparison = _compare_cases(options) if options.cases else _compare_cluster(options)
    except (NoPolicy, CannotSimulate, *UNREADABLE, ApiError, Unreachable, CredentialsError) as error:
        return complain(f"berth policy diff: {error}", FAILED)
    _print(comparison, options)
    if options.cases and comparison.skipped:
        number = len(comparison.skipped)
        return complain(f"berth policy diff: {number} of the cases could not be decided", FAILED)
    return NO if comparison.differences else OK


def _print(comparison: Comparison, options: argparse.Namespace) -> None:
    if options.output == "json":
        body = as_json(comparison, options.a, options.b)
        print(orjson.dumps(body, option=orjson.OPT_INDENT_2).decode())
    else:
        colours = sys.stdout.isatty() and not os.environ.get("NO_COLOR")
        print(as_text(comparison, options.a, options.b, colours=colours), end="")


# --- cases and clusters


def _compare_cases(options: argparse.Namespace) -> Comparison:
    first, second = _policies(options, None)
    with open_cases(options.cases) as lines:
        return compare(_with_progress(case_subjects(lines)), first, second)


def _compare_cluster(options: argparse.Namespace) -> Comparison:
    progress = Progress()
    try:
        objects = read_files([options.snapshot], progress) if options.snapshot else None
        if objects is None:
            objects = asyncio.run(_read(options, progress))
        first, second = _policies(options, list(objects.policies.values()))
        subjects = cluster_subjects(objects, _asked(options, first, second), placed=options.all)
        return compare_in_sequence(
            subjects, objects, first, second, lambda done, total: progress(f"{done:,} of {total:,} pods")
        )
    finally:
        progress.end()


def _asked(options: argparse.Namespace, first: ActivePolicy, second: ActivePolicy) -> list[Policy]:
    """The policies that say which pods are in question; the default profile says it only where it is alone."""
    pairs = ((options.a, first.policy), (options.b, second.policy))
    return [policy for name, policy in pairs if not is_default(name)] or [first.policy]


async def _read(options: argparse.Namespace, progress: Progress) -> ClusterObjects:
    api = Api(Credentials(credentials_source(options)))
    try:
        await api.open()
        return await read_cluster(api, (), progress)
    finally:
        await api.close()


# --- policies


def _policies(options: argparse.Namespace, in_cluster: list[Manifest] | None) -> tuple[ActivePolicy, ActivePolicy]:
    """`in_cluster` None: no cluster is asked."""
    first, second = (_policy(text, in_cluster) for text in (options.a, options.b))
    for text, active in ((options.a, first), (options.b, second)):
        if active.policy.extenders:
            complain(f"berth policy diff: {text} has extenders: they are not asked")
    return first, second


def _policy(text: str, in_cluster: list[Manifest] | None) -> ActivePolicy:
    """Raises NoPolicy, which then names it."""
    try:
        if is_default(text):
            return default_policy()
        path, _, name = (text, "", "") if os.path.exists(text) else text.partition("#")
        is_name = not (os.path.exists(path) or _looks_like_a_path(path))
        if in_cluster is not None and is_name and (path not in policy_files() or has_policy(text, in_cluster)):
            return policy_in_cluster(text, in_cluster)
        return policy_in_file(_documents(path), name, in_cluster or ())
    except NoPolicy as error:
        raise NoPolicy(f"{text}: {error}") from None


def _looks_like_a_path(text: str) -> bool:
    return text == "-" or os.sep in text or Path(text).suffix in (".yaml", ".yml", ".json")


def _documents(path: str) -> list[object]:
    try:
        text = sys.stdin.read() if path == "-" else Path(policy_path(path)).read_text(encoding="utf-8")
        return [item for document in read_documents(text) for item in unwrapped(document, LISTS)]
    except (OSError, UnicodeDecodeError) as error:
        raise NoPolicy(f"cannot be read: {error}") from error
    except BadDocument as error:
        raise NoPolicy(str(error)) from error


# --- progress


def _with_progress(subjects: Iterable[Subject | Skipped]) -> Iterator[Subject | Skipped]:
    """The same; after a while, how many there were is shown on a terminal."""
    progress = Progress()
    for number, subject in enumerate(subjects):
        progress(count(number, "pod"))
        yield subject
    progress.end()
