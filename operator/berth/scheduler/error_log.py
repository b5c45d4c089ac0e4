"""Errors that must not stop anything: counted, and logged with their traceback the first time they show.

A fault in the code tends to repeat with every pod or every watch event; a traceback each time would bury the log,
none at all would hide the cause.
"""

import logging
from collections import Counter

from berth.model import Pod
from berth.scheduler.log_fields import about

logger = logging.getLogger(__name__)


class ErrorLog:
    """Counts by what was being done; one traceback for each place in the code."""

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()
        self._shown: set[tuple[str, str, int]] = set()

    def note(self, doing: str, subject: Pod | str, error: BaseException, **fields: str) -> None:
        """Something went wrong while doing this with that object; `fields` are those of `about`."""
        self.counts[doing] += 1
        place = _place(error)
        first = place not in self._shown
        self._shown.add(place)
        logger.error(
            "%s %s: %s: %s",
            *(doing, f"Pod {subject.key}" if isinstance(subject, Pod) else subject, type(error).__name__, error),
            exc_info=error if first else None,
            extra=about(subject, **fields) if isinstance(subject, Pod) else fields,
        )


def _place(error: BaseException) -> tuple[str, str, int]:
    """Where the error was raised; the lines of the code bound how many there can be."""
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    if trace is None:
        return type(error).__name__, "", 0
    return type(error).__name__, trace.tb_frame.f_code.co_filename, trace.tb_lineno
