"""`berth why`: asks the scheduler, a cluster or a snapshot about a pod, and prints the answer."""

import argparse
import asyncio
import os
import sys
from typing import Any, Final

import orjson
import yaml

from berth.cli.actions.explaining import Answer, NoAnswer, NotAnswering, from_api, from_cluster, from_items
from berth.cli.common import FAILED, OK, USAGE, complain, credentials_source, silence_logs
from berth.cluster.api import Api
from berth.cluster.credentials import Credentials, context_namespace
from berth.cluster.errors import ApiError, CredentialsError, Unreachable
from berth.explain import comparison_object, comparison_sentences, sentences, to_object
from berth.explain.colours import coloured
from berth.explain.objects import API_VERSION
from berth.explain.records import Explanation, NodeComparison
from berth.snapshots.files import BadSnapshot, read_file
from berth.snapshots.reading import MayNotRead

NAME: Final = f"explanation.{API_VERSION.partition('/')[0]}"


def run(options: argparse.Namespace) -> int:
    """Prints the answer."""
    silence_logs()
    if options.snapshot and (options.kubeconfig or options.context):
        return complain("berth why: --kubeconfig and --context do not go with --snapshot", USAGE)
    try:
        answer = _ask_file(options) if options.snapshot else asyncio.run(_ask_cluster(options))
    except (NoAnswer, BadSnapshot, MayNotRead, ApiError, Unreachable, CredentialsError) as error:
        return complain(f"berth why: {error}", FAILED)
    _print(answer, options.output)
    return OK


def _ask_file(options: argparse.Namespace) -> Answer:
    return from_items(read_file(options.snapshot), _key(options, "default"), options)


async def _ask_cluster(options: argparse.Namespace) -> Answer:
    source = credentials_source(options)
    key = _key(options, context_namespace(source))
    api = Api(Credentials(source))
    try:
        await api.open()
        if options.compare:
            return await from_cluster(api, key, options)
        try:
            return await from_api(api, key, options)
        except NotAnswering as problem:
            return await from_cluster(api, key, options, str(problem))
    finally:
        await api.close()


def _key(options: argparse.Namespace, namespace: str) -> tuple[str, str]:
    return options.namespace or namespace, options.pod


def _print(answer: Answer, output: str | None) -> None:
    if answer.note:
        complain(answer.note)
    if output in ("json", "yaml"):
        _print_object(answer, output)
    elif output == "name":
        print(f"{NAME}/{answer.said.name}")
    else:
        _print_lines(answer)


def _print_object(answer: Answer, output: str) -> None:
    body = answer.body or _object(answer.said)
    if output == "json":
        print(orjson.dumps(body, option=orjson.OPT_INDENT_2).decode())
    else:
        print(yaml.safe_dump(body, sort_keys=False, allow_unicode=True, width=120), end="")


def _object(said: Explanation | NodeComparison) -> dict[str, Any]:
    return comparison_object(said) if isinstance(said, NodeComparison) else to_object(said)


def _print_lines(answer: Answer) -> None:
    colours = sys.stdout.isatty() and not os.environ.get("NO_COLOR")
    if isinstance(answer.said, NodeComparison):
        lines = comparison_sentences(answer.said)
    else:
        lines = sentences(answer.said)
        lines = coloured(lines, answer.said.state) if colours else lines
    print("\n".join(lines))
