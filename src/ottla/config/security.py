"""The options about who may come in: TLS and SASL, for all listeners and for each (`listener.name.NAME.OPTION`).

Kafka's names and meanings. `listener_security` gives what holds for one listener.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from ottla.config.connection_limits import OF_LISTENERS
from ottla.config.jaas import Jaas, WrongJaas, parse_jaas
from ottla.config.kerberos import KerberosConfig, KerberosSettings, kerberos_settings
from ottla.config.listeners import named_as_kafka_does, without
from ottla.config.oauth import OauthConfig, OauthSettings, oauth_settings, wrong_values
from ottla.config.option import ConfigError, OptionKind, OptionSet, Scope, at_least, nearest, one_of, option
from ottla.tls.settings import TlsSettings, tls_settings

PLAINTEXT, SSL, SASL_PLAINTEXT, SASL_SSL = "PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"
PROTOCOLS = {PLAINTEXT: 0, SSL: 1, SASL_PLAINTEXT: 2, SASL_SSL: 3}
"""Security protocols with their numbers in the metadata."""
MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER", "GSSAPI")
_MODULES = {
    "PLAIN": "PlainLoginModule",
    "SCRAM-SHA-256": "ScramLoginModule",
    "SCRAM-SHA-512": "ScramLoginModule",
    "OAUTHBEARER": "OAuthBearerLoginModule",
    "GSSAPI": "Krb5LoginModule",
}
_LISTENER = "listener.name."


class SecurityConfig(OptionSet):
    """The options that a listener may have of its own, and those of all."""

    # fmt: off
    sasl_enabled_mechanisms: tuple[str, ...] = option(
        "sasl.enabled.mechanisms", ("GSSAPI",), OptionKind.LIST, scope=Scope.PER_BROKER,
        doc=f"The mechanisms that a listener with SASL offers: some of {', '.join(MECHANISMS)}.",
    )
    sasl_jaas_config: str | None = option(
        "sasl.jaas.config", None, OptionKind.PASSWORD, scope=Scope.PER_BROKER,
        doc='For one listener and mechanism. For PLAIN it holds the users, as user_NAME="PASSWORD".',
    )
    connections_max_reauth_ms: int = option(
        "connections.max.reauth.ms", 0, OptionKind.LONG, check=at_least(0),
        doc="The time after which a connection with SASL must log in again; 0: never.",
    )
    sasl_server_max_receive_size: int = option(
        "sasl.server.max.receive.size", 524288, OptionKind.INT, check=at_least(1),
        doc="The most bytes of a request before its connection has logged in.",
    )
    connection_failed_authentication_delay_ms: int = option(
        "connection.failed.authentication.delay.ms", 100, OptionKind.INT, check=at_least(0),
        doc="The time before a failed login is answered and its connection closed.",
    )
    ssl_client_auth: str = option(
        "ssl.client.auth", "none", OptionKind.STRING, check=one_of("none", "requested", "required"),
        scope=Scope.PER_BROKER,
        doc="Whether clients must show a certificate.",
    )
    ssl_enabled_protocols: tuple[str, ...] = option(
        "ssl.enabled.protocols", ("TLSv1.2", "TLSv1.3"), OptionKind.LIST, scope=Scope.PER_BROKER,
        doc="The versions of TLS.",
    )
    ssl_cipher_suites: tuple[str, ...] = option(
        "ssl.cipher.suites", (), OptionKind.LIST, scope=Scope.PER_BROKER,
        doc="The cipher suites of TLS 1.2; those of TLS 1.3 are all good.",
    )
    ssl_keystore_location: str | None = option(
        "ssl.keystore.location", None, OptionKind.STRING, scope=Scope.PER_BROKER,
        doc="The file with the private key and its certificates, PEM or PKCS12. It is read again when it changes.",
    )
    ssl_keystore_type: str | None = option(
        "ssl.keystore.type", "JKS", OptionKind.STRING, scope=Scope.PER_BROKER,
        doc="Taken as Kafka does; what the file holds is seen by its first bytes.",
    )
    ssl_keystore_password: str | None = option(
        "ssl.keystore.password", None, OptionKind.PASSWORD, scope=Scope.PER_BROKER,
        doc="The password of that file.",
    )
    ssl_key_password: str | None = option(
        "ssl.key.password", None, OptionKind.PASSWORD, scope=Scope.PER_BROKER,
        doc="The password of the private key in it.",
    )
    ssl_keystore_key: str | None = option(
        "ssl.keystore.key", None, OptionKind.PASSWORD, scope=Scope.PER_BROKER,
        doc="The private key itself, as PEM, in place of a file.",
    )
    ssl_keystore_certificate_chain: str | None = option(
        "ssl.keystore.certificate.chain", None, OptionKind.PASSWORD, scope=Scope.PER_BROKER,
        doc="The certificates that go with ssl.keystore.key, as PEM.",
    )
    ssl_truststore_location: str | None = option(
        "ssl.truststore.location", None, OptionKind.STRING, scope=Scope.PER_BROKER,
        doc="The file with the trusted certificates, PEM or PKCS12.",
    )
    ssl_truststore_type: str | None = option(
        "ssl.truststore.type", "JKS", OptionKind.STRING, scope=Scope.PER_BROKER,
        doc="Like ssl.keystore.type.",
    )
    ssl_truststore_password: str | None = option(
        "ssl.truststore.password", None, OptionKind.PASSWORD, scope=Scope.PER_BROKER,
        doc="The password of that file.",
    )
    ssl_truststore_certificates: str | None = option(
        "ssl.truststore.certificates", None, OptionKind.PASSWORD, scope=Scope.PER_BROKER,
        doc="The trusted certificates themselves, as PEM, in place of a file.",
    )
    ssl_principal_mapping_rules: str = option(
        "ssl.principal.mapping.rules", "DEFAULT", OptionKind.STRING,
        doc="How a user's name is made of a certificate's subject: DEFAULT, or RULE:expression/replacement/[L|U].",
    )
    # fmt: on


LISTENER_OPTIONS = {**SecurityConfig.BY_NAME, **OauthConfig.BY_NAME, **KerberosConfig.BY_NAME}
"""Every option that a listener may have of its own, by name."""


class ListenerSecurity(NamedTuple):
    """The security of one listener. Not to be printed: some of it is secret."""

    protocol: str
    tls: TlsSettings | None
    mapping_rules: str
    mechanisms: tuple[str, ...]
    users: Mapping[str, str]
    """The users of PLAIN with their passwords."""
    reauth_ms: Mapping[str, int]
    """The longest session by mechanism; 0: no limit."""
    most_bytes: int
    failed_delay_ms: int
    oauth: OauthSettings | None = None
    """The tokens that OAUTHBEARER takes; None where the listener does not offer it."""
    kerberos: KerberosSettings | None = None
    """The key by which GSSAPI takes tickets; None where the listener does not offer it."""

    @property
    def has_sasl(self) -> bool:
        return bool(self.mechanisms)

    @property
    def asks_who(self) -> bool:
        """True if nobody is served who has not shown who they are."""
        return self.has_sasl or (self.tls is not None and self.tls.client_auth == "required")

    def __repr__(self) -> str:
        return f"ListenerSecurity({self.protocol})"


def protocols(texts: Mapping[str, str]) -> dict[str, str]:
    """The protocols in `listener.security.protocol.map`, by listener name."""
    found = {}
    for part in texts.get("listener.security.protocol.map", "").upper().split(","):
        name, colon, protocol = part.rpartition(":")
        if colon:
            found[name.strip()] = protocol.strip()
    return found


def protocol_of(name: str, texts: Mapping[str, str]) -> str:
    """A listener's protocol; empty where it has none that is known."""
    protocol = protocols(texts).get(name, name if name in PROTOCOLS else "")
    return protocol if protocol in PROTOCOLS else ""


def client_listeners(texts: Mapping[str, str]) -> list[tuple[str, str]]:
    """(name, HOST:PORT) of each listener for clients, as a file says them."""
    given = tuple(each.strip() for each in texts.get("listeners", "").split(",") if "://" in each)
    kept = without(texts.get("controller.listener.names", ""), named_as_kafka_does(given))
    return [(each.partition("://")[0], each.partition("://")[2]) for each in kept]


def texts_of(texts: Mapping[str, str], listener: str) -> dict[str, str]:
    """The options as one listener has them: its own over those of all."""
    prefix = f"{_LISTENER}{listener.lower()}."
    own = {name[len(prefix) :]: text for name, text in texts.items() if name.lower().startswith(prefix)}
    return {**texts, **own}


def listener_security(texts: Mapping[str, str], listener: str) -> tuple[ListenerSecurity, list[str]]:
    """The security of a listener, and all that is wrong with it."""
    protocol = protocol_of(listener, texts) or PLAINTEXT
    own = texts_of(texts, listener)
    problems: list[str] = []
    try:
        config = SecurityConfig.of_texts({name: text for name, text in own.items() if name in SecurityConfig.BY_NAME})
    except ConfigError as fault:
        return _nothing(protocol), [f"listener {listener}: {wrong}" for wrong in fault.problems]
    tls = None
    if protocol in (SSL, SASL_SSL):
        tls, wrong = tls_settings(own)
        problems += wrong
        if not tls.has_key:
            problems.append("ssl.keystore.location is not set: TLS needs a key and a certificate")
    mechanisms: tuple[str, ...] = ()
    users: dict[str, str] = {}
    reauth = {}
    oauth = kerberos = None
    if protocol in (SASL_PLAINTEXT, SASL_SSL):
        mechanisms = tuple(each.upper() for each in config.sasl_enabled_mechanisms)
        wrong_oauth = wrong_values(own)
        problems += wrong_oauth
        for mechanism in mechanisms:
            if mechanism not in MECHANISMS:
                problems.append(f"sasl.enabled.mechanisms: {mechanism} is not there, only {', '.join(MECHANISMS)}")
                continue
            jaas, wrong_jaas = _jaas(own, mechanism)
            problems += [] if wrong_jaas is None else [wrong_jaas]
            reauth[mechanism] = _reauth(own, mechanism, config, problems)
            if mechanism == "OAUTHBEARER" and wrong_jaas is None and not wrong_oauth:
                oauth, missing = oauth_settings(own, jaas)
                problems += missing
            if mechanism == "GSSAPI" and wrong_jaas is None:
                kerberos, missing = kerberos_settings(own, jaas, listener)
                problems += missing
            if mechanism == "PLAIN" and wrong_jaas is None:
                users = {} if jaas is None else _users(jaas)
                if not users:
                    problems.append(
                        f"PLAIN has no users: set {_LISTENER}{listener.lower()}.plain.sasl.jaas.config to "
                        'org.apache.kafka.common.security.plain.PlainLoginModule required user_NAME="PASSWORD";'
                    )
    found = ListenerSecurity(
        protocol,
        tls,
        config.ssl_principal_mapping_rules,
        mechanisms,
        users,
        reauth,
        config.sasl_server_max_receive_size,
        config.connection_failed_authentication_delay_ms,
        oauth,
        kerberos,
    )
    return found, [f"listener {listener}: {wrong}" for wrong in problems]


def unknown_listener_options(texts: Mapping[str, str], listeners: Iterable[str]) -> list[str]:
    """Options of listeners that are not there, and options that no listener can have."""
    names = {listener.lower() for listener in listeners}
    problems = []
    for name in texts:
        if not name.lower().startswith(_LISTENER):
            continue
        listener, _, rest = name[len(_LISTENER) :].partition(".")
        if listener.lower() not in names:
            problems.append(f"{name}: there is no listener {listener.upper()}{nearest(listener.lower(), names)}")
            continue
        mechanism = next((each for each in MECHANISMS if rest.startswith(each.lower() + ".")), "")
        option_name = rest[len(mechanism) + 1 :] if mechanism else rest
        known = (*LISTENER_OPTIONS, *OF_LISTENERS)
        of_another = (option_name in OauthConfig.BY_NAME and mechanism not in ("", "OAUTHBEARER")) or (
            option_name in KerberosConfig.BY_NAME and mechanism not in ("", "GSSAPI")
        )
        if of_another:
            problems.append(f"{name}: {mechanism} has no use for it")
        elif option_name not in known or (mechanism and option_name in OF_LISTENERS):
            problems.append(f"{name}: no listener has the option {option_name}{nearest(option_name, known)}")
    return problems


def _jaas(texts: Mapping[str, str], mechanism: str) -> tuple[Jaas | None, str | None]:
    """The login configuration of a mechanism: its own, or the one for all if that is of its kind."""
    own, shared = f"{mechanism.lower()}.sasl.jaas.config", "sasl.jaas.config"
    name = own if own in texts else shared
    if name not in texts:
        return None, None
    try:
        jaas = parse_jaas(texts[name])
    except WrongJaas as fault:
        return None, f"{name}: {fault}"
    if jaas.module == _MODULES[mechanism]:
        return jaas, None
    return None, None if name == shared else f"{name}: {mechanism} takes {_MODULES[mechanism]}, not {jaas.module}"


def _users(jaas: Jaas) -> dict[str, str]:
    return {name[5:]: value for name, value in jaas.options.items() if name.startswith("user_") and name[5:]}


def _reauth(texts: Mapping[str, str], mechanism: str, config: SecurityConfig, problems: list[str]) -> int:
    name = f"{mechanism.lower()}.connections.max.reauth.ms"
    if name not in texts:
        return config.connections_max_reauth_ms
    try:
        value = SecurityConfig.BY_NAME["connections.max.reauth.ms"].parse(texts[name])
    except ConfigError as fault:
        problems += fault.problems
        return 0
    assert isinstance(value, int)
    return value


def _nothing(protocol: str) -> ListenerSecurity:
    return ListenerSecurity(protocol, None, "DEFAULT", (), {}, {}, 0, 0)
