"""`berth policy import`: configurations of kube-scheduler as policies."""

import argparse

from berth.cli.common import add_credentials, describe, object_name, object_path, run_later
from berth.policy.providers import PROVIDERS

EXAMPLES = """A FILE is a KubeSchedulerConfiguration (v1, v1beta3), a Policy (v1, of Kubernetes 1.9 to 1.22) or a
ConfigMap with one of them in it. Policies go to standard output, one for each profile, and pass `policy lint`.
What they cannot say is in comments; with -o json, on standard error. Where a configuration itself is wrong, standard
error says what is, and no policy is written.

examples:
  %(prog)s /etc/kubernetes/scheduler.yaml
  %(prog)s scheduler.yaml | kubectl apply -f -
  %(prog)s --configmap kube-system/scheduler-policy --key policy.cfg
  %(prog)s --provider ClusterAutoscalerProvider --name packing
  kubectl get configmap -n kube-system scheduler-config -o yaml | %(prog)s -

"""


def fill(command: argparse.ArgumentParser) -> None:
    describe(command, "Turn configurations of kube-scheduler into SchedulingPolicies.", EXAMPLES)
    command.add_argument("files", metavar="FILE", nargs="*", help='YAML or JSON; "-" is standard input')
    command.add_argument(
        "--configmap", metavar="NAMESPACE/NAME", type=object_path, help="instead of files: a ConfigMap of the cluster"
    )
    command.add_argument(
        "--provider",
        choices=tuple(PROVIDERS),
        help="instead of files: what kube-scheduler had under this name up to 1.22",
    )
    command.add_argument("--key", metavar="KEY", help="of a ConfigMap: the key of its data (default: the only one)")
    command.add_argument("--name", metavar="NAME", type=object_name, help="name of the policy, where there is one only")
    command.add_argument(
        "-o", "--output", choices=("yaml", "json"), default="yaml", help="format (default: %(default)s)"
    )
    add_credentials(command)
    command.set_defaults(command=run_later("policy_import"))
