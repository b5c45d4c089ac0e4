"""`berth decisions`: the latest placements, and those that follow."""

import argparse
from typing import Final

from berth.cli.common import add_credentials, describe, object_name, run_later

MORE: Final = """The replica that leads remembers the latest placements: 1000, or what `--remembered-decisions` says.
-o wide has the score of the node and of the runner-up. The oldest come first.

examples:
  %(prog)s -A                                        the latest placements
  %(prog)s -A -w                                     and those that follow, as they are made
  %(prog)s web-7d -n shop -o wide                    those of one pod, with scores
  %(prog)s -A -w -o json | jq -r .status.nodeName     one object a line

"""


def fill(decisions: argparse.ArgumentParser) -> None:
    text = "Show the latest placements: pod, node, policy, from how many nodes it was chosen, how long the pod waited."
    describe(decisions, text, MORE, ok="answered, also if there are none", interrupted="interrupted (-w)")
    decisions.add_argument("pod", metavar="POD", nargs="?", type=object_name, help="only those of this pod")
    place = decisions.add_mutually_exclusive_group()
    place.add_argument("-n", "--namespace", metavar="NS", type=object_name, help="(default: that of the context)")
    place.add_argument("-A", "--all-namespaces", action="store_true", help="of all namespaces")
    decisions.add_argument("-w", "--watch", action="store_true", help="go on with those that follow")
    decisions.add_argument(
        "-o",
        "--output",
        choices=("wide", "json", "yaml", "name"),
        help="format (default: a table); wide has the scores",
    )
    add_credentials(decisions)
    decisions.set_defaults(command=run_later("decisions"))
