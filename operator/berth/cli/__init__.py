"""The command line of `berth` and `kubectl berth`.

Parsing is argparse's; a command is a module that describes its parser and a function that returns an exit code. The
module is imported when the command is chosen, so that no command waits for what another one needs. What a user got
wrong is said in one line on standard error, without a traceback. Exit codes mean the same in every command (common.py).
"""

import argparse
import errno
import os
import sys
from collections.abc import Sequence
from pathlib import Path

from berth import __version__
from berth.cli.common import FAILED, INTERRUPTED, OK, add_commands, complain, describe

__all__ = ["main", "make_parser"]

# How a write can fail that was to a file which is open already: there is no room, or the device is broken.
WRITING_FAILED = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO, errno.EBADF)

EXAMPLES = """examples:
  %(prog)s run                                        with $KUBECONFIG, ~/.kube/config or a pod's service account
  %(prog)s run --standalone --kubeconfig F --context C
  %(prog)s why web-7d -n shop                         why is the pod pending, and what would help
  %(prog)s status                                     is it healthy, what waits and why
  %(prog)s decisions -A -w                            placements as they are made
  %(prog)s ui                                         the cluster and its decisions in a browser
  %(prog)s leader                                     which replica leads, and who stands by
  %(prog)s simulate --drain node-3                    what would happen, without anything happening
  %(prog)s policy lint policies/*.yaml                what is wrong with these policies, if anything
  %(prog)s policy diff batch new.yaml --cluster        which decisions change with the new version
  %(prog)s policy import scheduler.yaml > policy.yaml a kube-scheduler configuration as policies
  %(prog)s judge cases.jsonl > verdicts.jsonl         decide cases without a cluster

"""

COMMANDS = {
    "run": ("schedule pods on a cluster", "berth.cli.run"),
    "demo": ("watch Berth work on an embedded cluster", "berth.cli.demo"),
    "why": ("say why a pod is pending or on its node, and what would help", "berth.cli.why"),
    "status": ("show whether Berth is healthy, who leads, what waits and why, and its policies", "berth.cli.status"),
    "decisions": ("show the latest placements, and with -w those that follow", "berth.cli.decisions"),
    "top": ("watch nodes, queue and decisions live, on a terminal", "berth.cli.top"),
    "snapshot": ("write everything that decisions read into one file", "berth.cli.snapshot"),
    "ui": ("show nodes, queue and decisions in a browser", "berth.cli.ui"),
    "leader": ("show which replica leads, and who stands by", "berth.cli.leader"),
    "simulate": ("show what would happen: where pods would go, and what would stay pending", "berth.cli.simulate"),
    "completion": ("print the completion script of a shell", "berth.cli.completion"),
    "judge": ("decide cases from a file, without a cluster", "berth.cli.judge"),
    "policy": (
        "check and compare SchedulingPolicies, or make them from configurations of kube-scheduler",
        "berth.cli.policy",
    ),
    "crds": ("print the kinds that Berth needs in a cluster", "berth.cli.crds"),
}
"""Name to what it does and the module that has it."""


def main(arguments: Sequence[str] | None = None) -> int:
    """The entry point of `berth` and `kubectl-berth`."""
    program = _program_name()
    parser = make_parser(program)
    options, unknown = parser.parse_known_args(arguments)
    if unknown:  # said with the usage of the command, not with that of `berth`
        getattr(options, "parser", parser).error(f"unrecognized arguments: {' '.join(unknown)}")
    if sys.stdout is None:
        return complain(f"{program}: standard output is closed: there is nowhere to write to")
    try:
        code: int = options.command(options)
        sys.stdout.flush()
    except KeyboardInterrupt:
        return INTERRUPTED
    except BrokenPipeError:  # the reader has seen enough, `head` for example
        _write_nowhere()
        return FAILED
    except OSError as error:
        if error.filename is not None or error.errno not in WRITING_FAILED:
            raise  # it is not about standard output
        _write_nowhere()
        return complain(f"{program}: cannot write to standard output: {error.strerror}")
    return code


def _write_nowhere() -> None:
    """So that the interpreter, which writes what is left when it ends, has nothing to complain about."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _program_name() -> str:
    return "kubectl berth" if Path(sys.argv[0]).name.startswith("kubectl-berth") else "berth"


def make_parser(program: str) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog=program, allow_abbrev=False)
    describe(parser, "A Kubernetes scheduler that you program with kubectl.", EXAMPLES)
    parser.add_argument("--version", action="version", version=f"berth {__version__}")
    commands = add_commands(parser, "COMMAND", COMMANDS)
    version = commands.add_parser("version", help="print the version")
    version.set_defaults(command=_version)
    return parser


def _version(_: argparse.Namespace) -> int:
    print(f"berth {__version__}")
    return OK
