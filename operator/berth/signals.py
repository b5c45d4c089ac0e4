"""SIGTERM and SIGINT: the first one stops cleanly, the second one at once."""

import asyncio
import os
import signal


def take_signals(stopping: asyncio.Event, exit_code: int) -> None:
    """Sets `stopping` at the first SIGTERM or SIGINT; the second one ends the process with the exit code."""

    def stop() -> None:
        if stopping.is_set():
            os._exit(exit_code)
        stopping.set()

    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop)
