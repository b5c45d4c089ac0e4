"""`berth policy import`: reads configurations of kube-scheduler, and prints policies."""

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
    complain,
    credentials_source,
)
from berth.cluster.api import Api
from berth.cluster.credentials import Credentials
from berth.cluster.errors import ApiError, CredentialsError, Unreachable
from berth.policy.importing.manifest import write_source
from berth.policy.importing.sources import (
    ConfigurationSource,
    bad_source,
    import_document,
    import_provider,
    import_text,
    settle,
)
from berth.policy.wording import on_one_line


def run(options: argparse.Namespace) -> int:
    """Prints the policies."""
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
