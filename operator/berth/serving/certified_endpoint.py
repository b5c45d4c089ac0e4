"""What endpoints with a certificate of their own have in common: the address, the certificate, the port, the counts."""

import socket
from collections import Counter

from berth.serving.addresses import ListenAddress
from berth.serving.serving_certificate import ServedCertificate


class CertifiedEndpoint:
    """The common part of implementations of `berth.serving.server.Endpoint`; the certificate is read in its thread."""

    def __init__(self, address: ListenAddress, certificate: ServedCertificate) -> None:
        self.address = address
        self.certificate = certificate
        self.connections: Counter[str] = Counter()
        self._port = 0

    @property
    def port(self) -> int:
        """The port that is served on; 0 before that."""
        return self._port

    def prepare(self) -> None:
        """Reads the certificate; raises BadCertificate."""
        self.certificate.prepare()

    def note_port(self, opened: socket.socket) -> None:
        self._port = int(opened.getsockname()[1])
