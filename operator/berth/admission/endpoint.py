"""The endpoint: where the webhook listens, in the serving thread, and how much of the scheduler's time it takes.

Policies are judged in the scheduler's loop, which has them, one after another. After each the endpoint waits three
times as long as that took, so that it takes at most a quarter of the loop's time, however many ask. An API
server that gets no answer in time stores the policy, and its status tells what is wrong with it.

Clients are not identified: an answer says whether a policy is valid, which anybody can find out with `berth policy
lint`, and names other policies only where the policy does, or has a name that is nearly the same.
"""

import asyncio
import logging
import socket
import ssl
import time
from collections import Counter
from collections.abc import Callable
from typing import Any, Final

from aiohttp import web

from berth.admission.reviews import BadReview, Judge, Request
from berth.policy.reviewing import PolicyReview
from berth.serving.addresses import ListenAddress
from berth.serving.bridge import Bridge, BridgeTimeout
from berth.serving.certificates import context_of
from berth.serving.certified_endpoint import CertifiedEndpoint
from berth.serving.listener import Listener
from berth.serving.responses import plain, raw
from berth.serving.serving_certificate import ServedCertificate

PATH: Final = "/validate"
BODY_BYTES: Final = 8 * 2**20  # a new and an old object of 1.5 MiB each, and what JSON makes of them
ANSWER_SECONDS: Final = 10.0
SHARE: Final = 0.25  # of the scheduler's time
JSON: Final = "application/json"

_log = logging.getLogger(__name__)


class Webhook:
    """Answers requests. Lives in the serving loop."""

    def __init__(self, judge: Judge, bridge: Bridge, *, now: Callable[[], float] = time.monotonic) -> None:
        self._judge = judge
        self._bridge = bridge
        self._now = now
        self._turn = asyncio.Lock()
        self.counts: Counter[str] = Counter()

    async def answer(self, request: web.BaseRequest) -> web.StreamResponse:
        """Returns the response, whatever happens."""
        if request.path != PATH:
            return plain(404, f"there is nothing here but {PATH}")
        if request.method != "POST":
            return plain(405, "only POST", {"Allow": "POST"})
        try:
            asked = Request(await _read(request))
            review = await self._review(asked)
        except BadReview as error:
            self.counts["malformed"] += 1
            return plain(400, str(error))
        except BridgeTimeout:
            self.counts["failed"] += 1
            return plain(503, "the scheduler's event loop does not answer")
        self.counts["refused" if review.problems else "warned" if review.warnings else "allowed"] += 1
        return raw(asked.answer(review), JSON)

    async def _review(self, asked: Request) -> PolicyReview:
        """Returns what the scheduler says; the next one has its turn when the share of time allows it."""
        await self._turn.acquire()
        pause_seconds = 0.0
        try:
            review, seconds = await self._bridge.call(lambda: self._timed(asked))
            pause_seconds = seconds * (1 / SHARE - 1)
        finally:
            asyncio.get_running_loop().call_later(pause_seconds, self._turn.release)
        return review

    def _timed(self, asked: Request) -> tuple[PolicyReview, float]:
        began = self._now()
        review = asked.judge(self._judge)
        return review, self._now() - began


async def _read(request: web.BaseRequest) -> bytes:
    """Returns the body; raises BadReview if it is too long."""
    body = bytearray()
    async for chunk in request.content.iter_any():
        body += chunk
        if len(body) > BODY_BYTES:
            raise BadReview(f"it has more than {BODY_BYTES} bytes")
    return bytes(body)


class WebhookEndpoint(CertifiedEndpoint):
    """Implements `berth.serving.server.Endpoint`."""

    flag: Final = "--webhook-address"

    def __init__(self, address: ListenAddress, judge: Judge, certificate: ServedCertificate) -> None:
        super().__init__(address, certificate)
        self._judge = judge
        self._context: tuple[bytes, ssl.SSLContext] | None = None
        self._webhook: Webhook | None = None

    def make_listener(self, opened: socket.socket, bridge: Bridge, counts: Counter[str]) -> Listener:
        self.note_port(opened)
        self._webhook = Webhook(self._judge, bridge)
        return Listener(opened, self._webhook.answer, self._tls, self.connections, answer_seconds=ANSWER_SECONDS)

    def _tls(self) -> ssl.SSLContext:
        """Returns the context of the certificate that is to be served now."""
        pem = self.certificate.pem()
        if self._context is None or self._context[0] != pem:
            self._context = (pem, context_of(pem))
        return self._context[1]

    def statistics(self) -> dict[str, Any]:
        """Returns connections and answers by outcome; may be called from any thread."""
        answers = {} if self._webhook is None else dict(self._webhook.counts)
        return {"connections": dict(self.connections), "answers": answers}
