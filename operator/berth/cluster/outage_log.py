"""Telling people that the API server is away, now and then, and how long it was when it is back."""

import logging

COMPLAINT_SECONDS = 30.0

_log = logging.getLogger(__name__)


class OutageLog:
    """Says that the API server is away, now and then, and how long it was when it is back."""

    def __init__(self) -> None:
        self._since_seconds: float | None = None
        self._complained_seconds = 0.0

    def note(self, problem: Exception | None, now_seconds: float) -> None:
        if problem is None:
            if self._since_seconds is not None:
                _log.info("The API server is back after %.0f s", now_seconds - self._since_seconds)
            self._since_seconds = None
            return
        is_new = self._since_seconds is None
        if is_new:
            self._since_seconds = now_seconds
        if is_new or now_seconds - self._complained_seconds >= COMPLAINT_SECONDS:
            self._complained_seconds = now_seconds
            _log.warning("The API server is away; going on when it is back: %s", problem)
