"""Ends this process when its parent ends, for whatever reason.

The parent holds the other end of our standard input and never writes to it. When the parent is gone, by any signal, the
read below returns, and we end as on SIGTERM.
"""

import os
import signal
import threading


def watch_parent() -> None:
    """From now on this process gets SIGTERM once standard input has ended."""
    threading.Thread(target=_wait, name="parent watch", daemon=True).start()


def _wait() -> None:
    # Not sys.stdin: a buffered reader that is waiting would hold its lock while the interpreter shuts down.
    while os.read(0, 1024):
        continue
    os.kill(os.getpid(), signal.SIGTERM)
