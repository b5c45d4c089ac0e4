"""`berth why`: why a pod is pending, why it is on its node, and what would help."""

import argparse
from typing import Final

from berth.cli.common import add_credentials, describe, run_later
from berth.policy.reading import is_object_name

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


def fill(command: argparse.ArgumentParser) -> None:
    text = "Say why a pod is pending, or why it is on its node, and what would help."
    describe(command, text, MORE, ok="answered", failed="there is no such pod, or it failed; standard error says why")
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
    command.set_defaults(command=run_later("why"))


def _name(text: str) -> str:
    name = text.removeprefix("pod/").removeprefix("pods/")
    if not is_object_name(name):
        raise argparse.ArgumentTypeError(f'"{text}" is not the name of a pod')
    return name
