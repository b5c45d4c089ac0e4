"""Warnings that are logged in this process while the demo runs: held back, so that they do not tear the picture.

They come from the embedded API server and the simulated actors, and are printed only when something did not hold.
"""

import logging
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager

KEPT_RECORDS = 10


class Complaints(logging.Handler):
    """The last few warnings and errors, as text."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.setFormatter(logging.Formatter("%(levelname)s %(name)s: %(message)s"))
        self.lines: deque[str] = deque(maxlen=KEPT_RECORDS)

    def emit(self, record: logging.LogRecord) -> None:
        """Called by logging; `format` adds the traceback if there is one."""
        self.lines.append(self.format(record))


@contextmanager
def kept_complaints() -> Iterator[Complaints]:
    """Within the block, warnings of all loggers are collected and not printed."""
    complaints = Complaints()
    root = logging.getLogger()
    root.addHandler(complaints)
    try:
        yield complaints
    finally:
        root.removeHandler(complaints)
