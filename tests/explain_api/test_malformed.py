"""Requests that nobody should send, from the front proxy and from others: no crash, and every answer is one.

The seed is another one in every run. It is printed, and `--requests-seed` repeats it.
"""

import asyncio
import random
import ssl
from pathlib import Path
from urllib.parse import quote

import pytest

from explain_api.fakes import FakeExplanations, explanation, node_view
from explain_api.harness import NAME, RunningApi, authority, running
from serving import malformed as of_serving
from serving.harness import until

AT_ONCE = 40
LIMIT_SECONDS = 120
STATUSES = {"200", "400", "401", "403", "404", "405", "406", "410", "413", "429", "503"}
PARTS = (
    "",
    "namespaces",
    "shop",
    "explanations",
    "nodeviews",
    "clusterviews",
    "decisions",
    "current",
    "n1",
    "*",
    "..",
    "%",
)
ODD = ("", "0", "-1", "9" * 40, "true", "\x00", "\ud83d\ude00", "a=b", "in (", "((((", "a,,b", "\\", "=", "!", "é" * 50)
KEYS = (
    *("labelSelector", "fieldSelector", "limit", "continue", "resourceVersion", "timeoutSeconds", "includeObject"),
    *("sendInitialEvents", "allowWatchBookmarks", "node", "pretty", "x"),
)
HEADERS = (
    *("Accept: application/json;as=Table;v=v1;g=meta.k8s.io", "Accept: ;;;,,,", "Accept: application/json;as=;v=;g="),
    *("X-Remote-User: ", "X-Remote-User: a\tb", "X-Remote-Group: x", "X-Remote-Extra-%zz: x", "X-Remote-Extra-: y"),
    *("If-None-Match: *", "Content-Length: 5", "Transfer-Encoding: chunked", "Expect: 100-continue", "Range: bytes=1-"),
)
METHODS = ("GET", "GET", "GET", "GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "BREW")


def compose(seed: int, number: int) -> bytes:
    """A request for something in the group, more or less."""
    fate = random.Random(f"{seed}-{number}")
    if fate.random() < 0.3:
        return of_serving.make(fate.getrandbits(32)).data
    path = "/".join(fate.choices(PARTS, k=fate.randint(0, 6)))
    if fate.random() < 0.7:
        path = f"apis/explain.berth.dev/v1alpha1/{path}"
    pairs = [f"{fate.choice(KEYS)}={quote(fate.choice(ODD), errors='replace')}" for _ in range(fate.randint(0, 4))]
    if fate.random() < 0.1:
        pairs.append("watch=true&timeoutSeconds=1")
    headers = ["Host: x", "X-Remote-User: admin", "X-Remote-Group: system:masters", *fate.choices(HEADERS, k=2)]
    request = f"{fate.choice(METHODS)} /{path}?{'&'.join(pairs)} HTTP/1.1\r\n" + "\r\n".join(headers) + "\r\n\r\n"
    return request.encode()


async def send(api: RunningApi, context: ssl.SSLContext, data: bytes) -> None:
    port = api.endpoint.port
    try:
        reader, writer = await asyncio.open_connection("127.0.0.1", port, ssl=context)
    except OSError:
        return
    try:
        writer.write(data)
        await writer.drain()
        await reader.read(1)
    except OSError:
        pass
    finally:
        writer.transport.abort()


@pytest.mark.parametrize("count", [800, pytest.param(10_000, marks=pytest.mark.cluster)])
async def test_malformed_requests_break_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, count: int, requests_seed: int
) -> None:
    print(f"\npytest tests/explain_api --requests-seed {requests_seed}")
    monkeypatch.setattr("berth.serving.listener.REQUEST_SECONDS", 0.5)
    monkeypatch.setattr("berth.explain_api.limits.BURST", float(count))
    port = FakeExplanations(nodes={"n1": node_view("n1")})
    port.put(explanation("web-1"))
    pair = authority.write_client(tmp_path, NAME)
    contexts = []
    for known in (True, True, False):
        context = ssl.create_default_context()
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        if known:
            context.load_cert_chain(pair.certificate, pair.key)
        contexts.append(context)
    numbers = iter(range(count))
    async with running(tmp_path, port) as api:

        async def send_one_by_one() -> None:
            for number in numbers:
                async with asyncio.timeout(LIMIT_SECONDS):
                    await send(api, contexts[number % len(contexts)], compose(requests_seed, number))

        async with asyncio.TaskGroup() as group:
            for _ in range(AT_ONCE):
                group.create_task(send_one_by_one())
        assert (await api.get("nodeviews/n1")).status == 200
        statistics = api.endpoint.statistics()
        await until(lambda: api.endpoint.statistics()["requests"] == 0)
    assert set(statistics["answers"]) <= STATUSES
    assert statistics["answers"]["200"] > count // 200
    assert statistics["answers"]["401"] > count // 200
    assert "failed" not in statistics["connections"]
    print(f"{count} requests: {statistics['answers']}, connections {statistics['connections']}")
