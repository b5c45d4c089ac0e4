"""Logs that can be read by people and by machines, without the same line every second."""

import json
import logging

from berth.serving.logs import JsonFormatter, Repeats


def record(message: str, *arguments: object, logger: str = "kopf.clients") -> logging.LogRecord:
    return logging.LogRecord(logger, logging.ERROR, __file__, 1, message, arguments, None)


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
    line = json.loads(JsonFormatter().format(record("a %s", "b", logger="berth.x")))
    assert (line["level"], line["logger"], line["message"]) == ("error", "berth.x", "a b")


def test_what_berth_says_is_never_held_back() -> None:
    repeats = Repeats(lambda: 0.0)
    for logger in ("berth.runtime", "asyncio", "kopfberth"):
        assert all(repeats.filter(record("The API server is away", logger=logger)) for _ in range(3))


def test_the_time_of_a_json_line_says_its_zone() -> None:
    late = record("a")
    late.created = 1767225600.25
    assert json.loads(JsonFormatter().format(late))["time"] == "2026-01-01T00:00:00.250000Z"
