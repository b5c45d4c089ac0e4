"""The lean client: answers and watch lines in whatever pieces they come, and what is sent again."""

from __future__ import annotations

import asyncio

import pytest

from bench.lean import Answer, Broken, Connection, LeanClient, Lines, Refused, Request, parse_answer

HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n"
CHUNKED = HEAD + b"Transfer-Encoding: chunked\r\n\r\n"


def test_an_answer_with_a_length_is_complete_when_all_of_it_is_there() -> None:
    raw = HEAD + b"Content-Length: 11\r\n\r\nhello world"
    assert all(parse_answer(raw[:end]) is None for end in range(len(raw)))
    assert parse_answer(raw) == Answer(200, b"hello world")


def test_a_chunked_answer_is_complete_with_its_last_chunk() -> None:
    raw = CHUNKED + b"6\r\nhello \r\n5\r\nworld\r\n0\r\n\r\n"
    assert all(parse_answer(raw[:end]) is None for end in range(len(raw)))
    assert parse_answer(raw) == Answer(200, b"hello world")


@pytest.mark.parametrize("size", [1, 2, 3, 7, 1000])
def test_lines_are_the_same_in_whatever_pieces_they_come(size: int) -> None:
    raw = CHUNKED + b"8\r\none\ntwo\n\r\n5\r\nthree\r\n1\r\n\n\r\n"
    lines = Lines()
    found = [line for start in range(0, len(raw), size) for line in lines.feed(raw[start : start + size])]
    assert found == [b"one", b"two", b"three"]
    assert not lines.ended


def test_the_end_of_a_watch_is_seen_though_the_connection_stays() -> None:
    lines = Lines()
    assert list(lines.feed(CHUNKED + b"4\r\none\n\r\n0\r\n\r\n")) == [b"one"]
    assert lines.ended


def test_a_watch_that_is_refused_is_an_error() -> None:
    with pytest.raises(Broken, match="410 Gone"):
        list(Lines().feed(b"HTTP/1.1 410 Gone\r\n\r\n{}"))


class Scripted(Connection):
    """A connection that answers from a list; None breaks it."""

    def __init__(self, answers: list[Answer | None]) -> None:
        self.answers = answers
        self.asked: list[Request] = []
        self.reusable = True

    async def ask(self, request: Request) -> Answer:
        self.asked.append(request)
        answer = self.answers.pop(0)
        if answer is None:
            raise Broken("cut")
        return answer

    def close(self) -> None:
        self.reusable = False


@pytest.fixture
def no_pause(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("bench.lean.PAUSE_SECONDS", 0)


async def send(request: Request, *answers: Answer | None) -> tuple[bytes, int]:
    connection = Scripted(list(answers))
    async with LeanClient("https://127.0.0.1:1", "token", connections=1, connect=lambda: connection) as api:
        return await asyncio.wait_for(api.send(request), 5), len(connection.asked)


POST = Request("POST", "/pods", b"{}")


async def test_a_broken_or_refused_for_now_request_is_sent_again(no_pause: None) -> None:
    assert await send(POST, None, Answer(429, b""), Answer(503, b""), Answer(201, b"made")) == (b"made", 4)


async def test_already_there_after_a_repetition_means_that_it_was_made(no_pause: None) -> None:
    assert await send(POST, None, Answer(409, b"there")) == (b"there", 2)


async def test_already_there_at_the_first_attempt_is_refused(no_pause: None) -> None:
    with pytest.raises(Refused, match=r"POST /pods: 409 taken"):
        await send(POST, Answer(409, b'{"message": "taken"}'))


async def test_without_an_answer_in_the_end_it_is_broken(no_pause: None) -> None:
    with pytest.raises(Broken, match="no answer"):
        await send(POST, *[None] * 8)
