"""What the commands share: parsers, exit codes, types of arguments, the flags that say which cluster is meant."""

import argparse
import logging
import os
import sys
import zlib
from collections.abc import Mapping
from typing import Any

from berth.cluster.credentials import Source
from berth.policy.reading import is_object_name

OK, FAILED, USAGE = 0, 1, 2
UNREADABLE = (OSError, UnicodeDecodeError, EOFError, zlib.error)  # what reading a file, packed or not, may raise

EXIT_CODES = "exit codes:\n  0  all well\n  1  it failed; standard error says why\n  2  it was asked wrongly\n"


def new_parser(
    make: Any, *names: str, text: str, more: str = "", exit_codes: str = EXIT_CODES, **others: Any
) -> argparse.ArgumentParser:
    """A parser whose help has the text before the arguments, and `more` and the exit codes after them."""
    parser: argparse.ArgumentParser = make(
        *names,
        description=text,
        epilog=more + exit_codes,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
        **others,
    )
    return parser


def add_credentials(parser: argparse.ArgumentParser) -> None:
    # No defaults: what is not given comes from the environment, and only where a cluster is asked for.
    parser.add_argument(
        "--kubeconfig",
        metavar="FILE",
        help="credentials (default: $KUBECONFIG, ~/.kube/config, the pod's service account)",
    )
    parser.add_argument("--context", metavar="NAME", help="context of the kubeconfig (default: its current one)")


def credentials_source(options: argparse.Namespace, environment: Mapping[str, str] = os.environ) -> Source:
    """Where the credentials are: flags win over the environment."""
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
