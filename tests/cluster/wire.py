"""A server that speaks bytes: each connection is a coroutine of the test, and what arrived is kept.

Also certificates, for servers that speak TLS.
"""

import asyncio
import datetime
import ipaddress
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID
from kubernetes_asyncio.client import Configuration

OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}"


@dataclass
class Wire:
    """The server's side."""

    port: int = 0
    connections: int = 0
    ended: int = 0
    requests: list[bytes] = field(default_factory=list)

    async def read(self, reader: asyncio.StreamReader) -> bytes:
        """One request; b"" at the end of the connection."""
        try:
            head = await reader.readuntil(b"\r\n\r\n")
        except (asyncio.IncompleteReadError, ConnectionError):
            return b""
        length = next((line[16:] for line in head.split(b"\r\n") if line.startswith(b"Content-Length: ")), b"0")
        self.requests.append(head + await reader.readexactly(int(length)))
        return self.requests[-1]


Script = Callable[[Wire, asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


def answering(*answers: bytes | None) -> Script:
    """Each request gets the next answer, the last one stays; None closes the connection without one."""
    left = list(answers)

    async def serve(wire: Wire, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while await wire.read(reader):
            answer = left.pop(0) if len(left) > 1 else left[0]
            if answer is None:
                return
            writer.write(answer)
            if b"onnection: close" in answer:
                return

    return serve


@asynccontextmanager
async def wired(script: Script, *, tls: ssl.SSLContext | None = None, host: str = "127.0.0.1") -> AsyncIterator[Wire]:
    wire = Wire()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        wire.connections += 1
        try:
            await script(wire, reader, writer)
        except (ConnectionError, asyncio.IncompleteReadError):
            pass
        finally:
            wire.ended += 1
            writer.close()

    server = await asyncio.start_server(serve, host, 0, ssl=tls)
    wire.port = server.sockets[0].getsockname()[1]
    try:
        yield wire
    finally:
        server.close()


def configuration(address: str, **fields: Any) -> Any:
    """kubernetes_asyncio's, as credentials would load it."""
    made = Configuration()
    made.host = address
    for name, value in fields.items():
        setattr(made, name, value)
    return made


@dataclass(frozen=True)
class Certificate:
    """Files of one, and of the authority that has signed it."""

    certificate: Path
    key: Path
    authority: Path


def make_certificates(folder: Path, *names: str) -> Certificate:
    """For these names or addresses, by an authority of its own."""
    folder.mkdir()
    authority_key, key = ec.generate_private_key(ec.SECP256R1()), ec.generate_private_key(ec.SECP256R1())
    authority = _sign("authority", authority_key.public_key(), "authority", authority_key, is_authority=True)
    leaf = _sign(names[0], key.public_key(), "authority", authority_key, *names)
    made = Certificate(folder / "leaf.pem", folder / "leaf.key", folder / "authority.pem")
    made.certificate.write_bytes(leaf.public_bytes(serialization.Encoding.PEM))
    made.authority.write_bytes(authority.public_bytes(serialization.Encoding.PEM))
    made.key.write_bytes(
        key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    )
    return made


def _sign(subject: str, key: Any, issuer: str, by: Any, *names: str, is_authority: bool = False) -> x509.Certificate:
    now = datetime.datetime.now(datetime.UTC)
    builder = (
        x509.CertificateBuilder()
        .subject_name(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, subject)]))
        .issuer_name(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, issuer)]))
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(days=1))
        .not_valid_after(now + datetime.timedelta(days=1))
        .add_extension(x509.BasicConstraints(ca=is_authority, path_length=None), critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key), critical=False)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(by.public_key()), critical=False)
    )
    if names:
        builder = builder.add_extension(x509.SubjectAlternativeName([_name(name) for name in names]), critical=False)
    return builder.sign(by, hashes.SHA256())


def _name(name: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(name))
    except ValueError:
        return x509.DNSName(name)
