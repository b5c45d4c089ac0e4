"""Whom an aggregated API believes: ConfigMap kube-system/extension-apiserver-authentication, read again and again.

The API server writes it, and changes it when its certificates are rotated. Every replica reads it.
"""

import logging
from collections.abc import Callable, Mapping
from typing import Any, Final

from berth.cluster.api import Api
from berth.cluster.errors import ApiError, Unreachable
from berth.scheduler.ports import Clock

PATH: Final = "/api/v1/namespaces/kube-system/configmaps/extension-apiserver-authentication"
READ_SECONDS: Final = 10.0
RETRY_SECONDS: Final = 1.0
LIMIT_SECONDS: Final = 5.0

_log = logging.getLogger(__name__)


class AuthenticationConfig:
    """Hands the data over whenever they have changed. `on_data` may raise ValueError: then they are of no use."""

    def __init__(self, api: Api, clock: Clock, on_data: Callable[[Mapping[str, Any]], None]) -> None:
        self._api = api
        self._clock = clock
        self._on_data = on_data
        self._seen: object = None
        self._problem = ""

    async def run(self) -> None:
        while True:
            is_read = await self.read()
            await self._clock.sleep(READ_SECONDS if is_read else RETRY_SECONDS)

    async def read(self) -> bool:
        """Returns whether it could be read and used; what was read before stays in force if not."""
        try:
            _, found = await self._api.request("GET", PATH, timeout_seconds=LIMIT_SECONDS)
            data = found.get("data") or {}
            if data != self._seen:
                self._on_data(data)
                self._seen = data
        except (ApiError, Unreachable, ValueError) as error:
            if str(error) != self._problem:
                _log.warning("Requests for explanations cannot be authenticated yet, by %s: %s", PATH, error)
            self._problem = str(error)
            return False
        self._problem = ""
        return True
