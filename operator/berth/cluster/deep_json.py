"""JSON that is nested too deep to be read, cut down to where it can be.

The API server takes 10,000 levels, and any user who may make a pod may use all of them: `metadata.managedFields` are
free to nest, and so are the arguments of a policy. Python's decoders give up at about a thousand with an error that
ends the whole list or watch, so that one such object would stop the scheduling of all others. Nothing that the
scheduler reads lies deeper than a few dozen levels: below LEVELS everything becomes null, and the object is judged by
the rest.

Almost no object is so deep: it is looked for only where decoding has failed or there are more brackets than LEVELS.
`DeepJsonResponse` does this for kopf, which reads lists with `json()` and watches line by line.
"""

import re
from collections.abc import AsyncIterator
from typing import Any

import aiohttp
import orjson

LEVELS = 300
_STRING = re.compile(rb'"(?:[^"\\]|\\.)*"')
_TOKEN = re.compile(rb'"(?:[^"\\]|\\.)*"|[{}\[\]]')
_PAIR = re.compile(rb"\{\}|\[\]")
_NOT_BRACKETS = bytes(number for number in range(256) if number not in b"{}[]")


def decode(raw: bytes) -> Any:
    """orjson's reading of it; JSONDecodeError for what is no JSON however deep."""
    try:
        return orjson.loads(raw)
    except orjson.JSONDecodeError:
        if not is_deep(raw):
            raise
        return orjson.loads(cut(raw))


def is_deep(raw: bytes) -> bool:
    """Whether some of it lies deeper than LEVELS."""
    if raw.count(b"{") + raw.count(b"[") <= LEVELS:
        return False
    brackets = _STRING.sub(b"", raw).translate(None, _NOT_BRACKETS)
    for _ in range(LEVELS):
        brackets, collapsed = _PAIR.subn(b"", brackets)
        if not collapsed:
            break
    return bool(brackets)


def cut(raw: bytes) -> bytes:
    """The same with null for everything below LEVELS."""
    parts: list[bytes] = []
    depth = taken = 0
    for token in _TOKEN.finditer(raw):
        sign = token[0]
        if sign in (b"{", b"["):
            depth += 1
            if depth == LEVELS + 1:
                parts += (raw[taken : token.start()], b"null")
        elif sign in (b"}", b"]"):
            depth -= 1
            if depth == LEVELS:
                taken = token.end()
    return b"".join(parts) + raw[taken:] if depth <= LEVELS else raw


class DeepJsonResponse(aiohttp.ClientResponse):
    """An answer whose JSON can be read, in one piece or in lines."""

    async def start(self, connection: Any) -> "DeepJsonResponse":
        await super().start(connection)
        self.content = ShallowLines(self.content)  # type: ignore[assignment]
        return self

    async def json(self, **options: Any) -> Any:
        try:
            return await super().json(**options)
        except RecursionError:
            self._body = cut(await self.read())
            return await super().json(**options)


class ShallowLines:
    """A stream in all respects, whose chunks are whole lines of a watch, none of them too deep."""

    def __init__(self, content: aiohttp.StreamReader) -> None:
        self._content = content

    def __getattr__(self, name: str) -> Any:
        return getattr(self._content, name)

    async def iter_chunked(self, size: int) -> AsyncIterator[bytes]:
        rest = b""
        async for data in self._content.iter_chunked(size):
            whole, newline, tail = data.rpartition(b"\n")
            if not newline:
                rest += data
                continue
            lines, rest = rest + whole + newline, tail
            yield _shallow_lines(lines)
        if rest:
            yield _shallow_lines(rest)


def _shallow_lines(lines: bytes) -> bytes:
    if lines.count(b"{") + lines.count(b"[") <= LEVELS:
        return lines
    return b"".join(cut(line) if is_deep(line) else line for line in lines.splitlines(keepends=True))
