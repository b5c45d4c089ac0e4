"""HTTP/1.1 by hand: what is sent, and that an answer is the same in whatever pieces it comes."""

import gzip
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from berth.cluster.http1 import HEAD_BYTES, LINE_BYTES, Answer, AnswerReader, BadAnswer, Request, encode_request

POST = Request("POST", "/api/v1/x", {"timeout": "10s"}, "application/json", "berth/1", "Bearer t", "text/x", b"{}")


def read(raw: bytes, cuts: list[int] | None = None) -> tuple[Answer | None, AnswerReader]:
    """The answer, given in pieces that begin at these places."""
    reader = AnswerReader()
    answer = None
    edges = [0, *sorted(cuts or []), len(raw)]
    for begin, end in pairwise(edges):
        if begin < end:
            assert answer is None, "the answer was complete before its end"
            answer = reader.feed(raw[begin:end])
    return answer, reader


def chunked(*chunks: bytes, trailer: bytes = b"", extension: bytes = b"") -> bytes:
    sizes = b"".join(b"%x%b\r\n%b\r\n" % (len(chunk), extension, chunk) for chunk in chunks if chunk)
    return sizes + b"0\r\n" + trailer + b"\r\n"


def answer(body: bytes, *fields: bytes, status: bytes = b"200 OK", version: bytes = b"1.1") -> bytes:
    return b"HTTP/%b %b\r\n%b\r\n%b" % (version, status, b"".join(field + b"\r\n" for field in fields), body)


def with_length(body: bytes, *fields: bytes, status: bytes = b"200 OK") -> bytes:
    return answer(body, b"Content-Length: %d" % len(body), *fields, status=status)


def test_a_request_is_one_piece_of_bytes() -> None:
    assert encode_request(POST, "api:6443", "/prefix") == (
        b"POST /prefix/api/v1/x?timeout=10s HTTP/1.1\r\nHost: api:6443\r\nAccept: application/json\r\n"
        b"User-Agent: berth/1\r\nAuthorization: Bearer t\r\nContent-Type: text/x\r\nContent-Length: 2\r\n\r\n{}"
    )


def test_a_request_without_a_body_says_so_unless_it_is_a_get() -> None:
    bare = POST._replace(data=None, authorization=None, query={"fieldSelector": "a!=b,c=d e"})
    assert encode_request(bare, "x", "").endswith(b"Content-Length: 0\r\n\r\n")
    get = encode_request(bare._replace(method="GET"), "x", "")
    assert get.startswith(b"GET /api/v1/x?fieldSelector=a%21%3Db%2Cc%3Dd+e HTTP/1.1\r\n")
    assert b"Content-Length" not in get
    assert b"Authorization" not in get


@pytest.mark.parametrize("token", ["a\r\nHost: b", "a\nb", "a\0b", "caf\u00e9", "\ud800"])
def test_credentials_that_would_end_the_header_are_not_sent(token: str) -> None:
    with pytest.raises(ValueError, match="characters"):
        encode_request(POST._replace(authorization=f"Bearer {token}"), "x", "")


bodies = st.lists(st.binary(max_size=40), max_size=5)
fields = st.lists(
    st.sampled_from([b"Date: x", b"x-empty:", b"Retry-After:  7 ", b"Connection: keep-alive", b"A:b:c"]), unique=True
)


@given(bodies, fields, st.booleans(), st.booleans(), st.booleans(), st.lists(st.integers(0, 400)))
def test_any_pieces_give_the_same_answer(
    parts: list[bytes], given_fields: list[bytes], in_chunks: bool, interim: bool, zipped: bool, cuts: list[int]
) -> None:
    body = b"".join(parts)
    sent = gzip.compress(body, mtime=0) if zipped else body
    heads = [*given_fields, *([b"Content-Encoding: gzip"] if zipped else [])]
    if in_chunks:
        framed = chunked(*([sent] if zipped else parts), trailer=b"A: b\r\n", extension=b";x=y")
        raw = answer(framed, b"Transfer-Encoding: Chunked", *heads, status=b"201 Created")
    else:
        raw = with_length(sent, *heads, status=b"201 Created")
    if interim:
        raw = answer(b"", status=b"100 Continue") + raw
    found, reader = read(raw, [cut for cut in cuts if cut < len(raw)])
    after = 7.0 if b"Retry-After:  7 " in given_fields else 0.0
    assert found == Answer(201, "Created", body, after)
    assert reader.keeps_alive


@given(st.binary(max_size=60), st.lists(st.integers(0, 80)))
def test_an_answer_without_a_length_ends_with_the_connection(body: bytes, cuts: list[int]) -> None:
    raw = answer(body)
    found, reader = read(raw, [cut for cut in cuts if cut < len(raw)])
    assert found is None
    assert reader.end() == Answer(200, "OK", body, 0.0)
    assert not reader.keeps_alive


@pytest.mark.parametrize(
    "raw",
    [with_length(b"{}", b"Connection: close"), with_length(b"{}", b"connection: x, Close"), with_length(b"{}") + b"H"],
)
def test_a_connection_that_ends_or_goes_on_unasked_is_not_kept(raw: bytes) -> None:
    found, reader = read(raw)
    assert found is not None
    assert found.raw == b"{}"
    assert not reader.keeps_alive


def test_http_1_0_is_not_kept() -> None:
    found, reader = read(answer(b"{}", b"Content-Length: 2", version=b"1.0"))
    assert found is not None
    assert not reader.keeps_alive


@pytest.mark.parametrize("status", [b"204 No Content", b"304 Not Modified"])
def test_some_answers_have_no_body(status: bytes) -> None:
    found, reader = read(answer(b"", status=status))
    assert found is not None
    assert reader.keeps_alive


@pytest.mark.parametrize(
    "raw",
    [
        b"SSH-2.0-x\r\n",
        b"\x15\x03\x01\x00\x02",
        b"HTTP/2 200\r\n\r\n",
        b"HTTP/1.1 20 OK\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nno colon\r\n\r\n",
        b"HTTP/1.1 200 OK\r\n folded: x\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nna me: x\r\n\r\n",
        b"HTTP/1.1 200 OK\r\na: \0\r\n\r\n",
        b"HTTP/1.1 200 OK\na: b\r\n\r\n",
        answer(b"", b"Content-Length: 2", b"Content-Length: 3"),
        answer(b"", b"Content-Length: -1"),
        answer(b"", b"Content-Length: 1e3"),
        answer(b"", b"Content-Length: " + b"9" * 16),
        answer(b"", b"Content-Length: 3", b"Transfer-Encoding: chunked"),
        answer(b"", b"Transfer-Encoding: gzip, chunked"),
        answer(b"", b"Content-Length: 1", b"Content-Encoding: br"),
        answer(b"", status=b"101 Switching Protocols"),
        answer(b"x\r\n", b"Transfer-Encoding: chunked"),
        answer(b"-1\r\n", b"Transfer-Encoding: chunked"),
        answer(b"2\r\nabc\r\n", b"Transfer-Encoding: chunked"),
        answer(b"1" * LINE_BYTES, b"Transfer-Encoding: chunked"),
        b"HTTP/1.1 200 OK\r\na: " + b"x" * HEAD_BYTES,
        with_length(b"no gzip", b"Content-Encoding: gzip"),
        with_length(gzip.compress(b"x" * 99, mtime=0)[:-5], b"Content-Encoding: gzip"),
    ],
)
def test_what_is_no_answer_is_not_taken_for_one(raw: bytes) -> None:
    with pytest.raises(BadAnswer):
        read(raw)


@pytest.mark.parametrize(
    "raw", [b"", b"HTTP/1.1 200 OK\r\n", with_length(b"abc")[:-1], answer(b"3\r\nab", b"Transfer-Encoding: chunked")]
)
def test_half_an_answer_is_none(raw: bytes) -> None:
    found, reader = read(raw)
    assert found is None
    with pytest.raises(BadAnswer, match="before the answer was complete"):
        reader.end()
