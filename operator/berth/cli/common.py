"""What the commands share: parsers, exit codes, types of arguments, the flags that say which cluster is meant."""

import argparse
import logging
import os
import sys
import zlib
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from typing import TYPE_CHECKING, Any

from berth.policy.reading import is_object_name

if TYPE_CHECKING:
    from berth.cluster.credentials import Source

# The same in every command; docs/cli.md has the table.
OK = 0  # done, and if it answers a question, the answer is the good one
FAILED = 1  # it could not be done, or what it checks is not right
USAGE = 2  # the command line is not right
NO = 3  # done, and the answer is the other one
INTERRUPTED = 130  # as shells report SIGINT
UNREADABLE = (OSError, UnicodeDecodeError, EOFError, zlib.error)  # what reading a file, packed or not, may raise


def describe(
    parser: argparse.ArgumentParser,
    text: str,
    more: str = "",
    *,
    ok: str = "all well",
    failed: str = "it failed; standard error says why",
    usage: str = "usage error",
    no: str = "",
    interrupted: str = "",
) -> None:
    """Give the parser a help that has the text before the arguments, and `more` and the exit codes after them.

    The others say what the exit codes mean for this command; "": it never ends with that one.
    """
    codes = {OK: ok, FAILED: failed, USAGE: usage, NO: no, INTERRUPTED: interrupted}
    meant = {code: meaning for code, meaning in codes.items() if meaning}
    width = max(len(str(code)) for code in meant)
    lines = [f"  {code:<{width}}  {meaning}\n" for code, meaning in meant.items()]
    parser.description, parser.epilog = text, f"{more}exit codes:\n{''.join(lines)}"
    parser.formatter_class = argparse.RawDescriptionHelpFormatter


class CommandParser(argparse.ArgumentParser):
    """The parser of a command, which is filled by the command's module once the command has been chosen."""

    module: str = ""

    def parse_known_args(self, args: Sequence[str] | None = None, namespace: Any = None) -> Any:  # type: ignore[override]
        module, self.module = self.module, ""
        if module:
            import_module(module).fill(self)
            self.set_defaults(parser=self)  # who says the usage, if an argument is unknown
        return super().parse_known_args(args, namespace)


def add_commands(parser: argparse.ArgumentParser, metavar: str, commands: Mapping[str, tuple[str, str]]) -> Any:
    """Add the commands, each with what it does and the module that has it: `fill(parser)` adds its arguments there."""
    actions = parser.add_subparsers(metavar=metavar, required=True, parser_class=CommandParser)
    for name, (text, module) in commands.items():
        actions.add_parser(name, help=text, allow_abbrev=False).module = module
    return actions


def run_later(action: str) -> Callable[[argparse.Namespace], int]:
    """Returns a command that imports the module of `berth.cli.actions` when it runs: its help does without."""

    def run(options: argparse.Namespace) -> int:
        code: int = import_module(f"berth.cli.actions.{action}").run(options)
        return code

    return run


def add_credentials(parser: argparse.ArgumentParser) -> None:
    # No defaults: what is not given comes from the environment, and only where a cluster is asked for.
    parser.add_argument(
        "--kubeconfig",
        metavar="FILE",
        help="credentials (default: $KUBECONFIG, ~/.kube/config, the pod's service account)",
    )
    parser.add_argument("--context", metavar="NAME", help="context of the kubeconfig (default: its current one)")


def credentials_source(options: argparse.Namespace, environment: Mapping[str, str] = os.environ) -> "Source":
    """Where the credentials are: flags win over the environment."""
    from berth.cluster.credentials import Source  # a client of clusters, which most commands do without

    kubeconfig = options.kubeconfig or environment.get("BERTH_KUBECONFIG") or None
    return Source(kubeconfig, options.context or environment.get("BERTH_CONTEXT") or None)


def silence_logs() -> None:
    """For commands that say themselves what the parts of the operator which they use would log."""
    logging.getLogger("berth").addHandler(logging.NullHandler())


def complain(text: str, code: int = FAILED) -> int:
    print(text, file=sys.stderr)
    return code


# --- types of arguments


def whole(text: str) -> int:
    if not (text.isascii() and text.isdigit()):
        raise argparse.ArgumentTypeError(f'"{text}" is not a whole number')
    return int(text)


def object_name(text: str) -> str:
    if not is_object_name(text):
        raise argparse.ArgumentTypeError(f'"{text}" is not the name of an object: lower-case letters, digits, "-", "."')
    return text


def object_path(text: str) -> str:
    parts = text.split("/")
    if len(parts) != 2 or not all(map(is_object_name, parts)):
        raise argparse.ArgumentTypeError(f'"{text}" is not NAMESPACE/NAME')
    return text
