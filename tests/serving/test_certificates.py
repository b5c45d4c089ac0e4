"""What HTTPS is served with: given certificates, renewed ones, bad ones, self-made ones."""

import asyncio
import contextlib
import os
import socket
import ssl
import stat
import tempfile
from collections.abc import Callable
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.x509.oid import NameOID

from berth.serving import certificates
from berth.serving.addresses import BadAddress, ListenAddress, listen, parse_http_address, parse_https_address
from berth.serving.certificates import BadCertificate, GivenCertificates, Pair, SelfMadeCertificates
from berth.serving.loop_watchdog import LoopWatchdog
from berth.serving.server import CannotServe, Server, ServingPlan
from serving.authority import write_pair
from serving.harness import LOOPBACK, FakeReviews, RunningServer, make_state, serving, trusting


async def served_name(running: RunningServer) -> str:
    """Whom the certificate that we get is for."""
    _, writer = await asyncio.open_connection("127.0.0.1", running.server.https_port, ssl=trusting())
    raw = writer.get_extra_info("ssl_object").getpeercert(binary_form=True)
    writer.close()
    await writer.wait_closed()
    subject = x509.load_der_x509_certificate(raw).subject
    return str(subject.get_attributes_for_oid(NameOID.COMMON_NAME)[0].value)


async def test_a_given_certificate_is_served_and_its_successor_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(certificates, "LOOK_SECONDS", 0.0)
    first, second = write_pair(tmp_path, "first"), write_pair(tmp_path, "second")
    # As kubelet mounts a Secret: the files are links through one folder, which is exchanged as a whole.
    for pair, folder in ((first, "..1"), (second, "..2")):
        (tmp_path / folder).mkdir()
        os.link(pair.certificate, tmp_path / folder / "tls.crt")
        os.link(pair.key, tmp_path / folder / "tls.key")
    (tmp_path / "..data").symlink_to("..1")
    mounted = Pair(tmp_path / "..data" / "tls.crt", tmp_path / "..data" / "tls.key")
    async with serving(pair=mounted) as running:
        assert await served_name(running) == "first"
        (tmp_path / "new").symlink_to("..2")
        (tmp_path / "new").rename(tmp_path / "..data")
        assert await served_name(running) == "second"
        assert await served_name(running) == "second"
    assert not [record for record in caplog.records if record.levelname == "ERROR"]


async def test_half_a_renewal_changes_nothing_and_is_complained_of_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(certificates, "LOOK_SECONDS", 0.0)
    pair, later = write_pair(tmp_path, "first"), write_pair(tmp_path, "second")
    async with serving(pair=pair) as running:
        later.certificate.replace(pair.certificate)
        assert [await served_name(running) for _ in range(3)] == ["first"] * 3
        assert caplog.text.count("cannot be used, the last one stays") == 1
        later.key.replace(pair.key)
        assert await served_name(running) == "second"


def test_files_are_looked_at_every_ten_seconds_only(tmp_path: Path) -> None:
    now = [0.0]
    pair, later = write_pair(tmp_path, "first"), write_pair(tmp_path, "second")
    given = GivenCertificates(pair, lambda: now[0])
    first = given.context()
    later.certificate.replace(pair.certificate)
    later.key.replace(pair.key)
    now[0] = 9.9
    assert given.context() is first
    now[0] = 10.0
    assert given.context() is not first


def unreadable(pair: Pair, folder: Path) -> Pair:
    return Pair(folder / "nowhere.crt", pair.key)


def without_key(pair: Pair, folder: Path) -> Pair:
    return Pair(pair.certificate, folder / "nowhere.key")


def unmatched(pair: Pair, folder: Path) -> Pair:
    return Pair(pair.certificate, write_pair(folder, "other").key)


def no_certificate(pair: Pair, folder: Path) -> Pair:
    return Pair(pair.key, pair.key)


def no_key(pair: Pair, folder: Path) -> Pair:
    return Pair(pair.certificate, pair.certificate)


def encrypted(pair: Pair, folder: Path) -> Pair:
    return write_pair(folder, "locked", password=b"secret")


@pytest.mark.parametrize(
    ("spoil", "words"),
    [
        (unreadable, "--tls-cert-file .*nowhere.crt: No such file"),
        (without_key, "--tls-private-key-file .*nowhere.key: No such file"),
        (unmatched, "--tls-private-key-file .*other.key: is not the key to the certificate in"),
        (no_certificate, "--tls-cert-file .*: holds no certificate in PEM"),
        (no_key, "--tls-private-key-file .*: holds no private key in PEM"),
        (encrypted, "--tls-private-key-file .*: the key is encrypted"),
    ],
)
def test_what_cannot_be_served_with_is_named(tmp_path: Path, spoil: Callable[[Pair, Path], Pair], words: str) -> None:
    pair = spoil(write_pair(tmp_path, "good"), tmp_path)
    with pytest.raises(BadCertificate, match=words):
        GivenCertificates(pair)


@pytest.mark.parametrize("has_memfd", [True, False])
def test_a_self_made_certificate_leaves_nothing_on_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, has_memfd: bool
) -> None:
    made: list[int] = []
    original = tempfile.NamedTemporaryFile

    def record(*arguments: object, **more: object) -> object:
        file = original(dir=tmp_path)
        made.append(stat.S_IMODE(os.fstat(file.fileno()).st_mode))
        return file

    monkeypatch.setattr(tempfile, "NamedTemporaryFile", record)
    if not has_memfd:
        monkeypatch.delattr(os, "memfd_create")
    open_before = set(os.listdir("/proc/self/fd"))
    SelfMadeCertificates().context()
    assert set(os.listdir("/proc/self/fd")) == open_before
    assert not list(tmp_path.iterdir())
    assert made == ([] if has_memfd else [0o600])


async def test_a_self_made_certificate_is_for_this_host_and_made_anew_in_time() -> None:
    now = [0.0]
    own = SelfMadeCertificates(lambda: now[0])
    first = own.context()
    assert own.context() is first
    now[0] = certificates.RENEWED_SECONDS
    assert own.context() is not first
    async with serving() as running:
        assert await served_name(running) == socket.gethostname()[:64]


@pytest.mark.filterwarnings("ignore:ssl.TLSVersion:DeprecationWarning")
@pytest.mark.parametrize(("version", "served"), [("TLSv1_1", False), ("TLSv1_2", True), ("TLSv1_3", True)])
async def test_tls_begins_with_1_2(version: str, served: bool) -> None:
    client = trusting()
    client.set_ciphers("ALL:@SECLEVEL=0")
    client.minimum_version = ssl.TLSVersion.TLSv1
    client.maximum_version = ssl.TLSVersion[version]
    async with serving() as running:
        try:
            _, writer = await asyncio.open_connection("127.0.0.1", running.server.https_port, ssl=client)
        except (ssl.SSLError, ConnectionError):
            assert not served
        else:
            assert served
            writer.close()
            await writer.wait_closed()


async def test_plain_http_is_not_spoken_where_https_is() -> None:
    async with serving() as running:
        reader, writer = await asyncio.open_connection("127.0.0.1", running.server.https_port)
        writer.write(b"GET /livez HTTP/1.1\r\nHost: x\r\n\r\n")
        with contextlib.suppress(ConnectionError):
            assert b"HTTP" not in await reader.read()
        writer.close()


# --- addresses -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("flag", ["--https-address", "--http-address"])
async def test_an_address_that_is_taken_is_named_and_nothing_stays_open(
    monkeypatch: pytest.MonkeyPatch, flag: str
) -> None:
    opened: list[socket.socket] = []

    def listen_and_note(address: ListenAddress) -> socket.socket:
        opened.append(listen(address))
        return opened[-1]

    monkeypatch.setattr("berth.serving.server.listen", listen_and_note)
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = ListenAddress("127.0.0.1", taken.getsockname()[1])
        plan = ServingPlan(address, LOOPBACK) if flag == "--https-address" else ServingPlan(LOOPBACK, address)
        server = Server(plan, make_state(), FakeReviews(), LoopWatchdog())
        with pytest.raises(CannotServe, match=f"{flag} 127.0.0.1:.*: Address already in use"):
            await server.start()
        assert [listener.fileno() for listener in opened] == ([] if flag == "--https-address" else [-1])
        await server.stop()


@pytest.mark.parametrize("text", ["127.0.0.1:10261", "[::1]:0", "localhost:80", "127.1.2.3:5"])
def test_loopback_addresses_are_taken(text: str) -> None:
    assert parse_http_address(text).port == int(text.rpartition(":")[2])


@pytest.mark.parametrize("text", ["0.0.0.0:80", ":80", "10.0.0.1:80", "example.com:80", "[::]:80"])
def test_plain_http_elsewhere_is_refused(text: str) -> None:
    with pytest.raises(BadAddress, match="loopback"):
        parse_http_address(text)
    assert str(parse_https_address(text)) == text


@pytest.mark.parametrize(
    "text", ["127.0.0.1", "127.0.0.1:x", "127.0.0.1:99999", "127.0.0.1:-1", "::1:80", "[::1:80", "http://x:80", ""]
)
def test_an_invalid_address_is_refused(text: str) -> None:
    for parse in (parse_http_address, parse_https_address):
        with pytest.raises(BadAddress, match="is not an address"):
            parse(text)


async def test_both_families_are_served_where_no_host_is_given() -> None:
    server = Server(ServingPlan(ListenAddress("", 0)), make_state(), FakeReviews(), LoopWatchdog())
    await server.start()
    try:
        for host in ("127.0.0.1", *(["::1"] if socket.has_dualstack_ipv6() else [])):
            _, writer = await asyncio.open_connection(host, server.https_port, ssl=trusting())
            writer.close()
            await writer.wait_closed()
    finally:
        await server.stop()
