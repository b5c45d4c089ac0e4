"""`berth snapshot`: everything that decisions read of a cluster, in one file."""

import argparse
from typing import Final

from berth.cli.common import add_credentials, describe, run_later

MORE: Final = """The file is a List of objects, as kubectl prints one: nodes, pods, volumes, claims, budgets, policies
and what else decisions read, with nothing but the fields that they read. There are no environments, commands, addresses
or annotations of pods in it. A name that ends in .yaml gives YAML, in .gz a packed file.

--anonymise replaces all names, labels, taints and images; decisions stay the same. What policies name stays.

examples:
  %(prog)s -o cluster.json.gz
  %(prog)s --anonymise -o for-a-bug-report.json.gz
  berth why web-7d -n shop --snapshot cluster.json.gz

"""


def fill(command: argparse.ArgumentParser) -> None:
    describe(command, "Write everything that decisions read of a cluster into one file.", MORE)
    command.add_argument(
        "-o", "--output", metavar="FILE", default="-", help='where to; "-" is standard output (default: %(default)s)'
    )
    command.add_argument("--anonymise", action="store_true", help="replace names, labels and images")
    add_credentials(command)
    command.set_defaults(command=run_later("snapshot"))
