"""`berth policy import`: configurations of kube-scheduler as policies."""

import argparse
import asyncio
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from berth.cli.common import (
    FAILED,
    OK,
    USAGE,
    add_credentials,
    complain,
    credentials_source,
    describe,
    object_name,
    object_path,
)
from berth.cluster.api import Api
from berth.cluster.credentials import Credentials
from berth.cluster.errors import ApiError, CredentialsError, Unreachable
from berth.policy.importing.manifest import write_source
from berth.policy.importing.sources import (
    PROVIDERS,
    ConfigurationSource,
    bad_source,
    import_document,
    import_provider,
    import_text,
    settle,
)
from berth.policy.wording import on_one_line

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
    command.set_defaults(command=_import)


def _import(options: argparse.Namespace) -> int:
    if len([source for source in (options.files, options.configmap, options.provider) if source]) != 1:
        return _misuse("give files, --configmap or --provider: one of them")
    if (options.kubeconfig or options.context) and not options.configmap:
        return _misuse("--kubeconfig and --context go with --configmap")
    if options.key is not None and options.provider:
        return _misuse("--key is of a ConfigMap: it goes with files or --configmap, not with --provider")
    try:
        sources = settle(_sources(options))
    except (ApiError, Unreachable, CredentialsError) as error:
        return complain(f"berth policy import: {error}")
    if any(source.imported.errors for source in sources):
        _tell_problems(sources, "error")
        return FAILED
    manifests = [manifest for source in sources for manifest in source.imported.manifests]
    if options.name is not None:
        if len(manifests) != 1:
            return _misuse(f"--name is for one policy, and these are {len(manifests)}: leave it out")
        manifests[0]["metadata"] = {"name": options.name}
    if options.output == "json":
        print(json.dumps({"apiVersion": "v1", "kind": "List", "items": manifests}, indent=2))
        _tell_problems(sources, "warning")
    else:
        print("---\n".join(map(write_source, sources)), end="")
    return OK


def _misuse(text: str) -> int:
    return complain(f"berth policy import: {text}", USAGE)


def _tell_problems(sources: Sequence[ConfigurationSource], severity: str) -> None:
    for source in sources:
        for problem in source.imported.problems:
            if problem.severity == severity:
                text = ": ".join(part for part in (source.name, problem.field, problem.message) if part)
                print(on_one_line(" ".join(text.split())), file=sys.stderr)


def _sources(options: argparse.Namespace) -> list[ConfigurationSource]:
    if options.provider:
        return [ConfigurationSource(options.provider, import_provider(options.provider))]
    if options.configmap:
        config_map = asyncio.run(_get_config_map(options))
        return import_document({**config_map, "kind": "ConfigMap"}, "cluster", options.key)
    return [source for path in options.files for source in _import_file(path, options.key)]


def _import_file(path: str, key: str | None) -> list[ConfigurationSource]:
    try:
        text = sys.stdin.read() if path == "-" else Path(path).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        return [bad_source(path, f"cannot be read: {error}")]
    return import_text(text, path, key)


async def _get_config_map(options: argparse.Namespace) -> dict[str, Any]:
    namespace, name = options.configmap.split("/")
    api = Api(Credentials(credentials_source(options)))
    try:
        await api.open()
        return (await api.request("GET", f"/api/v1/namespaces/{namespace}/configmaps/{name}"))[1]
    finally:
        await api.close()
