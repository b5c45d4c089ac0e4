"""HTTP answers: text, JSON, and the headers that every one of them has."""

from collections.abc import Mapping

from aiohttp import web

HEADERS = {
    "Server": "berth",
    "Cache-Control": "no-store",
    "Content-Security-Policy": "default-src 'none'; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
}
TEXT = "text/plain; charset=utf-8"


def plain(status: int, text: str, headers: Mapping[str, str] | None = None) -> web.Response:
    """One line, or as many as it has."""
    body = text if text.endswith("\n") or status == 200 else text + "\n"
    return raw(body.encode(errors="replace"), TEXT, status, headers)


def raw(body: bytes, content_type: str, status: int = 200, headers: Mapping[str, str] | None = None) -> web.Response:
    return web.Response(body=body, status=status, headers={**HEADERS, "Content-Type": content_type, **(headers or {})})


def stream() -> web.StreamResponse:
    """Text that is written bit by bit."""
    return web.StreamResponse(headers={**HEADERS, "Content-Type": TEXT})
