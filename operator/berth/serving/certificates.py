"""The certificate that HTTPS is served with: given in files, or made by Berth for itself.

Given files are checked again from time to time, because cert-manager or a rotated Secret renews them; new connections
use the new pair. If the files are invalid at that moment, because only one of the two has been replaced, the last good
pair stays, and this is logged once.

A self-made certificate proves nothing to a client that does not know it; it is there so that tokens are not sent in the
clear. It lives in memory. Python's ssl reads certificates from files only, so it gets a file without a name (memfd) or,
on systems without those, one that only we can read and that is deleted at once. It is renewed long before it expires.
"""

import contextlib
import logging
import os
import socket
import ssl
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path
from typing import Protocol

LOOK_SECONDS = 10.0
VALID_DAYS = 365
RENEWED_SECONDS = 180 * 24 * 3600.0
BACKDATED = timedelta(hours=1)  # clocks of clients differ

_log = logging.getLogger(__name__)


class BadCertificate(Exception):
    """The certificate or the key is invalid; str() names the flag and says why."""


class Certificates(Protocol):
    """The certificate that is served now."""

    def context(self) -> ssl.SSLContext:
        """Returns the context for the next connection. Never raises after its first success."""
        ...


@dataclass(frozen=True, slots=True)
class Pair:
    """Files of a certificate, with its chain, and of the key to it; `flags` is how the flags begin that name them."""

    certificate: Path
    key: Path
    flags: str = "--tls"

    @property
    def certificate_flag(self) -> str:
        return f"{self.flags}-cert-file {self.certificate}"

    @property
    def key_flag(self) -> str:
        return f"{self.flags}-private-key-file {self.key}"


class GivenCertificates:
    """Certificates from files, read again when they change. Raises BadCertificate if they are invalid at the start."""

    def __init__(self, pair: Pair, now: Callable[[], float] = time.monotonic) -> None:
        self._pair = pair
        self._now = now
        self._looked_seconds = now()
        self._seen = _look(pair)
        self._pem, self._context = _load(pair)
        self._complained = False

    def context(self) -> ssl.SSLContext:
        self._look_again()
        return self._context

    def pem(self) -> bytes:
        """Returns certificate and key, for a context with settings of its own."""
        self._look_again()
        return self._pem

    def _look_again(self) -> None:
        if self._now() - self._looked_seconds >= LOOK_SECONDS:
            self._looked_seconds = self._now()
            self._read_again()

    def _read_again(self) -> None:
        seen = _look(self._pair)
        if seen == self._seen:
            return
        try:
            self._pem, self._context = _load(self._pair)
        except BadCertificate as error:
            if not self._complained:
                _log.error("The certificate has changed and cannot be used, the last one stays: %s", error)
            self._complained = True
            return
        self._seen = seen
        self._complained = False
        _log.info("The certificate has been read again from %s", self._pair.certificate)


class SelfMadeCertificates:
    """A certificate of our own, made on first use, which no start waits for, and renewed after half its lifetime."""

    def __init__(self, now: Callable[[], float] = time.monotonic) -> None:
        self._now = now
        self._made_seconds = 0.0
        self._context: ssl.SSLContext | None = None

    def context(self) -> ssl.SSLContext:
        if self._context is None or self._now() - self._made_seconds >= RENEWED_SECONDS:
            self._made_seconds = self._now()
            self._context = context_of(make_pem())
        return self._context


# --- contexts --------------------------------------------------------------------------------------------------------


def _new_context() -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.options |= ssl.OP_NO_RENEGOTIATION | ssl.OP_NO_COMPRESSION
    context.set_alpn_protocols(["http/1.1"])
    return context


def _look(pair: Pair) -> tuple[object, ...]:
    """Returns a value that changes whenever one of the files is replaced or written."""
    seen: list[object] = []
    for path in (pair.certificate, pair.key):
        try:
            status = path.stat()
            seen.append((status.st_ino, status.st_dev, status.st_mtime_ns, status.st_size))
        except OSError:
            seen.append(None)
    return tuple(seen)


def _load(pair: Pair) -> tuple[bytes, ssl.SSLContext]:
    pem = b""
    for flag, path in ((pair.certificate_flag, pair.certificate), (pair.key_flag, pair.key)):
        try:
            pem += path.read_bytes() + b"\n"
        except OSError as error:
            raise BadCertificate(f"{flag}: {error.strerror or error}") from error
    context = _new_context()
    try:
        context.load_cert_chain(pair.certificate, pair.key, password=_no_password)
    except ssl.SSLError as error:
        raise BadCertificate(_describe(pair, error)) from error
    except (OSError, ValueError) as error:
        raise BadCertificate(f"{pair.key_flag}: {error}") from error
    return pem, context


def _no_password() -> str:
    """OpenSSL would ask for one on the terminal."""
    raise ValueError("the key is encrypted, and nobody is there to be asked for its password: give it in the clear")


def _describe(pair: Pair, error: ssl.SSLError) -> str:
    if error.reason == "KEY_VALUES_MISMATCH":
        return f"{pair.key_flag}: is not the key to the certificate in {pair.certificate}"
    if _holds_certificate(pair.certificate):
        return f"{pair.key_flag}: holds no private key in PEM ({error.reason or error})"
    return f"{pair.certificate_flag}: holds no certificate in PEM ({error.reason or error})"


def _holds_certificate(path: Path) -> bool:
    try:
        ssl.create_default_context().load_verify_locations(cadata=path.read_text(errors="replace"))
    except (ssl.SSLError, ValueError, OSError):
        return False
    return True


# --- self-made -------------------------------------------------------------------------------------------------------


def context_of(pem: bytes) -> ssl.SSLContext:
    """Returns a new context that serves this certificate."""
    context = _new_context()
    with _private_file(pem) as path:
        context.load_cert_chain(path)
    return context


@contextlib.contextmanager
def _private_file(content: bytes) -> Iterator[str]:
    """A path under which the content can be read, by us and now only."""
    if hasattr(os, "memfd_create"):
        handle = os.memfd_create("certificate", os.MFD_CLOEXEC)
        try:
            os.write(handle, content)
            yield f"/proc/self/fd/{handle}"
        finally:
            os.close(handle)
    else:
        with tempfile.NamedTemporaryFile() as file:
            file.write(content)
            file.flush()
            yield file.name


def make_pem(*names: str) -> bytes:
    """Returns a fresh key and its certificate for this host, or for hosts of these names."""
    # Costs a tenth of a second, and only those need it who serve HTTPS without a certificate of their own.
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec
    from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

    key, now = ec.generate_private_key(ec.SECP256R1()), datetime.now(UTC)
    hosts = names or (socket.gethostname() or "berth", "localhost")
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, hosts[0][:64])])
    alternatives = [x509.DNSName(host) for host in dict.fromkeys(hosts) if host.isascii()]
    addresses = [x509.IPAddress(ip_address(one)) for one in ("127.0.0.1", "::1")]
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - BACKDATED)
        .not_valid_after(now + timedelta(days=VALID_DAYS))
        .add_extension(x509.SubjectAlternativeName([*alternatives, *addresses]), critical=False)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        .sign(key, hashes.SHA256())
    )
    private = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    return private + certificate.public_bytes(serialization.Encoding.PEM)
