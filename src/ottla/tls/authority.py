"""An authority of one's own: its certificate, those that it signs, and the facts of a certificate that people ask for.

Pure but for the random numbers of keys. It needs `pip install 'ottla[security]'`.
"""

from __future__ import annotations

import datetime
import ipaddress
from collections.abc import Sequence
from typing import NamedTuple

from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.serialization import pkcs12
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

AUTHORITY_DAYS, CERTIFICATE_DAYS = 3650, 365
_DAY = datetime.timedelta(days=1)
_PEM = serialization.Encoding.PEM
_LEAST_RSA_BITS = 2048


class Issued(NamedTuple):
    """A private key and its certificate, as PEM."""

    key: str
    certificate: str

    def __repr__(self) -> str:
        return "Issued(...)"


class Facts(NamedTuple):
    """The facts of one certificate."""

    subject: str
    issuer: str
    names: tuple[str, ...]
    expires: datetime.datetime
    is_authority: bool
    weakness: str
    """The reason why its key is weak; empty if it is not."""

    def days_left(self, now: datetime.datetime) -> int:
        """Whole days until it expires; negative once it has."""
        return (self.expires - now) // _DAY


def new_authority(name: str, *, now: datetime.datetime, days: int = AUTHORITY_DAYS) -> Issued:
    """A certificate that signs others."""
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    builder = (
        _builder(subject, subject, key, now, days)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(_usage(signs=True), critical=True)
    )
    return _signed(builder, key, key)


def issue(
    by: Issued, name: str, hosts: Sequence[str], *, now: datetime.datetime, days: int = CERTIFICATE_DAYS
) -> Issued:
    """A certificate for a server that is reached by these names and addresses, signed by an authority.

    Brokers show it to one another too, so it serves both sides of a connection.
    """
    key = ec.generate_private_key(ec.SECP256R1())
    authority = x509.load_pem_x509_certificate(by.certificate.encode())
    signer = serialization.load_pem_private_key(by.key.encode(), None)
    assert isinstance(signer, ec.EllipticCurvePrivateKey)
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    both = [ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH]
    identifier = x509.AuthorityKeyIdentifier.from_issuer_public_key(signer.public_key())
    builder = (
        _builder(subject, authority.subject, key, now, days)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(_usage(signs=False), critical=True)
        .add_extension(x509.ExtendedKeyUsage(both), critical=False)
        .add_extension(x509.SubjectAlternativeName([_general(host) for host in hosts]), critical=False)
        .add_extension(identifier, critical=False)
    )
    return _signed(builder, key, signer)


def facts(pem: str) -> list[Facts]:
    """The facts of each certificate in a PEM text; ValueError if one cannot be read."""
    return [_facts(each) for each in x509.load_pem_x509_certificates(pem.encode())]


def facts_of_der(data: bytes) -> Facts:
    """The facts of a certificate as it came over a connection."""
    return _facts(x509.load_der_x509_certificate(data))


def signed_by(pem: str, authority: str) -> bool:
    """True if the first certificate of a text was signed by an authority."""
    certificate = x509.load_pem_x509_certificate(pem.encode())
    try:
        certificate.verify_directly_issued_by(x509.load_pem_x509_certificate(authority.encode()))
    except (ValueError, TypeError, InvalidSignature):
        return False
    return True


def java_truststore(pem: str, password: str) -> bytes:
    """The certificates as a truststore of Java, in PKCS12."""
    certificates = x509.load_pem_x509_certificates(pem.encode())
    named = [pkcs12.PKCS12Certificate(each, f"ca-{number}".encode()) for number, each in enumerate(certificates, 1)]
    how = serialization.BestAvailableEncryption(password.encode())
    return pkcs12.serialize_java_truststore(named, how)


def _facts(certificate: x509.Certificate) -> Facts:
    try:
        names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
        hosts = [*names.get_values_for_type(x509.DNSName), *map(str, names.get_values_for_type(x509.IPAddress))]
    except x509.ExtensionNotFound:
        hosts = []
    try:
        is_authority = certificate.extensions.get_extension_for_class(x509.BasicConstraints).value.ca
    except x509.ExtensionNotFound:
        is_authority = False
    return Facts(
        certificate.subject.rfc4514_string(),
        certificate.issuer.rfc4514_string(),
        tuple(hosts),
        certificate.not_valid_after_utc,
        is_authority,
        _weakness(certificate),
    )


def _weakness(certificate: x509.Certificate) -> str:
    key = certificate.public_key()
    if isinstance(key, rsa.RSAPublicKey) and key.key_size < _LEAST_RSA_BITS:
        return f"its RSA key has {key.key_size} bits, which is fewer than {_LEAST_RSA_BITS}"
    digest = certificate.signature_hash_algorithm
    if digest is not None and digest.name in ("md5", "sha1"):
        return f"it is signed with {digest.name.upper()}, which can be forged"
    return ""


def _builder(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePrivateKey, now: datetime.datetime, days: int
) -> x509.CertificateBuilder:
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - _DAY)  # clocks differ
        .not_valid_after(now + days * _DAY)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
    )


def _usage(*, signs: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=not signs,
        key_cert_sign=signs,
        crl_sign=signs,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )


def _general(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(host.strip("[]")))
    except ValueError:
        return x509.DNSName(host)


def _signed(
    builder: x509.CertificateBuilder, key: ec.EllipticCurvePrivateKey, by: ec.EllipticCurvePrivateKey
) -> Issued:
    private = key.private_bytes(_PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    return Issued(private.decode(), builder.sign(by, hashes.SHA256()).public_bytes(_PEM).decode())
