"""`berth crds`: the kinds that Berth needs in a cluster."""

import argparse

from berth.cli.common import OK, describe
from berth.shipped import crd_files

EXAMPLES = """They are SchedulingPolicy, and ClusterKopfPeering, in which replicas keep their records. The Helm chart
has both.

examples:
  %(prog)s | kubectl apply --server-side -f -
  %(prog)s | kubectl diff --server-side -f -          is the cluster up to date?

"""


def fill(command: argparse.ArgumentParser) -> None:
    describe(command, "Print the CustomResourceDefinitions that Berth needs, as YAML.", EXAMPLES)
    command.set_defaults(command=_print)


def _print(_: argparse.Namespace) -> int:
    texts = [file.read_text(encoding="utf-8").removeprefix("---\n") for file in crd_files()]
    print("---\n".join(texts), end="")
    return OK
