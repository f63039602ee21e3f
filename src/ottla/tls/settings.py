"""Kafka's `ssl.*` options as one value, for a listener or for a client."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

CLIENT_AUTH = ("none", "requested", "required")
PROTOCOLS = ("TLSv1.2", "TLSv1.3")


@dataclass(frozen=True, slots=True, repr=False)
class TlsSettings:
    """The options without their prefixes; None and () where they are not given. Not printable: some are secrets."""

    keystore_location: str | None = None
    keystore_type: str | None = None
    keystore_password: str | None = None
    key_password: str | None = None
    keystore_key: str | None = None
    keystore_certificate_chain: str | None = None
    truststore_location: str | None = None
    truststore_type: str | None = None
    truststore_password: str | None = None
    truststore_certificates: str | None = None
    client_auth: str = "none"
    enabled_protocols: tuple[str, ...] = PROTOCOLS
    cipher_suites: tuple[str, ...] = ()
    endpoint_identification: str = "https"
    """Empty: a client does not compare the broker's name with its certificate."""

    @property
    def has_key(self) -> bool:
        """True if there is a certificate of this side's own."""
        return self.keystore_location is not None or self.keystore_certificate_chain is not None

    @property
    def files(self) -> tuple[str, ...]:
        """The files that are read: when one changes, a context is made anew."""
        return tuple(path for path in (self.keystore_location, self.truststore_location) if path is not None)


_TEXTS = {
    "ssl.keystore.location": "keystore_location",
    "ssl.keystore.type": "keystore_type",
    "ssl.keystore.password": "keystore_password",
    "ssl.key.password": "key_password",
    "ssl.keystore.key": "keystore_key",
    "ssl.keystore.certificate.chain": "keystore_certificate_chain",
    "ssl.truststore.location": "truststore_location",
    "ssl.truststore.type": "truststore_type",
    "ssl.truststore.password": "truststore_password",
    "ssl.truststore.certificates": "truststore_certificates",
    "ssl.client.auth": "client_auth",
    "ssl.endpoint.identification.algorithm": "endpoint_identification",
}
_LISTS = {"ssl.enabled.protocols": "enabled_protocols", "ssl.cipher.suites": "cipher_suites"}
NAMES = (*_TEXTS, *_LISTS)
"""The options that count."""


def tls_settings(texts: Mapping[str, str]) -> tuple[TlsSettings, list[str]]:
    """The settings in these options, and what is wrong with them, each in a sentence."""
    fields: dict[str, object] = {}
    for name, attribute in _TEXTS.items():
        if (text := texts.get(name)) is not None and (text.strip() or name.endswith("algorithm")):
            fields[attribute] = text.strip()
    for name, attribute in _LISTS.items():
        if (text := texts.get(name)) is not None and text.strip():
            fields[attribute] = tuple(part.strip() for part in text.split(",") if part.strip())
    settings = TlsSettings(**fields)  # type: ignore[arg-type]
    return settings, _problems(settings)


def _problems(settings: TlsSettings) -> list[str]:
    problems = []
    if settings.client_auth not in CLIENT_AUTH:
        problems.append(f"ssl.client.auth must be one of {', '.join(CLIENT_AUTH)}, not {settings.client_auth}")
    if settings.endpoint_identification.lower() not in ("https", ""):
        problems.append("ssl.endpoint.identification.algorithm must be https or empty")
    if unknown := [each for each in settings.enabled_protocols if each not in PROTOCOLS]:
        problems.append(f"ssl.enabled.protocols: {', '.join(unknown)} is not served, only {' and '.join(PROTOCOLS)}")
    stores = (
        ("keystore", settings.keystore_type, settings.keystore_location, settings.keystore_certificate_chain),
        ("truststore", settings.truststore_type, settings.truststore_location, settings.truststore_certificates),
    )
    for store, kind, location, inline in stores:
        if kind is not None and kind.upper() not in ("PEM", "PKCS12", "JKS"):
            problems.append(f"ssl.{store}.type must be PEM or PKCS12, not {kind}")
        if inline is not None and location is not None:
            problems.append(f"ssl.{store}.location and certificates in the options are both given: give one of them")
    if (settings.keystore_key is None) != (settings.keystore_certificate_chain is None):
        problems.append("ssl.keystore.key and ssl.keystore.certificate.chain belong together: give both")
    return problems
