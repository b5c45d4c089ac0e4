"""`berth ui`: the page in a browser, with the user's credentials."""

import argparse
import asyncio

from berth.cli.common import FAILED, OK, complain, credentials_source, silence_logs
from berth.cluster.credentials import Credentials
from berth.cluster.errors import CredentialsError, Unreachable
from berth.signals import take_signals
from berth.ui.loopback import Loopback
from berth.ui.opening import NoPage, check_page, has_screen, open_browser
from berth.ui.upstream import UserUpstream


def run(options: argparse.Namespace) -> int:
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
