"""HTTP responses: text, JSON, and the headers that all of them have."""

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
    """Returns a text of one line or several."""
    body = text if text.endswith("\n") or status == 200 else text + "\n"
    return raw(body.encode(errors="replace"), TEXT, status, headers)


def raw(body: bytes, content_type: str, status: int = 200, headers: Mapping[str, str] | None = None) -> web.Response:
    return web.Response(body=body, status=status, headers={**HEADERS, "Content-Type": content_type, **(headers or {})})


def stream() -> web.StreamResponse:
    """Returns a text that is written in pieces."""
    return web.StreamResponse(headers={**HEADERS, "Content-Type": TEXT})
