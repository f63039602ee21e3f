"""`ottla doctor`: listeners that are open, keys that others can read, certificates that are weak or about to expire."""

from __future__ import annotations

import datetime
import os
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import urlsplit

from ottla.client.admin.troubles import states
from ottla.config.listeners import host_of, is_loopback
from ottla.config.option import ConfigError
from ottla.config.resolve import read_static
from ottla.config.security import (
    PLAINTEXT,
    SASL_PLAINTEXT,
    SSL,
    ListenerSecurity,
    client_listeners,
    listener_security,
    protocol_of,
)
from ottla.tls.contexts import own_key, trusted
from ottla.tls.stores import StoreUnreadable
from ottla.web.fetch import path_of

if TYPE_CHECKING:
    from ottla.client.blocking.cluster import Cluster
    from ottla.config.oauth import OauthSettings
    from ottla.tls.authority import Facts

SOON_DAYS = 30
_OPEN = "allow.everyone.if.no.acl.found"
_WEAK_CIPHERS = ("NULL", "EXPORT", "RC4", "DES", "MD5", "ANON", "IDEA", "SEED")
_NOT_LOOKED_AT = "its certificate is not looked at: pip install 'ottla[security]'"
_RENEW = "`ottla secure renew` signs another one; brokers read a changed file within five seconds"


class SecurityFinding(NamedTuple):
    """`advice` is empty where nothing is wrong."""

    what: str
    advice: str = ""


def of_connection(
    where: str, version: str, cipher: str, certificate: bytes, now: datetime.datetime
) -> Iterator[SecurityFinding]:
    """The findings about TLS as a client meets it."""
    try:
        from ottla.tls.authority import facts_of_der
    except ModuleNotFoundError:
        yield SecurityFinding(f"{where}: {version} with {cipher}; {_NOT_LOOKED_AT}")
        return
    found = _of_certificate(f"{where}: its certificate", facts_of_der(certificate), now)
    yield from found or [SecurityFinding(f"{where}: {version} with {cipher}; its certificate is good")]


def of_brokers(cluster: Cluster) -> Iterator[SecurityFinding]:
    """The listeners of running brokers that other machines reach without a password."""
    brokers = list(cluster.plan.metadata.brokers)
    told = {
        name: cluster.run(states(cluster.plan, brokers, name))
        for name in ("listeners", "listener.security.protocol.map", "authorizer.class.name", _OPEN)
    }
    for broker in brokers:
        texts = {name: answers[broker] for name, answers in told.items() if broker in answers}
        limited = _acls_limit(texts)
        for name, host in _reachable(texts):
            yield from _of_listener(
                f"broker {broker}: listener {name} on {host}", protocol_of(name, texts), None, limited=limited
            )


def of_file(path: str, now: datetime.datetime) -> Iterator[SecurityFinding]:
    """The findings about a server.properties, and about the files that it names."""
    try:
        texts = read_static(file=path).texts
    except ConfigError as fault:
        yield from (SecurityFinding(wrong, "a broker does not start by it: mend the file") for wrong in fault.problems)
        return
    if _holds_secrets(texts):
        yield from _of_mode(path, "which holds passwords or keys")
    if (first := texts.get("ottla.first.users")) is not None:
        yield from _of_mode(first, "which holds keys of passwords")
    reachable = dict(_reachable(texts))
    limited = _acls_limit(texts)
    for name, _ in client_listeners(texts):
        security, _ = listener_security(texts, name)
        if name in reachable:
            yield from _of_listener(
                f"{path}: listener {name} on {reachable[name]}", security.protocol, security, limited=limited
            )
        yield from _of_tls(f"{path}: listener {name}", security, now)
        if security.kerberos is not None:
            yield from _of_mode(security.kerberos.keytab, "which holds the broker's key for Kerberos")
        if security.oauth is not None:
            yield from _of_tokens(f"{path}: listener {name}", security.oauth)


def _reachable(texts: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """The names and hosts of listeners that other machines reach."""
    for name, address in client_listeners(texts):
        host = host_of(address)
        if not is_loopback(host):
            yield name, host or "every address"


def _acls_limit(texts: Mapping[str, str]) -> bool:
    """True if ACLs say what somebody without a name may do."""
    return bool(texts.get("authorizer.class.name")) and texts.get(_OPEN) != "true"


def _of_listener(
    where: str, protocol: str, security: ListenerSecurity | None, *, limited: bool
) -> Iterator[SecurityFinding]:
    """`security`: None for a running broker, of which only its protocols are known."""
    open_to_all = not limited and (
        protocol == PLAINTEXT or (protocol == SSL and security is not None and not security.asks_who)
    )
    if open_to_all:
        yield SecurityFinding(
            f"{where} asks nobody who they are: everybody who reaches it may read, write and delete",
            "`ottla secure init --host NAME` makes all that SASL_SSL needs; or let it listen on 127.0.0.1",
        )
    elif protocol in (SASL_PLAINTEXT, PLAINTEXT):
        yield SecurityFinding(
            f"{where} does not encrypt: everybody on the way reads records, passwords (PLAIN) and tokens",
            "make it SASL_SSL in listener.security.protocol.map; `ottla secure init` makes certificates",
        )


def _of_tls(where: str, security: ListenerSecurity, now: datetime.datetime) -> Iterator[SecurityFinding]:
    tls = security.tls
    if tls is None:
        return
    weak = [suite for suite in tls.cipher_suites if any(part in suite.upper() for part in _WEAK_CIPHERS)]
    if weak:
        yield SecurityFinding(f"{where} allows {', '.join(weak)}", "leave ssl.cipher.suites out: OpenSSL's are good")
    if tls.keystore_location is not None:
        yield from _of_mode(tls.keystore_location, "which holds the private key")
    try:
        key, ca = own_key(tls), trusted(tls)
    except StoreUnreadable as fault:
        yield SecurityFinding(f"{where}: {fault}", "a broker does not start by it")
        return
    try:
        from ottla.tls.authority import facts
    except ModuleNotFoundError:
        yield SecurityFinding(f"{where}: {_NOT_LOOKED_AT}")
        return
    told = [] if key is None else [("its certificate", one) for one in facts(key.chain)]
    told += [] if ca is None else [("a trusted certificate", one) for one in facts(ca)]
    for what, one in told:
        yield from _of_certificate(f"{where}: {what}", one, now)
    if key is not None and not any(_of_certificate("", one, now) for _, one in told):
        yield SecurityFinding(f"{where}: its certificate is good until {told[0][1].expires:%Y-%m-%d}")


def _of_tokens(where: str, oauth: OauthSettings) -> Iterator[SecurityFinding]:
    """The findings about a listener with OAUTHBEARER."""
    url, rules = urlsplit(oauth.jwks_url), oauth.rules
    if url.scheme == "http" and not is_loopback(url.hostname or ""):
        yield SecurityFinding(
            f"{where} fetches the keys of tokens without TLS: somebody on the way can log in as everybody",
            "name an https:// URL in sasl.oauthbearer.jwks.endpoint.url",
        )
    if url.scheme == "file":
        yield from _of_mode(
            path_of(oauth.jwks_url), "which says whose tokens are taken", forbidden=0o022, can="written", mode="go-w"
        )
    if not rules.audiences:
        yield SecurityFinding(
            f"{where} takes tokens that name no audience: another program's may do here",
            "set sasl.oauthbearer.expected.audience to the name that the provider gives to this cluster",
        )
    if not rules.issuer:
        yield SecurityFinding(
            f"{where} does not look at a token's issuer: one server may sign for several",
            "set sasl.oauthbearer.expected.issuer",
        )


def _of_certificate(what: str, one: Facts, now: datetime.datetime) -> list[SecurityFinding]:
    found = []
    left = one.days_left(now)
    advice = "`ottla secure rotate-ca` replaces the authority in three steps" if one.is_authority else _RENEW
    if left < 0:
        found.append(SecurityFinding(f"{what} ({one.subject}) expired on {one.expires:%Y-%m-%d}", advice))
    elif left < SOON_DAYS:
        found.append(SecurityFinding(f"{what} ({one.subject}) expires in {left} days", advice))
    if one.weakness:
        found.append(SecurityFinding(f"{what} ({one.subject}) is weak: {one.weakness}", advice))
    return found


def _of_mode(
    path: str, why: str, *, forbidden: int = 0o077, can: str = "read", mode: str = "600"
) -> Iterator[SecurityFinding]:
    try:
        found = os.stat(path).st_mode
    except OSError as fault:
        yield SecurityFinding(f"{path}, {why}, cannot be looked at: {fault.strerror}", "a broker does not start by it")
        return
    if found & forbidden:
        yield SecurityFinding(f"{path}, {why}, can be {can} by others (mode {found & 0o777:o})", f"chmod {mode} {path}")


def _holds_secrets(texts: Mapping[str, str]) -> bool:
    return any(name.endswith(("password", "keystore.key", "jaas.config", "digest")) for name in texts)
