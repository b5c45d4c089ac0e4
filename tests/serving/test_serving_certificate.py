"""The certificate that Berth makes for itself: renewed without a request that fails."""

import ssl
from pathlib import Path

import pytest
from cryptography import x509

from berth.serving.certificates import RENEWED_SECONDS, BadCertificate, Pair
from berth.serving.serving_certificate import GivenCertificate, SelfMadeCertificate, certificate_of
from serving.authority import write_pair


def names_of(pem: bytes) -> list[str]:
    certificate = x509.load_pem_x509_certificate(certificate_of(pem))
    found = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName)
    return found.value.get_values_for_type(x509.DNSName)


async def test_it_is_for_the_name_by_which_the_api_server_asks() -> None:
    certificate = SelfMadeCertificate("berth-explain.berth-system.svc")
    assert names_of(certificate.pem()) == ["berth-explain.berth-system.svc"]
    assert await certificate.bundle() == certificate_of(certificate.pem())
    assert b"PRIVATE KEY" not in await certificate.bundle()
    ssl.create_default_context().load_verify_locations(cadata=(await certificate.bundle()).decode())


async def test_a_new_one_is_served_only_once_it_is_trusted() -> None:
    now = 0.0
    certificate = SelfMadeCertificate("a.b.svc", now=lambda: now)
    first = certificate.pem()
    now = RENEWED_SECONDS
    bundle = await certificate.bundle()
    assert bundle.startswith(certificate_of(first))
    assert bundle != certificate_of(first)
    assert certificate.pem() == first

    certificate.trusted(certificate_of(first))
    assert certificate.pem() == first
    certificate.trusted(bundle)
    assert certificate.pem() != first
    assert bundle.endswith(certificate_of(certificate.pem()))
    assert await certificate.bundle() == certificate_of(certificate.pem())


async def test_one_that_is_given_is_served_as_it_is_and_others_see_to_it_that_it_is_trusted(tmp_path: Path) -> None:
    pair = write_pair(tmp_path, "given")
    certificate = GivenCertificate(pair)
    certificate.prepare()
    assert pair.certificate.read_bytes() in certificate.pem()
    assert pair.key.read_bytes() in certificate.pem()
    assert await certificate.bundle() is None


def test_one_that_cannot_be_used_is_named_by_its_flag(tmp_path: Path) -> None:
    missing = GivenCertificate(Pair(tmp_path / "a", tmp_path / "b", "--explain-tls"))
    with pytest.raises(BadCertificate, match=f"--explain-tls-cert-file {tmp_path}/a: No such file"):
        missing.prepare()
