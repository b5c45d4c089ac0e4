"""`berth simulate`: what would happen to pods and nodes, without anything happening."""

import argparse
from collections.abc import Mapping, Sequence
from typing import Final

from berth.cli.common import (
    USAGE,
    add_credentials,
    complain,
    credentials_source,
    describe,
    object_name,
    silence_logs,
    whole,
)

# The kinds that --scale takes, by the names that kubectl has for them.
SCALED: Final[Mapping[str, Sequence[str]]] = {
    "Deployment": ("deploy", "deployment", "deployments", "deployment.apps", "deployments.apps"),
    "ReplicaSet": ("rs", "replicaset", "replicasets", "replicaset.apps", "replicasets.apps"),
    "StatefulSet": ("sts", "statefulset", "statefulsets", "statefulset.apps", "statefulsets.apps"),
    "ReplicationController": ("rc", "replicationcontroller", "replicationcontrollers"),
    "Job": ("job", "jobs", "job.batch", "jobs.batch"),
}
DOES_NOT_FIT = "a pod stays pending, a drain is blocked, or --fill fits not even once"
FORMATS = ("table", "wide", "json", "yaml", "name")
EXAMPLES = """Pods are placed one after another by the engine and the policies of Berth, preemption included, on a
copy of the cluster in this process. Nothing is written to the cluster. The cluster is the one of your kubeconfig, which
is read once with your rights, or the objects of files (--snapshot): a snapshot, what `kubectl get -A -o json` prints,
or manifests.

The options are applied in this order, however they are given:
  1. --policy           policies are replaced or added, by name
  2. --add-nodes        nodes come, with the DaemonSet and static pods of the node that they are like
  3. --fail-zone        all nodes of a zone are gone, with their pods
  4. --drain            nodes are cordoned, and their pods are evicted as far as disruption budgets allow
  5. -f, then --scale   workloads are applied in the order of the files, and scaled
  6. pods are placed    by priority, then in the order of their creation: first those that are pending already
  7. --fill             what is left is filled with copies of the one pod of -f
Controllers create new pods for those that had to leave. Pods that were pending before count for exit code 3 only if no
option adds or moves pods.

examples:
  %(prog)s -f web.yaml                               does it fit, and where does it go?
  %(prog)s --fill -f pod.yaml                        how many more of these fit?
  %(prog)s --scale deploy/web=50 -n shop             with 50 replicas?
  %(prog)s --drain node-3                            can I take node-3 out of service?
  %(prog)s --drain pool=old --add-nodes like=new-1,count=4
  %(prog)s --fail-zone eu-1a -o wide                 what if a zone is lost?
  %(prog)s --policy binpack --fail-zone eu-1a        and with another policy?
  %(prog)s --add-nodes like=gpu-1,count=2            would two more nodes help the pods that are pending?
  %(prog)s --snapshot prod.json -f web.yaml --html report.html

"""


def fill(command: argparse.ArgumentParser) -> None:
    text = "Show what would happen: where pods would go, what would stay pending and why, who would have to move."
    describe(command, text, EXAMPLES, ok="everything fits", no=DOES_NOT_FIT)
    asked = command.add_argument_group("what if")
    asked.add_argument(
        "-f",
        "--filename",
        metavar="FILE",
        action="append",
        default=[],
        help='pods and workloads to place, and other objects to apply; "-" is standard input; may be repeated',
    )
    asked.add_argument("--fill", action="store_true", help="with -f: how many copies of its one pod fit")
    asked.add_argument(
        "--scale",
        metavar="KIND/NAME=N",
        type=scale_wish,
        action="append",
        default=[],
        help="a workload has N pods, such as deploy/web=50; may be repeated",
    )
    asked.add_argument(
        "--drain",
        metavar="NODE|SELECTOR",
        action="append",
        default=[],
        help="a node, or all nodes with these labels (pool=old), are drained; may be repeated",
    )
    asked.add_argument(
        "--fail-zone", metavar="ZONE", action="append", default=[], help="a zone is lost; may be repeated"
    )
    asked.add_argument(
        "--add-nodes",
        metavar="like=NODE,count=N",
        type=node_wish,
        action="append",
        default=[],
        help="N more nodes like this one; may be repeated",
    )
    asked.add_argument(
        "--policy",
        metavar="FILE|NAME",
        action="append",
        default=[],
        help="SchedulingPolicies of a file, or of the library (berth policy show): they replace those of the same "
        "names, or are added; may be repeated",
    )
    _add_others(command)
    command.set_defaults(command=_simulate)


def _add_others(command: argparse.ArgumentParser) -> None:
    command.add_argument(
        "--snapshot",
        metavar="FILE",
        action="append",
        default=[],
        help="the objects of the cluster, instead of a live one; may be repeated",
    )
    command.add_argument(
        "-n",
        "--namespace",
        metavar="NAME",
        type=object_name,
        help="of manifests without one, and of --scale (default: that of the context, or default)",
    )
    command.add_argument(
        "--seed", metavar="N", type=whole, default=0, help="seed of choices among equal nodes (default: 0)"
    )
    command.add_argument(
        "--ignore-extenders", action="store_true", help="place pods of policies with extenders as if these agreed"
    )
    command.add_argument("-o", "--output", choices=FORMATS, default="table", help="format (default: %(default)s)")
    command.add_argument("--html", metavar="FILE", help="also write a report with pictures, all in this one file")
    add_credentials(command)


def _simulate(options: argparse.Namespace) -> int:
    if options.fill and not options.filename:
        return _misuse("--fill needs -f FILE: the pod to fill with")
    if options.snapshot and (options.kubeconfig or options.context):
        return _misuse("--kubeconfig and --context do not go with --snapshot")
    if [*options.filename, *options.snapshot, *options.policy].count("-") > 1:
        return _misuse('only one file can be standard input ("-")')
    from berth.whatif.command import run  # the engine, which the help does without

    silence_logs()
    return run(options, credentials_source(options))


def _misuse(text: str) -> int:
    return complain(f"berth simulate: {text}", USAGE)


# --- types of arguments


def scale_wish(text: str) -> tuple[str, str, int]:
    """Kind, name and number of `deploy/web=50`."""
    named, equals, number = text.partition("=")
    short, slash, name = named.partition("/")
    kind = next((kind for kind, names in SCALED.items() if short.lower() in names), None)
    if not (equals and slash and name) or not (number.isascii() and number.isdigit()):
        raise argparse.ArgumentTypeError(f'"{text}" is not KIND/NAME=N, such as deploy/web=50')
    if kind is None:
        kinds = ", ".join(names[0] for names in SCALED.values())
        raise argparse.ArgumentTypeError(f'"{short}" cannot be scaled: it must be one of {kinds}')
    return kind, name, int(number)


def node_wish(text: str) -> tuple[str, int]:
    """Node and number of `like=node-1,count=4`."""
    parts: dict[str, str] = dict(_pair(part, text) for part in text.split(","))
    count = parts.get("count", "")
    if set(parts) != {"like", "count"} or not parts["like"] or not count.isdecimal() or not int(count):
        raise argparse.ArgumentTypeError(f'"{text}" is not like=NODE,count=N, such as like=node-1,count=4')
    return parts["like"], int(count)


def _pair(part: str, text: str) -> tuple[str, str]:
    name, equals, value = part.partition("=")
    if not equals:
        raise argparse.ArgumentTypeError(f'"{text}" is not like=NODE,count=N, such as like=node-1,count=4')
    return name, value
