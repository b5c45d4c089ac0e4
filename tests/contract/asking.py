"""What contract tests share: where the server is, bodies as a user writes them, and refusals."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest

from berth.sim.server.reviews import Account
from control_plane.client import ApiError, Client, Object


@dataclass(frozen=True, slots=True)
class Server:
    url: str
    token: str
    forget_history: Callable[[], None]
    """The real server knows nothing from before its start, so that version 1 is too old there in any case."""
    accounts: dict[str, Account] | None = None
    """Whom reviews of the embedded server know; None: the real one has roles."""


def plain(body: Object) -> Object:
    """Without what the server decides."""
    metadata = {key: value for key, value in body["metadata"].items() if key not in ("uid", "resourceVersion")}
    return {**body, "metadata": metadata}


async def refused(api: Client, code: int, method: str, path: str, body: Any = None, **more: Any) -> str:
    """Send what must be refused with this status; returns the server's words."""
    with pytest.raises(ApiError) as caught:
        await api.request(method, path, body, **more)
    assert caught.value.status == code, str(caught.value)
    return str(caught.value).split(f": {code} ", 1)[1]
