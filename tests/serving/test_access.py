"""Who is let in: tokens, rights, and what is remembered of them."""

import asyncio
import json
import logging
from collections.abc import Iterator

import pytest

from berth.scheduler.access_review import User
from berth.serving import authorizer as authorizers
from berth.serving import logs, review_cache
from berth.serving.authorizer import AccessDenied, Authorizer, read_token
from berth.serving.bridge import Bridge
from serving.harness import GUARDED, FakeReviews, serving
from support.reachable import reachable


@pytest.fixture(autouse=True)
def same_level() -> Iterator[None]:
    loggers = [logging.getLogger(name) for name in (None, "kopf", "kubernetes_asyncio")]
    levels = [logger.level for logger in loggers]
    yield
    for logger, level in zip(loggers, levels, strict=True):
        logger.setLevel(level)


@pytest.mark.parametrize("method", ["GET", "PUT", "POST", "DELETE", "HEAD", "OPTIONS", "PATCH"])
async def test_without_a_token_and_with_a_bad_one_everything_but_health_is_401(method: str) -> None:
    async with serving(debug=True) as running:
        for path in GUARDED:
            assert (await running.send(method, path))[0] == 401
            assert (await running.send(method, path, "stolen"))[0] == 401


async def test_plain_http_asks_for_the_same_tokens_and_rights() -> None:
    async with serving(debug=True) as running:
        for path in GUARDED:
            assert (await running.get(path, plain=True))[0] == 401
            assert (await running.get(path, "stolen", plain=True))[0] == 401
            assert (await running.get(path, "guest-token", plain=True))[0] == 403
        assert (await running.get("/metrics", "admin-token", plain=True))[0] == 200
        assert (await running.get("/livez", plain=True))[0] == 200


async def test_without_the_right_everything_but_health_is_403() -> None:
    async with serving(debug=True) as running:
        for path in GUARDED:
            status, text = await running.get(path, "guest-token")
            assert (status, text) == (403, 'guest may not "get" this path\n')


async def test_a_right_is_for_one_verb_and_one_path() -> None:
    reviews = FakeReviews(rights=lambda name, verb, path: (verb, path) == ("get", "/log-level"))
    async with serving(reviews=reviews) as running:
        assert (await running.get("/log-level", "guest-token"))[0] == 200
        assert (await running.send("PUT", "/log-level", "guest-token", data=b"debug"))[0] == 403
        assert (await running.get("/configz", "guest-token"))[0] == 403
        assert (await running.get("/log-level/../configz", "guest-token"))[0] == 403
        assert (await running.get("/%63onfigz", "guest-token"))[0] == 403
    assert ("allows", "guest", "get", "/configz") in reviews.asked


async def test_with_the_right_everything_is_there_and_nothing_else() -> None:
    configuration = {"berth": {"version": "1"}}
    async with serving(configuration=lambda: configuration) as running:
        assert (await running.get("/metrics", "admin-token"))[0] == 200
        assert json.loads((await running.get("/configz", "admin-token"))[1]) == configuration
        for path in ("/debug/cache", "/debug/queue", "/nothing", "/", "/metrics/"):
            assert (await running.get(path, "admin-token"))[0] == 404
        assert (await running.send("POST", "/metrics", "admin-token"))[0] == 405
        assert (await running.send("DELETE", "/log-level", "admin-token"))[0] == 405


@pytest.mark.parametrize(("failing", "status"), [("identify", 401), ("allows", 403)])
async def test_a_review_that_fails_denies_and_is_not_remembered(failing: str, status: int) -> None:
    reviews = FakeReviews(failing=failing)
    async with serving(reviews=reviews) as running:
        assert (await running.get("/configz", "admin-token"))[0] == status
        assert running.server.statistics()["access"]["failed"] == 1
        reviews.failing = ""
        assert (await running.get("/configz", "admin-token"))[0] == 200


async def test_the_answers_have_headers_that_keep_browsers_from_guessing() -> None:
    async with serving() as running:
        for path, token in (("/livez", ""), ("/metrics", ""), ("/metrics", "admin-token"), ("/nothing", "admin-token")):
            headers = {"Authorization": f"Bearer {token}"}
            async with running.session.get(running.url(path), headers=headers) as answer:
                assert answer.headers["X-Content-Type-Options"] == "nosniff"
                assert answer.headers["Cache-Control"] == "no-store"
                assert answer.headers["Server"] == "berth"
                assert ("WWW-Authenticate" in answer.headers) is (answer.status == 401)


# --- the log level ---------------------------------------------------------------------------------------------------


async def test_the_log_level_is_changed_while_it_runs_and_the_log_says_by_whom(
    caplog: pytest.LogCaptureFixture,
) -> None:
    logs.set_level("info")
    async with serving() as running:
        assert await running.get("/log-level", "admin-token") == (200, "info\n")
        for level in ("debug", "error", "warning"):
            answer = await running.send("PUT", "/log-level", "admin-token", data=f" {level.upper()}\n".encode())
            assert answer == (200, f"{level}\n")
            assert logs.get_level() == level
        assert logging.getLogger("kopf").level == logging.WARNING
        for nonsense in (b"", b"loud", b"\xff" * 20, b"x" * 5000):
            assert (await running.send("PUT", "/log-level", "admin-token", data=nonsense))[0] == 400
    assert [record.getMessage() for record in caplog.records if record.name == "berth.serving.logs"] == [
        "The log level was info and is debug, as 'admin' has asked",
        "The log level was debug and is error, as 'admin' has asked",
        "The log level was error and is warning, as 'admin' has asked",
    ]
    assert "admin-token" not in caplog.text


# --- the authorizer itself -------------------------------------------------------------------------------------------


class Time:
    def __init__(self) -> None:
        self.seconds = 0.0

    def __call__(self) -> float:
        return self.seconds


def make_authorizer(reviews: FakeReviews, time: Time | None = None) -> Authorizer:
    return Authorizer(reviews, Bridge(asyncio.get_running_loop()), time or Time())


async def test_positive_and_negative_results_are_cached_for_ten_seconds() -> None:
    reviews, time = FakeReviews(), Time()
    authorizer = make_authorizer(reviews, time)
    for _ in range(3):
        assert await authorizer.admit("Bearer admin-token", "get", "/metrics") == User("admin")
        assert await authorizer.admit("Bearer guest-token", "get", "/metrics") == AccessDenied(
            403, 'guest may not "get" this path'
        )
        assert await authorizer.admit("Bearer nobody", "get", "/metrics") == AccessDenied(401, "the token is not valid")
    assert len(reviews.asked) == 5
    time.seconds = 9.9
    await authorizer.admit("Bearer admin-token", "get", "/metrics")
    assert len(reviews.asked) == 5
    time.seconds = 10.0
    reviews.tokens = {}
    assert isinstance(await authorizer.admit("Bearer admin-token", "get", "/metrics"), AccessDenied)


async def test_requests_with_the_same_token_share_one_review() -> None:
    reviews = FakeReviews(gate=asyncio.Event())
    authorizer = make_authorizer(reviews)
    waiting = [asyncio.create_task(authorizer.admit("Bearer admin-token", "get", "/metrics")) for _ in range(50)]
    while not reviews.asked:  # noqa: ASYNC110
        await asyncio.sleep(0)
    waiting[0].cancel()  # whoever goes takes nobody along
    assert reviews.gate is not None
    reviews.gate.set()
    answers = await asyncio.gather(*waiting, return_exceptions=True)
    assert answers[1:] == [User("admin")] * 49
    assert reviews.asked == [("identify", "admin-token"), ("allows", "admin", "get", "/metrics")]


async def test_reviews_at_once_and_cached_results_are_limited(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(review_cache, "CACHE_SIZE", 20)
    reviews = FakeReviews(gate=asyncio.Event())
    authorizer = make_authorizer(reviews)
    waiting = [asyncio.create_task(authorizer.admit(f"Bearer guess-{n}", "get", "/metrics")) for n in range(100)]
    for _ in range(100):
        await asyncio.sleep(0)
    assert len(reviews.asked) == authorizers.REVIEWS_AT_ONCE
    assert reviews.gate is not None
    reviews.gate.set()
    assert {answer.status for answer in await asyncio.gather(*waiting) if isinstance(answer, AccessDenied)} == {401}
    assert authorizer.statistics() == {"cached": 20, "reviews": 100, "401": 100}


async def test_a_review_without_an_answer_denies_in_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(review_cache, "REVIEW_SECONDS", 0.01)
    authorizer = make_authorizer(FakeReviews(gate=asyncio.Event()))
    denied = await authorizer.admit("Bearer admin-token", "get", "/metrics")
    assert denied == AccessDenied(401, "the token could not be reviewed")


async def test_an_unexpected_error_denies_access(monkeypatch: pytest.MonkeyPatch) -> None:
    async def surprise(self: FakeReviews, token: str) -> User | None:
        raise KeyError("surprise")

    monkeypatch.setattr(FakeReviews, "identify", surprise)
    authorizer = make_authorizer(FakeReviews())
    denied = await authorizer.admit("Bearer admin-token", "get", "/metrics")
    assert denied == AccessDenied(401, "the token could not be reviewed")
    assert authorizer.statistics()["failed"] == 1


async def test_tokens_are_not_stored() -> None:
    authorizer = make_authorizer(FakeReviews())
    await authorizer.admit("Bearer admin-token", "get", "/metrics")
    stored = [each for each in reachable(authorizer, (FakeReviews, asyncio.AbstractEventLoop)) if isinstance(each, str)]
    assert "admin" in stored
    assert [each for each in stored if "admin-token" in each] == []


@pytest.mark.parametrize("header", ["Bearer abc.def-_~+/==", "bearer  abc.def-_~+/== "])
def test_a_bearer_token_is_read(header: str) -> None:
    assert read_token(header) == "abc.def-_~+/=="


@pytest.mark.parametrize(
    "header",
    ["", "Bearer", "Bearer ", "Basic abc", "Bearer a b", "Bearer \u00e9", "Bearer a\n", "Bearer " + 9000 * "a"],
)
def test_an_invalid_token_is_not_reviewed(header: str) -> None:
    assert read_token(header) is None
