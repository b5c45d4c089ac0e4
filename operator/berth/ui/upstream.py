"""Requests to the API server as the user: answers are handed on as they come, not read."""

import asyncio
from collections.abc import Mapping
from typing import Final, Protocol

import aiohttp
from yarl import URL

from berth.cluster.credentials import Credentials
from berth.cluster.errors import CredentialsError, Unreachable
from berth.cluster.transport import CONNECT_SECONDS, find_proxy, make_tls

UNAUTHORIZED: Final = 401


class Upstream(Protocol):
    """Where requests of the browser go."""

    async def ask(self, method: str, path: str, headers: Mapping[str, str]) -> aiohttp.ClientResponse:
        """Returns the answer, whatever its status; `path` has the query with it. Raises Unreachable."""
        ...


class UserUpstream:
    """The API server, with the user's credentials. `open` before the first request, `close` at the end."""

    def __init__(self, credentials: Credentials) -> None:
        self._credentials = credentials
        self._session: aiohttp.ClientSession | None = None
        self._server = ""
        self._proxy: str | None = None
        self._renewing = asyncio.Lock()
        self._renewals = 0

    async def open(self) -> None:
        """Reads the credentials; CredentialsError says what is wrong with them."""
        await self._credentials.load()
        configuration = self._credentials.configuration
        try:
            tls = make_tls(configuration)
        except (OSError, ValueError) as error:
            raise CredentialsError(f"a certificate or key of the kubeconfig cannot be used: {error}") from error
        before = self._session
        self._session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(ssl=tls),
            timeout=aiohttp.ClientTimeout(total=None, sock_connect=CONNECT_SECONDS),  # a watch lasts half an hour
        )
        self._server, self._proxy = self._credentials.server, find_proxy(configuration)
        if before is not None:
            await before.close()

    async def close(self) -> None:
        if self._session is not None:
            await self._session.close()

    async def ask(self, method: str, path: str, headers: Mapping[str, str]) -> aiohttp.ClientResponse:
        """See `Upstream`. A 401 has the credentials read again once: tokens expire while somebody looks at the page."""
        renewals = self._renewals
        answer = await self._send(method, path, headers)
        if answer.status != UNAUTHORIZED or not await self._renew(renewals):
            return answer
        answer.release()
        return await self._send(method, path, headers)

    async def _send(self, method: str, path: str, headers: Mapping[str, str]) -> aiohttp.ClientResponse:
        assert self._session is not None, "open comes first"
        try:
            authorization = await self._credentials.authorization()
            proof = {} if authorization is None else {"Authorization": authorization}
            return await self._session.request(
                method,
                URL(self._server + path, encoded=True),
                headers={**headers, **proof},
                proxy=self._proxy,
                allow_redirects=False,
            )
        except (aiohttp.ClientError, OSError, ValueError) as error:
            raise Unreachable(f"the API server {self._server} cannot be reached: {error}") from error

    async def _renew(self, renewals: int) -> bool:
        """Whether there are credentials to try again with; once for all requests that were refused together."""
        async with self._renewing:
            if renewals == self._renewals:
                try:
                    await self.open()
                except CredentialsError:
                    return False
                self._renewals += 1
            return True
