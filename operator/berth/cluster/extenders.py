"""Questions to extenders over HTTP, as kube-scheduler asks them: a POST of JSON, and 200 with JSON for an answer.

Everything that can go wrong is an `ExtenderFailed` with the extender's address in it, and nothing takes longer than the
extender's timeout. An answer has a largest size; a redirect is not followed, as it would carry pods to a place that no
policy names.

Extenders that are trusted in the same way share connections. A client certificate and its key are on disk for as long
as it takes to load them, readable by nobody else, because ssl reads them from nowhere else.
"""

import os
import ssl
import tempfile
import urllib.request
from collections import Counter, OrderedDict
from collections.abc import Mapping

import aiohttp
import orjson
from yarl import URL

from berth.cluster.api import USER_AGENT
from berth.cluster.transport import KEEP_ALIVE_SECONDS
from berth.scheduler.extender_protocol import Extender, ExtenderFailed, Tls

LARGEST_ANSWER_BYTES = 128 * 1024**2
CHUNK_BYTES = 65536
KEPT_SESSIONS = 32
HEADERS = {"Content-Type": "application/json", "User-Agent": USER_AGENT}


class HttpExtenders:
    """Implements `berth.scheduler.extender_protocol.Asker`; `close` at the end."""

    def __init__(self, *, largest_answer_bytes: int = LARGEST_ANSWER_BYTES) -> None:
        self._largest_answer_bytes = largest_answer_bytes
        self._sessions: OrderedDict[Tls | None, aiohttp.ClientSession] = OrderedDict()
        self._asking: Counter[Tls | None] = Counter()

    async def ask(self, extender: Extender, verb: str, body: Mapping[str, object]) -> object:
        url = f"{extender.url_prefix.rstrip('/')}/{verb}"
        self._asking[extender.tls] += 1
        try:
            return await self._post(extender, verb, url, orjson.dumps(body))
        except ExtenderFailed:
            raise
        except TimeoutError as error:
            raise ExtenderFailed(f'Post "{url}": no answer within {extender.timeout_seconds:g} s') from error
        # Whatever it is: a name that is not known, a certificate that is not trusted, a connection that is cut.
        except Exception as error:
            raise ExtenderFailed(f'Post "{url}": {str(error) or type(error).__name__}') from error
        finally:
            self._asking[extender.tls] -= 1

    async def close(self) -> None:
        while self._sessions:
            await self._sessions.popitem()[1].close()

    async def _post(self, extender: Extender, verb: str, url: str, data: bytes) -> object:
        session = await self._session(extender.tls)
        async with session.post(
            url,
            data=data,
            headers=HEADERS,
            proxy=_proxy(url),
            allow_redirects=False,
            server_hostname=(extender.tls.server_name or None) if extender.tls is not None else None,
            timeout=aiohttp.ClientTimeout(total=extender.timeout_seconds),
        ) as response:
            if response.status != 200:
                raise ExtenderFailed(f"failed {verb} with extender at URL {url}, code {response.status}")
            raw = await self._read(response, verb, url)
        try:
            return orjson.loads(raw)
        except orjson.JSONDecodeError as error:
            raise ExtenderFailed(f"failed {verb} with extender at URL {url}: not JSON: {error}") from error

    async def _read(self, response: aiohttp.ClientResponse, verb: str, url: str) -> bytearray:
        raw = bytearray()
        async for chunk in response.content.iter_chunked(CHUNK_BYTES):
            raw += chunk
            if len(raw) > self._largest_answer_bytes:
                raise ExtenderFailed(
                    f"failed {verb} with extender at URL {url}: the answer has more than "
                    f"{self._largest_answer_bytes} bytes"
                )
        return raw

    async def _session(self, tls: Tls | None) -> aiohttp.ClientSession:
        session = self._sessions.get(tls)
        if session is None:
            connector = aiohttp.TCPConnector(limit=0, ssl=_context(tls), keepalive_timeout=KEEP_ALIVE_SECONDS)
            session = self._sessions[tls] = aiohttp.ClientSession(connector=connector)
        self._sessions.move_to_end(tls)
        idle = [kept for kept in self._sessions if not self._asking[kept]]
        for kept in idle[: max(0, len(self._sessions) - KEPT_SESSIONS)]:
            del self._asking[kept]
            await self._sessions.pop(kept).close()
        return session


def _context(tls: Tls | None) -> ssl.SSLContext | bool:
    """True: what the system trusts."""
    if tls is None:
        return True
    context = ssl.create_default_context(cadata=tls.ca or None)
    if tls.insecure:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    if tls.certificate:
        _load(context, tls)
    return context


def _load(context: ssl.SSLContext, tls: Tls) -> None:
    handle, path = tempfile.mkstemp(prefix="berth-")  # mode 0600
    try:
        with os.fdopen(handle, "w") as file:
            file.write(f"{tls.certificate}\n{tls.key}\n")
        context.load_cert_chain(path, password="")  # never ask anybody for one
    finally:
        os.unlink(path)


def _proxy(url: str) -> str | None:
    parts = URL(url)
    if parts.host is None or urllib.request.proxy_bypass(parts.host):
        return None
    return urllib.request.getproxies().get(parts.scheme)
