"""Logs: one line for each record on standard error, as text or as JSON, without endless repetitions.

The message of a record says what happened. The objects that it is about are fields beside the message: `pod`
(namespace/name), `uid`, `node`, `policy`, `kind`. JSON lines have these fields; in text lines they are part of the
message.

kopf reports every failed attempt of every watch. During an outage these are equal lines every second for each kind.
Each such message is logged once a minute, and one for all kinds together while the server does not answer. Only kopf's
lines are held back, and none at level debug.

No secret and no object's spec is logged, at any level. Berth's own lines have names, fields and states only. Libraries
are less careful. kopf's object logger and the API client print objects at debug, so they are always limited to
warnings. An exception of the HTTP client may show the request's headers, so credentials are cut out of every line.

The JSON formatter is our own: python-json-logger would need as many lines to choose, rename and redact the fields.
"""

import logging
import re
import sys
import time
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import orjson

TEXT_FORMAT = "%(asctime)s %(levelname)-8s %(name)s: %(message)s"
REPEAT_SECONDS = 60.0
REMEMBERED = 1000
LEVELS = ("debug", "info", "warning", "error")
FORMATS = ("text", "json")
FIELDS = ("kind", "pod", "uid", "node", "policy", "version", "python", "configuration")
CHATTY = ("kopf",)  # too many lines at info
TALKATIVE = ("kopf.objects", "kubernetes_asyncio")  # print objects at debug
REMOVED = "[removed]"
_ATTEMPT = re.compile(r"#\d+(/\d+)?")
_OUTAGE = re.compile(
    r"^Request attempt .*(ClientConnectorError|ServerDisconnected|APIServerError|TooManyRequests|Timeout)", re.S
)
_CREDENTIALS = re.compile(
    r"""(?ix)
    ( authorization ['"]? \s* [:=,] \s* ['"]? ) [^'"\r\n]+   # a header, as a mapping or a request shows it
    | ( \b (?: bearer | basic ) \s+ ) [\w.~+/=-]{8,}         # what such a header says
    | ( :// ) [^/\s@'"]+ (?= @ )                             # user and password of an address
    """
)
_PRIVATE_KEY = re.compile(r"-----BEGIN [A-Z ]*PRIVATE KEY-----.*?(-----END [A-Z ]*PRIVATE KEY-----|\Z)", re.S)

_log = logging.getLogger(__name__)


class Repeats(logging.Filter):
    """Passes a message of kopf once a minute. Messages of one outage, or that differ only in an attempt's number, count
    as the same. Messages of other loggers always pass, and so do all with `everything`.
    """

    def __init__(self, now: Callable[[], float] = time.monotonic) -> None:
        super().__init__()
        self._now = now
        self._said: dict[str, float] = {}
        self.everything = False

    def filter(self, record: logging.LogRecord) -> bool:
        if self.everything or record.name.partition(".")[0] != "kopf":
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


def without_credentials(text: str) -> str:
    """Returns the text without what looks like a credential."""
    cut = _CREDENTIALS.sub(lambda found: f"{''.join(filter(None, found.groups()))}{REMOVED}", text)
    return _PRIVATE_KEY.sub(REMOVED, cut)


class TextFormatter(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        return without_credentials(super().format(record))


class JsonFormatter(logging.Formatter):
    """One JSON object for each line; the time is UTC in the form of RFC 3339."""

    def format(self, record: logging.LogRecord) -> str:
        line: dict[str, Any] = {
            "time": datetime.fromtimestamp(record.created, UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": without_credentials(record.getMessage()),
        }
        line |= {field: getattr(record, field) for field in FIELDS if getattr(record, field, None)}
        if record.exc_info:
            line["exception"] = without_credentials(self.formatException(record.exc_info))
        return orjson.dumps(line, default=str).decode()


_repeats = Repeats()


def configure(level: str, style: str) -> None:
    """Sets up the logging of the process."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonFormatter() if style == "json" else TextFormatter(TEXT_FORMAT))
    handler.addFilter(_repeats)
    logging.basicConfig(handlers=[handler], force=True)
    set_level(level)


def set_level(level: str) -> None:
    """Logs records of this level and above from now on. Raises ValueError if it is not one of LEVELS.

    Libraries are limited to warnings, except at level debug.
    """
    if level not in LEVELS:
        raise ValueError(f'"{level}" is not one of {", ".join(LEVELS)}')
    everything = _repeats.everything = level == "debug"
    logging.getLogger().setLevel(level.upper())
    for name in CHATTY:
        logging.getLogger(name).setLevel(logging.NOTSET if everything else logging.WARNING)
    for name in TALKATIVE:
        logging.getLogger(name).setLevel(logging.WARNING)


def get_level() -> str:
    """Returns the current level, the nearest of LEVELS."""
    number = logging.getLogger().getEffectiveLevel()
    return next((name for name in LEVELS if number <= logging.getLevelNamesMapping()[name.upper()]), LEVELS[-1])


def change_level(wanted: str, asked_by: str) -> None:
    """Changes the level. The line that says so is logged at the more verbose of the two levels."""
    quieter = logging.getLevelNamesMapping()[wanted.upper()] > logging.getLogger().getEffectiveLevel()
    said = f"The log level was {get_level()} and is {wanted}, as %r has asked"
    if quieter:
        _log.warning(said, asked_by)
    set_level(wanted)
    if not quieter:
        _log.warning(said, asked_by)
