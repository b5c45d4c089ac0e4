"""Logs that can be read by people and by machines, without the same line every second."""

import io
import json
import logging
import sys
from collections.abc import Iterator

import aiohttp
import pytest
from multidict import CIMultiDict, CIMultiDictProxy
from yarl import URL

from berth.model import parse_pod
from berth.scheduler.error_log import ErrorLog
from berth.scheduler.log_fields import about
from berth.serving import logs
from berth.serving.logs import JsonFormatter, Repeats, TextFormatter
from support.builders import make_pod


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


# --- whom it is about ------------------------------------------------------------------------------------------------


def test_json_lines_say_whom_they_are_about_in_fields() -> None:
    said = record("Pod %s waits", "default/web", logger="berth.x")
    vars(said).update(about(parse_pod(make_pod("web", uid="u1")), node="n1", policy="batch"))
    line = json.loads(JsonFormatter().format(said))
    assert {field: line[field] for field in ("kind", "pod", "uid", "node", "policy")} == {
        "kind": "Pod",
        "pod": "default/web",
        "uid": "u1",
        "node": "n1",
        "policy": "batch",
    }


def test_what_a_record_is_not_about_is_no_field() -> None:
    assert json.loads(JsonFormatter().format(record("a"))).keys() == {"time", "level", "logger", "message"}


def test_text_lines_are_for_people() -> None:
    said = record("Pod default/web waits", logger="berth.x")
    vars(said).update(about(parse_pod(make_pod("web"))))
    assert TextFormatter("%(name)s: %(message)s").format(said) == "berth.x: Pod default/web waits"


def test_a_fault_is_about_its_pod(caplog: pytest.LogCaptureFixture) -> None:
    ErrorLog().note("binding", parse_pod(make_pod("web", uid="u1")), ValueError("x"), node="n1")
    (said,) = caplog.records
    assert said.getMessage() == "binding Pod default/web: ValueError: x"
    assert (vars(said)["pod"], vars(said)["uid"], vars(said)["node"]) == ("default/web", "u1", "n1")


# --- the level -------------------------------------------------------------------------------------------------------


@pytest.fixture
def untouched() -> Iterator[None]:
    """The loggers are as they were afterwards."""
    names = ("", "kopf", *logs.TALKATIVE)
    levels = {name: logging.getLogger(name).level for name in names}
    handlers = logging.getLogger().handlers[:]
    yield
    for name, level in levels.items():
        logging.getLogger(name).setLevel(level)
    logging.getLogger().handlers[:] = handlers


@pytest.mark.usefixtures("untouched")
def test_the_level_can_be_changed_while_it_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    out = io.StringIO()
    monkeypatch.setattr(sys, "stderr", out)
    logs.configure("info", "text")
    berth, kopf = logging.getLogger("berth.x"), logging.getLogger("kopf.x")

    def say() -> list[str]:
        out.truncate(out.seek(0))
        for logger in (berth, kopf, kopf):
            logger.debug("small")
            logger.warning("great")
        return [f"{line.split(': ')[0].split()[-1]} {line.split()[-1]}" for line in out.getvalue().splitlines()]

    assert say() == ["berth.x great", "kopf.x great"]
    logs.set_level("debug")
    assert logs.get_level() == "debug"
    assert say() == ["berth.x small", "berth.x great", *["kopf.x small", "kopf.x great"] * 2]
    logs.set_level("error")
    assert say() == []
    logs.set_level("info")
    assert say() == ["berth.x great"]  # and kopf's was said within the minute


@pytest.mark.usefixtures("untouched")
def test_a_level_that_does_not_exist_is_refused_in_words() -> None:
    before = logs.get_level()
    with pytest.raises(ValueError, match='"loud" is not one of debug, info, warning, error'):
        logs.set_level("loud")
    assert logs.get_level() == before


@pytest.mark.usefixtures("untouched")
@pytest.mark.parametrize("level", logs.LEVELS)
def test_those_who_print_whole_objects_are_never_let(level: str) -> None:
    logs.set_level(level)
    for name in ("kopf.objects", "kubernetes_asyncio.client.rest"):
        assert not logging.getLogger(name).isEnabledFor(logging.DEBUG)


# --- what is never said ----------------------------------------------------------------------------------------------


def test_credentials_that_an_exception_shows_are_cut_out() -> None:
    headers: CIMultiDict[str] = CIMultiDict({"Host": "h", "Authorization": "Bearer sesame.open-1"})
    info = aiohttp.RequestInfo(URL("http://h/a"), "GET", CIMultiDictProxy(headers), URL("http://h/a"))
    error = aiohttp.ContentTypeError(info, ())
    assert "sesame" in repr(error)
    for formatter in (JsonFormatter(), TextFormatter("%(message)s")):
        assert "sesame" not in formatter.format(record("failed: %r", error))
        try:
            raise ValueError(repr(error))
        except ValueError:
            said = record("failed")
            said.exc_info = sys.exc_info()
        text = formatter.format(said)
        assert "sesame" not in text
        assert "ValueError" in text


@pytest.mark.parametrize(
    ("text", "left"),
    [
        ("{'Authorization': 'Bearer sesame'}", "{'Authorization': '[removed]'}"),
        ("authorization: Basic c2VzYW1l", "authorization: [removed]"),
        ("sent Bearer eyJh.bGci.sesame_-x", "sent Bearer [removed]"),
        ("GET https://me:sesame@proxy:3128/a", "GET https://[removed]@proxy:3128/a"),
        ("-----BEGIN RSA PRIVATE KEY-----\nsesame\n-----END RSA PRIVATE KEY-----, so", "[removed], so"),
        ("the bearer of news, at http://h:1/a@b", "the bearer of news, at http://h:1/a@b"),
    ],
)
def test_what_looks_like_a_credential_is_cut_out_and_nothing_else(text: str, left: str) -> None:
    assert logs.without_credentials(text) == left
