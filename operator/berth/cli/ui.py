"""`berth ui`: the page in a browser, with the user's credentials."""

import argparse
import asyncio
from typing import Final

from berth.cli.common import FAILED, OK, add_credentials, complain, credentials_source, describe, silence_logs, whole
from berth.cluster.credentials import Credentials
from berth.cluster.errors import CredentialsError, Unreachable
from berth.signals import take_signals
from berth.ui.loopback import Loopback
from berth.ui.opening import NoPage, check_page, has_screen, open_browser
from berth.ui.upstream import UserUpstream

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
    command.set_defaults(command=_ui)


def _port(text: str) -> int:
    port = whole(text)
    if port > MOST_PORT:
        raise argparse.ArgumentTypeError(f"{text} is not a port: 0 to {MOST_PORT}")
    return port


def _ui(options: argparse.Namespace) -> int:
    silence_logs()
    try:
        return asyncio.run(_serve(options))
    except (NoPage, Unreachable, CredentialsError) as error:
        return complain(f"berth ui: {error}", FAILED)


async def _serve(options: argparse.Namespace) -> int:
    upstream = UserUpstream(Credentials(credentials_source(options)))
    loopback = Loopback(upstream)
    stopping = asyncio.Event()
    try:
        await upstream.open()
        await check_page(upstream)
        await loopback.start(options.port)
        take_signals(stopping, OK)
        await _tell(loopback, options)
        await stopping.wait()
        return OK
    except OSError as error:
        return complain(f"berth ui: --port {options.port}: {error.strerror or error}", FAILED)
    finally:
        await loopback.stop()
        await upstream.close()


async def _tell(loopback: Loopback, options: argparse.Namespace) -> None:
    print(f"The page is at {loopback.url}")
    print("The address is secret: it acts with your rights. Ctrl-C ends it.", flush=True)
    if not options.no_open and not (has_screen() and await asyncio.to_thread(open_browser, loopback.url_once)):
        complain("berth ui: no browser could be started here: open the address yourself")
