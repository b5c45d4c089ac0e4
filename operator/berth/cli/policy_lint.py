"""`berth policy lint`: everything that is wrong with policies in files."""

import argparse

from berth.cli.common import describe, run_later

EXAMPLES = """The files are looked at together, as if all of them were applied: a policy may be based on another
one of them, in any order. What is wrong is said with file, policy and field. Of a folder, all .yaml, .yml and .json
files in it and below are read, and objects that are no policies are left out. Warnings are no failure: of policies
that get into each other's way, and of expressions that fail on nodes without some label.

examples:
  %(prog)s mine.yaml
  %(prog)s binpack                                    a policy of the library (berth policy show)
  %(prog)s policies/                                  a folder
  %(prog)s -o json 'policies/**/*.yaml'               a pattern
  kubectl get schedulingpolicies -o yaml | %(prog)s - new.yaml

"""


def fill(command: argparse.ArgumentParser) -> None:
    text = "Say everything that is wrong with SchedulingPolicies in files, as the operator would, without a cluster."
    describe(command, text, EXAMPLES, ok="no errors", failed="errors, all of them said")
    command.add_argument(
        "files",
        metavar="FILE",
        nargs="+",
        help='YAML or JSON, a folder, a pattern, or a policy of the library; "-" is standard input',
    )
    command.add_argument(
        "-o", "--output", choices=("text", "json"), default="text", help="format (default: %(default)s)"
    )
    command.set_defaults(command=run_later("policy_lint"))
