"""Questions to extenders over real sockets, with and without TLS, and everything that goes wrong with them."""

import asyncio
import logging
import os
import shutil
import ssl
import subprocess
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from berth.cluster import extenders
from berth.cluster.extenders import HttpExtenders
from berth.policy.addresses import EVERYWHERE
from berth.policy.records import Extender, Tls
from berth.scheduler.extenders.extender_protocol import ExtenderFailed
from cluster.server import Answer, Cut, Server, Silence, serving

NAME = "extender.example"
PATH = "/scheduler/filter"


def at(server: Server, **fields: Any) -> Extender:
    return Extender(f"http://127.0.0.1:{server.port}/scheduler", filter_verb="filter", **fields)


@pytest.fixture
async def server() -> AsyncIterator[Server]:
    async with serving() as server:
        yield server


@pytest.fixture
async def asker() -> AsyncIterator[HttpExtenders]:
    asker = HttpExtenders(EVERYWHERE)
    yield asker
    await asker.close()


# --- plain


async def test_a_question_is_posted_as_json_and_the_answer_read(server: Server, asker: HttpExtenders) -> None:
    server.answer("POST", PATH, Answer(body={"NodeNames": ["a"]}))
    answer = await asker.ask(at(server), "filter", {"Pod": {}, "NodeNames": ["a", "b"]})
    assert answer == {"NodeNames": ["a"]}
    (request,) = server.requests
    assert request.body == {"Pod": {}, "NodeNames": ["a", "b"]}
    assert request.headers["Content-Type"] == "application/json"
    assert request.headers["User-Agent"].startswith("berth/")


async def test_a_slash_at_the_end_of_the_prefix_makes_no_difference(server: Server, asker: HttpExtenders) -> None:
    server.answer("POST", PATH, Answer())
    await asker.ask(Extender(f"http://127.0.0.1:{server.port}/scheduler//"), "filter", {})
    assert [request.path for request in server.requests] == [PATH]


@pytest.mark.parametrize(
    ("answer", "problem"),
    [
        (Answer(500, "oops"), "failed filter with extender at URL {url}/filter, code 500"),
        (Answer(201, {}), "failed filter with extender at URL {url}/filter, code 201"),
        (Answer(200, "no JSON"), "failed filter with extender at URL {url}/filter: not JSON: "),
        (Answer(200, ""), "failed filter with extender at URL {url}/filter: not JSON: "),
        (Cut(), 'Post "{url}/filter": '),
        (Silence(), 'Post "{url}/filter": no answer within 0.05 s'),
    ],
)
async def test_what_goes_wrong_is_said_with_the_address(
    server: Server, asker: HttpExtenders, answer: Any, problem: str
) -> None:
    server.answer("POST", PATH, answer)
    seconds = 0.05 if isinstance(answer, Silence) else 5.0
    with pytest.raises(ExtenderFailed) as failure:
        await asker.ask(at(server, timeout_seconds=seconds), "filter", {})
    assert str(failure.value).startswith(problem.format(url=f"http://127.0.0.1:{server.port}/scheduler"))
    assert not str(failure.value).endswith(": ")


async def test_nobody_at_the_address_is_an_error(asker: HttpExtenders) -> None:
    async with serving() as server:
        extender = at(server)
    with pytest.raises(ExtenderFailed, match="Cannot connect"):
        await asker.ask(extender, "filter", {})


async def test_an_answer_has_a_largest_size(server: Server) -> None:
    asker = HttpExtenders(EVERYWHERE, largest_answer_bytes=1000)
    server.answer("POST", PATH, Answer(body={"Error": "x" * 900}), Answer(body={"Error": "x" * 1000}))
    try:
        await asker.ask(at(server), "filter", {})
        with pytest.raises(ExtenderFailed, match="the answer has more than 1000 bytes"):
            await asker.ask(at(server), "filter", {})
    finally:
        await asker.close()


async def test_a_redirect_is_not_followed(server: Server, asker: HttpExtenders) -> None:
    server.answer("POST", PATH, Answer(307, "", {"Location": "/elsewhere"}))
    with pytest.raises(ExtenderFailed, match="code 307"):
        await asker.ask(at(server), "filter", {})
    assert len(server.requests) == 1


async def test_a_slow_answer_takes_no_longer_than_the_timeout(asker: HttpExtenders) -> None:
    async def trickle(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        await response.write(b'{"NodeNames": [')
        await asyncio.Event().wait()
        return response

    app = web.Application()
    app.router.add_post("/filter", trickle)
    async with listening(app) as port:
        with pytest.raises(ExtenderFailed, match=r"no answer within 0\.05 s"):
            await asker.ask(Extender(f"http://127.0.0.1:{port}", timeout_seconds=0.05), "filter", {})


# --- TLS


@dataclass(frozen=True)
class Papers:
    """An authority, and two certificates that it has signed: PEM text, and files for the server's side."""

    folder: Path

    def text(self, name: str) -> str:
        return (self.folder / name).read_text()

    def server_context(self, *, asks_for_certificate: bool = False) -> ssl.SSLContext:
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        context.load_cert_chain(self.folder / "server.pem", self.folder / "server.key")
        if asks_for_certificate:
            context.load_verify_locations(self.folder / "ca.pem")
            context.verify_mode = ssl.CERT_REQUIRED
        return context


@pytest.fixture(scope="module")
def papers(tmp_path_factory: pytest.TempPathFactory) -> Papers:
    openssl = shutil.which("openssl")
    if openssl is None:
        pytest.skip("certificates are made with openssl, which is not installed")
    folder = tmp_path_factory.mktemp("papers")
    key = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes")

    def run(*arguments: str) -> None:
        subprocess.run([openssl, *arguments], cwd=folder, check=True, capture_output=True)

    run("req", "-x509", *key, "-keyout", "ca.key", "-out", "ca.pem", "-days", "2", "-subj", "/CN=authority")
    for name in ("server", "client"):
        (folder / f"{name}.cnf").write_text(f"subjectAltName=DNS:{NAME}\n")
        run("req", "-new", *key, "-keyout", f"{name}.key", "-out", f"{name}.csr", "-subj", f"/CN={name}")
        signed_by = ("-CA", "ca.pem", "-CAkey", "ca.key", "-CAcreateserial", "-days", "2")
        run("x509", "-req", "-in", f"{name}.csr", *signed_by, "-out", f"{name}.pem", "-extfile", f"{name}.cnf")
    return Papers(folder)


@asynccontextmanager
async def listening(app: web.Application, context: ssl.SSLContext | None = None) -> AsyncIterator[int]:
    runner = web.AppRunner(app, access_log=None, handler_cancellation=True, shutdown_timeout=0)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0, ssl_context=context).start()
    try:
        yield runner.addresses[0][1]
    finally:
        await runner.cleanup()


@asynccontextmanager
async def secure(papers: Papers, *, asks_for_certificate: bool = False) -> AsyncIterator[str]:
    """An extender that answers with the name in its client's certificate."""

    async def answer(request: web.Request) -> web.Response:
        assert request.transport is not None
        certificate = request.transport.get_extra_info("peercert") or {}
        names = dict(pair for part in certificate.get("subject", ()) for pair in part)
        return web.json_response({"client": names.get("commonName")})

    app = web.Application()
    app.router.add_post("/filter", answer)
    async with listening(app, papers.server_context(asks_for_certificate=asks_for_certificate)) as port:
        yield f"https://127.0.0.1:{port}"


async def test_a_certificate_of_the_given_authority_is_trusted(papers: Papers, asker: HttpExtenders) -> None:
    tls = Tls(ca=papers.text("ca.pem"), server_name=NAME)
    async with secure(papers) as url:
        assert await asker.ask(Extender(url, tls=tls), "filter", {}) == {"client": None}


@pytest.mark.parametrize("wrong", ["no authority", "another name", "the system's trust"])
async def test_any_other_certificate_is_not(papers: Papers, asker: HttpExtenders, wrong: str) -> None:
    trust = {
        "no authority": Tls(server_name=NAME),
        "another name": Tls(ca=papers.text("ca.pem"), server_name="somebody.example"),
        "the system's trust": None,
    }
    async with secure(papers) as url:
        with pytest.raises(ExtenderFailed, match="certificate"):
            await asker.ask(Extender(url, tls=trust[wrong]), "filter", {})


async def test_without_a_server_name_the_certificate_has_to_carry_the_address(
    papers: Papers, asker: HttpExtenders
) -> None:
    async with secure(papers) as url:
        with pytest.raises(ExtenderFailed, match="certificate"):
            await asker.ask(Extender(url, tls=Tls(ca=papers.text("ca.pem"))), "filter", {})


async def test_any_certificate_is_trusted_where_the_policy_says_so(papers: Papers, asker: HttpExtenders) -> None:
    async with secure(papers) as url:
        assert await asker.ask(Extender(url, tls=Tls(insecure=True)), "filter", {}) == {"client": None}


async def test_a_certificate_of_ours_is_shown(papers: Papers, asker: HttpExtenders) -> None:
    ours = Tls(
        ca=papers.text("ca.pem"),
        server_name=NAME,
        certificate=papers.text("client.pem"),
        key=papers.text("client.key"),
    )
    async with secure(papers, asks_for_certificate=True) as url:
        assert await asker.ask(Extender(url, tls=ours), "filter", {}) == {"client": "client"}
        with pytest.raises(ExtenderFailed):
            await asker.ask(Extender(url, tls=Tls(ca=ours.ca, server_name=NAME)), "filter", {})


async def test_a_key_leaves_no_trace(
    papers: Papers, asker: HttpExtenders, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: Any
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    modes = []
    load = ssl.SSLContext.load_cert_chain

    def watched(context: ssl.SSLContext, path: str, **options: Any) -> None:
        modes.append(Path(path).stat().st_mode & 0o777)
        load(context, path, **options)

    monkeypatch.setattr(ssl.SSLContext, "load_cert_chain", watched)
    tls = Tls(insecure=True, certificate=papers.text("client.pem"), key=papers.text("server.key"))
    with caplog.at_level(logging.DEBUG), pytest.raises(ExtenderFailed) as failure:
        await asker.ask(Extender("https://127.0.0.1:1", tls=tls), "filter", {})
    assert "mismatch" in str(failure.value).lower()
    assert modes == [0o600]
    assert os.listdir(tmp_path) == []
    for secret in papers.text("server.key").splitlines()[1:-1]:
        assert secret not in f"{failure.value} {caplog.text} {tls!r} {Extender('https://a', tls=tls)!r}"


async def test_a_question_keeps_its_connection_until_it_is_answered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(extenders, "KEPT_SESSIONS", 1)
    asked, over = asyncio.Event(), asyncio.Event()

    async def think(request: web.Request) -> web.Response:
        asked.set()
        await over.wait()
        return web.json_response({"NodeNames": ["a"]})

    async def answer(request: web.Request) -> web.Response:
        return web.json_response({})

    app = web.Application()
    app.router.add_post("/slow", think)
    app.router.add_post("/quick", answer)
    asker = HttpExtenders(EVERYWHERE)
    async with listening(app) as port:
        slow = asyncio.ensure_future(asker.ask(Extender(f"http://127.0.0.1:{port}"), "slow", {}))
        await asked.wait()
        for number in range(3):
            await asker.ask(Extender(f"http://127.0.0.1:{port}", tls=Tls(server_name=str(number))), "quick", {})
        over.set()
        assert await slow == {"NodeNames": ["a"]}
    await asker.close()


async def test_few_connections_are_kept_however_often_certificates_change(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(extenders, "KEPT_SESSIONS", 3)
    server.answer("POST", PATH, Answer())
    asker = HttpExtenders(EVERYWHERE)
    try:
        for number in range(10):
            await asker.ask(at(server, tls=Tls(server_name=str(number))), "filter", {})
        assert len(asker.sessions) == 3
    finally:
        await asker.close()
