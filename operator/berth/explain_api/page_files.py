"""The page: static files in the folder `page`, served below the path of the API.

    /apis/explain.berth.dev/v1alpha1/ui/            the page
    /apis/explain.berth.dev/v1alpha1/ui/FILE        what it consists of

They hold nothing of the cluster: the page reads the API with the rights of the user who looks at it. To the API server
a file is an object of the resource `ui`, so that a rule can grant it. Addresses in the page are relative: it works
behind any prefix.
"""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.resources import files
from types import MappingProxyType
from typing import Final

from aiohttp import web

from berth.explain_api.requests import READING, Target
from berth.explain_api.statuses import not_allowed, nothing_here
from berth.serving.responses import raw

UI: Final = "ui"
INDEX: Final = "index.html"
CONTENT_TYPES: Final = MappingProxyType(
    {
        ".html": "text/html; charset=utf-8",
        ".css": "text/css; charset=utf-8",
        ".js": "text/javascript; charset=utf-8",
        ".svg": "image/svg+xml",
    }
)
# Scripts, styles and requests of this server only; nothing inline, no forms, no frames.
POLICY: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
# For the path without a slash at its end, below which the browser would not find the other files. The page leads on
# itself: the API server passes no redirects of aggregated APIs on.
LEADS_ON: Final = b"""<!doctype html>
<html lang="en"><head><title>Berth</title><meta http-equiv="refresh" content="0; url=ui/"></head>
<body><a href="ui/">The page</a></body></html>
"""
# Kept by the browser, and asked for again each time: an upgrade shows at once, and costs an answer of 304 otherwise.
CACHED: Final = "no-cache"


@dataclass(frozen=True, slots=True)
class PageFile:
    """A file as it is sent."""

    content_type: str
    body: bytes
    etag: str


class PageFiles:
    """Answers requests for the page."""

    def __init__(self) -> None:
        self._files = read_files()

    def answer(self, request: web.BaseRequest, target: Target) -> web.Response:
        """Raises ApiRefusal: 404 if there is no such file, 405 for anything but reading."""
        found = self._files.get(target.name or INDEX)
        if found is None or target.namespace or target.subresource:
            raise nothing_here()
        if request.method not in READING:
            raise not_allowed(READING)
        if not target.name and not target.path.endswith("/"):
            return raw(LEADS_ON, found.content_type)
        headers = {"ETag": found.etag, "Cache-Control": CACHED, "Content-Security-Policy": POLICY}
        if _is_known(request.headers.get("If-None-Match", ""), found.etag):
            return raw(b"", found.content_type, 304, headers)
        return raw(found.body, found.content_type, headers=headers)


def read_files() -> Mapping[str, PageFile]:
    """Returns the files of the page by name."""
    found = {}
    for entry in files("berth.explain_api").joinpath("page").iterdir():
        suffix = entry.name[entry.name.rfind(".") :]
        if suffix in CONTENT_TYPES:
            body = entry.read_bytes()
            etag = f'"{hashlib.sha256(body).hexdigest()[:32]}"'
            found[entry.name] = PageFile(CONTENT_TYPES[suffix], body, etag)
    return MappingProxyType(found)


def _is_known(if_none_match: str, etag: str) -> bool:
    return etag in [entry.strip().removeprefix("W/") for entry in if_none_match.split(",")]
