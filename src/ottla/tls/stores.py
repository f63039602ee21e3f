"""Keys and certificates from PEM and PKCS12, whatever a file's name or type say: its first bytes tell.

Java's keytool writes PKCS12 since Java 9, also into files called .jks. A real JKS file is refused with the command
that converts it.
"""

from __future__ import annotations

import re
from typing import Any, NamedTuple

_PKCS12, _JKS = b"\x30", b"\xfe\xed\xfe\xed"
_CERTIFICATES = re.compile(r"-----BEGIN CERTIFICATE-----.+?-----END CERTIFICATE-----", re.DOTALL)
_REVOKED = re.compile(r"-----BEGIN X509 CRL-----.+?-----END X509 CRL-----", re.DOTALL)
_KEY = re.compile(r"-----BEGIN (?:[A-Z]+ )?PRIVATE KEY-----.+?-----END (?:[A-Z]+ )?PRIVATE KEY-----", re.DOTALL)


class StoreUnreadable(ValueError):
    """The reason why keys or certificates cannot be read, in a sentence."""


class Key(NamedTuple):
    """A private key with its chain, as PEM; the key may be encrypted."""

    key: str
    chain: str
    password: str | None


def read_key(location: str, store_password: str | None, key_password: str | None) -> Key:
    """The private key and the chain in a file."""
    data = _read(location)
    if _is_pem(data):
        return pem_key(_text(data, location), _text(data, location), key_password or store_password, location)
    from cryptography.hazmat.primitives import serialization

    key, certificate, others = _pkcs12(data, location, store_password)
    if key is None or certificate is None:
        raise StoreUnreadable(f"{location} holds no private key with its certificate")
    encoding, private = serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8
    pem = key.private_bytes(encoding, private, serialization.NoEncryption()).decode()
    chain = "".join(each.public_bytes(encoding).decode() for each in (certificate, *others))
    return Key(pem, chain, None)


def pem_key(key: str, chain: str, password: str | None, where: str) -> Key:
    """The private key and the chain in PEM texts, with what else they hold left out."""
    found, certificates = _KEY.search(key), _CERTIFICATES.findall(chain)
    if found is None:
        raise StoreUnreadable(f"{where} holds no private key in PEM")
    if not certificates:
        raise StoreUnreadable(f"{where} holds no certificate in PEM")
    return Key(found[0] + "\n", "\n".join(certificates) + "\n", password)


def read_trusted(location: str, password: str | None) -> str:
    """The trusted certificates in a file, as PEM."""
    data = _read(location)
    if _is_pem(data):
        return pem_trusted(_text(data, location), location)
    from cryptography.hazmat.primitives import serialization

    _, certificate, others = _pkcs12(data, location, password)
    all_of_them = [each for each in (certificate, *others) if each is not None]
    if not all_of_them:
        raise StoreUnreadable(f"{location} holds no certificate")
    return "".join(each.public_bytes(serialization.Encoding.PEM).decode() for each in all_of_them)


def pem_trusted(text: str, where: str) -> str:
    """The certificates in a PEM text, and the lists of those that are revoked."""
    certificates = _CERTIFICATES.findall(text)
    if not certificates:
        raise StoreUnreadable(f"{where} holds no certificate in PEM")
    return "\n".join([*certificates, *_REVOKED.findall(text)]) + "\n"


def names_revoked(trusted: str) -> bool:
    """True if trusted certificates come with a list of revoked ones."""
    return _REVOKED.search(trusted) is not None


def _read(location: str) -> bytes:
    try:
        with open(location, "rb") as file:
            return file.read()
    except OSError as fault:
        raise StoreUnreadable(f"{location} cannot be read: {fault.strerror}") from fault


def _text(data: bytes, location: str) -> str:
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError:
        raise StoreUnreadable(f"{location} is not PEM: it is not text") from None


def _is_pem(data: bytes) -> bool:
    return b"-----BEGIN " in data


def _pkcs12(data: bytes, location: str, password: str | None) -> tuple[Any, Any, list[Any]]:
    if data.startswith(_JKS):
        raise StoreUnreadable(
            f"{location} is a keystore of Java's older kind; convert it: keytool -importkeystore -srckeystore "
            f"{location} -destkeystore {location}.p12 -deststoretype PKCS12"
        )
    if not data.startswith(_PKCS12):
        raise StoreUnreadable(f"{location} is neither PEM nor PKCS12")
    try:
        from cryptography.hazmat.primitives.serialization import pkcs12
    except ImportError:
        raise StoreUnreadable(
            f"{location} is PKCS12, for which the package cryptography is needed: pip install 'ottla[security]', or "
            "give PEM files"
        ) from None
    try:
        store = pkcs12.load_pkcs12(data, None if password is None else password.encode())
    except ValueError:
        raise StoreUnreadable(f"{location} cannot be opened: its password is another, or it is damaged") from None
    own = None if store.cert is None else store.cert.certificate
    return store.key, own, [each.certificate for each in store.additional_certs]
