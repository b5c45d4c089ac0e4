"""The webhook over HTTPS: what it answers, how much it takes, and whom it keeps waiting."""

import asyncio
import ssl
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import aiohttp
import pytest

from admission.test_reviews import TYPO, review
from berth.admission import endpoint as endpoint_module
from berth.admission.endpoint import WebhookEndpoint
from berth.admission.reviews import Judge
from berth.policy import PolicyStore
from berth.policy.reviewing import PolicyReview
from berth.serving.addresses import ListenAddress
from berth.serving.loop_watchdog import LoopWatchdog
from berth.serving.server import Server, ServingPlan
from berth.serving.serving_certificate import SelfMadeCertificate, certificate_of
from policy.builders import make_policy
from policy.harness import Clock
from serving import harness

certificate = SelfMadeCertificate("localhost")


class Webhook:
    def __init__(self, endpoint: WebhookEndpoint, session: aiohttp.ClientSession) -> None:
        self.endpoint = endpoint
        self._session = session

    async def post(self, body: bytes, path: str = "/validate?timeout=5s", method: str = "POST") -> tuple[int, Any]:
        address = f"https://localhost:{self.endpoint.port}{path}"
        async with self._session.request(method, address, data=body) as answer:
            is_json = answer.content_type == "application/json"
            return answer.status, await (answer.json() if is_json else answer.text())

    @property
    def answers(self) -> dict[str, int]:
        found: dict[str, int] = self.endpoint.statistics()["answers"]
        return found


@asynccontextmanager
async def running(judge: Judge) -> AsyncIterator[Webhook]:
    endpoint = WebhookEndpoint(ListenAddress("127.0.0.1", 0), judge, certificate)
    server = Server(ServingPlan(), harness.make_state(), harness.FakeReviews(), LoopWatchdog(), endpoints=[endpoint])
    await server.start()
    trusting = ssl.create_default_context(cadata=certificate_of(certificate.pem()).decode())
    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(ssl=trusting)) as session:
        yield Webhook(endpoint, session)
    await server.stop()


@pytest.fixture
async def webhook() -> AsyncIterator[Webhook]:
    async with running(PolicyStore(Clock())) as running_webhook:
        yield running_webhook


async def test_a_policy_is_judged_over_https_with_a_certificate_that_can_be_verified(webhook: Webhook) -> None:
    status, answer = await webhook.post(review("CREATE", make_policy(**TYPO)))
    assert status == 200
    assert answer["response"]["allowed"] is False
    assert "did you mean NodeResourcesFit?" in answer["response"]["status"]["message"]
    status, answer = await webhook.post(review("CREATE", make_policy()))
    assert (status, answer["response"]["allowed"]) == (200, True)
    status, answer = await webhook.post(review("CREATE", make_policy(base="later")))
    assert (status, len(answer["response"]["warnings"])) == (200, 1)
    assert webhook.answers == {"refused": 1, "allowed": 1, "warned": 1}


async def test_everything_else_is_refused_in_words(webhook: Webhook) -> None:
    assert await webhook.post(b"", "/metrics") == (404, "there is nothing here but /validate\n")
    assert (await webhook.post(b"", method="GET"))[0] == 405
    assert await webhook.post(b"{}") == (400, "it is not an AdmissionReview\n")
    assert webhook.answers == {"malformed": 1}


async def test_a_body_without_an_end_is_refused(webhook: Webhook, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(endpoint_module, "BODY_BYTES", 1000)
    assert await webhook.post(b"x" * 1001) == (400, "it has more than 1000 bytes\n")


class CountingJudge:
    """Says yes, and knows in which thread and how many at a time it was asked."""

    def __init__(self) -> None:
        self.threads: set[int] = set()

    def review(self, manifest: object) -> PolicyReview:
        self.threads.add(threading.get_ident())
        return PolicyReview()

    def review_removal(self, name: str) -> PolicyReview:
        return PolicyReview()


async def test_policies_are_judged_in_the_scheduler_s_loop() -> None:
    judge = CountingJudge()
    async with running(judge) as webhook:
        await asyncio.gather(*(webhook.post(review("CREATE", make_policy())) for _ in range(20)))
        assert webhook.answers == {"allowed": 20}
    assert judge.threads == {threading.get_ident()}


class FailingJudge(CountingJudge):
    def review(self, manifest: object) -> PolicyReview:
        raise KeyError("surprise")


async def test_an_error_inside_costs_one_answer() -> None:
    async with running(FailingJudge()) as webhook:
        assert (await webhook.post(review("CREATE", make_policy())))[0] == 500
        assert (await webhook.post(review("DELETE", None, make_policy())))[0] == 200
