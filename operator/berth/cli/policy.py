"""`berth policy`: what is done with policies in files."""

from typing import Any

from berth.cli.common import new_parser
from berth.cli.policy_diff import add_diff
from berth.cli.policy_import import add_import
from berth.cli.policy_lint import add_lint


def add_policy(commands: Any) -> None:
    policy = new_parser(
        commands.add_parser,
        "policy",
        help="check and compare SchedulingPolicies, or make them from configurations of kube-scheduler",
        text="Check and compare SchedulingPolicies, or make them from configurations of kube-scheduler.",
    )
    actions = policy.add_subparsers(metavar="ACTION", required=True)
    add_lint(actions)
    add_import(actions)
    add_diff(actions)
