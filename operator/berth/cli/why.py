"""`berth why`: why a pod is pending, why it is on its node, and what would help."""

import argparse
import asyncio
import os
import sys
from typing import Any, Final

import orjson
import yaml

from berth.cli.common import FAILED, OK, USAGE, add_credentials, complain, credentials_source, describe, silence_logs
from berth.cli.explaining import Answer, NoAnswer, NotAnswering, from_api, from_cluster, from_items
from berth.cluster.api import Api
from berth.cluster.credentials import Credentials, context_namespace
from berth.cluster.errors import ApiError, CredentialsError, Unreachable
from berth.explain import comparison_object, comparison_sentences, sentences, to_object
from berth.explain.colours import coloured
from berth.explain.objects import API_VERSION
from berth.explain.records import Explanation, NodeComparison
from berth.policy.reading import is_object_name
from berth.snapshots.files import BadSnapshot, read_file
from berth.snapshots.reading import MayNotRead

EXIT_CODES: Final = "exit codes:\n  0  answered\n  1  there is no such pod, or it failed\n  2  usage error\n"
MORE: Final = """The running scheduler answers, if its API of explanations is installed and you may use it. Otherwise
this command reads the cluster with your own rights and judges by the same engine, without the queue, and says so.
Nothing is written. With --snapshot no cluster is asked.

examples:
  %(prog)s web-7d -n shop                           why is it pending, what would help
  %(prog)s web-7d -n shop --node zone-c-036          what every plugin says of this node
  %(prog)s web-7d -n shop --compare n1 n2            why one node and not the other
  %(prog)s web-7d -n shop -o yaml                    all of it, as an object
  berth snapshot -o cluster.json && %(prog)s web-7d -n shop --snapshot cluster.json

"""
NAME: Final = f"explanation.{API_VERSION.partition('/')[0]}"


def fill(command: argparse.ArgumentParser) -> None:
    describe(command, "Say why a pod is pending, or why it is on its node, and what would help.", MORE, EXIT_CODES)
    command.add_argument("pod", metavar="POD", type=_name, help="the name of a pod; pod/NAME will do as well")
    command.add_argument("-n", "--namespace", metavar="NS", help="its namespace (default: that of the context)")
    question = command.add_mutually_exclusive_group()
    question.add_argument("--node", metavar="N", help="also what every plugin says of this node")
    question.add_argument("--compare", nargs=2, metavar=("N1", "N2"), help="compare two nodes, plugin by plugin")
    command.add_argument(
        "-o",
        "--output",
        choices=("wide", "json", "yaml", "name"),
        help="format (default: text); wide has every plugin's verdict on every node",
    )
    command.add_argument(
        "--snapshot", metavar="FILE", help='ask a snapshot instead of a cluster; "-" is standard input'
    )
    add_credentials(command)
    command.set_defaults(command=_why)


def _name(text: str) -> str:
    name = text.removeprefix("pod/").removeprefix("pods/")
    if not is_object_name(name):
        raise argparse.ArgumentTypeError(f'"{text}" is not the name of a pod')
    return name


def _why(options: argparse.Namespace) -> int:
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
