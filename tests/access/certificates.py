"""Certificates for tests: an authority, and what it signs."""

from __future__ import annotations

import datetime
import ipaddress
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.serialization import pkcs12
from cryptography.x509.oid import NameOID

_PEM, _PKCS8 = serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8
DAY = datetime.timedelta(days=1)


@dataclass(frozen=True)
class Signed:
    """A certificate with its key."""

    certificate: x509.Certificate
    key: ec.EllipticCurvePrivateKey

    @property
    def certificate_pem(self) -> str:
        return self.certificate.public_bytes(_PEM).decode()

    def key_pem(self, password: str | None = None) -> str:
        how: serialization.KeySerializationEncryption = serialization.NoEncryption()
        if password is not None:
            how = serialization.BestAvailableEncryption(password.encode())
        return self.key.private_bytes(_PEM, _PKCS8, how).decode()

    def file(self, directory: Path, name: str = "key.pem") -> str:
        """The key and the certificate in one PEM file."""
        path = directory / name
        path.write_text(self.key_pem() + self.certificate_pem)
        return str(path)

    def store(self, directory: Path, password: str, name: str = "key.p12") -> str:
        """The same as PKCS12."""
        path = directory / name
        how = serialization.BestAvailableEncryption(password.encode())
        path.write_bytes(pkcs12.serialize_key_and_certificates(b"key", self.key, self.certificate, None, how))
        return str(path)


class Authority(Signed):
    """A certificate that signs others."""

    def sign(
        self,
        name: str,
        *,
        valid: bool = True,
        hosts: tuple[str, ...] = ("localhost",),
        addresses: tuple[str, ...] = ("127.0.0.1",),
        begins_days: int = -10,
        extensions: Sequence[x509.ExtensionType] = (),
    ) -> Signed:
        """A certificate for a name; with `valid` false it expired yesterday. `extensions` replace the host names."""
        names: list[x509.GeneralName] = [x509.DNSName(host) for host in hosts]
        names += [x509.IPAddress(ipaddress.ip_address(address)) for address in addresses]
        more = extensions or [x509.SubjectAlternativeName(names)]
        return _signed(name, self, days=30 if valid else -1, begins_days=begins_days, extensions=more)

    def revoked(self, *some: Signed) -> str:
        """The list of certificates that count no more, as PEM."""
        now = datetime.datetime.now(datetime.UTC)
        builder = x509.CertificateRevocationListBuilder().issuer_name(self.certificate.subject)
        builder = builder.last_update(now - DAY).next_update(now + DAY)
        for each in some:
            entry = x509.RevokedCertificateBuilder().serial_number(each.certificate.serial_number)
            builder = builder.add_revoked_certificate(entry.revocation_date(now - DAY).build())
        return builder.sign(self.key, hashes.SHA256()).public_bytes(_PEM).decode()


def authority(name: str = "test authority") -> Authority:
    made = _signed(name, None, days=30)
    return Authority(made.certificate, made.key)


def _signed(
    name: str,
    by: Signed | None,
    *,
    days: int,
    begins_days: int = -10,
    extensions: Sequence[x509.ExtensionType] = (),
) -> Signed:
    key = ec.generate_private_key(ec.SECP256R1())
    attributes = {NameOID.ORGANIZATION_NAME: "Acme", NameOID.COMMON_NAME: name}
    subject = x509.Name([x509.NameAttribute(oid, value) for oid, value in attributes.items()])
    now = datetime.datetime.now(datetime.UTC)
    builder = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(subject if by is None else by.certificate.subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now + begins_days * DAY)
        .not_valid_after(now + days * DAY)
        .add_extension(x509.BasicConstraints(ca=by is None, path_length=None), critical=True)
    )
    for extension in extensions:
        builder = builder.add_extension(extension, critical=False)
    return Signed(builder.sign(key if by is None else by.key, hashes.SHA256()), key)


def an_rsa_certificate(bits: int) -> str:
    """A certificate with an RSA key of so many bits, as PEM."""
    key = rsa.generate_private_key(65537, bits)
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "rsa")])
    now = datetime.datetime.now(datetime.UTC)
    builder = x509.CertificateBuilder().subject_name(name).issuer_name(name).public_key(key.public_key())
    builder = builder.serial_number(1).not_valid_before(now - DAY).not_valid_after(now + DAY)
    return builder.sign(key, hashes.SHA256()).public_bytes(_PEM).decode()
