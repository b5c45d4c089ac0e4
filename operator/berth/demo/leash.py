"""A process that ends when the one that started it does, however that one ends.

The starter holds the other end of our standard input and never writes to it. When it is gone, by whatever signal, the
read below returns, and we end as if we had been told to.
"""

import os
import signal
import threading


def hold() -> None:
    """From now on: SIGTERM to ourselves once standard input has ended."""
    threading.Thread(target=_wait, name="leash", daemon=True).start()


def _wait() -> None:
    # Not sys.stdin: a buffered reader that is waiting would hold its lock while the interpreter shuts down.
    while os.read(0, 1024):
        continue
    os.kill(os.getpid(), signal.SIGTERM)
