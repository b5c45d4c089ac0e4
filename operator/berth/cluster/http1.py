"""HTTP/1.1 as an API server speaks it: a request as bytes, and an answer read from bytes in whatever pieces they come.

The reader is strict. What is not plainly an answer (a field without a colon, two lengths, a length beside chunks, a
compression nobody asked for) is a BadAnswer and proves nothing, and the connection is given up: where an answer ends
must never be a guess, since the next one on the connection would begin there.

An answer ends at its Content-Length, at the last chunk, or, if it has neither, at the end of the connection. Interim
answers (1xx) are passed over. What it does not do: upgrades, pipelining, trailers (read and dropped).
"""

import re
import zlib
from collections.abc import Mapping
from typing import NamedTuple
from urllib.parse import urlencode

HEAD_BYTES = 64 * 1024  # the longest head of an answer
LINE_BYTES = 1024  # the longest line between chunks
_HEAD = re.compile(rb"HTTP/1\.([01]) ([1-9]\d\d)(?: ([^\r\n\0]*))?(?:\r\n[!#$%&'*+.^_`|~0-9A-Za-z-]+:[^\r\n\0]*)*")
_FIELDS = re.compile(
    rb"\r\n(content-length|transfer-encoding|content-encoding|connection|retry-after):[ \t]*([^\r\n]*)", re.IGNORECASE
)
_LENGTH = re.compile(rb"\d{1,15}")
_CHUNK = re.compile(rb"([0-9A-Fa-f]{1,12})[ \t]*(?:;.*)?")
_UNFIT = re.compile(r"[^\t\x20-\x7e]")  # for the value of a field
_START = b"HTTP/1."


class Request(NamedTuple):
    """What is asked for; `path` begins with a slash and needs no quoting, `data` is the body."""

    method: str
    path: str
    query: Mapping[str, str] | None
    accept: str
    user_agent: str
    authorization: str | None
    content_type: str
    data: bytes | None


class Answer(NamedTuple):
    """What came back, before it is parsed."""

    status: int
    reason: str
    raw: bytes
    retry_after_seconds: float


class BadAnswer(Exception):
    """What came is no answer that can be understood."""


class _Head(NamedTuple):
    status: int
    reason: str
    retry_after_seconds: float
    keeps_alive: bool
    is_compressed: bool
    length: int | None  # of the body; None: it has none that is known
    is_chunked: bool


def encode_request(request: Request, host: str, prefix: str) -> bytes:
    """The bytes to send to a server of this name, whose paths begin with `prefix`. ValueError: it cannot be sent."""
    target = f"{prefix}{request.path}"
    if request.query:
        target = f"{target}?{urlencode(request.query)}"
    authorization = ""
    if request.authorization is not None:
        if _UNFIT.search(request.authorization):
            raise ValueError("the credentials have characters that no header can carry")
        authorization = f"Authorization: {request.authorization}\r\n"
    data = request.data
    if data is not None:
        body = f"Content-Type: {request.content_type}\r\nContent-Length: {len(data)}\r\n"
    elif request.method == "GET":
        body = "Accept-Encoding: gzip\r\n"  # lists are long
    else:
        body = "Content-Length: 0\r\n"
    head = (
        f"{request.method} {target} HTTP/1.1\r\nHost: {host}\r\nAccept: {request.accept}\r\n"
        f"User-Agent: {request.user_agent}\r\n{authorization}{body}\r\n"
    ).encode("ascii")
    return head if data is None else head + data


class AnswerReader:
    """Reads one answer; `keeps_alive` says, when it is read, whether the connection may be used for another."""

    def __init__(self) -> None:
        self._head: _Head | None = None
        self._rest = b""  # of a head or a line that has not come completely
        self._body: list[bytes] = []
        self._missing = 0  # bytes of the body, or of the chunk
        self._chunk_line = _SIZE
        self.keeps_alive = False

    def feed(self, data: bytes) -> Answer | None:
        """The answer, once its last byte has come; raises BadAnswer."""
        head = self._head
        if head is None:
            data = self._rest + data
            self._rest = b""
            head = self._read_head(data)
            if head is None:
                return None
            data = self._rest
            self._rest = b""
        if head.is_chunked:
            return self._feed_chunks(head, data)
        if head.length is None:
            self._body.append(data)
            return None
        return self._feed_length(head, data)

    def end(self) -> Answer:
        """The connection has ended: the answer, if that is how it ends; raises BadAnswer for half of one."""
        head = self._head
        if head is None or head.is_chunked or head.length is not None:
            raise BadAnswer("the connection was closed before the answer was complete")
        return self._finish(head, keeps_alive=False)

    def _read_head(self, data: bytes) -> _Head | None:
        """The head that is complete, with what follows it as the rest."""
        while True:
            if data[: len(_START)] != _START[: len(data)]:
                raise BadAnswer("the answer is not HTTP/1.1")
            end = data.find(b"\r\n\r\n", 0, HEAD_BYTES)
            if end < 0:
                if len(data) >= HEAD_BYTES:
                    raise BadAnswer(f"the head of the answer is longer than {HEAD_BYTES} bytes")
                self._rest = data
                return None
            head = _parse_head(data, end)
            data = data[end + 4 :]
            if head.status >= 200:
                self._head, self._rest = head, data
                self._missing = head.length or 0
                return head
            if head.status == 101:
                raise BadAnswer("the server has changed the protocol, which nobody asked for")

    def _feed_length(self, head: _Head, data: bytes) -> Answer | None:
        missing = self._missing = self._missing - len(data)
        if missing > 0:
            self._body.append(data)
            return None
        self._body.append(data[:missing] if missing else data)
        return self._finish(head, keeps_alive=head.keeps_alive and not missing)

    def _feed_chunks(self, head: _Head, data: bytes) -> Answer | None:
        """Chunk by chunk: a line with its size, the data, an empty line; size 0 and lines up to an empty one end it."""
        data, self._rest = self._rest + data, b""
        at = 0
        while at < len(data):
            if self._missing:
                piece = data[at : at + self._missing]
                self._body.append(piece)
                self._missing -= len(piece)
                at += len(piece)
                continue
            end = data.find(b"\r\n", at, at + LINE_BYTES)
            if end < 0:
                if len(data) - at >= LINE_BYTES:
                    raise BadAnswer(f"a line between chunks is longer than {LINE_BYTES} bytes")
                self._rest = data[at:]
                return None
            line, at = data[at:end], end + 2
            if self._read_line(line):
                return self._finish(head, keeps_alive=head.keeps_alive and at == len(data))
        return None

    def _read_line(self, line: bytes) -> bool:
        """Whether it is the last line of the answer."""
        if self._chunk_line is _SIZE:
            found = _CHUNK.fullmatch(line)
            if found is None:
                raise BadAnswer("a chunk of the answer has no size")
            self._missing = int(found[1], 16)
            self._chunk_line = _AFTER_DATA if self._missing else _TRAILER
        elif self._chunk_line is _AFTER_DATA:
            if line:
                raise BadAnswer("a chunk of the answer is longer than its size")
            self._chunk_line = _SIZE
        else:
            return not line
        return False

    def _finish(self, head: _Head, *, keeps_alive: bool) -> Answer:
        self.keeps_alive = keeps_alive
        raw = self._body[0] if len(self._body) == 1 else b"".join(self._body)
        if head.is_compressed and raw:
            raw = _decompress(raw)
        return Answer(head.status, head.reason, raw, head.retry_after_seconds)


# The lines between chunks, by what comes next.
_SIZE, _AFTER_DATA, _TRAILER = "size", "after data", "trailer"


def _parse_head(data: bytes, end: int) -> _Head:
    found = _HEAD.fullmatch(data, 0, end)
    if found is None:
        raise BadAnswer("the head of the answer is malformed")
    status = int(found[2])
    fields: dict[bytes, bytes] = {}
    for name, value in _FIELDS.findall(data, 0, end):
        name, value = name.lower(), value.rstrip(b" \t")
        if name in fields:
            if name in (b"connection", b"retry-after"):
                value = fields[name] + b"," + value
            else:
                raise BadAnswer(f"the answer has two fields {name.decode()}")
        fields[name] = value
    length, is_chunked = _framing(status, fields)
    encoding = fields.get(b"content-encoding", b"identity").lower()
    if encoding not in (b"identity", b"gzip", b""):
        raise BadAnswer("the answer is compressed in a way that nobody asked for")
    after = fields.get(b"retry-after", b"")
    return _Head(
        status,
        (found[3] or b"").decode("latin-1"),
        float(after) if after.isdigit() else 0.0,
        found[1] == b"1" and b"close" not in fields.get(b"connection", b"").lower(),
        encoding == b"gzip",
        length,
        is_chunked,
    )


def _framing(status: int, fields: Mapping[bytes, bytes]) -> tuple[int | None, bool]:
    """How long the body is, and whether it comes in chunks."""
    length, coding = fields.get(b"content-length"), fields.get(b"transfer-encoding")
    if status < 200 or status in (204, 304):
        return 0, False
    if coding is not None:
        if length is not None or coding.lower() != b"chunked":
            raise BadAnswer("nobody can say where the answer ends")
        return None, True
    if length is None:
        return None, False
    if not _LENGTH.fullmatch(length):
        raise BadAnswer("the length of the answer is no number")
    return int(length), False


def _decompress(raw: bytes) -> bytes:
    stream = zlib.decompressobj(wbits=31)
    try:
        plain = stream.decompress(raw)
    except zlib.error as error:
        raise BadAnswer(f"the answer cannot be decompressed: {error}") from error
    if not stream.eof:
        raise BadAnswer("the compressed answer is not complete")
    return plain
