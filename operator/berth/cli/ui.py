"""`berth ui`: the page in a browser, with the user's credentials."""

import argparse
from typing import Final

from berth.cli.common import add_credentials, describe, run_later, whole

MOST_PORT: Final = 65535
MORE: Final = """The page shows nodes, queue, decisions and policies, and explains each pod. It reads the API of
explanations with your credentials and needs Berth's chart in the cluster. This command passes requests on until Ctrl-C:
on 127.0.0.1 only, behind a secret in the address, reading only.

examples:
  %(prog)s
  %(prog)s --context production --port 8001 --no-open

"""


def fill(command: argparse.ArgumentParser) -> None:
    text = "Show the cluster and its decisions in a browser."
    describe(command, text, MORE, ok="stopped by Ctrl-C", failed="there is no page to show, or it failed")
    command.add_argument("--port", metavar="N", type=_port, default=0, help="to listen on (default: any free one)")
    command.add_argument("--no-open", action="store_true", help="print the address, and start no browser")
    add_credentials(command)
    command.set_defaults(command=run_later("ui"))


def _port(text: str) -> int:
    port = whole(text)
    if port > MOST_PORT:
        raise argparse.ArgumentTypeError(f"{text} is not a port: 0 to {MOST_PORT}")
    return port
