"""The certificate that is served: one that was given, or one that Berth makes for itself.

Of a given one, from cert-manager for example, others tell the API server to trust it. A self-made one lives in memory,
so each replica has another: the leader has the API server trust its own (`berth.cluster.registration`). After half its
lifetime a new one is made and registered beside the old one, and served from then on. No request fails meanwhile.
"""

import asyncio
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Protocol

from berth.serving.certificates import RENEWED_SECONDS, GivenCertificates, Pair, make_pem

_BEGIN = b"-----BEGIN CERTIFICATE-----"
_END = b"-----END CERTIFICATE-----\n"


class ServedCertificate(Protocol):
    """Used in both threads."""

    def prepare(self) -> None:
        """Reads what was given; raises BadCertificate."""
        ...

    def pem(self) -> bytes:
        """Returns the key and certificate to serve."""
        ...

    async def bundle(self) -> bytes | None:
        """Returns the certificates to trust; None if others see to that."""
        ...

    def trusted(self, bundle: bytes) -> None:
        """The API server trusts these certificates from now on."""
        ...


class GivenCertificate:
    """From files, which are read again when they change."""

    def __init__(self, pair: Pair) -> None:
        self._pair = pair
        self._read: GivenCertificates | None = None

    def prepare(self) -> None:
        self._read = GivenCertificates(self._pair)

    def pem(self) -> bytes:
        assert self._read is not None, "it is prepared before it is served"
        return self._read.pem()

    async def bundle(self) -> bytes | None:
        return None

    def trusted(self, bundle: bytes) -> None:
        """It is served whatever is trusted."""


class SelfMadeCertificate:
    """Used in both threads. The first certificate is made when it is first needed."""

    def __init__(self, *names: str, now: Callable[[], float] = time.monotonic) -> None:
        self._names = names
        self._now = now
        self._lock = threading.Lock()
        self._made_seconds = 0.0
        self._pem = b""
        self._next = b""

    def prepare(self) -> None:
        """Nothing was given: it is made later."""

    def pem(self) -> bytes:
        with self._lock:
            if not self._pem:
                self._pem, self._made_seconds = make_pem(*self._names), self._now()
            return self._pem

    async def bundle(self) -> bytes:
        """Returns the one that is served, and the one that follows it."""
        return await asyncio.to_thread(self._bundle)

    def _bundle(self) -> bytes:
        current = self.pem()
        with self._lock:
            if not self._next and self._now() - self._made_seconds >= RENEWED_SECONDS:
                self._next = make_pem(*self._names)
            return certificate_of(current) + (certificate_of(self._next) if self._next else b"")

    def trusted(self, bundle: bytes) -> None:
        """If the next one is among them, it is served."""
        with self._lock:
            if self._next and certificate_of(self._next) in bundle:
                self._pem, self._next, self._made_seconds = self._next, b"", self._now()


def served_certificate(
    certificate: str | None, key: str | None, flag_prefix: str, service: str
) -> GivenCertificate | SelfMadeCertificate:
    """Returns the certificate of the files, or one that is made for the Service (namespace/name); "" for this host.

    `flag_prefix` is that of the flags that name the files.
    """
    if certificate is not None and key is not None:
        return GivenCertificate(Pair(Path(certificate), Path(key), flag_prefix))
    namespace, _, name = service.partition("/")
    return SelfMadeCertificate(*([f"{name}.{namespace}.svc"] if name else []))


def certificate_of(pem: bytes) -> bytes:
    """Returns the certificate without the key."""
    return pem[pem.index(_BEGIN) : pem.index(_END) + len(_END)]
