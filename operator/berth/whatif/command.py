"""`berth simulate` once its options are read: from files or a cluster to the report and the exit code."""

import argparse
import asyncio
import os
import sys
from pathlib import Path
from typing import Final

import orjson
import yaml

from berth.cluster.api import Api
from berth.cluster.credentials import Credentials, Source
from berth.cluster.errors import ApiError, CredentialsError, Unreachable
from berth.whatif.cluster_objects import ClusterObjects
from berth.whatif.errors import CannotSimulate
from berth.whatif.files import read_bodies, read_files, read_policies
from berth.whatif.html_page import as_html
from berth.whatif.json_form import as_data
from berth.whatif.live import context_namespace, read_cluster
from berth.whatif.progress import Progress
from berth.whatif.result import Result
from berth.whatif.scaling import Scale
from berth.whatif.simulation import NodesLike, Question, simulate
from berth.whatif.text import as_names, as_text
from berth.whatif.workloads import Workload

FITS: Final = 0
FAILED: Final = 1
DOES_NOT_FIT: Final = 3


def run(options: argparse.Namespace, source: Source) -> int:
    """Prints the report, and returns the exit code."""
    progress = Progress()
    try:
        question = _question(options, _namespace(options, source))
        objects = read_files(options.snapshot, progress) if options.snapshot else None
        if objects is None:
            objects = asyncio.run(_read_cluster(source, question, progress))
        result = simulate(objects, question, progress)
        if options.html:
            _write_page(result, options.html)
    except (CannotSimulate, ApiError, Unreachable, CredentialsError) as error:
        progress.end()
        print(f"berth simulate: {error}", file=sys.stderr)
        return FAILED
    progress.end()
    print(_rendered(result, options.output), end="")
    return FITS if result.everything_fits else DOES_NOT_FIT


def _question(options: argparse.Namespace, namespace: str) -> Question:
    return Question(
        manifests=[body for path in options.filename for body in read_bodies(path)],
        scales=[Scale(Workload(kind, namespace, name), number) for kind, name, number in options.scale],
        fill=options.fill,
        drains=options.drain,
        failed_zones=options.fail_zone,
        added=[NodesLike(*wish) for wish in options.add_nodes],
        policies=[body for path in options.policy for body in read_policies(path)],
        namespace=namespace,
        seed=options.seed,
        ignore_extenders=options.ignore_extenders,
        source=", ".join(options.snapshot) or "live cluster",
    )


def _namespace(options: argparse.Namespace, source: Source) -> str:
    if options.namespace:
        return str(options.namespace)
    return "default" if options.snapshot else context_namespace(source)


async def _read_cluster(source: Source, question: Question, progress: Progress) -> ClusterObjects:
    api = Api(Credentials(source))
    await api.open()
    try:
        return await read_cluster(api, [wish.workload for wish in question.scales], progress)
    finally:
        await api.close()


def _rendered(result: Result, form: str) -> str:
    if form == "json":
        return orjson.dumps(as_data(result), option=orjson.OPT_INDENT_2).decode() + "\n"
    if form == "yaml":
        return yaml.safe_dump(as_data(result), sort_keys=False, allow_unicode=True)
    if form == "name":
        return as_names(result)
    colours = sys.stdout.isatty() and not os.environ.get("NO_COLOR")
    return as_text(result, wide=form == "wide", colours=colours)


def _write_page(result: Result, path: str) -> None:
    try:
        Path(path).write_text(as_html(result), encoding="utf-8")
    except OSError as error:
        raise CannotSimulate(f"--html {path}: cannot be written: {error.strerror or error}") from error
