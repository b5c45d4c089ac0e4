"""Whether there is a page, and the browser that shows it."""

import json
import os
import sys
import webbrowser
from collections.abc import Mapping
from typing import Any, Final

from berth.explain_api.resources import API_VERSION, GROUP, VERSION
from berth.ui.loopback import PAGE
from berth.ui.upstream import Upstream

API_SERVICE: Final = f"{VERSION}.{GROUP}"
LONGEST_MESSAGE: Final = 300
_WAYS_OUT: Final[Mapping[int, str]] = {
    401: "the API server does not accept your credentials: log in again",
    403: "you may not read the page. The chart's ClusterRole berth-explain-page grants it to every user; ask an "
    "administrator to bind it to you",
    404: f"{API_VERSION} is not served here, or not with a page: install Berth's chart with explanations.enabled=true",
    503: f"{API_VERSION} is registered, but does not answer: kubectl get apiservice {API_SERVICE} -o yaml says why",
}


class NoPage(Exception):
    """There is no page to show; the message says why, and what to do."""


async def check_page(upstream: Upstream) -> None:
    """Raises NoPage, or Unreachable."""
    async with await upstream.ask("GET", PAGE, {"Accept": "text/html"}) as answer:
        if answer.status == 200:
            return
        text = await answer.text(errors="replace")
    said = _message(text)
    raise NoPage(f"{_WAYS_OUT.get(answer.status, f'the API server answers {answer.status}')}{said and f' ({said})'}")


def _message(text: str) -> str:
    try:
        body: Any = json.loads(text)
    except ValueError:
        body = None
    message = body.get("message") if isinstance(body, dict) else text
    return " ".join(str(message or "").split())[:LONGEST_MESSAGE]


def has_screen(platform: str = sys.platform, environment: Mapping[str, str] = os.environ) -> bool:
    """Whether a browser would have a screen. Otherwise one that draws in the terminal would be started."""
    if platform in ("darwin", "win32", "cygwin"):
        return True
    return any(environment.get(name) for name in ("DISPLAY", "WAYLAND_DISPLAY", "BROWSER", "WSL_DISTRO_NAME"))


def open_browser(url: str) -> bool:
    """Whether a browser was started."""
    try:
        return webbrowser.open(url)
    except (webbrowser.Error, OSError):
        return False
