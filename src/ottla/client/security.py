"""A client's ways to show who it is and to know the broker: TLS and SASL, by Kafka's option names or librdkafka's."""

from __future__ import annotations

import dataclasses
import ssl
from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from ottla.client import kerberos, oauth
from ottla.client.settings import Setting, refused
from ottla.config.jaas import WrongJaas, parse_jaas
from ottla.config.option import nearest
from ottla.tls.contexts import client_context
from ottla.tls.settings import NAMES, TlsSettings, tls_settings
from ottla.tls.stores import StoreUnreadable

PROTOCOLS = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
BY_PASSWORD = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")
OAUTHBEARER, GSSAPI = "OAUTHBEARER", "GSSAPI"
MECHANISMS = (*BY_PASSWORD, OAUTHBEARER, GSSAPI)
_MODULES = {
    "PlainLoginModule": ("PLAIN",),
    "ScramLoginModule": ("SCRAM-SHA-256", "SCRAM-SHA-512"),
    "OAuthBearerLoginModule": (OAUTHBEARER,),
    "Krb5LoginModule": (GSSAPI,),
}
_LIBRDKAFKA = {
    "ssl.ca.location": "ssl.truststore.location",
    "ssl.ca.pem": "ssl.truststore.certificates",
    "ssl.certificate.pem": "ssl.keystore.certificate.chain",
    "ssl.key.pem": "ssl.keystore.key",
}
"""librdkafka's names, and Kafka's for the same."""
OPTIONS = (
    "security.protocol",
    "sasl.mechanism",
    "sasl.mechanisms",
    "sasl.jaas.config",
    "sasl.username",
    "sasl.password",
    "ssl.protocol",
    *(name for name in NAMES if name != "ssl.client.auth"),
    *_LIBRDKAFKA,
    *oauth.OPTIONS,
    *kerberos.OPTIONS,
)
"""The options that are taken, Kafka's and librdkafka's."""


@dataclasses.dataclass(frozen=True, slots=True)
class Security:
    """Made by `security_of`. It can be pickled: contexts are made where connections are."""

    protocol: str = "PLAINTEXT"
    tls: TlsSettings = dataclasses.field(default_factory=TlsSettings, repr=False)
    mechanism: str = ""
    user: str = dataclasses.field(default="", repr=False)
    password: str = dataclasses.field(default="", repr=False)
    by_token: bool = False
    """True if the user is a delegation token's id, and the password its HMAC."""
    tokens: oauth.TokenSource | None = dataclasses.field(default=None, repr=False)
    """The way to tokens of an identity provider; None for other mechanisms."""
    tickets: kerberos.TicketSource | None = None
    """The way to Kerberos' tickets; None for other mechanisms."""

    @property
    def has_sasl(self) -> bool:
        """True if the client logs in."""
        return self.protocol.startswith("SASL_")

    def context(self) -> ssl.SSLContext | None:
        """The context of TLS, the same for all connections; None without TLS. OSError says what keeps it from being."""
        return _context(self.tls) if self.protocol.endswith("SSL") else None


PLAINTEXT = Security()


@lru_cache(maxsize=16)
def _context(settings: TlsSettings) -> ssl.SSLContext:
    try:
        return client_context(settings)
    except StoreUnreadable as fault:
        raise OSError(str(fault)) from None


def security_of(properties: Mapping[str, Any]) -> Security:
    """The security in a client's options; options of other kinds are passed over. ValueError names what is wrong."""
    call = properties.get(oauth.CALLBACK)
    texts = {
        name.replace("_", ".") if "." not in name else name: str(value)
        for name, value in properties.items()
        if name != oauth.CALLBACK
    }
    for theirs, name in _LIBRDKAFKA.items():
        if theirs in texts:
            texts.setdefault(name, texts[theirs])
    _refuse_unknown(texts)
    oauth.refuse_classes(texts)
    protocol = texts.get("security.protocol", "PLAINTEXT").strip().upper()
    if protocol not in PROTOCOLS:
        raise ValueError(f"security.protocol must be one of {', '.join(PROTOCOLS)}, not {protocol}")
    tls, problems = tls_settings(texts)
    if problems:
        raise ValueError("; ".join(problems))
    if not protocol.startswith("SASL_"):
        return Security(protocol, tls)
    mechanism = texts.get("sasl.mechanism", texts.get("sasl.mechanisms", "GSSAPI")).strip().upper()
    if mechanism not in MECHANISMS:
        raise ValueError(f"sasl.mechanism must be one of {', '.join(MECHANISMS)}, not {mechanism}")
    jaas = _jaas(texts, mechanism)
    if mechanism == OAUTHBEARER:
        return Security(protocol, tls, mechanism, tokens=oauth.source_of(texts, jaas, call))
    if call is not None:
        raise ValueError(f"{oauth.CALLBACK} is for sasl.mechanism={OAUTHBEARER}, not for {mechanism}")
    if mechanism == GSSAPI:
        return Security(protocol, tls, mechanism, tickets=_tickets(texts, jaas))
    return Security(protocol, tls, mechanism, *_credentials(texts, jaas, mechanism))


def _tickets(texts: Mapping[str, str], jaas: Mapping[str, str] | None) -> kerberos.TicketSource:
    try:
        return kerberos.tickets_of(texts, jaas)
    except ValueError as fault:
        if "sasl.mechanism" in texts or "sasl.mechanisms" in texts:
            raise
        raise ValueError(f"sasl.mechanism is GSSAPI where none is given, as in Kafka: {fault}") from None


def _refuse_unknown(texts: Mapping[str, str]) -> None:
    for name in texts:
        if name in OPTIONS or not name.startswith(("ssl.", "sasl.", "security.")):
            continue
        raise ValueError(f"{name} is not an option of this client{nearest(name, OPTIONS)}")


def _jaas(texts: Mapping[str, str], mechanism: str) -> Mapping[str, str] | None:
    """The options of the login module, if one is given."""
    if (line := texts.get("sasl.jaas.config")) is None:
        return None
    try:
        jaas = parse_jaas(line)
    except WrongJaas as fault:
        raise ValueError(f"sasl.jaas.config: {fault}") from None
    if mechanism not in _MODULES.get(jaas.module, ()):
        raise ValueError(f"sasl.jaas.config: {mechanism} has another login module than {jaas.module}")
    return jaas.options


def _credentials(texts: Mapping[str, str], jaas: Mapping[str, str] | None, mechanism: str) -> tuple[str, str, bool]:
    """The user, the password, and whether they are a delegation token's id and HMAC."""
    by_token = False
    user, password = texts.get("sasl.username"), texts.get("sasl.password")
    if jaas is not None:
        user, password = jaas.get("username"), jaas.get("password")
        by_token = jaas.get("tokenauth", "").lower() == "true"
        if by_token and mechanism == "PLAIN":
            raise ValueError("sasl.jaas.config: a delegation token logs in by SCRAM, not by PLAIN")
    if not user or not password:
        raise ValueError(f"{mechanism} needs a user and a password: set sasl.username and sasl.password")
    return user, password, by_token


class SecuritySetting(Setting[Security, "Security | Mapping[str, Any]"]):
    """A `Security`, or the options for one by Kafka's names."""

    allowed = 'a mapping of Kafka\'s options, as {"security.protocol": "SASL_SSL", ...}'

    def read(self, name: str, given: Any) -> Any:
        if isinstance(given, Security):
            return given
        if not isinstance(given, Mapping):
            raise refused(name, given, self.allowed, wrong_type=True)
        for key in given:
            if str(key) not in (*OPTIONS, oauth.CALLBACK):
                raise ValueError(f"security: {key} is not an option of it{nearest(str(key), OPTIONS)}")
        return security_of(given)
