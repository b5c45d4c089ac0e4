"""`berth policy lint`: everything that is wrong with policies in files."""

import argparse

from berth.cli.common import describe, run_later

EXAMPLES = """The files are looked at together, as if all of them were applied: a policy may be based on another
one of them, in any order. What is wrong is said with file, policy and field. Policies that get into each
other's way are warned of; that is no failure.

examples:
  %(prog)s mine.yaml
  %(prog)s binpack                                    a policy of the library (berth policy show)
  %(prog)s -o json policies/*.yaml
  kubectl get schedulingpolicies -o yaml | %(prog)s - new.yaml

"""
EXIT_CODES = "exit codes:\n  0  no errors\n  1  errors, all of them said\n  2  usage error\n"


def fill(command: argparse.ArgumentParser) -> None:
    text = "Say everything that is wrong with SchedulingPolicies in files, as the operator would, without a cluster."
    describe(command, text, EXAMPLES, EXIT_CODES)
    command.add_argument(
        "files", metavar="FILE", nargs="+", help='YAML or JSON, or a policy of the library; "-" is standard input'
    )
    command.add_argument(
        "-o", "--output", choices=("text", "json"), default="text", help="format (default: %(default)s)"
    )
    command.set_defaults(command=run_later("policy_lint"))
