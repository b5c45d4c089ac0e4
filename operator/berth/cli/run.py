"""`berth run`: the scheduler as a process. Its settings are read here; `start` and `process` do the rest."""

import argparse
import asyncio
import os
from collections.abc import Mapping
from pathlib import Path

from berth import __version__
from berth.cli.common import OK, USAGE, complain, describe
from berth.configuration import BadConfiguration, Options, read
from berth.configuration.file import render
from berth.configuration.flags import add_settings, given
from berth.later import import_at_once
from berth.serving import logs

EXAMPLES = """The scheduler serves pods whose spec.schedulerName is "berth", or what a SchedulingPolicy names.
Any number of replicas may run: they elect a leader by the ClusterKopfPeering object that --peering-name names, which is
made if it is missing (crds/clusterkopfpeerings.kopf.dev.yaml defines the kind). The others stand by and take over when
its record is out of date; `berth leader` shows who leads. With --standalone one replica runs without all that.
SIGTERM or SIGINT stops it cleanly: no new binds, running ones finish, exit code 0; a second one ends it at once.
SIGUSR2 writes nodes, placed pods and queue to the log, and compares them with the API server.

Each setting can be given as a flag, as a variable (BERTH_RESYNC_SECONDS for --resync-seconds; on or off for what is
only switched) or in the file that --config names (resyncSeconds). Flags win over variables, these over the file.

examples:
  %(prog)s                                       one of several replicas, or the only one
  %(prog)s --standalone                          the only one, without an election
  %(prog)s --kubeconfig ~/.kube/config --context staging --log-format json
  %(prog)s --config berth.yaml --log-level debug
  %(prog)s --write-config-to berth.yaml          every setting as it is in effect, explained; then exit
  %(prog)s --https-address 127.0.0.1:10259 --http-address 127.0.0.1:10261
  %(prog)s --standalone --https-address ""       without health and metrics

"""


def fill(run: argparse.ArgumentParser) -> None:
    describe(run, "Schedule pods on a cluster.", EXAMPLES)
    add_settings(run)
    run.add_argument("--version", action="version", version=f"berth {__version__}")
    run.set_defaults(command=_run)


def _run(flags: argparse.Namespace) -> int:
    try:
        options = read_options(flags, dict(os.environ))
    except BadConfiguration as error:
        return complain("\n".join(f"berth run: {problem}" for problem in error.problems), USAGE)
    if flags.write_config_to is not None:
        return _write(flags.write_config_to, render(options))
    logs.configure(options.log_level, options.log_format)
    start = import_at_once("berth.cli.start")  # the client of clusters, which the help does without
    code: int = asyncio.run(start.run_until_stopped(options))
    return code


def read_options(flags: argparse.Namespace, environment: Mapping[str, str]) -> Options:
    """Raises BadConfiguration."""
    return read(environment, given(flags), flags.config)


def _write(path: str, text: str) -> int:
    if path == "-":
        print(text, end="")
        return OK
    try:
        Path(path).write_text(text, encoding="utf-8")
    except OSError as error:
        return complain(f"berth run: --write-config-to {path}: {error.strerror or error}")
    return OK
