"""`berth policy diff`: which decisions change between two policies."""

import argparse

from berth.cli.common import add_credentials, describe, run_later

EXAMPLES = """A and B are each a file with one policy (FILE#NAME where it has several), or KubernetesDefault, which is
the profile of kube-scheduler without any configuration, or, with --cluster or --snapshot, the name of a policy there,
or the name of a policy of the library (berth policy show).
Their modes are not looked at: also one in Shadow or Disabled mode can be asked.

With --cluster, or --snapshot for the objects of a file, the pods are those that wait for a node and that A or B would
decide for, by schedulerName and selectors; with --all also those that have a node, as if none of them were there yet.
They are placed one after another, by priority, then by age, by each policy on a copy of the cluster. With --cases they
are those of all cases in a file, in the format of `berth judge`, each by itself. Nothing is written to the cluster.

A pod that both would put on a node is a difference only where they cannot choose the same one: chance is none. Pods of
a workload that change alike are one row; -o json has each. Every node is looked at, whatever percentageOfNodesToScore
says, and extenders are not asked.

examples:
  %(prog)s old.yaml new.yaml --cases cases.jsonl.gz
  %(prog)s batch new.yaml --cluster                     the policy that is applied, and its next version
  %(prog)s KubernetesDefault binpack --snapshot cluster.json --all
  %(prog)s -o json a.yaml b.yaml --cluster --context staging

"""


def fill(command: argparse.ArgumentParser) -> None:
    text = "Show which decisions change when policy B takes the place of policy A."
    describe(command, text, EXAMPLES, ok="no decision changes", no="some do")
    command.add_argument("a", metavar="A", help="a policy")
    command.add_argument("b", metavar="B", help="another one")
    pods = command.add_mutually_exclusive_group(required=True)
    pods.add_argument("--cases", metavar="FILE", help='decide the cases of a file (.gz too); "-" is standard input')
    pods.add_argument("--cluster", action="store_true", help="decide for the pods of a cluster")
    pods.add_argument("--snapshot", metavar="FILE", help="decide for the pods of a cluster whose objects are in a file")
    command.add_argument("--all", action="store_true", help="not with --cases: also pods that have a node")
    command.add_argument(
        "-o", "--output", choices=("text", "json"), default="text", help="format (default: %(default)s)"
    )
    add_credentials(command)
    command.set_defaults(command=run_later("policy_diff"))
