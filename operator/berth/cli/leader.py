"""`berth leader`: which replica leads, since when, and who would be next."""

import argparse

from berth.cli.common import add_credentials, describe, object_name, run_later
from berth.configuration import Options

PEERING_NAME = Options().peering_name
MORE = """The replicas keep records in one ClusterKopfPeering object. Shown are those that are not out of date, by the
clock of this machine, in the order in which they would lead. A replica that is about to take over does not lead yet:
when a leader is killed that takes about a lifetime, when it is stopped less than a second.

examples:
  %(prog)s
  %(prog)s -o json | jq -r .leader.identity
  until %(prog)s >/dev/null; do sleep 1; done          wait until a replica leads

"""


def fill(leader: argparse.ArgumentParser) -> None:
    text = "Show which replica leads, since when, when it was last seen, and who stands by."
    describe(leader, text, MORE, ok="a replica leads", no="nobody leads")
    add_credentials(leader)
    leader.add_argument(
        "--peering-name",
        metavar="NAME",
        type=object_name,
        default=PEERING_NAME,
        help=f"the ClusterKopfPeering object that the replicas were given (default: {PEERING_NAME})",
    )
    leader.add_argument("-o", "--output", choices=("text", "json"), default="text", help="(default: text)")
    leader.set_defaults(command=run_later("leader"))
