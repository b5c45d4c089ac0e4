"""Logs that can be read by people and by machines, without the same line every second."""

import json
import logging

from berth.serving.logs import JsonFormatter, Repeats


def record(message: str, *arguments: object) -> logging.LogRecord:
    return logging.LogRecord("berth.x", logging.ERROR, __file__, 1, message, arguments, None)


def test_the_same_message_comes_once_a_minute() -> None:
    now = [0.0]
    repeats = Repeats(lambda: now[0])
    assert repeats.filter(record("Request attempt #1 failed; will retry: GET /a -> APIForbiddenError()"))
    assert not repeats.filter(record("Request attempt #2 failed; will retry: GET /a -> APIForbiddenError()"))
    assert repeats.filter(record("Request attempt #1 failed; will retry: GET /b -> APIForbiddenError()"))
    now[0] = 60.0
    assert repeats.filter(record("Request attempt #9 failed; will retry: GET /a -> APIForbiddenError()"))


def test_an_outage_is_one_message_for_all_kinds() -> None:
    repeats = Repeats(lambda: 0.0)
    assert repeats.filter(record("Request attempt #1 failed; will retry: GET /a -> ClientConnectorError(x)"))
    assert not repeats.filter(record("Request attempt #1 failed; will retry: GET /b -> ClientConnectorError(x)"))


def test_json_lines_are_json() -> None:
    line = json.loads(JsonFormatter().format(record("a %s", "b")))
    assert (line["level"], line["logger"], line["message"]) == ("error", "berth.x", "a b")
