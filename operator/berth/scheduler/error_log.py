"""Error log: errors that must not stop the loop are counted, and logged with a traceback the first time they occur.

A bug in the code tends to repeat with every pod or every watch event. A traceback each time would flood the log; none
at all would hide the cause.
"""

import logging
from collections import Counter

from berth.model import Pod
from berth.scheduler.log_fields import about

logger = logging.getLogger(__name__)


class ErrorLog:
    """Counts errors by activity; logs one traceback per place in the code."""

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()
        self._shown: set[tuple[str, str, int]] = set()

    def note(self, doing: str, subject: Pod | str, error: BaseException, **fields: str) -> None:
        """Record an error that occurred while `doing` something with `subject`; `fields` as in `about`."""
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
    """Where the error was raised. The number of places is bounded by the lines of the code."""
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    if trace is None:
        return type(error).__name__, "", 0
    return type(error).__name__, trace.tb_frame.f_code.co_filename, trace.tb_lineno
