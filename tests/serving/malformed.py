"""Requests that nobody should send, by seed: bytes, broken HTTP, huge headers, odd paths, broken TLS.

Every request is a function of its number, so that one which breaks something can be sent again alone.
"""

import random
from collections.abc import Callable
from dataclasses import dataclass

METHODS = (b"GET", b"PUT", b"POST", b"HEAD", b"DELETE", b"TRACE", b"CONNECT", b"get", b"", b"G\x00T", b"X" * 300)
PATHS = (b"/livez", b"/readyz", b"/metrics", b"/configz", b"/debug/cache", b"/debug/queue", b"/log-level")
ODD_PATHS = (
    *(b"", b"*", b"//", b"/../../etc/passwd", b"/%00", b"/%", b"/%zz", b"/%ff%fe", b"/\xff\xfe", b"/a b", b"/#"),
    *(b"http://x/livez", b"http://[::1", b"/livez?%", b"/livez?verbose&verbose=\x01", b"/" + b"%2e%2e/" * 50),
    *(b"/debug//cache", b"/./metrics", b"/metrics;x", b"/\xe2\x98\x83", b"/livez\\..\\x", b"x:y", b"?", b"/" * 3000),
)
VERSIONS = (b"HTTP/1.1", b"HTTP/1.0", b"HTTP/0.9", b"HTTP/2.0", b"HTTP/1.1 ", b"HTTP/", b"", b"HTTP/-1.1", b"ICY/1.1")
HEADERS = (
    *(b"Host: x", b"Host:", b"Host: a\r\nHost: b", b": empty", b"NoColon", b"Na me: x", b"X: \x00", b"X:\x7f\xff"),
    *(b" folded: x", b"X: a\r\n b", b"Content-Length: -1", b"Content-Length: 9999999999999999", b"Content-Length: x"),
    *(b"Content-Length: 5\r\nContent-Length: 6", b"Transfer-Encoding: chunked", b"Transfer-Encoding: chunked, gzip"),
    *(b"Transfer-Encoding: chunked\r\nContent-Length: 3", b"Content-Encoding: gzip", b"Content-Encoding: deflate"),
    *(b"Connection: upgrade\r\nUpgrade: websocket", b"Connection: keep-alive", b"Connection: close, close"),
    *(b"Expect: 100-continue", b"Expect: magic", b"Range: bytes=0-", b"Cookie: " + b"a=b; " * 500),
    *(b"Authorization: Bearer " + b"\xff" * 20, b"Authorization: Bearer", b"Authorization: Basic \xe9"),
    *(b"X: " + b"y" * 9000, b"Content-Type: text/html; charset=\xff", b"X-Forwarded-For: 127.0.0.1", b"Proxy: x"),
)
BODIES = (
    *(b"", b"0\r\n\r\n", b"ffffffffffffffff\r\n", b"-1\r\n", b"5;ext=\x00\r\nhello\r\n0\r\n\r\n", b"zz\r\n"),
    *(b"\x1f\x8b\x08\x00", b"debug"),
)


@dataclass(frozen=True)
class Malformed:
    """What to send; `is_tls`: over TLS that works, else in the clear to the port of `to_https` or not."""

    data: bytes
    is_tls: bool = False
    to_https: bool = False
    parts: int = 1
    ends: bool = False
    """Whoever sends it says that nothing more will come, and else waits for an answer."""


def make(number: int) -> Malformed:
    """The request of this number."""
    fate = random.Random(number)
    made = fate.choice(KINDS)(fate)
    return Malformed(made.data, made.is_tls, made.to_https, fate.choice((1, 1, 1, 3)), fate.random() < 0.5)


def _noise(fate: random.Random) -> Malformed:
    return Malformed(fate.randbytes(fate.choice((1, 10, 100, 5000))), is_tls=_seldom(fate))


def _broken(fate: random.Random) -> Malformed:
    return Malformed(_compose(fate), is_tls=_seldom(fate))


def _pipelined(fate: random.Random) -> Malformed:
    return Malformed(b"".join(_compose(fate) for _ in range(fate.randint(2, 40))))


def _cut_off(fate: random.Random) -> Malformed:
    data = _compose(fate)
    return Malformed(data[: fate.randrange(len(data))], is_tls=_seldom(fate))


def _flipped(fate: random.Random) -> Malformed:
    """A good request with a few bytes changed."""
    data = bytearray(b"GET /metrics HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer abc\r\nAccept: */*\r\n\r\n")
    for _ in range(fate.randint(1, 5)):
        data[fate.randrange(len(data))] = fate.randrange(256)
    return Malformed(bytes(data), is_tls=_seldom(fate))


def _huge(fate: random.Random) -> Malformed:
    which = fate.randrange(4)
    if which == 0:
        return Malformed(b"GET /" + b"a" * fate.randint(9000, 200_000) + b" HTTP/1.1\r\n\r\n")
    if which == 1:
        many = b"".join(b"H%d: %s\r\n" % (n, b"v" * fate.randrange(100)) for n in range(fate.randint(65, 3000)))
        return Malformed(b"GET /livez HTTP/1.1\r\nHost: x\r\n" + many + b"\r\n")
    if which == 2:
        return Malformed(b"GET /livez HTTP/1.1\r\nX: " + b"y" * fate.randint(9000, 200_000) + b"\r\n\r\n")
    return Malformed(b"PUT /log-level HTTP/1.1\r\nHost: x\r\nContent-Length: 200000\r\n\r\n" + b"z" * 200_000)


def _broken_tls(fate: random.Random) -> Malformed:
    """To the HTTPS port, and no TLS, or the beginning of some."""
    hello = b"\x16\x03\x01\x00\xa5\x01\x00\x00\xa1\x03\x03" + fate.randbytes(160)
    which = fate.randrange(4)
    if which == 0:
        return Malformed(_compose(fate), to_https=True)
    if which == 1:
        return Malformed(fate.randbytes(fate.choice((1, 20, 2000))), to_https=True)
    if which == 2:
        return Malformed(hello[: fate.randrange(1, len(hello))], to_https=True)
    record = bytes([fate.randrange(256)]) + b"\x03" + bytes([fate.randrange(256)]) + fate.randbytes(fate.randrange(300))
    return Malformed(record, to_https=True)


KINDS: tuple[Callable[[random.Random], Malformed], ...] = (
    *(_noise, _broken, _broken, _broken, _pipelined, _cut_off, _flipped, _huge, _broken_tls, _broken_tls),
)


def _compose(fate: random.Random) -> bytes:
    path = fate.choice(PATHS if fate.random() < 0.5 else ODD_PATHS)
    method = fate.choice(METHODS[:3] if fate.random() < 0.7 else METHODS)
    line = b" ".join((method, path, fate.choice(VERSIONS[:2] if fate.random() < 0.7 else VERSIONS)))
    headers = [fate.choice(HEADERS) for _ in range(fate.randrange(4))]
    end = fate.choice((b"\r\n\r\n", b"\r\n\r\n", b"\n\n", b"\r\r", b"\r\n"))
    return fate.choice((b"\r\n", b"\n")).join([line, *headers]) + end + fate.choice(BODIES)


def _seldom(fate: random.Random) -> bool:
    return fate.random() < 0.2
