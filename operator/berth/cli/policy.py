"""`berth policy`: what is done with policies in files, and with those of the library."""

import argparse

from berth.cli.common import add_commands, describe

ACTIONS = {
    "lint": ("say everything that is wrong with policies in files", "berth.cli.policy_lint"),
    "import": ("turn configurations of kube-scheduler into policies", "berth.cli.policy_import"),
    "diff": ("show which decisions change between two policies", "berth.cli.policy_diff"),
    "show": ("list the policies of the library, or print them", "berth.cli.policy_show"),
}


def fill(policy: argparse.ArgumentParser) -> None:
    describe(policy, "Check and compare SchedulingPolicies, or make them from configurations of kube-scheduler.")
    add_commands(policy, "ACTION", ACTIONS)
