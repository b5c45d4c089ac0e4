"""Makes the front proxy's certificates. A module of its own: what it imports takes a tenth of a second."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Final

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from berth.sim.server.front_proxy import CLIENT, FrontProxyCredentials

VALID: Final = timedelta(days=365)


def make_credentials() -> FrontProxyCredentials:
    authority_key, client_key = ec.generate_private_key(ec.SECP256R1()), ec.generate_private_key(ec.SECP256R1())
    issuer = _name("front-proxy-ca")
    authority = (
        _builder(issuer, issuer, authority_key)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(authority_key, hashes.SHA256())
    )
    client = (
        _builder(_name(CLIENT), issuer, client_key)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.CLIENT_AUTH]), critical=False)
        .sign(authority_key, hashes.SHA256())
    )
    pem = serialization.Encoding.PEM
    key = client_key.private_bytes(pem, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    return FrontProxyCredentials(authority.public_bytes(pem).decode(), key + client.public_bytes(pem))


def _builder(subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePrivateKey) -> x509.CertificateBuilder:
    now = datetime.now(UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(hours=1))
        .not_valid_after(now + VALID)
    )


def _name(text: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text)])
