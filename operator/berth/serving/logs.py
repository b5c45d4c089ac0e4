"""Logs: one line a record on standard error, as text or as JSON, without the same complaint every second.

kopf reports every failed attempt of every watch. During an outage that is a line a second a kind, all saying the
same; each such message is let through once a minute, and one for all kinds together while the server does not answer.
Only kopf's lines are held back: what Berth says is said as often as it happens.
"""

import logging
import re
import sys
import time
from collections.abc import Callable
from datetime import UTC, datetime

import orjson

TEXT_FORMAT = "%(asctime)s %(levelname)-8s %(name)s: %(message)s"
REPEAT_SECONDS = 60.0
REMEMBERED = 1000
LEVELS = ("debug", "info", "warning", "error")
FORMATS = ("text", "json")
_ATTEMPT = re.compile(r"#\d+(/\d+)?")
_OUTAGE = re.compile(
    r"^Request attempt .*(ClientConnectorError|ServerDisconnected|APIServerError|TooManyRequests|Timeout)", re.S
)


class Repeats(logging.Filter):
    """Lets a message of kopf through once a minute; those of one outage, or that differ in an attempt's number only,
    are the same. Messages of others pass."""

    def __init__(self, now: Callable[[], float] = time.monotonic) -> None:
        super().__init__()
        self._now = now
        self._said: dict[str, float] = {}

    def filter(self, record: logging.LogRecord) -> bool:
        if record.name.partition(".")[0] != "kopf":
            return True
        message = record.getMessage()
        text = "outage" if _OUTAGE.match(message) else _ATTEMPT.sub("#", message)
        now = self._now()
        if now - self._said.get(text, -REPEAT_SECONDS) < REPEAT_SECONDS:
            return False
        if len(self._said) >= REMEMBERED:
            self._said.clear()
        self._said[text] = now
        return True


class JsonFormatter(logging.Formatter):
    """One JSON object a line; the time is UTC, as RFC 3339 writes it."""

    def format(self, record: logging.LogRecord) -> str:
        line = {
            "time": datetime.fromtimestamp(record.created, UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        if record.exc_info:
            line["exception"] = self.formatException(record.exc_info)
        return orjson.dumps(line, default=str).decode()


def configure(level: str, style: str) -> None:
    """Set the process's logging up; kopf speaks from warnings on, unless everything is wanted."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonFormatter() if style == "json" else logging.Formatter(TEXT_FORMAT))
    logging.basicConfig(level=level.upper(), handlers=[handler], force=True)
    if level != "debug":
        logging.getLogger("kopf").setLevel(logging.WARNING)
        logging.getLogger("kubernetes_asyncio").setLevel(logging.WARNING)
        handler.addFilter(Repeats())
